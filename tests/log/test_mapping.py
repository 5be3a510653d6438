"""The [log] table: joints by name, units declared, every fault of a table said at once."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError, InputErrors
from dynid.log import Channel, ChannelMap, LogSection, canonical_columns, channel_map, read_log, write_log
from dynid.log.own_columns import canonical_map, suggestion
from dynid.robot import JointType, RobotModel

PLAIN = """\
time = { column = "stamp", unit = "ms" }
position = { columns = "pos_{joint}", unit = "deg" }
"""


def resolved(text: str, robot: RobotModel) -> ChannelMap:
    return channel_map(LogSection.model_validate(tomllib.loads(text)), robot, "x.toml")


def test_templates_and_tables_name_the_same_columns(robot: RobotModel) -> None:
    by_joint = resolved(PLAIN, robot).position
    table = '{ elbow = "pos_elbow", shoulder = "pos_shoulder" }'
    assert resolved(PLAIN.replace('"pos_{joint}"', table), robot).position == by_joint
    assert list(by_joint) == ["shoulder", "elbow"]
    assert by_joint["elbow"] == Channel("pos_elbow", "deg", math.pi / 180)
    numbered = resolved(PLAIN.replace("{joint}", "{number}"), robot).position
    assert [channel.column for channel in numbered.values()] == ["pos_1", "pos_2"]


def test_offsets_are_in_the_declared_unit(robot: RobotModel) -> None:
    text = PLAIN.replace('"deg" }', '"deg", offset = { elbow = -90.0 }, sign = { elbow = -1 } }')
    mapping = resolved(text, robot)
    assert mapping.position_offset["elbow"] == pytest.approx(-math.pi / 2)
    assert mapping.position_sign == {"elbow": -1.0}


def slider(robot: RobotModel) -> RobotModel:
    return replace(robot, joint_types=(JointType.REVOLUTE, JointType.PRISMATIC))


def test_units_by_joint_fit_what_turns_and_what_slides(robot: RobotModel) -> None:
    table = PLAIN.replace('"deg"', '{ shoulder = "deg", elbow = "mm" }')
    table += 'effort = { columns = "i{number}", unit = { shoulder = "mN m", elbow = "N" } }'
    mapping = resolved(table, slider(robot))
    assert mapping.position["shoulder"] == Channel("pos_shoulder", "deg", math.pi / 180)
    assert mapping.position["elbow"] == Channel("pos_elbow", "mm", 1e-3)
    assert [one.factor for one in mapping.effort.values()] == [1e-3, 1.0]
    assert mapping.effort_quantity == "torque"
    with pytest.raises(InputErrors, match=r"unit 'mm'; expected one of rad, deg"):
        resolved(table, robot)
    for wrong, message in (
        (PLAIN, "'deg' for all joints, but 'elbow' is prismatic"),
        (PLAIN.replace('"deg"', '{ shoulder = "deg" }'), "no unit for 'elbow'"),
        (PLAIN.replace('"deg"', '{ shoulder = "deg", elbow = "m", wrist = "m" }'), "joint 'wrist'"),
        (table.replace('"mN m"', '"A"'), "current and torque"),
    ):
        with pytest.raises(InputErrors, match=message):
            resolved(wrong, slider(robot))


@pytest.mark.parametrize(
    ("unit", "quantity", "factor"),
    [
        ("N m", "torque", 1.0),
        ("mNm", "torque", 1e-3),
        ("kNm", "torque", 1e3),
        ("kN m", "torque", 1e3),
        ("A", "current", 1.0),
        ("mA", "current", 1e-3),
        ("raw", "raw", 1.0),
        ("kN", "torque", 1e3),
    ],
)
def test_units_of_effort(unit: str, quantity: str, factor: float, robot: RobotModel) -> None:
    mapping = resolved(
        PLAIN + f'effort = {{ columns = "i{{number}}", unit = "{unit}", side = "motor" }}', robot
    )
    assert (mapping.effort_quantity, mapping.effort_side) == (quantity, "motor")
    assert mapping.effort["elbow"].factor == factor


def test_the_side_of_effort_is_the_robot_s_unless_given(robot: RobotModel) -> None:
    effort = 'effort = { columns = "i{number}", unit = "N m" }'
    assert resolved(PLAIN + effort, robot).effort_side == robot.drive.torque_side == "link"


def test_all_faults_are_listed(robot: RobotModel) -> None:
    text = (
        PLAIN.replace('"ms"', '"milliseconds"')
        .replace('"deg"', '"N m", sign = { elbo = -1 }')
        .replace('"pos_{joint}"', '{ shoulder = "a" }')
        + 'effort = { columns = { shoulder = "e", elbow = "f" }, unit = "N m" }\n'
        + 'velocity = { columns = "dq", unit = "rad/s" }\nextra = { load = { column = "c", unit = "lb" } }\n'
    )
    with pytest.raises(InputErrors) as found:
        resolved(text, robot)
    wrong = {(error.identifier, error.found) for error in found.value.errors}
    assert ("unit", "unknown unit 'milliseconds'") in wrong
    assert ("unit", "unknown unit 'N m'") in wrong
    assert ("unit", "unknown unit 'lb'") in wrong
    assert ("unknown-joint", "unknown joint 'elbo'") in wrong
    assert ("missing-joint", "position without elbow") in wrong
    assert any(identifier == "template" and "dq" in what for identifier, what in wrong)
    assert "did you mean 'elbow'?" in str(found.value)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ('"q_{index}"', ("q_0", "q_1")),
        ('"q[{index}]"', ("q[0]", "q[1]")),
        ('"q[:]"', ("q[0]", "q[1]")),
        ('"q[2:4]"', ("q[2]", "q[3]")),
        ('"q[3:]"', ("q[3]", "q[4]")),
        ('["right", "left"]', ("right", "left")),
    ],
)
def test_columns_by_place(columns: str, wanted: tuple[str, ...], robot: RobotModel) -> None:
    mapping = resolved(
        f'time = {{ column = "t", unit = "s" }}\nposition = {{ columns = {columns}, unit = "rad" }}', robot
    )
    assert tuple(mapping.position[joint].column for joint in robot.joint_names) == wanted


@pytest.mark.parametrize("columns", ['"q[0:3]"', '"q[0:1]"', '"q"', '["a", "b", "c"]', "[]"])
def test_other_than_a_column_a_joint(columns: str, robot: RobotModel) -> None:
    with pytest.raises(InputErrors, match=r"template.*2 columns|without columns"):
        resolved(
            f'time = {{ column = "t", unit = "s" }}\nposition = {{ columns = {columns}, unit = "rad" }}',
            robot,
        )


@pytest.mark.parametrize(("key", "unit"), [("velocity", "rad/s"), ("temperature", "degC")])
def test_a_channel_is_mapped_for_every_joint_or_not_at_all(key: str, unit: str, robot: RobotModel) -> None:
    with pytest.raises(InputErrors, match=r"missing-joint.*without shoulder"):
        resolved(PLAIN + f'{key} = {{ columns = {{ elbow = "x" }}, unit = "{unit}" }}', robot)


def test_canonical_names_need_no_mapping(robot: RobotModel) -> None:
    columns = ("t", "q_shoulder", "q_elbow", "tau_shoulder", "tau_elbow", "dq_elbow", "cabinet")
    mapping = canonical_map(columns, robot, "log.csv")
    assert mapping.trajectory is None
    assert mapping.velocity == {}
    assert set(mapping.effort) == {"shoulder", "elbow"}
    assert mapping.extra == {}
    assert set(canonical_map(columns, robot, "log.csv", ("cabinet", "other")).extra) == {"cabinet"}
    assert canonical_map((*columns, "traj"), robot, "log.csv").trajectory == "traj"


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (
            ("time", "q1", "q2", "qd1", "qd2", "tau1", "tau2"),
            ('"time"', '"q{number}"', '"qd{number}"', '"tau{number}"'),
        ),
        (
            ("stamp", "pos_1", "pos_2", "current_1", "current_2"),
            ('"stamp"', '"pos_{number}"', '"current_{number}"'),
        ),
        (
            ("t", "shoulder_pos", "elbow_pos", "effort_shoulder", "effort_elbow"),
            ('"t"', '"{joint}_pos"', '"effort_{joint}"'),
        ),
        (
            ("a", "b", "c"),
            ('time = { column = "?"', 'position = { columns = "?"', 'effort = { columns = "?"'),
        ),
    ],
)
def test_a_table_is_suggested_but_units_are_never_guessed(
    columns: tuple[str, ...], wanted: tuple[str, ...], robot: RobotModel, tmp_path: Path
) -> None:
    text = suggestion(columns, robot)
    table = tomllib.loads(text)["log"]
    assert {entry["unit"] for entry in table.values()} == {"?"}
    for words in wanted:
        assert words in text
    rows = np.zeros((3, len(columns))) + np.arange(3)[:, None]
    np.savetxt(tmp_path / "log.csv", rows, delimiter=",", header=",".join(columns), comments="")
    with pytest.raises(InputError, match="no-mapping") as found:
        read_log(tmp_path / "log.csv", robot)
    assert text in str(found.value)
    with pytest.raises(InputError, match="unit"):
        channel_map(LogSection.model_validate(table), robot, "x.toml")


def test_what_is_left_out_has_dynids_own_names(robot: RobotModel, tmp_path: Path) -> None:
    t, rows = np.arange(60) / 100.0, np.random.default_rng(4).normal(size=(3, 60, 2))
    path = write_log(tmp_path / "log.csv", t, canonical_columns(robot.joint_names, *rows))
    plain = read_log(path, robot)
    assert resolved("", robot).own_names
    for text in (
        "",
        'effort = { unit = "N m" }',
        'position = { unit = "rad" }\nvelocity = { unit = "rad/s" }',
    ):
        log = read_log(path, robot, resolved(text, robot))
        one, other = (each.read(each.trajectories[0]) for each in (log, plain))
        for part in ("t", "q", "dq", "tau"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    scaled = read_log(path, robot, resolved('effort = { unit = "mNm" }', robot))
    np.testing.assert_allclose(scaled.read(scaled.trajectories[0]).tau, 1e-3 * rows[2], rtol=1e-15)
    # Positions with columns of their own: nothing is added to what is named.
    named = resolved(
        'time = { column = "t", unit = "s" }\nposition = { columns = "q_{joint}", unit = "rad" }', robot
    )
    assert read_log(path, robot, named).mapping.velocity == {}
    with pytest.raises(InputErrors, match=r"missing-key.*without log.time"):
        resolved('position = { columns = "q_{joint}", unit = "rad" }', robot)
    with pytest.raises(InputErrors, match="motor_position without columns"):
        resolved('motor_position = { unit = "rad" }', robot)
    other = write_log(tmp_path / "other.csv", t, {"pos_elbow": t})
    with pytest.raises(InputError, match="no-mapping"):
        read_log(other, robot, resolved('effort = { unit = "A" }', robot))
