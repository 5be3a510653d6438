"""URDF: only numbers of the user's file change, and pinocchio finds the same torque in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float, InputError
from dynid.exporters import ExportModel, edit_urdf, export_parameters, new_urdf
from dynid.exporters.formats import Request, files_of
from dynid.exporters.xml_edit import scan
from dynid.kernel import inverse_dynamics
from dynid.robot import Reading, lint, load_robot, lock_joints, parse
from dynid.signals import Samples
from dynid.spatial import from_com, is_physical, rotation_rpy
from dynid.terms import RigidBody, Terms, torque_of
from tests.export.models import AGREE, model_of, shipped, states
from tests.robot_files import ROBOTS

SHIPPED = [
    "panda_description/urdf/panda.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "z1_description/urdf/z1.urdf",
    "kinova_description/robots/kinova.urdf",
]

ARM = """<?xml version="1.0"?>
<!-- calibrated on a Tuesday; mass="3" is not an attribute here -->
<robot name='arm "A" &amp; co' xmlns:xacro="http://ros.org/wiki/xacro">
  <material name="grey"><color rgba=".5 .5 .5 1"/></material>
  <link name="base"/>
  <link   name = "upper" >
    <!-- <inertial><mass value="7"/></inertial> -->
    <inertial>
      <origin rpy="0.3 -0.2 0.1"
              xyz="0.1 0 0"/><mass value="2.50"/>
      <inertia ixx="0.02" ixy="0" ixz='0.001' iyy="0.03" iyz="0" izz="3e-2"/>
    </inertial>
    <visual><geometry><mesh filename="package://arm/upper.stl" scale="1 1 1"/></geometry></visual>
  </link>
  <link name="flange"><inertial><origin xyz="0 0 .05"/><mass value="0.25"/>
     <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
  <link name="fore"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" velocity="1" effort="50"/>
    <dynamics damping="0.1" friction="0.2"/>
  </joint>
  <joint name="plate" type="fixed"><origin xyz="0.3 0 0" rpy="0 0.4 0"/>
    <parent link="upper"/><child link="flange"/></joint>
  <joint name="elbow" type="continuous">
    <origin xyz="0.1 0 0.02" rpy="1.57079632679 0 0"/>
    <parent link="flange"/><child link="fore"/><axis xyz="0 0 1"/>
  </joint>
  <transmission name="t1"><type>transmission_interface/SimpleTransmission</type>
    <joint name="shoulder"><hardwareInterface>EffortJointInterface</hardwareInterface></joint>
  </transmission>
  <gazebo reference="upper"><mu1>0.2</mu1></gazebo>
