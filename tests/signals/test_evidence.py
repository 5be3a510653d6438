"""Cut-off, velocity and times chosen from a log, on plants that the model does not describe."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS, regression_of
from dynid.factor import Assembly, Blocking, structural_base
from dynid.identification import DEFAULT_TERMS
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_robot
from dynid.rows import TorqueRows
from dynid.signals import Preparation, Samples, choose_cutoff, zero_phase_filter
from dynid.signals.coherence import ABOVE_SIGNAL, LEAST_BY_TORQUE, Signals, torque_coherence
from dynid.signals.prepare import prepare
from dynid.signals.state_cutoff import compare_velocities, fused
from dynid.signals.time_base import TimeBase, find_time_base, frozen_rows, times_of_messages
from tests.signals.plant import ROBOT, Run, simulate

NAMES = ("a", "b", "c")


@lru_cache(maxsize=8)
def run_of(fastest: float, seed: int = 0) -> Run:
    return simulate(fastest, seed)


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("arm") / "arm.toml"
    path.write_text(ROBOT)
    return load_robot(path)


def logged(
    run: Run, rate: int, step: float, noise: float, velocity: float | None = None, seed: int = 3
) -> Signals:
    """What is measured: positions on a lattice, noisy torque, noisy velocity (standard deviations)."""
    rng, every = np.random.default_rng(seed), 1000 // rate
    q = np.round((run.q + 0.3 * step * rng.normal(size=run.q.shape)) / step) * step
    tau = run.tau + noise * rng.normal(size=run.tau.shape)
    dq = None if velocity is None else (run.dq + velocity * rng.normal(size=run.dq.shape))[::every].T
    return Signals(q[::every].T, dq, tau[::every].T)


def file_of(folder: Path, robot: RobotModel, t: Float, signals: Signals) -> Log:
    assert signals.tau is not None
    dq = None if signals.dq is None else signals.dq.T
    columns = canonical_columns(robot.joint_names, signals.q.T, dq, signals.tau.T)
    return read_log(write_log(folder / "log.parquet", t, columns), robot)


def end_of(robot: RobotModel, signals: Signals, rate: float) -> float:
    found = torque_coherence(robot, [signals], rate)
    assert found is not None
    return found.end


# Cut-off.


@pytest.mark.parametrize("fastest", [0.5, 2.0, 5.0])
@pytest.mark.parametrize(("rate", "step"), [(1000, 1e-5), (200, 3e-4), (100, 1e-3)])
def test_signal_ends_near_the_fastest_line_of_the_motion(
    fastest: float, rate: int, step: float, arm: RobotModel
) -> None:
    # Friction that reverses has harmonics: the signal may reach somewhat farther than the motion's own lines.
    end = end_of(arm, logged(run_of(fastest), rate, step, 0.5), rate)
    assert 0.8 * fastest <= end <= max(4.0 * fastest, LEAST_BY_TORQUE)


def test_more_noise_never_ends_later(arm: RobotModel) -> None:
    run = run_of(5.0)
    for cases in (
        [logged(run, 200, 1e-5, noise) for noise in (0.1, 1.0, 10.0, 100.0)],
        [logged(run, 200, step, 0.1) for step in (1e-5, 1e-3, 1e-2, 1e-1)],
    ):
        ends = [end_of(arm, signals, 200.0) for signals in cases]
        assert (np.diff(ends) <= 0).all()
        assert ends[-1] < ends[0]


def test_cutoff_is_that_of_the_signal_not_of_the_noise(arm: RobotModel) -> None:
    # A rattling position: the share of its velocity's power alone would say 20 Hz.
    signals, rng = logged(run_of(2.0), 200, 1e-4, 1.0), np.random.default_rng(0)
    rattle = zero_phase_filter(15.0, 4, 200.0)(2e-3 * rng.normal(size=signals.q.shape))
    shaken = replace(signals, q=signals.q + rattle)
    without = choose_cutoff([shaken.q], 200.0, NAMES)
    found = torque_coherence(arm, [shaken], 200.0)
    assert found is not None
    chosen = choose_cutoff([shaken.q], 200.0, NAMES, found)
    assert without.chosen >= 15.0
    assert chosen.chosen == pytest.approx(max(ABOVE_SIGNAL * found.end, 3.0), rel=0.05)
    assert chosen.chosen <= 6.0
    assert "follows the motion" in chosen.reason


def test_a_torque_without_noise_lowers_nothing(arm: RobotModel) -> None:
    signals = logged(run_of(2.0), 200, 1e-4, 0.0)
    assert signals.tau is not None
    smooth = replace(signals, tau=zero_phase_filter(2.0, 8, 200.0)(signals.tau))
    found = torque_coherence(arm, [smooth], 200.0)
    assert found is not None
    assert found.beyond < 1e-4
    assert (
        choose_cutoff([smooth.q], 200.0, NAMES, found).chosen
        == choose_cutoff([smooth.q], 200.0, NAMES).chosen
    )


def test_scale_and_missing_torque(arm: RobotModel) -> None:
    signals = logged(run_of(2.0), 200, 1e-4, 1.0)
    assert signals.tau is not None
    scaled = replace(signals, tau=signals.tau * np.array([[3.0], [-0.5], [20.0]]))
    a, b = (torque_coherence(arm, [s], 200.0) for s in (signals, scaled))
    assert a is not None
    assert b is not None
    np.testing.assert_allclose(a.share, b.share, atol=1e-9)
    assert torque_coherence(arm, [Signals(signals.q)], 200.0) is None
    assert torque_coherence(arm, [signals.part(0, 50)], 200.0) is None


def test_the_chosen_cutoff_predicts_as_well_as_the_best(arm: RobotModel, tmp_path: Path) -> None:
    # The true torque of another motion, below 10 Hz, whatever the cut-off of the fit.
    for fastest, rate, step, noise, velocity in (
        (0.5, 200, 3e-4, 1.0, None),
        (2.0, 1000, 1e-5, 0.2, None),
        (5.0, 100, 1e-3, 0.5, 0.02),
    ):
        run, unseen = run_of(fastest), run_of(fastest, 1)
        log = file_of(tmp_path, arm, run.t[:: 1000 // rate], logged(run, rate, step, noise, velocity))
        errors = [missed(arm, log, cutoff, unseen) for cutoff in (2.0, 5.0, 8.0, 12.0)]
        assert missed(arm, log, "auto", unseen) <= 1.1 * min(errors)
        assert max(errors) > 1.0  # the model does not describe the plant


def missed(robot: RobotModel, log: Log, cutoff: float | str, unseen: Run) -> float:
    """Relative error of the true torque of an unseen motion below 10 Hz, %."""
    prepared = prepare(log, Preparation(cutoff=cutoff), Diagnostics())  # type: ignore[arg-type]  # text or number
    base = structural_base(robot, DEFAULT_TERMS, TorqueRows())
    assembly = Assembly(
        robot, DEFAULT_TERMS, TorqueRows(), base.mask, prepared.parallel_filter(), Blocking(1.0)
    )
    factors = assembly.factors(prepared, 1)
    estimate = WLS().fit(regression_of(robot, DEFAULT_TERMS, base, factors))
    samples = Samples.from_motion(unseen.q, unseen.dq, unseen.ddq, unseen.tau)
    predicted = DEFAULT_TERMS.torque(robot, samples, estimate.full_vector)
    low, inner = zero_phase_filter(10.0, 4, 1000.0), slice(500, -500)
    wrong, true = (low(np.ascontiguousarray(x.T))[:, inner] for x in (predicted - unseen.tau, unseen.tau))
    return float(100 * np.sqrt((wrong**2).sum() / (true**2).sum()))


# Velocity.


def choose_velocity(
    q: Float, dq: Float, rate: float = 200.0, cutoff: float = 8.0
) -> tuple[Float, Float, Float, Float]:
    found = compare_velocities([Signals(q, dq)], rate, cutoff, 4, NAMES)
    assert found is not None
    return found.crossover, found.derivative, found.logged, found.delay


def accelerations(noise: Float, rate: float, cutoff: float) -> Float:
    """Root mean square of the derivative of a velocity's noise behind the filter."""
    smooth = zero_phase_filter(cutoff, 4, rate)(noise)
    inner = np.gradient(smooth, 1 / rate, axis=1)[:, 100:-100]
    return np.asarray(np.sqrt(np.mean(inner**2, axis=1)))


