"""MJCF trees against MuJoCo's own inverse dynamics."""
# ruff: noqa: E501  (files as they are written)

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.kernel import inverse_dynamics
from dynid.robot import JointType, RobotModel, load_robot

mujoco: Any = pytest.importorskip("mujoco")

PENDULUM = '<body name="b"><joint name="j" {joint}/><geom type="capsule" size="0.05" fromto="0 0 0 0.3 0.1 0.4"/></body>'
MODELS = {
    "several joints in one body": """<worldbody><body name="a" pos="0.1 0.2 0.3" euler="10 20 30">
        <joint name="x" type="slide" axis="1 0 0" pos="0.3 0.1 0.2"/><joint name="y" type="hinge" axis="0 1 0" pos="0.1 0 0"/>
        <joint name="z" axis="0 0.6 0.8" pos="0 0.2 0.1"/><geom type="box" size="0.1 0.2 0.3" pos="0.1 0.1 0"/>
        <body name="c" pos="0 0 0.5"><joint name="u" axis="1 0 0"/><joint name="v" axis="0 1 0"/>
        <inertial pos="0.1 0 0" mass="2" fullinertia="0.3 0.25 0.2 0.02 0.01 -0.03"/></body></body></worldbody>""",
    "joint pos": "<worldbody>" + PENDULUM.format(joint='pos="0.3 -0.2 0.1" axis="0 0 1"') + "</worldbody>",
    "hinge ref": "<worldbody>" + PENDULUM.format(joint='ref="40" pos="0.1 0 0.2" axis="0 1 0"') + "</worldbody>",
    "slide ref": "<worldbody>" + PENDULUM.format(joint='type="slide" ref="0.4" axis="0.6 0.8 0"') + "</worldbody>",
    "radians": '<compiler angle="radian" eulerseq="ZYX"/><worldbody><body euler="0.3 0.2 0.1">'
    + PENDULUM.format(joint='ref="0.4" axis="0 1 0"') + "</body></worldbody>",
    "defaults": """<default><joint axis="0 1 0" ref="20"/><default class="big"><joint type="slide" pos="0.1 0 0"/>
        <geom size="0.3" density="500"/></default></default>
        <worldbody><body name="a"><joint name="p"/><geom size="0.2"/>
        <body name="b" pos="0.3 0 0" childclass="big"><joint name="q"/><geom/></body></body></worldbody>""",
    "welded bodies": """<worldbody><body pos="0 0 1"><body name="a" pos="0.1 0 0" quat="0.8 0 0.6 0"><joint name="p" axis="0 1 0"/>
        <inertial mass="1" pos="0.1 0.2 0.3" quat="0.5 0.5 0.5 0.5" diaginertia="0.1 0.2 0.25"/>
        <body name="tool" pos="0.2 0.1 0" euler="0 90 10"><geom size="0.1" pos="0.1 0 0"/></body></body></body></worldbody>""",
    "frames": """<worldbody><frame pos="0.3 0 0" euler="90 0 0"><body name="a"><joint name="p" axis="1 0 0"/>
        <frame quat="0.6 0 0 0.8"><geom type="box" size="0.1 0.2 0.3" pos="0.4 0 0"/></frame></body></frame></worldbody>""",
    "branches": """<option gravity="1 -2 -9"/><worldbody><body name="a"><joint name="p" axis="0 1 0"/><geom size="0.1"/>
        <body name="b" pos="0 0 1"><joint name="q" axis="1 0 0"/><geom size="0.1" pos="0 1 0"/></body>
        <body name="c" pos="0 1 1"><joint name="r" type="slide" axis="0 0 1"/><geom size="0.1" pos="1 1 0"/></body></body>
        <body name="d"><joint name="s" axis="0 0 1"/><geom size="0.2" pos="1 1 0"/></body></worldbody>""",
    "copies": """<worldbody><body name="palm"><joint name="wrist" axis="1 0 0"/><geom size="0.1" mass="2"/>
        <replicate count="3" offset="0.1 0 0.02" euler="0 20 30" sep="-"><body name="finger" pos="0 0.2 0.1">
        <joint name="bend" axis="1 0 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.1 0.05 0.2"/>
        <replicate count="2" euler="0 0 90"><geom size="0.03" pos="0.05 0 0"/></replicate>
        <body pos="0 0 0.2"><joint name="tip" type="slide" axis="0 0 1"/><geom size="0.05" pos="0.1 0 0"/></body>
        </body></replicate></body></worldbody>""",
    "no gravity": '<option><flag gravity="disable"/></option><worldbody>' + PENDULUM.format(joint="") + "</worldbody>",
    "armature, damping, friction": "<worldbody>"
    + PENDULUM.format(joint='armature="0.5" damping="2" frictionloss="0.3" stiffness="3"') + "</worldbody>",
    "mass from shapes": '<compiler inertiafromgeom="true"/><worldbody><body name="a"><joint name="p" axis="0 1 0"/>'
    '<inertial mass="9" pos="0 0 0" diaginertia="1 1 1"/><geom size="0.2" pos="0.3 0 0"/></body></worldbody>',
}  # fmt: skip


