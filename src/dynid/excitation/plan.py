"""Design of a motion from several starts, in parallel processes, with the same result for any number of them."""

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

# Width of the smoothed sign relative to the slowest velocity limit, and torque noise relative to the torque limit.
SMOOTH_SHARE, NOISE_SHARE = 0.01, 0.01
# s: interval of progress and of the check for Ctrl-C.
POLL_SECONDS = 0.2
# Points of the fit to an earlier motion, and error relative to its range above which it belongs to another family.
RESUMED, UNLIKE = 1000, 0.01

Progress = Callable[[int, int, float], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class Plan:
    """A designed motion.

    Parameters
    ----------
    task : Task
        The task.
    trajectory : BasisTrajectory
        The motion.
    figures : Figures
        Exact criteria, with smoothed friction.
    value : float
        Its criterion.
    first : float
        Criterion of the best random start.
    margins : tuple of Margin
        Margins of all limits on a grid eight times as dense as that of the design; of torque at 1 kHz if the search
        omits terms that they contain.
    starts, iterations : int
        Size of the search.
    stopped : bool
        Whether the search was interrupted, so that this is the best motion so far.
    verified : Verified, optional
        Result of the independent check.

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
        """The limit that the motion comes closest to."""
        return min(self.margins, key=lambda m: m.margin)

    @property
    def information(self) -> Information:
        """The criterion of the design."""
        return self.task.information

    @property
    def bounds(self) -> Bounds:
        """The limits that it meets."""
        return self.task.bounds

    def describe(self) -> dict[str, Any]:
        """Plain data of the design."""
        return {
            "basis": _basis_data(self.task.basis),
            "coefficients": self.trajectory.X.tolist(),
            "starts": self.starts,
            "iterations": self.iterations,
        } | reserve_data(self)


class Sheet(Protocol):
    """What the files of a plan are written from."""

    @property
    def information(self) -> Information:
        """The criterion."""
        ...

    @property
    def bounds(self) -> Bounds:
        """The limits."""
        ...

    @property
    def trajectory(self) -> Trajectory:
        """The motion."""
        ...

    @property
    def figures(self) -> Figures:
        """Its criteria."""
        ...

    @property
    def margins(self) -> tuple[Margin, ...]:
        """Its margins from all limits."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether the search was interrupted."""
        ...

    @property
    def verified(self) -> Verified | None:
        """Result of the independent check; None if it was not possible."""
        ...

    def describe(self) -> dict[str, Any]:
        """Plain data of the design."""
        ...


def reserve_data(plan: Sheet) -> dict[str, Any]:
    """Torque reserve of a plan, as plain data."""
    information = plan.information
    reserve = reserve_of(information.robot, information.terms, plan.bounds, plan.trajectory)
    return {} if reserve is None else {"torque_reserve": reserve.describe()}


def _basis_data(basis: Basis) -> dict[str, Any]:
    if isinstance(basis, Together):
        return {"family": "together", "parts": [_basis_data(part) for part in basis.parts]}
    if isinstance(basis, FourierBasis | SplineBasis):
        return {"family": "fourier" if isinstance(basis, FourierBasis) else "spline"} | asdict(basis)
    return {"family": "other"}


def design_terms(terms: Terms, robot: RobotModel) -> Terms:
    """The model of a design, with the sign of Coulomb friction smoothed over SMOOTH_SHARE of the velocity.

    Friction with memory becomes the Coulomb friction that it is away from reversals, and terms that need derivatives
    over time are omitted. The parameters stay the same.
    """
    speeds = robot.limits.velocity[np.isfinite(robot.limits.velocity)]
    width = SMOOTH_SHARE * float(speeds.min()) if len(speeds) else SMOOTH_SHARE
    instant = (LeftOut(term) if Reads.RATE in term.traits.reads else without_memory(term) for term in terms)
    return Terms(tuple(replace(t, width=width) if _is_plain_sign(t) else t for t in instant))


def _is_plain_sign(term: Term) -> bool:
    return isinstance(term, JointTerm) and term.traits.basis is MotionBasis.SIGN and term.width == 0


def expected_noise(robot: RobotModel) -> Float:
    """Torque noise (n,): NOISE_SHARE of the effort limit, or of the mean limit for joints without one."""
    effort = robot.limits.effort
    known = np.isfinite(effort) & (effort > 0)
    middle = float(np.exp(np.log(effort[known]).mean())) if known.any() else 1.0
    return NOISE_SHARE * np.where(known, effort, middle)


def prior_theta(robot: RobotModel, terms: Terms) -> Float | None:
    """Parameters of the robot file.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.

    Returns
    -------
    ndarray, shape (n_parameters,), or None
        Parameters, with unknown friction as 0; None if masses are unknown.

    """
    if not np.isfinite(robot.inertia_prior).all():
        return None
    return np.asarray(np.nan_to_num(np.array([column.prior for column in terms.columns(robot)])))


def information_of(robot: RobotModel, terms: Terms, noise: Float | None = None) -> Information:
    """The criterion for a robot and a model: structural base, smoothed friction, expected noise.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    noise : ndarray, shape (n_joints,), optional, N m or N
        Torque noise; `expected_noise` without it.

    Returns
    -------
    Information
        The criterion.

    Raises
    ------
    UsageError
        If terms read channels of a log, which a plan does not have.

    """
    if channels := terms.channels():
        raise UsageError(
            "channel-terms",
            found="terms that read " + ", ".join(channels) + " of a log",
            expected="a model that depends on the motion only",
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
    """Design the best motion of a task, from the best of several random motions.

    Parameters
    ----------
    task : Task
        The task.
    starts : int
        Number of motions from which the search starts.
    iterations : int
        Maximum number of iterations of each.
    seed : int
        Seed of the random motions.
    candidates : int
        Number of random motions of which the best are the starts.
    workers : int
        Number of processes; the result does not depend on it.
    progress : callable, optional
        Called with (iterations done, maximum number of iterations, best criterion so far).
    stop : callable, optional
        Called regularly; once it returns True the best motion so far is returned.
    first : ndarray, shape (n_coefficients, n_joints), optional
        Coefficients of a motion that replaces one start, see `coefficients_of`.

    Returns
    -------
    Plan
        The motion.

    Raises
    ------
    UnfitDataError
        If a limit cannot be met or parameters cannot be determined; it names them.
    UsageError
        For counts below 1.

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
    given = [] if first is None else [_start_within_bounds(problem, first)]
    fits = (fit for X in drawn if (fit := problem.shrunk(X, DENSER)) is not None)
    chosen = [*given, *islice(fits, starts - len(given))] or drawn[:starts]
    level = problem.exact(chosen[0])
    if workers == 1 or len(chosen) == 1:
        solutions, stopped = _in_this_process(problem, chosen, iterations, progress, stop)
    else:
        solutions, stopped = _in_processes(
            task, chosen, iterations, min(workers, len(chosen)), progress, stop
        )
    if not solutions:
        fit = problem.shrunk(chosen[0], DENSER)
        solutions = [Solution(chosen[0] if fit is None else fit, level, level, 0)]
    X, margins, checked = _safest(task, solutions)
    return Plan(
        task=task,
        trajectory=BasisTrajectory(task.basis, X),
        figures=problem.figures(X),
        value=problem.exact(X),
        first=level,
        margins=margins,
        starts=len(solutions),
        iterations=sum(solution.iterations for solution in solutions),
        stopped=stopped,
        verified=checked,
    )


def coefficients_of(basis: Basis, trajectory: Trajectory) -> Float:
    """Coefficients (m, n) of an earlier motion in a family, by least squares over its positions.

    Raises UsageError for a motion of another length, or one that the family cannot represent.
    """
    t = np.linspace(0.0, basis.duration, max(RESUMED, 10 * basis.size))
    q = trajectory.motion(t)[0]
    B = basis.values(t)[0]
    X = np.linalg.lstsq(B, q, rcond=None)[0]
    wrong = float(np.abs(B @ X - q).max() / max(np.ptp(q, axis=0).max(), 1e-12))
    if abs(trajectory.duration - basis.duration) > 1e-9 or wrong > UNLIKE:
        raise UsageError(
            "resume",
            found=f"a motion of {trajectory.duration:g} s that this family fits only to {100 * wrong:.2g} %",
            expected=f"a motion of {basis.duration:g} s of the same family",
            do="use the options of the earlier plan",
        )
    return np.asarray(X)


def _start_within_bounds(problem: Problem, X: Float) -> Float:
    fit = problem.shrunk(X)
    if fit is None:
        worst = worst_broken(problem.task.standing(X[0]))
        raise UnfitDataError(
            "resume",
            found=f"an earlier motion that violates a limit, however small: {worst}",
            expected="limits that its start pose meets",
            do="search without --resume, or use the limits of the earlier plan",
        )
    return fit


def _safest(task: Task, solutions: list[Solution]) -> tuple[Float, tuple[Margin, ...], Verified | None]:
    # The earlier start wins ties, so that the result does not depend on timing. A motion that violates a limit is never
    # returned.
    worst: object = None
    for solution in sorted(solutions, key=lambda candidate: candidate.value):
        for share in (1.0, *SHARES):
            X = resized(solution.X, share)
            margins = task.margins(X)
            worst = min(margins, key=lambda m: m.margin)
            if worst.margin < 0:
                continue
            trajectory, information = BasisTrajectory(task.basis, X), task.information
            margins = with_whole_torque(
                information.robot, information.terms, task.bounds, trajectory, margins
            )
            worst = min(margins, key=lambda m: m.margin)
            if worst.margin < 0:
                continue
            checked = verified(information.robot, task.bounds, trajectory)
            if checked is None or checked.broken is None:
                return X, margins, checked
            worst = f"{checked.broken} (by {checked.library} at {checked.rate:g} Hz)"
    raise UnfitDataError(
        "infeasible-limits",
        found=f"no motion within all limits on the dense grid; violated: {worst}",
        expected="limits that leave room for motion",
        do="relax that limit, or try another seed",
    )


def _in_this_process(
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
            progress(done, iterations * len(chosen), min(solution.value for solution in solutions))
    return solutions, stop is not None and stop()


_SHARED: dict[str, Any] = {}


def _worker(ended: Any, done: Any, best: Any) -> None:
    # Ctrl-C reaches all processes of a terminal; only the parent handles it.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    _SHARED.update(ended=ended, done=done, best=best)


def _solve_in_worker(task: Task, X: Float, iterations: int, kernel: str) -> Solution:
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
            running = [pool.submit(_solve_in_worker, task, X, iterations, kernel) for X in chosen]
        while True:
            _, waiting = wait(running, timeout=POLL_SECONDS)
            if progress is not None:
                progress(done.value, iterations * len(chosen), best.value)
            if stop is not None and stop():
                stopped.set()
            if not waiting:
                break
        solutions = [future.result() for future in running]
        # On the densest grid motions may have been reduced, with a worse criterion than in the search.
        if progress is not None:
            progress(done.value, iterations * len(chosen), min(solution.value for solution in solutions))
        return solutions, stopped.is_set()


# What to record next: the factors of an earlier log as part of the criterion.


def information_after(
    robot: RobotModel, terms: Terms, factors: Factors, sigma: Float, correlation: Float | None = None
) -> Information:
    """The criterion of a motion that adds to an earlier log.

    Terms that the search omits count as unknown in the earlier log and as known in the new motion. A second of new
    motion counts for as many rows as a second of the earlier log, with the same noise and correlation.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    factors : Factors
        Factors of the earlier log, of the same model.
    sigma : ndarray, shape (n_joints,), N m or N
        Standard deviation of its residuals.
    correlation : ndarray, shape (n_joints,), optional
        Rows that count as one independent row, see `estimate.residuals.rows_a_sample`; 1 without it.

    Returns
    -------
    Information
        The criterion.

    Raises
    ------
    UnfitDataError
        If the factors are not those of torque rows of this model.

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
    """The criterion of a motion that adds to what an online estimate knows.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    base : BaseMap
        Base parameters of the estimate.
    recorded : ndarray, shape (n_base, n_base)
        Triangle of its equations, in units of their noise.
    noise : ndarray, shape (n_joints,), N m or N
        Standard deviation of an equation, times the root of the number that carries the information of an independent
        one.
    rate : float, Hz
        Equations per second and joint.
    asked : ndarray, shape (n_base,), optional
        Required standard deviations, which become the criterion; without it the largest determinant.

    Returns
    -------
    Information
        The criterion.

    Raises
    ------
    UnfitDataError
        If the base parameters are not those of torque rows.

    """
    information = information_of(robot, terms, noise)
    apart = _is_left_out(information, base.independent)
    if not np.array_equal(base.independent[~apart], information.base.independent):
        raise UnfitDataError(
            "factor-model", found="base parameters of rows other than torque", expected="those of torque rows"
        )
    criterion = Criterion.LOGDET if asked is None else Criterion.PRECISION
    asked_here = None if asked is None else asked[~apart]
    return replace(
        information,
        recorded=_without_columns(recorded, apart),
        rate=rate,
        asked=asked_here,
        criterion=criterion,
    )


def _triangle(information: Information, factors: Factors) -> Float:
    base, robot = information.base, information.robot
    recorded_columns = np.unique(np.concatenate([factor.columns for factor in factors.total]))
    apart = recorded_columns[_is_left_out(information, recorded_columns)]
    columns = np.concatenate([apart, base.independent])
    if factors.group_names != robot.joint_names or not np.isin(recorded_columns, columns).all():
        raise UnfitDataError(
            "factor-model",
            found="factors of other rows or another model",
            expected="torque rows of the same robot and terms",
            do="identify again with torque rows",
        )
    R, k = np.asarray(stack(factors.total, columns, 1.0 / information.noise**2)), len(apart)
    return np.asarray(R[k:-1, k:-1])


def _is_left_out(information: Information, columns: Int) -> Bool:
    # Mask of parameters that belong to terms that the search omits.
    return np.asarray(Whole(information.terms).parameters(information.robot)[columns])


def _without_columns(R: Float, apart: Bool) -> Float:
    # Triangle of the equations after elimination of the masked parameters.
    if not apart.any():
        return R
    first = np.concatenate([R[:, apart], R[:, ~apart]], axis=1)
    triangle, k = np.asarray(np.linalg.qr(first, mode="r"), dtype=np.float64), int(apart.sum())
    return np.asarray(triangle[k:, k:])
