"""Times that are left out of fit and scores: which samples, how many, and what the model gains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Bool, Diagnostics, Evidence, Finding, Float, Interval
from dynid.diagnosis import AtPeak, ResidualAnalysis, left_out, spoilt_times, without_times
from dynid.diagnosis.masking import LEAST_HEIGHT, Bursts, Within, heights, widened
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.run import Identification
from dynid.signals import Samples
from dynid.testing import TrueMotion, analysis_of, small_arm
from dynid.testing.faults import Recording, recorded
from dynid.testing.machines import MACHINES


def ramp(seconds: float = 10.0, rate: float = 100.0, start: float = 0.0) -> Samples:
    """Two joints whose torque rises from -1 to 1 and falls from 1 to -1."""
    t = start + np.arange(0.0, seconds, 1.0 / rate)
    tau = np.stack([np.linspace(-1, 1, len(t)), np.linspace(1, -1, len(t))], axis=1)
    return replace(Samples.from_motion(tau, tau, tau, tau, rate), t=t, trajectory="a")


def test_a_mask_grows_by_its_reach() -> None:
    for reach in (0, 1, 3):
        rng = np.random.default_rng(reach)
        mask = rng.random(200) < 0.05
        near = [mask[max(i - reach, 0) : i + reach + 1].any() for i in range(200)]
        np.testing.assert_array_equal(widened(mask, reach), near)


def test_samples_at_either_end_are_masked_with_their_neighbours() -> None:
    samples = ramp()
    nan = np.nan
    size = np.ones(2)
    upper = AtPeak(np.array([[0.8, nan], [nan, nan]]), size, 0.5).among(samples)
    assert samples.t[upper].min() == pytest.approx(10 * 0.5 * (1 + 0.79) - 0.5, abs=0.02)
    assert upper[-1]
    both = AtPeak(np.array([[nan, nan], [-0.8, -0.6]]), size, 0.0).among(samples)
    expected = (samples.tau[:, 0] <= -0.79) | (samples.tau[:, 1] <= -0.59)
    np.testing.assert_array_equal(both, expected)


def test_times_belong_to_their_trajectory() -> None:
    samples = ramp()
    spans = (Interval("a", 2.0, 3.0), Interval("b", 6.0, 7.0))
    masked = samples.t[Within(spans, 0.25).among(samples)]
    assert (masked.min(), masked.max()) == pytest.approx((1.75, 3.25))


def test_how_much_is_left_out_is_reported() -> None:
    batches = [ramp(), replace(ramp(), trajectory="b")]
    sink = Diagnostics()
    sound = left_out(batches, Within((Interval("a", 2.0, 4.0),), 0.0), "contact", sink)
    assert isinstance(sound, list)
    assert [int((~one.keep).sum()) for one in sound] == [201, 0]
    (warning,) = sink.warnings
    assert warning.identifier == "masked"
    assert warning.text.startswith("contact: 2.01 s of 20 s (10 %)")
    assert all(one.keep.all() for one in batches)


def test_what_is_spoilt_does_not_count_as_rest_either() -> None:
    samples = ramp()
    rest = samples.t > 9.0
    resting = replace(samples, keep=~rest, left_out={"rest": rest})
    (found,) = (
        left_out([resting], Within((Interval("a", 8.5, 9.5),), 0.0), "a spoilt time", Diagnostics()) or []
    )
    assert not found.left_out["rest"][samples.t <= 9.5].any()
    assert found.left_out["rest"][samples.t > 9.51].all()
    assert found.left_out["a spoilt time"].sum() == ((samples.t >= 8.5) & (samples.t <= 9.5)).sum()


def test_batches_that_are_made_anew_stay_so() -> None:
    class Anew:
        made = 0

        def __iter__(self):  # type: ignore[no-untyped-def]  # a stub
            Anew.made += 1
            return iter([ramp()])

    sound = left_out(Anew(), Within((Interval("a", 2.0, 4.0),), 0.0), "contact", Diagnostics())
    assert sound is not None
    for _ in range(2):
        assert [int((~one.keep).sum()) for one in sound] == [201]
    assert Anew.made == 3


def test_nothing_and_too_much_are_not_left_out() -> None:
    sink = Diagnostics()
    assert left_out([ramp()], Within((Interval("b", 2.0, 4.0),), 0.0), "contact", sink) is None
    assert list(sink) == []
    assert left_out([ramp()], Within((Interval("a", 2.0, 6.0),), 0.0), "contact", sink) is None
    (warning,) = sink.warnings
    assert warning.identifier == "not-masked"
    assert "4.01 s of 10 s (40.1 %)" in warning.text


def pushed(low: float, high: float, size: float) -> ResidualAnalysis:
    """The small arm, pushed on two joints for a while."""

    def added(motion: TrueMotion, rng: np.random.Generator) -> Float:
        inside = (motion.t >= low) & (motion.t <= high)
        return size * motion.size * inside[:, None] * np.array([1.0, 1.0, 0.0])

    return analysis_of(small_arm(), added, seed=3)


def test_a_push_is_seen_from_its_beginning_to_its_end() -> None:
    """However the joints turn round meanwhile."""
    for low in (4.0, 7.3, 12.1):
        analysis = pushed(low, low + 0.8, 0.3)
        (finding,) = Bursts().look(analysis)
        (span,) = finding.evidence.times
        assert span.start == pytest.approx(low, abs=0.15)
        assert span.end == pytest.approx(low + 0.8, abs=0.15)
        assert [one.evidence.times for one in spoilt_times(analysis)] == [finding.evidence.times]


@pytest.mark.parametrize("samples", [30, 200])
@pytest.mark.parametrize("lasting", [False, True])
def test_a_joint_that_stands_for_most_of_the_time_bursts_by_what_it_misses_in_motion(
    samples: int, lasting: bool
) -> None:
    """What the model misses of its motion is many times what is missed of its rest, to both sides or to one."""
    analysis = pushed(-2.0, -1.0, 0.0)
    r = analysis.residuals
    rng = np.random.default_rng(8)
    moves = np.zeros(len(r.t), dtype=np.bool_)
    moves[300 : 300 + samples] = True
    dq, error = np.array(r.dq), np.array(r.error)
    size = float(error[:, -1].std())
    dq[~moves, -1] = 0.0
    dq[moves, -1] = 1.0
    error[:, -1] = np.where(moves, 1.0, 0.02) * rng.normal(size=len(r.t)) * size
    error[moves, -1] += 2.0 * size * lasting
    in_turn = replace(analysis, residuals=replace(r, dq=dq, predicted=r.measured - error))
    assert heights(in_turn)[:, -1].max() < LEAST_HEIGHT
    usual = np.subtract(*np.quantile(error[:, -1], [0.75, 0.25])) / 1.349
    assert np.abs(error[:, -1]).max() > LEAST_HEIGHT * usual
    # A push on it is one all the same.
    touched = np.array(error)
    touched[310:316, -1] += 60.0 * size
    hit = replace(analysis, residuals=replace(r, dq=dq, predicted=r.measured - touched))
    assert heights(hit)[:, -1].max() > LEAST_HEIGHT


def test_what_is_masked_says_so() -> None:
    (finding,) = Bursts().look(pushed(7.3, 8.1, 0.3))
    one = replace(finding, evidence=Evidence(0.5, 1e-9, (Interval("a", 3.0, 3.5),)))
    found = without_times([ramp()], (one,), 4.0, Diagnostics())
    assert found is not None
    batches, (reported,) = found
    assert reported.evidence.masked
    assert "excluded from the fit" in reported.advice
    (samples,) = batches
    assert (samples.t[~samples.keep].min(), samples.t[~samples.keep].max()) == pytest.approx((2.75, 3.75))
    assert without_times([ramp()], (), 4.0, Diagnostics()) is None
    assert without_times([ramp()], (replace(one, evidence=Evidence()),), 4.0, Diagnostics()) is None


def test_clean_logs_lose_nothing() -> None:
    for seed in range(3):
        assert spoilt_times(analysis_of(small_arm(), seed=seed)) == ()


def found_in(one: Recording, folder: Path, name: str) -> tuple[Identification, Diagnostics]:
    path = folder / f"{name}.parquet"
    write_log(path, one.t, canonical_columns(one.robot.joint_names, one.q, dq=one.dq, tau=one.tau))
    sink = Diagnostics()
    return identify(
        one.robot, read_log(path, one.robot), Settings(automatic=False), diagnostics=sink, threads=1
    ), sink


def push(one: Recording) -> Recording:
    tau = one.tau.copy()
    tau[(one.t > 6.0) & (one.t < 6.9), 1:3] += 0.4 * tau[:, 1:3].std(axis=0)
    return replace(one, tau=tau)


def clip(one: Recording) -> Recording:
    tau = one.tau.copy()
    tau[:, 1] = np.minimum(tau[:, 1], np.quantile(tau[:, 1], 0.95))
    return replace(one, tau=tau)


def clip_and_shake(one: Recording) -> Recording:
    """Cut off before the sensor's noise: no sample lies exactly at the peak."""
    tau = clip(one).tau.copy()
    tau[:, 1] += 0.004 * tau[:, 1].std() * np.random.default_rng(1).normal(size=len(tau))
    return replace(one, tau=tau)


