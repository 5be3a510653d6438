"""The optimiser: Latin hypercube starts, then sequential quadratic programming from the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base import Bool, Float, UnfitDataError, UsageError, dataclass, latin_hypercube, minimize
from dynid.excitation.constraints import Margin, SmoothBounds, keeps, margins
from dynid.excitation.criteria import Figures, Information
from dynid.excitation.limits import Bounds
from dynid.trajectories import Basis, SplineBasis

FIRST_STEP, NEARLY = 0.1, 0.3
# The criterion is summed on the first grid, bounds are kept on one FINER, and a motion is judged on one DENSER times as
# fine: between points of the first one a hand passes a floor by a centimetre.
POINTS_A_CYCLE, LEAST_POINTS, FINER, DENSER = 10, 120, 2, 8
MOST_POINTS, MOST_VARIABLES = 20_000, 1_000
SHARES = (0.998, 0.995, 0.99, 0.98, 0.96, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
WAYS = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1)

Watch = Callable[[float], bool]


@dataclass(frozen=True, eq=False)
class Task:
    """One motion to be designed: family, criterion, bounds.    start: (n,) pose at both ends, None = free."""

    basis: Basis
    information: Information
    bounds: Bounds
    start: Float | None = None

    def grid(self, denser: int = 1) -> Float:
        """Times (T,) on which the motion is judged."""
        cycles = self.basis.duration * self.basis.highest_frequency
        count = max(LEAST_POINTS, math.ceil(POINTS_A_CYCLE * cycles))
        return np.linspace(0.0, self.basis.duration, denser * count + 1)

    def margins(self, X: Float, denser: int = DENSER) -> tuple[Margin, ...]:
        """Margins of a motion on a denser grid."""
        information = self.information
        return margins(information.robot, information.terms, self.bounds, *self._motion(X, denser))

    def keeps(self, X: Float, denser: int = DENSER) -> bool:
        """Whether a motion keeps every bound there."""
        information = self.information
        return keeps(information.robot, information.terms, self.bounds, *self._motion(X, denser))

    def _motion(self, X: Float, denser: int) -> tuple[Float, Float, Float, Float, Float]:
        if denser not in self._values:
            self._values[denser] = self.basis.values(self.grid(denser))
        q, dq, ddq, jerk = (B @ X for B in self._values[denser])
        return self.grid(denser), q, dq, ddq, jerk

    @cached_property
    def _values(self) -> dict[int, tuple[Float, Float, Float, Float]]:
        # Of the basis, by how much denser their grid is.
        return {}

    def standing(self, pose: Float) -> tuple[Margin, ...]:
        """Margins of a pose at rest."""
        q, zero = pose[None], np.zeros((1, len(pose)))
        information = self.information
        return margins(information.robot, information.terms, self.bounds, np.zeros(1), q, zero, zero, zero)


@dataclass(frozen=True, eq=False)
class Solution:
    """One motion within all bounds.    value: the exact criterion.    first: that of the start it came from."""

    X: Float
    value: float
    first: float
    iterations: int


class _StopError(Exception):
    """The way out of scipy's loop."""


