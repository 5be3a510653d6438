"""What physics says of a reading of the columns: clocks, derivatives, limits, and the torque of a rigid arm."""

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
from dynid.layouts.names import Family
from dynid.layouts.proposal import Answers, Decision, Option, decided
from dynid.log.joints import RangeWatch, common_shift, half_turn, hand_joints
from dynid.log.mapping import motor_of, rad_per_percent, read_calibration
from dynid.log.prior_check import find_mounting
from dynid.robot.model import RobotModel
from dynid.signals.filter import zero_phase_filter

# Signals are looked at below this frequency, Hz, on at most this rate: what gravity and slow motion say is enough.
CUTOFF, RATE = 5.0, 100.0
# Samples of one fit, and blocks of time of which every other one is held out.
SAMPLES, BLOCKS = 400, 10
# A reading is decisively better where the product over the joints of the mean square errors falls by this factor, as
# in diagnosis.wiring_checks.
DECISIVE = float(np.log(6.0))
RIDGE = 1e-8
# A reading that is right leaves the joints that it changes at most this share of their torque.
FITS = 0.25
# Coulomb friction turns over within this share of the greatest speed.
WIDTH = 0.03
# Of as many samples in motion, this share is looked at where all joints stand.
STANDING = 0.1
# Seconds cut from both ends of a run, where the filter swings.
ENDS = 0.5
LEAST_SAMPLES = 60
# A whole turn; a step is one, or none, within this share of it.
TURNS, NEAR_TURN = (360.0, 2 * np.pi), 0.2
# Share of a joint's torque that the description has to explain before its scale means anything.
EXPLAINS = 0.6
# Slides that carry less than this share of the robot's weight lift nothing that the effort would show.
LIFTED = 0.02


@dataclass(frozen=True, eq=False)
class Recording:
    """Columns as they were logged.

    t: (T,).    q, dq, tau: (T, n), dq and tau None where not looked at.    runs: rows of each motion, [from, to).
    """

    t: Float
    q: Float
    dq: Float | None
    tau: Float | None
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Motion:
    """Filtered samples on a regular grid, in the log's units a second.    measured: the logged velocity, or None."""

    q: Float
    dq: Float
    ddq: Float
    tau: Float | None
    measured: Float | None

    def read_as(self, scale: float | Float, order: Sequence[int] | None = None) -> Motion:
        """The same with positions times `scale` (to rad, one or (n,)), and columns in another order."""
        columns = list(range(self.q.shape[1])) if order is None else list(order)
        return Motion(
            scale * self.q[:, columns],
            scale * self.dq[:, columns],
            scale * self.ddq[:, columns],
            None if self.tau is None else self.tau[:, columns],
            None if self.measured is None else self.measured[:, columns],
        )


def unwrapped(q: Float) -> Float:
    """Positions (T, n) without jumps by a whole turn, of 360 or 2 pi, where nothing else moves so fast."""
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
    """Median step of the clock within the runs, in its own unit; nan where it does not ascend."""
    steps = np.concatenate([np.diff(t[a:b]) for a, b in runs]) if runs else np.zeros(0)
    ahead = steps[steps > 0]
    if len(ahead) < 0.5 * max(len(steps), 1):
        return float("nan")
    return float(np.median(ahead))


def runs_of(t: Float, labels: Sequence[object] | None = None) -> tuple[tuple[int, int], ...]:
    """Stretches of rows of one label in which time does not run back."""
    edges = {0, len(t)}
    edges |= {int(k) + 1 for k in np.flatnonzero(~(np.diff(t) >= 0))}
    if labels is not None:
        edges |= {k for k in range(1, len(labels)) if labels[k] != labels[k - 1]}
    ends = sorted(edges)
    return tuple((a, b) for a, b in pairwise(ends) if b - a > 1)


def motion_of(recording: Recording, second: float) -> Motion | None:
    """Filtered motion.    second: length of the clock's unit in s.    None where too little is left."""
    parts = [part for a, b in recording.runs if (part := _part(recording, a, b, second)) is not None]
    if not parts or sum(len(part.q) for part in parts) < LEAST_SAMPLES:
        return None

    def joined(values: list[Float | None]) -> Float | None:
        kept = [one for one in values if one is not None]
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
    lines = np.concatenate([one[a:b] for one in groups if one is not None], axis=1)
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
    return Motion(q[cut], dq[cut], ddq[cut], *(None if one is None else one[cut] for one in (tau, measured)))


