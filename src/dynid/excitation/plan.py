"""Designing a motion from several starts, in parallel processes, with one result for any number of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from dynid.base import (
    Bool,
    Float,
    Int,
    UnfitDataError,
    UsageError,
    dataclass,
    end_with_parent,
    ended,
    uninterrupted,
)
from dynid.excitation.constraints import Margin, Verified, verified, with_whole_torque
from dynid.excitation.design import (
    DENSER,
    SHARES,
    Criterion,
    Figures,
    Information,
    Problem,
    Solution,
    Task,
    check_rank,
    check_size,
    check_start,
    draws,
    resized,
    solve,
    worst_broken,
)
from dynid.excitation.gradient import LeftOut, Whole
from dynid.excitation.limits import Bounds, reserve_of
from dynid.factor import BaseMap, Factors, stack, structural_base
from dynid.kernel import backend, using
from dynid.robot import RobotModel
from dynid.rows import TorqueRows
from dynid.terms import JointTerm, MotionBasis, Reads, Term, Terms
from dynid.terms.forms import without_memory
from dynid.trajectories import Basis, BasisTrajectory, FourierBasis, SplineBasis, Together, Trajectory

SMOOTH_SHARE, NOISE_SHARE = 0.01, 0.01
POLL_SECONDS = 0.2
RESUMED, UNLIKE = 1000, 0.01

Progress = Callable[[int, int, float], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class Plan:
    """A designed motion.

    figures: exact, with smoothed friction.    first: criterion of the best drawn start.
    margins: of every bound on a grid eight times as dense as that of the design; of torque at 1 kHz where the search
        left out a part of the model that they are checked with.
    stopped: whether it was interrupted, so that this is the best so far.
    verified: what the independent check found; None where it could not be made.
    """

    task: Task
    trajectory: BasisTrajectory
    figures: Figures
    value: float
    first: float
    margins: tuple[Margin, ...]
    starts: int
    iterations: int
    stopped: bool
    verified: Verified | None = None

    def __repr__(self) -> str:
        return (
            f"Plan for '{self.information.robot.name}': {self.trajectory.duration:.4g} s, "
            f"{self.information.base.rank} base parameters, condition number {self.figures.condition:.3g}; "
            f"tightest bound: {self.tightest}"
        )

    @property
    def tightest(self) -> Margin:
        """The bound that the motion comes nearest to."""
        return min(self.margins, key=lambda m: m.margin)

    @property
    def information(self) -> Information:
        """The criterion that it was designed for."""
        return self.task.information

    @property
    def bounds(self) -> Bounds:
        """The bounds that it keeps."""
        return self.task.bounds

    def describe(self) -> dict[str, Any]:
        """Plain data of how it was made."""
        return {
            "basis": _basis_data(self.task.basis),
            "coefficients": self.trajectory.X.tolist(),
            "starts": self.starts,
            "iterations": self.iterations,
        } | reserve_data(self)


class Sheet(Protocol):
    """What a plan's files are written from, designed or put together."""

    @property
    def information(self) -> Information:
        """The criterion."""
        ...

    @property
    def bounds(self) -> Bounds:
        """The bounds."""
        ...

    @property
    def trajectory(self) -> Trajectory:
        """The motion."""
        ...

    @property
    def figures(self) -> Figures:
        """What it determines."""
        ...

    @property
    def margins(self) -> tuple[Margin, ...]:
        """How far it stays from each bound."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether the search was interrupted."""
        ...

    @property
    def verified(self) -> Verified | None:
        """What the independent check found; None where it could not be made."""
        ...

    def describe(self) -> dict[str, Any]:
        """Plain data of how it was made."""
        ...


def reserve_data(plan: Sheet) -> dict[str, Any]:
    """How the torque limits of a plan allow for what is not known, as plain data."""
    information = plan.information
    found = reserve_of(information.robot, information.terms, plan.bounds, plan.trajectory)
    return {} if found is None else {"torque_reserve": found.describe()}


def _basis_data(basis: Basis) -> dict[str, Any]:
    if isinstance(basis, Together):
        return {"family": "together", "parts": [_basis_data(part) for part in basis.parts]}
    if isinstance(basis, FourierBasis | SplineBasis):
        return {"family": "fourier" if isinstance(basis, FourierBasis) else "spline"} | asdict(basis)
    return {"family": "other"}


