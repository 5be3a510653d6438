"""Static poses: gravity and springs from a robot that stands still, and the dynamic step that builds upon them.

Friction at rest may take any value up to its limit, so each pose is approached from both sides and averaged: motor by
motor, since a coupled transmission brings one motor's friction to several joints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked, locked_bool
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.estimate.least_squares import WLS, Given, Joined
from dynid.estimate.prior import regression_of
from dynid.factor.base import BaseMap, structural_base
from dynid.factor.factor import Block, Factor, Factors
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings, settings_to_experiment
from dynid.log.files import open_table
from dynid.log.log import Text
from dynid.log.read import Log
from dynid.recording import RawChunk
from dynid.robot.model import RobotModel
from dynid.rows.torque import StaticRows
from dynid.run.result import Identification
from dynid.signals.samples import poses_at_rest
from dynid.signals.settings import Standstill
from dynid.terms.exports import MotionBasis
from dynid.terms.term import JointTerm, Terms

__all__ = [
    "BalancedPoses",
    "StaticEstimate",
    "TwoStep",
    "balanced",
    "identify_statics",
    "static_base",
    "two_step",
]


# Standstills in a log, and tables of poses: position, mean torque, and the side each joint came from.

# Velocity is the change of position over this time, so that an encoder's noise counts little, s.
SPAN = 0.05
TABLE_ROWS = 65536


@dataclass(frozen=True, eq=False)
class StaticPoses:
    """Standstills of a robot.

    q, tau: (P, n) mean position and torque at the joints.    spread: (P, n) standard deviation of the torque.
    approach: (P, n) direction in which each joint reached its position: 1, -1, or 0 = unknown. Where motors move
        several joints it is each motor's direction, for friction sits there: of theta_m over its gear ratio's size.
    seconds: (P,) how long it stood.
    """

    q: Float
    tau: Float
    approach: Float
    spread: Float
    seconds: Float

    def __post_init__(self) -> None:
        P, n = np.shape(self.q)
        for name in ("q", "tau", "approach", "spread"):
            object.__setattr__(self, name, locked(getattr(self, name), (P, n), name))
        object.__setattr__(self, "seconds", locked(self.seconds, (P,), "seconds"))

    def __len__(self) -> int:
        return len(self.q)


def find_poses(log: Log, settings: Standstill | None = None) -> StaticPoses:
    """Finds the standstills of a log; each trajectory is read as a whole.

    Raises UnfitDataError if there is none.
    """
    chosen = settings or Standstill()
    found: list[tuple[Float, Float, Float, Float, float]] = []
    for trajectory in log.trajectories:
        chunk = log.read(trajectory)
        found += _standstills(log.robot, chunk, chosen)
    if not found:
        raise UnfitDataError(
            "no-poses",
            found=f"no standstill of {chosen.settle + chosen.dwell:g} s below {chosen.still:g} rad/s",
            expected="poses that are held",
            do="hold each pose longer, or raise statics.still for a noisy encoder",
        )
    q, tau, approach, spread, seconds = zip(*found, strict=True)
    return StaticPoses(np.array(q), np.array(tau), np.array(approach), np.array(spread), np.array(seconds))


def read_poses(path: str | Path, robot: RobotModel) -> StaticPoses:
    """Reads a table of poses, SI units: q_<joint>, tau_<joint>, and from_<joint> = 1 or -1 (0 = unknown) where given.

    Where motors move several joints, from_<joint> is the direction of that joint's motor.

    Raises InputError for missing columns, and for rows that are incomplete or move (dq_<joint> other than 0).
    """
    path = Path(path)
    table = open_table(path)
    place = Place(file=str(path))
    known = {prefix: [f"{prefix}_{j}" for j in robot.joint_names] for prefix in ("q", "tau", "from", "dq")}
    missing = [name for name in known["q"] + known["tau"] if name not in table.column_names]
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column {', '.join(missing[:6])}",
            expected="q_<joint> and tau_<joint> of every joint",
            place=place,
        )
    columns = tuple(name for names in known.values() for name in names if name in table.column_names)
    parts: dict[str, list[Float]] = {name: [] for name in columns}
    for batch in table.batches(columns, TABLE_ROWS):
        for name in columns:
            values = batch[name]
            if isinstance(values, Text):
                raise InputError(
                    "text-cell", found=f"text in column '{name}'", expected="numbers", place=place
                )
            parts[name].append(values)
    data = {name: np.concatenate(values) if values else np.zeros(0) for name, values in parts.items()}

    def stacked(prefix: str) -> Float:
        rows = len(data[known["q"][0]])
        return np.stack([data.get(name, np.zeros(rows)) for name in known[prefix]], axis=1)

    q, tau, side = stacked("q"), stacked("tau"), np.sign(stacked("from"))
    _refuse_row(
        np.asarray(~np.isfinite(q + tau + side).all(axis=1)),
        "a pose with a missing number",
        "q and tau",
        path,
    )
    _refuse_row(
        (np.abs(stacked("dq")) > 0.02).any(axis=1), "a pose in motion (dq other than 0)", "rest", path
    )
    if not len(q):
        raise InputError("no-rows", found="a table without poses", expected="one row a pose", place=place)
    return StaticPoses(q, tau, side, np.zeros_like(q), np.full(len(q), np.nan))


def _refuse_row(wrong: Any, found: str, expected: str, path: Path) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError("wrong-pose", found=found, expected=expected, place=Place(file=str(path), row=row))


def _standstills(
    robot: RobotModel, chunk: RawChunk, settings: Standstill
) -> list[tuple[Float, Float, Float, Float, float]]:
    if chunk.tau is None or len(chunk.t) < 3:
        return []
    sound = np.isfinite(chunk.t) & np.isfinite(chunk.q).all(axis=1) & np.isfinite(chunk.tau).all(axis=1)
    t, q, tau = chunk.t[sound], chunk.q[sound], chunk.tau[sound]
    x = sided(robot, q)
    found = []
    for a, b in _runs(_still(t, q, settings.still)):
        inside = slice(int(np.searchsorted(t, t[a] + settings.settle)), b)
        if inside.start >= b or t[b - 1] - t[inside.start] < settings.dwell:
            continue
        pose, here = q[inside].mean(axis=0), x[inside].mean(axis=0)
        approach = np.array([_side(x[:a, j] - here[j], settings.away) for j in range(q.shape[1])])
        spread = tau[inside].std(axis=0)
        found.append((pose, tau[inside].mean(axis=0), approach, spread, float(t[b - 1] - t[inside.start])))
    return found


def sided(robot: RobotModel, q: Float) -> Float:
    """The positions whose direction decides on friction, (T, n): the joints', or the motors' of coupled drives."""
    drive = robot.drive
    return drive.motor_position(q) / np.abs(drive.transmission).max(axis=1) if drive.coupled else q


def _still(t: Float, q: Float, limit: float) -> Bool:
    # The span is symmetric in time and cut short at the ends of the log.
    before = np.searchsorted(t, t - 0.5 * SPAN, side="left")
    after = np.minimum(np.searchsorted(t, t + 0.5 * SPAN, side="right"), len(t) - 1)
    elapsed = np.maximum(t[after] - t[before], 1e-9)
    return np.asarray((np.abs(q[after] - q[before]) / elapsed[:, None] < limit).all(axis=1))


def _runs(mask: Bool) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _side(before: Float, away: float) -> float:
    # The last place well away from the pose shows where the joint came from.
    far = np.flatnonzero(np.abs(before) > away)
    return float(-np.sign(before[far[-1]])) if len(far) else 0.0


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


def balanced(robot: RobotModel, poses: StaticPoses, tolerance: float = Standstill.tolerance) -> BalancedPoses:
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
