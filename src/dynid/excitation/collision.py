"""Self-collision: convex parts of links, tools and obstacles, and distances between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from dynid.base import Bool, Float, Int, UsageError, dataclass, locked
from dynid.excitation.shapes import RobotShapes, Solids
from dynid.robot import RobotModel, Shape

# Capsules, and distances between them.


@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` of the segment from `start` to `end`, m, in the joint frame of body (-1 = base)."""

    body: int
    start: Float
    end: Float
    radius: float

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, locked(getattr(self, name), (3,), name))
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise UsageError("capsule", found=f"radius {self.radius} m", expected="a positive one")


def segment_distance(a0: Float, a1: Float, b0: Float, b1: Float) -> tuple[Float, Float, Float, Float]:
    """Distance between segments, and the points where it is attained.

    It is the least over the interior and the four ends against the other segment, which is exact for parallel segments
    too.

    Parameters
    ----------
    a0, a1, b0, b1 : ndarray, shape (..., 3), m
        Ends of the segments a and b.

    Returns
    -------
    distance : ndarray, shape (...), m
        Distance.
    normal : ndarray, shape (..., 3)
        Unit vector from b to a.
    s, t : ndarray, shape (...)
        Places in [0, 1] along a and b.

    """
    u, v, w = a1 - a0, b1 - b0, a0 - b0
    uu, vv, uv = _dot(u, u), _dot(v, v), _dot(u, v)
    uw, vw = _dot(u, w), _dot(v, w)
    det = uu * vv - uv**2
    inner = np.clip(_divided(uv * vw - vv * uw, det), 0.0, 1.0)
    zero, unit = np.zeros_like(uu), np.ones_like(uu)
    tries = []
    for s in (inner, zero, unit):
        tries.append((s, np.clip(_divided(vw + s * uv, vv), 0.0, 1.0)))
    for t in (zero, unit):
        tries.append((np.clip(_divided(t * uv - uw, uu), 0.0, 1.0), t))
    S, T = np.stack([s for s, _ in tries]), np.stack([t for _, t in tries])
    gap = w + S[..., None] * u - T[..., None] * v
    best = np.argmin(_dot(gap, gap), axis=0)[None]
    s, t = np.take_along_axis(S, best, 0)[0], np.take_along_axis(T, best, 0)[0]
    between = w + s[..., None] * u - t[..., None] * v
    distance = np.sqrt(_dot(between, between))
    return distance, between / np.maximum(distance, 1e-12)[..., None], s, t


def _dot(a: Float, b: Float) -> Float:
    return np.asarray((a * b).sum(axis=-1))


def _divided(a: Float, b: Float) -> Float:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 1e-14))


# Solids as convex parts, each in a small capsule.

# Random directions tried for a capsule, and iterations for the circle around its points: more give slightly smaller
# capsules.
DIRECTIONS, ROUNDS = 40, 60
# m: least radius, since a capsule must have one.
_THIN = 1e-4
# A mesh is cut into at most MOST_PARTS parts, while a cut reduces the volume of the hulls by LEAST_GAIN of the whole:
# more parts are closer to the shape, and slower.
LEAST_GAIN, MOST_PARTS = 0.04, 6
# Positions of cutting planes, as shares of the extent.
CUTS = (0.3, 0.5, 0.7)


def convex_parts(shape: Shape) -> list[Float]:
    """Points (V, 3) in the joint frame, one set per part, whose convex hulls together contain the solid.

    A mesh is cut by planes across the axes of its extent, each time by the one that leaves the least volume in the
    hulls. Triangles that a plane crosses are cut there, so that no part of the surface is lost.
    """
    if shape.kind != "mesh":
        return [shape.corners()]
    corners = shape.vertices @ shape.frame[:3, :3].T + shape.frame[:3, 3]
    soups = [corners[shape.triangles]]
    whole = _volume(soups[0])
    while len(soups) < MOST_PARTS and whole > 0:
        cuts = [(gain, i, pair) for i, soup in enumerate(soups) for gain, pair in _cuts(soup)]
        if not cuts:
            break
        gain, i, pair = max(cuts, key=lambda cut: cut[0])
        if gain < LEAST_GAIN * whole:
            break
        soups[i : i + 1] = pair
    return [_outermost(soup.reshape(-1, 3)) for soup in soups]


