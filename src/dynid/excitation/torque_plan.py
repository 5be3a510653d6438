"""Informative torque sinusoids: the search among those that keep all bounds."""

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

# What models make of torque that is a function of time: many candidates at once, with friction as stiff as
# it is.

GAMMA = 1.0 - 0.5 * np.sqrt(2.0)
NUDGE, RUNAWAY = 1e-4, 1e4


@dataclass(frozen=True, eq=False)
class Swings:
    """Motions of B candidates at T times.    q, dq, ddq: (B, T, n).    fine: (B,) which stayed finite."""

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
    """The motions from rest at a pose (n,) under torque, at uniform times t (T,).

    y' = F(t, y) by the W-method of order 2 with the damping D of each joint as its Jacobian:
        (M + gamma h D) k1 = tau - c,    (M + gamma h D) k2 = M (F(y + h k1) - 2 k1),    y+ = y + h (3 k1 + k2) / 2.
    Friction that turns over within a hundredth of the velocity asks for no shorter step than the bodies do.
    substeps: steps from one time to the next.    A motion that runs off is kept at zero and not fine.
    stop: asked at every time; once it says True the rest of the motion is left at zero and nothing is fine.
    Source: Verwer, Spee, Blom and Hundsdorfer 1999 (ROS2, of order 2 with any Jacobian).
    """
    torque = _table(candidates, t, substeps)
    B, n = len(candidates), len(start)
    h = float(t[1] - t[0]) / substeps
    q, dq = np.tile(start, (B, 1)), np.zeros((B, n))
    found = np.zeros((3, B, len(t), n))
    fine = np.ones(B, dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(t)):
            if stop is not None and stop():
                fine[:] = False
                break
            M, c = model.equations(q, dq)
            ddq = _solved(M, torque[i * substeps] - c)
            off = ~(np.isfinite(ddq).all(axis=1) & (np.abs(dq).max(axis=1) < RUNAWAY))
            if off.any():
                fine &= ~off
                q[off], dq[off], ddq[off] = start, 0.0, 0.0
            found[:, :, i] = q, dq, ddq
            if i + 1 < len(t):
                for k in range(i * substeps, (i + 1) * substeps):
                    q, dq = _step(model, q, dq, torque[k], torque[k + 1], h)
    return Swings(found[0], found[1], found[2], fine)


def _step(model: ForwardModel, q: Float, dq: Float, now: Float, then: Float, h: float) -> tuple[Float, Float]:
    M, c = model.equations(q, dq)
    _, nudged = model.equations(q, dq + NUDGE)
    damping = np.maximum((nudged - c) / NUDGE, 0.0)
    A = M.copy()
    diagonal = np.arange(q.shape[1])
    A[:, diagonal, diagonal] += GAMMA * h * damping
    k1 = _solved(A, now - c)
    p1 = dq + GAMMA * h * k1
    M1, c1 = model.equations(q + h * p1, dq + h * k1)
    a1 = _solved(M1, then - c1)
    k2 = _solved(A, (M @ (a1 - 2.0 * k1)[..., None])[..., 0])
    p2 = dq + h * k1 - 2.0 * p1 + GAMMA * h * k2
    return q + h * (1.5 * p1 + 0.5 * p2), dq + h * (1.5 * k1 + 0.5 * k2)


def _solved(A: Float, b: Float) -> Float:
    try:
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])
    except np.linalg.LinAlgError:
        # One singular matrix must not end the others' motions.
        singular = np.abs(np.linalg.det(A)) == 0.0
        A = np.where(singular[:, None, None], np.nan, A)
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])


def _table(candidates: Sequence[TorqueSinusoids], t: Float, substeps: int) -> Float:
    times = np.linspace(t[0], t[-1], (len(t) - 1) * substeps + 1)
    return np.stack([one.torque(times) for one in candidates], axis=1)


# What torque sinusoids have to keep: the model's motion under them, its variants, and the margins to all
# bounds.

RATE, MOST_SUBSTEPS, PROBED = 100.0, 8, 3.0
VARIANTS, LARGEST, SWING, EXACT = 4, 0.6, 0.6, 1e-3

Stop = Callable[[], bool]
Motion = tuple[Float, Float, Float]


