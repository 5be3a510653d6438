"""Springs of joints in exported files: MuJoCo, pinocchio and compiled C find the torque of the terms.

MuJoCo and pinocchio are the oracles of files that hold springs and of those that do not.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import dynid
from dynid.base import Diagnostics, RefusedError
from dynid.dynamics import Dynamics
from dynid.exporters import (
    ExportModel,
    NotEditable,
    edit_mjcf,
    export_parameters,
    new_mjcf,
    new_sdf,
    new_urdf,
    write_c,
)
from dynid.exporters.mjcf import samples_npz
from dynid.exporters.model import exportable_springs, note_left_out, with_zero_offsets
from dynid.robot import Reading, RobotModel, load_robot
from dynid.signals import Samples
from dynid.terms import (
    Coulomb,
    Offset,
    OnMotor,
    RigidBody,
    RotorInertia,
    Terms,
    TorsionSpring,
    Viscous,
    spring_torque,
    torque_of,
)
from dynid.testing import random_robot
from tests.export.models import AGREE, compiled, model_of, states
from tests.export.test_c_code import call, library

pytestmark = pytest.mark.usefixtures("unexamined")

NO_COULOMB = RigidBody() + RotorInertia() + Viscous() + Offset()
SEEDS = (1, 2, 3, 4)


def sprung(robot: RobotModel, several: bool = False, seed: int = 0) -> tuple[Terms, np.ndarray]:
    """Terms with springs on the first and the last joint, one of them behind a weight, and their parameters."""
    names = robot.joint_names
    terms = NO_COULOMB + TorsionSpring(names[:1], "first") + TorsionSpring(names[-1:], "last", (-2.5,))
    if several:
        terms = terms + TorsionSpring(names[1:3], "tendon", (1.0, -0.7))
    columns = terms.columns(robot)
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.5, 2.0, len(columns))
    signed = [i for i, c in enumerate(columns) if c.name.startswith(("ct", "fo"))]
    theta[signed] = rng.normal(scale=3.0, size=len(signed))
    theta[: 10 * robot.n_bodies] = model_of(robot, seed).inertia.ravel()
    return terms, theta


def torque(robot: RobotModel, terms: Terms, theta: np.ndarray) -> np.ndarray:
    """What the terms predict on random motion, (T, n)."""
    motion = states(robot)
    return terms.torque(robot, Samples.from_motion(*motion, np.zeros_like(motion[0])), theta)


def by_mujoco(data: bytes, robot: RobotModel) -> np.ndarray:
    """Torque on the independent joints by MuJoCo's inverse dynamics, passive forces included."""
    theirs = mujoco.MjModel.from_xml_string(data.decode())
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    state = mujoco.MjData(theirs)
    at = [int(theirs.joint(name).qposadr[0]) for name in robot.tree_joint_names]
    found = []
    for q, dq, ddq in zip(*robot.tree_motion(*states(robot)), strict=True):
        state.qpos[at], state.qvel[at], state.qacc[at] = q, dq, ddq
        mujoco.mj_inverse(theirs, state)
        found.append(np.array(state.qfrc_inverse)[at] @ robot.projection)
    return np.array(found)


def agree(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE * np.abs(wanted).max())