def _cuts(soup: Float) -> list[tuple[float, tuple[Float, Float]]]:
    # Reduction of volume by each plane across a soup of triangles (F, 3, 3), and the two soups that it leaves.
    points = soup.reshape(-1, 3)
    axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]
    before, cuts = _volume(soup), []
    for axis in axes:
        along = points @ axis
        low, high = float(along.min()), float(along.max())
        for share in CUTS:
            pair = _clipped(soup, axis, low + share * (high - low))
            if all(len(half) for half in pair):
                cuts.append((before - sum(_volume(half) for half in pair), pair))
    return cuts


def _clipped(soup: Float, axis: Float, offset: float) -> tuple[Float, Float]:
    height = soup @ axis - offset
    below, above = (height <= 0).all(axis=1), (height >= 0).all(axis=1)
    crossed = ~(below | above)
    T, h = soup[crossed], height[crossed]
    # Rotate each triangle so that the corner alone on its side is first; the plane cuts the two edges that meet there.
    alone = np.argmax((h > 0) == ((h > 0).sum(axis=1) == 1)[:, None], axis=1)
    turn = (alone[:, None] + np.arange(3)) % 3
    rows = np.arange(len(T))[:, None]
    T, h = T[rows, turn], h[rows, turn]
    ab, ac = (T[:, 0] + (T[:, k] - T[:, 0]) * (h[:, :1] / (h[:, :1] - h[:, k : k + 1])) for k in (1, 2))
    tip = np.stack([T[:, 0], ab, ac], axis=1)
    rest = np.concatenate([np.stack([ab, T[:, 1], T[:, 2]], axis=1), np.stack([ab, T[:, 2], ac], axis=1)])
    tip_above = h[:, 0] > 0
    twice = np.concatenate([tip_above, tip_above])
    return (
        np.concatenate([soup[below], tip[~tip_above], rest[twice]]),
        np.concatenate([soup[above & ~below], tip[tip_above], rest[~twice]]),
    )


def _volume(soup: Float) -> float:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return float(ConvexHull(soup.reshape(-1, 3)).volume)
    except (QhullError, ValueError):
        return 0.0


def enclosing(vertices: Float) -> tuple[Float, Float, float]:
    """Ends and radius of a small capsule around points (V, 3): the best of several directions.

    The radius is that of the circle around the points as seen along the direction; the segment is as short as
    possible. Source: Badoiu and Clarkson 2003 (the circle).
    """
    points = _outermost(np.asarray(vertices, dtype=np.float64))
    if not len(points):
        raise UsageError("mesh", found="no vertex", expected="points")
    Vt = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]
    tries = np.concatenate([Vt, np.eye(3), np.random.default_rng(0).normal(size=(DIRECTIONS, 3))])
    U = tries / np.linalg.norm(tries, axis=1)[:, None]
    start, end, radius = _along(points, U)
    length = np.linalg.norm(end - start, axis=1)
    best = int((np.pi * radius**2 * (length + 4.0 / 3.0 * radius)).argmin())
    return start[best], end[best], max(float(radius[best]), _THIN)


def _outermost(vertices: Float) -> Float:
    from scipy.spatial import ConvexHull, QhullError

    points = np.unique(vertices, axis=0)
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        return points  # flat or too few points have no hull