def reported_of(residual_findings: tuple[Finding, ...]) -> set[str]:
    return {one.identifier for one in residual_findings if one.evidence.masked}


@pytest.fixture(scope="module")
def one() -> Recording:
    return recorded(MACHINES["polar"].robot, np.random.default_rng(4), seconds=16.0)


@pytest.fixture(scope="module")
def clean(one: Recording, tmp_path_factory: pytest.TempPathFactory) -> Identification:
    found, quiet = found_in(one, tmp_path_factory.mktemp("log"), "clean")
    assert not any(item.identifier == "masked" for item in quiet)
    return found


@pytest.mark.parametrize(
    ("spoil", "names"), [(push, {"bursts"}), (clip, set()), (clip_and_shake, {"saturation"})]
)
def test_a_spoilt_log_gives_nearly_what_the_clean_one_gives(
    spoil: Callable[[Recording], Recording],
    names: set[str],
    one: Recording,
    clean: Identification,
    tmp_path: Path,
) -> None:
    spoilt, sink = found_in(spoil(one), tmp_path, "spoilt")
    assert [item.identifier for item in sink.warnings].count("masked") == 1
    assert reported_of(spoilt.residual_findings) == names
    error = spoilt.training.scores.total_relative
    assert error < 1.3 * clean.training.scores.total_relative
    a, b = clean.estimate, spoilt.estimate
    assert a.names == b.names
    off: Bool = np.abs(a.value - b.value) > 1.5 * np.hypot(a.half_width(), b.half_width())
    assert off.sum() <= 1
