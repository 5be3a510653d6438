"""RobotModel, Drive and their plain data: what goes in comes out, what makes no sense stops at once."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import DynidError, InputError, UsageError
from dynid.robot import (
    Drive,
    JointType,
    Limits,
    RobotModel,
    TorqueSide,
    describe,
    load_example,
    load_robot,
    robot_from_dict,
    robot_to_dict,
)


def robot(**changes: Any) -> RobotModel:
    """Three bodies, the last one following the first joint."""
    base = RobotModel(
        name="r",
        body_names=("a", "b", "c"),
        tree_joint_names=("j1", "j2", "j3"),
        joint_names=("j1", "j2"),
        parent=np.array([-1, 0, 0]),
        joint_types=(JointType.REVOLUTE, JointType.PRISMATIC, JointType.CONTINUOUS),
        T_parent_joint=np.tile(np.eye(4), (3, 1, 1)),
        axis=np.eye(3),
        inertia_prior=np.vstack([np.arange(10.0), np.full(10, np.nan), np.ones(10) / 3]),
        gravity=np.array([0.0, 0.0, -9.81]),
        limits=Limits(
            np.array([-1.0, -np.inf]), np.array([np.inf, 2.0]), np.array([1 / 3, np.inf]), np.ones(2)
        ),
        drive=Drive(
            np.array([[50.0, 0.0], [3.0, 20.0]]),
            np.array([0.1, np.nan]),
            np.array([np.nan, 0.2]),
            np.array([1.0, 2.0]),
            TorqueSide.MOTOR,
        ),
        projection=np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, 0.0]]),
        projection_offset=np.array([0.0, 0.0, 0.1]),
        friction_prior=np.array([[np.nan, 1.0], [2.0, np.nan]]),
        merged=(("a", "tool"), ("b",), ("c",)),
        source="r.urdf",
    )
    return replace(base, **changes)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, (Limits, Drive)):
        return all(same(getattr(a, one.name), getattr(b, one.name)) for one in fields(a))
    return bool(a == b)


def test_plain_data_gives_the_same_robot_back(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(
        '<mujoco><worldbody><body name="b"><joint name="j" armature="0.5" range="-10 20"/></body></worldbody>'
        "</mujoco>"
    )
    for one in (robot(), load_robot(tmp_path / "robot.xml")):
        text = json.dumps(robot_to_dict(one), allow_nan=False)
        back = robot_from_dict(json.loads(text))
        for field in fields(RobotModel):
            assert same(getattr(one, field.name), getattr(back, field.name)), field.name


@pytest.mark.parametrize("key", ["name", "parent", "limits", "drive", "inertia_prior", "joint_types"])
@pytest.mark.parametrize("value", [None, "nonsense", 7, [], {}])
def test_damaged_plain_data_stops(key: str, value: Any) -> None:
    data = robot_to_dict(robot())
    if key == "name" and isinstance(value, str):
        return
    data[key] = value
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError, DynidError)):
        robot_from_dict(data)
    del data[key]
    with pytest.raises(KeyError):
        robot_from_dict(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"joint_names": ("j1", "j9")},
        {"tree_joint_names": ("j1", "j1", "j2")},
        {"parent": np.array([-1, 2, 0])},
        {"parent": np.array([0, 0, 0])},
        {"axis": np.full((3, 3), np.nan)},
        {"axis": 2 * np.eye(3)},
        {"gravity": np.array([0.0, np.nan, 0.0])},
        {"T_parent_joint": 2 * np.tile(np.eye(4), (3, 1, 1))},
        {"T_parent_joint": np.tile(np.eye(4), (2, 1, 1))},
        {"limits": Limits.none(3)},
        {"drive": Drive.direct(3)},
        {"merged": (("a",),)},
        {"name": 7},
    ],
    ids=str,
)
def test_a_robot_that_cannot_be_stops_when_it_is_made(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        robot(**changes)


def test_a_robot_cannot_be_changed() -> None:
    one = robot()
    with pytest.raises(ValueError, match="read-only"):
        one.axis[0, 0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        one.limits.lower[0] = 2.0


def test_independent_joints_know_their_bodies() -> None:
    one = robot(joint_names=("j3", "j2"))
    assert one.independent_bodies.tolist() == [2, 1]
    assert one.prismatic == (False, True)
    assert one.has_mimic


def test_a_drive_knows_only_what_it_was_given() -> None:
    drive = robot().drive
    assert drive.coupled
    assert np.isnan(drive.reflected_rotor_inertia).tolist() == [True, True]
    apart = Drive(np.diag([10.0, 20.0]), np.array([0.1, np.nan]), np.ones(2), np.ones(2))
    assert apart.reflected_rotor_inertia[0] == pytest.approx(10.0)
    assert np.isnan(apart.reflected_rotor_inertia[1])
    assert not apart.coupled


@pytest.mark.parametrize(
    "N", [np.zeros((2, 2)), np.ones((2, 2)), np.diag([1.0, np.nan]), np.diag([1.0, np.inf])]
)
def test_a_transmission_must_be_invertible(N: np.ndarray) -> None:
    with pytest.raises(InputError, match="singular-transmission"):
        Drive(N, np.ones(2), np.ones(2), np.ones(2))


def test_negative_rotors_stop() -> None:
    with pytest.raises(InputError, match="negative-rotor-inertia"):
        Drive(np.eye(1), np.array([-1.0]), np.ones(1), np.ones(1))


def test_a_robot_in_words() -> None:
    text = "\n".join(describe(robot()))
    for part in (
        "robot 'r' (r.urdf)",
        "2 independent joint(s), 3 moving links",
        "(1 unknown)",
        "a (with tool): 0 kg",
        "prismatic joint 'j2' along (0, 1, 0)",
        "(follows 'j1' times -0.5)",
        "mass unknown",
    ):
        assert part in text


def test_gravity_may_be_given_and_must_be_finite(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('convention = "placements"\n[[joint]]\nname = "a"\n')
    assert load_robot(tmp_path / "r.toml", gravity=(0.0, 0.0, -1.62)).gravity.tolist() == [0, 0, -1.62]
    for gravity in ((0.0, 0.0, np.nan), (0.0, np.inf, 0.0)):
        with pytest.raises(UsageError, match="gravity"):
            load_robot(tmp_path / "r.toml", gravity=gravity)


@pytest.mark.parametrize("name", ["no-such-arm", "../robots/arm", "", "__init__"])
def test_examples_that_there_are_not(name: str) -> None:
    with pytest.raises(InputError, match="no-example"):
        load_example(name)
