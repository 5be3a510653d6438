"""Static poses: gravity and springs from a robot at rest, and the dynamic step that uses them.

Friction at rest may take any value up to its limit, so each pose is approached from both sides and averaged per motor,
because a coupled transmission brings the friction of one motor to several joints.
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
from dynid.terms.term import Terms

__all__ = [
    "BalancedPoses",
    "StaticEstimate",
    "TwoStep",
    "balanced",
    "identify_statics",
    "static_base",
    "two_step",
]


# Standstills in a log, and tables of poses: position, mean torque, and the direction of approach of each joint.

# s: velocity is the change of position over this time, which reduces encoder noise.
SPAN = 0.05
# Rows of a table read at once.
TABLE_ROWS = 65536


@dataclass(frozen=True, eq=False)
class StaticPoses:
    """Standstills of a robot.

    Attributes
    ----------
    q, tau : ndarray, shape (n_poses, n_joints)
        Mean position, rad (m), and torque, N m (N), of the joints.
    approach : ndarray, shape (n_poses, n_joints)
        Direction in which each joint reached its position: 1, -1, or 0 = unknown. If motors move several joints, it is
        the direction of each motor (theta_m over its absolute gear ratio), because friction acts there.
    spread : ndarray, shape (n_poses, n_joints)
        Standard deviation of the torque.
    seconds : ndarray, shape (n_poses,), s
        Duration of rest.

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
    """Find the standstills of a log; each trajectory is read as a whole.

    Raises UnfitDataError if there is none.
    """
    chosen = settings or Standstill()
    standstills: list[tuple[Float, Float, Float, Float, float]] = []
    for trajectory in log.trajectories:
        chunk = log.read(trajectory)
        standstills += _standstills(log.robot, chunk, chosen)
    if not standstills:
        raise UnfitDataError(
            "no-poses",
            found=f"no standstill of {chosen.settle + chosen.dwell:g} s below {chosen.still:g} rad/s",
            expected="poses in which the robot is at rest",
            do="hold each pose longer, or raise statics.still for a noisy encoder",
        )
    q, tau, approach, spread, seconds = zip(*standstills, strict=True)
    return StaticPoses(np.array(q), np.array(tau), np.array(approach), np.array(spread), np.array(seconds))


