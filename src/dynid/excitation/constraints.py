"""Limits as smooth functions of the coefficients of a motion, and exact margins on a dense grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from dynid.base import Float, Int, dataclass
from dynid.excitation.collision import CollisionModel, has_coal, moved, placements, point_speed
from dynid.excitation.gradient import Layout, MotionGradient, Whole, stretches
from dynid.excitation.limits import Bounds, MotionLimits, TorqueSpread, Workspace
from dynid.excitation.shapes import Link, Solids
from dynid.robot import RobotModel
from dynid.signals import Samples, samples_at
from dynid.terms import Terms
from dynid.trajectories import Trajectory

# Sharpness of the smooth maximum: it exceeds the maximum by at most log(n) / SHARPNESS; higher values slow down the
# search.
SHARPNESS = 100.0
# Weight of a sample relative to the largest below which it is skipped.
NEGLIGIBLE = 1e-7
# m: distances are divided by these before the smooth maximum, which exceeds the maximum by up to 0.1 of the length.
# That of pairs is short, since next but one links of an arm can be 18 mm apart all the time.
LENGTH, PAIR_LENGTH = 0.2, 0.05
# m: distances of a design exceed the limit by this, so that the check between its samples passes.
SPARE = 1e-3
COLLISION = "self-collision"
# A motion is first checked at every SOME-th sample, which finds most violations sooner.
SOME = 8
_DERIVATIVES = ("position", "velocity", "acceleration", "jerk")


@dataclass(frozen=True)
class Margin:
    """Distance of a motion from one limit; a margin below 0 violates it.

    what: "velocity", "torque", "workspace", ...    where: joint, point or pair of links.
    worst: value closest to the limit.    bound: the limit.    time: s.
    margin: relative to the limit (for positions to half of the range), for distances in m.
    """

    what: str
    where: str
    worst: float
    bound: float
    margin: float
    time: float

    def __str__(self) -> str:
        size = (
            f"{self.margin:.3f} m"
            if self.what in ("workspace", COLLISION)
            else f"{round(100 * self.margin, 1) + 0.0:.1f} %"
        )
        reached = f"{self.worst:.3g}, limit {self.bound:.3g} at {self.time:.2f} s"
        return f"{self.what} of {self.where}: {reached}, {size} left"


def softmax(g: Float) -> tuple[float, Float]:
    """Smooth upper bound of the largest value, log(sum exp(SHARPNESS g)) / SHARPNESS, and its derivatives."""
    top = g.max()
    e = np.exp(SHARPNESS * (g - top))
    total = e.sum()
    return float(top + np.log(total) / SHARPNESS), e / total


@dataclass(frozen=True, eq=False)
class SmoothBounds:
    """The limits of a family of motions on a grid as a few smooth functions, each of which must be at most 0.

    values: the basis and three derivatives on the grid, (T, m) each.
    """

    robot: RobotModel
    terms: Terms
    bounds: Bounds
    values: tuple[Float, Float, Float, Float]

    @cached_property
    def chain(self) -> MotionGradient:
        """Derivatives through the model."""
        return MotionGradient(self.robot, self.terms)

    def evaluate(self, X: Float) -> tuple[Float, Float]:
        """Values (c,) and derivatives (c, m, n) for coefficients (m, n)."""
        motion = [B @ X for B in self.values]
        g, dg = self._joints(motion, X)
        for more, slope in (
            self._torque(motion, X),
            self._workspace(motion[0], X),
            self._collision(motion[0], X),
            self._tip(motion, X),
        ):
            g += more
            dg += slope
        return np.array(g), np.stack(dg)

    def _joints(self, motion: list[Float], X: Float) -> tuple[list[float], list[Float]]:
        limits = self.bounds.limits
        g: list[float] = []
        dg: list[Float] = []
        for order, name in enumerate(_DERIVATIVES):
            for j in range(X.shape[1]):
                if order == 0:
                    centre, half = (
                        0.5 * (limits.lower[j] + limits.upper[j]),
                        0.5 * (limits.upper[j] - limits.lower[j]),
                    )
                else:
                    centre, half = 0.0, getattr(limits, name)[j]
                if not np.isfinite(half):
                    continue
                x = (motion[order][:, j] - centre) / half
                value, share = softmax(np.stack([x, -x]) - 1.0)
                slope = np.zeros_like(X)
                slope[:, j] = self.values[order].T @ (share[0] - share[1]) / half
                g.append(value)
                dg.append(slope)
        return g, dg

    def _torque(self, motion: list[Float], X: Float) -> tuple[list[float], list[Float]]:
        bounds = self.bounds
        bound = bounds.limits.torque
        if bounds.theta is None or not np.isfinite(bound).any():
            return [], []
        tau, J = self.chain.of_torque(motion[0], motion[1], motion[2], bounds.theta)
        limited = np.flatnonzero(np.isfinite(bound))
        wider = None if bounds.spread is None else _TorqueReserve.of(self, bounds.spread, motion)
        g, dg, shares = [], [], []
        for j in limited:
            room = bound[j] / (1.0 + bounds.uncertainty)
            x, kept = tau[:, j] / room, 0.0 if wider is None else wider.kept[j] / bound[j]
            value, share = softmax(np.stack([x, -x]) + kept - 1.0)
            w = (share[0] - share[1]) / room
            g.append(value)
            dg.append(sum(self.values[k].T @ (w[:, None] * J[k, :, :, j]) for k in range(3)))
            shares.append(share.sum(axis=0) / bound[j])
        if wider is not None:
            dg = [a + b for a, b in zip(dg, wider.slopes(limited, shares), strict=True)]
        return g, dg

    def _workspace(self, q: Float, X: Float) -> tuple[list[float], list[Float]]:
        space = self.bounds.workspace
        if space is None or not space.names:
            return [], []
        placed = placements(self.robot, q)
        reach, where = space.reach(placed)
        g, dg = [], []
        for h, (normal, offset) in enumerate(zip(space.normal, space.offset, strict=True)):
            J = moved(self.robot, placed, space.bodies, where[:, :, h])
            value, share = softmax((reach[:, :, h] - offset + self._kept_clearance) / LENGTH)
            slope = np.einsum("tb,tbxn,x->tn", share, J, normal) / LENGTH
            g.append(value)
            dg.append(self.values[0].T @ slope)
        return g, dg

    def _tip(self, motion: list[Float], X: Float) -> tuple[list[float], list[Float]]:
        bounds = self.bounds
        if not np.isfinite(bounds.tip_speed):
            return [], []
        last = self.robot.n_bodies - 1
        speed, by_q, by_dq = point_speed(self.robot, motion[0], motion[1], last, bounds.tip_or_origin)
        value, share = softmax(speed / bounds.tip_speed - 1.0)
        share = share[:, None] / bounds.tip_speed
        return [value], [self.values[0].T @ (share * by_q) + self.values[1].T @ (share * by_dq)]

    @property
    def _kept_clearance(self) -> float:
        return self.bounds.clearance + (SPARE if self.bounds.clearance > 0 else 0.0)

    def _collision(self, q: Float, X: Float) -> tuple[list[float], list[Float]]:
        collision = self.bounds.collision
        if collision is None or not collision.links:
            return [], []
        free, J = collision.distances(self.robot, q)
        value, share = softmax((collision.clearance + SPARE - free) / PAIR_LENGTH)
        # The value has the sharpness of the short length and the size of the other functions, since the search crosses
        # limits on its way.
        slope = self.values[0].T @ (-np.einsum("tk,tkn->tn", share, J) / LENGTH)
        return [value * PAIR_LENGTH / LENGTH], [slope]


@dataclass(frozen=True, eq=False)
class _TorqueReserve:
    # Torque reserve for the uncertainty of the torque along a motion: per joint z sigma (T,), with derivatives (w, T)
    # by the lines of the regressor.
    smooth: SmoothBounds
    motion: list[Float]
    layout: Layout
    kept: list[Float]
    by_line: list[Float]

    @staticmethod
    def of(smooth: SmoothBounds, spread: TorqueSpread, motion: list[Float]) -> _TorqueReserve:
        samples = Samples.from_motion(motion[0], motion[1], motion[2])
        panels = spread.panels(smooth.robot, smooth.terms, samples)
        pairs = enumerate(zip(panels.columns, panels.values, strict=True))
        deviations = [spread.slope(j, *pair) for j, pair in pairs]
        kept, by_line = ([spread.sigmas * x for x in part] for part in zip(*deviations, strict=True))
        return _TorqueReserve(smooth, motion, smooth.chain.layout(panels.columns), kept, by_line)

    def slopes(self, joints: Int, shares: list[Float]) -> Float:
        # Derivatives (c, m, n) of the sums over time of some joints' values times shares (T,).
        motion, layout = self.motion, self.layout
        weights = np.zeros((len(joints), layout.ends[-1], len(motion[0])))
        for rows, j, share in zip(weights, joints, shares, strict=True):
            # Nearly all weight is on few samples, those close to the limit.
            at = np.flatnonzero(share > NEGLIGIBLE * share.max())
            rows[layout.spans[j], at] = share[at] * self.by_line[j][:, at]
        gradients = self.smooth.chain.of_contractions(motion[0], motion[1], motion[2], layout, weights)
        return np.asarray(sum(self.smooth.values[k].T @ gradients[:, k] for k in range(3)))


def margins(
    robot: RobotModel,
    terms: Terms,
    bounds: Bounds,
    t: Float,
    q: Float,
    dq: Float,
    ddq: Float,
    jerk: Float | None = None,
) -> tuple[Margin, ...]:
    """Margins of all limits along a motion, the smallest per kind and joint.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        Terms of the torque model.
    bounds : Bounds
        The limits.
    t : ndarray, shape (n_samples,), s
        Times.
    q, dq, ddq, jerk : ndarray, shape (n_samples, n_joints)
        The motion; jerk is optional.

    Returns
    -------
    tuple of Margin
        The margins.

    """
    return tuple(margin for part in _margins(robot, terms, bounds, t, q, dq, ddq, jerk) for margin in part)


def violation(
    robot: RobotModel, terms: Terms, bounds: Bounds, t: Float, q: Float, dq: Float, ddq: Float, jerk: Float
) -> Margin | None:
    """A limit that a motion violates, the first one met; None if it meets all. Parameters as for `margins`."""
    # A motion mostly violates a limit at several samples.
    for part in (slice(None, None, SOME), slice(None)):
        motion = t[part], q[part], dq[part], ddq[part], jerk[part]
        # A lower bound beyond the clearance suffices to see that links stay apart.
        for tightest in _margins(robot, terms, bounds, *motion, near=0.0):
            for margin in tightest:
                if not margin.margin >= 0.0:
                    return margin
    return None


def with_whole_torque(
    robot: RobotModel, terms: Terms, bounds: Bounds, trajectory: Trajectory, model_margins: tuple[Margin, ...]
) -> tuple[Margin, ...]:
    """Replace the torque margins of a motion by those of the complete model, at `gradient.RATE`.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        Terms of the design.
    bounds : Bounds
        The limits.
    trajectory : Trajectory
        The motion.
    model_margins : tuple of Margin
        Margins with the model of the design.

    Returns
    -------
    tuple of Margin
        Margins in which torque contains the terms that the search omitted.

    """
    whole, limits = Whole(terms), bounds.limits
    if not whole.checked or bounds.theta is None:
        return model_margins
    parts = []
    for samples, inner in stretches(trajectory):
        if (predicted := bounds.torque(robot, whole.model, samples)) is not None:
            tau, kept = predicted
            reach = np.copysign(np.abs(tau) + kept, tau)[inner]
            parts.append(
                _magnitude_margins("torque", robot.joint_names, reach, limits.torque, samples.t[inner])
            )
    worst = (min(same, key=lambda m: m.margin) for same in zip(*parts, strict=True))
    by_joint = {margin.where: margin for margin in worst}
    return tuple(by_joint.get(m.where, m) if m.what == "torque" else m for m in model_margins)


def _margins(
    robot: RobotModel,
    terms: Terms,
    bounds: Bounds,
    t: Float,
    q: Float,
    dq: Float,
    ddq: Float,
    jerk: Float | None,
    near: float | None = None,
) -> Iterator[list[Margin]]:
    # The cheapest limits first. near: see `CollisionModel.nearest`.
    limits = bounds.limits
    names = robot.joint_names
    yield _position_margins(names, limits, q, t)
    for quantity, values in (("velocity", dq), ("acceleration", ddq), ("jerk", jerk)):
        if values is not None:
            yield _magnitude_margins(quantity, names, values, getattr(limits, quantity), t)
    if (predicted := bounds.torque(robot, terms, samples_at(t, q, dq, ddq))) is not None:
        tau, kept = predicted
        reach = np.abs(tau) + kept
        yield _magnitude_margins("torque", names, np.copysign(reach, tau), limits.torque, t)
    if np.isfinite(bounds.tip_speed):
        speed = point_speed(robot, q, dq, robot.n_bodies - 1, bounds.tip_or_origin)[0]
        yield _magnitude_margins("speed", ("the tool",), speed[:, None], np.array([bounds.tip_speed]), t)
    placed = placements(robot, q)
    space = bounds.workspace
    if space is not None and space.names:
        yield _workspace_margins(robot, space, bounds.clearance, placed, t)
    collision = bounds.collision
    if collision is not None and collision.links:
        yield _distance_margins(collision, placed, t, near)


def _position_margins(names: tuple[str, ...], limits: MotionLimits, q: Float, t: Float) -> list[Margin]:
    tightest = []
    for j, name in enumerate(names):
        half = 0.5 * (limits.upper[j] - limits.lower[j])
        room = np.minimum(q[:, j] - limits.lower[j], limits.upper[j] - q[:, j])
        i = int(room.argmin())
        bound = limits.lower[j] if q[i, j] - limits.lower[j] < limits.upper[j] - q[i, j] else limits.upper[j]
        tightest.append(
            Margin("position", name, float(q[i, j]), float(bound), float(room[i] / half), float(t[i]))
        )
    return tightest


def _workspace_margins(
    robot: RobotModel, space: Workspace, clearance: float, placed: tuple[Float, Float], t: Float
) -> list[Margin]:
    reach, _ = space.reach(placed, points=False)
    tightest = []
    for h, name in enumerate(space.names):
        i, b = divmod(int(reach[:, :, h].argmax()), reach.shape[1])
        worst, bound = float(reach[i, b, h]), float(space.offset[h])
        where = f"{robot.body_names[space.bodies[b]]} at the {name}"
        tightest.append(Margin("workspace", where, worst, bound, bound - worst - clearance, float(t[i])))
    return tightest


def _distance_margins(
    collision: CollisionModel, placed: tuple[Float, Float], t: Float, near: float | None
) -> list[Margin]:
    free = collision.nearest(placed, points=False, near=near).distance
    tightest = []
    for k, name in enumerate(collision.names):
        i = int(free[:, k].argmin())
        worst, kept = float(free[i, k]), float(collision.clearance[k])
        tightest.append(Margin(COLLISION, name, worst, kept, worst - kept, float(t[i])))
    return tightest


def room_at_rest(robot: RobotModel, terms: Terms, bounds: Bounds, q: Float) -> Float:
    """Smallest margin of all limits for poses at rest.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        Terms of the torque model.
    bounds : Bounds
        The limits.
    q : ndarray, shape (n_poses, n_joints), rad or m
        Poses.

    Returns
    -------
    ndarray, shape (n_poses,)
        Margins, below 0 where a limit is violated.

    """
    limits = bounds.limits
    half = 0.5 * (limits.upper - limits.lower)
    room = [(np.minimum(q - limits.lower, limits.upper - q) / half).min(axis=1)]
    zero = np.zeros_like(q)
    if (predicted := bounds.torque(robot, terms, Samples.from_motion(q, zero, zero))) is not None:
        tau, kept = predicted
        reach = np.abs(tau) + kept
        room.append((1.0 - reach / limits.torque).min(axis=1))
    placed = placements(robot, q)
    space = bounds.workspace
    if space is not None and space.names:
        reach, _ = space.reach(placed)
        room.append((space.offset - reach).min(axis=(1, 2)) - bounds.clearance)
    collision = bounds.collision
    if collision is not None and collision.links:
        room.append((collision.nearest(placed, points=False).distance - collision.clearance).min(axis=1))
    return np.asarray(np.min(room, axis=0))


def _magnitude_margins(
    quantity: str, names: tuple[str, ...], values: Float, limit: Float, t: Float
) -> list[Margin]:
    tightest = []
    for j, name in enumerate(names):
        if np.isfinite(limit[j]):
            i = int(np.abs(values[:, j]).argmax())
            worst = float(values[i, j])
            tightest.append(
                Margin(quantity, name, worst, float(limit[j]), float(1 - abs(worst) / limit[j]), float(t[i]))
            )
    return tightest


# Independent check of a motion: coal's distances between the solids themselves, at 1 kHz.

# Hz: rate of the check; libfranka and KUKA FRI command at this rate.
RATE = 1000.0
# m: accuracy of coal's distances; a motion may violate the clearance by this.
RESOLUTION = 1e-6


@dataclass(frozen=True)
class Least:
    """Smallest distance of a pair along a motion.    bound: required distance, m.    time: s."""

    pair: str
    distance: float
    bound: float
    time: float

    @property
    def broken(self) -> bool:
        """Whether the pair comes closer than allowed."""
        return self.distance < self.bound - RESOLUTION

    def __str__(self) -> str:
        return f"{self.pair}: {self.distance:.4f} m apart at {self.time:.3f} s, at least {self.bound:.4f} m required"


@dataclass(frozen=True)
class Verified:
    """Result of the independent check.    library: its name.    rate: Hz.    least: of every pair, smallest first."""

    library: str
    rate: float
    least: tuple[Least, ...]

    @property
    def broken(self) -> Least | None:
        """The pair that violates its limit most; None if all meet theirs."""
        worst = min(self.least, key=lambda entry: entry.distance - entry.bound, default=None)
        return worst if worst is not None and worst.broken else None

    @property
    def nearest(self) -> Least | None:
        """The pair with the smallest distance."""
        return min(self.least, key=lambda entry: entry.distance, default=None)


def verified(
    robot: RobotModel, bounds: Bounds, trajectory: Trajectory, rate: float = RATE
) -> Verified | None:
    """Verify the distances of all pairs, obstacles and planes along a motion with coal.

    Between two samples no point of a link moves farther than the sum over joints of the angle times its largest arm.
    Samples in which a pair is farther apart than its limit by more than that are skipped.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    bounds : Bounds
        The limits.
    trajectory : Trajectory
        The motion.
    rate : float, Hz
        Rate of the check.

    Returns
    -------
    Verified or None
        The smallest distances; None if the limits contain no shapes, or coal is not installed.

    """
    model = bounds.collision
    if model is None or model.shapes is None or not has_coal():
        return None
    import coal

    solids = model.solids()
    t = np.arange(int(np.floor(trajectory.duration * rate)) + 1) / rate
    t = np.append(t, trajectory.duration) if t[-1] < trajectory.duration else t
    q = trajectory.motion(t)[0]
    placed, travel = placements(robot, q), _travel(robot, q)
    least_distances = []
    for k, (name, pair) in enumerate(zip(model.names, solids.pairs, strict=True)):
        moves = _joints_between(robot, pair[0][1], pair[1][1])
        way = travel[:, moves] @ _arms(robot, model, moves, pair)
        bound = float(model.clearance[k])
        at, least = _least_distance(partial(_pair_distance, solids, placed, k), way, bound)
        least_distances.append(Least(name, least, bound, float(t[at])))
    if bounds.workspace is not None and bounds.workspace.whole_links:
        for name, link, wall in _walls(bounds.workspace, solids):
            moves = _joints_between(robot, -1, link[1])
            way = travel[:, moves] @ _arms(robot, model, moves, (link,))
            height = partial(_height, solids, placed, link, wall)
            at, least = _least_distance(height, way, bounds.clearance)
            least_distances.append(Least(name, least, bounds.clearance, float(t[at])))
    return Verified(
        f"coal {coal.__version__}", rate, tuple(sorted(least_distances, key=lambda entry: entry.distance))
    )


def _pair_distance(solids: Solids, placed: tuple[Float, Float], pair: int, t: int) -> float:
    return solids.distance(placed, t, pair)


def _height(solids: Solids, placed: tuple[Float, Float], link: Link, wall: tuple[Any, Any], t: int) -> float:
    return solids.height(link, wall, placed, t)


def _least_distance(distance: Callable[[int], float], way: Float, bound: float) -> tuple[int, float]:
    # way never decreases, so a distance d at sample i is at least d - (way[k] - way[i]) at a later sample k.
    i, best, least = 0, 0, np.inf
    while i < len(way):
        d = distance(i)
        if d < least:
            best, least = i, d
        if d < bound:
            i += 1
            continue
        i = max(i + 1, int(np.searchsorted(way, way[i] + (d - bound), side="right")))
    return best, least


def _walls(space: Workspace, solids: Solids) -> list[tuple[str, Link, tuple[Any, Any]]]:
    walls = []
    bodies = {int(body) for body in space.bodies}
    for h, name in enumerate(space.names):
        # coal's half-space is the forbidden side, n x >= d.
        half = solids.coal.Halfspace(-space.normal[h], -float(space.offset[h]))
        wall = half, solids.coal.Transform3s.Identity()
        walls += [
            (f"{link[0]} - {name}", link, wall)
            for link in solids.links
            if link[1] in bodies and space.applies(link[1], h)
        ]
    return walls


def _travel(robot: RobotModel, q: Float) -> Float:
    # Path length (T, nb) of every tree joint up to each sample.
    x = robot.tree_motion(q, q, q)[0]
    return np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(np.abs(np.diff(x, axis=0)), axis=0)])


def _joints_between(robot: RobotModel, a: int, b: int) -> list[int]:
    # Joints that move one link relative to the other.
    paths = [set(robot.tree.paths[i]) if i >= 0 else set() for i in (a, b)]
    return sorted(paths[0] ^ paths[1])


def _arms(
    robot: RobotModel, model: CollisionModel, moves: Sequence[int], links: Sequence[tuple[str, int]]
) -> Float:
    # Largest distance from each joint's axis of the links that it moves; 1 for sliding joints.
    arms = []
    for j in moves:
        reach = 0.0
        for shape in model.shapes.shapes if model.shapes is not None else ():
            if (
                (shape.link, shape.body) not in links
                or shape.body < 0
                or j not in robot.tree.paths[shape.body]
            ):
                continue
            path = list(robot.tree.paths[shape.body])
            below = path[path.index(j) + 1 :]
            slides = [_largest_position(robot, i) for i in below if robot.tree.prismatic[i]]
            way = float(np.linalg.norm(robot.T_parent_joint[below, :3, 3], axis=1).sum()) + sum(slides)
            reach = max(reach, way + float(np.linalg.norm(shape.corners(), axis=1).max()))
        arms.append(1.0 if robot.tree.prismatic[j] else reach)
    return np.array(arms)


def _largest_position(robot: RobotModel, joint: int) -> float:
    row, offset = robot.projection[joint], robot.projection_offset[joint]
    ends = [row @ limit + offset for limit in (robot.limits.lower, robot.limits.upper)]
    size = float(np.max(np.abs(ends)))
    return size if np.isfinite(size) else 1e3