def velocity_ratio(motion: Motion) -> tuple[Float, Float]:
    """Slope of the logged velocity over the derivative of the position, and share explained by it, (n,) each."""
    x, y = motion.dq, motion.measured
    if y is None:
        return np.full(x.shape[1], np.nan), np.zeros(x.shape[1])
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    xx, yy, xy = (x * x).sum(axis=0), (y * y).sum(axis=0), (x * y).sum(axis=0)
    tiny = np.finfo(float).tiny
    return xy / np.maximum(xx, tiny), xy**2 / np.maximum(xx * yy, tiny)


def misfit(robot: RobotModel, motion: Motion) -> Float | None:
    """Mean square error over variance of a rigid arm with friction on held-out blocks, (n,); None without torque.

    Least squares: tau = Y(q, dq, ddq) pi + friction, rotor and offset of each joint, whatever its unit. One for joints
    whose effort never changes.
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
    length = np.sqrt(sum(np.diag(one.gram) for one in equations))
    used = np.flatnonzero(length > 0)
    error = np.zeros(len(live))
    for held in (0, 1):
        theta = np.zeros(len(length))
        theta[used] = equations[1 - held].solved(used, length[used])
        for i, (own, panel, y) in enumerate(rows):
            left = (y - panel @ theta[own])[fold == held]
            error[i] += 0.5 * (left**2).mean() / max(y[fold == held].var(), 1e-12)
    whole = np.ones(robot.n)
    whole[live] = np.maximum(error, 1e-12)
    return whole


def _columns(robot: RobotModel, part: Motion) -> tuple[list[Int], list[Float]]:
    """Columns of the trial model that each joint's torque has, and their values (T, w).

    A joint feels the bodies beyond it alone, and its own friction, rotor and offset.
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
    """Normal equations of all joints together.    gram: (k, k).    side: (k,)."""

    gram: Float
    side: Float

    @staticmethod
    def of(rows: Sequence[tuple[Int, Float, Float]], chosen: Bool) -> _Equations:
        count = 1 + max(int(own.max()) for own, _, _ in rows)
        gram, side = np.zeros((count, count)), np.zeros(count)
        for own, panel, y in rows:
            part = panel[chosen]
            gram[np.ix_(own, own)] += part.T @ part
            side[own] += part.T @ y[chosen]
        return _Equations(gram, side)

    def solved(self, used: Int, length: Float) -> Float:
        """Parameters of some columns, which are brought to length one and kept small by a ridge."""
        gram = self.gram[np.ix_(used, used)] / np.outer(length, length)
        gram[np.diag_indices(len(gram))] += RIDGE * np.trace(gram) / len(gram)
        return np.asarray(np.linalg.solve(gram, self.side[used] / length) / length)


def description_scale(robot: RobotModel, motion: Motion) -> tuple[Float, Float, Float] | None:
    """Logged effort over the torque of the description, share explained, and the robot file's torque, (n,) each.

    Friction and an offset of each joint are taken off both. The robot may stand another way than described: what is
    compared then is the torque under gravity as it acts.    None where the description lacks masses.
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
    motion_of_tree = robot.tree_motion(part.q, part.dq, part.ddq)
    described = inverse_dynamics(robot.tree, pi, *motion_of_tree) @ robot.projection
    weight = gravity_torque(robot.tree, pi, motion_of_tree[0]) @ robot.projection
    mounting = find_mounting(robot, motion_of_tree[0], part.dq, described - weight, part.tau)
    if mounting is not None:
        turned = replace(robot.tree, gravity=mounting.gravity)
        described = inverse_dynamics(turned, pi, *motion_of_tree) @ robot.projection
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
    """The link without which the description explains the torque decisively better, as one in grams; None = no link.

    described: as `description_scale` has it with all links.    Returns the link's number, and the same without it.
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
    """How much better the torque speaks for one reading of the positions than for another, and what of it does.

    Beyond +- DECISIVE it decides. None without torque.
    """
    a, b = misfit(robot, here), misfit(robot, there)
    if a is None or b is None:
        return None
    advantage, words = gain(a, b), "a rigid arm fits the torque far better"
    seen, turned = description_scale(robot, here), description_scale(robot, there)
    if abs(advantage) <= DECISIVE and seen is not None and turned is not None:
        # What the robot file's own masses explain is the stronger witness, where they are known.
        share = np.log((1 - np.minimum(turned[1], 1 - 1e-6)) / (1 - np.minimum(seen[1], 1 - 1e-6)))
        if max(seen[1].max(), turned[1].max()) > EXPLAINS:
            advantage, words = float(share.sum()), "the description explains the torque far better"
    return advantage, words


