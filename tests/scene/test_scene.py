"""Scenes: shapes where the description has them, few triangles that keep the surface, pages that run alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.robot import Reading, RobotModel, load_example, mesh_triangles, read_robot
from dynid.scene import (
    Colour,
    LinkColour,
    Scene,
    Surface,
    outlines,
    scene_fragment,
    scene_of,
    scene_page,
    still_png,
)
from dynid.scene.surface import box, capsule, cylinder, ellipsoid, shapes_of, simplified, size_of

ARM = """<robot name="arm">
<link name="base"><visual><geometry><box size="0.2 0.2 0.1"/></geometry></visual></link>
<link name="one"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><origin xyz="0 0 0.2" rpy="0 1.5707963267948966 0"/>
<geometry><cylinder radius="0.05" length="0.4"/></geometry></visual>
<collision><geometry><sphere radius="0.3"/></geometry></collision></link>
<link name="tool"><visual><geometry><mesh filename="{mesh}"/></geometry></visual></link>
<link name="two"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j1" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="2" velocity="1" effort="1"/></joint>
<joint name="fixed" type="fixed"><parent link="one"/><child link="tool"/><origin xyz="0.1 0 0.4"/></joint>
<joint name="j2" type="continuous"><parent link="one"/><child link="two"/><origin xyz="0 0 0.4"/>
<axis xyz="0 1 0"/></joint>
</robot>"""

MOST_BYTES = 300_000


def volume(vertices: np.ndarray, triangles: np.ndarray) -> float:
    """Enclosed volume, m^3, of a closed surface whose triangles all turn the same way."""
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    return float(np.einsum("ti,ti->", a, np.cross(b, c)) / 6.0)


def stl(path: Path, vertices: np.ndarray, triangles: np.ndarray) -> None:
    """Writes a binary STL file."""
    lines = b"".join(
        struct.pack("<12fH", 0, 0, 0, *vertices[triangle].astype(np.float32).ravel(), 0)
        for triangle in triangles
    )
    path.write_bytes(b"\0" * 80 + struct.pack("<I", len(triangles)) + lines)


@pytest.fixture
def arm(tmp_path: Path) -> RobotModel:
    stl(tmp_path / "tool.stl", *capsule(0.05, 0.1))
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.format(mesh="tool.stl"))
    return read_robot(path, Reading())


@pytest.mark.parametrize(
    ("made", "exact"),
    [
        (box(np.array([0.1, 0.2, 0.3])), 8 * 0.1 * 0.2 * 0.3),
        (box(np.array([0.1, 0.2, 0.3]), 3), 8 * 0.1 * 0.2 * 0.3),
        (cylinder(0.1, 0.5), np.pi * 0.01 * 0.5),
        (capsule(0.1, 0.4), np.pi * 0.01 * 0.4 + 4 / 3 * np.pi * 0.001),
        (ellipsoid(np.array([0.1, 0.2, 0.3])), 4 / 3 * np.pi * 0.006),
    ],
)
def test_solids_are_closed_and_have_their_volume(made: tuple[np.ndarray, np.ndarray], exact: float) -> None:
    vertices, triangles = made
    # 24 flat sides and 12 rings hold 0.95 to 1 of what is round.
    assert 0.95 * exact <= abs(volume(vertices, triangles)) <= exact * (1 + 1e-12)
    edges = np.sort(
        np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1
    )
    points = np.unique(np.round(vertices, 12), axis=0, return_inverse=True)[1].ravel()
    counts = np.unique(np.sort(points[edges], axis=1), axis=0, return_counts=True)[1]
    assert (counts == 2).all()


def test_shapes_of_each_link_move_with_its_body(arm: RobotModel) -> None:
    found = shapes_of(arm)
    assert found.unread == {}
    by_link = {one.link: one for one in found.surfaces if one.kind != "capsule"}
    assert {name: (one.body, one.kind) for name, one in by_link.items()} == {
        "base": (-1, "solid"), "one": (0, "solid"), "tool": (0, "mesh"),
    }  # fmt: skip
    np.testing.assert_allclose(np.ptp(by_link["one"].vertices, axis=0), [0.4, 0.1, 0.1], atol=1e-12)
    np.testing.assert_allclose(by_link["tool"].vertices.mean(axis=0), [0.1, 0, 0.4], atol=1e-6)
    # A link without shapes is shown by its axis.
    assert {one.link for one in found.surfaces if one.kind == "capsule"} == {"two"}
    collision = {one.link: one for one in shapes_of(arm, "collision").surfaces}
    np.testing.assert_allclose(np.ptp(collision["one"].vertices, axis=0), [0.6] * 3, atol=1e-12)
    assert collision["base"].kind == "solid"  # it has no others


def test_a_mesh_that_is_not_there_becomes_what_can_be_read_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.format(mesh="absent.stl"))
    scene = scene_of(read_robot(path, Reading()))
    assert "Not read: tool" in scene.shapes
    assert "absent.stl" in scene.shapes
    path.write_text(ARM.format(mesh="../../etc/passwd.stl"))
    assert "Not read: tool" in scene_of(read_robot(path, Reading())).shapes


def test_held_joints_carry_their_shapes(arm: RobotModel) -> None:
    held = read_robot(arm.source, Reading(lock={"j1": 0.5}))
    tool = next(one for one in shapes_of(held).surfaces if one.link == "tool")
    assert tool.body == -1
    here = [0.1 * np.cos(0.5), 0.1 * np.sin(0.5), 0.4]
    np.testing.assert_allclose(tool.vertices.mean(axis=0), here, atol=1e-6)


def test_geoms_stand_where_mujoco_has_them(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    stl(tmp_path / "odd.stl", *(box(np.array([0.02, 0.05, 0.1]))))
    text = """<mujoco model="m"><compiler angle="radian" autolimits="true"/>
    <asset><mesh name="odd" file="odd.stl" scale="1 2 1"/></asset>
    <worldbody><geom type="plane" size="1 1 1"/>
    <body name="a" pos="0 0.1 0.3" euler="0.2 0.3 0.4"><joint name="x" axis="0 1 0"/>
    <geom name="g1" type="capsule" size="0.03" fromto="0 0 0 0.1 0.2 0.3" mass="1"/>
    <body name="b" pos="0.1 0.2 0.3" euler="1 0 0"><joint name="y" type="slide" axis="1 0 0"/>
    <geom name="g2" type="mesh" mesh="odd" pos="0.1 0 0.05" quat="0.5 0.5 0.1 0" mass="1"/>
    <body name="c" pos="0 0 0.1">
    <geom name="g3" type="box" size="0.1 0.02 0.03" euler="0 0.5 0" contype="0" conaffinity="0" mass="1"/>
    </body></body></body></worldbody></mujoco>"""
    path = tmp_path / "m.xml"
    path.write_text(text)
    scene = scene_of(read_robot(path, Reading()))
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    q = np.array([0.7, 0.15])
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    R, p = scene.placements(q[None])
    assert len(scene.surfaces) == 3
    for name, link in (("g1", "a"), ("g2", "b"), ("g3", "c")):
        one = next(s for s in scene.surfaces if s.link == link)
        world = one.vertices @ R[0, one.body + 1].T + p[0, one.body + 1]
        geom = model.geom(name).id
        # MuJoCo turns meshes to their principal axes: corners are compared about the centre, by their distances.
        np.testing.assert_allclose(
            0.5 * (world.min(0) + world.max(0)), data.geom_xpos[geom], atol=1e-6, err_msg=name
        )
        sizes = 2 * model.geom_aabb[geom][3:]
        local = world @ data.geom_xmat[geom].reshape(3, 3)
        np.testing.assert_allclose(np.sort(np.ptp(local, axis=0)), np.sort(sizes), rtol=0.02, err_msg=name)


@pytest.mark.parametrize("most", [60_000, 10_000, 2_000])
def test_simplified_surfaces_keep_size_and_volume(most: int) -> None:
    k = np.linspace(0, 1, 150)
    ring = np.column_stack([0.2 + 0.05 * np.sin(9 * k), k])
    turn = np.linspace(0, 2 * np.pi, 151)[:-1]
    vertices = np.stack(
        [
            np.outer(ring[:, 0], np.cos(turn)),
            np.outer(ring[:, 0], np.sin(turn)),
            np.outer(ring[:, 1], np.ones(150)),
        ],
        -1,
    ).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(149), np.arange(150), indexing="ij")
    a, b = i * 150 + j, i * 150 + (j + 1) % 150
    triangles = np.concatenate([np.stack([a, b, b + 150], -1), np.stack([a, b + 150, a + 150], -1)]).reshape(
        -1, 3
    )
    before = Surface(0, "vase", "mesh", vertices, triangles)
    (after,) = simplified([before], most)
    assert size_of([after]) <= most
    # An error of one cell's height over the whole surface would be 10 % at 2000 bytes; sides stay in place.
    np.testing.assert_allclose(np.ptp(after.vertices, 0), np.ptp(vertices, 0), rtol=0.1)
    nearest = np.array([np.linalg.norm(vertices - point, axis=1).min() for point in after.vertices[::7]])
    assert nearest.max() < 0.03
    assert after.triangles.max() < len(after.vertices)
    assert size_of(simplified([before], 10**7)) == size_of([before])


def test_corners_stay_corners() -> None:
    # A box of many small triangles: the point that keeps the planes of its cell is the corner itself.
    side = np.linspace(-1, 1, 41)
    u, v = np.meshgrid(side, side, indexing="ij")
    faces: list[np.ndarray] = []
    points: list[np.ndarray] = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            sheet = np.stack([u, v, np.full_like(u, sign)], -1).reshape(-1, 3)
            points.append(np.roll(sheet, axis + 1, axis=1))
            i, j = np.meshgrid(np.arange(40), np.arange(40), indexing="ij")
            a = i * 41 + j
            faces.append(
                np.concatenate([np.stack([a, a + 41, a + 42], -1), np.stack([a, a + 42, a + 1], -1)]).reshape(
                    -1, 3
                )
                + len(faces) * 1681
            )
    whole = Surface(0, "box", "mesh", np.concatenate(points), np.concatenate(faces))
    (after,) = simplified([whole], 3_000)
    gaps = [np.abs(after.vertices - corner).max(axis=1).min() for corner in box(np.ones(3))[0]]
    assert max(gaps) < 1e-6


def test_polygons_of_obj_files_become_triangles(tmp_path: Path) -> None:
    path = tmp_path / "box.obj"
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * [1.0, 2.0, 3.0]
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    lines += ["f " + " ".join(f"{i + 1}/1/1" for i in quad) for quad in quads[:3]]
    lines += ["f " + " ".join(str(i - 8) for i in quad) for quad in quads[3:]]
    path.write_text("\n".join(lines))
    assert abs(volume(*mesh_triangles(path))) == pytest.approx(48.0)


def test_frames_follow_the_motion(arm: RobotModel) -> None:
    t = np.linspace(1.0, 4.0, 3001)
    q = np.column_stack([np.sin(t), 0.3 * t])
    scene = scene_of(arm, t, q)
    assert scene.times[0] == 0.0
    assert scene.times[-1] == pytest.approx(3.0)
    assert np.diff(scene.times).max() <= 1 / 30 + 1e-12
    np.testing.assert_allclose(
        scene.q, np.column_stack([np.sin(scene.times + 1), 0.3 * (scene.times + 1)]), atol=1e-6
    )
    long = scene_of(arm, np.arange(10.0**4), np.zeros((10**4, 2)))
    assert len(long.times) == 3000
    with pytest.raises(UsageError, match="positions of 2 joints"):
        scene_of(arm, t, q[:, :1])


def test_bodies_stand_where_pinocchio_has_them(arm: RobotModel) -> None:
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(arm.source)
    data = model.createData()
    q = np.array([0.4, -1.1])
    pin.forwardKinematics(model, data, np.array([0.4, np.cos(-1.1), np.sin(-1.1)]))
    R, p = scene_of(arm).placements(q[None])
    for i in range(2):
        np.testing.assert_allclose(R[0, i + 1], data.oMi[i + 1].rotation, atol=1e-12)
        np.testing.assert_allclose(p[0, i + 1], data.oMi[i + 1].translation, atol=1e-12)


def unpacked(png: bytes) -> np.ndarray:
    """Pixels (h, w, 4) of a PNG whose rows have the filter "as above"."""
    width, height = struct.unpack(">II", png[16:24])
    at = png.index(b"IDAT")
    (size,) = struct.unpack(">I", png[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(png[at + 4 : at + 4 + size]), np.uint8).reshape(
        height, 1 + 4 * width
    )
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, 4)


def test_a_still_shows_each_link_in_its_colour(arm: RobotModel) -> None:
    red, green = LinkColour(Colour("#ff0000", "red")), LinkColour(Colour("#00ff00", "green"))
    scene = scene_of(arm, colours={"one": red, "two": green})
    png = still_png(scene, 300, 200)
    assert png == still_png(scene, 300, 200)
    picture = unpacked(png).astype(int)
    assert picture.shape == (200, 300, 4)
    shown = picture[..., 3] == 255
    assert 0.02 < shown.mean() < 0.6
    assert (picture[0, :, 3] == 0).all()
    assert {one.meaning for one in scene.legend} == {"red", "green"}
    for channel, other in ((0, 1), (1, 0)):
        assert (shown & (picture[..., channel] > 80) & (picture[..., other] < 10)).sum() > 50


def test_obstacles_have_a_colour_of_their_own(arm: RobotModel) -> None:
    own = shapes_of(arm).surfaces
    table = Surface(-1, "table", "obstacle", *box(np.array([0.5, 0.5, 0.01]), 10))
    scene = scene_of(arm, surfaces=[*own, table])
    assert scene.names == ("base", "one", "two", "obstacle")
    assert [scene.owner(one) for one in scene.surfaces][-1] == 3
    assert [one.meaning for one in scene.legend] == ["obstacle"]
    assert "of 4 links" not in scene.shapes
    assert scene_of(arm).names == ("base", "one", "two")
    picture = unpacked(still_png(scene, 300, 200)).astype(int)
    brown = (picture[..., 0] > 1.2 * picture[..., 2]) & (picture[..., 3] == 255)
    assert brown.sum() > 500


def test_every_shipped_robot_has_a_scene_within_its_bytes() -> None:
    for name in ("panda", "puma560", "ur5e", "kr300_rptu", "painting_arm"):
        scene = scene_of(load_example(name))
        assert size_of(scene.surfaces) <= MOST_BYTES
        assert "capsules between the joints" in scene.shapes
        assert {one.body for one in scene.surfaces} >= set(range(scene.robot.n_bodies))


def policy_of(page: str) -> str:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert found
    return found[1].replace("&#x27;", "'")


def test_a_page_runs_one_script_by_its_hash_and_loads_nothing(arm: RobotModel) -> None:
    page = scene_page(
        scene_of(arm, [0.0, 1.0], [[0, 0], [1, 1]]), "an arm </script><img src=x onerror=alert(1)>"
    )
    assert "<img src=x" not in page
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = policy_of(page)
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"\beval\(|new Function|https?://|@import|fetch\(|XMLHttp", page)
    assert page == scene_page(
        scene_of(arm, [0.0, 1.0], [[0, 0], [1, 1]]), "an arm </script><img src=x onerror=alert(1)>"
    )


def test_the_page_holds_the_surfaces_to_a_hundredth_of_a_millimetre(arm: RobotModel) -> None:
    scene: Scene = scene_of(arm)
    html = scene_fragment(scene).html
    found = re.search(r'class="scene-data">(.*?)</script>', html, re.S)
    assert found
    data = json.loads(found[1])
    packed = np.frombuffer(base64.b64decode(data["vertices"]), "<u2").reshape(-1, 3)
    triangles = np.frombuffer(base64.b64decode(data["triangles"]), "<u2").reshape(-1, 3)
    v = t = 0
    for part, surface in zip(data["parts"], scene.surfaces, strict=True):
        points = np.array(part["low"]) + packed[v : v + part["v"]] * np.array(part["step"])
        np.testing.assert_allclose(points, surface.vertices, atol=1e-5)
        np.testing.assert_array_equal(triangles[t : t + part["t"]], surface.triangles)
        v, t = v + part["v"], t + part["t"]
    assert data["motion"] is None


def test_a_box_is_drawn_by_its_edges_and_a_floor_as_far_as_is_shown() -> None:
    low, high = np.array([-0.5, -0.4, 0.0]), np.array([0.6, 0.7, 0.8])
    normals = np.concatenate([np.eye(3), -np.eye(3)])
    lines = outlines(normals, np.concatenate([high, -low]), np.zeros(3), 2.0)
    edges = {
        tuple(sorted((tuple(np.round(a, 9)), tuple(np.round(b, 9))))) for a, b in lines.reshape(-1, 2, 3)
    }
    assert len(edges) == 12
    assert len(lines) == 24
    ends = np.array(list(edges))
    # Each edge runs along one axis, from face to face.
    way = np.abs(ends[:, 1] - ends[:, 0])
    assert np.allclose(np.sort(way.sum(axis=1)), np.sort(np.repeat(high - low, 4)))
    assert ((way > 1e-9).sum(axis=1) == 1).all()
    floor = outlines(np.array([[0.0, 0.0, -1.0]]), np.array([0.3]), np.array([1.0, 0.0, 0.0]), 0.5)
    np.testing.assert_allclose(np.ptp(floor[:, :3], axis=0), [1.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(floor[:, 2], -0.3, atol=1e-12)
    # A tilted wall beyond what is shown is not drawn.
    assert len(outlines(np.array([[0.6, 0.0, 0.8]]), np.array([9.0]), np.zeros(3), 1.0)) == 0
