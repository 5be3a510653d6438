"""What of a robot must stay apart, and how far apart it is: convex parts of the links, tools and obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.excitation.capsules import Capsule, segment_distance
from dynid.excitation.convex import convex_parts, enclosing
from dynid.excitation.kinematics import moved, placements
from dynid.excitation.shapes import RobotShapes
from dynid.excitation.solids import Solids
from dynid.robot.model import RobotModel
from dynid.robot.shapes import Shape

# Convex parts are compared exactly where their capsules come closer than the clearance and this much, m.
NEAR = 0.01
# A pair that has no more than the clearance and this much (m, what a smooth maximum needs) in any reference pose keeps
# this share of its distance there instead.
ROOM, ROOM_SHARE = 0.005, 0.5
# Capsules in place of parts are too coarse for pairs that they call too close in more than half of so many poses.
POSES, OFTEN = 300, 0.5
# Drawn poses beside zero and the middle in which a pair must overlap to be left out: zero alone would hide pairs that
# only touch there.
DRAWN = 16
BASE = "base"


@dataclass(frozen=True, eq=False)
class Part:
    """A convex part of a link.

    link: its name.    body: that carries it, -1 = what stands still.    capsule: that holds it.
    corners: (V, 3) whose hull it is, in the body's joint frame.
    box: frame (4, 4) and half sides (3,) of an obstacle.
    """

    link: str
    body: int
    capsule: Capsule
    corners: Float
    box: tuple[Float, Float] | None = None


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest of a pair's parts, (T, G): distance, unit vector from b to a (T, G, 3), and the points of both."""

    distance: Float
    normal: Float
    a: Float
    b: Float