def design_terms(terms: Terms, robot: RobotModel) -> Terms:
    """The model with the sign of Coulomb friction smoothed over SMOOTH_SHARE of the velocity, for derivatives.

    Friction with a memory is the Coulomb friction that it is away from reversals, and what differentiates along time
    is left out; the parameters are the same.
    """
    speeds = robot.limits.velocity[np.isfinite(robot.limits.velocity)]
    width = SMOOTH_SHARE * float(speeds.min()) if len(speeds) else SMOOTH_SHARE
    instant = (LeftOut(term) if Reads.RATE in term.traits.reads else without_memory(term) for term in terms)
    return Terms(tuple(replace(t, width=width) if _is_plain_sign(t) else t for t in instant))


def _is_plain_sign(term: Term) -> bool:
    return isinstance(term, JointTerm) and term.traits.basis is MotionBasis.SIGN and term.width == 0


def expected_noise(robot: RobotModel) -> Float:
    """Deviations (n,) of the torque: NOISE_SHARE of the effort limit, the mean one's where there is none."""
    effort = robot.limits.effort
    known = np.isfinite(effort) & (effort > 0)
    middle = float(np.exp(np.log(effort[known]).mean())) if known.any() else 1.0
    return NOISE_SHARE * np.where(known, effort, middle)


def prior_theta(robot: RobotModel, terms: Terms) -> Float | None:
    """Parameters (p,) of the description, unknown friction as 0; None where the masses are unknown."""
    if not np.isfinite(robot.inertia_prior).all():
        return None
    return np.asarray(np.nan_to_num(np.array([column.prior for column in terms.columns(robot)])))


def information_of(robot: RobotModel, terms: Terms, noise: Float | None = None) -> Information:
    """The criterion's data for a robot and a model: structural base, smoothed friction, expected noise.

    Raises UsageError for terms that read channels of a log, as a plan has none.
    """
    if channels := terms.channels():
        raise UsageError(
            "channel-terms",
            found="terms that read " + ", ".join(channels) + " of a log",
            expected="a model of motion alone",
            do="plan with an experiment file without these terms",
        )
    model = design_terms(terms, robot)
    base = structural_base(robot, model, TorqueRows(), 0)
    return Information(robot, model, base, expected_noise(robot) if noise is None else noise)


def design_motion(
    task: Task,
    starts: int = 4,
    iterations: int = 120,
    seed: int = 0,
    candidates: int = 60,
    workers: int = 1,
    progress: Progress | None = None,
    stop: Stop | None = None,
    first: Float | None = None,
) -> Plan:
    """The best motion of a task from the best `starts` of `candidates` drawn ones.

    first: (m, n) coefficients of a motion to go on from, in place of one of those; see `coefficients_of`.

    workers: processes; the result does not depend on it.
    progress: called with (iterations done, greatest number of them, best criterion so far).
    stop: asked now and then; once it says True the best motion so far is returned.
    Raises UnfitDataError naming the bound or the parameters that cannot be met, UsageError for counts below 1.
    """
    if min(starts, iterations, candidates, workers) < 1:
        raise UsageError(
            "counts",
            found=f"{starts} starts, {iterations} iterations, {candidates} candidates, {workers} workers",
            expected="at least 1 each",
        )
    check_size(task)
    check_start(task)
    problem = Problem(task)
    drawn = draws(problem, candidates, seed)
    check_rank(problem, drawn[0])
    given = [] if first is None else [_within(problem, first)]
    fits = (fit for X in drawn if (fit := problem.shrunk(X, DENSER)) is not None)
    chosen = [*given, *islice(fits, starts - len(given))] or drawn[:starts]
    level = problem.exact(chosen[0])
    if workers == 1 or len(chosen) == 1:
        solutions, stopped = _one_by_one(problem, chosen, iterations, progress, stop)
    else:
        solutions, stopped = _in_processes(
            task, chosen, iterations, min(workers, len(chosen)), progress, stop
        )
    if not solutions:
        fit = problem.shrunk(chosen[0], DENSER)
        solutions = [Solution(chosen[0] if fit is None else fit, level, level, 0)]
    X, found, checked = _safest(task, solutions)
    return Plan(
        task=task,
        trajectory=BasisTrajectory(task.basis, X),
        figures=problem.figures(X),
        value=problem.exact(X),
        first=level,
        margins=found,
        starts=len(solutions),
        iterations=sum(solution.iterations for solution in solutions),
        stopped=stopped,
        verified=checked,
    )


