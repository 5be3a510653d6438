"""A few rows whose time stamps cannot be are left out of any log, wherever they are; many stop who reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, UnfitDataError
from dynid.log import Log, Selection, canonical_columns, check_log, read_log, write_log
from dynid.log.clocks import DAMAGED_SHARE, damaged_stamps
from dynid.robot import RobotModel
from tests.log import formats
from tests.log.bags import WALL, states, write_bag

T = 2000
STEP = 0.01
NAMES = ("shoulder", "elbow")
t = 3.0 + STEP * np.arange(T)
q = np.column_stack([np.sin(t), np.cos(1.3 * t)])
dq = np.column_stack([np.cos(t), -1.3 * np.sin(1.3 * t)])
tau = np.random.default_rng(1).normal(size=(T, 2))
# What damage leaves where a stamp was: no number, none that a clock can have, and one of elsewhere.
NOT_A_TIME = (np.nan, np.inf, -np.inf, 2.7e154)
ELSEWHERE = (1e9, -3047.8, 0.0, 5e-324, 1.0, 60.0)
SOME = int(DAMAGED_SHARE * T)


def by_file(name: str) -> Callable[[Path, RobotModel, Float], Log]:
    def read(path: Path, robot: RobotModel, stamps: Float) -> Log:
        return read_log(write_log(path / name, stamps, canonical_columns(NAMES, q, dq, tau)), robot)

    return read


def by_npz(path: Path, robot: RobotModel, stamps: Float) -> Log:
    columns = canonical_columns(NAMES, q, dq, tau)
    return read_log(formats.npz(path / "log.npz", {"t": stamps, **columns}), robot)


def by_arrays(_: Path, robot: RobotModel, stamps: Float) -> Log:
    return Log.from_arrays(robot, stamps, q, tau, dq)


READ = {"csv": by_file("log.csv"), "parquet": by_file("log.parquet"), "npz": by_npz, "arrays": by_arrays}


def damaged(seed: int, count: int = SOME) -> tuple[Float, Float]:
    """Stamps of which some are damaged, alone or in bursts, and which those are."""
    rng = np.random.default_rng(seed)
    rows: set[int] = set()
    while len(rows) < count:
        first = int(rng.integers(T))
        rows |= set(range(first, min(first + int(rng.integers(1, 6)), T)))
    bad = np.sort(list(rows))[:count]
    stamps = t.copy()
    stamps[bad] = rng.choice([*NOT_A_TIME, *ELSEWHERE], len(bad))
    return stamps, bad


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("seed", range(3))
def test_every_reader_leaves_out_a_few(name: str, seed: int, robot: RobotModel, tmp_path: Path) -> None:
    stamps, bad = damaged(seed)
    log = READ[name](tmp_path, robot, stamps)
    (one,) = log.trajectories
    sink = Diagnostics()
    assert check_log(log, sink).trajectories[0].rows == T - len(one.left_out)
    assert set(bad) <= set(one.left_out)
    (note,) = (item for item in sink if item.identifier == "damaged-stamps")
    assert f"{len(one.left_out)} of {T} row(s)" in str(note)
    kept = np.delete(np.arange(T), one.left_out)
    assert (one.start_time, one.end_time) == (t[kept[0]], t[kept[-1]])
    for rows in (7, 199, 65536):
        chunks = list(log.chunks(one, rows))
        np.testing.assert_array_equal(np.concatenate([chunk.t for chunk in chunks]), t[kept])
        np.testing.assert_array_equal(np.concatenate([chunk.q for chunk in chunks]), q[kept])


@pytest.mark.parametrize("seed", range(200))
def test_no_good_row_far_from_damage_is_lost(seed: int) -> None:
    stamps, bad = damaged(seed)
    found = np.flatnonzero(damaged_stamps(stamps))
    assert set(bad) <= set(found)
    # Nothing tells a stamp beside damage from the damage; what lies further off does.
    assert all(np.abs(bad - row).min() < 50 for row in found)
    assert len(found) <= 2 * len(bad)


@pytest.mark.parametrize("seed", range(20))
def test_clean_stamps_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    step = rng.choice([STEP, 0.5 * STEP, 0.0, 1.0, 1e6], T, p=[0.7, 0.2, 0.05, 0.03, 0.02])
    assert not damaged_stamps(np.cumsum(step)).any()


def test_a_header_stamp_of_a_bag_is_a_stamp(robot: RobotModel, tmp_path: Path) -> None:
    messages = [
        replace(one, received=WALL + k * 10_000_000) for k, one in enumerate(states(t, NAMES, q, dq, tau))
    ]
    messages[700] = replace(messages[700], ns=messages[700].ns - 10**12)
    log = read_log(write_bag(tmp_path / "run_mcap", messages), robot)
    assert log.trajectories[0].left_out == (700,)
    assert check_log(log, Diagnostics()).trajectories[0].rows == T - 1


@pytest.mark.parametrize("bad", [NOT_A_TIME, ELSEWHERE])
def test_damage_outside_the_window_is_nobodys_business(
    bad: tuple[float, ...], robot: RobotModel, tmp_path: Path
) -> None:
    # A third of the first five seconds, among them stamps that lie in the window by chance.
    rng = np.random.default_rng(4)
    stamps = t.copy()
    rows = rng.choice(500, 170, replace=False)
    stamps[rows] = rng.choice([*bad, *(t[1500:1510] if bad is ELSEWHERE else ())], len(rows))
    path = write_log(tmp_path / "log.parquet", stamps, canonical_columns(NAMES, q, dq, tau))
    with pytest.raises(UnfitDataError, match=r"time-missing|time-backwards"):
        check_log(read_log(path, robot), Diagnostics())
    log = read_log(path, robot, select=[Selection(window=(t[600], t[1900]))])
    assert check_log(log, Diagnostics()).trajectories[0].rows == 1301
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q, q[600:1901])


def test_a_clock_that_starts_anew_is_no_damage(robot: RobotModel) -> None:
    for stamps in (
        np.r_[t[:1000], t[:1000]],
        np.r_[t[:1000], t[:1000] - 500.0],
        np.r_[t[:1000], t[1000:] - 1.0],
    ):
        with pytest.raises(UnfitDataError, match="time-backwards"):
            check_log(Log.from_arrays(robot, stamps, q, tau, dq), Diagnostics())


def test_a_clock_set_back_by_a_few_rows_costs_those(robot: RobotModel) -> None:
    log = Log.from_arrays(robot, np.r_[t[:1000], t[1000:] - 0.055], q, tau, dq)
    assert log.trajectories[0].left_out == (1000, 1001, 1002, 1003, 1004)
    check_log(log, Diagnostics())


def test_more_than_a_few_stop(robot: RobotModel) -> None:
    stamps = t.copy()
    stamps[100 : 101 + SOME] = np.nan
    with pytest.raises(UnfitDataError, match=r"time-missing.*row 100"):
        check_log(Log.from_arrays(robot, stamps, q, tau, dq), Diagnostics())
