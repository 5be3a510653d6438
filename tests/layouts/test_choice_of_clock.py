"""Which column is the clock: what lasts or starts where no other ascends, none that runs back every few rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float
from dynid.layouts import propose_logs
from tests.layouts.pendulum import pendulum, swing
from tests.layouts.test_strangers import ARM, csv, numbered

LATE = ARM.t + 0.002 * np.sin(40 * ARM.t)


def of_arm(**times: Float) -> dict[str, Float]:
    return times | numbered("q#", ARM.q) | numbered("dq#", ARM.dq) | numbered("tau#", ARM.tau)


@pytest.mark.parametrize(
    ("columns", "clock"),
    [
        ({"duration[s]": LATE}, "duration[s]"),
        ({"time_from_start_ns": np.round(1e9 * LATE)}, "time_from_start_ns"),
        ({"read_start_time_ms": np.round(1e3 * LATE)}, "read_start_time_ms"),
        ({"time": LATE, "duration": ARM.t}, "time"),
        (
            {
                "robot_timestamp_seconds": np.floor(LATE),
                "robot_timestamp_nanos": np.round(1e9 * (LATE % 1.0)),
            },
            "robot_timestamp_seconds + robot_timestamp_nanos",
        ),
    ],
)
def test_what_lasts_is_the_clock_where_nothing_else_is(
    columns: dict[str, Float], clock: str, tmp_path: Path
) -> None:
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", of_arm(**columns))])
    assert not found.open
    assert found["log.time.column"].value == clock


@pytest.mark.parametrize(
    "column",
    [
        {"loop_duration": 0.01 + 2e-4 * np.random.default_rng(0).normal(size=len(ARM.t))},
        {"loop_duration": 0.01 + 2e-4 * np.sin(ARM.t)},
        {"end_time": ARM.t[-1] - ARM.t},
        {"start_time": ARM.t[-1] - LATE, "loop_duration": np.full_like(ARM.t, 0.01)},
    ],
)
def test_rows_are_counted_where_what_lasts_does_not_ascend(column: dict[str, Float], tmp_path: Path) -> None:
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", of_arm(**column))])
    assert found["log.time.column"].value == "row"
    assert found["log.trajectory"].sure
    assert all(one.key != "log.sort" for one in found.decisions)


def test_what_lasts_may_begin_anew_with_each_motion(tmp_path: Path) -> None:
    half = len(ARM.t) // 2
    columns = of_arm(duration=np.concatenate([ARM.t[:half], ARM.t[: len(ARM.t) - half]]))
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)])
    assert found["log.time.column"].value == "duration"


@pytest.mark.parametrize("others", [{}, {"stamp": ARM.t}])
def test_a_column_that_is_answered_is_the_clock(others: dict[str, Float], tmp_path: Path) -> None:
    swinging = ARM.t + 0.012 * np.where(np.arange(len(ARM.t)) % 3 == 2, -1.0, 1.0)
    path = csv(tmp_path / "log.csv", of_arm(time=swinging, **others))
    found = propose_logs(ARM.robot, [path], {"log.time.column": "time"})
    assert found["log.time.column"].value == "time"


def test_a_torque_that_swings_is_no_clock(tmp_path: Path) -> None:
    robot = pendulum(tmp_path)
    t, q, _, tau = swing(robot)
    torque = 141.6 * tau + np.random.default_rng(0).normal(size=len(t))
    columns = {"Elapsed Time (ms)": 1e3 * t, "R_knee_deg": np.rad2deg(q), "R_knee_T_oz-in": torque}
    found = propose_logs(robot, [csv(tmp_path / "log.csv", columns)])
    assert found["log.time.column"].value == "Elapsed Time (ms)"