def test_noise_of_both_velocities_is_what_was_put_in() -> None:
    run, rng = run_of(2.0), np.random.default_rng(0)
    q, dq = run.q[::5].T, run.dq[::5].T
    n_q, n_v = 2e-3 * rng.normal(size=q.shape), 0.1 * rng.normal(size=q.shape)
    _, derivative, found, delay = choose_velocity(q + n_q, dq + n_v)
    np.testing.assert_allclose(
        derivative, accelerations(np.gradient(n_q, 1 / 200.0, axis=1), 200.0, 8.0), rtol=0.35
    )
    np.testing.assert_allclose(found, accelerations(n_v, 200.0, 8.0), rtol=0.35)
    assert (np.abs(delay) < 2e-3).all()


def test_a_velocity_with_steps_is_used_where_positions_are_worse() -> None:
    run = run_of(2.0)
    q, dq = np.round(run.q[::5].T / 2e-3) * 2e-3, np.round(run.dq[::5].T / 0.0105) * 0.0105
    crossover, derivative, found, _ = choose_velocity(q, dq)
    assert (crossover == 0).all()
    assert (found < derivative).all()


def test_a_noisy_velocity_is_dropped_joint_by_joint() -> None:
    run, rng = run_of(2.0), np.random.default_rng(0)
    q, dq = run.q[::5].T, run.dq[::5].T.copy()
    dq[1] += 0.2 * rng.normal(size=dq.shape[1])
    crossover, *_ = choose_velocity(q, dq)
    np.testing.assert_array_equal(crossover, [0.0, 200.0, 0.0])
    used = fused(q, dq, 200.0, crossover)
    np.testing.assert_array_equal(used[[0, 2]], dq[[0, 2]])
    np.testing.assert_allclose(used[1, 5:-5], run.dq[::5].T[1, 5:-5], atol=1e-4)


