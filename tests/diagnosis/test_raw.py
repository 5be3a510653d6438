"""Torque before the filters, and what rings above the cut-off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.diagnosis import diagnose, first_torque
from dynid.diagnosis.residual_analysis import RawTorque
from dynid.diagnosis.resonance import Resonance, chance
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.testing import analysis_of, small_arm

RATE = 250.0


def log_of(folder: Path, t: np.ndarray, tau: np.ndarray) -> Log:
    robot = small_arm()
    q = np.column_stack([np.sin((1 + j) * 0.7 * t) for j in range(3)])
    path = write_log(folder / "log.parquet", t, canonical_columns(robot.joint_names, q, tau=tau))
    return read_log(path, robot)


def test_stretches_end_at_gaps_and_missing_values(tmp_path: Path) -> None:
    t = np.arange(4000) / RATE
    t[1000:] += 0.5
    tau = np.random.default_rng(0).normal(size=(4000, 3))
    tau[2000:2020, 1] = np.nan  # longer than what is interpolated
    raw = first_torque(log_of(tmp_path, t, tau))
    assert raw is not None
    assert raw.rate == pytest.approx(RATE)
    first, second, third = raw.parts
    # The last rows come in a chunk of their own, too short for a stretch.
    assert (len(first), len(second), 1960 < len(third) <= 1980) == (1000, 1000, True)
    np.testing.assert_array_equal(third, tau[2020 : 2020 + len(third)])


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    t = np.arange(8000) / RATE
    raw = first_torque(log_of(tmp_path, t, np.ones((8000, 3))), seconds=10.0)
    assert raw is not None
    assert [len(part) for part in raw.parts] == [round(10.0 * RATE) + 1]


def test_short_stretches_are_no_torque(tmp_path: Path) -> None:
    t = np.arange(400) / RATE
    t += np.repeat(np.arange(4), 100)
    assert first_torque(log_of(tmp_path, t, np.ones((400, 3)))) is None


@pytest.mark.parametrize("frequency", [14.0, 40.0, 90.0])
def test_a_joint_that_rings_above_the_cut_off_is_reported(frequency: float) -> None:
    analysis = analysis_of(small_arm(), seed=0)
    rng = np.random.default_rng(1)
    t = np.arange(0.0, 40.0, 1.0 / RATE)
    tau = 3.0 * np.sin(2.0 * t)[:, None] + 0.02 * rng.normal(size=(len(t), 3))
    w, decay = 2 * np.pi * frequency / RATE, 0.99
    ringing = lfilter([1.0], [1.0, -2 * decay * np.cos(w), decay**2], rng.normal(size=len(t)))
    quiet = replace(analysis, raw=RawTorque(RATE, (tau,)))
    assert diagnose(quiet, (Resonance(),)) == ()
    tau = tau + np.outer(0.05 * ringing / ringing.std(), [0.0, 1.0, 0.0])
    (found,) = diagnose(replace(analysis, raw=RawTorque(RATE, (tau,))), (Resonance(),))
    assert (found.joint, found.level) == ("shoulder", "note")
    reported = float(found.title.split(" at ")[1].split(" Hz")[0])
    assert reported == pytest.approx(frequency, abs=0.8)
    assert found.evidence.curve is not None
    assert found.evidence.curve.x[np.argmax(found.evidence.curve.y)] == pytest.approx(frequency, abs=0.8)


def test_the_chance_of_a_peak_is_that_of_averaged_noise() -> None:
    # Means of K exponential variables, drawn.
    rng = np.random.default_rng(0)
    drawn = rng.exponential(size=(200_000, 4)).mean(axis=1)
    for ratio in (1.5, 2.0, 2.5):
        assert chance(4.0, ratio, 1) == pytest.approx((drawn > ratio).mean(), rel=0.1)
    assert chance(4.0, 2.0, 10) == pytest.approx(10 * chance(4.0, 2.0, 1))
    assert chance(4.0, 1.0, 100) == 1.0