@dataclass(frozen=True)
class TorqueTask:
    """Torque sinusoids to be designed.

    duration, ramp: s.    lowest, highest: of the frequencies, Hz.    count: N sinusoids a joint.
    start: (n,) pose at rest, None = the pose of least potential energy within the limits.
    Raises UsageError for numbers out of range, UnfitDataError where the model's masses or friction are not known.
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
                found="a description without masses",
                expected="a model that says what motion torque makes",
                do="give a run of the robot with --run",
            )
        if not np.isfinite(self.bounds.limits.torque).all():
            raise UsageError(
                "no-limits",
                found="a joint without a torque limit",
                expected="one each",
                do="give limits.torque",
            )

    @property
    def times(self) -> Float:
        """Times (T,) of the table."""
        return np.arange(math.ceil(self.duration * RATE) + 1) / RATE

    @cached_property
    def models(self) -> tuple[ForwardModel, ...]:
        """The current model, and VARIANTS about it: drawn from its covariance, or wrong by the constant share."""
        information, bounds = self.information, self.bounds
        every = [np.asarray(bounds.theta), *_variants(self)]
        return tuple(ForwardModel(information.robot, information.terms, theta) for theta in every)

    @cached_property
    def pose(self) -> Float:
        """Where it starts at rest, (n,)."""
        return _lowest(self) if self.start is None else np.asarray(self.start, dtype=np.float64)

    @cached_property
    def offset(self) -> Float:
        """Torque (n,) that holds the pose."""
        return np.asarray(self.models[0].equations(self.pose[None], np.zeros((1, len(self.pose))))[1][0])

    def sines(self, x: Float) -> TorqueSinusoids:
        """The torque of variables (3, n, N) in (0, 1): amplitudes, frequencies, phases."""
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
        """What a model makes of torque."""
        return swing(model, candidates, self.pose, self.times, self.substeps * finer, stop)

    @cached_property
    def substeps(self) -> int:
        """Steps from row to row at which a few strong torques move the arm as with twice as many."""
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

        smooth: whether jerk counts; an arm that the torque does not hold exactly starts with a step of it.
        """
        information, t = self.information, self.times
        q, dq, ddq = motion
        free = replace(self.bounds, theta=None, spread=None)
        jerk = np.gradient(ddq, t, axis=0) if smooth else None
        found = margins(information.robot, information.terms, free, t, q, dq, ddq, jerk)
        return (*found, *_torque_margins(self, sines))


def check_start(task: TorqueTask) -> None:
    """Raises UsageError for a pose of other joints, UnfitDataError for one that breaks a bound at rest."""
    n = task.information.robot.n
    if task.pose.shape != (n,):
        raise UsageError("array-shape", found=f"a start pose of {task.pose.size}", expected=f"{n} joints")
    q, zero = task.pose[None], np.zeros((1, n))
    information = task.information
    exact = replace(task.bounds, uncertainty=0.0, spread=None)
    found = margins(information.robot, information.terms, exact, np.zeros(1), q, zero, zero, zero)
    bad = worst_broken(found)
    if bad is not None:
        raise UnfitDataError(
            "start-collides" if bad.what == "self-collision" else "start-pose",
            found=f"a start pose that breaks a bound: {bad}",
            expected="a pose that the robot can rest in",
            do="choose another start",
        )


def _torque_margins(task: TorqueTask, sines: TorqueSinusoids) -> list[Margin]:
    tau, limit = sines.torque(task.times), task.bounds.limits.torque
    found = []
    for j, name in enumerate(task.information.robot.joint_names):
        i = int(np.abs(tau[:, j]).argmax())
        room = float(1.0 - abs(tau[i, j]) / limit[j])
        found.append(Margin("torque", name, float(tau[i, j]), float(limit[j]), room, float(task.times[i])))
    return found


def _variants(task: TorqueTask) -> list[Float]:
    bounds, rng = task.bounds, np.random.default_rng(0)
    theta = np.asarray(bounds.theta)
    if bounds.spread is not None:
        root = bounds.spread.root
        return [theta + root @ rng.standard_normal(root.shape[1]) for _ in range(VARIANTS)]
    found = []
    for _ in range(VARIANTS):
        wrong = 1.0 + bounds.uncertainty * rng.uniform(-1.0, 1.0, len(theta))
        first = 0
        for term in task.information.terms:
            width = len(term.columns(task.information.robot))
            if term.traits.kind is Kind.BODIES:
                # Whole bodies heavier or lighter, so that each variant is physically consistent.
                wrong[first : first + width] = np.repeat(wrong[first : first + width : 10], 10)
            first += width
        found.append(theta * wrong)
    return found


def _lowest(task: TorqueTask) -> Float:
    # Downhill by gravity's torque from the middle, a step short of the limits, so that it can swing to both sides.
    limits, model = task.bounds.limits, task.models[0]
    middle, half = 0.5 * (limits.lower + limits.upper), 0.5 * (limits.upper - limits.lower)
    pose, zero = np.array(middle), np.zeros((1, len(middle)))
    room = task.bounds.limits.torque
    for _ in range(400):
        gravity = model.equations(pose[None], zero)[1][0]
        step = np.clip(gravity / room, -0.2, 0.2)
        pose = np.clip(pose - 0.5 * step, middle - SWING * half, middle + SWING * half)
    return pose


KEPT, SPREAD, SIZES = 4, 0.3, (1.0, 0.6, 0.35, 0.15)
A_START, AN_ITERATION = 6, 8