def coefficients_of(basis: Basis, trajectory: Trajectory) -> Float:
    """Coefficients (m, n) of an earlier motion in a family, by least squares over its positions.

    Raises UsageError for a motion of another length, or one that the family cannot come close to.
    """
    t = np.linspace(0.0, basis.duration, max(RESUMED, 10 * basis.size))
    q = trajectory.motion(t)[0]
    B = basis.values(t)[0]
    X = np.linalg.lstsq(B, q, rcond=None)[0]
    wrong = float(np.abs(B @ X - q).max() / max(np.ptp(q, axis=0).max(), 1e-12))
    if abs(trajectory.duration - basis.duration) > 1e-9 or wrong > UNLIKE:
        raise UsageError(
            "resume",
            found=f"a motion of {trajectory.duration:g} s that this family misses by {100 * wrong:.2g} % of its range",
            expected=f"a motion of {basis.duration:g} s of the same family",
            do="give the options of the earlier plan",
        )
    return np.asarray(X)


def _within(problem: Problem, X: Float) -> Float:
    fit = problem.shrunk(X)
    if fit is None:
        raise UnfitDataError(
            "resume",
            found=f"an earlier motion that breaks a bound however small: {worst_broken(problem.task.standing(X[0]))}",
            expected="bounds that hold at its start pose",
            do="begin anew, or give the bounds of the earlier plan",
        )
    return fit


def _safest(task: Task, solutions: list[Solution]) -> tuple[Float, tuple[Margin, ...], Verified | None]:
    # Ties go to the earlier start, whatever process was quicker; a motion that breaks a bound is never given out.
    worst: object = None
    for solution in sorted(solutions, key=lambda one: one.value):
        for share in (1.0, *SHARES):
            X = resized(solution.X, share)
            found = task.margins(X)
            worst = min(found, key=lambda m: m.margin)
            if worst.margin < 0:
                continue
            trajectory, information = BasisTrajectory(task.basis, X), task.information
            found = with_whole_torque(information.robot, information.terms, task.bounds, trajectory, found)
            worst = min(found, key=lambda m: m.margin)
            if worst.margin < 0:
                continue
            checked = verified(information.robot, task.bounds, trajectory)
            if checked is None or checked.broken is None:
                return X, found, checked
            worst = f"{checked.broken}, by {checked.library} at {checked.rate:g} Hz"
    raise UnfitDataError(
        "infeasible-limits",
        found=f"no motion that keeps all bounds on the dense grid; broken: {worst}",
        expected="bounds that leave room for motion",
        do="loosen that bound, or draw other starts with another seed",
    )


def _one_by_one(
    problem: Problem, chosen: list[Float], iterations: int, progress: Progress | None, stop: Stop | None
) -> tuple[list[Solution], bool]:
    solutions: list[Solution] = []
    done, best = 0, np.inf

    def watch(value: float) -> bool:
        nonlocal done, best
        done, best = done + 1, min(best, value)
        if progress is not None:
            progress(done, iterations * len(chosen), best)
        return stop is not None and stop()

    for k, X in enumerate(chosen):
        if stop is not None and stop():
            return solutions, True
        solutions.append(solve(problem, X, iterations, watch))
        done = (k + 1) * iterations
        if progress is not None:
            progress(done, iterations * len(chosen), min(one.value for one in solutions))
    return solutions, stop is not None and stop()


_SHARED: dict[str, Any] = {}


def _worker(ended: Any, done: Any, best: Any) -> None:
    # Ctrl-C reaches every process of the terminal; only the parent decides what it means.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    _SHARED.update(ended=ended, done=done, best=best)


def _solve_there(task: Task, X: Float, iterations: int, kernel: str) -> Solution:
    mine = 0

    def watch(value: float) -> bool:
        nonlocal mine
        mine += 1
        with _SHARED["done"].get_lock():
            _SHARED["done"].value += 1
            _SHARED["best"].value = min(_SHARED["best"].value, value)
        return bool(_SHARED["ended"].is_set())

    with using(kernel):
        solution = solve(Problem(task), X, iterations, watch)
    with _SHARED["done"].get_lock():
        _SHARED["done"].value += iterations - mine
    return solution


