"""After how many seconds a motion repeats, and which trajectories go through the same one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from dynid.signals import Motion, Samples, repetitions, same_motion

RATE = 33.3


def fourier(seconds: float, base: float, seed: int, noise: float = 1e-3, rate: float = RATE) -> Samples:
    """Motion of three joints whose period is 1/base s."""
    t, rng = np.arange(0.0, seconds, 1.0 / rate), np.random.default_rng(seed)
    w = 2 * np.pi * base * np.arange(1, 6)
    amplitude, phase = rng.normal(size=(3, 5)) / np.arange(1, 6), rng.uniform(0, 2 * np.pi, (3, 5))
    angle = t[:, None, None] * w + phase
    q, dq = (amplitude * np.sin(angle)).sum(axis=2), (amplitude * w * np.cos(angle)).sum(axis=2)
    q, ddq = q + noise * rng.normal(size=q.shape), np.zeros_like(q)
    return replace(Samples.from_motion(q, dq, ddq, rate=rate), trajectory="one")


def cycles(seed: int, longest: float, times: int = 12, run: int = 0) -> Samples:
    """Four moves of three joints, over and over, with pauses of up to `longest` s.    run: which, of the same moves."""
    rng, waits = np.random.default_rng(seed), np.random.default_rng([seed, run])
    poses, lasting = rng.normal(size=(4, 3)), rng.uniform(0.8, 3.0, 4)
    q, dq = list[np.ndarray](), list[np.ndarray]()
    for k in range(4 * times):
        x = np.arange(0.0, 1.0, 1.0 / (lasting[k % 4] * RATE))[:, None]
        pause = waits.uniform(0.2, longest) if longest else 0.5 + (k % 4)
        way, stand = poses[(k + 1) % 4] - poses[k % 4], round(pause * RATE)
        q += [
            poses[k % 4] + way * (10 * x**3 - 15 * x**4 + 6 * x**5),
            np.tile(poses[(k + 1) % 4], (stand, 1)),
        ]
        dq += [way * (30 * x**2 - 60 * x**3 + 30 * x**4) / lasting[k % 4], np.zeros((stand, 3))]
    position = np.concatenate(q) + 1e-4 * waits.normal(size=(sum(map(len, q)), 3))
    moved = Samples.from_motion(position, np.concatenate(dq), np.zeros_like(position), rate=RATE)
    return replace(moved, trajectory="one")


def periods(parts: Iterable[Samples], names: list[str]) -> dict[str, float]:
    found = repetitions(parts, names)
    assert all(np.isfinite(one.period) and one.seconds == one.period for one in found.values())
    assert len({one.motion for one in found.values()}) == len(found)
    return {name: one.period for name, one in found.items()}


def batches(samples: Samples, size: int) -> list[Samples]:
    return [samples.part(a, min(a + size, len(samples))) for a in range(0, len(samples), size)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("seconds", "base"), [(50.0, 0.1), (45.0, 0.0625), (300.0, 0.07), (28.0, 0.05)])
def test_the_period_of_a_fourier_motion(seconds: float, base: float, seed: int) -> None:
    """Parts of a repetition have to meet after thousands of them."""
    (found,) = periods(batches(fourier(seconds, base, seed), 400), ["one"]).values()
    assert found == pytest.approx(1.0 / base, abs=0.05 / RATE)


@pytest.mark.parametrize("seed", range(3))
def test_rest_at_both_ends_and_rows_that_are_missing_do_not_hide_it(seed: int) -> None:
    moved = fourier(60.0, 0.1, seed)
    rest = int(7.3 * RATE)
    q = np.concatenate([np.repeat(moved.q[:1], rest, 0), moved.q, np.repeat(moved.q[-1:], rest, 0)])
    dq = np.concatenate([np.zeros((rest, 3)), moved.dq, np.zeros((rest, 3))])
    whole = replace(Samples.from_motion(q, dq, np.zeros_like(q), rate=RATE), trajectory="one")
    parts = batches(whole, 200)
    del parts[4]
    assert periods(parts, ["one"])["one"] == pytest.approx(10.0, abs=0.5 / RATE)


@pytest.mark.parametrize("seed", range(5))
def test_a_motion_that_does_not_return_has_none(seed: int) -> None:
    """Incommensurable frequencies, and a period that is seen once."""
    t = np.arange(0.0, 60.0, 1.0 / RATE)
    rng = np.random.default_rng(seed)
    w, phase = 2 * np.pi * rng.uniform(0.03, 0.5, (3, 4)), rng.uniform(0, 6, (3, 4))
    angle = t[:, None, None] * w + phase
    q, dq = np.sin(angle).sum(axis=2), (w * np.cos(angle)).sum(axis=2)
    one = replace(Samples.from_motion(q, dq, np.zeros_like(q), rate=RATE), trajectory="one")
    assert periods(batches(one, 400), ["one"]) == {}
    assert periods(batches(fourier(20.0, 0.05, seed), 400), ["one"]) == {}


def test_every_trajectory_has_its_own() -> None:
    two = [replace(fourier(40.0, 0.1, 1)), replace(fourier(60.0, 0.05, 2), trajectory="two", segment=1)]
    found = periods(two, ["one", "two"])
    assert list(found) == ["one", "two"]
    assert found["two"] == pytest.approx(2.0 * found["one"], rel=1e-2)


def test_no_more_is_read_than_says_it() -> None:
    """A day's batches lie on disk."""

    def endless() -> Iterator[Samples]:
        yield from batches(fourier(40.0, 0.1, 1), 400)
        yield replace(fourier(5.0, 0.1, 1), segment=1)
        raise AssertionError

    assert periods(endless(), ["one"])["one"] == pytest.approx(10.0, abs=0.5 / RATE)