@dataclass(frozen=True, eq=False)
class TorquePlan:
    """Torque sinusoids and the motion expected of them.

    margins: the least over the model and its variants.    first: criterion of the best drawn torque.
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
        """The bounds; the torque is commanded, so that none of it is kept in reserve."""
        return replace(self.task.bounds, uncertainty=0.0, spread=None)

    @property
    def tightest(self) -> Margin:
        """The bound that the motion comes nearest to."""
        return min(self.margins, key=lambda m: m.margin)

    def describe(self) -> dict[str, Any]:
        """Plain data of how it was made."""
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
    """The best torque that a population of A_START a start finds in one generation an AN_ITERATION iterations.

    Every candidate is simulated forward and made smaller until it keeps all bounds; the best KEPT breed the next ones.
    The winner is made smaller until the model's variants keep the bounds too, with half the step as a check.
    progress, stop: as for design_motion.    The same seed gives the same torque.
    Raises UnfitDataError naming the bound that is broken however small the torque.
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
        found, refused = _judged(task, drawn, stop if parents else None)
        broken += refused
        parents = sorted([*parents, *found], key=lambda one: one[0])[:KEPT]
        done = generation + 1
        if not parents:
            raise _nothing(broken)
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


def _judged(
    task: TorqueTask, drawn: Float, stop: Stop | None
) -> tuple[list[tuple[float, Float]], list[Margin]]:
    # Criterion and variables of the candidates at their best size within all bounds; what the smallest ones break.
    tried = [np.concatenate([size * x[:1], x[1:]]) for x in drawn for size in SIZES]
    sines = [task.sines(x) for x in tried]
    swings = task.swung(task.models[0], sines, stop=stop)
    found: list[tuple[float, Float]] = []
    refused: list[Margin] = []
    if stop is not None and stop():
        return found, refused
    for first in range(0, len(tried), len(SIZES)):
        own: list[tuple[float, Float]] = []
        for b in range(first, first + len(SIZES)):
            motion = swings.q[b], swings.dq[b], swings.ddq[b]
            bad = worst_broken(task.margins(sines[b], motion))
            if swings.fine[b] and bad is None:
                own.append((_value(task, motion), tried[b]))
        found += [min(own, key=lambda one: one[0])] if own else []
        refused += [bad] if not own and bad is not None else []
    return found, refused


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
        found = _largest(task, x, broken)
        if found is None:
            continue
        sines, motion, kept = found
        table = TorqueMotion(sines, 1.0 / RATE, *motion)
        checked = verified(task.information.robot, task.bounds, table)
        if checked is not None and checked.broken is not None:
            close = f"; {checked.broken}, by {checked.library}"
            continue
        figures = task.information.figures(*motion, task.duration)
        value = _value(task, motion)
        return TorquePlan(task, table, figures, kept, value, first, generations, stopped, checked)
    raise _nothing(broken, close)


def _largest(
    task: TorqueTask, x: Float, broken: list[Margin]
) -> tuple[TorqueSinusoids, Motion, tuple[Margin, ...]] | None:
    # The largest share of the torque that every model answers within the bounds; what it breaks is noted.
    candidates = [task.sines(np.concatenate([size * x[:1], x[1:]])) for size in (1.0, *SHARES)]
    every = [task.swung(model, candidates, finer=1 if k else 2) for k, model in enumerate(task.models)]
    coarse = task.swung(task.models[0], candidates)
    for b, sines in enumerate(candidates):
        motions = [(one.q[b], one.dq[b], one.ddq[b]) for one in every]
        kept = _least([task.margins(sines, motion, smooth=k == 0) for k, motion in enumerate(motions)])
        bad = worst_broken(kept)
        if bad is not None:
            broken.append(bad)
            continue
        agree = np.abs(coarse.q[b] - every[0].q[b]).max() <= EXACT * max(1.0, np.abs(every[0].q[b]).max())
        if agree and all(one.fine[b] for one in every):
            return sines, motions[0], kept
    return None


def _least(every: list[tuple[Margin, ...]]) -> tuple[Margin, ...]:
    found: dict[tuple[str, str], list[Margin]] = {}
    for margin in (margin for one in every for margin in one):
        # Which point comes nearest to a plane differs from model to model.
        where = margin.where.split(" at the ")[-1]
        found.setdefault((margin.what, where), []).append(margin)
    return tuple(min(same, key=lambda m: m.margin) for same in found.values())


def _nothing(broken: list[Margin], close: str = "") -> UnfitDataError:
    what = close if close or not broken else f"; broken: {min(broken, key=lambda m: -m.margin)}"
    return UnfitDataError(
        "infeasible-limits",
        found=f"no torque that the model and its variants answer within the bounds, however small{what}",
        expected="a pose that the arm falls back to, or friction that holds it",
        do="give a hanging motion.start, shorten motion.seconds, or loosen that bound",
    )
