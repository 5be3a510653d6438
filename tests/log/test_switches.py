"""Unused columns of two values, as the outputs of a controller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.log import Switch, read_log, switches_of
from dynid.robot import RobotModel
from dynid.testing import random_robot
from tests.log.bags import states, write_bag

ROBOT = random_robot(1, 2)
T = np.arange(0.0, 30.0, 0.005)
GRIP = (T % 4.0 > 1.5).astype(int)


def logged(path: Path, robot: RobotModel, columns: dict[str, np.ndarray]) -> Path:
    motion = {f"{kind}_{joint}": np.sin(T) for kind in ("q", "tau") for joint in robot.joint_names}
    table = {"t": T, **motion, **columns}
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines))
    return path


def at_rows(switch: Switch, trajectory: str) -> np.ndarray:
    """(T,) whether the value is the higher one at each row of the log."""
    t, on = switch.on[trajectory]
    assert (t[0], t[-1]) == (T[0], T[-1])
    return on[np.searchsorted(t, T, "right") - 1]


def test_only_what_has_two_values_throughout_is_a_switch(tmp_path: Path) -> None:
    columns = {
        "DO_Grip": GRIP,
        "level": 5.0 * GRIP - 2.0,
        "constant": np.zeros(len(T)),
        "mode": np.minimum(T // 10, 2),  # three values, the third of which comes late
        "pressure": np.sin(T),
        "word": np.where(GRIP, "open", "closed"),
    }
    found = switches_of(read_log(logged(tmp_path / "log.csv", ROBOT, columns), ROBOT))
    assert [(one.column, one.low, one.high) for one in found] == [("DO_Grip", 0.0, 1.0), ("level", -2.0, 3.0)]
    for one in found:
        np.testing.assert_array_equal(at_rows(one, "log"), GRIP == 1)
        # Of a long log no more is kept than where it changes.
        assert len(one.on["log"][0]) <= np.count_nonzero(np.diff(GRIP)) + 2


def test_a_column_of_some_files_alone_is_none(tmp_path: Path) -> None:
    files = [
        logged(tmp_path / "one.csv", ROBOT, {"grip": GRIP, "lamp": GRIP}),
        logged(tmp_path / "two.csv", ROBOT, {"lamp": 1 - GRIP}),
    ]
    (lamp,) = switches_of(read_log(files, ROBOT))
    assert lamp.column == "lamp"
    np.testing.assert_array_equal(at_rows(lamp, "one"), GRIP == 1)
    np.testing.assert_array_equal(at_rows(lamp, "two"), GRIP == 0)


def test_the_share_is_the_mean_over_the_time_around() -> None:
    switch = Switch("grip", 0.0, 1.0, {"log": (T, GRIP == 1)})
    at = np.array([0.5, 1.5, 1.505, 2.5, 4.05])
    share = switch.share("log", at, 0.2)
    # Each row holds until the next.
    fine = np.arange(-0.1, 0.1, 1e-5) + 5e-6
    expected = [(GRIP[np.clip(np.searchsorted(T, x + fine, "right") - 1, 0, None)]).mean() for x in at]
    np.testing.assert_allclose(share, expected, atol=1e-3)
    assert share[0] == pytest.approx(0.0)
    assert share[3] == pytest.approx(1.0)


def test_what_a_bag_holds_beside_the_joints_is_no_switch_that_fails(tmp_path: Path) -> None:
    """Of another topic, with messages of its own times, nothing is read."""
    names, motion = ROBOT.joint_names, np.stack([np.sin(T), np.cos(T)], axis=1)
    grip = states(T[::4], ["gripper"], GRIP[::4, None].astype(float), topic="/gripper")
    bag = write_bag(tmp_path / "bag", [*states(T, names, motion, motion, motion), *grip])
    assert switches_of(read_log(bag, ROBOT)) == ()