@pytest.mark.parametrize("late", [0.02, 0.04])
def test_a_late_velocity_is_dropped_when_that_matters(late: float) -> None:
    run = run_of(2.0)
    shift = round(late * 1000)
    q, dq = run.q[shift::5].T, run.dq[:-shift:5].T
    crossover, _, _, delay = choose_velocity(q, dq)
    np.testing.assert_allclose(delay, late, atol=2e-3)
    assert (crossover == 200.0).all()
    assert choose_velocity(run.q[::5].T, run.dq[::5].T)[0].tolist() == [0.0, 0.0, 0.0]


def test_both_together_are_quieter_than_each() -> None:
    # The velocity wanders slowly, the position hisses: each is good where the other is not.
    run, rng = run_of(5.0), np.random.default_rng(0)
    true = run.dq[::5].T
    wander = zero_phase_filter(1.5, 2, 200.0)(2.0 * rng.normal(size=true.shape))
    q, dq = run.q[::5].T + 3e-3 * rng.normal(size=true.shape), true + wander
    crossover, *_ = choose_velocity(q, dq)
    assert ((crossover > 1.0) & (crossover < 8.0)).all()
    each = [accelerations(x - true, 200.0, 8.0) for x in (dq, np.gradient(q, 1 / 200.0, axis=1))]
    both = accelerations(fused(q, dq, 200.0, crossover) - true, 200.0, 8.0)
    assert (both < 0.9 * np.minimum(*each)).all()


# Times.


def polled(run: Run, seed: int = 0) -> tuple[Float, Float, Float]:
    """A source of 75 Hz polled at about 97 Hz: stamps of the polls, times of the messages, all channels."""
    rng = np.random.default_rng(seed)
    polls = np.cumsum(rng.choice([0.010, 0.011, 0.012], p=[0.7, 0.2, 0.1], size=2200)) + 0.02
    polls = polls[polls < run.t[-1]]
    times = np.floor(polls * 75.0) / 75.0
    lines = np.array([np.interp(times, run.t, x) for x in np.concatenate([run.q.T, run.tau.T])])
    return polls, times, lines


def streamed(base: TimeBase, t: Float, lines: Float, size: int = 10**6) -> tuple[Float, Float]:
    """What is left of rows that arrive `size` at a time."""
    parts = [(t[a : a + size], lines[:, a : a + size]) for a in range(0, len(t), size)]
    found = list(base.stream(parts, 3))
    return np.concatenate([a for a, _ in found]), np.concatenate([x for _, x in found], axis=1)


def test_a_joint_that_reads_zero_says_nothing_of_the_clock() -> None:
    polls, _, lines = polled(run_of(2.0))
    moving = find_time_base([(polls, lines)], 3)
    still = np.insert(lines, 3, 0.0, axis=0)
    found = find_time_base([(polls, still)], 4)
    assert (found.drop_repeated, found.smoothing) == (moving.drop_repeated, moving.smoothing)


