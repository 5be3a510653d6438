"""SDF: the inverse dynamics of a URDF that is written as SDF, frames of every kind, and what is no tree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynid.base import Diagnostics, Float, InputError
from dynid.robot import LinkTree, Reading, RobotModel, children_of, lint, load_robot, parse
from dynid.spatial import inverse, placement, rotation_rpy, to_com, transformed
from tests.robot.shipped import shipped
from tests.robot.test_held_joints import states, torque

ROBOTS = [
    "panda_description/urdf/panda.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
]


def tree_of(path: Path) -> LinkTree:
    return lint(parse(path.read_bytes(), str(path)), path.parent, Reading(), Diagnostics())


def frames_of(tree: LinkTree) -> dict[str, Float]:
    """Where every link's frame is at zero, in that of the root."""
    children, found, stack = children_of(tree.joints), {tree.root: np.eye(4)}, [tree.root]
    while stack:
        link = stack.pop()
        for joint in children.get(link, []):
            found[joint.child] = found[link] @ joint.placement
            stack.append(joint.child)
    return found


def random_placement(rng: np.random.Generator, size: float = 0.2) -> Float:
    return placement(rotation_rpy(rng.uniform(-3, 3, 3)), rng.normal(scale=size, size=3))


def join(values: Float) -> str:
    return " ".join(repr(float(value)) for value in values)


def pose(T: Float, about: str = "") -> str:
    rpy = Rotation.from_matrix(T[:3, :3]).as_euler("xyz")
    return f"<pose{about}>{join(T[:3, 3])} {join(rpy)}</pose>"


def sdf_of(tree: LinkTree, seed: int, version: str = "1.9") -> str:
    """The tree as SDF: link frames anywhere, joint frames in their child; axes as the version wants them."""
    rng, at = np.random.default_rng(seed), frames_of(tree)
    joint_of = {joint.child: joint for joint in tree.joints.values()}
    off = {name: random_placement(rng) for name in tree.links}
    lines = [f'<sdf version="{version}"><model name="{tree.name}">']
    new = version >= "1.7"
    own = {name: link for name, link in tree.links.items() if name != "world"}
    for name, link in own.items():
        frame = at[name] @ off[name]
        parent = joint_of[name].parent if name in joint_of else ""
        if new and parent in own and rng.random() < 0.5:
            placed = pose(inverse(at[parent] @ off[parent]) @ frame, f' relative_to="{parent}"')
        else:
            placed = pose(frame)
        lines.append(f'<link name="{name}">{placed}')
        if link.inertial is not None:
            pi = transformed(link.inertial.parameters, inverse(off[name]))
            mass, com, inertia = to_com(pi) if pi[0] else (0.0, np.zeros(3), np.zeros((3, 3)))
            R = rotation_rpy(rng.uniform(-1, 1, 3))
            turned = R.T @ inertia @ R
            entries = "".join(
                f"<{key}>{float(turned[i, j])!r}</{key}>"
                for key, i, j in (
                    ("ixx", 0, 0),
                    ("ixy", 0, 1),
                    ("ixz", 0, 2),
                    ("iyy", 1, 1),
                    ("iyz", 1, 2),
                    ("izz", 2, 2),
                )
            )
            lines.append(
                f"<inertial>{pose(placement(R, com))}<mass>{mass!r}</mass><inertia>{entries}</inertia></inertial>"
            )
        lines.append("</link>")
    if tree.root in own:
        lines.append(
            f'<joint name="to_world" type="fixed"><parent>world</parent><child>{tree.root}</child></joint>'
        )
    for name, joint in tree.joints.items():
        turn = random_placement(rng, 0.0)  # a joint's frame may be turned anyhow at the axis
        frame = at[joint.child] @ turn
        axis, words = turn[:3, :3].T @ joint.axis, ""
        if new and rng.random() < 0.5:
            axis, words = at[joint.child][:3, :3] @ joint.axis, ' expressed_in="__model__"'
        in_model = version == "1.6" and rng.random() < 0.5
        if version == "1.4" or in_model:
            axis = at[joint.child][:3, :3] @ joint.axis
        kind = "revolute" if joint.kind == "continuous" else joint.kind
        lower, upper = (
            value if np.isfinite(value) else np.sign(value) * 1e16 for value in (joint.lower, joint.upper)
        )
        mimic = ""
        if joint.mimic is not None:
            one = joint.mimic
            mimic = f'<mimic joint="{one.joint}"><multiplier>{one.multiplier!r}</multiplier>'
            mimic += f"<offset>{one.offset!r}</offset></mimic>"
        lines.append(
            f'<joint name="{name}" type="{kind}"><parent>{joint.parent}</parent><child>{joint.child}</child>'
            f"{pose(inverse(at[joint.child] @ off[joint.child]) @ frame)}<axis><xyz{words}>{join(axis)}</xyz>"
            + ("<use_parent_model_frame>1</use_parent_model_frame>" if in_model else "")
            + f"<limit><lower>{float(lower)!r}</lower><upper>{float(upper)!r}</upper><effort>7</effort>"
            f"<velocity>-1</velocity></limit><dynamics><damping>0.5</damping></dynamics>{mimic}</axis></joint>"
        )
    return "\n".join([*lines, "</model></sdf>"])


def by_name(robot: RobotModel, other: RobotModel) -> list[int]:
    return [robot.joint_names.index(name) for name in other.joint_names]