def weight_share(robot: RobotModel, motion: Motion) -> float | None:
    """Logged effort that is the same at rest and both ways over the weight that slides carry; None = they lift nothing.

    Of robots whose joints all slide: weights are the same everywhere then, and in any unit of the positions. Least
    squares of each effort on what accelerations need by the description, friction and a constant.
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
    found = np.linalg.lstsq(columns / size, part.tau[:, j], rcond=None)[0] / size
    return float(found[-1] / weight[:, j].mean())


def exchanges(order: Sequence[int]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The orders in which two columns are exchanged, with the joints concerned."""
    for i, j in combinations(range(len(order)), 2):
        swapped = list(order)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        yield i, j, tuple(swapped)


def gain(declared: Float, other: Float) -> float:
    """Sum over the joints of log(other / declared): above 0 the declared reading is better."""
    return float(np.log(other / declared).sum())


def _friction(dq: Float) -> Float:
    fastest = max(float(np.abs(dq).max(initial=0.0)), np.finfo(float).tiny)
    return np.stack([np.tanh(dq / (WIDTH * fastest)), dq / fastest, np.ones_like(dq)], axis=1)


def _thinned(motion: Motion) -> Motion:
    # A log that stands for most of the time has little to say there, and its motion is what readings are told apart by.
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


# Where the zero of logged positions is: as logged, or elsewhere where joints would leave their limits
# otherwise.

OFFSET = "log.position.offset"
_NAMED = 3  # joints whose readings are told
_LEAST_COUNT = 100  # less is a reading in no counts of a turn


def answered_offsets(joints: Sequence[str], answers: Answers) -> dict[str, float]:
    """What is added to the positions of each joint, in their unit, as the user says; {} without an answer.

    joints: with a position.    Raises UsageError for an answer that is neither one number nor one each.
    """
    if OFFSET not in answers:
        return {}
    try:
        values = [float(one) for one in answers[OFFSET].replace(",", " ").split()]
    except ValueError:
        values = []
    if len(values) not in (1, len(joints)) or not np.isfinite(values).all():
        raise UsageError(
            "unknown-answer",
            found=f"{OFFSET} = {answers[OFFSET]}",
            expected="one number for all joints"
            + (f", or {len(joints)} from base to tip, with commas" if len(joints) > 1 else ""),
        )
    return dict(zip(joints, values * len(joints) if len(values) == 1 else values, strict=True))


def moved_by(recording: Recording, robot: RobotModel, offsets: dict[str, float]) -> Recording:
    """The recording with positions that count from the robot file's zero."""
    if not offsets:
        return recording
    return replace(recording, q=recording.q + [offsets.get(joint, 0.0) for joint in robot.joint_names])


def from_another_zero(robot: RobotModel, joints: Sequence[str], recording: Recording, scale: float) -> Bool:
    """Joints (n,) that lie outside of their limits throughout, and would lie inside about another zero.

    joints: with a position.    scale: of the positions' unit, to rad or m.
    """
    if not np.isfinite(scale):
        return np.zeros(robot.n, dtype=np.bool_)
    watch, q = RangeWatch(robot), scale * recording.q
    for start, end in recording.runs:
        watch.see(q[start:end])
        watch.end()
    with np.errstate(invalid="ignore"):
        found = watch.displaced(*_ends(q))
    return np.asarray(found & np.isin(robot.joint_names, list(joints)))


