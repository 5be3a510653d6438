"""Capsules from collision shapes and meshes, and what they mean for pairs and surroundings."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.base.errors import DynidError, InputError, RefusedError, ResourceError, UsageError
from dynid.excitation.capsules import Capsule, Capsules, keep_apart, link_capsules
from dynid.excitation.kinematics import points
from dynid.excitation.limits import Workspace
from dynid.excitation.mesh import read_vertices
from dynid.excitation.shapes import enclosing, shape_capsules
from dynid.robot import load_example, load_robot
from tests.command_line import SHORT_SEARCH, Run

CORNERS = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.03, 0.03) for z in (0.0, 0.05)])
TRIANGLES = CORNERS[[0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 5, 7]].reshape(-1, 3, 3)
LINKS = """<robot name="r"><link name="base">
 <collision><origin xyz="0 0 0.1"/><geometry><sphere radius="0.1"/></geometry></collision></link>
<link name="one"><collision><origin xyz="0 0 0.2" rpy="0 0 0"/><geometry>
 <cylinder radius="0.05" length="0.4"/></geometry></collision></link>
<link name="plate"><collision><geometry><box size="0.1 0.2 0.02"/></geometry></collision></link>
<link name="two">{shape}</link>
<link name="three"/>
<joint name="a" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
 <limit lower="-2" upper="2" velocity="2" effort="50"/></joint>
<joint name="bolt" type="fixed"><parent link="one"/><child link="plate"/>
 <origin xyz="0 0 0.4" rpy="1.5707963 0 0"/></joint>
<joint name="b" type="revolute"><parent link="plate"/><child link="two"/><axis xyz="1 0 0"/>
 <limit lower="-2" upper="2" velocity="2" effort="50"/></joint>
<joint name="c" type="revolute"><parent link="two"/><child link="three"/><origin xyz="0 0 0.3"/><axis xyz="1 0 0"/>
 <limit lower="-2" upper="2" velocity="2" effort="50"/></joint>