def _in_processes(
    task: Task,
    chosen: list[Float],
    iterations: int,
    workers: int,
    progress: Progress | None,
    stop: Stop | None,
) -> tuple[list[Solution], bool]:
    context = multiprocessing.get_context("spawn")
    stopped, done, best = context.Event(), context.Value("q", 0), context.Value("d", np.inf)
    kernel = "numpy" if backend() == "numpy" else "native"
    with ended(ProcessPoolExecutor(workers, context, _worker, (stopped, done, best))) as pool:
        with uninterrupted():
            running = [pool.submit(_solve_there, task, X, iterations, kernel) for X in chosen]
        while True:
            _, waiting = wait(running, timeout=POLL_SECONDS)
            if progress is not None:
                progress(done.value, iterations * len(chosen), best.value)
            if stop is not None and stop():
                stopped.set()
            if not waiting:
                break
        solutions = [future.result() for future in running]
        # On the densest grid motions may have become smaller, and worse than the search thought.
        if progress is not None:
            progress(done.value, iterations * len(chosen), min(one.value for one in solutions))
        return solutions, stopped.is_set()


# What to record next: the factors of an earlier run as part of the criterion.


def information_after(
    robot: RobotModel, terms: Terms, factors: Factors, sigma: Float, correlation: Float | None = None
) -> Information:
    """The criterion of a motion to be recorded beside what the factors hold.

    factors: by joint, of the same model.    sigma: (n,) deviation of the residuals, N m (N).
    correlation: (n,) rows that count as one independent row, see `estimate.residuals.rows_a_sample`; None = 1 each.
    What the search leaves out of the model counts as unknown in the record, and as known in the new motion.
    A second of new motion counts as many rows as a second of what was recorded, of the same deviation and correlation.
    Raises UnfitDataError if the factors are not those of torque rows of this model.
    """
    spread = np.ones(robot.n) if correlation is None else np.sqrt(correlation)
    information = information_of(robot, terms, np.asarray(sigma, dtype=np.float64) * spread)
    recorded = _triangle(information, factors)
    seconds = sum(block.end - block.start for block in factors.blocks)
    rate = factors.count / robot.n / seconds if seconds > 0 else 1.0
    return replace(information, recorded=recorded, rate=rate)


def information_known(
    robot: RobotModel,
    terms: Terms,
    base: BaseMap,
    recorded: Float,
    noise: Float,
    rate: float,
    asked: Float | None = None,
) -> Information:
    """The criterion of a motion to be recorded beside what an online estimate knows.

    base: its base parameters.    recorded: (b, b) triangle of its equations, in units of their noise.
    noise: (n,) deviation of an equation, N m (N), times the root of how many carry the information of one independent.
    rate: Hz, equations a second and joint.
    asked: (b,) deviations to which they are to be known, the criterion; None = the greatest determinant.
    Raises UnfitDataError where the base parameters are not those of torque rows.
    """
    information = information_of(robot, terms, noise)
    apart = _apart(information, base.independent)
    if not np.array_equal(base.independent[~apart], information.base.independent):
        raise UnfitDataError(
            "factor-model", found="base parameters of other rows", expected="those of torque rows"
        )
    criterion = Criterion.LOGDET if asked is None else Criterion.PRECISION
    own = None if asked is None else asked[~apart]
    return replace(information, recorded=_rest(recorded, apart), rate=rate, asked=own, criterion=criterion)


def _triangle(information: Information, factors: Factors) -> Float:
    base, robot = information.base, information.robot
    found = np.unique(np.concatenate([factor.columns for factor in factors.total]))
    apart = found[_apart(information, found)]
    columns = np.concatenate([apart, base.independent])
    if factors.group_names != robot.joint_names or not np.isin(found, columns).all():
        raise UnfitDataError(
            "factor-model",
            found="factors of other rows or another model",
            expected="torque rows of the same robot and terms",
            do="identify again with torque rows",
        )
    R, k = np.asarray(stack(factors.total, columns, 1.0 / information.noise**2)), len(apart)
    return np.asarray(R[k:-1, k:-1])


def _apart(information: Information, columns: Int) -> Bool:
    # Which of some parameters are of terms that the search leaves out.
    return np.asarray(Whole(information.terms).parameters(information.robot)[columns])


def _rest(R: Float, apart: Bool) -> Float:
    # The triangle of what equations say of the other parameters, whatever the value of those apart.
    if not apart.any():
        return R
    first = np.concatenate([R[:, apart], R[:, ~apart]], axis=1)
    triangle, k = np.asarray(np.linalg.qr(first, mode="r"), dtype=np.float64), int(apart.sum())
    return np.asarray(triangle[k:, k:])
