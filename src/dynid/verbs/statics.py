"""Static poses: gravity and springs from a robot that stands still, and the dynamic step that builds upon them.

Friction at rest may take any value up to its limit, so each pose is approached from both sides and averaged: motor by
motor, since a coupled transmission brings one motor's friction to several joints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked, locked_bool
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.estimate.given import Given, Joined
from dynid.estimate.least_squares import WLS
from dynid.estimate.regression import regression_of
from dynid.factor.base import BaseMap, structural_base
from dynid.factor.factor import Block, Factor, Factors
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings, settings_to_experiment
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.static import StaticRows
from dynid.run.result import Identification
from dynid.signals.samples import poses_at_rest
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Terms
from dynid.verbs.poses import StaticPoses

__all__ = [
    "BalancedPoses",
    "StaticEstimate",
    "TwoStep",
    "balanced",
    "identify_statics",
    "static_base",
    "two_step",
]

BLOCKS_WANTED = 60


@dataclass(frozen=True, eq=False)
class BalancedPoses:
    """Poses with what was measured from either side put together.

    q, tau: (P, n), at the joints.    both: (P, n) whether the pose was reached from both sides of that joint.
    stiction: (P, n) half the difference between the two sides, N m; nan where one is missing.
    offset_known: (n,) whether friction has been averaged out of the joint's torque. If not, its torque is off by an
        unknown amount of up to the friction at rest.
    With a drive whose motors move several joints, both, stiction and offset_known are the motors'.
    """

    q: Float
    tau: Float
    both: Bool
    stiction: Float
    offset_known: Bool

    def __post_init__(self) -> None:
        P, n = np.shape(self.q)
        for name in ("q", "tau", "stiction"):
            object.__setattr__(self, name, locked(getattr(self, name), (P, n), name))
        object.__setattr__(self, "both", locked_bool(self.both, (P, n), "both"))
        object.__setattr__(self, "offset_known", locked_bool(self.offset_known, (n,), "offset_known"))

    def __len__(self) -> int:
        return len(self.q)


@dataclass(frozen=True, eq=False)
class StaticEstimate:
    """What static poses determine: gravity parameters and springs.

    structural: base parameters that any poses could determine; estimate.base: those that these do.
    factors: their equations, for a fit together with motion.
    """

    robot: RobotModel
    terms: Terms
    poses: BalancedPoses
    structural: BaseMap
    estimate: Estimate
    factors: Factors

    def given(self) -> Given:
        """The estimator of the dynamic step: what is known from the poses, without constant torques, is held.

        Constant torque at rest is not the offset of a moving joint, whose friction may differ by direction.
        """
        base = self.estimate.base
        constant = np.array([flag for term in self.terms for flag in _constant(term, self.robot)])
        moving = [i for i in range(base.rank) if not (base.B[i] != 0)[constant].any()]
        if not moving:
            raise UnfitDataError(
                "no-statics",
                found="poses in which gravity does not change the torque",
                expected="poses that differ in the torque of gravity or springs",
                do="add poses that turn the links against gravity",
            )
        index = np.array(moving)
        return Given(
            base.B[index], self.estimate.value[index], self.estimate.covariance[np.ix_(index, index)]
        )

    def joined(self) -> Joined:
        """The estimator that fits poses and motion together, with constant torques of their own at rest."""
        # All columns: what poses alone cannot determine has its effect on them all the same.
        every = np.ones(len(self.estimate.columns), dtype=np.bool_)
        return Joined(static_factors(self.robot, self.terms, self.poses, every, centred=True))


@dataclass(frozen=True, eq=False)
class TwoStep:
    """Static step, dynamic step with the static parameters held, and both in one shot, side by side."""

    static: StaticEstimate
    two_step: Identification
    one_shot: Identification


def balanced(robot: RobotModel, poses: StaticPoses, tolerance: float = 5e-3) -> BalancedPoses:
    """Puts measurements of the same pose together and averages, joint by joint, over the side it was reached from.

    tolerance: rad (m); poses that differ by less on every joint are the same.
    Where a joint has poses reached from both sides, one-sided ones of it are not used: theirs would be off.
    """
    groups = _same(poses.q, tolerance)
    drive, n = robot.drive, robot.n
    measured = drive.motor_torque(poses.q, poses.tau) if drive.coupled else poses.tau
    q, tau = np.zeros((len(groups), n)), np.zeros((len(groups), n))
    stiction = np.full((len(groups), n), np.nan)
    for g, members in enumerate(groups):
        q[g], tau[g] = poses.q[members].mean(axis=0), measured[members].mean(axis=0)
        for j in range(n):
            side = poses.approach[members, j]
            if (side > 0).any() and (side < 0).any():
                up, down = (measured[members, j][side == s].mean() for s in (1.0, -1.0))
                tau[g, j], stiction[g, j] = 0.5 * (up + down), 0.5 * (up - down)
    both = np.isfinite(stiction)
    tau = drive.joint_torque(q, tau) if drive.coupled else tau
    return BalancedPoses(q, tau, both, stiction, both.any(axis=0))


def static_base(robot: RobotModel, terms: Terms, seed: int = 0) -> BaseMap:
    """Base parameters that static poses could determine, found from random poses."""
    return structural_base(robot, terms, StaticRows(), seed)


def identify_statics(
    robot: RobotModel,
    poses: StaticPoses | BalancedPoses,
    terms: Terms,
    *,
    seed: int = 0,
    diagnostics: Diagnostics | None = None,
) -> StaticEstimate:
    """Identifies gravity parameters and springs from static poses, by weighted least squares.

    terms: those of the dynamic model too, with an Offset for each joint's constant torque: parameters without effect
        at rest are left out of themselves.
    diagnostics: is warned of joints whose poses were reached from one side only.
    Raises UnfitDataError if the poses are too few, UsageError if a term reads a log channel.
    """
    if terms.channels():
        raise UsageError(
            "statics-channel",
            found=f"terms that read {', '.join(terms.channels())}",
            expected="terms of the position",
        )
    measured = balanced(robot, poses) if isinstance(poses, StaticPoses) else poses
    _warn(robot, measured, diagnostics if diagnostics is not None else Diagnostics())
    structural = static_base(robot, terms, seed)
    factors = static_factors(robot, terms, measured, structural.mask)
    regression = regression_of(robot, terms, structural, factors)
    return StaticEstimate(robot, terms, measured, structural, WLS().fit(regression), factors)


def static_factors(
    robot: RobotModel, terms: Terms, poses: BalancedPoses, wanted: Bool, centred: bool = False
) -> Factors:
    """The poses' equations with the wanted columns, in blocks of a few poses, in their order.

    centred: less their mean over all poses, by joint: what a constant torque of its own would take up.
    """
    samples = poses_at_rest(poses.q, poses.tau)
    rows = StaticRows()
    equations = rows.equations(robot, terms, samples, wanted)
    used = poses.both | ~poses.offset_known
    panels = [
        panel - panel[:, used[:, j]].mean(axis=1, keepdims=True) if centred else panel
        for j, panel in enumerate(equations.panels)
    ]
    blocks = []
    for members in np.array_split(np.arange(len(poses)), min(len(poses), BLOCKS_WANTED)):
        groups = tuple(
            Factor.from_panel(columns, np.ascontiguousarray(panel[:, members[used[members, j]]]))
            for j, (columns, panel) in enumerate(zip(equations.columns, panels, strict=True))
        )
        blocks.append(Block("poses", 0, float(members[0]), float(members[-1]), groups))
    return Factors(rows.groups(robot), len(wanted), tuple(blocks))


def two_step(
    robot: RobotModel,
    poses: StaticPoses | BalancedPoses,
    log: Log,
    settings: Settings | None = None,
    *,
    validation: Log | None = None,
    experiment: Mapping[str, Any] | None = None,
    files: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
) -> TwoStep:
    """Static step, then the dynamic step with the static parameters held; beside it both fitted in one shot.

    settings: model and signals of the dynamic step; its estimator is replaced.
    validation: a log held out for both.    experiment, files: what to write down of both, as in `identify`.
    Raises UnfitDataError if poses or log cannot support it.
    Source: Nini et al. 2024, sections II-B and II-D, with the static covariance propagated.
    """
    chosen = (settings or Settings()).resolved()
    sink = diagnostics if diagnostics is not None else Diagnostics()
    static = identify_statics(robot, poses, chosen.model, seed=chosen.seed, diagnostics=sink)
    written = dict(experiment) if experiment is not None else settings_to_experiment(chosen)

    def dynamic(estimator: Given | Joined) -> Identification:
        own = Diagnostics(accepting=sink.accepting | frozenset(chosen.accept))
        own.extend(sink)
        return identify(
            robot,
            log,
            replace(chosen, estimator=estimator, accept=()),
            validation=validation,
            experiment=written,
            files=files,
            diagnostics=own,
        )

    held, together = dynamic(static.given()), dynamic(static.joined())
    # What is accepted for one of the two need not be found with the other.
    both = Diagnostics([*held.diagnostics, *together.diagnostics])
    both.require_found(chosen.accept)
    return TwoStep(static, held, together)


def _same(q: Float, tolerance: float) -> list[Float]:
    # Each pose joins the first group whose first pose is near.
    groups: list[list[int]] = []
    heads = np.zeros((0, q.shape[1]))
    for i, pose in enumerate(q):
        near = np.flatnonzero((np.abs(heads - pose) < tolerance).all(axis=1))
        if len(near):
            groups[int(near[0])].append(i)
        else:
            groups.append([i])
            heads = np.vstack([heads, pose])
    return [np.array(group) for group in groups]


def _warn(robot: RobotModel, poses: BalancedPoses, sink: Diagnostics) -> None:
    unknown = [name for name, known in zip(robot.joint_names, poses.offset_known, strict=True) if not known]
    if unknown:
        sink.warn(
            "static-offset-unknown",
            f"no pose of {', '.join(unknown)} was reached from both sides: friction at rest offsets the torque by an "
            "unknown amount; reach each pose from above and from below",
        )
    left = ~poses.both[:, poses.offset_known]
    if left.any():
        sink.note(
            "static-one-sided", f"{int(left.sum())} torques of poses reached from one side only are not used"
        )


def _constant(term: Any, robot: RobotModel) -> list[bool]:
    inner = getattr(term, "of", term)
    flat = isinstance(inner, JointTerm) and inner.exports_as is MotionBasis.ONE
    return [flat] * len(term.columns(robot))
