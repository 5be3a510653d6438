"""The motion at several speeds, slow ones first, each with what it will ask of the arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.records import dataclass
from dynid.excitation.constraints import Margin, margins
from dynid.excitation.kinematics import point_speed
from dynid.excitation.left_out import Whole, samples_at
from dynid.excitation.plan import Sheet
from dynid.trajectories.slowed import slowed
from dynid.trajectories.torque_sines import TorqueMotion
from dynid.trajectories.trajectory import Trajectory

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
    found = []
    for share in every:
        motion = plan.trajectory if share == 1 else slowed(plan.trajectory, share)
        found.append((stage_of(plan, motion, share), motion))
    return tuple(found)


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
        found = plan.margins
    else:
        jerk = np.gradient(ddq, t, axis=0)
        # Distances do not depend on speed: those of the full speed hold.
        places = [m for m in plan.margins if m.what in OF_PLACE]
        free = replace(bounds, workspace=None, collision=None)
        own = margins(robot, terms, free, t, q, dq, ddq, jerk)
        found = (*(m for m in own if m.what != "position"), *places)
    tightest = tuple(
        min((m for m in found if m.what == what), key=lambda m: m.margin)
        for what in dict.fromkeys(m.what for m in found)
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
        bool(max(float(one.max()) for one in ends) < REST),
    )