def _along(points: Float, U: Float) -> tuple[Float, Float, Float]:
    # Ends (D, 3) and radii (D,) of the capsules along directions (D, 3).
    x = points @ U.T
    across = points[None] - x.T[:, :, None] * U[:, None]
    centre = across.mean(axis=1)
    rows = np.arange(len(U))
    for k in range(1, ROUNDS):
        gap = across - centre[:, None]
        far = (gap**2).sum(axis=2).argmax(axis=1)
        centre = centre + gap[rows, far] / (k + 1)
    distance = np.linalg.norm(across - centre[:, None], axis=2)
    radius = distance.max(axis=1)
    cap = np.sqrt(np.maximum(radius[:, None] ** 2 - distance**2, 0.0)).T
    low, high = (x + cap).min(axis=0), (x - cap).max(axis=0)
    middle, ball = 0.5 * (low + high), low > high
    low, high = np.where(ball, middle, low), np.where(ball, middle, high)
    # A single ball contains all points only if it reaches the farthest one from its own centre.
    reach = np.linalg.norm(points[None] - (centre + low[:, None] * U)[:, None], axis=2).max(axis=1)
    return centre + low[:, None] * U, centre + high[:, None] * U, np.where(ball, reach, radius)


# Positions of points on the links, and their derivatives.


def placements(robot: RobotModel, q: Float) -> tuple[Float, Float]:
    """Rotations (T, nb, 3, 3) and origins (T, nb, 3) of all links in the base frame; q: (T, n)."""
    x = robot.tree_motion(q, q, q)[0]
    T, nb = x.shape
    R, p = np.empty((T, nb, 3, 3)), np.empty((T, nb, 3))
    for i in range(nb):
        a, parent = robot.axis[i], int(robot.parent[i])
        P, d = robot.T_parent_joint[i, :3, :3], robot.T_parent_joint[i, :3, 3]
        if robot.tree.prismatic[i]:
            local, place = P, d + np.outer(x[:, i], P @ a)
        else:
            K = np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
            # Rodrigues: 1 + sin K + (1 - cos) K K; the three constant parts are stacked for a single product.
            local, place = np.hstack([P @ (np.eye(3) + K @ K), P @ K, -P @ K @ K]), d[None]
        if parent >= 0:
            before = R[:, parent]
            turned = (before.reshape(-1, 3) @ local).reshape(T, 3, -1)
            p[:, i] = p[:, parent] + np.einsum("tab,tb->ta", before, np.broadcast_to(place, (T, 3)))
        else:
            turned = np.broadcast_to(local, (T, *local.shape))
            p[:, i] = place
        if robot.tree.prismatic[i]:
            R[:, i] = turned
        else:
            s, c = np.sin(x[:, i])[:, None, None], np.cos(x[:, i])[:, None, None]
            R[:, i] = turned[..., :3] + s * turned[..., 3:6] + c * turned[..., 6:]
    return R, p


def points(
    robot: RobotModel, q: Float, body: Int, local: Float, jacobian: bool = True
) -> tuple[Float, Float]:
    """Positions of points on the links, and their derivatives.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    q : ndarray, shape (n_samples, n_joints), rad or m
        Positions of the joints.
    body : ndarray of int, shape (n_points,)
        Link of each point, -1 for the base.
    local : ndarray, shape (n_points, 3), m
        Points in the joint frames of their links.
    jacobian : bool
        Whether to compute the derivatives.

    Returns
    -------
    x : ndarray, shape (n_samples, n_points, 3), m
        Positions in the base frame.
    J : ndarray, shape (n_samples, n_points, 3, n_joints)
        Derivatives with respect to q; empty if not computed.

    """
    R, p = placements(robot, q)
    T, fixed = len(q), np.flatnonzero(body < 0)
    x = np.einsum("tpab,pb->tpa", R[:, body], local) + p[:, body]
    x[:, fixed] = local[fixed]
    if not jacobian:
        return x, np.zeros((T, len(body), 3, 0))
    return x, moved(robot, (R, p), body, x)


