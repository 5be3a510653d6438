"""A robot's shapes, their convex parts, what must stay apart, and the check of a motion by another library."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import DynidError, Float, InputError, RefusedError, UsageError
from dynid.excitation import (
    Bounds,
    CollisionModel,
    MotionLimits,
    RobotShapes,
    Workspace,
    collision_model,
    points,
    robot_shapes,
)
from dynid.excitation.collision import convex_parts, enclosing, placements, point_speed, reference_poses
from dynid.excitation.constraints import verified
from dynid.robot import RobotModel, Shape, load_example, load_robot
from dynid.spatial import placement, rotation_rpy
from dynid.trajectories import FourierTrajectory
from tests.command_line import SHORT_SEARCH, Run, planned

ARM7 = load_example("arm7")
CORNERS = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.03, 0.03) for z in (0.0, 0.05)])
# The faces of a box, two triangles each.
FACES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
     [1, 5, 7], [1, 7, 3]]
)  # fmt: skip
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
    body = b"".join(struct.pack("<12fH", 0, 0, 1, *t.ravel(), 0) for t in CORNERS[FACES])
    path.write_bytes(b"solid, but binary".ljust(80) + struct.pack("<I", len(FACES)) + body)
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


def surface(shape: Shape, count: int = 4000) -> Float:
    """Random points of a mesh's surface, in the joint frame."""
    rng = np.random.default_rng(0)
    T = shape.vertices[shape.triangles[rng.integers(len(shape.triangles), size=count)]]
    x = np.einsum("ka,kab->kb", rng.dirichlet(np.ones(3), count), T)
    return np.asarray(x @ shape.frame[:3, :3].T + shape.frame[:3, 3])


def inside(corners: Float, x: Float) -> Float:
    """How far points lie outside the hull of corners, (k,)."""
    from scipy.spatial import ConvexHull

    planes = ConvexHull(corners).equations
    return np.asarray((x @ planes[:, :3].T + planes[:, 3]).max(axis=1))


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


def test_convex_parts_hold_the_whole_surface_of_a_bent_mesh() -> None:
    long, across = placement(np.eye(3), np.zeros(3)), placement(np.eye(3), np.array([0.4, 0.0, 0.3]))
    boxes = [CORNERS * [6.0, 1.0, 1.0], CORNERS * [0.5, 1.0, 12.0] + across[:3, 3] - [0, 0, 0.3]]
    bent = Shape(
        "bent", 0, "mesh", placement(rotation_rpy(np.array([0.3, 0.2, 0.1])), np.ones(3)) @ long, (),
        np.concatenate(boxes), np.concatenate([FACES, FACES + 8]),
    )  # fmt: skip
    parts = convex_parts(bent)
    assert 2 <= len(parts) <= 6
    x = surface(bent)
    assert np.min([inside(part, x) for part in parts], axis=0).max() < 1e-9
    from scipy.spatial import ConvexHull

    whole = ConvexHull(bent.corners()).volume
    assert sum(ConvexHull(part).volume for part in parts) < 0.6 * whole


def test_shapes_of_a_urdf_ride_on_their_bodies(tmp_path: Path) -> None:
    write_stl(tmp_path / "m.stl")
    path = arm(tmp_path, MESH.format("m.stl"))
    found = robot_shapes(load_robot(path))
    assert (found.kind, found.faults) == ("collision", ())
    assert [(s.link, s.body, s.kind) for s in found.shapes] == [
        ("base", -1, "sphere"), ("one", 0, "cylinder"), ("plate", 0, "box"), ("two", 1, "mesh"),
    ]  # fmt: skip
    base, cylinder, plate, mesh = found.shapes
    np.testing.assert_allclose(base.frame[:3, 3], [0, 0, 0.1])
    assert cylinder.size == (0.05, 0.4)
    # The plate is bolted on at 0.4 m and turned: its longest side, along y, stands upright.
    assert np.ptp(plate.corners()[:, 2]) == pytest.approx(0.2, abs=1e-6)
    np.testing.assert_allclose(np.ptp(mesh.corners(), axis=0), [0.4, 0.12, 0.1], atol=1e-6)


