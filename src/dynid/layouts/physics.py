"""Test an interpretation of the columns against derivatives, joint limits and the torque of a rigid model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.base.units import is_multiple
from dynid.kernel import gravity_torque, inverse_dynamics, torque_regressor
from dynid.layouts.meaning import words
from dynid.layouts.names import Family
from dynid.layouts.proposal import Answers, Decision, Option, decided
from dynid.log.joints import RangeWatch, common_shift, half_turn, hand_joints
from dynid.log.mapping import LIMITS, motor_of, percent_of_limits, rad_per_percent, read_calibration
from dynid.log.prior_check import ANY, PriorTorque
from dynid.robot.model import RobotModel
from dynid.signals.filter import zero_phase_filter

# Cutoff frequency and maximum sampling rate of the analysis, Hz: gravity and slow motion are sufficient
# evidence.
CUTOFF, RATE = 5.0, 100.0
# Samples per fit, and number of time blocks; every other block is held out.
SAMPLES, BLOCKS = 400, 10
# An interpretation is decisively better if the product of the joints' mean square errors falls by this
# factor, as in diagnosis.wiring_checks.
DECISIVE = float(np.log(6.0))
RIDGE = 1e-8
# Maximum unexplained share of a joint's torque under a correct interpretation.
FITS = 0.25
# Width of the sign change of Coulomb friction relative to the maximum speed.
WIDTH = 0.03
# Weight of samples at rest relative to samples in motion.
STANDING = 0.1
# Duration cut from both ends of a run because of filter transients, s.
ENDS = 0.5
LEAST_SAMPLES = 60
# A full turn in deg and rad, and the tolerance for a step to count as a turn.
TURNS, NEAR_TURN = (360.0, 2 * np.pi), 0.2
# Minimum share of a joint's torque that the model file must explain for its scale to be meaningful.
EXPLAINS = 0.6
# Minimum weight on a prismatic joint relative to the robot's weight for it to show in the effort.
LIFTED = 0.02


@dataclass(frozen=True, eq=False)
class Recording:
    """Columns as logged.

    Attributes
    ----------
    t : (T,) array
        Time.
    q, dq, tau : (T, n) array
        Position, velocity and effort; velocity and effort may be None.
    runs : tuple of (int, int)
        First row and row after the last of each run.

    """

    t: Float
    q: Float
    dq: Float | None
    tau: Float | None
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Motion:
    """Filtered samples on an even time grid, in the log's units and seconds; `measured` is the logged velocity."""

    q: Float
    dq: Float
    ddq: Float
    tau: Float | None
    measured: Float | None

    def read_as(self, scale: float | Float, order: Sequence[int] | None = None) -> Motion:
        """The same motion with positions times `scale` (to rad; scalar or (n,)) and columns in another order."""
        columns = list(range(self.q.shape[1])) if order is None else list(order)
        return Motion(
            scale * self.q[:, columns],
            scale * self.dq[:, columns],
            scale * self.ddq[:, columns],
            None if self.tau is None else self.tau[:, columns],
            None if self.measured is None else self.measured[:, columns],
        )


def unwrapped(q: Float) -> Float:
    """Positions (T, n) without jumps of a full turn, unless the joint also moves that far between other rows."""
    out = q.copy()
    for j in range(q.shape[1]):
        steps = np.diff(q[:, j])
        for turn in TURNS:
            jumps = np.abs(np.abs(steps) - turn) < NEAR_TURN * turn
            rest = np.abs(steps[~jumps & np.isfinite(steps)]).max(initial=0.0)
            if jumps.any() and rest < NEAR_TURN * turn:
                out[1:, j] -= np.cumsum(np.where(jumps, turn * np.sign(steps), 0.0))
                break
    return out


def time_step(t: Float, runs: Sequence[tuple[int, int]]) -> float:
    """Median step within the runs, in the clock's unit; nan if the time does not increase."""
    steps = np.concatenate([np.diff(t[a:b]) for a, b in runs]) if runs else np.zeros(0)
    ahead = steps[steps > 0]
    if len(ahead) < 0.5 * max(len(steps), 1):
        return float("nan")
    return float(np.median(ahead))