def moved(robot: RobotModel, placed: tuple[Float, Float], body: Int, x: Float) -> Float:
    """Derivatives of points on links with respect to the joint positions.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    placed : tuple of ndarray
        Rotations and origins of all links, see `placements`.
    body : ndarray of int, shape (n_points,)
        Link of each point, -1 for the base.
    x : ndarray, shape (n_samples, n_points, 3), m
        Points in the base frame.

    Returns
    -------
    ndarray, shape (n_samples, n_points, 3, n_joints)
        Derivatives.

    """
    R, p = placed
    axes = np.einsum("tiab,ib->tia", R, robot.axis)
    J = _rotation_jacobian(axes, x, p)
    slides = np.flatnonzero(robot.tree.prismatic)
    J[:, :, :, slides] = axes[:, slides].transpose(0, 2, 1)[:, None]
    J *= _moved_by(robot, body)[None, :, None, :]
    return J @ robot.projection if robot.has_mimic else J


def _rotation_jacobian(axes: Float, x: Float, origin: Float) -> Float:
    # axis x (point - origin of the axis), (T, P, 3, nb).
    a = axes.transpose(0, 2, 1)[:, None]
    r = x[..., None] - origin.transpose(0, 2, 1)[:, None]
    J = np.empty((*x.shape, axes.shape[1]))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        J[:, :, i] = a[:, :, j] * r[:, :, k] - a[:, :, k] * r[:, :, j]
    return J


def _moved_by(robot: RobotModel, body: Int) -> Bool:
    # Whether a joint moves a point, (P, nb).
    moves = np.zeros((len(body), robot.n_bodies), dtype=np.bool_)
    for k, i in enumerate(body):
        if i >= 0:
            moves[k, list(robot.tree.paths[i])] = True
    return moves


def point_speed(
    robot: RobotModel, q: Float, dq: Float, body: int, local: Float
) -> tuple[Float, Float, Float]:
    """Speed of a point on a link, and its derivatives.

    With the columns J_k of the point's Jacobian and the axes w_k (0 for sliding joints) on the path to the link:
        v = sum J_k dq_k,    dv/dq_k = w_k x sum_{j >= k} J_j dq_j + (sum_{j < k} w_j dq_j) x J_k.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    q, dq : ndarray, shape (n_samples, n_joints)
        Positions and velocities of the joints.
    body : int
        Link of the point.
    local : ndarray, shape (3,), m
        The point in the link's joint frame.

    Returns
    -------
    speed : ndarray, shape (n_samples,), m/s
        Speed.
    by_q, by_dq : ndarray, shape (n_samples, n_joints)
        Derivatives with respect to q and dq.

    """
    R, p = placements(robot, q)
    rates = robot.tree_motion(q, dq, dq)[1]
    path = list(robot.tree.paths[body])
    x = R[:, body] @ local + p[:, body]
    axes = np.einsum("tiab,ib->tia", R[:, path], robot.axis[path])
    slides = robot.tree.prismatic[path][None, :, None]
    J = np.where(slides, axes, np.cross(axes, x[:, None] - p[:, path]))
    parts = J * rates[:, path, None]
    v = parts.sum(axis=1)
    speed = np.linalg.norm(v, axis=1)
    way = v / np.maximum(speed, 1e-12)[:, None]
    turning = np.where(slides, 0.0, axes)
    after = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
    spun = turning * rates[:, path, None]
    before = np.cumsum(spun, axis=1) - spun
    slope = np.cross(turning, after) + np.cross(before, J)
    gradient = np.zeros((2, len(q), robot.n_bodies))
    gradient[0][:, path] = np.einsum("tx,tkx->tk", way, slope)
    gradient[1][:, path] = np.einsum("tx,tkx->tk", way, J)
    return speed, gradient[0] @ robot.projection, gradient[1] @ robot.projection


# m: convex parts are compared exactly where their capsules come closer than the clearance plus this.
NEAR = 0.01
# A pair with less room than the clearance plus ROOM (m, the need of the smooth maximum) in every reference pose keeps
# ROOM_SHARE of its distance there instead.
ROOM, ROOM_SHARE = 0.005, 0.5
# Capsules are too coarse for pairs that they report as too close in more than a share OFTEN of POSES random poses.
POSES, OFTEN = 300, 0.5
# Random poses, in addition to zero and the middle, in which a pair must overlap to be left out: at zero alone some
# pairs overlap that can be apart.
DRAWN = 16
BASE = "base"