@dataclass(frozen=True, eq=False)
class CollisionModel:
    """Parts, and the pairs of links that must stay apart.

    links: (G,) the two links of each pair.    bodies: (G, 2) that carry them.    clearance: (G,) m that they keep.
    pairs: (K, 2) indices of parts.    group: (K,) the pair of links that each belongs to.
    overlapping: pairs of links left out as they overlap in every reference pose.
    closer: pairs that keep less than the clearance asked for, as they stand closer in every reference pose.
    coarse: pairs left out as only capsules are known of them, which are too close in most poses.
    exact: whether parts that come near are compared as the convex hulls that they are, which needs coal.
    """

    parts: tuple[Part, ...]
    links: tuple[tuple[str, str], ...]
    bodies: Int
    clearance: Float
    pairs: Int
    group: Int
    overlapping: tuple[str, ...] = ()
    closer: tuple[str, ...] = ()
    coarse: tuple[str, ...] = ()
    exact: bool = False
    shapes: RobotShapes | None = None
    obstacles: tuple[Shape, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The pairs by the names of their links, (G,)."""
        return tuple(f"{a} - {b}" for a, b in self.links)

    def distances(self, robot: RobotModel, q: Float, jacobian: bool = True) -> tuple[Float, Float]:
        """Distance of every pair of links (T, G), negative in collision, and its derivatives (T, G, n).

        A lower bound where the parts are farther apart than the clearance and NEAR.
        """
        placed = placements(robot, q)
        near = self.nearest(placed)
        if not jacobian:
            return near.distance, np.zeros((*near.distance.shape, 0))
        J = moved(robot, placed, self.bodies[:, 0], near.a) - moved(robot, placed, self.bodies[:, 1], near.b)
        return near.distance, np.einsum("tgx,tgxn->tgn", near.normal, J)

    def nearest(self, placed: tuple[Float, Float]) -> Nearest:
        """The nearest parts of every pair of links; placed: rotations and origins of all bodies."""
        R, p = placed
        d, normal, a, b = self._bounds(R, p)
        if self.exact:
            limit = self.clearance[self.group] + NEAR
            for t, k in zip(*np.nonzero(d < limit), strict=True):
                d[t, k], normal[t, k], a[t, k], b[t, k] = self._hulls(R[t], p[t], int(k))
        T, G = len(R), len(self.links)
        best = np.empty((T, G), dtype=np.int64)
        for g in range(G):
            own = np.flatnonzero(self.group == g)
            best[:, g] = own[d[:, own].argmin(axis=1)]
        rows = np.arange(T)[:, None]
        return Nearest(d[rows, best], normal[rows, best], a[rows, best], b[rows, best])

    def _bounds(self, R: Float, p: Float) -> tuple[Float, Float, Float, Float]:
        # Lower bounds (T, K) by the capsules, or by a capsule's middle and an obstacle's box.
        ends = np.empty((2, len(R), len(self.parts), 3))
        for n, one in enumerate(self.parts):
            for end, x in zip(ends, (one.capsule.start, one.capsule.end), strict=True):
                end[:, n] = x if one.body < 0 else R[:, one.body] @ x + p[:, one.body]
        radius = np.array([one.capsule.radius for one in self.parts])
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        d, normal, s, t = segment_distance(ends[0][:, i], ends[1][:, i], ends[0][:, j], ends[1][:, j])
        a = ends[0][:, i] + s[..., None] * (ends[1] - ends[0])[:, i] - radius[i][:, None] * normal
        b = ends[0][:, j] + t[..., None] * (ends[1] - ends[0])[:, j] + radius[j][:, None] * normal
        d = d - radius[i] - radius[j]
        boxes = {n: one.box for n, one in enumerate(self.parts) if one.box is not None}
        for k in np.flatnonzero(np.isin(j, list(boxes))):
            frame, half = boxes[int(j[k])]
            x, y = ends[0][:, i[k]], ends[1][:, i[k]]
            middle, reach = 0.5 * (x + y), 0.5 * np.linalg.norm(y - x, axis=1) + radius[i[k]]
            out, normal[:, k] = _box_distance(middle, frame, half)
            d[:, k] = out - reach
            a[:, k] = middle - reach[:, None] * normal[:, k]
            b[:, k] = middle - out[:, None] * normal[:, k]
        return d, normal, a, b

    def _hulls(self, R: Float, p: Float, k: int) -> tuple[float, Float, Float, Float]:
        coal, hulls, request, result = self._coal
        first, second = self.pairs[k]
        placed = [
            coal.Transform3s.Identity() if body < 0 else coal.Transform3s(R[body], p[body])
            for body in (self.parts[first].body, self.parts[second].body)
        ]
        result.clear()
        d = coal.distance(hulls[first], placed[0], hulls[second], placed[1], request, result)
        # The library's normal points from the first to the second.
        return d, -result.normal, result.getNearestPoint1(), result.getNearestPoint2()

    @cached_property
    def _coal(self) -> tuple[Any, list[Any], Any, Any]:
        import coal

        hulls = []
        for one in self.parts:
            corners = coal.StdVec_Vec3s()
            for x in one.corners:
                corners.append(x)
            hulls.append(coal.Convex.convexHull(corners, True, "Qt"))
        request = coal.DistanceRequest()
        request.enable_signed_distance = True
        return coal, hulls, request, coal.DistanceResult()

    def solids(self) -> Solids:
        """The solids themselves in the collision library; raises ImportError where it is not installed."""
        own = self.shapes.shapes if self.shapes is not None else ()
        pairs = [((a, int(i)), (b, int(j))) for (a, b), (i, j) in zip(self.links, self.bodies, strict=True)]
        return Solids.of((*own, *self.obstacles), pairs)

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to one process."""
        return {name: value for name, value in self.__dict__.items() if name != "_coal"}


def has_coal() -> bool:
    """Whether the collision library is installed."""
    try:
        import_module("coal")
    except ImportError:
        return False
    return True


def collision_model(
    robot: RobotModel,
    shapes: RobotShapes,
    clearance: float = 0.0,
    obstacles: Sequence[Shape] = (),
    exact: bool | None = None,
) -> CollisionModel:
    """All pairs of links, and of links and obstacles, that must stay apart.

    clearance: m that they are to keep.    exact: whether to compare near parts by coal; None = where it is installed
    and the shapes are the robot's own: derived capsules have exact distances by themselves.
    Left out are pairs of links on one body or on neighbouring ones, those that overlap in every reference pose (see
    `reference_poses`), and obstacles with what no joint moves.    Raises UsageError for a clearance below zero.
    """
    if not (np.isfinite(clearance) and clearance >= 0):
        raise UsageError("clearance", found=f"a clearance of {clearance} m", expected="0 or more")
    if exact is None:
        exact = has_coal() and not shapes.derived
    parts = [part for shape in shapes.shapes for part in _parts(shape)]
    fixed = [part for shape in obstacles for part in _parts(shape, obstacle=True)]
    of: dict[tuple[str, int], list[int]] = {}
    for n, part in enumerate(parts):
        of.setdefault((part.link, part.body), []).append(n)
    links = list(of)
    chosen = [
        (one, other)
        for k, one in enumerate(links)
        for other in links[k + 1 :]
        if not _neighbours(robot, one[1], other[1])
    ]
    groups = [(a[0], b[0], a[1], b[1], [(i, j) for i in of[a] for j in of[b]]) for a, b in chosen]
    groups += [
        (link, part.link, body, -1, [(i, len(parts) + n) for i in of[link, body]])
        for n, part in enumerate(fixed)
        for link, body in links
        if body >= 0
    ]
    whole = _model([*parts, *fixed], groups, np.full(len(groups), clearance), exact)
    whole = CollisionModel(**{**_fields(whole), "shapes": shapes, "obstacles": tuple(obstacles)})
    return _with_rules(robot, whole, clearance, len(chosen)) if groups else whole


def reference_poses(robot: RobotModel) -> Float:
    """Poses (2 + DRAWN, n) that show what always overlaps: zero within the limits, their middle, and drawn ones."""
    low = np.where(np.isfinite(robot.limits.lower), robot.limits.lower, -np.pi)
    high = np.where(np.isfinite(robot.limits.upper), robot.limits.upper, np.pi)
    drawn = np.random.default_rng(0).uniform(low, high, (DRAWN, robot.n))
    return np.concatenate([[np.clip(np.zeros(robot.n), low, high), 0.5 * (low + high)], drawn])


def _with_rules(robot: RobotModel, whole: CollisionModel, clearance: float, between: int) -> CollisionModel:
    # between: pairs of links come first, then those with obstacles, which have no rules.
    room = whole.distances(robot, reference_poses(robot), jacobian=False)[0].max(axis=0)
    apart = whole.shapes is not None and whole.exact
    if apart:
        room = _exact_room(robot, whole, room, clearance)
    own = np.arange(len(whole.links)) < between
    keep = np.where(own & (room < clearance + ROOM), ROOM_SHARE * np.maximum(room, 0.0), clearance)
    overlap = own & (room <= 0)
    coarse = np.zeros(len(own), dtype=np.bool_)
    if not whole.exact:
        keep = np.full(len(own), clearance)
        rng = np.random.default_rng(0)
        low, high = (np.where(np.isfinite(x), x, y) for x, y in (
            (robot.limits.lower, -np.pi), (robot.limits.upper, np.pi)))  # fmt: skip
        free = whole.distances(robot, rng.uniform(low, high, (POSES, robot.n)), jacobian=False)[0]
        coarse = own & ((free < clearance).mean(axis=0) > OFTEN)
    if own.any() and (coarse | overlap)[own].all() and coarse.any():
        raise UsageError(
            "capsules",
            found=f"capsules of which every pair comes closer than {clearance:g} m in most poses",
            expected="pairs that can stay apart",
            do="give a smaller shapes.radius or surroundings.clearance",
        )
    named = np.array(whole.names)
    kept = ~(overlap | coarse)
    index = np.cumsum(kept) - 1
    mask = kept[whole.group]
    return CollisionModel(
        **{
            **_fields(whole),
            "links": tuple(pair for pair, stays in zip(whole.links, kept, strict=True) if stays),
            "bodies": whole.bodies[kept],
            "clearance": keep[kept],
            "pairs": whole.pairs[mask],
            "group": index[whole.group[mask]],
            "overlapping": tuple(named[overlap].tolist()),
            "closer": tuple(named[kept & (keep < clearance)].tolist()),
            "coarse": tuple(named[coarse & ~overlap].tolist()),
        }
    )


def _exact_room(robot: RobotModel, whole: CollisionModel, room: Float, clearance: float) -> Float:
    # Hulls hold more than the solids themselves: near pairs are measured on those.
    solids, found = whole.solids(), np.array(room)
    placed = placements(robot, reference_poses(robot))
    for g in np.flatnonzero(room < clearance + NEAR):
        found[g] = max(solids.distance(placed, t, int(g)) for t in range(len(placed[0])))
    return found


def _fields(model: CollisionModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in CollisionModel.__dataclass_fields__}


def _model(
    parts: list[Part],
    groups: list[tuple[str, str, int, int, list[tuple[int, int]]]],
    clearance: Float,
    exact: bool,
) -> CollisionModel:
    return CollisionModel(
        parts=tuple(parts),
        links=tuple((a, b) for a, b, *_ in groups),
        bodies=np.array([(i, j) for _, _, i, j, _ in groups], dtype=np.int64).reshape(-1, 2),
        clearance=clearance,
        pairs=np.array([pair for *_, own in groups for pair in own], dtype=np.int64).reshape(-1, 2),
        group=np.repeat(np.arange(len(groups)), [len(own) for *_, own in groups]),
        exact=exact,
    )


def _parts(shape: Shape, obstacle: bool = False) -> list[Part]:
    made = []
    for corners in convex_parts(shape):
        if shape.kind in ("capsule", "sphere"):
            half = 0.5 * shape.size[1] if shape.kind == "capsule" else 0.0
            z, middle = shape.frame[:3, 2], shape.frame[:3, 3]
            capsule = Capsule(shape.body, middle - half * z, middle + half * z, shape.size[0])
        else:
            start, end, radius = enclosing(corners)
            capsule = Capsule(shape.body, start, end, radius)
        box = (np.asarray(shape.frame), 0.5 * np.array(shape.size)) if obstacle else None
        made.append(Part(shape.link, shape.body, capsule, corners, box))
    return made


def _neighbours(robot: RobotModel, a: int, b: int) -> bool:
    return a == b or (a >= 0 and int(robot.parent[a]) == b) or (b >= 0 and int(robot.parent[b]) == a)


def _box_distance(x: Float, frame: Float, half: Float) -> tuple[Float, Float]:
    # Signed distance (T,) of points (T, 3) from a box, and its derivative (T, 3).
    local = (x - frame[:3, 3]) @ frame[:3, :3]
    over = np.abs(local) - half
    outside = np.maximum(over, 0.0)
    far = np.linalg.norm(outside, axis=1)
    inside = over.max(axis=1)
    face = np.eye(3)[over.argmax(axis=1)]
    with np.errstate(invalid="ignore", divide="ignore"):
        direction = np.where((far > 0)[:, None], outside / far[:, None], face) * np.where(
            local < 0, -1.0, 1.0
        )
    return np.where(far > 0, far, inside), direction @ frame[:3, :3].T