def later(samples: Samples, seconds: float, name: str, start: float = 0.0) -> Samples:
    """The motion behind so many seconds of rest, on a clock that starts at `start`."""
    rest = round(seconds * RATE)
    q = np.concatenate([np.repeat(samples.q[:1], rest, 0), samples.q])
    dq = np.concatenate([np.zeros((rest, 3)), samples.dq])
    moved = Samples.from_motion(q, dq, np.zeros_like(q), rate=RATE)
    return replace(moved, t=moved.t + start, trajectory=name)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("base", [0.04, 0.1])
def test_trajectories_that_go_through_the_same_motion(seed: int, base: float) -> None:
    """Experiments are played several times, each into a file of its own: once through, or several times."""
    runs = [
        fourier(25.0, base, seed, 1e-3),
        replace(later(fourier(25.0, base, seed, 2e-3), 3.0, "two", 100.0), segment=1),
        replace(later(fourier(25.0, base, seed + 50), 0.0, "other"), segment=2),
    ]
    found = repetitions(runs, ["one", "two", "other"])
    if base == 0.04:
        assert set(found) == {"one", "two"}
        assert np.isinf(found["one"].period)
        assert found["one"].seconds == pytest.approx(25.0, abs=0.1)
    else:
        assert set(found) == {"one", "two", "other"}
        assert found["other"].motion != found["one"].motion
        assert found["two"].period == pytest.approx(10.0, abs=0.5 / RATE)
    assert found["one"].motion == found["two"].motion
    # What the first does at 12 s, the second does at 100 + 3 + 12 s.
    first, second = (found[name].phase(np.array(t)) for name, t in (("one", 12.0), ("two", 115.0)))
    length = found["one"].seconds
    assert (float(second - first) + length / 2) % length == pytest.approx(length / 2, abs=1.0 / RATE)
    parts = {found["one"].part(float(t), 1.25) for t in np.arange(0.0, 24.0, 1.25)}
    assert {found["two"].part(float(t) + 103.0, 1.25) for t in np.arange(0.0, 24.0, 1.25)} == parts
    if "other" in found:
        assert not {found["other"].part(float(t), 1.25) for t in np.arange(0.0, 24.0, 1.25)} & parts