def read(text: str, tmp_path: Path) -> tuple[RobotModel, Diagnostics]:
    (tmp_path / "robot.xml").write_text(text)
    diagnostics = Diagnostics()
    return load_robot(tmp_path / "robot.xml", diagnostics=diagnostics), diagnostics


def mujoco_torque(text: str, names: tuple[str, ...], q: Float, dq: Float, ddq: Float) -> Float:
    """Inverse dynamics of the rigid bodies alone, columns in the order of `names`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of attributes that a later release will not have
        model = mujoco.MjModel.from_xml_string(text)
    model.dof_armature[:] = 0
    model.dof_damping[:] = 0
    model.dof_frictionloss[:] = 0
    model.jnt_stiffness[:] = 0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    joints = [model.joint(name).id for name in names]
    positions, speeds = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    torque = np.zeros_like(q)
    for t in range(len(q)):
        data.qpos[positions], data.qvel[speeds], data.qacc[speeds] = q[t], dq[t], ddq[t]
        mujoco.mj_inverse(model, data)
        torque[t] = data.qfrc_inverse[speeds]
    return torque


def agree(text: str, tmp_path: Path, seed: int = 0) -> RobotModel:
    robot, _ = read(text, tmp_path)
    random = np.random.default_rng(seed)
    q, dq, ddq = (random.uniform(-2, 2, (5, robot.n)) for _ in range(3))
    truth = mujoco_torque(text, robot.joint_names, q, dq, ddq)
    found = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    assert np.abs(found - truth).max() <= 1e-9 * max(1.0, float(np.abs(truth).max()))
    return robot


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_mujocos_torque(name: str, tmp_path: Path) -> None:
    agree(f"<mujoco>{MODELS[name]}</mujoco>", tmp_path)


def random_body(random: np.random.Generator, depth: int, label: str) -> str:
    def vector(n: int = 3) -> str:
        return " ".join(f"{x:.6f}" for x in random.normal(size=n))

    joints = "".join(
        f'<joint name="{label}_{k}" type="{random.choice(["hinge", "slide"])}" axis="{vector()}" pos="{vector()}" '
        f'ref="{random.uniform(-1, 1):.3f}"/>'
        for k in range(random.integers(0 if depth else 1, 4))
    )
    a, b, c = random.uniform(0.2, 0.3, 3)
    inertia = f'<inertial pos="{vector()}" quat="{vector(4)}" mass="{a + b:.4f}" diaginertia="{a:.4f} {b:.4f} {c:.4f}"/>'
    shape = f'<geom type="ellipsoid" size="0.1 0.2 0.3" pos="{vector()}" euler="{vector()}"/>'
    below = "".join(
        random_body(random, depth + 1, f"{label}{k}")
        for k in range(random.integers(0, 3) if depth < 3 else 0)
    )
    content = inertia if random.random() < 0.5 else shape
    return f'<body name="{label}" pos="{vector()}" quat="{vector(4)}">{joints}{content}{below}</body>'


@pytest.mark.parametrize("seed", range(10))
def test_random_models_have_mujocos_torque(seed: int, tmp_path: Path) -> None:
    body = random_body(np.random.default_rng(seed), 0, "b")
    agree(f'<mujoco><compiler angle="radian"/><worldbody>{body}</worldbody></mujoco>', tmp_path, seed)


@pytest.mark.parametrize("kind", ["connect", "weld"])
@pytest.mark.parametrize("seed", range(10))
def test_the_joints_that_a_closed_loop_loads_are_named(seed: int, kind: str, tmp_path: Path) -> None:
    """Those on which MuJoCo's constraint has a force, where the bodies meet the constraint; no others."""
    random = np.random.default_rng(seed)
    body = "".join(random_body(random, 0, label) for label in "bc")
    bodies = re.findall('<body name="([^"]+)"', body)
    ends = [*random.choice(bodies, 2, replace=False), "world"][: random.integers(1, 3)]
    attributes = " ".join(f'body{k + 1}="{name}"' for k, name in enumerate(ends))
    anchor = 'anchor="0.1 0.2 0.3"' if kind == "connect" else ""
    text = (
        f'<mujoco><compiler angle="radian"/><worldbody>{body}</worldbody>'
        f"<equality><{kind} {attributes} {anchor}/></equality></mujoco>"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = mujoco.MjModel.from_xml_string(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(model)
    data.qvel[:] = random.normal(size=model.nv)
    mujoco.mj_forward(model, data)
    force = np.abs(data.qfrc_constraint)
    loaded = (
        {model.joint(j).name for j in np.flatnonzero(force > 1e-9 * force.max())} if force.max() else set()
    )
    robot, diagnostics = read(text, tmp_path)
    warned = [item.text for item in diagnostics.warnings if item.identifier == "closed-loop"]
    named = {
        name for text in warned for name in re.findall("'([^']+)'", text.split("force at")[1].split(";")[0])
    }
    assert named == loaded
    assert set(robot.joint_names) >= named
    off = diagnostics_of(text.replace("<" + kind, f'<{kind} active="false"'), tmp_path)
    assert "closed-loop" not in {one.identifier for one in off.warnings}


def diagnostics_of(text: str, tmp_path: Path) -> Diagnostics:
    return read(text, tmp_path)[1]


@pytest.mark.parametrize(
    "compiler",
    [
        'boundmass="3" boundinertia="0.5"',
        'boundmass="3" boundinertia="0.5" balanceinertia="true" settotalmass="20"',
        'eulerseq="ZYX" angle="radian" settotalmass="7"',
        'inertiafromgeom="true" inertiagrouprange="0 2" boundmass="0.2"',
    ],
)
def test_what_the_compiler_makes_of_bodies_is_the_model(compiler: str, tmp_path: Path) -> None:
    body = """
      <body name="b1" euler="10 20 30"><joint name="a1" axis="0 0 1"/><geom size=".1" fromto="0 0 0 .1 0 .3" type="capsule"/>
        <body name="b2" pos=".1 0 .3" euler="0 .4 .2"><joint name="a2" axis="0 1 0" pos="0 0 .02"/>
          <geom type="box" size=".05 .1 .02" pos="0 0 .1" euler=".1 .2 .3" mass="1.5"/>
          <geom size=".02" group="4" mass="0.3" pos=".2 0 0"/></body></body>"""
    agree(f'<mujoco model="arm"><compiler {compiler}/><worldbody>{body}</worldbody></mujoco>', tmp_path)


def test_included_files_are_part_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "arm.xml").write_text(
        '<mujocoinclude><body name="a"><joint name="p" class="c"/><geom size="0.1" pos="0.2 0 0"/></body></mujocoinclude>'
    )
    (tmp_path / "d.xml").write_text('<mujoco><default class="c"><joint axis="0 1 0"/></default></mujoco>')
    robot, _ = read(
        '<mujoco><default><include file="d.xml"/></default><worldbody><include file="parts/arm.xml"/></worldbody></mujoco>',
        tmp_path,
    )
    assert robot.axis.tolist() == [[0, 1, 0]]
    assert robot.inertia_prior[0, 0] == pytest.approx(1000 * 4 / 3 * np.pi * 0.1**3)


def test_a_handle_of_the_simulation_closes_no_loop(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><body name="a"><joint name="p"/><geom size="0.1"/></body>
        <body name="handle" mocap="true"/></worldbody>
        <equality><weld body1="handle" body2="a"/></equality></mujoco>"""
    robot, diagnostics = read(text, tmp_path)
    assert robot.joint_names == ("p",)
    (said,) = list(diagnostics)
    assert said.identifier == "mjcf-left-out"
    assert "between 'a' and the mocap body 'handle'" in said.text


def test_what_is_left_out_names_its_joints_and_is_told_once(tmp_path: Path) -> None:
    bodies = "".join(
        f'<body name="{name}"><joint name="{name}_joint"/><geom size="0.1"/></body>' for name in "abc"
    )
    text = f"""<mujoco><worldbody>{bodies}</worldbody>
        <tendon><fixed name="t"><joint joint="b_joint" coef="1"/><joint joint="c_joint" coef="1"/></fixed></tendon>
        <equality><joint joint1="a_joint" joint2="c_joint"/><tendon tendon1="t"/></equality>
        <equality><connect body1="a" body2="b" anchor="0 0 0"/></equality></mujoco>"""
    _, diagnostics = read(text, tmp_path)
    left_out = [one.text for one in diagnostics if one.identifier == "mjcf-left-out"]
    assert left_out == [
        "<tendon>, which couples joints 'b_joint', 'c_joint', is not in the model",
        "<equality>, which couples joints 'a_joint', 'c_joint', is not in the model",
    ]
    assert sum(one.identifier == "closed-loop" for one in diagnostics) == 1


def test_limits_drives_and_friction_are_read(tmp_path: Path) -> None:
    text = """<mujoco model="arm"><worldbody><body name="a"><joint name="p" range="-90 45" armature="0.2" damping="3"
        frictionloss="0.4" actuatorfrcrange="-20 20"/><geom size="0.1"/><body name="b"><joint name="q"/><geom size="0.1"/>
        <body name="c"><joint name="r" type="slide" range="0 0.5"/><geom size="0.1"/></body></body></body></worldbody></mujoco>"""
    robot, diagnostics = read(text, tmp_path)
    assert robot.name == "arm"
    assert robot.joint_types == (JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC)
    assert robot.limits.lower == pytest.approx([-np.pi / 2, -np.inf, 0.0])
    assert robot.limits.upper == pytest.approx([np.pi / 4, np.inf, 0.5])
    assert robot.limits.effort.tolist() == [20, np.inf, np.inf]
    assert robot.drive.reflected_rotor_inertia.tolist() == [0.2, 0, 0]
    assert robot.friction_prior.tolist() == [[3, 0.4], [0, 0], [0, 0]]
    assert not list(diagnostics)


def test_meshes_are_not_read_and_leave_priors_unknown(tmp_path: Path) -> None:
    text = """<mujoco><compiler meshdir="assets"/><asset><mesh name="m" file="none.stl"/><material name="steel"/></asset>
        <default><geom material="steel"/><default class="visual"><geom type="mesh" mass="0"/></default></default>
        <worldbody><body name="a"><joint name="p"/><geom mesh="m" type="mesh"/><geom size="0.1"/>
        <body name="b"><joint name="q"/><geom class="visual" mesh="m"/><geom size="0.1"/>
        <body name="c"><joint name="r"/><geom class="visual" mesh="m"/><inertial mass="2" pos="0 0 0" diaginertia="1 1 1"/>
        </body></body></body></worldbody></mujoco>"""
    robot, diagnostics = read(text, tmp_path)
    assert np.isfinite(robot.inertia_prior[:, 0]).tolist() == [False, True, True]
    assert robot.inertia_prior[2, 0] == 2.0
    found = [(item.identifier, item.place.line) for item in diagnostics]
    assert found == [("mesh-missing", 1), ("inertial-missing", 3)]


def test_unnamed_joints_get_names_of_their_own(tmp_path: Path) -> None:
    robot, _ = read(
        '<mujoco><worldbody><body><joint/><geom size="1"/><body><joint name="joint0"/><geom size="1"/></body></body>'
        "</worldbody></mujoco>",
        tmp_path,
    )
    assert robot.joint_names == ("joint0_", "joint0")


def test_a_body_that_moves_freely_beside_the_robot_is_no_base(tmp_path: Path) -> None:
    box = '<body name="box" pos="1 0 0"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>'
    text = f"<mujoco><worldbody>{PENDULUM.format(joint='axis=&quot;0 1 0&quot;')}{box}</worldbody></mujoco>"
    (tmp_path / "scene.xml").write_text(text.replace("&quot;", '"'))
    said = Diagnostics()
    assert load_robot(tmp_path / "scene.xml", diagnostics=said).joint_names == ("j",)
    assert "free-base" not in {one.identifier for one in said}