def test_held_rows_and_scattered_stamps_are_found() -> None:
    polls, times, lines = polled(run_of(2.0))
    base = find_time_base([(polls, lines)], 3)
    assert base.drop_repeated
    assert base.smoothing > 0
    assert "repeat" in base.reason
    assert "regular clock" in base.reason
    t, kept = streamed(base, polls, lines)
    fresh = np.append(True, np.diff(times) > 0)
    assert abs(len(t) - fresh.sum()) <= 0.01 * len(t)
    # A constant delay is no scatter: on average a message is half a poll old.
    run = run_of(2.0)

    def error(stamps: Float, values: Float) -> float:
        truth = np.array([np.interp(stamps - 0.0067, run.t, x) for x in run.q.T])
        return float(np.sqrt(np.mean((values[:3] - truth) ** 2)))

    assert error(t, kept) < 0.5 * error(polls, lines)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_frozen_spells_are_left_out_wherever_chunks_end(seed: int) -> None:
    """Also a single one, of any length up to two seconds, and behind the rows that a log is first looked at."""
    rng = np.random.default_rng(seed)
    t = np.arange(12000) / 500.0
    q = np.array([np.sin(6.28 * (0.5 + 0.2 * rng.random()) * t + phase) for phase in (0.0, 1.0, 3.0)])
    lines = np.concatenate([q, rng.normal(size=(1, len(t)))])
    assert not frozen_rows(t, lines, 3).any()
    wanted = np.zeros(len(t), dtype=np.bool_)
    for first, length in ((1003, 2), (5000, 7), (9001, 40), (11000, 600)):
        lines[:, first : first + length] = lines[:, first - 1 : first]
        wanted[first : first + length] = True
    np.testing.assert_array_equal(frozen_rows(t, lines, 3), wanted)
    base = find_time_base([(t[:8192], lines[:, :8192])], 3)
    assert "9 frozen rows are dropped" in base.reason
    for size in (1, 3, 250, 5000, len(t)):
        kept, values = streamed(base, t, lines, size)
        np.testing.assert_array_equal(kept, t[~wanted])
        np.testing.assert_array_equal(values, lines[:, ~wanted])


def test_what_repeats_at_rest_or_as_a_rule_is_not_frozen() -> None:
    """A robot that stops smoothly, stands to the last digit and goes on; a logger faster than what it reads."""
    t = np.arange(3000) / 500.0
    way = np.clip(t, 0.0, 2.0) + np.clip(t - 4.0, 0.0, None)
    smooth = np.convolve(way, np.hanning(101) / np.hanning(101).sum(), mode="same")[100:-100]
    t = t[100:-100]
    for digits in (3, 5, 12):
        q = np.round(np.array([smooth, 0.5 * smooth]), digits)
        assert not frozen_rows(t, np.concatenate([q, np.diff(q, axis=1, append=q[:, -1:])]), 2).any()
    each = np.repeat(np.random.default_rng(0).choice([2, 3, 4], 900), 1)
    fresh = np.repeat(np.arange(900), each)[: len(t)]
    moving = np.stack([np.sin(0.02 * fresh), np.cos(0.02 * fresh), np.sin(1e3 * fresh)])
    assert not frozen_rows(t[: len(fresh)], moving, 2).any()


def test_rows_really_sampled_unevenly_keep_their_stamps() -> None:
    run = run_of(2.0)
    t = np.cumsum(np.random.default_rng(0).choice([0.008, 0.012], size=2300))
    lines = np.array([np.interp(t, run.t, x) for x in np.concatenate([run.q.T, run.tau.T])])
    assert find_time_base([(t, lines)], 3).reason == ""


def test_a_robot_at_rest_is_not_held() -> None:
    run = run_of(0.5)
    q = np.round(run.q[::10].T / 1e-3) * 1e-3
    for length in (20, 600):
        q[:, 500 : 500 + length] = q[:, 500:501]
    tau = np.round(run.tau[::10].T)
    tau[:, 500:1100] = tau[:, 500:501]
    lines, t = np.concatenate([q, tau]), np.arange(q.shape[1]) / 100.0
    base = TimeBase(drop_repeated=True, step=0.01)
    kept, _ = streamed(base, t, lines)
    assert np.diff(kept).max() < 0.05