def read_poses(path: str | Path, robot: RobotModel) -> StaticPoses:
    """Read a table of poses with columns q_<joint>, tau_<joint> and optionally from_<joint>, in SI units.

    from_<joint> is the direction of approach, 1 or -1 (0 = unknown). If motors move several joints, it is the direction
    of the motor of that joint.

    Raises InputError for missing columns, incomplete rows, and rows in motion (dq_<joint> other than 0).
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
        raise InputError("no-rows", found="a table without poses", expected="one row per pose", place=place)
    return StaticPoses(q, tau, side, np.zeros_like(q), np.full(len(q), np.nan))


def _refuse_row(wrong: Any, reason: str, expected: str, path: Path) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError("wrong-pose", found=reason, expected=expected, place=Place(file=str(path), row=row))


def _standstills(
    robot: RobotModel, chunk: RawChunk, settings: Standstill
) -> list[tuple[Float, Float, Float, Float, float]]:
    if chunk.tau is None or len(chunk.t) < 3:
        return []
    sound = np.isfinite(chunk.t) & np.isfinite(chunk.q).all(axis=1) & np.isfinite(chunk.tau).all(axis=1)
    t, q, tau = chunk.t[sound], chunk.q[sound], chunk.tau[sound]
    x = sided(robot, q)
    standstills = []
    for a, b in _runs(_rest_mask(t, q, settings.still)):
        inside = slice(int(np.searchsorted(t, t[a] + settings.settle)), b)
        if inside.start >= b or t[b - 1] - t[inside.start] < settings.dwell:
            continue
        pose, here = q[inside].mean(axis=0), x[inside].mean(axis=0)
        approach = np.array([_side(x[:a, j] - here[j], settings.away) for j in range(q.shape[1])])
        spread = tau[inside].std(axis=0)
        standstills.append(
            (pose, tau[inside].mean(axis=0), approach, spread, float(t[b - 1] - t[inside.start]))
        )
    return standstills


def sided(robot: RobotModel, q: Float) -> Float:
    """Positions whose direction determines the sign of friction, shape (n_samples, n_joints).

    These are the positions of the joints, or of the motors of coupled drives.
    """
    drive = robot.drive
    return drive.motor_position(q) / np.abs(drive.transmission).max(axis=1) if drive.coupled else q


def _rest_mask(t: Float, q: Float, limit: float) -> Bool:
    # The time span is symmetric, and shorter at the ends of the log.
    before = np.searchsorted(t, t - 0.5 * SPAN, side="left")
    after = np.minimum(np.searchsorted(t, t + 0.5 * SPAN, side="right"), len(t) - 1)
    elapsed = np.maximum(t[after] - t[before], 1e-9)
    return np.asarray((np.abs(q[after] - q[before]) / elapsed[:, None] < limit).all(axis=1))


def _runs(mask: Bool) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _side(before: Float, away: float) -> float:
    # The last position far from the pose gives the direction of approach.
    far = np.flatnonzero(np.abs(before) > away)
    return float(-np.sign(before[far[-1]])) if len(far) else 0.0


# Blocks of poses for intervals, as for motion.
BLOCKS_WANTED = 60


@dataclass(frozen=True, eq=False)
class BalancedPoses:
    """Poses averaged over measurements from both sides.

    For a drive whose motors move several joints, `both`, `stiction` and `offset_known` refer to motors.

    Attributes
    ----------
    q, tau : ndarray, shape (n_poses, n_joints)
        Of the joints, rad (m) and N m (N).
    both : ndarray of bool, shape (n_poses, n_joints)
        Whether the pose was approached from both sides.
    stiction : ndarray, shape (n_poses, n_joints), N m
        Half the difference between the two sides; nan if one is missing.
    offset_known : ndarray of bool, shape (n_joints,)
        Whether friction was averaged out of the torque. If not, the torque has an unknown offset of up to the friction
        at rest.

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
    """Result of static poses: gravity parameters and springs.

    Attributes
    ----------
    robot : RobotModel
    terms : Terms
    poses : BalancedPoses
    structural : BaseMap
        Base parameters that any poses could determine; `estimate.base` holds those that these poses determine.
    estimate : Estimate
    factors : Factors
        Equations of the poses, for a fit together with motion.

    """

    robot: RobotModel
    terms: Terms
    poses: BalancedPoses
    structural: BaseMap
    estimate: Estimate
    factors: Factors

    def given(self) -> Given:
        """Estimator of the dynamic step that keeps the parameters known from the poses, except constant torques.

        A constant torque at rest is not the offset of a moving joint, whose friction may depend on the direction.
        """
        base = self.estimate.base
        constant = np.array([flag for term in self.terms for flag in _constant(term, self.robot)])
        moving = [i for i in range(base.rank) if not (base.B[i] != 0)[constant].any()]
        if not moving:
            raise UnfitDataError(
                "no-statics",
                found="poses in which the torque of gravity does not change",
                expected="poses that differ in the torque of gravity or springs",
                do="add poses with other orientations of the links against gravity",
            )
        index = np.array(moving)
        return Given(
            base.B[index], self.estimate.value[index], self.estimate.covariance[np.ix_(index, index)]
        )

    def joined(self) -> Joined:
        """Estimator that fits poses and motion together, with separate constant torques at rest."""
        # All columns are needed: parameters that poses alone cannot determine still affect them.
        every = np.ones(len(self.estimate.columns), dtype=np.bool_)
        return Joined(static_factors(self.robot, self.terms, self.poses, every, centred=True))


@dataclass(frozen=True, eq=False)
class TwoStep:
    """Results of the static step, of the dynamic step with static parameters kept, and of one joint fit."""

    static: StaticEstimate
    two_step: Identification
    one_shot: Identification