</robot>
"""


def written(tmp_path: Path, text: str = ARM, newline: str = "\n") -> Path:
    path = tmp_path / "arm.urdf"
    path.write_bytes(text.replace("\n", newline).encode())
    return path


def known(path: Path) -> ExportModel:
    robot = load_robot(path)
    inertia = np.where(np.isnan(robot.inertia_prior), 0.0, robot.inertia_prior)
    damping = np.where(np.isnan(robot.friction_prior), 0.0, robot.friction_prior)
    nothing = np.zeros(robot.n)
    return ExportModel(robot, inertia, nothing, damping[:, 0], damping[:, 1], nothing, nothing)


def pinocchio_torque(data: bytes, model: ExportModel) -> tuple[np.ndarray, np.ndarray]:
    """Torque of every tree joint by pinocchio from the file, and by dynid from the model."""
    theirs = pin.buildModelFromXML(data.decode())
    theirs.gravity.linear = np.array(model.robot.gravity)
    scratch = theirs.createData()
    motion = [np.ascontiguousarray(part) for part in model.robot.tree_motion(*states(model.robot))]
    wanted = inverse_dynamics(model.robot.tree, model.inertia, *motion)
    found = np.zeros_like(wanted)
    for t, (q, dq, ddq) in enumerate(zip(*motion, strict=True)):
        x, v, a = pin.neutral(theirs), np.zeros(theirs.nv), np.zeros(theirs.nv)
        joints = [theirs.joints[theirs.getJointId(name)] for name in model.robot.tree_joint_names]
        for i, joint in enumerate(joints):
            if joint.nq == 2:
                x[joint.idx_q : joint.idx_q + 2] = np.cos(q[i]), np.sin(q[i])
            else:
                x[joint.idx_q] = q[i]
            v[joint.idx_v], a[joint.idx_v] = dq[i], ddq[i]
        tau = pin.rnea(theirs, scratch, x, v, a)
        found[t] = [tau[joint.idx_v] for joint in joints]
    return found, wanted


def test_a_file_with_its_own_numbers_comes_back_byte_for_byte(tmp_path: Path) -> None:
    for newline in ("\n", "\r\n"):
        path = written(tmp_path, newline=newline)
        data, faults = edit_urdf(known(path), path, Reading())
        assert data == path.read_bytes()
        assert faults == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_robots_come_back_byte_for_byte(name: str) -> None:
    path = shipped(name)
    assert edit_urdf(known(path), path, Reading())[0] == path.read_bytes()


@pytest.mark.parametrize("share", [1.0, 0.02])
def test_joints_that_are_held_stay_in_the_file_and_pinocchio_finds_the_torque_with_them_held(
    share: float,
) -> None:
    """Where bodies were found lighter than what the description has on them as well: then that is made lighter."""
    path = shipped("panda_description/urdf/panda.urdf")
    held = {"panda_joint3": 0.4, "panda_finger_joint1": 0.02}
    robot = lock_joints(load_robot(path), held).robot
    held["panda_finger_joint2"] = held["panda_finger_joint1"]  # which it follows
    model = model_of(robot)
    model = replace(model, inertia=share * model.inertia)
    said = Diagnostics()
    request = Request(robot, Terms((RigidBody(),)), np.ones(robot.n), "urdf", path, Reading(), False, said)
    (data,) = files_of(request, path, model.inertia.ravel()).values()
    assert any("of their inertia" in note.text for note in said) == (share < 1.0)
    theirs = pin.buildModelFromXML(data.decode())
    rest = pin.neutral(theirs)
    joints = [theirs.getJointId(name) for name in held]
    for joint, value in zip(joints, held.values(), strict=True):
        rest[theirs.joints[joint].idx_q] = value
    theirs = pin.buildReducedModel(theirs, joints, rest)
    scratch, motion = theirs.createData(), states(robot)
    found = [pin.rnea(theirs, scratch, *row) for row in zip(*motion, strict=True)]
    wanted = torque_of(RigidBody(), robot, Samples.from_motion(*motion, rate=1.0), model.inertia.ravel())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE * np.abs(wanted).max())


def test_only_numbers_of_inertias_and_friction_change(tmp_path: Path) -> None:
    text = ARM.replace(
        '<link name="fore"/>', '<link name="fore"><inertial><mass value="1"/></inertial></link>'
    )
    path = written(tmp_path, text)
    model = model_of(load_robot(path))
    data, _ = edit_urdf(model, path, Reading())
    before, after = path.read_bytes(), data
    assert b'\n    <dynamics damping="' in after[after.index(b'<joint name="elbow"') :]
    for piece in (
        b"<!-- calibrated",
        b"<transmission",
        b"<gazebo",
        b"package://arm/upper.stl",
        b'rpy="0.3 -0.2 0.1"',
    ):
        assert before.count(piece) == after.count(piece) == 1
    assert b'mass="3" is not' in after
    assert b'<!-- <inertial><mass value="7"/></inertial> -->' in after
    # The flange keeps its own inertia to the letter.
    flange = before[before.index(b'<link name="flange"') : before.index(b'<link name="fore"')]
    assert flange in after


def without_numbers(data: bytes) -> bytes:
    """A file without the values of inertial and dynamics elements."""
    root = scan(data, "x")
    spans = []
    for inertial in (tag for link in root.all("link") for tag in link.all("inertial")):
        spans += [span for tag in inertial.children for span in tag.spans.values()]
    for dynamics in (tag for joint in root.all("joint") for tag in joint.all("dynamics")):
        spans += dynamics.spans.values()
    kept, position = [], 0
    for start, end in sorted(spans):
        kept.append(data[position:start])
        position = end
    return b"".join([*kept, data[position:]])


@pytest.mark.parametrize("name", SHIPPED)
def test_files_are_equal_byte_for_byte_outside_the_numbers(name: str) -> None:
    path = shipped(name)
    model = model_of(load_robot(path))
    # Joints without <dynamics> get one only where there is friction to write.
    nothing = np.zeros(model.robot.n)
    given = np.isfinite(model.robot.friction_prior).all(axis=1)
    friction = np.where(given, 0.3, nothing)
    data, _ = edit_urdf(replace(model, viscous=friction, coulomb=friction), path, Reading())
    assert data != path.read_bytes()
    assert without_numbers(data) == without_numbers(path.read_bytes())


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_pinocchio_finds_the_torque_of_the_model(tmp_path: Path, newline: str) -> None:
    path = written(tmp_path, newline=newline)
    model = model_of(load_robot(path))
    data, faults = edit_urdf(model, path, Reading())
    assert faults == ()
    assert (b"\r\n" in data) == (newline == "\r\n")
    assert not newline.startswith("\r") or data.count(b"\r\n") == data.count(b"\n")
    found, wanted = pinocchio_torque(data, model)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE)
    theirs = pin.buildModelFromXML(data.decode())
    np.testing.assert_allclose(theirs.damping, model.viscous)
    np.testing.assert_allclose(theirs.friction, model.coulomb)


def test_parts_that_the_robot_did_not_carry_are_scaled_down(tmp_path: Path) -> None:
    """The flange of the file weighs more than all that was identified where it is fixed."""
    path = written(tmp_path)
    model = known(path)
    light = np.array(model.inertia)
    light[0] = from_com(0.2, np.array([0.1, 0.0, 0.0]), np.diag([1e-4, 2e-4, 2e-4]))
    model = replace(model, inertia=light)
    data, (said,) = edit_urdf(model, path, Reading())
    assert (
        "links fixed to 'upper' (0.25 kg in the file) do not fit into the identified total (0.2 kg)" in said
    )
    found, wanted = pinocchio_torque(data, model)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE)
    path.write_bytes(data)
    links = lint(parse(data, str(path)), tmp_path, Reading(), Diagnostics()).links
    assert 0 < links["flange"].inertial.parameters[0] < 0.25
    assert all(is_physical(links[name].inertial.parameters) for name in ("upper", "flange"))


@pytest.mark.parametrize("name", SHIPPED)
def test_pinocchio_agrees_on_shipped_robots(name: str) -> None:
    path = shipped(name)
    model = model_of(load_robot(path))
    data, _ = edit_urdf(model, path, Reading())
    found, wanted = pinocchio_torque(data, model)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["ur10e_innopolis", "puma560", "kr300_rptu", "panda_gaz"])
def test_new_files_of_other_descriptions(name: str) -> None:
    robot = load_robot(ROBOTS / f"{name}.toml")
    model = model_of(robot)
    found, wanted = pinocchio_torque(new_urdf(model), model)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["ur10e_innopolis", "puma560", "kr300_rptu", "panda_gaz"])
def test_mujoco_finds_the_torque_in_new_files(name: str) -> None:
    robot = load_robot(ROBOTS / f"{name}.toml")
    model = model_of(robot)
    # URDF has neither rotors nor gravity; MuJoCo would add damping and friction of its own.
    model = replace(model, rotor=np.zeros(robot.n), coulomb=np.zeros(robot.n))
    spec = mujoco.MjSpec.from_string(new_urdf(model).decode())
    spec.compiler.balanceinertia = spec.compiler.fusestatic = False
    spec.option.gravity = robot.gravity
    theirs = spec.compile()
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    state = mujoco.MjData(theirs)
    found = []
    q, dq, ddq = states(robot)
    for state.qpos[:], state.qvel[:], state.qacc[:] in zip(q, dq, ddq, strict=True):
        mujoco.mj_inverse(theirs, state)
        found.append(np.array(state.qfrc_inverse))
    wanted = model.rigid_torque(q, dq, ddq) + model.viscous * dq
    np.testing.assert_allclose(np.array(found), wanted, rtol=0, atol=AGREE * np.abs(wanted).max())


def test_tables_have_the_orders_of_their_names(tmp_path: Path) -> None:
    model = model_of(load_robot(ROBOTS / "puma560.toml"))
    theirs = pin.buildModelFromXML(new_urdf(model).decode())
    for name in ("pinocchio", "khalil"):
        theta = model.inertia.ravel()
        (file,) = export_parameters(model.robot, Terms((RigidBody(),)), theta, tmp_path / f"{name}.csv", name)
        lines = file.read_text(encoding="utf-8").splitlines()
        header = lines[0].split(",")[2:12]
        for i, line in enumerate(lines[1:]):
            values = [float(cell) for cell in line.split(",")[2:12]]
            body = theirs.inertias[i + 1]
            if name == "pinocchio":
                np.testing.assert_allclose(values, body.toDynamicParameters(), atol=1e-12)
                continue
            about = body.inertia + body.mass * (
                body.lever @ body.lever * np.eye(3) - np.outer(body.lever, body.lever)
            )
            khalil = dict(zip(header, values, strict=True))
            for key, r, c in (
                ("XX", 0, 0),
                ("XY", 0, 1),
                ("XZ", 0, 2),
                ("YY", 1, 1),
                ("YZ", 1, 2),
                ("ZZ", 2, 2),
            ):
                assert khalil[key] == pytest.approx(about[r, c], abs=1e-12)
            np.testing.assert_allclose(
                [khalil[k] for k in ("MX", "MY", "MZ")], body.mass * body.lever, atol=1e-12
            )
            assert khalil["M"] == pytest.approx(body.mass)


def test_another_robot_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = known(path)
    moved = written(tmp_path, ARM.replace('xyz="0.1 0 0.02"', 'xyz="0.2 0 0.02"'))
    with pytest.raises(InputError, match="other-robot"):
        edit_urdf(model, moved, Reading())


def test_encoding_that_cannot_be_edited_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = known(path)
    path.write_bytes(
        ARM.replace('<?xml version="1.0"?>', '<?xml version="1.0" encoding="utf-16"?>').encode("utf-16")
    )
    with pytest.raises(InputError, match="UTF-8"):
        edit_urdf(model, path, Reading())


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    evil = '"/><joint name="x"/><!-- \x00\x1b[2J'
    named = replace(
        robot,
        name=evil,
        body_names=tuple(f"{evil}{i}" for i in range(robot.n)),
        tree_joint_names=tuple(f"j{evil}{i}" for i in range(robot.n)),
        joint_names=tuple(f"j{evil}{i}" for i in range(robot.n)),
    )
    data = new_urdf(model_of(named))
    root = scan(data, "x")
    assert len(root.all("joint")) == robot.n
    assert b"\x00" not in data
    assert b"\x1b" not in data


def through_a_file(R: Float) -> Float:
    """The rotation (3, 3) of a joint's frame, as a new URDF has it."""
    robot = load_robot(ROBOTS / "puma560.toml")
    frames = robot.T_parent_joint.copy()
    frames[0, :3, :3] = R
    origin = (
        scan(new_urdf(model_of(replace(robot, T_parent_joint=frames))), "x").all("joint")[0].all("origin")[0]
    )
    return rotation_rpy(np.array([float(angle) for angle in origin.attributes["rpy"].split()]))