def runs_of(t: Float, labels: Sequence[object] | None = None) -> tuple[tuple[int, int], ...]:
    """Runs of rows with the same label in which time does not decrease."""
    edges = {0, len(t)}
    edges |= {int(k) + 1 for k in np.flatnonzero(~(np.diff(t) >= 0))}
    if labels is not None:
        edges |= {k for k in range(1, len(labels)) if labels[k] != labels[k - 1]}
    ends = sorted(edges)
    return tuple((a, b) for a, b in pairwise(ends) if b - a > 1)


def motion_of(recording: Recording, second: float) -> Motion | None:
    """Filtered motion; None if too few samples remain.

    Parameters
    ----------
    recording : Recording
        Columns as logged.
    second : float
        Factor of the clock's unit to s.

    """
    parts = [part for a, b in recording.runs if (part := _part(recording, a, b, second)) is not None]
    if not parts or sum(len(part.q) for part in parts) < LEAST_SAMPLES:
        return None

    def joined(values: list[Float | None]) -> Float | None:
        kept = [part for part in values if part is not None]
        return np.concatenate(kept) if len(kept) == len(values) else None

    whole = [
        joined([getattr(part, name) for part in parts]) for name in ("q", "dq", "ddq", "tau", "measured")
    ]
    q, dq, ddq, tau, measured = whole
    if q is None or dq is None or ddq is None:
        return None
    return Motion(q, dq, ddq, tau, measured)


def _part(recording: Recording, a: int, b: int, second: float) -> Motion | None:
    t = recording.t[a:b] * second
    groups = [recording.q, recording.dq, recording.tau]
    lines = np.concatenate([values[a:b] for values in groups if values is not None], axis=1)
    good = np.isfinite(t) & np.isfinite(lines).all(axis=1)
    good[1:] &= np.diff(t) > 0
    t, lines = t[good], lines[good]
    if len(t) < LEAST_SAMPLES:
        return None
    rate = min(1.0 / float(np.median(np.diff(t))), RATE)
    if not np.isfinite(rate) or (t[-1] - t[0]) * rate < LEAST_SAMPLES or (t[-1] - t[0]) * rate > 1e7:
        return None
    grid = np.arange(t[0], t[-1], 1.0 / rate)
    even = np.stack([np.interp(grid, t, line) for line in lines.T])
    smooth = zero_phase_filter(min(CUTOFF, 0.2 * rate), 4, rate)(even).T
    cut = slice(int(ENDS * rate), len(grid) - int(ENDS * rate))
    n = recording.q.shape[1]
    q = smooth[:, :n]
    dq = np.gradient(q, 1.0 / rate, axis=0)
    ddq = np.gradient(dq, 1.0 / rate, axis=0)
    further = smooth[:, n:]
    measured = further[:, :n] if recording.dq is not None else None
    tau = further[:, -n:] if recording.tau is not None else None
    if len(grid[cut]) < LEAST_SAMPLES:
        return None
    return Motion(
        q[cut], dq[cut], ddq[cut], *(None if values is None else values[cut] for values in (tau, measured))
    )


def velocity_ratio(motion: Motion) -> tuple[Float, Float]:
    """Slope of the logged velocity over the derivative of the position, and share that it explains, (n,) each."""
    x, y = motion.dq, motion.measured
    if y is None:
        return np.full(x.shape[1], np.nan), np.zeros(x.shape[1])
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    xx, yy, xy = (x * x).sum(axis=0), (y * y).sum(axis=0), (x * y).sum(axis=0)
    tiny = np.finfo(float).tiny
    return xy / np.maximum(xx, tiny), xy**2 / np.maximum(xx * yy, tiny)


