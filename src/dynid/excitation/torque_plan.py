"""Torque sinusoids for identification: a search among those that meet all limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dynid.base import Bool, Float, UnfitDataError, UsageError, dataclass, latin_hypercube
from dynid.excitation.constraints import Margin, Verified, margins, verified
from dynid.excitation.design import SHARES, Figures, Information, worst_broken
from dynid.excitation.limits import Bounds
from dynid.simulation import ForwardModel
from dynid.terms import Kind
from dynid.trajectories import TorqueMotion, TorqueSinusoids

# Motions of models under torque that is a function of time: many candidates at once, with stiff friction.

GAMMA = 1.0 - 0.5 * np.sqrt(2.0)
# rad/s or m/s: step of the numerical damping, and speed above which a motion has diverged.
NUDGE, RUNAWAY = 1e-4, 1e4


@dataclass(frozen=True, eq=False)
class Swings:
    """Motions of B candidates at T times.    q, dq, ddq: (B, T, n).    fine: (B,) whether they stayed finite."""

    q: Float
    dq: Float
    ddq: Float
    fine: Bool


def swing(
    model: ForwardModel,
    candidates: Sequence[TorqueSinusoids],
    start: Float,
    t: Float,
    substeps: int = 1,
    stop: Callable[[], bool] | None = None,
) -> Swings:
    """Motions from rest under torque that is a function of time.

    y' = F(t, y) by the W-method of order 2 with the damping D of each joint as its Jacobian:
        (M + gamma h D) k1 = tau - c,    (M + gamma h D) k2 = M (F(y + h k1) - 2 k1),    y+ = y + h (3 k1 + k2) / 2.
    Friction that reverses within a hundredth of the velocity does not need shorter steps than the links do.

    Parameters
    ----------
    model : ForwardModel
        The model.
    candidates : sequence of TorqueSinusoids
        Torques.
    start : ndarray, shape (n_joints,), rad or m
        Pose at rest.
    t : ndarray, shape (n_samples,), s
        Uniform times.
    substeps : int
        Steps between two times.
    stop : callable, optional
        Called at every time; once it returns True the rest of the motions is left at zero and none is fine.

    Returns
    -------
    Swings
        The motions; one that diverges is kept at zero and is not fine.

    References
    ----------
    Verwer, Spee, Blom and Hundsdorfer 1999 (ROS2, of order 2 with any Jacobian).

    """
    torque = _table(candidates, t, substeps)
    B, n = len(candidates), len(start)
    h = float(t[1] - t[0]) / substeps
    q, dq = np.tile(start, (B, 1)), np.zeros((B, n))
    motion = np.zeros((3, B, len(t), n))
    fine = np.ones(B, dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(t)):
            if stop is not None and stop():
                fine[:] = False
                break
            M, c = model.equations(q, dq)
            ddq = _solve(M, torque[i * substeps] - c)
            off = ~(np.isfinite(ddq).all(axis=1) & (np.abs(dq).max(axis=1) < RUNAWAY))
            if off.any():
                fine &= ~off
                q[off], dq[off], ddq[off] = start, 0.0, 0.0
            motion[:, :, i] = q, dq, ddq
            if i + 1 < len(t):
                for k in range(i * substeps, (i + 1) * substeps):
                    q, dq = _step(model, q, dq, torque[k], torque[k + 1], h)
    return Swings(motion[0], motion[1], motion[2], fine)


def _step(model: ForwardModel, q: Float, dq: Float, now: Float, then: Float, h: float) -> tuple[Float, Float]:
    M, c = model.equations(q, dq)
    _, nudged = model.equations(q, dq + NUDGE)
    damping = np.maximum((nudged - c) / NUDGE, 0.0)
    A = M.copy()
    diagonal = np.arange(q.shape[1])
    A[:, diagonal, diagonal] += GAMMA * h * damping
    k1 = _solve(A, now - c)
    p1 = dq + GAMMA * h * k1
    M1, c1 = model.equations(q + h * p1, dq + h * k1)
    a1 = _solve(M1, then - c1)
    k2 = _solve(A, (M @ (a1 - 2.0 * k1)[..., None])[..., 0])
    p2 = dq + h * k1 - 2.0 * p1 + GAMMA * h * k2
    return q + h * (1.5 * p1 + 0.5 * p2), dq + h * (1.5 * k1 + 0.5 * k2)


def _solve(A: Float, b: Float) -> Float:
    try:
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])
    except np.linalg.LinAlgError:
        # A singular matrix of one candidate must not stop the others.
        singular = np.abs(np.linalg.det(A)) == 0.0
        A = np.where(singular[:, None, None], np.nan, A)
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])


def _table(candidates: Sequence[TorqueSinusoids], t: Float, substeps: int) -> Float:
    times = np.linspace(t[0], t[-1], (len(t) - 1) * substeps + 1)
    return np.stack([candidate.torque(times) for candidate in candidates], axis=1)


# Limits of torque sinusoids: the model's motion under them, its variants, and margins.

# Hz: rows of the torque table; most integration steps per row; s: length of the motions that determine their number.
RATE, MOST_SUBSTEPS, PROBED = 100.0, 8, 3.0
# Number of model variants, shares of torque limit and of range that the sinusoids may use, and integration error
# relative to the motion.
VARIANTS, LARGEST, SWING, EXACT = 4, 0.6, 0.6, 1e-3

Stop = Callable[[], bool]
Motion = tuple[Float, Float, Float]


@dataclass(frozen=True)
class TorqueTask:
    """Torque sinusoids to design.

    duration, ramp: s.    lowest, highest: of the frequencies, Hz.    count: N sinusoids per joint.
    start: (n,) pose at rest, None = the pose of least potential energy within the limits.
    Raises UsageError for numbers out of range, UnfitDataError if the model's masses or friction are unknown.
    """

    information: Information
    bounds: Bounds
    duration: float
    count: int
    lowest: float
    highest: float
    ramp: float
    start: Float | None = None

    def __post_init__(self) -> None:
        numbers = (self.duration, self.lowest, self.highest, self.ramp)
        if not (
            all(math.isfinite(x) and x > 0 for x in numbers)
            and self.lowest <= self.highest
            and self.count > 0
        ):
            raise UsageError(
                "torque-sines",
                found=f"{self.count} sinusoids of {self.lowest:g} to {self.highest:g} Hz in {self.duration:g} s",
                expected="one or more, frequencies and times above 0",
            )
        if self.bounds.theta is None:
            raise UnfitDataError(
                "torque-sines-model",
                found="a robot file without masses",
                expected="a model that predicts the motion from torque",
                do="give a run of the robot with --run",
            )
        if not np.isfinite(self.bounds.limits.torque).all():
            raise UsageError(
                "no-limits",
                found="a joint without a torque limit",
                expected="a torque limit for every joint",
                do="give limits.torque",
            )

    @property
    def times(self) -> Float:
        """Times (T,) of the table."""
        return np.arange(math.ceil(self.duration * RATE) + 1) / RATE

    @cached_property
    def models(self) -> tuple[ForwardModel, ...]:
        """The current model, and VARIANTS of it: drawn from its covariance, or wrong by the constant share."""
        information, bounds = self.information, self.bounds
        every = [np.asarray(bounds.theta), *_variants(self)]
        return tuple(ForwardModel(information.robot, information.terms, theta) for theta in every)

    @cached_property
    def pose(self) -> Float:
        """Start pose at rest, (n,)."""
        return _lowest_pose(self) if self.start is None else np.asarray(self.start, dtype=np.float64)

    @cached_property
    def offset(self) -> Float:
        """Torque (n,) that keeps the arm in the pose."""
        return np.asarray(self.models[0].equations(self.pose[None], np.zeros((1, len(self.pose))))[1][0])

    def sines(self, x: Float) -> TorqueSinusoids:
        """Torque for variables (3, n, N) in (0, 1): amplitudes, frequencies, phases."""
        room = LARGEST * np.maximum(self.bounds.limits.torque - np.abs(self.offset), 0.0)
        amplitude = x[0] * room[:, None] / self.count
        frequency = self.lowest * (self.highest / self.lowest) ** x[1]
        return TorqueSinusoids(self.offset, amplitude, frequency, 2.0 * np.pi * x[2], self.ramp)

    def swung(
        self,
        model: ForwardModel,
        candidates: Sequence[TorqueSinusoids],
        finer: int = 1,
        stop: Stop | None = None,
    ) -> Swings:
        """Motions of a model under torques."""
        return swing(model, candidates, self.pose, self.times, self.substeps * finer, stop)

    @cached_property
    def substeps(self) -> int:
        """Steps between rows at which a few strong torques move the arm as with twice as many steps."""
        rng = np.random.default_rng(0)
        sines = [self.sines(rng.uniform(0.2, 1.0, (3, len(self.pose), self.count))) for _ in range(4)]
        t = self.times[self.times <= PROBED]
        count, before = 1, swing(self.models[0], sines, self.pose, t, 1).q
        while count < MOST_SUBSTEPS:
            after = swing(self.models[0], sines, self.pose, t, 2 * count).q
            if np.abs(after - before).max() <= EXACT * max(1.0, np.abs(after).max()):
                return count
            count, before = 2 * count, after
        return MOST_SUBSTEPS

    def margins(self, sines: TorqueSinusoids, motion: Motion, smooth: bool = True) -> tuple[Margin, ...]:
        """Margins of one motion (three of (T, n)) and of the commanded torque, which is exact whatever the model.

        smooth: whether jerk counts; an arm that the torque does not hold exactly starts with a step of acceleration.
        """
        information, t = self.information, self.times
        q, dq, ddq = motion
        free = replace(self.bounds, theta=None, spread=None)
        jerk = np.gradient(ddq, t, axis=0) if smooth else None
        motion_margins = margins(information.robot, information.terms, free, t, q, dq, ddq, jerk)
        return (*motion_margins, *_torque_margins(self, sines))


def check_start(task: TorqueTask) -> None:
    """Raise UsageError for a pose of other joints, UnfitDataError for one that violates a limit at rest."""
    n = task.information.robot.n
    if task.pose.shape != (n,):
        raise UsageError(
            "array-shape", found=f"a start pose of {task.pose.size} numbers", expected=f"{n}, one per joint"
        )
    q, zero = task.pose[None], np.zeros((1, n))
    information = task.information
    exact = replace(task.bounds, uncertainty=0.0, spread=None)
    start_margins = margins(information.robot, information.terms, exact, np.zeros(1), q, zero, zero, zero)
    bad = worst_broken(start_margins)
    if bad is not None:
        raise UnfitDataError(
            "start-collides" if bad.what == "self-collision" else "start-pose",
            found=f"a start pose that violates a limit: {bad}",
            expected="a pose within all limits at rest",
            do="choose another motion.start",
        )


def _torque_margins(task: TorqueTask, sines: TorqueSinusoids) -> list[Margin]:
    tau, limit = sines.torque(task.times), task.bounds.limits.torque
    torque_margins = []
    for j, name in enumerate(task.information.robot.joint_names):
        i = int(np.abs(tau[:, j]).argmax())
        room = float(1.0 - abs(tau[i, j]) / limit[j])
        torque_margins.append(
            Margin("torque", name, float(tau[i, j]), float(limit[j]), room, float(task.times[i]))
        )
    return torque_margins


def _variants(task: TorqueTask) -> list[Float]:
    bounds, rng = task.bounds, np.random.default_rng(0)
    theta = np.asarray(bounds.theta)
    if bounds.spread is not None:
        root = bounds.spread.root
        return [theta + root @ rng.standard_normal(root.shape[1]) for _ in range(VARIANTS)]
    variants = []
    for _ in range(VARIANTS):
        wrong = 1.0 + bounds.uncertainty * rng.uniform(-1.0, 1.0, len(theta))
        first = 0
        for term in task.information.terms:
            width = len(term.columns(task.information.robot))
            if term.traits.kind is Kind.BODIES:
                # Links are scaled as a whole, so that each variant is physically consistent.
                wrong[first : first + width] = np.repeat(wrong[first : first + width : 10], 10)
            first += width
        variants.append(theta * wrong)
    return variants


def _lowest_pose(task: TorqueTask) -> Float:
    # Descend along gravity's torque from the middle, and stop before the limits, so that the arm can swing to both
    # sides.
    limits, model = task.bounds.limits, task.models[0]
    middle, half = 0.5 * (limits.lower + limits.upper), 0.5 * (limits.upper - limits.lower)
    pose, zero = np.array(middle), np.zeros((1, len(middle)))
    room = task.bounds.limits.torque
    for _ in range(400):
        gravity = model.equations(pose[None], zero)[1][0]
        step = np.clip(gravity / room, -0.2, 0.2)
        pose = np.clip(pose - 0.5 * step, middle - SWING * half, middle + SWING * half)
    return pose


# Parents of a generation, standard deviation of mutations at the start, and sizes at which a candidate is tried.
KEPT, SPREAD, SIZES = 4, 0.3, (1.0, 0.6, 0.35, 0.15)
# Candidates per start, and iterations for which one generation counts, so that search.starts and search.iterations
# determine the size of this search too.
A_START, AN_ITERATION = 6, 8


@dataclass(frozen=True, eq=False)
class TorquePlan:
    """Torque sinusoids and the expected motion.

    margins: the smallest over the model and its variants.    first: criterion of the best random torque.
    """

    task: TorqueTask
    trajectory: TorqueMotion
    figures: Figures
    margins: tuple[Margin, ...]
    value: float
    first: float
    generations: int
    stopped: bool = False
    verified: Verified | None = None

    @property
    def information(self) -> Information:
        """The criterion."""
        return self.task.information

    @property
    def bounds(self) -> Bounds:
        """The limits; torque is commanded, so that it needs no reserve."""
        return replace(self.task.bounds, uncertainty=0.0, spread=None)

    @property
    def tightest(self) -> Margin:
        """The limit that the motion comes closest to."""
        return min(self.margins, key=lambda m: m.margin)

    def describe(self) -> dict[str, Any]:
        """Plain data of the design."""
        sines = self.trajectory.sines
        names = ("offset", "amplitude", "frequency", "phase")
        numbers = {name: getattr(sines, name).tolist() for name in names}
        return {
            "basis": {"family": "torque-sines", "ramp": sines.ramp} | numbers,
            "generations": self.generations,
            "variants": VARIANTS,
            "variants_by": "share" if self.task.bounds.spread is None else "covariance",
        }


def design_torque(
    task: TorqueTask,
    starts: int = 4,
    iterations: int = 80,
    seed: int = 0,
    progress: Callable[[int, int, float], None] | None = None,
    stop: Stop | None = None,
) -> TorquePlan:
    """Search the best torque with a population of A_START per start and one generation per AN_ITERATION iterations.

    Every candidate is simulated and reduced until it meets all limits; the best KEPT are the parents of the next ones.
    The winner is reduced until the model's variants meet the limits too, with half the step as a check.

    Parameters
    ----------
    task : TorqueTask
        The task.
    starts, iterations : int
        Size of the search.
    seed : int
        Seed; the same seed gives the same torque.
    progress, stop : callable, optional
        As for `design_motion`.

    Returns
    -------
    TorquePlan
        The torque and its motion.

    Raises
    ------
    UnfitDataError
        If a limit is violated however small the torque; it names the limit.

    """
    if min(starts, iterations) < 1:
        raise UsageError(
            "counts", found=f"{starts} starts, {iterations} iterations", expected="at least 1 each"
        )
    check_start(task)
    size, generations = A_START * starts, max(1, iterations // AN_ITERATION)
    rng, shape = np.random.default_rng(seed), (3, len(task.pose), task.count)
    drawn = latin_hypercube(size, math.prod(shape), rng).reshape(size, *shape)
    parents: list[tuple[float, Float]] = []
    first, done = np.inf, 0
    broken: list[Margin] = []
    for generation in range(generations):
        accepted, refused = _best_sizes(task, drawn, stop if parents else None)
        broken += refused
        parents = sorted([*parents, *accepted], key=lambda candidate: candidate[0])[:KEPT]
        done = generation + 1
        if not parents:
            raise _no_torque_error(broken)
        first = parents[0][0] if generation == 0 else first
        if progress is not None:
            progress(done * starts * AN_ITERATION, starts * iterations, parents[0][0])
        if stop is not None and stop():
            break
        width = SPREAD * (1.0 - 0.8 * generation / generations)
        chosen = rng.integers(len(parents), size=size)
        steps = rng.normal(0.0, width, drawn.shape) * (rng.random(drawn.shape) < 0.5)
        drawn = np.stack([parents[k][1] for k in chosen]) + steps
        drawn[:, 0], drawn[:, 1] = np.clip(drawn[:, 0], 0.0, 1.0), np.clip(drawn[:, 1], 0.0, 1.0)
    return _verified(task, parents, first, done, stop is not None and stop())


def _best_sizes(
    task: TorqueTask, drawn: Float, stop: Stop | None
) -> tuple[list[tuple[float, Float]], list[Margin]]:
    # Criterion and variables of each candidate at its best size within all limits, and violations of candidates without
    # one.
    tried = [np.concatenate([size * x[:1], x[1:]]) for x in drawn for size in SIZES]
    sines = [task.sines(x) for x in tried]
    swings = task.swung(task.models[0], sines, stop=stop)
    accepted: list[tuple[float, Float]] = []
    refused: list[Margin] = []
    if stop is not None and stop():
        return accepted, refused
    for first in range(0, len(tried), len(SIZES)):
        sizes_within: list[tuple[float, Float]] = []
        for b in range(first, first + len(SIZES)):
            motion = swings.q[b], swings.dq[b], swings.ddq[b]
            bad = worst_broken(task.margins(sines[b], motion))
            if swings.fine[b] and bad is None:
                sizes_within.append((_value(task, motion), tried[b]))
        accepted += [min(sizes_within, key=lambda candidate: candidate[0])] if sizes_within else []
        refused += [bad] if not sizes_within and bad is not None else []
    return accepted, refused


def _value(task: TorqueTask, motion: Motion) -> float:
    information = task.information
    thinned = [part[:: max(1, round(RATE / 20.0))] for part in motion]
    if information.focus is None:
        value = information.figures(thinned[0], thinned[1], thinned[2], task.duration).of(
            information.criterion
        )
    else:
        value = information.value(thinned[0], thinned[1], thinned[2], task.duration)
    return value if math.isfinite(value) else math.inf


def _verified(
    task: TorqueTask, parents: list[tuple[float, Float]], first: float, generations: int, stopped: bool
) -> TorquePlan:
    broken: list[Margin] = []
    close = ""
    for _, x in parents:
        largest = _largest_within_bounds(task, x, broken)
        if largest is None:
            continue
        sines, motion, kept = largest
        table = TorqueMotion(sines, 1.0 / RATE, *motion)
        checked = verified(task.information.robot, task.bounds, table)
        if checked is not None and checked.broken is not None:
            close = f"; {checked.broken} (by {checked.library})"
            continue
        figures = task.information.figures(*motion, task.duration)
        value = _value(task, motion)
        return TorquePlan(task, table, figures, kept, value, first, generations, stopped, checked)
    raise _no_torque_error(broken, close)


def _largest_within_bounds(
    task: TorqueTask, x: Float, broken: list[Margin]
) -> tuple[TorqueSinusoids, Motion, tuple[Margin, ...]] | None:
    # The largest share of the torque that keeps every model within the limits; violations are appended to broken.
    candidates = [task.sines(np.concatenate([size * x[:1], x[1:]])) for size in (1.0, *SHARES)]
    every = [task.swung(model, candidates, finer=1 if k else 2) for k, model in enumerate(task.models)]
    coarse = task.swung(task.models[0], candidates)
    for b, sines in enumerate(candidates):
        motions = [(swings.q[b], swings.dq[b], swings.ddq[b]) for swings in every]
        kept = _tightest_margins(
            [task.margins(sines, motion, smooth=k == 0) for k, motion in enumerate(motions)]
        )
        bad = worst_broken(kept)
        if bad is not None:
            broken.append(bad)
            continue
        agree = np.abs(coarse.q[b] - every[0].q[b]).max() <= EXACT * max(1.0, np.abs(every[0].q[b]).max())
        if agree and all(swings.fine[b] for swings in every):
            return sines, motions[0], kept
    return None


def _tightest_margins(every: list[tuple[Margin, ...]]) -> tuple[Margin, ...]:
    by_bound: dict[tuple[str, str], list[Margin]] = {}
    for margin in (margin for model_margins in every for margin in model_margins):
        # The point closest to a plane can differ between models.
        where = margin.where.split(" at the ")[-1]
        by_bound.setdefault((margin.what, where), []).append(margin)
    return tuple(min(same, key=lambda m: m.margin) for same in by_bound.values())


def _no_torque_error(broken: list[Margin], close: str = "") -> UnfitDataError:
    reason = close if close or not broken else f"; violated: {min(broken, key=lambda m: -m.margin)}"
    return UnfitDataError(
        "infeasible-limits",
        found=f"no torque, however small, that keeps the model and its variants within the limits{reason}",
        expected="a start pose to which the arm falls back, or friction that holds the arm",
        do="give a hanging motion.start, shorten motion.seconds, or relax that limit",
    )