@pytest.mark.parametrize("pitch", [0.3, -1.2, np.pi / 2, -np.pi / 2])
def test_angles_of_a_rotation(pitch: float) -> None:
    R = rotation_rpy(np.array([0.7, pitch, -2.1]))
    np.testing.assert_allclose(through_a_file(R), R, atol=1e-14)


@pytest.mark.parametrize("short", [1e-3, 1e-5, 1e-7, 1e-9, 0.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_angles_near_a_right_pitch_bear_the_rounding_of_a_description(short: float, sign: float) -> None:
    """Descriptions print rotations with twelve digits, which near gimbal lock leave yaw all but undetermined."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        roll, yaw = rng.uniform(-np.pi, np.pi, 2)
        R = rotation_rpy(np.array([roll, sign * (np.pi / 2 - short), yaw])).round(12)
        # As far off as the printed matrix is from a rotation.
        np.testing.assert_allclose(through_a_file(R), R, atol=5e-12)


def test_a_world_that_no_link_declares_is_one_and_is_declared_in_the_export(tmp_path: Path) -> None:
    """A weld of the base to `world`, as some programs know it without a link."""
    path = tmp_path / "arm.urdf"
    weld = '<joint name="weld" type="fixed"><parent link="world"/><child link="base"/></joint>'
    path.write_text(ARM.replace('<link name="base"/>', f'{weld}<link name="base"/>', 1))
    said = Diagnostics()
    robot = load_robot(path, diagnostics=said)
    assert [one.identifier for one in said if one.severity == "warning"][:1] == ["world-link"]
    plain = tmp_path / "plain.urdf"
    plain.write_text(ARM)
    assert robot.joint_names == load_robot(plain, diagnostics=Diagnostics()).joint_names
    data, _ = edit_urdf(model_of(robot), path, Reading())
    assert data.count(b'<link name="world"/>') == 1
    (tmp_path / "exported.urdf").write_bytes(data)
    assert pin.buildModelFromUrdf(str(tmp_path / "exported.urdf")).nv == robot.n