@dataclass(frozen=True, eq=False)
class Part:
    """A convex part of a link.

    link: its name.    body: the link that carries it, -1 = fixed parts.    capsule: encloses it.
    corners: (V, 3) points in the joint frame whose hull it is.
    box: frame (4, 4) and half sides (3,) of an obstacle.
    """

    link: str
    body: int
    capsule: Capsule
    corners: Float
    box: tuple[Float, Float] | None = None


@dataclass(frozen=True, eq=False)
class Nearest:
    """The closest parts of each pair, (T, G): distance, unit vector from b to a (T, G, 3), and their closest points."""

    distance: Float
    normal: Float
    a: Float
    b: Float


@dataclass(frozen=True, eq=False)
class CollisionModel:
    """Convex parts of a robot and its surroundings, and the pairs of links that must stay apart.

    Parameters
    ----------
    parts : tuple of Part
        Convex parts.
    links : tuple of tuple of str, length n_pairs
        Names of the two links of each pair.
    bodies : ndarray of int, shape (n_pairs, 2)
        Bodies that carry them.
    clearance : ndarray, shape (n_pairs,), m
        Distance that each pair must keep.
    pairs : ndarray of int, shape (n_part_pairs, 2)
        Pairs of parts.
    group : ndarray of int, shape (n_part_pairs,)
        Pair of links of each pair of parts.
    overlapping : tuple of str
        Pairs that are left out because they overlap in every reference pose.
    closer : tuple of str
        Pairs with a smaller clearance, since they are closer in every reference pose.
    coarse : tuple of str
        Pairs that are left out because only capsules are known, which are too close in most poses.
    exact : bool
        Whether convex hulls are compared where parts come close, which needs the package coal.
    shapes : RobotShapes, optional
        Shapes of the links.
    obstacles : tuple of Shape
        Obstacles.

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
        """Names of the pairs, "link - link", (n_pairs,)."""
        return tuple(f"{a} - {b}" for a, b in self.links)

    def distances(self, robot: RobotModel, q: Float, jacobian: bool = True) -> tuple[Float, Float]:
        """Distance of every pair of links, negative in collision.

        It is a lower bound where parts are farther apart than the clearance and NEAR.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        q : ndarray, shape (n_samples, n_joints), rad or m
            Positions of the joints.
        jacobian : bool
            Whether to compute the derivatives.

        Returns
        -------
        distance : ndarray, shape (n_samples, n_pairs), m
            Distances.
        J : ndarray, shape (n_samples, n_pairs, n_joints)
            Derivatives with respect to q; empty if not computed.

        """
        placed = placements(robot, q)
        near = self.nearest(placed, points=jacobian)
        if not jacobian:
            return near.distance, np.zeros((*near.distance.shape, 0))
        J = moved(robot, placed, self.bodies[:, 0], near.a) - moved(robot, placed, self.bodies[:, 1], near.b)
        return near.distance, np.einsum("tgx,tgxn->tgn", near.normal, J)

    def nearest(self, placed: tuple[Float, Float], points: bool = True, near: float | None = None) -> Nearest:
        """The nearest parts of every pair of links.

        Parameters
        ----------
        placed : tuple of ndarray
            Rotations (T, n_bodies, 3, 3) and origins (T, n_bodies, 3) of all links.
        points : bool
            Whether normals and closest points are those of the hulls too, not only the distances.
        near : float, m, optional
            Distance beyond the clearance from which a lower bound suffices; None = NEAR.

        Returns
        -------
        Nearest
            Distances, normals and closest points.

        """
        R, p = placed
        d, normal, a, b = self._bounds(R, p)
        if self.exact:
            limit = self.clearance[self.group] + (NEAR if near is None else near)
            self._compare_hulls(R, p, np.nonzero(d < limit), (d, normal, a, b) if points else (d,))
        T, G = len(R), len(self.links)
        best = np.empty((T, G), dtype=np.int64)
        for g in range(G):
            candidates = np.flatnonzero(self.group == g)
            best[:, g] = candidates[d[:, candidates].argmin(axis=1)]
        rows = np.arange(T)[:, None]
        return Nearest(d[rows, best], normal[rows, best], a[rows, best], b[rows, best])

    def _bounds(self, R: Float, p: Float) -> tuple[Float, Float, Float, Float]:
        # Lower bounds (T, K) from capsules, or from a ball around a capsule and an obstacle's box.
        ends = np.empty((2, len(R), len(self.parts), 3))
        for n, part in enumerate(self.parts):
            for end, x in zip(ends, (part.capsule.start, part.capsule.end), strict=True):
                end[:, n] = x if part.body < 0 else R[:, part.body] @ x + p[:, part.body]
        radius = np.array([part.capsule.radius for part in self.parts])
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        d, normal, s, t = segment_distance(ends[0][:, i], ends[1][:, i], ends[0][:, j], ends[1][:, j])
        a = ends[0][:, i] + s[..., None] * (ends[1] - ends[0])[:, i] - radius[i][:, None] * normal
        b = ends[0][:, j] + t[..., None] * (ends[1] - ends[0])[:, j] + radius[j][:, None] * normal
        d = d - radius[i] - radius[j]
        boxes = {n: part.box for n, part in enumerate(self.parts) if part.box is not None}
        for k in np.flatnonzero(np.isin(j, list(boxes))):
            frame, half = boxes[int(j[k])]
            x, y = ends[0][:, i[k]], ends[1][:, i[k]]
            middle, reach = 0.5 * (x + y), 0.5 * np.linalg.norm(y - x, axis=1) + radius[i[k]]
            out, normal[:, k] = _box_distance(middle, frame, half)
            d[:, k] = out - reach
            a[:, k] = middle - reach[:, None] * normal[:, k]
            b[:, k] = middle - out[:, None] * normal[:, k]
        return d, normal, a, b

    def _compare_hulls(self, R: Float, p: Float, close: tuple[Int, ...], into: tuple[Float, ...]) -> None:
        # Distances of the hulls at samples and pairs of parts `close`, with normals and points where `into` has them.
        coal, hulls, request, result = self._coal
        fixed = coal.Transform3s.Identity()
        bodies = [part.body for part in self.parts]
        pairs = self.pairs.tolist()
        sample, transforms = -1, [fixed] * len(bodies)
        for t, k in zip(*(indices.tolist() for indices in close), strict=True):
            if t != sample:
                # Most parts are close to several others at the same time.
                sample, moved_bodies = t, {-1: fixed}
            first, second = pairs[k]
            for part in (first, second):
                body = bodies[part]
                if body not in moved_bodies:
                    moved_bodies[body] = coal.Transform3s(R[t, body], p[t, body])
                transforms[part] = moved_bodies[body]
            result.clear()
            into[0][t, k] = coal.distance(
                hulls[first], transforms[first], hulls[second], transforms[second], request, result
            )
            if len(into) > 1:
                # coal's normal points from the first part to the second.
                into[1][t, k] = -result.normal
                into[2][t, k], into[3][t, k] = result.getNearestPoint1(), result.getNearestPoint2()

    @cached_property
    def _coal(self) -> tuple[Any, list[Any], Any, Any]:
        import coal

        hulls = []
        for part in self.parts:
            corners = coal.StdVec_Vec3s()
            for x in part.corners:
                corners.append(x)
            hulls.append(coal.Convex.convexHull(corners, True, "Qt"))
        request = coal.DistanceRequest()
        request.enable_signed_distance = True
        return coal, hulls, request, coal.DistanceResult()

    def solids(self) -> Solids:
        """The solids in the collision library coal; raises ImportError if it is not installed."""
        link_shapes = self.shapes.shapes if self.shapes is not None else ()
        pairs = [((a, int(i)), (b, int(j))) for (a, b), (i, j) in zip(self.links, self.bodies, strict=True)]
        return Solids.of((*link_shapes, *self.obstacles), pairs)

    def __getstate__(self) -> dict[str, Any]:
        """State for other processes, without coal's objects."""
        return {name: value for name, value in self.__dict__.items() if name != "_coal"}