def misfit(robot: RobotModel, motion: Motion) -> Float | None:
    """Ratio (n,) of held-out mean square error to variance for a rigid model with friction; None without torque.

    Least squares of tau = Y(q, dq, ddq) pi + friction + rotor inertia + offset per joint, in any unit of tau.
    The ratio is 1 for a joint with a constant effort.
    """
    part = _thinned(motion)
    if part.tau is None or len(part.q) < LEAST_SAMPLES:
        return None
    size = part.tau.std(axis=0)
    live = np.flatnonzero(size > 0)
    if not len(live):
        return None
    columns, panels = _columns(robot, part)
    rows = [(columns[j], panels[j] / size[j], part.tau[:, j] / size[j]) for j in live]
    fold = (np.arange(len(part.q)) * BLOCKS // len(part.q)) % 2
    equations = [_Equations.of(rows, fold == k) for k in (0, 1)]
    length = np.sqrt(sum(np.diag(side.gram) for side in equations))
    used = np.flatnonzero(length > 0)
    error = np.zeros(len(live))
    for held_out in (0, 1):
        theta = np.zeros(len(length))
        theta[used] = equations[1 - held_out].solved(used, length[used])
        for i, (chosen, panel, y) in enumerate(rows):
            left = (y - panel @ theta[chosen])[fold == held_out]
            error[i] += 0.5 * (left**2).mean() / max(y[fold == held_out].var(), 1e-12)
    whole = np.ones(robot.n)
    whole[live] = np.maximum(error, 1e-12)
    return whole


def _columns(robot: RobotModel, part: Motion) -> tuple[list[Int], list[Float]]:
    """Columns of the regressor that affect each joint's torque, and their values (T, w).

    These are the parameters of the links beyond the joint, and its own friction, rotor inertia and offset.
    """
    bodies = 10 * robot.n_bodies
    tree = torque_regressor(robot.tree, *robot.tree_motion(part.q, part.dq, part.ddq))
    columns, panels = [], []
    for j in range(robot.n):
        moved = np.flatnonzero(robot.projection[:, j])
        touched = np.unique(np.concatenate([tree.columns[i] for i in moved])).astype(np.int64)
        rigid = np.zeros((len(touched), len(part.q)))
        for i in moved:
            rigid[np.searchsorted(touched, tree.columns[i])] += robot.projection[i, j] * tree.values[i]
        columns.append(np.concatenate([touched, bodies + 4 * j + np.arange(4)]))
        panels.append(np.column_stack([rigid.T, _friction(part.dq[:, j]), part.ddq[:, j]]))
    return columns, panels


@dataclass(frozen=True, eq=False)
class _Equations:
    """Normal equations of all joints together, with `gram` of shape (k, k) and `side` of shape (k,)."""

    gram: Float
    side: Float

    @staticmethod
    def of(rows: Sequence[tuple[Int, Float, Float]], chosen: Bool) -> _Equations:
        count = 1 + max(int(used.max()) for used, _, _ in rows)
        gram, side = np.zeros((count, count)), np.zeros(count)
        for used, panel, y in rows:
            part = panel[chosen]
            gram[np.ix_(used, used)] += part.T @ part
            side[used] += part.T @ y[chosen]
        return _Equations(gram, side)

    def solved(self, used: Int, length: Float) -> Float:
        """Ridge solution for the `used` columns, scaled to unit length."""
        gram = self.gram[np.ix_(used, used)] / np.outer(length, length)
        gram[np.diag_indices(len(gram))] += RIDGE * np.trace(gram) / len(gram)
        return np.asarray(np.linalg.solve(gram, self.side[used] / length) / length)


def description_scale(robot: RobotModel, motion: Motion) -> tuple[Float, Float, Float] | None:
    """Ratio (n,) of logged effort to the torque predicted from the model file, explained share, and predicted size.

    Friction and an offset per joint are removed from both torques. The prediction uses the mounting angle
    that fits best, which may differ from that of the model file. None if the model file lacks masses.
    """
    part = _thinned(motion)
    pi = robot.inertia_prior
    if (
        part.tau is None
        or not np.isfinite(pi).all()
        or not (pi[:, 0] > 0).any()
        or len(part.q) < LEAST_SAMPLES
    ):
        return None
    prior = PriorTorque.of(robot, part.q, part.dq, part.ddq)
    mounting = prior.mounting(robot, part.tau, ANY)
    described = (prior.inertial + prior.gravity @ (robot.gravity if mounting is None else mounting)).T
    slope, share, size = np.zeros(robot.n), np.zeros(robot.n), np.zeros(robot.n)
    for j in range(robot.n):
        N = _friction(part.dq[:, j])
        m, u = (x - N @ np.linalg.lstsq(N, x, rcond=None)[0] for x in (described[:, j], part.tau[:, j]))
        mm, uu, mu = float(m @ m), float(u @ u), float(m @ u)
        size[j] = np.sqrt(mm / len(m))
        if mm > 0 and uu > 0:
            slope[j], share[j] = mu / mm, mu * mu / (mm * uu)
    return slope, share, size


def contradicted_link(
    robot: RobotModel, motion: Motion, described: tuple[Float, Float, Float]
) -> tuple[int, tuple[Float, Float, Float]] | None:
    """The link without which the model file explains the torque decisively better, as if its mass were given in grams.

    None if no link qualifies.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    motion : Motion
        Filtered motion.
    described : tuple
        Result of `description_scale` with all links.

    Returns
    -------
    link : int
        Index of the link.
    without : tuple
        Result of `description_scale` without it.

    """

    def unexplained(share: Float) -> float:
        return float(np.log(1.0 - np.minimum(share, 1.0 - 1e-6)).sum())

    best: tuple[int, tuple[Float, Float, Float]] | None = None
    left = unexplained(described[1]) - DECISIVE
    for link in np.flatnonzero(robot.inertia_prior[:, 0] > 0).tolist():
        prior = np.array(robot.inertia_prior)
        prior[link] = 0.0
        without = description_scale(replace(robot, inertia_prior=prior), motion)
        if without is not None and unexplained(without[1]) < left:
            best, left = (link, without), unexplained(without[1])
    return best


def evidence(robot: RobotModel, here: Motion, there: Motion) -> tuple[float, str] | None:
    """Compare two interpretations of the positions by the torque.

    Returns
    -------
    advantage : float
        Sum over the joints of log error ratios; positive if the first is better, decisive beyond +-
        DECISIVE.
    words : str
        The evidence in words. None in place of both values without torque.

    """
    a, b = misfit(robot, here), misfit(robot, there)
    if a is None or b is None:
        return None
    advantage, words = gain(a, b), "a rigid model fits the torque far better"
    seen, turned = description_scale(robot, here), description_scale(robot, there)
    if abs(advantage) <= DECISIVE and seen is not None and turned is not None:
        # Known masses are stronger evidence than a fit with free parameters.
        share = np.log((1 - np.minimum(turned[1], 1 - 1e-6)) / (1 - np.minimum(seen[1], 1 - 1e-6)))
        if max(seen[1].max(), turned[1].max()) > EXPLAINS:
            advantage, words = float(share.sum()), "the model file explains the torque far better"
    return advantage, words


def weight_share(robot: RobotModel, motion: Motion) -> float | None:
    """Ratio of the measured constant effort to the weight carried by the prismatic joints; None if they carry none.

    For robots whose joints are all prismatic: the weight is then constant and independent of the position
    unit. The constant effort is the intercept of a least-squares fit with the predicted inertial force and
    friction.
    """
    part, pi = _thinned(motion), robot.inertia_prior
    if part.tau is None or not np.isfinite(pi).all() or len(part.q) < LEAST_SAMPLES:
        return None
    q, dq, ddq = robot.tree_motion(part.q, part.dq, part.ddq)
    weight = gravity_torque(robot.tree, pi, q) @ robot.projection
    moved = inverse_dynamics(robot.tree, pi, q, dq, ddq) @ robot.projection - weight
    mean = np.abs(weight.mean(axis=0))
    j = int(np.argmax(mean))
    if not mean[j] > LIFTED * np.abs(pi[:, 0]).sum() * float(np.linalg.norm(robot.tree.gravity)):
        return None
    columns = np.column_stack([moved[:, j], _friction(part.dq[:, j])])
    size = np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)
    theta = np.linalg.lstsq(columns / size, part.tau[:, j], rcond=None)[0] / size
    return float(theta[-1] / weight[:, j].mean())