@pytest.mark.parametrize("version", ["1.4", "1.6", "1.9"])
@pytest.mark.parametrize("name", ROBOTS, ids=lambda name: Path(name).stem)
def test_an_sdf_of_a_urdf_has_its_inverse_dynamics(name: str, version: str, tmp_path: Path) -> None:
    path = shipped(name)
    described = load_robot(path)
    sdf = tmp_path / "robot.sdf"
    sdf.write_text(sdf_of(tree_of(path), 3, version))
    robot = load_robot(sdf)
    assert set(robot.joint_names) == set(described.joint_names)
    order = by_name(described, robot)
    q, dq, ddq = states(robot.n)
    back = np.argsort(order)
    wanted = torque(described, q[:, back], dq[:, back], ddq[:, back])[:, order]
    known = np.isfinite(described.inertia_prior).all()
    assert known == np.isfinite(robot.inertia_prior).all()
    if known:
        np.testing.assert_allclose(torque(robot, q, dq, ddq), wanted, atol=1e-10 * np.abs(wanted).max())
    np.testing.assert_allclose(robot.limits.lower, described.limits.lower[order])
    assert (robot.limits.effort == 7).all()
    assert np.isinf(robot.limits.velocity).all()
    assert (robot.friction_prior[:, 0] == 0.5).all()


LINK = "<inertial><mass>1</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia></inertial></link>"
ONE = (
    '<sdf version="1.9"><world name="w"><gravity>0 0 -3.7</gravity><model name="m">'
    '<pose degrees="true">0 0 1 90 0 0</pose>'
    '<link name="a">' + LINK + '<link name="b"><pose relative_to="f">0.3 0 0 0 0 0</pose>' + LINK
    + '<frame name="f" attached_to="a"><pose rotation_format="quat_xyzw">0 0 0.5 0 0 1 0</pose></frame>'
    '<joint name="j" type="revolute"><parent>f</parent><child>b</child><axis><xyz>0 1 0</xyz>'
    "<limit><lower>-inf</lower><upper>inf</upper></limit></axis></joint></model></world></sdf>"
)  # fmt: skip


def test_frames_and_gravity_of_a_world(tmp_path: Path) -> None:
    path = tmp_path / "world.sdf"
    path.write_text(ONE)
    said = Diagnostics()
    robot = load_robot(path, diagnostics=said)
    # The model lies on its side in the world: gravity along -z there is along -y of link a, which stands still.
    np.testing.assert_allclose(robot.gravity, [0, -3.7, 0], atol=1e-12)
    np.testing.assert_allclose(
        robot.T_parent_joint[0], placement(np.diag([-1, -1, 1]), [-0.3, 0, 0.5]), atol=1e-12
    )
    assert [str(kind) for kind in robot.joint_types] == ["continuous"]
    assert [one.identifier for one in said.warnings] == ["free-base"]
    assert not list(_said(tmp_path, ONE.replace('<pose degrees="true">', "<static>true</static><pose>")))


def _said(folder: Path, text: str) -> Diagnostics:
    (folder / "x.sdf").write_text(text)
    said = Diagnostics()
    load_robot(folder / "x.sdf", diagnostics=said)
    return said


def test_meshes_of_an_sdf_are_notes(tmp_path: Path) -> None:
    mesh = "<visual><geometry><mesh><uri>model://arm/x.stl</uri></mesh></geometry></visual></link>"
    said = _said(tmp_path, ONE.replace("</link>", mesh, 1))
    assert [one.identifier for one in said if one.severity == "note"] == ["mesh-missing"]


def test_an_inertial_that_is_left_out_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "x.sdf").write_text(ONE.replace("<inertial>", '<inertial auto="true">'))
    said = Diagnostics()
    assert np.isnan(load_robot(tmp_path / "x.sdf", diagnostics=said).inertia_prior).all()
    assert "inertial-missing" in {one.identifier for one in said.warnings}


@pytest.mark.parametrize(
    ("old", "new", "identifier", "says"),
    [
        ("<mass>1</mass>", "<mass>1,5</mass>", "number", "write '1.5'"),
        ("<mass>1</mass>", "<mass>-1</mass>", "negative-mass", "'a'"),
        ("<xyz>0 1 0</xyz>", "<xyz>0 0 0</xyz>", "zero-axis", "'j'"),
        ('relative_to="f"', 'relative_to="g"', "unknown-frame", "'g'"),
        ('attached_to="a"><pose', 'attached_to="a"><pose relative_to="b"', "pose-circle", "b, f"),
        ("<child>b</child>", "<child>c</child>", "unknown-link", "'c'"),
        ("<child>b</child>", "", "joint-ends", "<child>"),
        ('name="j" type="revolute"', 'name="j" type="screw"', "joint-type", "'screw'"),
        ('name="j" type="revolute"', 'name="j" type="fixed"', "no-joints", "moving"),
        ("<lower>-inf", "<lower>2", "limits-swapped", "lower 2 > upper 1"),
        ('<link name="b">', '<link name="a"/><link name="b">', "duplicate-link", "'a'"),
        ("</model>", "<include><uri>model://x</uri></include></model>", "sdf-nested", "gz sdf -p"),
        (
            "</model>",
            '<joint name="k" type="fixed"><parent>world</parent><child>b</child></joint></model>',
            "two-parents",
            "closed loops",
        ),
        (
            "</world>",
            ONE[ONE.index("<model") : ONE.index("</world>")] + "</world>",
            "several-models",
            "--root LINK",
        ),
    ],
)
def test_what_is_wrong_in_an_sdf_is_named_with_its_place(
    old: str, new: str, identifier: str, says: str, tmp_path: Path
) -> None:
    text = ONE.replace("<upper>inf", "<upper>1")
    assert old in text
    (tmp_path / "x.sdf").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as stopped:
        load_robot(tmp_path / "x.sdf")
    assert f"[{identifier}]" in str(stopped.value)
    assert says in str(stopped.value)
    assert "x.sdf:1:" in str(stopped.value)
    assert stopped.value.exit_code == 3
