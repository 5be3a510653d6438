"""Four columns whose squares sum to one are the orientation of a body, and no positions of joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import propose_logs
from dynid.layouts.proposal import excerpt, is_quaternion
from tests.layouts.test_strangers import ARM, asked, csv, numbered, reads

WANDER = np.cumsum(np.random.default_rng(1).normal(0, 0.02, (len(ARM.t), 4)), axis=0) + np.eye(4)[0]
BODY = np.round(WANDER / np.linalg.norm(WANDER, axis=1)[:, None], 4)


@pytest.mark.parametrize(
    "names",
    [
        ["q[0]", "q[1]", "q[2]", "q[3]"],
        ["qw", "qx", "qy", "qz"],
        ["imu.orientation.x", "imu.orientation.y", "imu.orientation.z", "imu.orientation.w"],
    ],
)
def test_an_orientation_beside_joints_is_left_out(names: list[str], tmp_path: Path) -> None:
    of_body = dict(zip(names, BODY.T, strict=True))
    columns = {
        "t": ARM.t,
        **of_body,
        **numbered("position[#]", ARM.q, 0),
        **numbered("effort[#]", ARM.tau, 0),
    }
    path = csv(tmp_path / "log.csv", columns)
    assert excerpt(path, ARM.robot.joint_names).orientations == (tuple(names),)
    reads(path, dq=False)


def test_an_orientation_alone_is_no_arm_of_four_joints(tmp_path: Path) -> None:
    columns = {"timestamp": ARM.t, **numbered("q[#]", BODY, 0)}
    columns |= numbered("delta_q_reset[#]", np.zeros((len(ARM.t), 3)), 0)  # of a flight log
    question = asked(csv(tmp_path / "log.csv", columns))["log.position.columns"]
    assert "'q[0]' to 'q[3]' are not positions but a unit quaternion" in question
    found = propose_logs(ARM.robot, [tmp_path / "log.csv"])
    assert not any(one.refusal for one in found.open)
    assert "position" not in found.groups


def test_joints_that_stand_still_at_a_unit_are_no_orientation() -> None:
    still = np.tile([0.0, 1.0, 0.0, 0.0], (100, 1))
    assert not is_quaternion(still)
    slow = still + 0.01 * np.sin(np.linspace(0, 6, 100))[:, None] * [1, 2, 3, 4]
    assert not is_quaternion(slow)
    assert not is_quaternion(ARM.q[:, :4])
    assert is_quaternion(BODY)
