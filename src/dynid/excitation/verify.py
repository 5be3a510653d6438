"""A motion checked anew by an independent library: coal's distances between the solids themselves, at 1 kHz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.excitation.collision import CollisionModel, has_coal
from dynid.excitation.kinematics import placements
from dynid.excitation.limits import Bounds, Workspace
from dynid.excitation.solids import Link, Solids
from dynid.robot.model import RobotModel
from dynid.trajectories.trajectory import Trajectory

RATE = 1000.0
# Distances are the library's to so many metres; a motion that keeps the clearance but for this keeps it.
RESOLUTION = 1e-6


@dataclass(frozen=True)
class Least:
    """The least distance of a pair along a motion.    bound: m to be kept.    time: s."""

    pair: str
    distance: float
    bound: float
    time: float

    @property
    def broken(self) -> bool:
        """Whether the pair comes closer than it may."""
        return self.distance < self.bound - RESOLUTION

    def __str__(self) -> str:
        return f"{self.pair}: {self.distance:.4f} m at {self.time:.3f} s, {self.bound:.4f} m to be kept"


@dataclass(frozen=True)
class Verified:
    """What the check found.    library: that made it.    rate: Hz.    least: of every pair, nearest first."""

    library: str
    rate: float
    least: tuple[Least, ...]

    @property
    def broken(self) -> Least | None:
        """The pair that comes farthest below its bound; None where all keep theirs."""
        worst = min(self.least, key=lambda one: one.distance - one.bound, default=None)
        return worst if worst is not None and worst.broken else None

    @property
    def nearest(self) -> Least | None:
        """The pair with the least distance."""
        return min(self.least, key=lambda one: one.distance, default=None)


def verified(
    robot: RobotModel, bounds: Bounds, trajectory: Trajectory, rate: float = RATE
) -> Verified | None:
    """The least distances of all pairs, obstacles and planes along a motion, at every sample.

    Between two samples no point of a body moves farther than the sum over joints of the angle turned and its greatest
    arm; samples in which a pair is by that farther apart than its bound are not measured.
    None where the bounds have no shapes, or coal is not installed.
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
    found = []
    for k, (name, pair) in enumerate(zip(model.names, solids.pairs, strict=True)):
        moves = _between(robot, pair[0][1], pair[1][1])
        way = travel[:, moves] @ _arms(robot, model, moves, pair)
        bound = float(model.clearance[k])
        at, least = _least(partial(_pair_distance, solids, placed, k), way, bound)
        found.append(Least(name, least, bound, float(t[at])))
    if bounds.workspace is not None and bounds.workspace.whole_links:
        for name, link, wall in _walls(bounds.workspace, solids):
            moves = _between(robot, -1, link[1])
            way = travel[:, moves] @ _arms(robot, model, moves, (link,))
            height = partial(_height, solids, placed, link, wall)
            at, least = _least(height, way, bounds.clearance)
            found.append(Least(name, least, bounds.clearance, float(t[at])))
    return Verified(f"coal {coal.__version__}", rate, tuple(sorted(found, key=lambda one: one.distance)))


def _pair_distance(solids: Solids, placed: tuple[Float, Float], pair: int, t: int) -> float:
    return solids.distance(placed, t, pair)


def _height(solids: Solids, placed: tuple[Float, Float], link: Link, wall: tuple[Any, Any], t: int) -> float:
    return solids.height(link, wall, placed, t)


def _least(distance: Callable[[int], float], way: Float, bound: float) -> tuple[int, float]:
    # The way is a sum that does not fall: a distance d at sample i holds d - (way[k] - way[i]) at a later sample k.
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
    found = []
    bodies = {int(body) for body in space.bodies}
    for h, name in enumerate(space.names):
        # What is inside the library's half-space, n x <= d, is forbidden: the other side of ours.
        half = solids.coal.Halfspace(-space.normal[h], -float(space.offset[h]))
        wall = half, solids.coal.Transform3s.Identity()
        found += [
            (f"{link[0]} - {name}", link, wall)
            for link in solids.links
            if link[1] in bodies and space.applies(link[1], h)
        ]
    return found


def _travel(robot: RobotModel, q: Float) -> Float:
    # How far every tree joint has turned or slid up to each sample, forth and back, (T, nb).
    x = robot.tree_motion(q, q, q)[0]
    return np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(np.abs(np.diff(x, axis=0)), axis=0)])


def _between(robot: RobotModel, a: int, b: int) -> list[int]:
    # The joints that move one body against another.
    paths = [set(robot.tree.paths[i]) if i >= 0 else set() for i in (a, b)]
    return sorted(paths[0] ^ paths[1])


def _arms(
    robot: RobotModel, model: CollisionModel, moves: Sequence[int], links: Sequence[tuple[str, int]]
) -> Float:
    # For each joint the greatest distance from its axis of any point of the links that it moves; 1 for sliding ones.
    found = []
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
            slides = [_range(robot, i) for i in below if robot.tree.prismatic[i]]
            way = float(np.linalg.norm(robot.T_parent_joint[below, :3, 3], axis=1).sum()) + sum(slides)
            reach = max(reach, way + float(np.linalg.norm(shape.corners(), axis=1).max()))
        found.append(1.0 if robot.tree.prismatic[j] else reach)
    return np.array(found)


def _range(robot: RobotModel, joint: int) -> float:
    own, offset = robot.projection[joint], robot.projection_offset[joint]
    ends = [own @ limit + offset for limit in (robot.limits.lower, robot.limits.upper)]
    size = float(np.max(np.abs(ends)))
    return size if np.isfinite(size) else 1e3