def test_visual_shapes_stand_in_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    visual = '<visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual>'
    both = robot_shapes(load_robot(arm(tmp_path, visual)))
    assert both.kind == "collision and visual"
    broken = robot_shapes(load_robot(arm(tmp_path, MESH.format("missing.stl"))))
    assert len(broken.faults) == 1
    assert "the collision shape of two" in broken.faults[0]
    # What could not be read is kept apart as a capsule, which says so, and not as nothing.
    assert broken.derived == ("two",)
    assert [(s.kind, s.size[1]) for s in broken.shapes if s.body == 1] == [("capsule", pytest.approx(0.3))]
    assert not collision_model(load_robot(arm(tmp_path, MESH.format("missing.stl"))), broken).exact
    meshes = MESH.format("missing.stl").replace("<collision>", "<collision name='other'>")
    assert len(robot_shapes(load_robot(arm(tmp_path, MESH.format("missing.stl") + meshes))).faults) == 1
    with pytest.raises(RefusedError, match="outside"):
        robot_shapes(load_robot(arm(tmp_path / "deep", MESH.format("../../secret.stl"))))
    for shape in ('<cone radius="1"/>', "<sphere/>", '<box size="1 2"/>'):
        wrong = f"<collision><geometry>{shape}</geometry></collision>"
        try:
            robot = load_robot(arm(tmp_path, wrong))
        except DynidError:
            continue
        assert robot_shapes(robot).faults