</robot>"""
MESH = '<collision><geometry><mesh filename="{}" scale="2 2 2"/></geometry></collision>'


def write_stl(path: Path) -> Path:
    body = b"".join(struct.pack("<12fH", 0, 0, 1, *t.ravel(), 0) for t in TRIANGLES)
    path.write_bytes(b"solid, but binary".ljust(80) + struct.pack("<I", len(TRIANGLES)) + body)
    return path


def arm(folder: Path, shape: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "arm.urdf"
    path.write_text(LINKS.format(shape=shape))
    return path


def deepest(vertices: Float, start: Float, end: Float, radius: float) -> float:
    along = end - start
    s = np.clip((vertices - start) @ along / max(float(along @ along), 1e-12), 0.0, 1.0)
    return float((np.linalg.norm(vertices - start - s[:, None] * along, axis=1) - radius).max())


@pytest.mark.parametrize("seed", range(6))
def test_an_enclosing_capsule_holds_every_point_and_is_small(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vertices = rng.normal(size=(300, 3)) * [0.02, 0.03, 0.15] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    start, end, radius = enclosing(vertices)
    assert deepest(vertices, start, end, radius) < 1e-9
    box = np.prod(2 * np.abs(vertices - vertices.mean(axis=0)).max(axis=0))
    assert np.pi * radius**2 * (np.linalg.norm(end - start) + 4 / 3 * radius) < 3 * box
    ball = rng.normal(size=(200, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    assert deepest(ball, *enclosing(ball)) < 1e-9
    assert enclosing(ball)[2] < 1.1
    flat = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert deepest(flat, *enclosing(flat)) < 1e-9


def test_meshes_of_every_kind_hold_the_same_points(tmp_path: Path) -> None:
    binary = write_stl(tmp_path / "a.stl")
    text = tmp_path / "b.STL"
    facets = "".join(
        "facet normal 0 0 1\nouter loop\n"
        + "".join(f"vertex {x} {y} {z}\n" for x, y, z in t)
        + "endloop\nendfacet\n"
        for t in TRIANGLES
    )
    text.write_text("solid x\n" + facets + "endsolid\n")
    obj = tmp_path / "c.obj"
    obj.write_text("# box\n" + "".join(f"v {x} {y} {z}\nvn 0 0 1\n" for x, y, z in CORNERS) + "f 1 2 3\n")
    wanted = np.unique(CORNERS, axis=0)
    for path in (binary, text, obj):
        np.testing.assert_allclose(np.unique(np.round(read_vertices(path), 6), axis=0), wanted, atol=1e-6)


def test_other_formats_are_read_by_coal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("coal")
    path = tmp_path / "a.off"
    path.write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n")
    assert np.ptp(read_vertices(path), axis=0).tolist() == [1.0, 1.0, 1.0]
    path.write_text("nonsense")
    with pytest.raises(InputError, match="mesh"):
        read_vertices(path)
    monkeypatch.setitem(sys.modules, "coal", None)
    with pytest.raises(ResourceError, match="coal"):
        read_vertices(path)


@pytest.mark.parametrize("name", ["a.stl", "b.obj"])
def test_broken_meshes_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for data in (b"", b"vertex a b c\nv a b c\n", b"vertex 1 nan 2\nv 1 nan 2\n", b"\x00" * 84):
        path.write_bytes(data)
        with pytest.raises(InputError, match=name):
            read_vertices(path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        read_vertices(path)


def test_shapes_of_a_urdf_ride_on_their_bodies(tmp_path: Path) -> None:
    write_stl(tmp_path / "m.stl")
    path = arm(tmp_path, MESH.format("m.stl"))
    robot = load_robot(path)
    found = shape_capsules(robot, path)
    assert [c.body for c in found.capsules] == [-1, 0, 0, 1]
    base, cylinder, plate, mesh = found.capsules
    np.testing.assert_allclose([base.start, base.end], [[0, 0, 0.1]] * 2)
    np.testing.assert_allclose(sorted([cylinder.start[2], cylinder.end[2]]), [0.0, 0.4])
    assert (base.radius, cylinder.radius) == (0.1, 0.05)
    # The plate is bolted on at 0.4 m and turned: its longest side, along y, stands upright.
    assert abs(plate.end[2] - plate.start[2]) > 0.1
    np.testing.assert_allclose(0.5 * (plate.start + plate.end), [0, 0, 0.4], atol=2e-3)
    assert deepest(2 * CORNERS, mesh.start, mesh.end, mesh.radius) < 1e-6
    assert found.names(robot) == ("base - two",)


def test_packages_are_found_above_the_file_or_where_named(tmp_path: Path) -> None:
    (tmp_path / "my_robot" / "meshes").mkdir(parents=True)
    write_stl(tmp_path / "my_robot" / "meshes" / "m.stl")
    shape = MESH.format("package://my_robot/meshes/m.stl")
    above = arm(tmp_path / "my_robot" / "urdf", shape)
    assert len(shape_capsules(load_robot(above), above).capsules) == 4
    elsewhere = arm(tmp_path / "other" / "urdf", shape.replace("my_robot/", "my_robot//"))
    with pytest.raises(DynidError):
        shape_capsules(load_robot(elsewhere, packages=tmp_path / "none"), elsewhere)
    # Any folder of the machine could be named so: a package beside the file's own is known by its package.xml.
    beside = arm(tmp_path / "beside" / "urdf", shape)
    with pytest.raises(InputError, match="package-missing"):
        shape_capsules(load_robot(beside), beside)
    (tmp_path / "my_robot" / "package.xml").write_text("<package/>")
    assert len(shape_capsules(load_robot(beside), beside).capsules) == 4
    reported = arm(tmp_path / "told", shape)
    assert len(shape_capsules(load_robot(reported, packages=tmp_path), reported).capsules) == 4


def test_what_is_no_shape_is_named(tmp_path: Path) -> None:
    for shape, error, words in (
        ('<collision><geometry><cone radius="1"/></geometry></collision>', InputError, "<cone>"),
        ("<collision><geometry><sphere/></geometry></collision>", InputError, "without radius"),
        ('<collision><geometry><box size="1 2"/></geometry></collision>', InputError, "3 numbers"),
        (MESH.format("../../secret.stl"), RefusedError, "outside"),
        (MESH.format("missing.stl"), InputError, "no such file"),
        (MESH.format("package://nowhere/m.stl"), InputError, "nowhere"),
    ):
        path = arm(tmp_path / "deep", shape)
        try:
            robot = load_robot(path)
        except error:
            continue
        with pytest.raises(error, match=words):
            shape_capsules(robot, path)
    with pytest.raises(UsageError, match="no-shapes"):
        shape_capsules(load_example("arm7"), _written(tmp_path / "x.xml", "<mujoco/>"))
    bare = _written(tmp_path / "bare.urdf", LINKS.format(shape="").replace("collision>", "visual>"))
    with pytest.raises(UsageError, match="no-shapes"):
        shape_capsules(load_robot(bare), bare)


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_pairs_that_are_always_close_are_left_out_and_stated() -> None:
    robot = load_example("arm7")
    thick, thin = link_capsules(robot, 0.15), link_capsules(robot, 0.01)
    assert len(thick.left_out) > len(thin.left_out)
    assert len(thick.pairs) + len(thick.left_out) == len(thin.pairs) + len(thin.left_out)
    assert len(thick.left_out_names(robot)) >= 1
    assert len(link_capsules(robot, 0.01, clearance=0.28).left_out) > len(thin.left_out)
    sizes = np.linspace(0.02, 0.08, 7)
    assert sorted({c.radius for c in link_capsules(robot, sizes).capsules}) == pytest.approx(list(sizes))
    with pytest.raises(UsageError, match="2 radii"):
        link_capsules(robot, [0.1, 0.2])
    assert keep_apart(robot, []).pairs == ()


def test_the_floor_counts_the_radius_of_what_moves() -> None:
    robot = load_example("arm7")
    standing = Capsule(0, np.zeros(3), np.zeros(3), 0.4)
    hand = Capsule(6, np.zeros(3), np.array([0.0, 0.0, 0.1]), 0.07)
    space = Workspace.of(robot, floor=0.0, capsules=Capsules((standing, hand), ()))
    bare = Workspace.of(robot, floor=0.0)
    np.testing.assert_array_equal(space.body[len(bare.body) :], [6, 6])
    np.testing.assert_array_equal(space.radius, [*np.zeros(len(bare.body)), 0.07, 0.07])
    q = np.random.default_rng(0).normal(size=(4, 7))
    np.testing.assert_allclose(
        points(robot, q, space.body, space.local)[0][:, -2],
        points(robot, q, np.array([6]), np.zeros((1, 3)))[0][:, 0],
    )


def test_planes_of_any_length_are_half_spaces() -> None:
    robot = load_example("arm7")
    space = Workspace.of(robot, floor=-1.0, planes=[[2.0, 0.0, 0.0, 1.0], [0.0, -3.0, 4.0, 2.5]])
    assert space.names == ("floor", "plane 1", "plane 2")
    np.testing.assert_allclose(space.normal[1:], [[1.0, 0.0, 0.0], [0.0, -0.6, 0.8]])
    np.testing.assert_allclose(space.offset, [1.0, 0.5, 0.5])
    for wrong in ([[0.0, 0.0, 0.0, 1.0]], [[1.0, 0.0, np.nan, 1.0]]):
        with pytest.raises(UsageError, match="half-space"):
            Workspace.of(robot, planes=wrong)


def test_the_command_takes_shapes_and_radii(run: Run, tmp_path: Path) -> None:
    write_stl(tmp_path / "m.stl")
    path = arm(tmp_path, MESH.format("m.stl"))
    few = (*SHORT_SEARCH, "--iterations", 1)
    done = run("excite", path, *few, "--shapes", "--out", tmp_path / "a")
    assert (done.code, "self-collision of base - two" in done.out) == (0, True), done.err
    done = run("excite", path, *few, "--shapes", "--radius", 0.1, "--out", tmp_path / "b")
    assert (done.code, "one of them" in done.err) == (2, True), done.err
    done = run("excite", path, *few, "--plane", "1,0,0,-9", "--out", tmp_path / "b")
    assert (done.code, "plane 1" in done.err) == (4, True), done.err
    done = run("excite", path, *few, "--radius", "0.1,0.05,0.1,0.1", "--out", tmp_path / "b")
    assert (done.code, "4 radii" in done.err) == (2, True), done.err
