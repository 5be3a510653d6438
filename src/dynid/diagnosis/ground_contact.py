"""Detection of feet on the ground: legs whose ends keep constant distances from each other while the joints move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Claim, Diagnostics
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass, listed
from dynid.dynamics import Dynamics
from dynid.log.joints import STILL
from dynid.robot.model import RobotModel, path_to_base
from dynid.signals.samples import Samples

CODE: Claim = "feet-on-ground"
# Least number of feet: three points define a plane.
FEET = 3
# Number of poses of the comparison; distances change slowly.
POSES = 100
# The feet are on the ground if their distances change by less than this share of their travel. A foot with finite size
# rolls by a few percent of its travel; the distances of feet in the air change by as much as the feet travel.
STANDS = 0.05


@dataclass(frozen=True, eq=False)
class Stance:
    """Feet on the ground.

    Attributes
    ----------
    links : tuple of str
        Last links of the legs.
    points : ndarray, shape (k, 3), m
        The feet in the joint frames of these links.
    travel, change : float, m
        Smallest rms travel of a foot relative to the base, and rms deviation of the distances from their means.

    """

    links: tuple[str, ...]
    points: Float
    travel: float
    change: float


def stance(robot: RobotModel, q: Float) -> Stance | None:
    """Find points on the legs' last links with constant distances from each other.

    The search minimises the changes of all distances ||x_i - x_j||, x_i = R_i p_i + o_i, over the points p_i of the
    links. Legs are separate chains from the base. With more than FEET legs, one leg may move freely.

    Parameters
    ----------
    robot : RobotModel
        The robot, with a fixed base.
    q : ndarray, shape (T, n), rad (m)
        Poses.

    Returns
    -------
    Stance or None
        None if there are fewer than FEET legs, or if their ends move relative to each other.

    """
    ends = _ends_of_chains(robot)
    if len(ends) < FEET or not len(q):
        return None
    few = q[np.linspace(0, len(q) - 1, min(POSES, len(q))).astype(np.intp)]
    poses = _described(robot).forward_kinematics(few)
    fewest = max(FEET, len(ends) - 1)
    for count in range(len(ends), fewest - 1, -1):
        for feet in combinations(ends, count):
            standing = _stance_of(robot, poses[:, feet], feet)
            if standing is not None:
                return standing
    return None


def _described(robot: RobotModel) -> Dynamics:
    """Dynamics of the robot from the URDF, with zero mass for links of unknown inertia."""
    return Dynamics.of_description(replace(robot, inertia_prior=np.nan_to_num(robot.inertia_prior)))


def _ends_of_chains(robot: RobotModel) -> list[int]:
    """Last links of the unbranched chains that start at the base."""
    roots: dict[int, list[int]] = {}
    for body in range(robot.n_bodies):
        if body not in robot.parent:
            roots.setdefault(path_to_base(robot, body)[-1], []).append(body)
    return [ends[0] for ends in roots.values() if len(ends) == 1 and robot.parent[ends[0]] >= 0]


def _stance_of(robot: RobotModel, poses: Float, ends: Sequence[int]) -> Stance | None:
    """Find the feet on some links from the poses (T, k, 4, 4) of the links."""
    from scipy.optimize import least_squares

    bodies = list(ends)
    first, second = np.array(list(combinations(range(len(bodies)), 2))).T

    def positions(points: Float) -> Float:
        turned = np.einsum("tkab,kb->tka", poses[..., :3, :3], points.reshape(-1, 3))
        return np.asarray(poses[..., :3, 3] + turned)

    def changes(points: Float) -> Float:
        x = positions(points)
        distances = np.linalg.norm(x[:, first] - x[:, second], axis=-1)
        return np.asarray(distances - distances.mean(axis=0)).ravel()

    # A foot is on its link: no further from its joint than twice the way to that joint.
    way = np.linalg.norm(robot.T_parent_joint[bodies, :3, 3], axis=1)
    reach = np.repeat(np.where(way > 0, 2.0 * way, 1.0), 3)
    mass = robot.inertia_prior[bodies, :1]
    centre = np.divide(robot.inertia_prior[bodies, 1:4], mass, out=np.zeros((len(bodies), 3)), where=mass > 0)
    start = np.clip(2.0 * centre.ravel(), -0.9 * reach, 0.9 * reach)
    points = least_squares(changes, start, bounds=(-reach, reach)).x
    x = positions(points)
    travel = float(np.sqrt(np.sum((x - x.mean(axis=0)) ** 2, axis=2).mean(axis=0).min()))
    change = float(np.sqrt(np.mean(changes(points) ** 2)))
    if travel <= STILL * reach.max() or change >= STANDS * travel:
        return None
    return Stance(tuple(robot.body_names[body] for body in bodies), points.reshape(-1, 3), travel, change)


def pressing(robot: RobotModel, standing: Stance, q: Float, tau: Float) -> Float:
    """Total force of the feet along gravity, from the efforts: sum over the feet of f in tau = J' f.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    standing : Stance
        Its feet.
    q, tau : ndarray, shape (T, n), rad (m) and N m (N)
        Poses and efforts.

    Returns
    -------
    ndarray, shape (T,), N

    """
    model = _described(robot)
    down = robot.gravity / max(float(np.linalg.norm(robot.gravity)), np.finfo(np.float64).tiny)
    total = np.zeros(len(q))
    for link, point in zip(standing.links, standing.points, strict=True):
        J = model.jacobian(q, link, point)[:, :3]
        force = np.einsum("tan,tn->ta", np.linalg.pinv(J.transpose(0, 2, 1)), tau)
        total += force @ down
    return total


def require_free_legs(robot: RobotModel, batches: Iterable[Samples], diagnostics: Diagnostics) -> None:
    """Reject a log of a robot that stands on its feet, unless the user accepts it.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    batches : iterable of Samples
        Prepared samples.
    diagnostics : Diagnostics
        Collects the doubt if it is accepted.

    Raises
    ------
    UnfitDataError
        If the feet keep constant distances and the efforts press them down steadily.

    """
    if len(_ends_of_chains(robot)) < FEET:
        return
    poses, efforts = [np.zeros((0, robot.n))], [np.zeros((0, robot.n))]
    for samples in batches:
        kept = np.flatnonzero(samples.keep)
        few = kept[:: max(len(kept) // POSES, 1)]
        poses.append(samples.q[few])
        efforts.append(samples.tau[few])
    q, tau = np.concatenate(poses), np.concatenate(efforts)
    standing = stance(robot, q)
    if standing is None:
        return
    pressure = pressing(robot, standing, q, tau)
    # Legs that move alike in the air also keep their distances, but their efforts lift them or oscillate about zero.
    if pressure.mean() <= pressure.std():
        return
    evidence = (
        f"the distances between '{listed(standing.links)}' are constant to {1e3 * standing.change:.2g} mm while the "
        f"feet travel {1e3 * standing.travel:.2g} mm relative to the base, and the efforts press them down with "
        f"{pressure.mean():.3g} N"
    )
    expected = "legs that move freely on a fixed base, because ground forces add external torque"
    do = "log an IMU of the trunk and map it under [log.imu], or suspend the robot and move its legs in the air"
    if CODE in diagnostics.accepting:
        diagnostics.claim(CODE, found=evidence, expected=expected, do=do)
        return
    raise UnfitDataError(CODE, found=evidence, expected=expected, do=f"{do}; or accept it: --accept {CODE}")