def exchanges(order: Sequence[int]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Orders with two columns exchanged, each with the two joint indices."""
    for i, j in combinations(range(len(order)), 2):
        swapped = list(order)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        yield i, j, tuple(swapped)


def gain(declared: Float, other: Float) -> float:
    """Sum over the joints of log(other / declared); positive if the declared interpretation is better."""
    return float(np.log(other / declared).sum())


def _friction(dq: Float) -> Float:
    fastest = max(float(np.abs(dq).max(initial=0.0)), np.finfo(float).tiny)
    return np.stack([np.tanh(dq / (WIDTH * fastest)), dq / fastest, np.ones_like(dq)], axis=1)


def _thinned(motion: Motion) -> Motion:
    # Samples at rest get a low weight, because only motion distinguishes the interpretations.
    fastest = np.maximum(np.abs(motion.dq).max(axis=0, initial=0.0), np.finfo(float).tiny)
    moves = (np.abs(motion.dq) > WIDTH * fastest).any(axis=1)
    share = np.cumsum(np.where(moves, 1.0, STANDING))
    T = len(share)
    wanted = np.linspace(0.0, share[-1], min(SAMPLES, T)) if T else share
    at = np.unique(np.minimum(np.searchsorted(share, wanted), max(T - 1, 0)))
    return Motion(
        motion.q[at],
        motion.dq[at],
        motion.ddq[at],
        None if motion.tau is None else motion.tau[at],
        None if motion.measured is None else motion.measured[at],
    )


# Zero of the logged positions: as logged, or shifted if joints would otherwise exceed their limits.

OFFSET = "log.position.offset"
_NAMED = 3  # joints that are listed
_LEAST_COUNT = 100  # below this maximum, the values are not encoder counts


def answered_offsets(joints: Sequence[str], answers: Answers) -> dict[str, float]:
    """Answered offset of each joint in the position unit; empty without an answer.

    Parameters
    ----------
    joints : sequence of str
        Joints that have a position column.
    answers : Answers
        User answers by key.

    Raises
    ------
    UsageError
        If the answer is neither one number nor one per joint.

    """
    if OFFSET not in answers:
        return {}
    try:
        values = [float(number) for number in answers[OFFSET].replace(",", " ").split()]
    except ValueError:
        values = []
    if len(values) not in (1, len(joints)) or not np.isfinite(values).all():
        raise UsageError(
            "unknown-answer",
            found=f"{OFFSET} = {answers[OFFSET]}",
            expected="one number for all joints"
            + (f", or {len(joints)} from base to tip, separated by commas" if len(joints) > 1 else ""),
        )
    return dict(zip(joints, values * len(joints) if len(values) == 1 else values, strict=True))


def moved_by(recording: Recording, robot: RobotModel, offsets: dict[str, float]) -> Recording:
    """Recording with positions that count from the zero of the model file."""
    if not offsets:
        return recording
    return replace(recording, q=recording.q + [offsets.get(joint, 0.0) for joint in robot.joint_names])


def from_another_zero(robot: RobotModel, joints: Sequence[str], recording: Recording, scale: float) -> Bool:
    """Joints (n,) that are outside of their limits in every sample but would be inside with another zero.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joints : sequence of str
        Joints that have a position column.
    recording : Recording
        Columns as logged.
    scale : float
        Factor of the position unit to rad or m.

    """
    if not np.isfinite(scale):
        return np.zeros(robot.n, dtype=np.bool_)
    watch, q = RangeWatch(robot), scale * recording.q
    for start, end in recording.runs:
        watch.see(q[start:end])
        watch.end()
    with np.errstate(invalid="ignore"):
        displaced = watch.displaced(*_ends(q))
    return np.asarray(displaced & np.isin(robot.joint_names, list(joints)))


def decide_offset(
    robot: RobotModel,
    joints: Sequence[str],
    recording: Recording,
    scale: float | Float,
    unit: str,
    answers: Answers,
) -> Decision | None:
    """Decide the offset of the positions, in their unit; None if nothing contradicts the logged zero.

    With the offered offset, every joint with limits stays within them.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joints : sequence of str
        Joints that have a position column.
    recording : Recording
        Recording after an answered offset was applied.
    scale : float or (n,) array
        Factor of the position unit to SI.
    unit : str
        Unit of the positions.
    answers : Answers
        User answers by key.

    """
    if OFFSET in answers:
        answered_offsets(joints, answers)
        return Decision(OFFSET, answers[OFFSET], ("as you say",), optional=True)
    if not isinstance(scale, float):
        return None  # positions in percent get their zero from the calibration
    outside = from_another_zero(robot, joints, recording, scale)
    if not outside.any():
        return None
    low, high = _ends(scale * recording.q)
    hands = hand_joints(robot)
    needed = [
        j
        for j, joint in enumerate(robot.joint_names)
        if joint in joints and (outside[j] or joint not in hands)
    ]
    if len({robot.prismatic[j] for j in needed}) > 1:
        return None
    least, most = common_shift(robot, low, high, needed)
    if least > most:
        return None
    options = tuple(
        Option(f"{-zero:g}", f"{zero:g} is zero, {words}: every joint stays within its limits")
        for zero, words in _usual(robot, needed, recording.q, scale, least, most)
    )
    names = [robot.joint_names[j] for j in np.flatnonzero(outside)]
    ranges = [
        f"{robot.joint_names[j]} from {low[j]:.3g} to {high[j]:.3g} {'m' if robot.prismatic[j] else 'rad'}, limits "
        f"{robot.limits.lower[j]:.3g} to {robot.limits.upper[j]:.3g}"
        for j in np.flatnonzero(outside)[:_NAMED]
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    why = (
        f"as logged, joints are outside of their limits in every sample: {'; '.join(ranges)}{more}",
        f"with {least / scale:.6g} to {most / scale:.6g} added, every joint stays within its limits",
    )
    question = (
        f"which offset must be added to the positions, in {unit}, so that they count from the "
        "zero of the model file (one number for all joints, or one per joint from base to "
        "tip, separated by commas)?"
    )
    as_logged = Option("0", "as logged, if the limits in the model file are wrong")
    return Decision(OFFSET, None, why, question, (*options, as_logged) if options else ())


def decide_counters_zero(
    robot: RobotModel,
    joints: Sequence[str],
    recording: Recording,
    scale: float,
    unit: str,
    motion: Motion | None,
) -> Decision | None:
    """Decide whether the zero of encoder counts that are never negative lies in the middle of the counter's range.

    The torque decides, by a rigid model or by the masses of the model file. None if the zero is as logged.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joints : sequence of str
        Names of the joints.
    recording : Recording
        Columns as logged.
    scale : float
        Factor of the unit to rad.
    unit : str
        Unit of the positions.
    motion : Motion or None
        Motion as logged.

    """
    places = [robot.joint_names.index(joint) for joint in joints]
    middle = _middle(recording.q[:, places])
    if motion is None or middle is None or not is_multiple(unit) or any(robot.prismatic[j] for j in places):
        return None
    here = motion.read_as(scale)
    advantage = evidence(robot, replace(here, q=here.q - middle * scale), here)
    if advantage is not None and abs(advantage[0]) > DECISIVE:
        why = f"{advantage[1]} with {middle:g} as zero, the middle of a counter's range"
        return Decision(OFFSET, f"{-middle:g}", (why,), likely=True) if advantage[0] > 0 else None
    why = "the counts are never negative, and the torque does not determine their zero"
    question = (
        f"which offset must be added to the positions, in {unit}, so that they count from the "
        "zero of the model file (one number for all joints, or one per joint from base to "
        "tip, separated by commas)?"
    )
    options = (
        Option(f"{-middle:g}", f"{middle:g} is zero, the middle of a counter's range"),
        Option("0", "as logged"),
    )
    return Decision(OFFSET, None, (why,), question, options)


def _middle(read: Float) -> float | None:
    """Middle of the counter's range for counts that are never negative; None for other values."""
    read = read[np.isfinite(read)]
    if not len(read) or not ((read >= 0) & (read == np.round(read))).all() or read.max() < _LEAST_COUNT:
        return None
    return float(0.5 * 2.0 ** np.ceil(np.log2(read.max() + 1.0)))


def _ends(q: Float) -> tuple[Float, Float]:
    return np.fmin.reduce(q, axis=0), np.fmax.reduce(q, axis=0)


def _usual(
    robot: RobotModel, joints: Sequence[int], q: Float, scale: float, least: float, most: float
) -> list[tuple[float, str]]:
    """Usual zeros of drives that fit the limits, and their names: half a turn, or the middle of a counter's range."""
    zeros: dict[float, str] = {}
    half = None if robot.prismatic[joints[0]] else half_turn(least, most)
    if half is not None:
        zeros[-round(half / scale, 9)] = "half a turn"
    middle = _middle(q[:, list(joints)])
    if middle is not None and least <= -middle * scale <= most:
        zeros.setdefault(middle, "the middle of a counter's range")
    return list(zeros.items())


# Calibration file of positions in percent of each motor's range.

CALIBRATION = "log.position.calibration"
# Upper end of a percentage of a motor's range; a value above it, or a negative one of a gripper, is an angle.
WHOLE = 100.0


def decide_calibration(answers: Answers) -> Decision:
    """Decide the calibration file, or ask for it."""
    asked = "which calibration file did lerobot-calibrate write for this arm?"
    why = ("one percent is a different angle on each motor",)
    instead = (f"{CALIBRATION}={LIMITS}", " (their ranges are the joints' limits in the robot file)")
    decision = decided(Decision(CALIBRATION, None, why, asked, example=instead), answers)
    # Absolute path, because the experiment file may be in another folder.
    return (
        decision
        if decision.value in (None, LIMITS)
        else replace(decision, value=str(Path(decision.value).expanduser().resolve()))
    )


def rad_by_joint(robot: RobotModel, family: Family, answers: Answers) -> Float | None:
    """Angle of one percent of each motor's range (n,), rad; None without an answered calibration."""
    if CALIBRATION not in answers:
        return None
    if answers[CALIBRATION] == LIMITS:
        return np.array([scale for scale, _ in _of_limits(robot, family)])
    motors = read_calibration(Path(answers[CALIBRATION]).expanduser())
    scale = np.full(robot.n, np.nan)
    for joint, column in zip(family.joints, family.columns, strict=False):
        motor = motor_of(column, joint, motors)
        if motor is not None:
            scale[robot.joint_names.index(joint)] = rad_per_percent(motor, motors[motor])
    # Joints without a column are constant.
    scale[[robot.joint_names.index(joint) for joint in family.missing]] = 0.0
    return scale


def _of_limits(robot: RobotModel, family: Family) -> list[tuple[float, float]]:
    """Angle in rad per percent, and position in rad at 0 %, of each joint; its limits are the range, 0 = no column."""
    columns = dict(zip(family.joints, family.columns, strict=False))
    return [
        percent_of_limits(columns[joint], joint, float(robot.limits.lower[j]), float(robot.limits.upper[j]))
        if joint in columns
        else (0.0, 0.0)
        for j, joint in enumerate(robot.joint_names)
    ]


def joints_in_percent(robot: RobotModel, family: Family, q: Float) -> tuple[str, ...]:
    """Revolute joints with limits that a preset says to be in percent, if no value (T, n) contradicts it."""
    return tuple(
        joint
        for joint, column in zip(family.joints, family.columns, strict=False)
        for j in (robot.joint_names.index(joint),)
        if any(word in words(joint) or word in words(column) for word in family.meaning.percent)
        and not robot.prismatic[j]
        and np.isfinite([robot.limits.lower[j], robot.limits.upper[j]]).all()
        and np.nanmin(q[:, j], initial=0.0) >= 0.0
        and np.nanmax(q[:, j], initial=0.0) <= WHOLE
    )


def percent_as_angles(
    robot: RobotModel, family: Family, q: Float, joints: Sequence[str], unit: float, answers: Answers
) -> Float:
    """Convert the positions of joints in percent to the angle unit of the other joints; shape (T, n).

    Parameters
    ----------
    robot : RobotModel
        The robot.
    family : Family
        Column group of the positions.
    q : (T, n) array
        Positions as logged.
    joints : sequence of str
        Joints in percent.
    unit : float
        Angle unit of the others, rad.
    answers : Answers
        User answers by key; without a calibration file the range is that of the limits.

    """
    limits = _of_limits(robot, family)
    by_file = None if answers.get(CALIBRATION, LIMITS) == LIMITS else rad_by_joint(robot, family, answers)
    out = q.copy()
    for joint in joints:
        j = robot.joint_names.index(joint)
        scale, zero = limits[j] if by_file is None else (float(by_file[j]), 0.0)
        out[:, j] = (zero + scale * q[:, j]) / unit
    return out
