"""Friction sweeps and static poses within all limits of a plan, checked like a designed motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base import Float, UnfitDataError, UsageError, dataclass, latin_hypercube
from dynid.excitation.collision import point_speed
from dynid.excitation.constraints import Margin, Verified, margins, room_at_rest, verified, with_whole_torque
from dynid.excitation.design import Figures, Information, worst_broken
from dynid.excitation.gradient import Whole
from dynid.excitation.limits import Bounds
from dynid.excitation.plan import Sheet, reserve_data
from dynid.factor import base_of_matrix
from dynid.robot import Limits, RobotModel
from dynid.signals import Samples, samples_at
from dynid.terms import RigidBody
from dynid.trajectories import SmoothMoves, TorqueMotion, Trajectory, friction_sweep, slowed, static_poses

# Grid points per move, Hz of the criteria, steps of the search for free range, and margin that is rounding.
GRID, FIGURES_RATE, STEPS, TOLERANCE = 24, 20.0, 91, 1e-9
# Relative tolerance of the rank of static rows, and information before the first pose, so that its determinant is not
# zero.
STATIC_TOLERANCE, FIRST = 1e-7, 1e-6


@dataclass(frozen=True, eq=False)
class MovesPlan:
    """A chain of moves within the limits.    figures: exact, with smoothed friction.    margins: of all limits."""

    information: Information
    bounds: Bounds
    trajectory: SmoothMoves
    figures: Figures
    margins: tuple[Margin, ...]
    family: str
    stopped: bool = False
    verified: Verified | None = None

    @property
    def tightest(self) -> Margin:
        """The limit that the motion comes closest to."""
        return min(self.margins, key=lambda m: m.margin)

    def describe(self) -> dict[str, Any]:
        """Plain data of the design."""
        basis = {"family": self.family, "moves": len(self.trajectory.cruise)}
        return {"basis": basis} | reserve_data(self)


def sweep_plan(
    information: Information,
    bounds: Bounds,
    shares: Sequence[float],
    joints: Sequence[str] = (),
    home: Float | None = None,
    longest: float = 5.0,
) -> MovesPlan:
    """Move each joint separately at constant speeds, back and forth, as far around home as all limits allow at rest.

    Parameters
    ----------
    information : Information
        The criterion.
    bounds : Bounds
        The limits.
    shares : sequence of float
        Speeds as shares of each joint's velocity limit, in (0, 1].
    joints : sequence of str
        Joints to move; empty for all.
    home : ndarray, shape (n_joints,), optional, rad or m
        Home pose; the middle without it.
    longest : float, s
        Maximum time of one sweep; slow ones cover less of the range.

    Returns
    -------
    MovesPlan
        The motion.

    Raises
    ------
    UsageError
        For a share out of range.
    UnfitDataError
        If a sweep violates a limit; it names the limit.

    """
    robot, limits = _bounded(information.robot, bounds), bounds.limits
    if not shares or not all(0 < share <= 1 for share in shares):
        raise UsageError("sweep-speeds", found=f"speeds {list(shares)}", expected="shares above 0, at most 1")
    middle = 0.5 * (limits.lower + limits.upper) if home is None else np.asarray(home, dtype=np.float64)
    robot = _with_room(robot, information, bounds, middle)
    sweeps = [
        friction_sweep(
            robot,
            [share * limits.velocity[robot.joint_names.index(name)] for share in shares]
            if name in robot.joint_names
            else [1.0],
            [name],
            middle,
            np.array(limits.acceleration),
            longest,
            jerk=np.array(limits.jerk),
        )
        for name in (joints or robot.joint_names)
    ]
    chain = SmoothMoves(
        np.concatenate([sweeps[0].poses[:1], *(sweep.poses[1:] for sweep in sweeps)]),
        *(np.concatenate([getattr(sweep, name) for sweep in sweeps]) for name in ("cruise", "ramp", "hold")),
    )
    return _checked(
        information, bounds, chain, "sweep", "give another motion.start, slower speeds or more room"
    )


def poses_plan(
    information: Information,
    bounds: Bounds,
    count: int,
    seed: int = 0,
    approach: float = 0.05,
    hold: float = 1.0,
    candidates: int = 400,
) -> MovesPlan:
    """Poses that determine gravity best, each held after an approach from below and from above in every joint.

    Poses are chosen one by one from a Latin hypercube: each time the one that increases the determinant of the static
    rows' information most and that a straight move reaches within all limits.

    Parameters
    ----------
    information : Information
        The criterion.
    bounds : Bounds
        The limits.
    count : int
        Number of poses.
    seed : int
        Seed of the hypercube.
    approach : float, rad or m
        Distance of the approach.
    hold : float, s
        Time at each pose.
    candidates : int
        Number of random poses.

    Returns
    -------
    MovesPlan
        The motion.

    Raises
    ------
    UnfitDataError
        If fewer than `count` poses can be reached.

    """
    robot = _bounded(information.robot, bounds)
    if count < 1:
        raise UsageError("poses", found=f"{count} poses", expected="at least 1")
    limits = bounds.limits
    cube = latin_hypercube(candidates, robot.n, np.random.default_rng(seed))
    room = 1.001 * approach
    if (limits.upper - limits.lower <= 2 * room).any():
        raise UsageError(
            "pose-limits",
            found=f"an approach of {approach:g} rad (m) on both sides of each pose",
            expected="position limits farther apart than that",
        )
    drawn = limits.lower + room + cube * (limits.upper - limits.lower - 2 * room)
    drawn = drawn[room_at_rest(robot, information.terms, bounds, drawn) > 0]
    chosen = _greedy(information, bounds, robot, drawn, count, approach)
    if len(chosen) < count:
        raise UnfitDataError(
            "infeasible-limits",
            found=f"only {len(chosen)} poses that straight moves reach within all limits",
            expected=f"{count}",
            do="relax the limits, or ask for fewer poses",
        )
    chain = _pose_moves(robot, bounds, np.stack(chosen), approach, hold)
    return _checked(information, bounds, chain, "poses", "relax that limit, or try another seed")


def _pose_moves(robot: RobotModel, bounds: Bounds, poses: Float, approach: float, hold: float) -> SmoothMoves:
    limits = bounds.limits
    return static_poses(
        robot, poses, approach, hold, 0.5, np.array(limits.acceleration), np.array(limits.jerk)
    )


def _greedy(
    information: Information, bounds: Bounds, robot: RobotModel, drawn: Float, count: int, approach: float
) -> list[Float]:
    if not len(drawn):
        return []
    rows = _static_rows(information, drawn)
    b = rows.shape[2]
    inverse = np.eye(b) / FIRST
    chosen: list[Float] = []
    left = np.ones(len(drawn), dtype=np.bool_)
    while len(chosen) < count and left.any():
        gain = np.linalg.slogdet(np.eye(rows.shape[1]) + rows @ inverse @ rows.transpose(0, 2, 1))[1]
        order = [i for i in np.argsort(-gain, kind="stable") if left[i]]
        reached = None
        for i in order:
            way = np.stack([*chosen[-1:], drawn[i]])
            if (
                worst_broken(_margins(information, bounds, _pose_moves(robot, bounds, way, approach, 0.0)))
                is None
            ):
                reached = i
                break
        if reached is None:
            return chosen
        left[reached] = False
        chosen.append(drawn[reached])
        Y = rows[reached]
        gained = inverse @ Y.T
        inverse = inverse - gained @ np.linalg.solve(np.eye(len(Y)) + Y @ gained, gained.T)
    return chosen


def _static_rows(information: Information, q: Float) -> Float:
    # Rows (P, n, b) of gravity, in units of the noise, with columns of unit size.
    robot, zero = information.robot, np.zeros_like(q)
    bodies = RigidBody()
    names = [column.name for column in bodies.columns(robot)]
    wanted = np.ones(len(names), dtype=np.bool_)
    panels = bodies.torque_regressor(robot, Samples.from_motion(q, zero, zero), wanted)
    Y = panels.dense(len(names)) / information.noise[None, :, None]
    base = base_of_matrix(Y.reshape(-1, len(names)), names, STATIC_TOLERANCE)
    return np.asarray(Y[:, :, base.independent] / base.scale[base.independent])


def _bounded(robot: RobotModel, bounds: Bounds) -> RobotModel:
    limits = bounds.limits
    return replace(robot, limits=Limits(limits.lower, limits.upper, limits.velocity, limits.torque))


def _with_room(robot: RobotModel, information: Information, bounds: Bounds, home: Float) -> RobotModel:
    # Range of every joint around home in which the arm can rest with the other joints at home.
    limits = bounds.limits
    lower, upper = np.array(limits.lower), np.array(limits.upper)
    bad = worst_broken(_margins_at_rest(information, bounds, home))
    if bad is not None:
        raise UnfitDataError(
            "start-pose",
            found=f"a home pose that violates a limit: {bad}",
            expected="a pose within all limits at rest",
            do="give another motion.start",
        )
    for j in range(robot.n):
        for ends in (lower, upper):
            reach = np.linspace(home[j], ends[j], STEPS)
            poses = np.repeat(home[None], STEPS, axis=0)
            poses[:, j] = reach
            broken = np.flatnonzero(room_at_rest(robot, information.terms, bounds, poses) < -TOLERANCE)
            if len(broken):
                ends[j] = reach[max(int(broken[0]) - 1, 0)]
    return replace(robot, limits=Limits(lower, upper, limits.velocity, limits.torque))


def _margins_at_rest(information: Information, bounds: Bounds, pose: Float) -> tuple[Margin, ...]:
    q, zero = pose[None], np.zeros((1, len(pose)))
    return margins(information.robot, information.terms, bounds, np.zeros(1), q, zero, zero, zero)


def _margins(information: Information, bounds: Bounds, chain: SmoothMoves) -> tuple[Margin, ...]:
    # Each move has its own grid, since most of the time nothing moves.
    starts = chain.starts
    steps = np.linspace(0.0, 1.0, GRID, endpoint=False)
    moving = (starts[1:] - starts[:-1] - chain.hold)[:, None]
    t = np.append((starts[:-1, None] + steps * moving).ravel(), chain.duration)
    q, dq, ddq = chain.motion(t)
    return margins(information.robot, information.terms, bounds, t, q, dq, ddq, chain.jerk(t))


def _checked(
    information: Information, bounds: Bounds, chain: SmoothMoves, family: str, advice: str
) -> MovesPlan:
    chain_margins = _margins(information, bounds, chain)
    chain_margins = with_whole_torque(information.robot, information.terms, bounds, chain, chain_margins)
    bad = worst_broken(chain_margins, tolerance=TOLERANCE)
    if bad is not None:
        raise UnfitDataError(
            "infeasible-limits",
            found=f"moves that violate a limit: {bad}",
            expected="limits that leave room for them",
            do=advice,
        )
    checked = verified(information.robot, bounds, chain)
    if checked is not None and checked.broken is not None:
        raise UnfitDataError(
            "infeasible-limits",
            found=f"moves that come too close (by {checked.library}): {checked.broken}",
            expected="limits that leave room for them",
            do=advice,
        )
    t = np.arange(0.0, chain.duration, 1.0 / FIGURES_RATE)
    figures = information.figures(*chain.motion(t), chain.duration)
    return MovesPlan(information, bounds, chain, figures, chain_margins, family, verified=checked)


# The motion at several speeds, slow ones first, and what each requires of the arm.

# Points at which margins and torque of a stage are evaluated.
POINTS = 3000
# Limits of position, which do not depend on speed.
OF_PLACE = ("position", "workspace", "self-collision")
# Velocity and acceleration relative to their limits, below which an arm is at rest.
REST = 1e-6


@dataclass(frozen=True)
class Stage:
    """One speed of a motion, and what it requires of the arm.

    Parameters
    ----------
    share : float
        Speed relative to the designed one.
    seconds : float, s
        Length.
    tool_speed : float, m/s
        Highest speed of the tool point.
    torque : dict of str to float, N m or N
        Largest predicted torque per joint; nan without a model.
    torque_share : float
        Largest share of a limit that torque and its reserve take; nan without limit or model.
    power : float, W
        Largest mechanical power of all joints together, sum of |tau dq|.
    margins : tuple of Margin
        The smallest margin of each kind of limit.
    rests : bool
        Whether it starts and ends at rest.

    """

    share: float
    seconds: float
    tool_speed: float
    torque: dict[str, float]
    torque_share: float
    power: float
    margins: tuple[Margin, ...]
    rests: bool

    @property
    def tightest(self) -> Margin:
        """The limit of speed or effort that it comes closest to, relative to the limit."""
        return min((m for m in self.margins if m.what not in OF_PLACE), key=lambda m: m.margin)


def stages_of(plan: Sheet, shares: Sequence[float]) -> tuple[tuple[Stage, Trajectory], ...]:
    """The stages of a plan with their motions, slowest first; full speed is always among them.

    Commanded torque has only full speed, since slower torque causes another motion.

    Parameters
    ----------
    plan : Sheet
        The plan.
    shares : sequence of float
        Speeds relative to the designed one.

    Returns
    -------
    tuple of (Stage, Trajectory)
        The stages and their motions.

    """
    every = sorted({*shares, 1.0})
    if isinstance(plan.trajectory, TorqueMotion):
        every = [1.0]
    stages = []
    for share in every:
        motion = plan.trajectory if share == 1 else slowed(plan.trajectory, share)
        stages.append((stage_of(plan, motion, share), motion))
    return tuple(stages)


def stage_of(plan: Sheet, motion: Trajectory, share: float) -> Stage:
    """What a motion at a share of its speed requires of the arm.

    Parameters
    ----------
    plan : Sheet
        The plan at full speed.
    motion : Trajectory
        The motion at this speed.
    share : float
        Speed relative to the designed one.

    Returns
    -------
    Stage
        The requirements.

    """
    bounds, information = plan.bounds, plan.information
    robot, terms = information.robot, Whole(information.terms).model
    t = np.linspace(0.0, motion.duration, POINTS)
    q, dq, ddq = motion.motion(t)
    limits = bounds.limits
    names = robot.joint_names
    torque, torque_share, power = dict.fromkeys(names, np.nan), np.nan, np.nan
    if (predicted := bounds.torque(robot, terms, samples_at(t, q, dq, ddq))) is not None:
        tau, kept = predicted
        torque = dict(zip(names, np.abs(tau).max(axis=0).tolist(), strict=True))
        reach = np.abs(tau) + kept
        known = np.isfinite(limits.torque)
        torque_share = float((reach / limits.torque)[:, known].max()) if known.any() else np.nan
        power = float(np.abs(tau * dq).sum(axis=1).max())
    if share == 1:
        stage_margins = plan.margins
    else:
        jerk = np.gradient(ddq, t, axis=0)
        # Distances do not depend on speed, so those of full speed apply.
        places = [m for m in plan.margins if m.what in OF_PLACE]
        free = replace(bounds, workspace=None, collision=None)
        slow_margins = margins(robot, terms, free, t, q, dq, ddq, jerk)
        stage_margins = (*(m for m in slow_margins if m.what != "position"), *places)
    tightest = tuple(
        min((m for m in stage_margins if m.what == kind), key=lambda m: m.margin)
        for kind in dict.fromkeys(m.what for m in stage_margins)
    )
    ends = np.abs(dq[[0, -1]]) / limits.velocity, np.abs(ddq[[0, -1]]) / limits.acceleration
    return Stage(
        share,
        motion.duration,
        float(point_speed(robot, q, dq, robot.n_bodies - 1, bounds.tip_or_origin)[0].max()),
        torque,
        torque_share,
        power,
        tightest,
        bool(max(float(end.max()) for end in ends) < REST),
    )