def late(run: Run, share: float, seed: int = 0) -> tuple[Float, Float, Float]:
    """Stamps, times of the messages, all channels of a log of 100 Hz in which a share of messages come a row late.

    Two in a row make the second one take the place of the third, not of a repetition.
    """
    t, rng = run.t[::10], np.random.default_rng(seed)
    times = np.where(rng.random(len(t)) < share, np.roll(t, 1), t)
    times[:2] = t[:2]
    return t, times, np.array([np.interp(times, run.t, x) for x in np.concatenate([run.q.T, run.tau.T])])


def test_rows_that_are_a_message_behind_are_taken_at_its_time() -> None:
    t, times, lines = late(run_of(2.0), 0.1)
    base = find_time_base([(t, lines)], 3)
    assert (base.drop_repeated, base.shift_late, base.smoothing) == (True, True, 0)
    assert "message before theirs" in base.reason
    fresh = np.append(True, np.diff(times) > 0)
    behind = fresh & (times < t)
    assert np.count_nonzero(behind) >= 5
    found, _ = streamed(base, t, lines)
    found, truth = found[: fresh.sum()], times[fresh][: len(found)]
    # All but those at either end, and none of the rows in time.
    wrong = np.abs(found - truth) > 1e-6
    assert np.count_nonzero(wrong) <= 0.1 * np.count_nonzero(behind)
    assert not wrong[np.flatnonzero(truth == t[fresh][: len(found)])].any()


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_how_rows_arrive_does_not_matter_to_the_times_of_late_ones(size: int) -> None:
    t, _, lines = late(run_of(2.0), 0.1)
    base = find_time_base([(t, lines)], 3)
    whole, parts = streamed(base, t, lines), streamed(base, t, lines, size)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-9)
    np.testing.assert_array_equal(parts[1], whole[1])


def test_a_position_that_wraps_hides_no_late_row() -> None:
    t, _, lines = late(run_of(2.0), 0.1)
    base = find_time_base([(t, lines)], 3)
    wrapped = lines.copy()
    # The first joint's zero where it is passed often, as of an encoder that counts one turn.
    middle = np.median(lines[0])
    wrapped[0] = (lines[0] - middle) % (2.0 * np.pi)
    found, _ = streamed(base, t, wrapped)
    plain, _ = streamed(base, t, lines)
    assert np.abs(np.diff(wrapped[0])).max() > np.pi
    np.testing.assert_allclose(found, plain, atol=1e-9)


def test_rows_that_were_lost_and_time_that_was_keep_their_stamps() -> None:
    t, _, lines = late(run_of(2.0), 0.0)
    kept = np.random.default_rng(1).random(len(t)) > 0.1
    np.testing.assert_array_equal(times_of_messages(t[kept], lines[:3, kept], 0.01), t[kept])
    # A source that stops for a row and goes on from there, never to make it up.
    stopped = t + 0.01 * (np.arange(len(t)) >= 700)
    np.testing.assert_array_equal(times_of_messages(stopped, lines[:3], 0.01), stopped)


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_how_rows_arrive_does_not_matter_to_the_times(size: int) -> None:
    polls, _, lines = polled(run_of(2.0))
    lines[:, 800:1000] = lines[:, 800:801]  # a rest
    base = find_time_base([(polls, lines)], 3)
    whole, parts = streamed(base, polls, lines), streamed(base, polls, lines, size)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-9)
    np.testing.assert_array_equal(parts[1], whole[1])


def test_samples_of_a_polled_log_are_better_for_it(arm: RobotModel, tmp_path: Path) -> None:
    run = run_of(2.0)
    polls, _, lines = polled(run)
    log = file_of(tmp_path, arm, polls, Signals(lines[:3], None, lines[3:]))
    sink = Diagnostics()
    prepared = prepare(log, Preparation(cutoff=8.0, rest=0.0), sink)
    assert "time-base" in {item.identifier for item in sink}
    plain = replace(prepared, time_bases=())

    def error(one: object) -> float:
        (samples,) = one  # type: ignore[misc]  # one piece
        keep = samples.keep
        true = [np.interp(samples.t[keep] - 0.0067, run.t, x) for x in run.dq.T]
        return float(np.sqrt(np.mean((samples.dq[keep].T - true) ** 2)))

    assert error(prepared) < 0.4 * error(plain)
