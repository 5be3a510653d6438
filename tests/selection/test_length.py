"""The choice of a model depends neither on whether a log fits in memory nor on how long the robot stands in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynid.base import Diagnostics, Float, UsageError
from dynid.choose import search
from dynid.estimate import WLS
from dynid.identification import Settings, identify, torque_factors
from dynid.log import Log, read_log
from dynid.run import Identification, blocks, usual_block, validation
from dynid.signals import Preparation
from dynid.signals import time_base as windows
from dynid.testing import Plant, Unmodelled, plant, record
from dynid.testing.plants import SECONDS
from tests.selection.logs import MODEL, ROBOT, chosen, options

CHOSEN = {"friction": "viscous + coulomb", "rotors": "rotors", "offsets": "offsets"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Identification:
    return chosen(folder, lambda tau: tau)


@pytest.mark.parametrize(("trial", "lines"), [(1e12, 3e5), (1e6, 3e5)], ids=["equations", "samples too"])
def test_a_long_log_chooses_what_a_short_one_does(
    whole: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trial: float, lines: float
) -> None:
    """Hours of a log in miniature: windows shorter than its blocks, and room for a part of it alone."""
    monkeypatch.setattr(windows, "WINDOW_SECONDS", 0.3)
    monkeypatch.setattr(validation, "CACHE_BYTES", 0.0)
    monkeypatch.setattr(blocks, "TRIAL_BYTES", trial)
    monkeypatch.setattr(search, "LINE_BYTES", lines)
    monkeypatch.setattr(blocks, "RESIDUAL_BYTES", 5e4)
    part = chosen(tmp_path, lambda tau: tau)
    assert whole.selection is not None
    assert part.selection is not None
    assert part.selection.folds == whole.selection.folds == 5
    assert options(part) == options(whole) == CHOSEN
    assert part.terms == whole.terms
    assert part.selection.chosen.relative == pytest.approx(whole.selection.chosen.relative, rel=0.2)
    np.testing.assert_allclose(part.estimate.value, whole.estimate.value, rtol=1e-6)
    np.testing.assert_allclose(part.training.scores.rms, whole.training.scores.rms, rtol=1e-6)
    np.testing.assert_array_equal(part.training.scores.count, whole.training.scores.count)
    kept, every = part.training.residuals, whole.training.residuals
    assert kept is not None
    assert every is not None
    assert 0.02 * len(every.t) < len(kept.t) < 0.5 * len(every.t)
    place = np.searchsorted(every.t, kept.t)
    np.testing.assert_allclose(every.t[place], kept.t, rtol=1e-12)
    np.testing.assert_allclose(kept.predicted, every.predicted[place], rtol=1e-5, atol=1e-8)
    # Every stretch is a segment of its own, without gaps.
    assert (np.diff(kept.t)[np.diff(kept.segment) == 0] * kept.rate < 1.5).all()
    assert len(np.unique(kept.segment)) == len(part.factors.blocks)
    assert part.verdict.level == whole.verdict.level == "good"


def test_more_folds_than_a_log_has_room_for_are_reported(whole: Identification, folder: Path) -> None:
    log = read_log(folder / "log.parquet", ROBOT)
    settings = Settings(terms=MODEL, preparation=Preparation(cutoff=6.0), folds=500)
    found = identify(ROBOT, log, settings, threads=1, diagnostics=Diagnostics())
    independent = len(found.factors.repetitions())
    (note,) = [one for one in found.diagnostics if one.identifier == "folds"]
    assert f"{independent // 2} folds instead of 500" in note.text
    assert found.validations[0].scores.origin == "held-out blocks"


@given(seconds=st.floats(1.0, 1e5), bandwidth=st.floats(0.5, 50.0))
def test_blocks_are_as_long_as_the_log_allows(seconds: float, bandwidth: float) -> None:
    """Two periods at least, so that blocks count as independent; twenty blocks wherever that leaves as many."""
    length, period = usual_block(seconds, bandwidth), 1.0 / bandwidth
    assert length >= 2.0 * period
    assert seconds / length <= 60.0 * (1.0 + 1e-9)
    if seconds >= 40.0 * period:
        assert seconds / length >= 20.0 * (1.0 - 1e-9)
    if seconds >= 160.0 * period:
        assert length == max(seconds / 60.0, 8.0 * period)


def test_blocks_within_a_period_of_the_filter_are_refused(whole: Identification, folder: Path) -> None:
    log = read_log(folder / "log.parquet", ROBOT)
    settings = Settings(terms=MODEL, preparation=Preparation(cutoff=6.0), block_seconds=0.01)
    with pytest.raises(
        UsageError, match=r"0\.01 s at a cutoff frequency of 6 Hz.*at least 0\.17 s.*leave it out"
    ):
        identify(ROBOT, log, settings, threads=1)
    found = identify(ROBOT, log, replace(settings, block_seconds=0.5), threads=1, diagnostics=Diagnostics())
    assert len(found.factors.blocks) > len(whole.factors.blocks)


def test_standing_takes_no_motion_from_a_choice() -> None:
    """A robot that stands for most of its log has as many blocks of motion as one whose log ends with the motion."""
    one = plant("finger", np.random.default_rng(3))
    moved = record(one, np.random.default_rng(1), Unmodelled(cable=0.01))
    robot, alone = one.described, _identified(one, moved.t, moved.q, moved.tau)
    rows, rng = round(6.0 * SECONDS * one.rate), np.random.default_rng(2)
    step = 2.0 * np.pi / Unmodelled().encoder
    # Static friction holds the arm at a torque that has nothing to do with its weight, to the noise of sensors.
    resting_q = moved.q[-1] + step * rng.integers(0, 2, (rows, robot.n))
    resting_tau = one.scale * (0.1 + 0.005 * rng.normal(size=(rows, robot.n)))
    t = np.concatenate([moved.t, moved.t[-1] + 1.0 + np.arange(rows) / one.rate])
    found = _identified(
        one, t, np.concatenate([moved.q, resting_q]), np.concatenate([moved.tau, resting_tau])
    )
    assert alone.selection is not None
    assert found.selection is not None
    assert len(found.factors.blocks) >= 0.9 * len(alone.factors.blocks)
    assert found.selection.folds == alone.selection.folds
    assert found.validations[0].scores.origin == "held-out blocks"


def test_standing_takes_no_motion_from_a_further_log() -> None:
    """Factors of a log, as a fleet's and payloads' are, have as many blocks of motion whatever rest follows it."""
    one = plant("finger", np.random.default_rng(3))
    moved = record(one, np.random.default_rng(1), Unmodelled(cable=0.01))
    run = _identified(one, moved.t, moved.q, moved.tau)
    rows = round(6.0 * SECONDS * one.rate)
    t = np.concatenate([moved.t, moved.t[-1] + 1.0 + np.arange(rows) / one.rate])
    resting = (np.repeat(last[-1:], rows, axis=0) for last in (moved.q, moved.tau))
    q, tau = (np.concatenate(pair) for pair in zip((moved.q, moved.tau), resting, strict=True))
    everything = np.ones(len(run.estimate.columns), dtype=np.bool_)
    logs = (Log.from_arrays(one.described, *three) for three in ((moved.t, moved.q, moved.tau), (t, q, tau)))
    alone, with_rest = (torque_factors(run, log, everything, Diagnostics(), 1) for log in logs)
    assert len(with_rest.blocks) >= 0.9 * len(alone.blocks)
    np.testing.assert_allclose(
        with_rest.total[0].residual_square(run.estimate.full_vector),
        alone.total[0].residual_square(run.estimate.full_vector),
        rtol=0.05,
    )


def _identified(one: Plant, t: Float, q: Float, tau: Float) -> Identification:
    log = Log.from_arrays(one.described, t, q, tau)
    settings = Settings(estimator=WLS())
    return identify(one.described, log, settings, threads=1, diagnostics=Diagnostics())
