"""What is said of a robot beside its file: on the command line, in experiment files, and in what reads its shapes."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.base import Diagnostics, InputErrors
from dynid.excitation import robot_shapes
from dynid.exporters import export_parameters
from dynid.feasible import limits_from_description
from dynid.identification import Experiment
from dynid.robot import Reading, load_robot
from dynid.terms import RigidBody, Terms
from tests.command_line import Run
from tests.robot.test_held_joints import FLOATING, states, torque
from tests.robot.test_xacro import written

CHAIN = """<robot name="arm"><link name="base"/>
<joint name="j1" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>
<link name="l1"><inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>
<joint name="j2" type="prismatic"><parent link="l1"/><child link="l2"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
<limit lower="0" upper="1" velocity="1" effort="1"/></joint>
<link name="l2"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="0.05"/></geometry></collision></link></robot>"""


def test_every_option_reaches_the_robot(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "robot")
    options = (
        "--xacro",
        "tool=true",
        "--xacro",
        "mass:=4",
        "--lock",
        "tool_joint=0.5",
        "--gravity",
        "0,9.81,0",
    )
    done = run("inspect", path, *options)
    assert done.code == 0, done.err
    assert "locked: tool_joint at 0.5" in done.out
    assert "gravity (0, 9.81, 0)" in done.out
    assert "4 kg" in done.out
    assert "joint-held" in done.err
    done = run("inspect", path, "--xacro", "tool=1", "--tip", "l1", "--packages", tmp_path)
    assert "1 independent joint(s)" in done.out
    assert run("limits", path, "--xacro", "tool=0").code == 4  # it has no shapes, and was read


def test_xacro_without_a_value_expands_a_urdf(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "robot")
    plain = path.with_name("arm.urdf")
    plain.write_text(path.read_text().replace("$(arg tool)", "true"))
    done = run("inspect", plain)
    assert done.code == 7
    assert "xacro-unasked" in done.err
    assert "--xacro" in done.err
    for words in (("--xacro", plain), (plain, "--xacro"), (plain, "--xacro", "--lock", "tool_joint=0")):
        done = run("inspect", *words)
        assert done.code == 0, done.err
    assert run("inspect", plain, "--xacro", "mass=4", "--xacro").code == 0
    assert run("inspect", "--xacro", "mass=4", plain).code == 0
    assert run("limits", plain).code == 7


def test_an_experiment_asks_for_xacro(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[robot]\nxacro = true\n")
    experiment = Experiment.read(path)
    assert experiment.reading.expands
    assert experiment.with_robot({"xacro": {"dof": "6"}}).reading.xacro == {"dof": "6"}
    path.write_text("[robot]\nxacro = { dof = 7 }\n")
    assert Experiment.read(path).with_robot({"xacro": True}).reading.xacro == {"dof": "7"}
    path.write_text("[robot]\n")
    assert not Experiment.read(path).reading.expands
    assert Experiment.read(path).with_robot({"xacro": True}).reading.expands


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--lock", "j1"), "--lock JOINT=VALUE"),
        (("--lock", "j1=x"), "rad or m"),
        (("--lock", "j1=nan"), "finite"),
        (("--lock", "j1=0", "--lock", "j1=1"), "twice"),
        (("--gravity", "0,0"), "three finite numbers"),
        (("--gravity", "0,0,inf"), "three finite numbers"),
        (("--xacro", "=1"), "--xacro NAME=VALUE"),
    ],
)
def test_options_of_another_form_are_wrong_calls(
    options: tuple[str, ...], says: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "arm.urdf").write_text(CHAIN)
    done = run("inspect", tmp_path / "arm.urdf", *options)
    assert done.code == 2
    assert says in done.err


def test_experiment_files_say_it_as_well(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.toml"
    path.parent.mkdir()
    path.write_text(
        '[robot]\ntip = "hand"\nlock = { finger = 0.02 }\npackages = ["ws"]\n'
        "xacro = { gripper = true, dof = 7, name = 'arm' }\n"
    )
    experiment = Experiment.read(path)
    assert experiment.reading == Reading(
        tip="hand",
        lock={"finger": 0.02},
        packages=(str(path.parent / "ws"),),
        xacro={"gripper": "true", "dof": "7", "name": "arm"},
    )
    reading = experiment.with_robot(
        {"lock": {"wrist": 1.0}, "xacro": {"dof": "6"}, "packages": ["own"]}
    ).reading
    assert reading.lock == {"finger": 0.02, "wrist": 1.0}
    assert reading.xacro["dof"] == "6"
    assert reading.packages == (str(Path("own").absolute()),)
    path.write_text('[robot]\nlock = { finger = "0.02" }\n')
    with pytest.raises(InputErrors, match=r"x\.toml:2.*lock"):
        Experiment.read(path)


def test_shapes_ride_on_the_bodies_that_carry_held_ones(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(CHAIN)
    (entry,) = limits_from_description(path, Reading(lock={"j2": 0.4}))
    reach = np.array(entry["hull"]).max(axis=0)
    exact = np.array([0.35, 0.45, 0.1])
    assert (reach >= exact - 1e-12).all()
    assert (reach <= exact + 0.03 * 0.05).all()  # a ball is enclosed by points a little further out
    robot = load_robot(path, lock={"j2": 0.4})
    shapes = robot_shapes(robot).shapes
    assert [one.body for one in shapes] == [0, 0]
    np.testing.assert_allclose(shapes[1].frame[:3, 3], [0.3, 0.4, 0.0], atol=1e-12)


def test_an_mjcf_with_held_joints_is_changed_in_place(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(FLOATING)
    robot = load_robot(path, lock={"knee": 0.3})
    assert robot.joint_names == ("hip",)
    heavier = 1.2 * robot.inertia_prior
    said = Diagnostics()
    (out,) = export_parameters(
        robot, Terms((RigidBody(),)), heavier.ravel(), tmp_path / "out.xml", diagnostics=said
    )
    assert not [one for one in said.warnings if one.identifier == "mjcf-new"]
    model = mujoco.MjModel.from_xml_path(str(out))
    assert [model.joint(k).name for k in range(model.njnt)] == ["root", "hip", "knee", "rolls"]
    assert model.body("foot").mass[0] == 1.0
    again = load_robot(out, lock={"knee": 0.3})
    q, dq, ddq = states(1)
    np.testing.assert_allclose(torque(again, q, dq, ddq), 1.2 * torque(robot, q, dq, ddq), rtol=1e-9)
    assert load_robot(out).locked == {"root": 0.0, "rolls": 0.0}
