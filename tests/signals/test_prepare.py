"""Samples made window by window equal those of one pass, whatever the windows, the chunks and the threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, UnfitDataError, UsageError, ordered_map
from dynid.identification import Experiment, open_log
from dynid.log import Log
from dynid.recording import RawChunk, Trajectory
from dynid.robot import load_robot
from dynid.signals import Preparation, Prepared
from dynid.signals import time_base as windows
from dynid.signals.prepare import prepare
from tests.robot_files import ROBOTS

MakeLog = Callable[..., Log]
PLAIN = Preparation(cutoff=5.0, rest=0.0)


class SmallReads(Log):
    """A log whose rows arrive a few at a time."""

    rows = 97

    def chunks(self, trajectory: Trajectory, rows: int = 0) -> Iterator[RawChunk]:
        return super().chunks(trajectory, self.rows)


def motion(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    w = np.array([1.1, 2.7])
    return np.sin(np.outer(t, w)), w * np.cos(np.outer(t, w)), -(w**2) * np.sin(np.outer(t, w))


def noisy(t: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q, dq, _ = motion(t)
    return q + 1e-4 * rng.normal(size=q.shape), 10 * dq + rng.normal(size=q.shape)


def uniform(count: int) -> np.ndarray:
    return np.arange(count) / 250.0


def jittered(count: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    return np.cumsum(0.004 * rng.choice([0.8, 1.0, 1.2, 2.0], p=[0.2, 0.6, 0.17, 0.03], size=count))


def gappy(count: int) -> np.ndarray:
    t = uniform(count)
    t[count // 3 :] += 0.5
    t[count // 2 :] += 3.0
    return t


Kept = dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]


def kept(prepared: Prepared) -> tuple[Kept, int]:
    """Times and filtered motion and torque of every segment, and the number of windows they came from."""
    parallel = prepared.parallel_filter()
    parts: dict[tuple[str, int], list[tuple[np.ndarray, np.ndarray]]] = {}
    windows = 0
    for samples in prepared:
        lines = np.concatenate([samples.q.T, samples.dq.T, samples.ddq.T, samples.tau.T])
        values, times = parallel.apply(np.ascontiguousarray(lines), samples)
        parts.setdefault((samples.trajectory, samples.segment), []).append((times, values))
        windows += 1
    joined = {
        key: (np.concatenate([t for t, _ in found]), np.concatenate([v for _, v in found], axis=1))
        for key, found in parts.items()
    }
    return joined, windows


def assert_same(a: Kept, b: Kept, tolerance: float) -> None:
    assert a.keys() == b.keys()
    for key, (t, values) in a.items():
        np.testing.assert_array_equal(t, b[key][0])
        scale = np.abs(values).max(axis=1, keepdims=True)
        assert (np.abs(values - b[key][1]) / scale).max() <= tolerance


@pytest.mark.parametrize("stamps", [uniform, jittered, gappy])
@pytest.mark.parametrize(
    "settings", [PLAIN, replace(PLAIN, decimate=False), replace(PLAIN, cutoff=2.0), replace(PLAIN, rest=0.5)]
)
def test_windows_equal_the_whole(
    stamps: Callable[[int], np.ndarray],
    settings: Preparation,
    make_log: MakeLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    t = stamps(9000)
    q, tau = noisy(t)
    log = make_log(t, q, tau=tau)
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 1e6)
    whole, one_each = kept(prepare(log, settings))
    assert one_each == len(whole)
    for seconds in (3.0, 7.7):
        monkeypatch.setattr(windows, "WINDOW_SECONDS", seconds)
        parts, count = kept(prepare(log, settings))
        assert count > 3
        assert_same(whole, parts, 1e-9)


@pytest.mark.parametrize("rows", [60, 1000, 4001])
@pytest.mark.parametrize("stamps", [uniform, jittered, gappy])
def test_how_rows_arrive_does_not_matter(
    rows: int, stamps: Callable[[int], np.ndarray], make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 5.0)
    t = stamps(6000)
    q, tau = noisy(t)
    log = make_log(t, q, tau=tau)
    small = SmallReads(log.robot, log.source, log.trajectories)
    small.__class__.rows = rows
    whole, few = (list(prepare(one, PLAIN).windows()) for one in (log, small))
    assert [(w.segment, w.low, w.start, w.stop, w.high) for w in whole] == [
        (w.segment, w.low, w.start, w.stop, w.high) for w in few
    ]
    for a, b in zip(prepare(log, PLAIN), prepare(small, PLAIN), strict=True):
        np.testing.assert_array_equal(a.t, b.t)
        np.testing.assert_array_equal(a.ddq, b.ddq)
        np.testing.assert_array_equal(a.keep, b.keep)


def test_threads_do_not_matter(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 4.0)
    t = jittered(8000)
    q, tau = noisy(t)
    prepared = prepare(make_log(t, q, tau=tau), PLAIN)
    one = list(ordered_map(prepared.process, prepared.windows(), 1))
    four = list(ordered_map(prepared.process, prepared.windows(), 4))
    assert len(one) == len(four) > 4
    for a, b in zip(one, four, strict=True):
        for name in ("t", "q", "dq", "ddq", "tau", "keep"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_iterating_twice_gives_the_same(make_log: MakeLog) -> None:
    t = uniform(3000)
    q, tau = noisy(t)
    prepared = prepare(make_log(t, q, tau=tau), PLAIN)
    first, second = kept(prepared)[0], kept(prepared)[0]
    assert_same(first, second, 0.0)


@pytest.mark.parametrize("velocity", ["differentiate", "measured"])
@pytest.mark.parametrize("stamps", [uniform, jittered])
def test_motion_is_recovered(velocity: str, stamps: Callable[[int], np.ndarray], make_log: MakeLog) -> None:
    t = stamps(5000)
    q, dq, _ = motion(t)
    settings = replace(PLAIN, velocity=velocity, cutoff=8.0, state_cutoff=30.0, trim=1.0)
    for samples in prepare(make_log(t, q, dq), settings):
        for found, wanted, error in zip(
            (samples.q, samples.dq, samples.ddq), motion(samples.t), (1e-3, 5e-3, 8e-2), strict=True
        ):
            np.testing.assert_allclose(found[samples.keep], wanted[samples.keep], atol=error)


def test_torque_is_only_thinned_not_smoothed(make_log: MakeLog) -> None:
    # Up to the cut-off of the parallel filter the torque comes through as it was measured.
    t = uniform(6000)
    q, *_ = motion(t)
    tau = np.column_stack([np.sin(2 * np.pi * f * t) for f in (0.5, 2.0)])
    prepared = prepare(make_log(t, q, tau=tau), replace(PLAIN, cutoff=2.0))
    assert prepared.state_decimation > 1
    for samples in prepared:
        wanted = np.column_stack([np.sin(2 * np.pi * f * samples.t) for f in (0.5, 2.0)])
        np.testing.assert_allclose(samples.tau[samples.keep], wanted[samples.keep], atol=1e-6)


def test_thinning_does_not_fold_noise(make_log: MakeLog) -> None:
    t = uniform(20_000)
    q, *_ = motion(t)
    rng = np.random.default_rng(0)
    prepared = prepare(make_log(t, q, tau=rng.normal(size=q.shape)), replace(PLAIN, cutoff=1.0))
    D = prepared.state_decimation
    assert D >= 4
    power = np.mean([np.var(samples.tau[samples.keep]) for samples in prepared])
    assert power == pytest.approx(0.8 / D, rel=0.1)


def test_the_decimation_grid_is_that_of_the_segment(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 3.3)
    t = gappy(9000)
    q, tau = noisy(t)
    prepared = prepare(make_log(t, q, tau=tau), replace(PLAIN, cutoff=1.0))
    D = prepared.state_decimation * prepared.final_decimation
    assert D > 1
    for (_, segment), (times, _) in kept(prepared)[0].items():
        start = t[[0, 3000, 4500][segment]]
        steps = (times - start) * 250.0 / D
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
        np.testing.assert_allclose(np.diff(times), D / 250.0, atol=1e-9)


def test_own_samples_cover_every_segment_once(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 3.0)
    t = gappy(6000)
    q, tau = noisy(t)
    settings = replace(PLAIN, trim=0.24, decimate=False)
    prepared = prepare(make_log(t, q, tau=tau), settings)
    times: dict[int, list[float]] = {}
    for samples in prepared:
        times.setdefault(samples.segment, []).extend(samples.t[samples.keep].tolist())
        assert samples.rate == 250.0
    edges = [0, 2000, 3000, 6000]
    for segment, (a, b) in enumerate(pairwise(edges)):
        wanted = t[a:b][(t[a:b] >= t[a] + 0.24 - 1e-9) & (t[a:b] <= t[b - 1] - 0.24 + 1e-9)]
        np.testing.assert_allclose(times[segment], wanted, atol=1e-9)


def test_short_segments_are_left_out(make_log: MakeLog) -> None:
    t = uniform(5000)
    t[2000:] += 1.0
    t[2100:] += 1.0
    q, tau = noisy(t)
    segments = {samples.segment for samples in prepare(make_log(t, q, tau=tau), PLAIN)}
    assert segments == {0, 2}


def test_holes_of_missing_rows_are_not_kept(make_log: MakeLog) -> None:
    t = uniform(5000)
    q, tau = noisy(t)
    q[1000, 0] = np.nan
    there = np.ones(len(t), dtype=np.bool_)
    there[2000:2004] = False
    prepared = prepare(make_log(t[there], q[there], tau=tau[there]), replace(PLAIN, decimate=False))
    (samples,) = prepared
    dropped = samples.t[~samples.keep & (samples.t > 1) & (samples.t < 19)]
    np.testing.assert_allclose(dropped[:4], t[2000:2004], atol=1e-9)
    assert len(dropped) <= 5
    # Across a hole the values go on smoothly.
    clean, _ = noisy(t)
    reference = next(iter(prepare(make_log(t, clean, tau=noisy(t)[1]), replace(PLAIN, decimate=False))))
    assert np.abs(samples.q - reference.q)[500:-500].max() < 2e-4


def test_a_joint_that_turns_on_has_no_jumps(make_log: MakeLog) -> None:
    t = uniform(6000)
    _, tau = noisy(t)
    q = np.column_stack([1.5 * t, 0.3 * np.sin(t)])
    wrapped = np.column_stack([(q[:, 0] + np.pi) % (2 * np.pi) - np.pi, q[:, 1]])
    log = make_log(t, wrapped, tau=tau)
    small = SmallReads(log.robot, log.source, log.trajectories)
    for one in (log, small):
        for samples in prepare(one, PLAIN):
            np.testing.assert_allclose(samples.dq[samples.keep, 0], 1.5, atol=1e-6)
            np.testing.assert_allclose(samples.q[samples.keep, 0], 1.5 * samples.t[samples.keep], atol=1e-6)


# Which velocity, which samples.


def test_source_of_velocity(make_log: MakeLog) -> None:
    t = uniform(4000)
    q, dq, _ = motion(t)
    sink = Diagnostics()
    assert prepare(make_log(t, q, dq), PLAIN, sink).settings.velocity == "measured"
    assert prepare(make_log(t, q), PLAIN, sink).settings.velocity == "differentiate"
    assert list(sink) == []
    # A lattice alone is no reason: only noise within the cut-off counts.
    assert prepare(make_log(t, q, np.round(dq, 2)), PLAIN, sink).settings.velocity == "measured"
    assert list(sink) == []
    assert prepare(make_log(t, q, np.round(dq)), PLAIN, sink).settings.velocity == "differentiate"
    assert [item.identifier for item in sink] == ["velocity"]
    with pytest.raises(UsageError, match="no velocity in the log"):
        list(prepare(make_log(t, q), replace(PLAIN, velocity="measured")))


def test_measured_velocity_is_used_not_the_position(make_log: MakeLog) -> None:
    t = uniform(4000)
    q, dq, _ = motion(t)
    for samples in prepare(
        make_log(t, q, 2 * dq), replace(PLAIN, velocity="measured", state_cutoff=30.0, trim=1.0)
    ):
        np.testing.assert_allclose(
            samples.dq[samples.keep], 2 * motion(samples.t)[1][samples.keep], atol=1e-3
        )
    for samples in prepare(
        make_log(t, q, 2 * dq), replace(PLAIN, velocity="differentiate", state_cutoff=30.0, trim=1.0)
    ):
        np.testing.assert_allclose(samples.dq[samples.keep], motion(samples.t)[1][samples.keep], atol=1e-3)


def test_rest_drops_standstill_and_gate_drops_a_slow_joint_s_equation(make_log: MakeLog) -> None:
    t = uniform(6000)
    q, *_ = motion(t)
    still = (t > 8) & (t < 14)
    q[still] = q[still][0]
    slow = replace(PLAIN, state_cutoff=30.0, decimate=False, velocity="differentiate")
    (moving,) = prepare(make_log(t, q), replace(slow, rest=0.05))
    inside = (moving.t > 8.5) & (moving.t < 13.5)
    assert not moving.keep[inside].any()
    assert moving.keep[(moving.t > 1) & (moving.t < 7)].mean() > 0.95
    (every,) = prepare(make_log(t, q), slow)
    assert every.keep[inside].all()
    assert every.gate is None
    (gated,) = prepare(make_log(t, q), replace(slow, gate=0.3))
    assert gated.gate is not None
    np.testing.assert_array_equal(gated.gate, np.abs(gated.dq) >= 0.3)


# Automatic choices.


def test_settings_are_resolved(make_log: MakeLog) -> None:
    t = uniform(8000)
    q, tau = noisy(t)
    sink = Diagnostics()
    prepared = prepare(make_log(t, q, tau=tau), None, sink)
    settings = prepared.settings
    assert "auto" not in (settings.cutoff, settings.state_cutoff, settings.trim, settings.velocity)
    assert prepared.source_rate == settings.rate == 250.0
    assert prepared.evidence is not None
    assert prepared.evidence.chosen == settings.cutoff
    assert [item.identifier for item in sink] == ["cutoff", "state-cutoff"]
    assert prepared.rate / prepared.final_decimation >= 4 * float(settings.cutoff)
    assert prepared.describe()["equation_rate_hz"] == prepared.rate / prepared.final_decimation
    again = prepare(prepared.log, settings)
    assert_same(kept(prepared)[0], kept(again)[0], 0.0)


@pytest.mark.parametrize("fastest", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("noise", [0.0, 1e-5, 2e-4])
def test_cutoff_follows_the_motion_not_the_noise(fastest: float, noise: float, make_log: MakeLog) -> None:
    t = uniform(10_000)
    rng = np.random.default_rng(1)
    q = np.column_stack(
        [np.sin(2 * np.pi * fastest * t), 0.3 * np.sin(2 * np.pi * 0.2 * t)]
    ) + noise * rng.normal(size=(len(t), 2))
    evidence = prepare(make_log(t, q)).evidence
    assert evidence is not None
    assert evidence.reach[0] == pytest.approx(fastest, abs=0.25)
    assert 2 * fastest <= evidence.chosen <= 25.0
    assert "shoulder" in evidence.reason


def test_cutoff_stays_within_the_rate(make_log: MakeLog) -> None:
    t = np.arange(2000) / 20.0
    q = np.column_stack([np.sin(2 * np.pi * 3.0 * t), np.sin(2 * np.pi * 3.3 * t)])
    prepared = prepare(make_log(t, q))
    assert float(prepared.settings.cutoff) <= 0.2 * 20.0
    with pytest.raises(UsageError, match=r"9.5 Hz at 20 samples"):
        prepare(make_log(t, q), replace(PLAIN, cutoff=9.5))


def test_a_long_pause_costs_no_memory(make_log: MakeLog) -> None:
    # A day between two motions is a gap, not a grid of a day.
    t = uniform(6000)
    t[3000:] += 86_400.0
    q, tau = noisy(t)
    prepared = prepare(make_log(t, q, tau=tau), replace(PLAIN, cutoff="auto"))
    assert len(list(prepared)) == 2


EXPERTS = {"panda_gaz": 10.0, "ur10e_innopolis": 8.0, "kr300_rptu": 8.0}


@pytest.mark.parametrize("name", EXPERTS)
def test_cutoff_comes_near_what_experts_chose(name: str, data_dir: Path, tmp_path: Path) -> None:
    robot = load_robot(ROBOTS / f"{name}.toml")
    text = (ROBOTS / f"{name}.experiment.toml").read_text()
    (tmp_path / "x.toml").write_text(text)
    experiment = Experiment.read(tmp_path / "x.toml")
    log = open_log(
        experiment, [data_dir / name / "data.parquet"], robot, experiment.data.train, Diagnostics()
    )
    evidence = prepare(log, Preparation()).evidence
    assert evidence is not None
    assert 0.5 * EXPERTS[name] <= evidence.chosen <= 2.0 * EXPERTS[name]


# What cannot be prepared.


def test_logs_that_are_too_short(make_log: MakeLog) -> None:
    t = uniform(400)
    q, tau = noisy(t)
    with pytest.raises(UnfitDataError, match=r"too-short.*1.6 s of data.*at least 4 s at .* 5 Hz"):
        prepare(make_log(t, q, tau=tau), PLAIN)


def test_mixed_rates_are_brought_together_with_a_warning(make_log: MakeLog) -> None:
    t = np.concatenate([np.arange(2000) / 250.0, np.arange(1000) / 100.0, np.arange(2000) / 250.0])
    q, tau = noisy(t)
    names = ["a"] * 2000 + ["b"] * 1000 + ["c"] * 2000
    sink = Diagnostics()
    prepared = prepare(make_log(t, q, tau=tau, names=names), PLAIN, sink)
    assert [item.identifier for item in sink] == ["mixed-rates"]
    assert "100 to 250 Hz" in str(next(iter(sink)))
    assert prepared.source_rate == 250.0
    assert [samples.trajectory for samples in prepared if samples.keep.any()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "wrong",
    [{"cutoff": 0.0}, {"cutoff": float("nan")}, {"rate": -1.0}, {"order": 0}, {"state_order": 9}, {"rest": -0.1},
     {"gate": float("nan")}, {"trim": -1.0}, {"gap": float("nan")}],
)  # fmt: skip
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=f"prepare.{name}"):
        Preparation(**wrong)  # type: ignore[arg-type]  # wrong on purpose