def has_coal() -> bool:
    """Whether the collision library coal is installed."""
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
    """Build the model of all pairs of links, and of links and obstacles, that must stay apart.

    Pairs are left out if both links belong to one body or to neighbouring ones, or overlap in every reference pose
    (see `reference_poses`); so are obstacles with links that no joint moves.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    shapes : RobotShapes
        Shapes of its links.
    clearance : float, m
        Distance that pairs must keep.
    obstacles : sequence of Shape
        Obstacles.
    exact : bool, optional
        Whether to compare close parts by coal. Without it: if coal is installed and the shapes are the robot's own;
        for derived capsules distances are exact anyway.

    Returns
    -------
    CollisionModel
        The model.

    Raises
    ------
    UsageError
        For a clearance below zero.

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
        (first, other)
        for k, first in enumerate(links)
        for other in links[k + 1 :]
        if not _neighbours(robot, first[1], other[1])
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
    """Poses (2 + DRAWN, n) that show which links always overlap: zero within limits, the middle, and random ones."""
    low = np.where(np.isfinite(robot.limits.lower), robot.limits.lower, -np.pi)
    high = np.where(np.isfinite(robot.limits.upper), robot.limits.upper, np.pi)
    drawn = np.random.default_rng(0).uniform(low, high, (DRAWN, robot.n))
    return np.concatenate([[np.clip(np.zeros(robot.n), low, high), 0.5 * (low + high)], drawn])


def _with_rules(robot: RobotModel, whole: CollisionModel, clearance: float, between: int) -> CollisionModel:
    # between: number of pairs of links, which come first; pairs with obstacles have no exceptions.
    room = whole.distances(robot, reference_poses(robot), jacobian=False)[0].max(axis=0)
    apart = whole.shapes is not None and whole.exact
    if apart:
        room = _exact_room(robot, whole, room, clearance)
    of_links = np.arange(len(whole.links)) < between
    keep = np.where(of_links & (room < clearance + ROOM), ROOM_SHARE * np.maximum(room, 0.0), clearance)
    overlap = of_links & (room <= 0)
    coarse = np.zeros(len(of_links), dtype=np.bool_)
    if not whole.exact:
        keep = np.full(len(of_links), clearance)
        rng = np.random.default_rng(0)
        low, high = (np.where(np.isfinite(x), x, y) for x, y in (
            (robot.limits.lower, -np.pi), (robot.limits.upper, np.pi)))  # fmt: skip
        free = whole.distances(robot, rng.uniform(low, high, (POSES, robot.n)), jacobian=False)[0]
        coarse = of_links & ((free < clearance).mean(axis=0) > OFTEN)
    if of_links.any() and (coarse | overlap)[of_links].all() and coarse.any():
        raise UsageError(
            "capsules",
            found=f"capsules so thick that every pair comes closer than {clearance:g} m in most poses",
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
    # Hulls are larger than the solids, so close pairs are measured on the solids.
    solids, measured = whole.solids(), np.array(room)
    placed = placements(robot, reference_poses(robot))
    for g in np.flatnonzero(room < clearance + NEAR):
        measured[g] = max(solids.distance(placed, t, int(g)) for t in range(len(placed[0])))
    return measured


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
        pairs=np.array([pair for *_, part_pairs in groups for pair in part_pairs], dtype=np.int64).reshape(
            -1, 2
        ),
        group=np.repeat(np.arange(len(groups)), [len(part_pairs) for *_, part_pairs in groups]),
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