def test_shapes_of_an_mjcf_are_its_geoms(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(
        """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
        <body name="one" pos="0 0 0.2"><joint name="a" axis="0 0 1" range="-90 90"/>
         <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.04" mass="1"/>
         <body name="two" pos="0 0 0.3"><joint name="b" axis="1 0 0" range="-90 90"/>
          <geom type="box" pos="0 0 0.2" size="0.05 0.04 0.1" mass="1"/></body></body></worldbody></mujoco>"""
    )
    found = robot_shapes(load_robot(path))
    assert [(s.link, s.body, s.kind) for s in found.shapes] == [("one", 0, "capsule"), ("two", 1, "box")]
    np.testing.assert_allclose(found.shapes[0].size, (0.04, 0.3), atol=1e-9)
    np.testing.assert_allclose(found.shapes[1].size, (0.1, 0.08, 0.2))


def test_a_robot_without_shapes_gets_capsules_that_are_named(tmp_path: Path) -> None:
    found = robot_shapes(ARM7)
    assert found.kind == "derived"
    assert set(found.derived) == set(ARM7.body_names)
    sizes = np.linspace(0.02, 0.08, 7)
    assert sorted({s.size[0] for s in robot_shapes(ARM7, sizes).shapes}) == pytest.approx(list(sizes))
    with pytest.raises(InputError, match="2 radii"):
        robot_shapes(ARM7, np.array([0.1, 0.2]))
    bare = tmp_path / "bare.urdf"
    bare.write_text(LINKS.format(shape="").replace("collision>", "other>"))
    assert robot_shapes(load_robot(bare)).kind == "derived"


def ball(link: str, body: int, at: tuple[float, float, float], radius: float = 0.05) -> Shape:
    return Shape(link, body, "sphere", placement(np.eye(3), np.array(at)), (radius,))


def pairs(robot: RobotModel, *shapes: Shape, clearance: float = 0.02, exact: bool = True) -> CollisionModel:
    return collision_model(robot, RobotShapes(shapes, "collision"), clearance, exact=exact)


def test_neighbours_and_what_always_overlaps_are_left_out_by_rule() -> None:
    pytest.importorskip("coal")
    names = {(0, 1): False, (0, 2): True, (3, 3): False, (2, 5): True, (-1, 0): False, (-1, 1): True}
    for (a, b), compared in names.items():
        here = ball("a", a, (0.3, 0.0, 0.0)), ball("b", b, (-0.3, 0.0, 0.0))
        assert bool(pairs(ARM7, *here).links) is compared, (a, b)
    poses = reference_poses(ARM7)
    _, p = placements(ARM7, poses)
    # Balls that meet in all reference poses overlap by construction; one that meets in none is compared.
    same = np.linalg.norm(p[:, 4] - p[:, 6], axis=1)
    wide = float(same.max())
    over = pairs(ARM7, ball("a", 4, (0, 0, 0), wide), ball("b", 6, (0, 0, 0), 0.05))
    assert (over.links, over.overlapping) == ((), ("a - b",))
    near = pairs(ARM7, ball("a", 4, (0, 0, 0), wide - 0.05 - 0.012), ball("b", 6, (0, 0, 0), 0.05))
    assert near.closer == ("a - b",)
    assert near.clearance[0] == pytest.approx(0.006, abs=5e-4)
    with pytest.raises(UsageError, match="clearance"):
        pairs(ARM7, ball("a", 0, (0, 0, 0)), clearance=-1.0)


@pytest.mark.parametrize("exact", [True, False])
def test_distances_are_lower_bounds_with_exact_derivatives(exact: bool) -> None:
    if exact:
        pytest.importorskip("coal")
    rod = Shape("rod", 6, "cylinder", placement(np.eye(3), np.array([0.0, 0.0, 0.1])), (0.03, 0.2))
    brick = Shape("brick", 2, "box", placement(np.eye(3), np.array([0.05, 0.0, 0.0])), (0.1, 0.1, 0.2))
    table = Shape("table", -1, "box", placement(np.eye(3), np.array([0.5, 0.0, 0.2])), (0.6, 0.4, 0.02))
    model = collision_model(
        ARM7, RobotShapes((rod, brick), "collision"), 0.5 if exact else 0.01, [table], exact=exact
    )
    assert model.names == ("rod - brick", "rod - table", "brick - table")
    q = np.random.default_rng(0).uniform(-1.5, 1.5, (40, 7))
    d, J = model.distances(ARM7, q)
    found = np.stack(
        [
            (model.distances(ARM7, q + e, False)[0] - model.distances(ARM7, q - e, False)[0]) / 2e-6
            for e in 1e-6 * np.eye(7)
        ],
        axis=2,
    )
    # Where the nearest corner or face changes, a distance has no derivative.
    assert np.mean(np.abs(J - found) < 1e-4) > 0.98
    R, p = placements(ARM7, q)

    def cloud(shape: Shape, t: int) -> Float:
        x = shape.corners()
        return x if shape.body < 0 else x @ R[t, shape.body].T + p[t, shape.body]

    for t in range(len(q)):
        rods, bricks = cloud(rod, t), cloud(brick, t)
        assert d[t, 0] <= np.linalg.norm(rods[:, None] - bricks[None], axis=2).min() + 1e-9


def test_the_floor_counts_the_corners_of_what_moves() -> None:
    standing = Shape("foot", 0, "box", np.eye(4), (0.2, 0.2, 0.4))
    hand = Shape("hand", 6, "box", placement(np.eye(3), np.array([0.0, 0.0, 0.1])), (0.1, 0.04, 0.06))
    model = pairs(ARM7, standing, hand, exact=False)
    space = Workspace.of(ARM7, floor=0.0, collision=model)
    q = np.random.default_rng(0).normal(size=(5, 7))
    far, where = space.reach(placements(ARM7, q))
    corners = points(ARM7, q, np.full(8, 6), hand.corners(), jacobian=False)[0]
    origin = points(ARM7, q, np.array([6]), np.zeros((1, 3)), jacobian=False)[0]
    lowest = np.concatenate([corners, origin], axis=1)[:, :, 2].min(axis=1)
    last = list(space.bodies).index(6)
    np.testing.assert_allclose(-far[:, last, 0], lowest)
    np.testing.assert_allclose(where[:, last, 0, 2], lowest)
    # What turns about the plane's own normal stands on it, whatever the arm does.
    assert not space.applies(0, 0)
    assert space.applies(6, 0)


def test_planes_of_any_length_are_half_spaces() -> None:
    space = Workspace.of(ARM7, floor=-1.0, planes=[[2.0, 0.0, 0.0, 1.0], [0.0, -3.0, 4.0, 2.5]])
    assert space.names == ("floor", "plane 1", "plane 2")
    np.testing.assert_allclose(space.normal[1:], [[1.0, 0.0, 0.0], [0.0, -0.6, 0.8]])
    np.testing.assert_allclose(space.offset, [1.0, 0.5, 0.5])
    for wrong in ([[0.0, 0.0, 0.0, 1.0]], [[1.0, 0.0, np.nan, 1.0]]):
        with pytest.raises(UsageError, match="half-space"):
            Workspace.of(ARM7, planes=wrong)


def test_the_speed_of_a_point_is_that_of_its_positions() -> None:
    rng = np.random.default_rng(0)
    q, dq, local = rng.normal(size=(6, 7)), rng.normal(size=(6, 7)), np.array([0.1, 0.02, 0.05])
    speed, by_q, by_dq = point_speed(ARM7, q, dq, 6, local)
    at = lambda x: points(ARM7, x, np.array([6]), local[None], jacobian=False)[0][:, 0]
    moved = (at(q + 1e-6 * dq) - at(q - 1e-6 * dq)) / 2e-6
    np.testing.assert_allclose(speed, np.linalg.norm(moved, axis=1), rtol=1e-6)
    for k, e in enumerate(1e-6 * np.eye(7)):
        for slope, step in ((by_q, (e, 0 * e)), (by_dq, (0 * e, e))):
            up, down = (point_speed(ARM7, q + s * step[0], dq + s * step[1], 6, local)[0] for s in (1, -1))
            np.testing.assert_allclose(slope[:, k], (up - down) / 2e-6, atol=1e-6)


def swung(seed: int) -> FourierTrajectory:
    rng = np.random.default_rng(seed)
    sine, cosine = rng.normal(0.0, 0.25, (2, 7, 3))
    return FourierTrajectory(np.zeros(7), sine, cosine, 0.3, 4.0, 0.7)


@pytest.mark.parametrize("seed", range(3))
def test_the_check_at_1_khz_skips_nothing_that_comes_too_close(seed: int) -> None:
    pytest.importorskip("coal")
    rng = np.random.default_rng(seed)
    solids = [
        Shape(f"s{b}", b, "box", placement(rotation_rpy(rng.normal(size=3)), 0.05 * rng.normal(size=3)),
              tuple(rng.uniform(0.05, 0.2, 3)))
        for b in (1, 3, 5, 6)
    ]  # fmt: skip
    model = replace(pairs(ARM7, *solids, clearance=0.05))
    space = Workspace.of(ARM7, floor=0.3, collision=model)
    motion = swung(seed)
    found = verified(ARM7, Bounds(MotionLimits.of(ARM7), None, 0.0, space, model, 0.05), motion)
    assert found is not None
    t = np.arange(4001) / 1000.0
    placed = placements(ARM7, motion.motion(t)[0])
    exact = model.solids()
    for one in found.least:
        if " - floor" in one.pair:
            link = next(key for key in exact.links if one.pair.startswith(f"{key[0]} - "))
            R, p = placed[0][:, link[1]], placed[1][:, link[1]]
            corners = next(s for s in solids if s.link == link[0]).corners()
            truth = (np.einsum("tab,kb->tka", R, corners) + p[:, None])[:, :, 2].min() - 0.3
        else:
            k = model.names.index(one.pair)
            truth = min(exact.distance(placed, i, k) for i in range(0, len(t), 5))
        # A pair that keeps its bound need not be measured at its nearest; one that breaks it is.
        assert one.broken is bool(truth < one.bound - 1e-6) or abs(truth - one.bound) < 5e-3
        if truth < one.bound:
            assert one.distance < truth + 2e-3


def test_without_coal_the_output_says_what_was_not_checked(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stl(tmp_path / "m.stl")
    path = arm(tmp_path, MESH.format("m.stl"))
    few = SHORT_SEARCH | {"search.iterations": 1}
    done = run("excite", path, *planned(tmp_path, few), "--floor", -1.0, "--out", tmp_path / "with")
    assert done.code == 0, done.err
    assert "the final motion verified at 1000 Hz with coal" in done.out
    monkeypatch.setitem(sys.modules, "coal", None)
    done = run("excite", path, *planned(tmp_path, few), "--floor", -1.0, "--out", tmp_path / "without")
    assert done.code == 0, done.err
    first = done.out.splitlines()[0]
    assert first.startswith("NOT CHECKED: ")
    assert "independent library (pip install 'dynid[collision]')" in first
    assert (tmp_path / "without" / "motion.csv").read_text().splitlines()[0] == f"# {first}"


def test_shapes_that_could_not_be_read_are_not_said_to_be_checked(run: Run, tmp_path: Path) -> None:
    few = SHORT_SEARCH | {"search.iterations": 1}
    path = arm(tmp_path, MESH.format("missing.stl"))
    done = run("excite", path, *planned(tmp_path, few), "--floor", -1.0, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert done.out.startswith(
        "NOT CHECKED: the robot's own shapes; the collision shape of two (no such file); "
    )
    stored = json.loads((tmp_path / "out" / "plan.json").read_text())["not_checked"]
    assert stored[0].startswith("the robot's own shapes (two are replaced by capsules")
    assert "checked on the robot's collision shapes and capsules in place of two" in done.out


def test_tools_and_obstacles_are_kept_apart(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("coal")
    write_stl(tmp_path / "m.stl")
    path = arm(tmp_path, MESH.format("m.stl"))
    few = SHORT_SEARCH | {"search.iterations": 2}
    plan = tmp_path / "motion.toml"
    text = planned(tmp_path, few)[1].read_text()
    plan.write_text(
        text + "[[tool.solids]]\nbox = [0.05, 0.05, 0.1]\nxyz = [0.0, 0.0, 0.1]\n[[surroundings.obstacles]]\n"
        'size = [0.2, 0.2, 0.2]\nxyz = [0.0, 0.55, 0.5]\nlabel = "post"\n'
    )
    done = run("excite", path, "--plan", plan, "--out", tmp_path / "a")
    assert done.code == 0, done.err
    assert "tool - post" in (tmp_path / "a" / "plan.json").read_text()
    plan.write_text(text + "[[tool.solids]]\nbox = [1.0, 1.0, 1.0]\nsphere = 1.0\n")
    done = run("excite", path, "--plan", plan, "--out", tmp_path / "b")
    assert (done.code, "one of box, sphere" in done.err) == (2, True), done.err
