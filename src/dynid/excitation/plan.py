"""Designing a motion from several starts, in parallel processes, with one result for any number of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import end_with_parent, ended, uninterrupted
from dynid.base.records import dataclass
from dynid.excitation.constraints import Margin, with_whole_torque
from dynid.excitation.criteria import Figures, Information
from dynid.excitation.design import (
    DENSER,
    SHARES,
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
from dynid.excitation.left_out import LeftOut
from dynid.excitation.limits import Bounds
from dynid.excitation.reserve import reserve_of
from dynid.excitation.verify import Verified, verified
from dynid.factor.base import structural_base
from dynid.kernel import backend, using
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Term, Terms
from dynid.trajectories.basis import Basis, BasisTrajectory, FourierBasis, SplineBasis
from dynid.trajectories.chain import Together
from dynid.trajectories.trajectory import Trajectory

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
    instant = (LeftOut(term) if term.reads_rate else term.without_memory() for term in terms)
    return Terms(tuple(replace(t, width=width) if _is_plain_sign(t) else t for t in instant))


def _is_plain_sign(term: Term) -> bool:
    return isinstance(term, JointTerm) and term.exports_as is MotionBasis.SIGN and term.width == 0


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