class Problem:
    """A task in the optimiser's variables: coefficients in units of the size that each can have."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.values = task.basis.values(task.grid())
        limits = task.bounds.limits
        half = 0.5 * (limits.upper - limits.lower)
        tops = [np.maximum(np.abs(B).max(axis=0), 1e-12) for B in self.values]
        self.scale = np.minimum.reduce(
            [half / tops[0][:, None], *(b / top[:, None] for b, top in zip(
                (limits.velocity, limits.acceleration, limits.jerk), tops[1:], strict=True))]
        )  # fmt: skip
        self.scale[0] = half
        self.free: Bool = np.ones(self.scale.shape, dtype=np.bool_)
        self.free[0] = task.start is None
        information = task.information
        finer = task.basis.values(task.grid(FINER))
        self.smooth = SmoothBounds(information.robot, information.terms, task.bounds, finer)

    @property
    def middle(self) -> Float:
        """Pose (n,) about which starts are drawn."""
        limits = self.task.bounds.limits
        return 0.5 * (limits.lower + limits.upper) if self.task.start is None else self.task.start

    def objective(self, x: Float) -> tuple[float, Float]:
        """Criterion and its derivatives in the variables."""
        X = self.unpacked(x)
        q, dq, ddq = (B @ X for B in self.values[:3])
        value, g = self.task.information.gradient(q, dq, ddq, self.task.basis.duration)
        slope = sum(B.T @ part for B, part in zip(self.values[:3], g, strict=True))
        return value, (slope * self.scale)[self.free]

    def constraints(self, x: Float) -> tuple[Float, Float]:
        """Constraint functions (c,), each to be at most 0, and their derivatives."""
        g, dg = self.smooth.evaluate(self.unpacked(x))
        return g, (dg * self.scale)[:, self.free]

    def figures(self, X: Float) -> Figures:
        """Exact figures."""
        q, dq, ddq = (B @ X for B in self.values[:3])
        return self.task.information.figures(q, dq, ddq, self.task.basis.duration)

    def exact(self, X: Float) -> float:
        """The exact criterion; for focused criteria the smooth one, which is exact."""
        information = self.task.information
        if information.focus is None:
            return self.figures(X).of(information.criterion)
        q, dq, ddq = (B @ X for B in self.values[:3])
        return information.value(q, dq, ddq, self.task.basis.duration)

    def packed(self, X: Float) -> Float:
        """Variables of coefficients."""
        Y = np.array(X)
        Y[0] -= self.middle
        return np.asarray((Y / self.scale)[self.free])

    def unpacked(self, x: Float) -> Float:
        """Coefficients (m, n) of variables."""
        Y = np.zeros(self.scale.shape)
        Y[self.free] = x
        Y *= self.scale
        Y[0] += self.middle
        return Y

    def shrunk(self, X: Float, denser: int = FINER) -> Float | None:
        """The motion made smaller about its start pose until it keeps all bounds; None if even the pose does not."""
        if self.task.keeps(X, denser):
            return X
        if worst_broken(self.task.standing(X[0])) is not None:
            return None
        # Larger first: a motion about a pose near a bound may keep it as a whole and break it when made smaller.
        for share in SHARES:
            if self.task.keeps(resized(X, share), denser):
                return resized(X, share)
        return None

    def toward(self, safe: Float, X: Float, denser: int = FINER) -> Float | None:
        """The farthest motion on the way from one that keeps all bounds to X that does; None where none was found."""
        for share in WAYS:
            Y = safe + share * (X - safe)
            if self.task.keeps(Y, denser):
                return np.asarray(Y)
        return None


def draws(problem: Problem, count: int, seed: int) -> list[Float]:
    """Motions within the bounds from a Latin hypercube over the variables, best first; the same for a seed.

    Raises UnfitDataError naming the bound that leaves no pose, or no motion.
    """
    size = int(problem.free.sum())
    cube = 2.0 * latin_hypercube(count, size, np.random.default_rng(seed)) - 1.0
    rest = problem.scale.shape[0] - 1
    kept, refused = [], []
    for row in cube:
        X = problem.unpacked(row)
        X[0] = problem.middle + 0.5 * (X[0] - problem.middle)
        X[1:] *= 2.0 / math.sqrt(rest)
        bad = worst_broken(problem.task.standing(X[0]))
        if bad is not None:
            refused.append(bad)
            continue
        X = within(problem, X)
        if (fit := problem.shrunk(X)) is not None:
            kept.append(fit)
        elif (bad := worst_broken(problem.task.margins(resized(X, SHARES[-1]), FINER))) is not None:
            refused.append(bad)
    if not kept:
        raise _infeasible(refused)
    return sorted(kept, key=problem.exact)


def within(problem: Problem, X: Float) -> Float:
    """The motion with each joint by itself scaled to its limits of position, velocity, acceleration and jerk."""
    limits = problem.task.bounds.limits
    Y = np.array(X)
    offset = [B @ Y - (Y[0] if k == 0 else 0.0) for k, B in enumerate(problem.values)]
    up, down = limits.upper - Y[0], Y[0] - limits.lower
    with np.errstate(divide="ignore"):
        shares = [
            up / np.maximum(offset[0].max(axis=0), 1e-12),
            down / np.maximum(-offset[0].min(axis=0), 1e-12),
        ]
        for values, limit in zip(
            offset[1:], (limits.velocity, limits.acceleration, limits.jerk), strict=True
        ):
            shares.append(limit / np.maximum(np.abs(values).max(axis=0), 1e-12))
    Y[1:] *= 0.95 * np.minimum.reduce(shares)
    return Y


def solve(problem: Problem, X: Float, iterations: int, watch: Watch | None = None) -> Solution:
    """The best motion that SQP finds from a start; the start itself if it finds none better.

    watch: called with the best value after every iteration; the search stops with the best so far when it returns True.
    """
    first = problem.exact(X)
    begun = X if problem.task.keeps(X) else None
    best, count = _searched(problem, X, iterations, watch)
    fits = [problem.shrunk(best, DENSER), begun]
    if begun is not None:
        fits.append(problem.toward(begun, best, DENSER))
    kept = [fit for fit in fits if fit is not None] or [best]
    fit = min(kept, key=problem.exact)
    return Solution(fit, problem.exact(fit), first, count)


def _searched(problem: Problem, X: Float, iterations: int, watch: Watch | None) -> tuple[Float, int]:
    # The best motion within the bounds on the finer grid, and how many iterations it took.
    best, best_value, count = np.array(X), problem.exact(X), 0
    cached: tuple[bytes, tuple[Float, Float]] | None = None

    def bounded(x: Float) -> tuple[Float, Float]:
        nonlocal cached
        if cached is None or cached[0] != x.tobytes():
            cached = (x.tobytes(), problem.constraints(x))
        return cached[1]

    def after(x: Float) -> None:
        nonlocal best, best_value, count
        count += 1
        if bounded(x)[0].max() <= NEARLY:
            here = problem.unpacked(x)
            for fit in (problem.shrunk(here), problem.toward(best, here)):
                if fit is not None and (value := problem.exact(fit)) < best_value:
                    best, best_value = fit, value
                    break
        if watch is not None and watch(best_value):
            raise _StopError

    x0 = problem.packed(X)
    # Without this the first step, a gradient long, leaves the bounds so far behind that the search does not return.
    gain = FIRST_STEP / max(float(np.linalg.norm(problem.objective(x0)[1])), 1e-12)

    def scaled(x: Float) -> tuple[float, Float]:
        value, slope = problem.objective(x)
        return gain * value, gain * slope

    with suppress(_StopError):
        minimize(
            scaled,
            x0,
            jac=True,
            method="SLSQP",
            bounds=[(-1.0, 1.0)] * len(x0),
            constraints=[{"type": "ineq", "fun": lambda x: -bounded(x)[0], "jac": lambda x: -bounded(x)[1]}],
            callback=after,
            options={"maxiter": iterations, "ftol": 1e-7},
        )
    return best, count


def check_size(task: Task) -> None:
    """Raises UsageError for a motion of more points or coefficients than a search can handle."""
    points, variables = len(task.grid()), task.basis.size * task.information.robot.n
    if points > MOST_POINTS or variables > MOST_VARIABLES:
        raise UsageError(
            "plan-size",
            found=f"a motion of {variables} coefficients, judged at {points} points",
            expected=f"at most {MOST_VARIABLES} and {MOST_POINTS}",
            do="shorten it, or take fewer harmonics, pieces or motions",
        )


def check_start(task: Task) -> None:
    """Raises UnfitDataError naming the bound that the given start pose breaks."""
    if task.start is None:
        return
    if np.shape(task.start) != (task.information.robot.n,):
        raise UsageError(
            "array-shape",
            found=f"a start pose of {np.size(task.start)}",
            expected=f"{task.information.robot.n} joints",
        )
    bad = worst_broken(task.standing(task.start))
    if bad is not None:
        kind = "start-collides" if bad.what == "self-collision" else "start-pose"
        raise UnfitDataError(
            kind,
            found=f"a start pose that breaks a bound: {bad}",
            expected="a pose that the robot can rest in",
            do="choose another start",
        )


def check_rank(problem: Problem, X: Float) -> None:
    """Raises UnfitDataError naming what a motion cannot determine, because joints hardly move."""
    information = problem.task.information
    q, dq, ddq = (B @ X for B in problem.values[:3])
    figures = information.figures(q, dq, ddq, problem.task.basis.duration)
    if not figures.condition < 1e9:
        raise UnfitDataError(
            "unidentifiable",
            found=f"base parameters that this family of motions cannot determine (condition {figures.condition:.1e})",
            expected="motion of every joint within its limits",
            do="widen the limits, add harmonics or take terms out of the model",
        )


def resized(X: Float, share: float) -> Float:
    """The motion (m, n) made smaller about its start pose."""
    return np.concatenate([X[:1], share * X[1:]])


def worst_broken(found: tuple[Margin, ...], tolerance: float = 0.0) -> Margin | None:
    """The bound that is broken most, None where all hold."""
    worst = min(found, key=lambda m: m.margin)
    return worst if worst.margin < -tolerance else None


def _infeasible(refused: list[Margin]) -> UnfitDataError:
    counts: dict[tuple[str, str], list[Margin]] = {}
    for margin in refused:
        counts.setdefault((margin.what, margin.where), []).append(margin)
    if not counts:
        return UnfitDataError("infeasible", found="no motion within the bounds", expected="room for motion")
    often = max(counts.values(), key=len)
    mildest = max(often, key=lambda m: m.margin)
    return UnfitDataError(
        "infeasible-limits",
        found=f"no motion within the bounds, however small; most often broken: {mildest.what} of {mildest.where} "
        f"({mildest.worst:.4g} of {mildest.bound:.4g} at best)",
        expected="bounds that leave room for motion",
        do=f"loosen the bound of {mildest.what}",
    )


# Free knots of a spline: several vectors of them are tried, the most promising one is kept.

CANDIDATES, ITERATIONS, LEAST = 12, 12, 0.4


def drawn_knots(basis: SplineBasis, count: int, seed: int = 0) -> list[SplineBasis]:
    """The family with uniform knots, then `count` with drawn ones; the same for a seed.

    Intervals are LEAST of a uniform one and random shares of the rest, so that no stretch asks for endless jerk.
    """
    rng = np.random.default_rng(seed)
    found = [basis]
    for _ in range(count):
        shares = LEAST / basis.pieces + (1.0 - LEAST) * rng.dirichlet(np.ones(basis.pieces))
        inner: Float = basis.duration * np.cumsum(shares)[:-1]
        found.append(SplineBasis(basis.duration, basis.pieces, tuple(float(x) for x in inner)))
    return found


def with_free_knots(task: Task, count: int, seed: int = 0) -> Task:
    """The task with the knots that a short search from one start gets farthest with, the uniform ones among them.

    Raises UsageError for a family that is no spline or has knots of its own.
    """
    if not isinstance(task.basis, SplineBasis) or task.basis.breaks or count < 1:
        raise UsageError(
            "free-knots",
            found=f"{count} vectors of knots",
            expected="1 or more, for one spline without motion.knots",
        )
    check_size(task)
    check_start(task)
    tried = [replace(task, basis=basis) for basis in drawn_knots(task.basis, count, seed)]
    return min(tried, key=lambda one: _reached(one, seed))


def _reached(task: Task, seed: int) -> float:
    problem = Problem(task)
    return solve(problem, draws(problem, CANDIDATES, seed)[0], ITERATIONS).value
