"""Joints that a log does not have: on a branch of their own their place matters to nothing, else it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base.diagnostics import Diagnostics
from dynid.layouts.propose import _apart
from dynid.robot import load_robot
from dynid.robot.model import RobotModel

LIMIT = '<limit lower="-2" upper="2" velocity="3" effort="50"/>'
INERTIAL = (
    '<inertial><origin xyz="0.1 0 0"/><mass value="2"/><inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" '
    'izz="0.02"/></inertial>'
)
# A waist that carries two arms.
TREE = (("waist", "base", "t"), ("l1", "t", "a"), ("l2", "a", "b"), ("r1", "t", "c"), ("r2", "c", "d"))


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    parts = [
        f'<link name="{child}">{INERTIAL}</link><joint name="{joint}" type="revolute"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>{LIMIT}</joint>'
        for joint, parent, child in TREE
    ]
    path = tmp_path_factory.mktemp("tree") / "two_arms.urdf"
    path.write_text(f'<robot name="two"><link name="base"/>{"".join(parts)}</robot>')
    return load_robot(path, diagnostics=Diagnostics())


@pytest.mark.parametrize(
    ("missing", "apart"),
    [
        (("l1", "l2", "waist"), {"l1", "l2"}),  # the waist carries the arm that is logged
        (("r1", "r2"), set()),  # the waist is logged, and carries both
        (("l1", "l2", "r2", "waist"), {"l1", "l2"}),  # r1 carries r2
    ],
)
def test_only_a_branch_of_its_own_does_not_matter(
    robot: RobotModel, missing: tuple[str, ...], apart: set[str]
) -> None:
    assert {joint for joint in missing if _apart(robot, joint, missing)} == apart


def test_torque_of_logged_joints_does_not_know_the_place_of_those_apart(robot: RobotModel) -> None:
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(robot.source)
    data = model.createData()
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, model.nv))
    still = [model.getJointId(name) - 1 for name in ("l1", "l2", "waist")]
    logged = [model.getJointId(name) - 1 for name in ("r1", "r2")]
    v[still] = a[still] = 0.0
    elsewhere = q.copy()
    elsewhere[still[:2]] += 1.0
    torques = [pin.rnea(model, data, place, v, a).copy()[logged] for place in (q, elsewhere)]
    np.testing.assert_allclose(torques[0], torques[1], atol=1e-12)
