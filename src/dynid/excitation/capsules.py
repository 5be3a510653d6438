"""Capsules round the links and the distance between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.excitation.kinematics import points
from dynid.robot.model import RobotModel


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
    """Distance between segments and where it is met.

    a0, a1, b0, b1: (..., 3).    Returns distance (...), unit vector from b to a (..., 3), and the places s, t in [0, 1]
    along a and b. The least over the interior and the four ends against the other segment: exact, parallel or not.
    """
    u, v, w = a1 - a0, b1 - b0, a0 - b0
    uu, vv, uv = _dot(u, u), _dot(v, v), _dot(u, v)
    uw, vw = _dot(u, w), _dot(v, w)
    det = uu * vv - uv**2
    inner = np.clip(_over(uv * vw - vv * uw, det), 0.0, 1.0)
    zero, one = np.zeros_like(uu), np.ones_like(uu)
    tries = []
    for s in (inner, zero, one):
        tries.append((s, np.clip(_over(vw + s * uv, vv), 0.0, 1.0)))
    for t in (zero, one):
        tries.append((np.clip(_over(t * uv - uw, uu), 0.0, 1.0), t))
    S, T = np.stack([s for s, _ in tries]), np.stack([t for _, t in tries])
    gap = w + S[..., None] * u - T[..., None] * v
    best = np.argmin(_dot(gap, gap), axis=0)[None]
    s, t = np.take_along_axis(S, best, 0)[0], np.take_along_axis(T, best, 0)[0]
    between = w + s[..., None] * u - t[..., None] * v
    distance = np.sqrt(_dot(between, between))
    return distance, between / np.maximum(distance, 1e-12)[..., None], s, t


@dataclass(frozen=True, eq=False)
class Capsules:
    """Capsules and the pairs of them that must stay apart.

    pairs: indices into `capsules`.    left_out: pairs that are not compared, as they touch in most poses.
    """

    capsules: tuple[Capsule, ...]
    pairs: tuple[tuple[int, int], ...]
    left_out: tuple[tuple[int, int], ...] = ()

    def distances(self, robot: RobotModel, q: Float, jacobian: bool = True) -> tuple[Float, Float]:
        """Free distance of every pair (T, K), negative in collision, and its derivatives (T, K, n)."""
        body = np.array([c.body for c in self.capsules for _ in range(2)])
        local = np.array([x for c in self.capsules for x in (c.start, c.end)])
        x, J = points(robot, q, body, local, jacobian)
        i, j = (np.array([pair[k] for pair in self.pairs], dtype=np.int64) for k in range(2))
        d, normal, s, t = segment_distance(x[:, 2 * i], x[:, 2 * i + 1], x[:, 2 * j], x[:, 2 * j + 1])
        radius = np.array([c.radius for c in self.capsules])
        free = d - radius[i] - radius[j]
        if not jacobian:
            return free, np.zeros((*free.shape, 0))
        s, t = s[..., None, None], t[..., None, None]
        Jd = (1 - s) * J[:, 2 * i] + s * J[:, 2 * i + 1] - (1 - t) * J[:, 2 * j] - t * J[:, 2 * j + 1]
        return free, np.einsum("tkx,tkxn->tkn", normal, Jd)

    def names(self, robot: RobotModel) -> tuple[str, ...]:
        """The pairs by the names of their bodies, (K,)."""
        return self._named(robot, self.pairs)

    def left_out_names(self, robot: RobotModel) -> tuple[str, ...]:
        """The pairs of bodies of which some part is not compared, each once."""
        return tuple(dict.fromkeys(self._named(robot, self.left_out)))

    def _named(self, robot: RobotModel, pairs: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
        label = [robot.body_names[c.body] if c.body >= 0 else "base" for c in self.capsules]
        return tuple(f"{label[i]} - {label[j]}" for i, j in pairs)


def link_capsules(
    robot: RobotModel, radius: npt.ArrayLike, tool: Float | None = None, clearance: float = 0.0
) -> Capsules:
    """A capsule from each joint to the next, and all pairs that are not always in touch.

    radius: m, one for all bodies or (nb,).    tool: (3,) point of the last body up to which its capsule reaches, None =
    its own origin.    clearance: m that they are to keep.    Raises UsageError for another number of radii.
    """
    wide = np.asarray(radius, dtype=np.float64)
    if wide.size not in (1, robot.n_bodies):
        raise UsageError("capsule", found=f"{wide.size} radii", expected=f"1 or {robot.n_bodies}")
    wide = np.broadcast_to(wide.ravel(), (robot.n_bodies,))
    made = []
    for i in range(robot.n_bodies):
        children = np.flatnonzero(robot.parent == i)
        ends = [robot.T_parent_joint[c, :3, 3] for c in children] or [np.zeros(3) if tool is None else tool]
        made += [Capsule(i, np.zeros(3), end, float(wide[i])) for end in ends]
    return keep_apart(robot, made, clearance)


def keep_apart(
    robot: RobotModel, capsules: Sequence[Capsule], clearance: float = 0.0, states: int = 300
) -> Capsules:
    """All pairs of capsules that are to stay apart.

    Neighbours in the tree never count. Pairs closer than the clearance (m) in more than half of `states` random poses
    are left out, as capsules are too coarse to say anything of them.
    Raises UsageError if that leaves none.
    """
    made, parent = tuple(capsules), robot.parent

    def above(a: int) -> int:
        return int(parent[a]) if a >= 0 else -2

    def near(a: int, b: int) -> bool:
        return a == b or above(a) == b or above(b) == a or above(a) == above(b)

    pairs = tuple(
        (i, j)
        for i in range(len(made))
        for j in range(i + 1, len(made))
        if not near(made[i].body, made[j].body)
    )
    if not pairs:
        return Capsules(made, ())
    rng = np.random.default_rng(0)
    low = np.where(np.isfinite(robot.limits.lower), robot.limits.lower, -np.pi)
    high = np.where(np.isfinite(robot.limits.upper), robot.limits.upper, np.pi)
    free, _ = Capsules(made, pairs).distances(robot, rng.uniform(low, high, (states, robot.n)), False)
    often = (free < clearance).mean(axis=0) > 0.5
    kept = tuple(pair for pair, bad in zip(pairs, often, strict=True) if not bad)
    if not kept:
        raise UsageError(
            "capsules",
            found=f"capsules of which every pair comes closer than {clearance:g} m in most poses",
            expected="pairs that can stay apart",
            do="give smaller radii or clearance, or leave the check out",
        )
    return Capsules(made, kept, tuple(pair for pair in pairs if pair not in kept))


def _dot(a: Float, b: Float) -> Float:
    return np.asarray((a * b).sum(axis=-1))


def _over(a: Float, b: Float) -> Float:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 1e-14))
