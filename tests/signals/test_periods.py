"""Averages over periods: what repeats stays, noise falls with the root of the periods, and chunks do not show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, UnfitDataError, UsageError
from dynid.log import Log, read_log, write_log
from dynid.robot import RobotModel
from dynid.signals import average_periods, columns_of
from tests.signals.conftest import MakeLog

PERIOD, RATE, N = 4.0, 100.0, 13


def motion(t: np.ndarray) -> np.ndarray:
    w = 2 * np.pi / PERIOD
    return np.stack([0.8 * np.sin(w * t) + 0.2 * np.cos(3 * w * t), 0.1 * np.cos(2 * w * t)], axis=1)


def repeated(make_log: MakeLog, noise: float = 0.0, jitter: float = 0.0, drift: float = 0.0) -> Log:
    rng = np.random.default_rng(4)
    t = 7.0 + np.arange(int(N * PERIOD * RATE) + 1) / RATE
    t = t + jitter * rng.uniform(-0.5, 0.5, len(t)) / RATE
    q = motion(t - 7.0)
    tau = 10 * q + noise * rng.normal(size=q.shape) + drift * np.linspace(0, 1, len(t))[:, None]
    return make_log(t, q, tau=tau)


def test_what_repeats_is_kept_and_noise_falls(make_log: MakeLog) -> None:
    (mean,) = average_periods(repeated(make_log, noise=0.5), PERIOD)
    assert (mean.periods, len(mean.t), mean.names[2]) == (N - 1, 400, "tau_shoulder")
    truth = motion(mean.t).T
    np.testing.assert_allclose(mean.mean[:2], truth, atol=1e-12)
    np.testing.assert_allclose(mean.noise[2:], 0.5, rtol=0.03)
    error = np.sqrt(np.mean((mean.mean[2:] - 10 * truth) ** 2, axis=1))
    np.testing.assert_allclose(error, 0.5 / np.sqrt(N - 1), rtol=0.15)


def test_time_stamps_off_the_grid_are_followed(make_log: MakeLog) -> None:
    log = repeated(make_log, jitter=0.4)
    (mean,) = average_periods(log, PERIOD, skip=0)
    from_first_row = mean.t + log.trajectories[0].start_time - 7.0
    np.testing.assert_allclose(mean.mean[:2], motion(from_first_row).T, atol=2e-4)


def test_chunks_do_not_show(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = repeated(make_log, noise=0.5, jitter=0.4)
    (whole,) = average_periods(log, PERIOD)
    chunks = Log.chunks
    monkeypatch.setattr(Log, "chunks", lambda self, one, rows=61: chunks(self, one, rows))
    (cut,) = average_periods(log, PERIOD)
    np.testing.assert_allclose(cut.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(cut.spread, whole.spread, atol=1e-9)


def test_a_mean_is_a_log_again_continued_at_both_ends(
    make_log: MakeLog, robot: RobotModel, tmp_path: Path
) -> None:
    log = repeated(make_log)
    (mean,) = average_periods(log, PERIOD)
    t, columns = columns_of(log, mean, margin=0.5)
    again = read_log(write_log(tmp_path / "mean.parquet", t, columns), robot)
    chunk = again.read(again.trajectories[0])
    np.testing.assert_allclose(chunk.t, np.arange(500) / RATE, atol=1e-12)
    np.testing.assert_allclose(chunk.q, motion(chunk.t - 0.5), atol=1e-12)
    assert chunk.tau is not None
    np.testing.assert_allclose(chunk.tau, 10 * chunk.q, atol=1e-11)


def test_a_slow_change_is_reported(make_log: MakeLog) -> None:
    for drift, reported in ((0.0, 0), (5.0, 2)):
        sink = Diagnostics()
        average_periods(repeated(make_log, noise=0.5, drift=drift), PERIOD, diagnostics=sink)
        assert [one.identifier for one in sink.warnings] == ["drift"] * reported


@pytest.mark.parametrize(
    ("period", "skip", "identifier"),
    [(3.7, 1, "not-periodic"), (40.0, 1, "periods"), (0.05, 0, "periods"), (4.0, 12, "periods")],
)
def test_what_does_not_repeat_is_refused(
    make_log: MakeLog, period: float, skip: int, identifier: str
) -> None:
    with pytest.raises(UnfitDataError) as found:
        average_periods(repeated(make_log), period, skip)
    assert found.value.identifier == identifier


@pytest.mark.parametrize("period", [0.0, -1.0, np.nan, np.inf])
def test_periods_are_positive(make_log: MakeLog, period: float) -> None:
    with pytest.raises(UsageError):
        average_periods(repeated(make_log), period)
