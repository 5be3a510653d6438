"""Friction sweeps and static poses within all bounds of a plan, checked like a designed motion."""

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

GRID, FIGURES_RATE, STEPS, TOLERANCE = 24, 20.0, 91, 1e-9
STATIC_TOLERANCE, FIRST = 1e-7, 1e-6


@dataclass(frozen=True, eq=False)
class MovesPlan:
    """A chain of moves within bounds.    figures: exact, with smoothed friction.    margins: of every bound."""

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
        """The bound that the motion comes nearest to."""
        return min(self.margins, key=lambda m: m.margin)

    def describe(self) -> dict[str, Any]:
        """Plain data of how it was made."""
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
    """Each joint by itself at constant speeds, forth and back, as far round home as all bounds allow at rest.

    shares: of each joint's velocity limit, in (0, 1].    joints: names, () = all.    home: (n,), None = middle.
    longest: s, of one sweep; slow ones cover less of the range.
    Raises UsageError for a share out of range, UnfitDataError naming the bound that a sweep breaks.
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

    The poses are chosen one by one from a Latin hypercube, each time the one that adds most to the determinant of the
    static rows' information and that a straight move reaches within all bounds.
    approach: rad (m).    hold: s.    Raises UnfitDataError if fewer than `count` poses can be reached.
    """
    robot = _bounded(information.robot, bounds)
    if count < 1:
        raise UsageError("poses", found=f"{count} poses", expected="at least 1")
    limits = bounds.limits
    cube = latin_hypercube(candidates, robot.n, np.random.default_rng(seed))
    room = 1.001 * approach
    if (limits.upper - limits.lower <= 2 * room).any():
        raise UsageError(
            "pose-limits", found=f"an approach of {approach:g}", expected="one within the limits"
        )
    drawn = limits.lower + room + cube * (limits.upper - limits.lower - 2 * room)
    drawn = drawn[room_at_rest(robot, information.terms, bounds, drawn) > 0]
    chosen = _greedy(information, bounds, robot, drawn, count, approach)
    if len(chosen) < count:
        raise UnfitDataError(
            "infeasible-limits",
            found=f"{len(chosen)} poses that a straight move reaches within all bounds",
            expected=f"{count}",
            do="loosen the bounds, or ask for fewer poses",
        )
    chain = _pose_moves(robot, bounds, np.stack(chosen), approach, hold)
    return _checked(
        information, bounds, chain, "poses", "loosen that bound, or draw others with another seed"
    )


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
    # The range of every joint round home in which the arm can rest, the other joints at home.
    limits = bounds.limits
    lower, upper = np.array(limits.lower), np.array(limits.upper)
    bad = worst_broken(_margins_at_rest(information, bounds, home))
    if bad is not None:
        raise UnfitDataError(
            "start-pose",
            found=f"a home pose that breaks a bound: {bad}",
            expected="a pose that the robot can rest in",
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
    # Every move on a grid of its own, as most of the time nothing moves.
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
            found=f"a chain of moves that breaks a bound: {bad}",
            expected="room for it",
            do=advice,
        )
    checked = verified(information.robot, bounds, chain)
    if checked is not None and checked.broken is not None:
        raise UnfitDataError(
            "infeasible-limits",
            found=f"a chain of moves that comes too close: {checked.broken}, by {checked.library}",
            expected="room for it",
            do=advice,
        )
    t = np.arange(0.0, chain.duration, 1.0 / FIGURES_RATE)
    figures = information.figures(*chain.motion(t), chain.duration)
    return MovesPlan(information, bounds, chain, figures, chain_margins, family, verified=checked)


# The motion at several speeds, slow ones first, each with what it will ask of the arm.

# Points of a stage on which margins and torque are looked at.
POINTS = 3000
# Bounds that a slower motion keeps as the full one does.
OF_PLACE = ("position", "workspace", "self-collision")
# Velocity, as a share of its limit, and acceleration below which an arm counts as at rest.
REST = 1e-6


@dataclass(frozen=True)
class Stage:
    """One speed of a motion.

    share: of the designed speed.    seconds: length.    tool_speed: greatest speed of the tool's point, m/s.
    torque: by joint the greatest predicted torque, N m (N), nan without a model.
    torque_share: the greatest share of a limit that torque and its reserve take, nan without limit or model.
    power: the greatest mechanical power of all joints together, sum of |tau dq|, W.
    margins: the tightest of each kind of bound.    rests: whether it starts and ends at rest.
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
        """The bound on speed or effort that it comes nearest to, by its share of it."""
        return min((m for m in self.margins if m.what not in OF_PLACE), key=lambda m: m.margin)


def stages_of(plan: Sheet, shares: Sequence[float]) -> tuple[tuple[Stage, Trajectory], ...]:
    """The stages of a plan with their motions, slowest first, the full speed always among them.

    Commanded torque has the full speed alone: slower torque makes another motion.
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
    """What a motion at a share of its speed asks of the arm."""
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
        # Distances do not depend on speed: those of the full speed hold.
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
