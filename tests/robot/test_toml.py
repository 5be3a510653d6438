"""dynid's own descriptions: conventions that mean one arm, overrides of URDF and MJCF, measured robots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics, DynidError, Float, InputError
from dynid.kernel import inverse_dynamics
from dynid.robot import RobotModel, TorqueSide, load_robot
from dynid.spatial import inverse, placement, rotation_about, rotation_rpy, to_com, transformed
from tests.robot_files import ROBOTS

X, Z = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
ROWS = np.array(
    [[0.1, 0.5, 0.3, 0.2], [0.4, -1.2, 0.05, -0.7], [-0.2, 0.9, 0.15, 1.1], [0.3, 0.4, -0.25, 0.6]]
)
KINDS = ["revolute", "prismatic", "continuous", "revolute"]
BASE = "[base]\nxyz = [0.1, -0.2, 0.4]\nrpy = [0.3, 0.2, -0.5]\n"
URDF = """<robot name="two"><link name="base"/>
<link name="l1"><inertial><mass value="2"/><origin xyz="0.1 0 0"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link><link name="l2"><inertial><mass value="1"/>
<origin xyz="0 0.1 0.2"/><inertia ixx="0.01" iyy="0.01" izz="0.01"/></inertial></link>
<joint name="j1" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" velocity="2" effort="3"/><dynamics damping="0.5" friction="0.25"/></joint>
<joint name="j2" type="prismatic"><parent link="l1"/><child link="l2"/>
<origin xyz="0.3 0 0"/><axis xyz="1 0 0"/>
<limit lower="0" upper="1" velocity="2" effort="3"/></joint></robot>"""


def read(text: str, tmp_path: Path, name: str = "robot.toml") -> RobotModel:
    (tmp_path / name).write_text(text)
    return load_robot(tmp_path / name)


def step(row: Float, q: float, kind: str) -> Float:
    """Standard DH: Rz(theta) Tz(d) Tx(a) Rx(alpha), written out."""
    a, alpha, d, theta = row
    theta, d = (theta, d + q) if kind == "prismatic" else (theta + q, d)
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.array([[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [0, sa, ca, d], [0, 0, 0, 1]])


def body(seed: int) -> Float:
    """Ten parameters of a few point masses."""
    random = np.random.default_rng(seed)
    points, masses = random.normal(scale=0.2, size=(6, 3)), random.uniform(0.1, 1, 6)
    matrix = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True))
    first = masses @ points
    return np.array([masses.sum(), *first, *matrix[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def inertial(pi: Float, about: str = "com") -> str:
    m, c, I = to_com(pi)
    if about == "frame":
        xx, xy, yy, xz, yz, zz = pi[4:]
        I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    entries = ", ".join(
        f"{k} = {float(I[i, j])!r}"
        for k, i, j in (("xx", 0, 0), ("yy", 1, 1), ("zz", 2, 2), ("xy", 0, 1), ("xz", 0, 2), ("yz", 1, 2))
    )
    return (
        f'inertial = {{ mass = {m!r}, com = {c.tolist()}, about = "{about}", inertia = {{ {entries} }} }}\n'
    )


def standard(about: str = "com") -> str:
    text = 'convention = "standard_dh"\n' + BASE
    for i, (row, kind) in enumerate(zip(ROWS, KINDS, strict=True)):
        a, alpha, d, theta = row.tolist()
        text += (
            f'[[joint]]\nname = "j{i}"\ntype = "{kind}"\na = {a}\nalpha = {alpha}\nd = {d}\ntheta = {theta}\n'
        )
        text += inertial(body(i), about)
    return text


def modified() -> str:
    text = f'convention = "modified_dh"\ndh = [\n{shifted_rows()}]\n' + BASE
    for i, (row, kind) in enumerate(zip(ROWS, KINDS, strict=True)):
        twist = placement(rotation_about(X, row[1]), row[0] * X)
        text += f'[[joint]]\nname = "j{i}"\ntype = "{kind}"\n' + inertial(transformed(body(i), twist))
    return text


def shifted_rows() -> str:
    before = np.vstack([[0.0, 0.0, 0.0, 0.0], ROWS[:-1]])
    return "".join(f"  {[*before[i, :2].tolist(), *ROWS[i, 2:].tolist()]},\n" for i in range(len(ROWS)))


def placements() -> str:
    text = 'convention = "placements"\n' + BASE
    before = np.eye(4)
    for i, (row, kind) in enumerate(zip(ROWS, KINDS, strict=True)):
        R, p = before[:3, :3].tolist(), before[:3, 3].tolist()
        text += f'[[joint]]\nname = "j{i}"\ntype = "{kind}"\nxyz = {p}\nrotation = {R}\naxis = [0, 0, 1]\n'
        before = step(row, 0.0, "revolute")
        text += inertial(transformed(body(i), before))
    return text


def torque(robot: RobotModel, seed: int = 0) -> Float:
    random = np.random.default_rng(seed)
    q, dq, ddq = (random.uniform(-2, 2, (6, robot.n)) for _ in range(3))
    return inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)


def frames(robot: RobotModel, q: Float) -> Float:
    """World placement of every joint frame after its motion, (nb, 4, 4)."""
    found: list[Float] = []
    for i, parent in enumerate(robot.parent):
        moved = (
            placement(np.eye(3), robot.axis[i] * q[i])
            if robot.joint_types[i] == "prismatic"
            else placement(rotation_about(robot.axis[i], q[i]), np.zeros(3))
        )
        found.append((found[parent] if parent >= 0 else np.eye(4)) @ robot.T_parent_joint[i] @ moved)
    return np.array(found)


def test_three_conventions_describe_one_arm(tmp_path: Path) -> None:
    arms = [read(text, tmp_path) for text in (standard(), standard("frame"), modified(), placements())]
    for arm in arms[1:]:
        assert np.abs(torque(arm) - torque(arms[0])).max() < 1e-12
    q = np.array([0.3, -0.2, 0.5, 1.2])
    world = placement(rotation_rpy(np.array([0.3, 0.2, -0.5])), np.array([0.1, -0.2, 0.4]))
    found = frames(arms[0], q)
    for i, kind in enumerate(KINDS):
        row = ROWS[i]
        after = placement(rotation_about(Z, row[3]), row[2] * Z) @ placement(
            rotation_about(X, row[1]), row[0] * X
        )
        world = world @ step(row, q[i], kind)
        assert np.abs(found[i] @ after - world).max() < 1e-14


def test_degrees_are_radians(tmp_path: Path) -> None:
    text = 'convention = "placements"\nangle_unit = "{u}"\n[base]\nrpy = [{a}, 0.0, 0.0]\n'
    text += '[[joint]]\nname = "j"\n'
    text += "rpy = [0.0, {a}, {a}]\nlower = -{a}\nupper = {a}\nvelocity = {a}\neffort = 5.0\n"
    text += '[[joint]]\nname = "s"\ntype = "prismatic"\nupper = 0.5\nvelocity = 0.25\n'
    deg = read(text.format(u="deg", a=60.0), tmp_path)
    rad = read(text.format(u="rad", a=np.pi / 3), tmp_path)
    assert np.abs(deg.T_parent_joint - rad.T_parent_joint).max() < 1e-15
    for name in ("lower", "upper", "velocity", "effort"):
        assert getattr(deg.limits, name) == pytest.approx(getattr(rad.limits, name), rel=1e-15)
    assert deg.limits.upper[1] == 0.5


def test_parts_are_bolted_on(tmp_path: Path) -> None:
    arm = standard()
    part = '[[fixed]]\nname = "tool"\non = "j3"\nxyz = [0.1, 0.2, 0.3]\nrpy = [0.4, 0.5, 0.6]\n' + inertial(
        body(9)
    )
    plain, tooled = read(arm, tmp_path), read(arm + part, tmp_path)
    where = placement(rotation_rpy(np.array([0.4, 0.5, 0.6])), np.array([0.1, 0.2, 0.3]))
    after = placement(rotation_about(Z, ROWS[3, 3]), ROWS[3, 2] * Z) @ placement(
        rotation_about(X, ROWS[3, 1]), ROWS[3, 0] * X
    )
    added = tooled.inertia_prior - plain.inertia_prior
    assert np.abs(added[:3]).max() == 0
    assert added[3] == pytest.approx(transformed(body(9), after @ where), abs=1e-14)
    assert tooled.merged[3] == ("j3_link", "tool")


def test_branches_hang_where_they_say(tmp_path: Path) -> None:
    text = 'convention = "placements"\n' + "".join(
        f'[[joint]]\nname = "{name}"\nparent = "{parent}"\n'
        for name, parent in (("a", "base"), ("b", "a"), ("c", "a"))
    )
    assert read(text, tmp_path).parent.tolist() == [-1, 0, 0]


def test_drives_are_read(tmp_path: Path) -> None:
    text = 'convention = "placements"\n[[joint]]\nname = "a"\n'
    text += "drive = { gear_ratio = -50, rotor_inertia = 1e-4 }\n"
    text += '[[joint]]\nname = "b"\ndrive.torque_constant = 0.1\nfriction = { viscous = 2 }\n'
    text += '[drive]\ntorque_side = "motor"\n'
    robot = read(text, tmp_path)
    assert robot.drive.torque_side is TorqueSide.MOTOR
    assert robot.drive.gear_ratio.tolist() == [-50, 1]
    assert robot.drive.reflected_rotor_inertia[0] == pytest.approx(0.25)
    assert np.isnan(robot.drive.reflected_rotor_inertia[1])
    assert robot.friction_prior[1, 0] == 2
    assert np.isnan(robot.friction_prior[[0, 0, 1], [0, 1, 1]]).all()
    coupled = read(
        'convention = "placements"\n[[joint]]\nname = "a"\ndrive.rotor_inertia = 1.0\n[[joint]]\nname = "b"\n'
        "drive.rotor_inertia = 2.0\n[drive]\ntransmission = [[10, 0], [3, 20]]\n",
        tmp_path,
    )
    assert coupled.drive.coupled
    N = np.array([[10, 0], [3, 20]])
    assert coupled.drive.reflected_rotor_inertia == pytest.approx(np.diag(N.T @ np.diag([1, 2]) @ N))


def test_a_urdf_with_overrides(tmp_path: Path) -> None:
    (tmp_path / "two.urdf").write_text(URDF)
    plain = load_robot(tmp_path / "two.urdf")
    text = 'urdf = "two.urdf"\nname = "mine"\ngravity = [0, 0, -1.62]\nangle_unit = "deg"\n'
    text += "[base]\nrpy = [90, 0, 0]\n"
    text += '[[joint]]\nname = "j2"\nupper = 0.5\ndrive.gear_ratio = 20\n[[joint]]\nname = "j1"\nupper = 90\n'
    text += 'friction.viscous = 0.75\n[[fixed]]\nname = "tool"\non = "l2"\n' + inertial(body(1))
    robot = read(text, tmp_path)
    assert robot.name == "mine"
    assert robot.gravity.tolist() == [0, 0, -1.62]
    assert robot.limits.upper == pytest.approx([np.pi / 2, 0.5])
    assert robot.limits.lower.tolist() == [-1, 0]
    assert robot.friction_prior[0].tolist() == [0.75, 0.25]
    assert robot.drive.gear_ratio.tolist() == [1, 20]
    assert robot.merged == (("l1",), ("l2", "tool"))
    assert robot.inertia_prior[1] - plain.inertia_prior[1] == pytest.approx(body(1), abs=1e-15)
    assert robot.inertia_prior[0].tolist() == plain.inertia_prior[0].tolist()
    tilt = placement(rotation_about(X, np.pi / 2), np.zeros(3))
    assert np.abs(robot.T_parent_joint[0] - tilt @ plain.T_parent_joint[0]).max() < 1e-15
    assert robot.T_parent_joint[1].tolist() == plain.T_parent_joint[1].tolist()


def test_an_mjcf_with_overrides_keeps_what_was_known_at_the_joints(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_text(
        '<mujoco><worldbody><body name="b"><joint name="j" armature="0.5" damping="2"/>'
        '<geom size="0.1"/></body>'
        "</worldbody></mujoco>"
    )
    robot = read('mjcf = "one.xml"\n[[joint]]\nname = "j"\neffort = 7.0\ndrive.gear_ratio = 10\n', tmp_path)
    assert robot.limits.effort.tolist() == [7]
    assert robot.drive.reflected_rotor_inertia == pytest.approx([0.5])
    assert robot.drive.rotor_inertia == pytest.approx([0.005])
    assert robot.friction_prior.tolist() == [[2, 0]]
    over = read(
        'mjcf = "one.xml"\n[[joint]]\nname = "j"\ndrive.gear_ratio = 10\ndrive.rotor_inertia = 0.1\n',
        tmp_path,
    )
    assert over.drive.reflected_rotor_inertia == pytest.approx([10])


@pytest.mark.parametrize(
    ("text", "identifier", "says"),
    [
        ('[[joint]]\nname = "j1"\na = 0.3\n', "not-here", ("a of joint 'j1'", ":4:")),
        ('[[joint]]\nname = "j3"\n', "unknown-joint", ("'j3'", "j1, j2", ":3:")),
        ('[[joint]]\nname = "j1"\nlower = 2.0\n', "limits-swapped", ("lower limit 2 > upper limit 1", ":4:")),
        ('convention = "placements"\n', "two-sources", ("urdf and convention", ":2:")),
        ('mjcf = "a.xml"\n', "two-sources", ("urdf and mjcf", ":2:")),
        (
            '[[fixed]]\nname = "t"\non = "l9"\n' + inertial(body(1)),
            "unknown-body",
            ("'t' on unknown link 'l9'", ":4:"),
        ),
    ],
)
def test_overrides_that_make_no_sense_stop(
    text: str, identifier: str, says: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "two.urdf").write_text(URDF)
    with pytest.raises(InputError) as caught:
        read('urdf = "two.urdf"\n' + text, tmp_path)
    assert caught.value.identifier == identifier
    assert all(part in str(caught.value) for part in says)


def axes_in_world(parents: list[int], T: Float, axis: Float, q: Float) -> list[tuple[Float, Float]]:
    """Direction and moment of every joint axis in the world: its line, whatever frame describes it."""
    lines, moved = [], []
    for i, parent in enumerate(parents):
        here = (moved[parent] if parent >= 0 else np.eye(4)) @ T[i]
        direction = here[:3, :3] @ axis[i]
        lines.append((direction, np.cross(here[:3, 3], direction)))
        moved.append(here @ placement(rotation_about(axis[i], q[i]), np.zeros(3)))
    return lines


@pytest.mark.parametrize("name", ["panda_gaz", "ur10e_innopolis", "kr300_rptu"])
def test_the_measured_robots_have_their_published_kinematics(name: str, data_dir: Path) -> None:
    truth: dict[str, Any] = json.loads((data_dir / name / "kinematics.json").read_text())
    diagnostics = Diagnostics()
    robot = load_robot(ROBOTS / f"{name}.toml", diagnostics=diagnostics)
    assert not list(diagnostics)
    joints = truth["joints"]
    assert robot.gravity.tolist() == truth["gravity"]
    assert robot.joint_names == tuple(joint["name"] for joint in joints)
    assert robot.parent.tolist() == [joint["parent"] for joint in joints]
    T = np.array([placement(np.array(joint["R"]), np.array(joint["xyz"])) for joint in joints])
    axis = np.array([joint["axis"] for joint in joints], dtype=np.float64)
    parents = robot.parent.tolist()
    for q in np.random.default_rng(0).uniform(-2, 2, (5, robot.n)):
        found = axes_in_world(parents, robot.T_parent_joint, robot.axis, q)
        for (a, m), (b, k) in zip(found, axes_in_world(parents, T, axis, q), strict=True):
            assert a == pytest.approx(b, abs=1e-9)
            assert m == pytest.approx(k, abs=1e-9)


def test_inverse_of_a_placement_undoes_it() -> None:
    T = placement(rotation_rpy(np.array([0.1, 0.2, 0.3])), np.array([1.0, 2.0, 3.0]))
    assert np.abs(T @ inverse(T) - np.eye(4)).max() < 1e-15


ARM = """<robot name="arm"><link name="base"/>{links}</robot>"""
LINK = """<link name="{name}_link"><inertial><origin xyz="0.1 0 0"/><mass value="2"/>
<inertia ixx="0.02" iyy="0.03" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{name}_link"/><origin xyz="0.4 0 0.1"/>
<axis xyz="{axis}"/><limit lower="-2" upper="2" velocity="2" effort="100"/></joint>"""


def palletiser(folder: Path, more: str) -> RobotModel:
    """An arm whose fourth joint carries a flange and has no motor, with more lines beside its URDF."""
    names, axes = ("a", "b", "c", "level", "e"), ("0 0 1", "0 1 0", "0 -1 0", "0 1 0", "0 0 1")
    parents = ("base", *(f"{name}_link" for name in names))
    links = "".join(
        LINK.format(name=name, parent=parent, axis=axis)
        for name, parent, axis in zip(names, parents, axes, strict=False)
    )
    (folder / "arm.urdf").write_text(ARM.format(links=links))
    (folder / "arm.toml").write_text('urdf = "arm.urdf"\n' + more)
    return load_robot(folder / "arm.toml")


def test_joints_follow_others_beside_a_urdf(tmp_path: Path) -> None:
    from dynid.layouts.joints import leaders_of

    whole = palletiser(tmp_path, "")
    robot = palletiser(
        tmp_path,
        '[[joint]]\nname = "level"\nfollows = { b = -1.0, c = 1.0 }\nfollows_offset = 0.1\n'
        '[[joint]]\nname = "e"\ndrive.gear_ratio = 50.0\n',
    )
    assert robot.joint_names == ("a", "b", "c", "e")
    assert robot.drive.gear_ratio.tolist() == [1, 1, 1, 50]
    q = np.array([[0.3, -0.4, 0.7, 0.2]])
    free = np.array([[0.3, -0.4, 0.7, 0.1 + 0.4 + 0.7, 0.2]])
    zero = np.zeros_like(q)
    np.testing.assert_allclose(
        robot.tree_motion(q, zero, zero)[0], whole.tree_motion(free, 0 * free, 0 * free)[0]
    )
    # What keeps a link level is proposed where a log has no column of its joint.
    assert leaders_of(whole, "level") == {"b": -1.0, "c": 1.0}
    assert leaders_of(whole, "e") == leaders_of(whole, "c") == {}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[[joint]]\nname = "level"\nfollows = { x = 1.0 }\n', "'level' follows 'x'"),
        ('[[joint]]\nname = "level"\nfollows = { level = 1.0 }\n', "'level' follows 'level'"),
        ('[[joint]]\nname = "level"\nfollows = {}\n', "'level' follows nothing"),
        ('[[joint]]\nname = "level"\nfollows_offset = 1.0\n', "follows_offset"),
        ('[[joint]]\nname = "level"\nfollows = { b = 1.0 }\nupper = 1.0\n', "upper of joint 'level'"),
        (
            '[[joint]]\nname = "level"\nfollows = { b = 1.0 }\ndrive.gear_ratio = 2.0\n',
            "drive of joint 'level'",
        ),
    ],
)
def test_followers_beside_a_urdf_that_cannot_be_are_refused(more: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(DynidError, match=says) as caught:
        palletiser(tmp_path, more)
    assert "arm.toml:" in str(caught.value)