def balanced(robot: RobotModel, poses: StaticPoses, tolerance: float = Standstill.tolerance) -> BalancedPoses:
    """Average measurements of the same pose over both directions of approach, joint by joint.

    If a joint has poses approached from both sides, its other poses are not used, because friction offsets them.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    poses : StaticPoses
        Static poses.
    tolerance : float, rad (m)
        Poses that differ by less on every joint are the same.

    Returns
    -------
    BalancedPoses

    """
    groups = _groups_of_same_pose(poses.q, tolerance)
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
    """Base parameters that static poses could determine, from random poses.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    seed : int
        Seed of all random draws.

    Returns
    -------
    BaseMap

    """
    return structural_base(robot, terms, StaticRows(), seed)


def identify_statics(
    robot: RobotModel,
    poses: StaticPoses | BalancedPoses,
    terms: Terms,
    *,
    seed: int = 0,
    diagnostics: Diagnostics | None = None,
) -> StaticEstimate:
    """Identify gravity parameters and springs from static poses by weighted least squares.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    poses : StaticPoses or BalancedPoses
        Static poses.
    terms : Terms
        The dynamic model, with an Offset for the constant torque of each joint; parameters without effect at rest are
        ignored.
    seed : int
        Seed of all random draws.
    diagnostics : Diagnostics, optional
        Gets a warning for joints whose poses were approached from one side only.

    Returns
    -------
    StaticEstimate

    Raises
    ------
    UnfitDataError
        If there are too few poses.
    UsageError
        If a term reads a log channel.

    """
    if terms.channels():
        raise UsageError(
            "statics-channel",
            found=f"terms that read {', '.join(terms.channels())}",
            expected="terms that depend on the position alone",
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
    """Equations of the poses with the wanted columns, in blocks of consecutive poses.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    poses : BalancedPoses
        Static poses.
    wanted : ndarray of bool, shape (p,)
        Columns to include.
    centred : bool
        Whether the mean over all poses is subtracted per joint, which is equivalent to a separate constant torque.

    Returns
    -------
    Factors

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
    """Static step, then the dynamic step with static parameters kept; and both in one joint fit.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    poses : StaticPoses or BalancedPoses
        Static poses.
    log : Log
        Motion of the dynamic step.
    settings : Settings, optional
        Model and signals of the dynamic step; its estimator is replaced.
    validation : Log, optional
        Held out for both.
    experiment, files : mapping, optional
        Stored with both results, as in `identify`.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.

    Returns
    -------
    TwoStep

    Raises
    ------
    UnfitDataError
        If poses or log are not sufficient.

    References
    ----------
    Nini et al. 2024, sections II-B and II-D, with the static covariance propagated.

    """
    chosen = (settings or Settings()).resolved()
    sink = diagnostics if diagnostics is not None else Diagnostics()
    static = identify_statics(robot, poses, chosen.model, seed=chosen.seed, diagnostics=sink)
    written = dict(experiment) if experiment is not None else settings_to_experiment(chosen)

    def dynamic(estimator: Given | Joined) -> Identification:
        collector = Diagnostics(accepting=sink.accepting | frozenset(chosen.accept))
        collector.extend(sink)
        return identify(
            robot,
            log,
            replace(chosen, estimator=estimator, accept=()),
            validation=validation,
            experiment=written,
            files=files,
            diagnostics=collector,
        )

    sequential, together = dynamic(static.given()), dynamic(static.joined())
    # A doubt that is accepted for one of the two need not occur with the other.
    both = Diagnostics([*sequential.diagnostics, *together.diagnostics])
    both.require_found(chosen.accept)
    return TwoStep(static, sequential, together)


def _groups_of_same_pose(q: Float, tolerance: float) -> list[Float]:
    # Each pose is added to the first group whose first pose is close.
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
            f"no pose of {', '.join(unknown)} was approached from both sides: friction at rest offsets the torque by "
            "an unknown amount; approach each pose from above and from below",
        )
    left = ~poses.both[:, poses.offset_known]
    if left.any():
        sink.note(
            "static-one-sided",
            f"{int(left.sum())} torques of poses approached from one side only are not used",
        )


def _constant(term: Any, robot: RobotModel) -> list[bool]:
    inner = getattr(term, "of", term)
    flat = inner.traits.basis is MotionBasis.ONE
    return [flat] * len(term.columns(robot))