def decide_offset(
    robot: RobotModel,
    joints: Sequence[str],
    recording: Recording,
    scale: float | Float,
    unit: str,
    answers: Answers,
) -> Decision | None:
    """What is added to the positions, in their unit; None = nothing speaks for another zero than the log's.

    joints: with a position, those with limits all within them about the zero that is offered.    recording: with an
    answer applied.
    """
    if OFFSET in answers:
        answered_offsets(joints, answers)
        return Decision(OFFSET, answers[OFFSET], ("as you say",), optional=True)
    if not isinstance(scale, float):
        return None  # percents of calibrated ranges have their zero from the calibration
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
        Option(f"{-zero:g}", f"{zero:g} is zero, {words}: every joint lies within its limits")
        for zero, words in _usual(robot, needed, recording.q, scale, least, most)
    )
    names = [robot.joint_names[j] for j in np.flatnonzero(outside)]
    said = [
        f"{robot.joint_names[j]} from {low[j]:.3g} to {high[j]:.3g} {'m' if robot.prismatic[j] else 'rad'}, limits "
        f"{robot.limits.lower[j]:.3g} to {robot.limits.upper[j]:.3g}"
        for j in np.flatnonzero(outside)[:_NAMED]
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    why = (
        f"as logged, joints lie outside of their limits throughout: {'; '.join(said)}{more}",
        f"with {least / scale:.6g} to {most / scale:.6g} added every joint lies within",
    )
    question = (
        f"what is to be added to the positions, in {unit}, to count from the robot file's zero (one number for all "
        "joints, or one each from base to tip, with commas)?"
    )
    as_logged = Option("0", "as logged, where the limits of the description are wrong")
    return Decision(OFFSET, None, why, question, (*options, as_logged) if options else ())


def decide_counters_zero(
    robot: RobotModel,
    joints: Sequence[str],
    recording: Recording,
    scale: float,
    unit: str,
    motion: Motion | None,
) -> Decision | None:
    """Zero of counts that never fall below 0, which a counter's range has in its middle; None = it is as logged.

    A rigid arm, or the robot file's masses, tell it by the torque. scale: of the unit, rad.    motion: as logged.
    """
    places = [robot.joint_names.index(one) for one in joints]
    middle = _middle(recording.q[:, places])
    if motion is None or middle is None or not is_multiple(unit) or any(robot.prismatic[j] for j in places):
        return None
    here = motion.read_as(scale)
    advantage = evidence(robot, replace(here, q=here.q - middle * scale), here)
    if advantage is not None and abs(advantage[0]) > DECISIVE:
        why = f"{advantage[1]} with {middle:g} as zero, the middle of a counter's range"
        return Decision(OFFSET, f"{-middle:g}", (why,), likely=True) if advantage[0] > 0 else None
    why = "the counts never fall below 0, and the torque does not decide about their zero"
    question = (
        f"what is to be added to the positions, in {unit}, to count from the robot file's zero (one number for all "
        "joints, or one each from base to tip, with commas)?"
    )
    options = (
        Option(f"{-middle:g}", f"{middle:g} is zero, the middle of a counter's range"),
        Option("0", "as logged"),
    )
    return Decision(OFFSET, None, (why,), question, options)


def _middle(read: Float) -> float | None:
    """The middle of a counter's range whose counts these are; None = they are no counts that never fall below 0."""
    read = read[np.isfinite(read)]
    if not len(read) or not ((read >= 0) & (read == np.round(read))).all() or read.max() < _LEAST_COUNT:
        return None
    return float(0.5 * 2.0 ** np.ceil(np.log2(read.max() + 1.0)))


def _ends(q: Float) -> tuple[Float, Float]:
    return np.fmin.reduce(q, axis=0), np.fmax.reduce(q, axis=0)


def _usual(
    robot: RobotModel, joints: Sequence[int], q: Float, scale: float, least: float, most: float
) -> list[tuple[float, str]]:
    """Readings where drives have their zero, that would do: half a turn, and the middle of a counter's range."""
    found: dict[float, str] = {}
    half = None if robot.prismatic[joints[0]] else half_turn(least, most)
    if half is not None:
        found[-round(half / scale, 9)] = "half a turn"
    middle = _middle(q[:, list(joints)])
    if middle is not None and least <= -middle * scale <= most:
        found.setdefault(middle, "the middle of a counter's range")
    return list(found.items())


# Positions in percent of what each motor's calibration allows: the file that says how much that is.

CALIBRATION = "log.position.calibration"


def decide_calibration(answers: Answers) -> Decision:
    """The calibration file, or the question for it."""
    asked = "which file did lerobot-calibrate write for this arm?"
    why = ("one percent is a different angle on every motor",)
    found = decided(Decision(CALIBRATION, None, why, asked), answers)
    # In full: the experiment file may lie elsewhere.
    return (
        found if found.value is None else replace(found, value=str(Path(found.value).expanduser().resolve()))
    )


def rad_by_joint(robot: RobotModel, family: Family, answers: Answers) -> Float | None:
    """Rad in one percent of the range of every joint's motor (n,), where its calibration was named."""
    if CALIBRATION not in answers:
        return None
    motors = read_calibration(Path(answers[CALIBRATION]).expanduser())
    scale = np.full(robot.n, np.nan)
    for joint, column in zip(family.joints, family.columns, strict=False):
        motor = motor_of(column, joint, motors)
        if motor is not None:
            scale[robot.joint_names.index(joint)] = rad_per_percent(motor, motors[motor])
    # Joints that the log lacks stand still.
    scale[[robot.joint_names.index(joint) for joint in family.missing]] = 0.0
    return scale