@pytest.mark.parametrize("seed", range(5))
def test_a_held_out_recording_of_the_same_motion(seed: int) -> None:
    def motion(samples: Samples) -> Motion:
        return Motion(samples.t, samples.q, samples.dq, samples.rate)

    one, again = fourier(25.0, 0.04, seed), later(fourier(25.0, 0.04, seed, 2e-3), 2.0, "two", 50.0)
    coarse = Motion(again.t[::2], again.q[::2], again.dq[::2], RATE / 2)
    other = motion(fourier(25.0, 0.04, seed + 50))
    assert same_motion({"one": motion(one)}, {"two": motion(again), "other": other}) == {"two": "one"}
    assert same_motion({"one": motion(one)}, {"two": coarse}) == {"two": "one"}
    # The last third of a motion that is not gone through again was not fitted.
    training = motion(one.part(0, 2 * len(one) // 3))
    assert same_motion({"one": training}, {"one": motion(one.part(2 * len(one) // 3, len(one)))}) == {}


@pytest.mark.parametrize("rate", [125.0, 1000.0])
def test_a_long_period_is_found_at_any_rate(rate: float) -> None:
    (found,) = periods(batches(fourier(90.0, 0.025, 1, rate=rate), 4000), ["one"]).values()
    assert found == pytest.approx(40.0, abs=0.5 / RATE)


@pytest.mark.parametrize("seed", range(5))
def test_pauses_that_vary_do_not_hide_a_repetition(seed: int) -> None:
    """Machines wait for others: the moves are the same, the pauses are not."""
    whole = cycles(seed, 3.0)
    one = repetitions(batches(whole, 400), ["one"])["one"]
    pauses = one.pauses
    assert pauses is not None
    assert len(pauses) == 4 * 12 - 1
    # The last pause but one ends with the last move: batches are gone through to their end.
    np.testing.assert_allclose(repetitions([whole], ["one"])["one"].pauses, pauses, atol=1e-9)
    # At the same phase of every repetition it is at the same place.
    moving = np.arange(10) * one.period + np.linspace(0.0, one.period, 40)[:, None]
    place = np.stack([np.interp(one.time(moving.ravel()), whole.t, line) for line in whole.q.T], axis=1)
    away = place.reshape(40, 10, 3).std(axis=1) / whole.q.std(axis=0)
    assert np.quantile(away, 0.9) < 0.1
    np.testing.assert_allclose(one.moving(one.time(moving.ravel())), moving.ravel(), atol=1e-9)
    inside = np.mean(pauses, axis=1)
    np.testing.assert_allclose(one.moving(inside), one.moving(pauses[:, 0]), atol=1e-9)


def test_pauses_that_last_as_long_each_time_belong_to_the_motion() -> None:
    one = repetitions([cycles(1, 0.0)], ["one"])["one"]
    assert one.pauses is None
    assert np.isfinite(one.period)


def test_recordings_of_one_motion_may_pause_otherwise() -> None:
    runs = [
        replace(cycles(3, 3.0, 1, run), trajectory=name, segment=run)
        for run, name in enumerate(("one", "two", "three"))
    ]
    runs.append(replace(cycles(4, 3.0, 1), trajectory="other", segment=3))
    found = repetitions(runs, [one.trajectory for one in runs])
    assert set(found) == {"one", "two", "three"}
    assert {one.motion for one in found.values()} == {0}
    first, second = (Motion(one.t, one.q, one.dq, RATE) for one in runs[:2])
    other = Motion(runs[3].t, runs[3].q, runs[3].dq, RATE)
    assert same_motion({"known": first}, {"again": second, "other": other}) == {"again": "known"}


def test_moves_to_other_poses_are_no_repetition_without_their_pauses_either() -> None:
    runs = [cycles(seed, 3.0, 1) for seed in range(6)]
    q, dq = (np.concatenate([getattr(one, key) for one in runs]) for key in ("q", "dq"))
    assert (
        repetitions([replace(Samples.from_motion(q, dq, 0.0 * q, rate=RATE), trajectory="one")], ["one"])
        == {}
    )