@pytest.mark.parametrize("mimic", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_mujoco_finds_the_torque_of_terms_with_springs(seed: int, mimic: bool) -> None:
    robot = random_robot(seed, n=5, mimic=mimic)
    terms, theta = sprung(robot, several=True, seed=seed)
    model = ExportModel.of_terms(robot, terms, theta)
    assert model.left_out == ()
    wanted = torque(robot, terms, theta)
    agree(model.torque(*states(robot)), wanted)
    # An offset of joints without a spring has no place in MJCF; of the others none is left.
    assert not model.offset[[0, -1]].any()
    agree(by_mujoco(new_mjcf(model), robot) + model.offset, wanted)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
@pytest.mark.parametrize("mimic", [False, True])
def test_c_code_finds_it(mimic: bool, tmp_path: Path) -> None:
    robot = random_robot(2, n=4, mimic=mimic)
    terms, theta = sprung(robot, several=True)
    terms = terms + Coulomb(0.02)
    theta = np.append(theta, np.linspace(0.1, 0.9, robot.n))
    model = ExportModel.of_terms(robot, terms, theta)
    code = write_c(model, "model.h")
    assert "greatest difference" in compiled(code.source, code.header, tmp_path)
    found, name = library(model, tmp_path), robot.name
    motion = states(robot)
    wanted = torque(robot, terms, theta)
    at_rest = model.gravity(motion[0])
    assert np.abs(at_rest - replace(model, springs=()).gravity(motion[0])).max() > 1.0
    for k, state in enumerate(zip(*motion, strict=True)):
        agree(call(found[f"{name}_torque"], robot.n, *state), wanted[k])
        agree(call(found[f"{name}_gravity"], robot.n, state[0]), at_rest[k])
        # What an acceleration takes brings it back.
        back = call(found[f"{name}_forward_dynamics"], robot.n, state[0], state[1], wanted[k])
        np.testing.assert_allclose(back, state[2], rtol=0, atol=1e-7)


def test_the_models_own_derivatives_energy_and_momentum_know_springs() -> None:
    robot = random_robot(3, n=4)
    terms, theta = sprung(robot, several=True)
    model = ExportModel.of_terms(robot, terms, theta)
    q, dq, ddq = (part[:1] for part in states(robot))
    step = 1e-6
    by_q = model.torque_derivatives(q, dq, ddq)[0][0]
    for j, one in enumerate(np.eye(robot.n) * step):
        change = (model.torque(q + one, dq, ddq) - model.torque(q - one, dq, ddq))[0] / (2 * step)
        np.testing.assert_allclose(by_q[:, j], change, atol=1e-6 * np.abs(by_q).max())
        lifted = (model.potential_energy(q + one) - model.potential_energy(q - one))[0] / (2 * step)
        assert model.gravity(q)[0, j] == pytest.approx(lifted, rel=1e-6, abs=1e-6)
    tau = model.torque(q, dq, ddq)
    np.testing.assert_allclose(model.forward_dynamics(q, dq, tau), ddq, atol=1e-8)
    np.testing.assert_allclose(model.forward_dynamics(q[0], dq[0], tau[0]), ddq[0], atol=1e-8)
    alone = model.inverse_dynamics(q[0], dq[0], ddq[0])
    agree(alone, model.rigid_torque(q, dq, ddq)[0])
    agree(np.array(alone), np.array(model.inverse_dynamics(q[0].tolist(), dq[0].tolist(), ddq[0].tolist())))
    # d(M dq)/dt = M ddq + dM/dt dq.
    after, before = (model.momentum(q + s * step * dq, dq + s * step * ddq) for s in (1, -1))
    np.testing.assert_allclose(model.momentum_rate(q, dq, tau), (after - before) / (2 * step), atol=1e-5)


def numbers(joint: ElementTree.Element, tag: str) -> float:
    return float(joint.findtext(f"axis/dynamics/{tag}", "0"))


@pytest.mark.parametrize("seed", SEEDS)
def test_sdf_holds_springs_of_single_joints(seed: int, tmp_path: Path) -> None:
    # The bodies' torque by pinocchio from a URDF, dampers and springs by the words of the SDF specification.
    robot = random_robot(seed, n=4)
    terms, theta = sprung(robot, seed=seed)
    model = replace(ExportModel.of_terms(robot, terms, theta), rotor=np.zeros(robot.n))
    q, dq, ddq = states(robot)
    joints = {
        one.get("name"): one
        for one in ElementTree.fromstring(new_sdf(model)).iter("joint")  # noqa: S314 - written a moment ago
    }
    own = [joints[name] for name in robot.joint_names]
    k, rest, damping = (
        np.array([numbers(one, tag) for one in own])
        for tag in ("spring_stiffness", "spring_reference", "damping")
    )
    found = rigid_by_pinocchio(model) + k * (q - rest) + damping * dq + model.offset
    agree(found, model.torque(q, dq, ddq))
    path = tmp_path / "robot.sdf"
    path.write_bytes(new_sdf(model))
    again = Dynamics.of_description(load_robot(path, diagnostics=Diagnostics()))
    order = [again.robot.joint_names.index(name) for name in robot.joint_names]
    sorted_motion = tuple(part[:, np.argsort(order)] for part in (q, dq, ddq))
    agree(
        replace(again, rotor=np.zeros(robot.n)).torque(*sorted_motion)[:, order] + model.offset,
        model.torque(q, dq, ddq),
    )


def rigid_by_pinocchio(model: ExportModel) -> np.ndarray:
    robot = model.robot
    theirs = pin.buildModelFromXML(new_urdf(model).decode())
    theirs.gravity.linear = np.array(robot.gravity)
    scratch = theirs.createData()
    joints = [theirs.joints[theirs.getJointId(name)] for name in robot.joint_names]
    found = []
    for q, dq, ddq in zip(*states(robot), strict=True):
        full, v, a = np.zeros(theirs.nq), np.zeros(theirs.nv), np.zeros(theirs.nv)
        for joint, x, rate, more in zip(joints, q, dq, ddq, strict=True):
            full[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
            v[joint.idx_v], a[joint.idx_v] = rate, more
        tau = pin.rnea(theirs, scratch, full, v, a)
        found.append([tau[joint.idx_v] for joint in joints])
    return np.array(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_urdf_lacks_the_springs_alone(seed: int) -> None:
    robot = random_robot(seed, n=4)
    terms, theta = sprung(robot, seed=seed)
    model = replace(ExportModel.of_terms(robot, terms, theta), rotor=np.zeros(robot.n))
    q, dq, ddq = states(robot)
    lacking = sum(one.torque(q) for one in model.springs) + model.offset
    agree(rigid_by_pinocchio(model) + model.viscous * dq + lacking, model.torque(q, dq, ddq))


@pytest.mark.parametrize("seed", SEEDS)
def test_springs_of_an_mjcf_are_read_as_what_is_known_of_them(seed: int, tmp_path: Path) -> None:
    robot = random_robot(seed, n=4)
    terms, theta = sprung(robot, seed=seed)
    model = ExportModel.of_terms(robot, terms, theta)
    path = tmp_path / "robot.xml"
    path.write_bytes(new_mjcf(model))
    diagnostics = Diagnostics()
    again = load_robot(path, diagnostics=diagnostics)
    assert not [one for one in diagnostics.warnings if "stiffness" in one.text]
    described = Dynamics.of_description(again)
    order = [again.joint_names.index(name) for name in robot.joint_names]
    q, dq, ddq = states(robot)
    moved = tuple(part[:, np.argsort(order)] for part in (q, dq, ddq))
    agree(described.torque(*moved)[:, order] + model.offset, model.torque(q, dq, ddq))
    stiffness, rest = model.springs_of_joints()
    for j in (0, robot.n - 1):
        for weight in (1.0, -2.0):
            k, c = TorsionSpring((robot.joint_names[j],), weights=(weight,)).columns(again)
            assert k.prior * weight**2 == pytest.approx(stiffness[j], rel=1e-12)
            assert c.prior * weight == pytest.approx(-stiffness[j] * rest[j], rel=1e-12)
    for column in TorsionSpring((robot.joint_names[1],)).columns(again):
        assert np.isnan(column.prior)
    assert TorsionSpring(robot.joint_names[:1], stiffness=7.0).columns(again)[0].prior == 7.0


def test_a_spring_of_a_follower_acts_on_the_joint_that_it_follows(tmp_path: Path) -> None:
    robot = random_robot(1, n=4, mimic=True)
    (follower,) = [i for i, name in enumerate(robot.tree_joint_names) if name not in robot.joint_names]
    text = new_sdf(model_of(robot)).decode()
    numbers = "<spring_stiffness>3</spring_stiffness><spring_reference>0.4</spring_reference>"
    path = tmp_path / "robot.sdf"
    path.write_text(text.replace("<mimic", f"<dynamics>{numbers}</dynamics><mimic"))
    found = load_robot(path, diagnostics=Diagnostics())
    q = states(found)[0]
    own = found.tree_joint_names.index(robot.tree_joint_names[follower])
    at = found.tree_motion(q, q, q)[0][:, own]
    wanted = 3.0 * (at - 0.4)[:, None] * found.projection[own]
    springs = Dynamics.of_description(found).springs
    agree(sum(one.torque(q) for one in springs), wanted)
    assert np.abs(wanted).max() > 0.1


# Degrees, a reference angle, a default class with a spring, a spring by its time constants, one that hardens, a slide.
OWN = """<mujoco>
  <compiler angle="degree"/>
  <default><default class="s"><joint stiffness="4" springref="30"/></default></default>
  <worldbody>
    <body name="a"><joint name="turn" axis="0 1 0" ref="20" range="-90 90"{turn}/><geom size="0.1" pos="0.2 0 0"/>
      <body name="b" pos="0.3 0 0"><joint name="push" type="slide" axis="1 0 0" stiffness="50" springref="0.1"/>
        <geom size="0.1" pos="0 0.1 0"/>
        <body name="c" pos="0.1 0 0"><joint name="bend" class="s" axis="0 0 1"/><geom size="0.08" pos="0 0.2 0"/>
          <body name="d" pos="0.1 0.3 0"><joint name="plain" axis="0 1 0"/><geom size="0.06" pos="0.1 0 0"/>
    </body></body></body></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize(
    "turn",
    ["", ' stiffness="3 1 2"', ' springdamper="0.1 1"', ' stiffness="2" springref="-40" springyield="1"'],
)
def test_springs_in_the_users_own_file_become_the_models(turn: str, tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(OWN.format(turn=turn))
    robot = load_robot(path, diagnostics=Diagnostics())
    terms = NO_COULOMB + TorsionSpring(("turn",), "turn") + TorsionSpring(("push",), "push")
    theta = np.random.default_rng(2).uniform(0.5, 2.0, len(terms.columns(robot)))
    theta[:40] = model_of(robot).inertia.ravel()
    model = ExportModel.of_terms(robot, terms, theta)
    data, _ = edit_mjcf(model, path, Reading())
    agree(by_mujoco(data, robot) + model.offset, torque(robot, terms, theta))
    # Where the identified model has no spring the file has none either.
    theirs = mujoco.MjModel.from_xml_string(data.decode())
    assert theirs.joint("bend").stiffness[0] == 0.0
    assert theirs.joint("push").stiffness[0] > 0.0


def test_a_file_that_disables_springs_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    text = OWN.format(turn=' stiffness="3"')
    path.write_text(text.replace("<default>", '<option><flag spring="disable"/></option><default>', 1))
    robot = load_robot(path, diagnostics=Diagnostics())
    assert np.isnan(robot.spring_prior).all()
    terms = NO_COULOMB + TorsionSpring(("turn",))
    theta = np.random.default_rng(2).uniform(0.5, 2.0, len(terms.columns(robot)))
    theta[:40] = model_of(robot).inertia.ravel()
    with pytest.raises(NotEditable, match="disabled"):
        edit_mjcf(ExportModel.of_terms(robot, terms, theta), path, Reading())
    diagnostics = Diagnostics()
    (written,) = export_parameters(robot, terms, theta, tmp_path / "new.xml", diagnostics=diagnostics)
    assert "mjcf-new" in [one.identifier for one in diagnostics.warnings]
    found = by_mujoco(written.read_bytes(), robot)
    agree(found + ExportModel.of_terms(robot, terms, theta).offset, torque(robot, terms, theta))


@pytest.mark.parametrize("own", [False, True])
def test_springs_follow_positions_as_logged_where_a_joints_zero_is_off(own: bool, tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(OWN.format(turn=""))
    robot = load_robot(path, diagnostics=Diagnostics())
    terms = RigidBody() + TorsionSpring(("turn",), "turn") + TorsionSpring(("push",), "push")
    theta = np.append(model_of(robot).inertia.ravel(), [8.0, -3.0, 90.0, 4.0])
    zeros = np.array([0.2, 0.03, -0.1, 0.0])
    model = ExportModel.of_terms(robot, terms, theta)
    model = replace(model, robot=with_zero_offsets(robot, zeros), zeros=zeros)
    data = edit_mjcf(model, path, Reading())[0] if own else new_mjcf(model)
    # Bodies stand further than the log says by the zeros; springs were identified along the log's positions.
    q, dq, ddq = states(robot)
    bodies = torque_of(
        RigidBody(), robot, Samples.from_motion(q + zeros, dq, ddq, np.zeros_like(q)), theta[:40]
    )
    springs = np.zeros_like(q)
    springs[:, 0], springs[:, 1] = 8.0 * q[:, 0] - 3.0, 90.0 * q[:, 1] + 4.0
    agree(by_mujoco(data, robot), bodies + springs)


def test_held_joints_keep_the_springs_that_the_file_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(OWN.format(turn=""))
    robot = load_robot(path, lock={"bend": 0.3}, diagnostics=Diagnostics())
    assert robot.n == 3
    terms = RigidBody() + TorsionSpring(("push",))
    theta = np.append(model_of(robot).inertia.ravel(), [70.0, -7.0])
    (written,) = export_parameters(robot, terms, theta, tmp_path / "new.xml", diagnostics=Diagnostics())
    theirs = mujoco.MjModel.from_xml_string(written.read_text())
    assert theirs.joint("push").stiffness[0] == 70.0
    assert theirs.qpos_spring[theirs.joint("push").qposadr[0]] == pytest.approx(0.1, rel=1e-14)
    assert theirs.joint("bend").stiffness[0] == 4.0
    assert theirs.qpos_spring[theirs.joint("bend").qposadr[0]] == pytest.approx(np.radians(30.0))


def test_what_a_format_cannot_hold_is_told_with_its_size(tmp_path: Path) -> None:
    robot = random_robot(1, n=4)
    spanned = TorsionSpring(robot.joint_names[1:3], "tendon")
    single = TorsionSpring(robot.joint_names[:1], "one")
    theta = np.concatenate([model_of(robot).inertia.ravel(), [5.0, 1.0], [7.0, 2.0]])
    terms = RigidBody() + single + spanned
    first, second, third = (f"'{name}'" for name in robot.joint_names[:3])
    both = f"{second} + {third}"
    cases = {
        "urdf": ((first, both), "MJCF and C can represent"),
        "sdf": ((both,), "MJCF and C can represent"),
        "xml": ((), ""),
    }
    for suffix, (named, held) in cases.items():
        diagnostics = Diagnostics()
        export_parameters(robot, terms, theta, tmp_path / f"robot.{suffix}", diagnostics=diagnostics)
        texts = [one.text for one in diagnostics.warnings if "spring" in one.text]
        assert len(texts) == bool(named)
        for text in texts:
            assert all(name in text for name in named)
            assert held in text
            assert "torsion_spring" not in text
    model = ExportModel.of_terms(robot, RigidBody() + single, theta[:-2])
    model = replace(model, reach=np.tile([-0.5, 1.5], (4, 1)))
    diagnostics = Diagnostics()
    note_left_out(model, "URDF", (), diagnostics)
    (warning,) = diagnostics.warnings
    unit = "N" if robot.prismatic[0] else "N m"
    assert f"up to 8.5 {unit} on the log's motion" in warning.text
    assert "MJCF, SDF and C can represent it" in warning.text
    assert exportable_springs(model, several=False) == list(model.springs)


def test_springs_without_stiffness_are_offsets_and_negative_ones_no_springs(tmp_path: Path) -> None:
    robot = random_robot(1, n=3)
    terms = RigidBody() + TorsionSpring(robot.joint_names[:1])
    bodies = model_of(robot).inertia.ravel()
    flat = ExportModel.of_terms(robot, terms, np.append(bodies, [0.0, 2.0]))
    assert flat.springs == ()
    np.testing.assert_array_equal(flat.offset, [2.0, 0.0, 0.0])
    (fault,) = ExportModel.of_terms(robot, terms, np.append(bodies, [-3.0, 2.0])).unphysical()
    assert f"spring of '{robot.joint_names[0]}' (-3" in fault
    with pytest.raises(RefusedError, match="spring of"):
        export_parameters(robot, terms, np.append(bodies, [-3.0, 2.0]), tmp_path / "robot.xml")


def test_a_rest_length_of_minus_one_is_no_automatic_one() -> None:
    robot = random_robot(1, n=3)
    terms = RigidBody() + TorsionSpring(robot.joint_names[:2])
    theta = np.append(model_of(robot).inertia.ravel(), [2.0, 2.0])
    model = ExportModel.of_terms(robot, terms, theta)
    assert model.springs[0].rest == -1.0
    agree(by_mujoco(new_mjcf(model), robot), torque(robot, terms, theta))


def test_an_ensemble_in_one_file_has_the_springs(tmp_path: Path) -> None:
    robot = random_robot(1, n=3)
    terms, theta = sprung(robot)
    model = ExportModel.of_terms(robot, terms, theta)
    files = [new_mjcf(model), new_mjcf(replace(model, springs=()))]
    path = tmp_path / "samples.npz"
    path.write_bytes(samples_npz(files, tmp_path / "robot.xml", Reading(), Diagnostics()))
    theirs = mujoco.MjModel.from_xml_string(files[1].decode())
    with np.load(path) as samples:
        for name in ("jnt_stiffness", "qpos_spring"):
            getattr(theirs, name)[:] = samples[name][0]
            np.testing.assert_array_equal(
                getattr(theirs, name), getattr(mujoco.MjModel.from_xml_string(files[0].decode()), name)
            )


def test_a_description_with_springs_is_simulated_with_them(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(OWN.format(turn=' stiffness="3"'))
    robot = load_robot(path, diagnostics=Diagnostics())
    without = replace(robot, spring_prior=np.full((robot.n, 2), np.nan))
    logs = [dynid.simulate(one, seconds=2.0, seed=3) for one in (robot, without)]
    (own,), (plain,) = ([log.read(one) for one in log.trajectories] for log in logs)
    springs = Dynamics.of_description(robot).springs
    assert len(springs) == 3
    np.testing.assert_array_equal(own.q, plain.q)
    more = np.asarray(own.tau) - np.asarray(plain.tau)
    np.testing.assert_allclose(more, spring_torque(springs, np.asarray(own.q)), atol=1e-9)


@pytest.mark.filterwarnings("ignore:this motion is not like the recorded one")
def test_a_run_with_springs_is_exported_as_it_predicts(tmp_path: Path) -> None:
    # From a log of MuJoCo's own arm, springs and all, to a file that MuJoCo finds the run's torque in.
    path = tmp_path / "arm.xml"
    path.write_text(OWN.format(turn=' stiffness="30" springref="-20"'))
    robot = load_robot(path, diagnostics=Diagnostics())
    log = dynid.simulate(robot, seconds=10.0, seed=1)
    terms = RigidBody() + Viscous() + Offset()
    terms = (
        terms
        + TorsionSpring(("turn",), "turn")
        + TorsionSpring(("push",), "push")
        + TorsionSpring(("bend",), "b")
    )
    run = dynid.identify(robot, log, dynid.Settings(terms=terms))
    model = ExportModel.of_run(run)
    stiffness, rest = model.springs_of_joints()
    np.testing.assert_allclose(stiffness[:3], [30.0, 50.0, 4.0], rtol=0.02)
    np.testing.assert_allclose(rest[:3], [np.radians(-20.0), 0.1, np.radians(30.0)], atol=0.02)
    diagnostics = Diagnostics()
    run.export(tmp_path / "own.xml", diagnostics=diagnostics)
    wanted = run.predict(*states(robot))
    agree(by_mujoco((tmp_path / "own.xml").read_bytes(), robot) + model.offset, wanted)
    run.export(tmp_path / "arm.urdf", diagnostics=diagnostics)
    (warning,) = [
        one.text for one in diagnostics.warnings if "URDF cannot represent these springs" in one.text
    ]
    q = np.concatenate([np.asarray(log.read(one).q) for one in log.trajectories])
    for j, name in enumerate(robot.joint_names[:3]):
        said = re.search(rf"'{name}' \([^)]*\), up to (\S+) N", warning)
        assert said is not None
        largest = np.abs(stiffness[j] * (q[:, j] - rest[j])).max()
        assert float(said[1]) == pytest.approx(largest, rel=0.02)


def test_a_spring_at_a_motor_of_several_joints_is_a_tendon(tmp_path: Path) -> None:
    robot = random_robot(1, n=4)
    N = np.eye(4)
    N[2, 1], N[3, 2] = 0.5, -1.5
    robot = replace(robot, drive=replace(robot.drive, transmission=N))
    springs = [OnMotor(TorsionSpring((name,), name)) for name in robot.joint_names[1:]]
    terms = Terms((*RigidBody() + Viscous(), *springs))
    theta = np.random.default_rng(3).uniform(0.5, 2.0, len(terms.columns(robot)))
    theta[:40] = model_of(robot).inertia.ravel()
    model = ExportModel.of_terms(robot, terms, theta)
    assert model.left_out == ()
    assert [one.joints for one in model.springs] == [(1,), (1, 2), (2, 3)]
    wanted = torque(robot, terms, theta)
    agree(by_mujoco(new_mjcf(model), robot), wanted)
    agree(model.torque(*states(robot)), wanted)
    diagnostics = Diagnostics()
    export_parameters(robot, terms, theta, tmp_path / "robot.sdf", diagnostics=diagnostics)
    (warning,) = [one.text for one in diagnostics.warnings if "springs" in one.text]
    assert "SDF cannot represent these springs: 0.5 'joint2' + 'joint3'" in warning
