"""Instrumental variables: equations along measured motion, with instruments that do not share its noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import SolverError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Piece, Regression, Status
from dynid.estimate.least_squares import WLS, completed, solve
from dynid.estimate.simulated import ClosedLoopFit, tried
from dynid.estimate.source import LogSource, factors_of_pieces
from dynid.estimate.uncertainty import BlockScores, Intervals, covariance_of, most_rounds, shrunk
from dynid.factor.factor import Factor, Factors
from dynid.kernel import solve_triangular
from dynid.signals.samples import Samples

# DIDIM: the regressor along simulated motion contains no encoder noise.

# Most halvings of a step that cannot be simulated.
HALVINGS = 4
Made = TypeVar("Made")


@dataclass(frozen=True)
class Iteration:
    """End of an iteration of simulations.

    Attributes
    ----------
    value : ndarray, shape (b,)
        Estimate.
    moved : float
        Last move, in standard deviations.
    rounds : int
        Number of simulations.
    converged : bool
        Whether it converged.
    stopped : str
        Reason for an early stop.

    """

    value: Float
    moved: float
    rounds: int
    converged: bool
    stopped: str = ""

    def text(self, subject: str) -> str:
        """Result in words, with what to try next."""
        text = f"{subject}, {self.rounds} simulations"
        if self.stopped:
            return f"{text}; stopped, since smaller steps cannot be simulated either: {self.stopped}"
        if not self.converged:
            text += (
                f"; not converged: the last simulation moved the estimate by {self.moved:.2g} standard deviations; "
                "raise bandwidth or rounds"
            )
        return text


@dataclass(frozen=True)
class DIDIM(ClosedLoopFit):
    """Direct and inverse dynamic identification models: tau = W(q_s, dq_s, ddq_s) beta along simulated motion.

    The model is simulated with the latest beta under u = tau + kp (q - q_s) + kd (dq - dq_s), and weighted least
    squares gives the next beta, until it converges. The first beta comes from smoothed motion. With elastic joints the
    deflection of the motors is the measured one: a simulated spring deflects as far as the torque requires whatever its
    stiffness, so torque along simulated deflections would agree with every stiffness.

    Parameters
    ----------
    kp, kd : float or sequence of float, N m/rad and N m s/rad, optional
        Gains of the robot's own linear position controller; None = a virtual feedback.
    bandwidth : float, Hz, optional
        Bandwidth of the virtual feedback; None = four times the highest frequency of the motion, 2 to 15 Hz.
    rounds : int
        Greatest number of simulations.
    tolerance : float
        Move of the estimate at which iteration stops, in standard deviations.

    References
    ----------
    Gautier, Janot and Vandanjon 2013; with springs Gautier, Jubien, Janot and Robet 2013.

    """

    name: str = "didim"

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between simulation and weighted least squares.

        Raises UsageError if there are only factors, SolverError if no parameters near the data can be simulated.
        """
        simulation, start, feedback = self.opened(regression, self.name)

        def fitted(value: Float) -> tuple[Estimate, Regression]:
            simulated = simulation.simulated(value, feedback)
            pairs = zip(simulated, simulation.measured, strict=True)
            source = simulation.source.with_batches(
                [deflected(motion, measured, simulation.second) for motion, measured in pairs]
            )
            factors = factors_of_pieces(regression, source.pieces(simulation.wanted))
            simulated_regression = replace(regression, factors=factors, source=source)
            return WLS(intervals=self.intervals).fit(simulated_regression), simulated_regression

        def following(value: Float) -> tuple[Float, Float, tuple[Estimate, Regression]]:
            estimate_found = fitted(value)
            return (
                estimate_found[0].value,
                solve(estimate_found[1], estimate_found[0].weights)[1],
                estimate_found,
            )

        iteration, (estimate, made) = iterated(
            following, simulation.simulable.nearest, start, self.rounds, self.tolerance
        )
        weights = estimate.weights
        estimate_found = completed(
            self,
            regression,
            iteration.value,
            solve(made, weights)[1],
            weights,
            estimate.sigma,
            1.0,
            None,
            Status(iteration.converged, iteration.text(f"{simulation.bandwidth:.2g} Hz feedback")),
            made.factors.scaled(weights),
        )
        return estimate_found


def deflected(simulated: Samples, measured: Samples, second: tuple[int, ...]) -> Samples:
    """Simulated samples with the measured deflection of the motors.

    `second`: joints with two encoders. Result: simulated samples, in which motors lead their links as measured.
    """
    if not second or simulated.theta is None or measured.theta is None:
        return simulated
    joints, theta = list(second), np.array(simulated.theta)
    theta[:, joints] = (simulated.q + measured.theta - measured.q)[:, joints]
    return replace(simulated, theta=theta)


def iterated(
    following: Callable[[Float], tuple[Float, Float, Made]],
    nearest: Callable[[Float, Float], Float],
    start: Float,
    rounds: int,
    tolerance: float,
) -> tuple[Iteration, Made]:
    """Repeat value -> next value until it moves by less than the tolerance.

    `following`: value (b,) to simulate -> the next one, the triangle R (b, b) of its weighted equations, and further
    results. If it raises SolverError, the step before is halved; `nearest`: value and R -> the nearest value that can
    be simulated; `start` (b,): start, which can be simulated; `rounds`: greatest number of rounds; `tolerance`:
    tolerance, in standard deviations. Results: end of the iteration; last further results.
    """
    value, (new, R, results) = start, following(start)
    for number in range(1, rounds + 1):
        moved = float(np.linalg.norm(R @ (new - value)) / np.sqrt(len(value)))
        if moved < tolerance:
            return Iteration(new, moved, number, True), results
        if number == rounds:
            return Iteration(new, moved, number, False), results
        step, error = new - value, None
        for halving in range(HALVINGS):
            try:
                target = value + step / 2**halving
                following_one = following(nearest(target, R))
            except SolverError as failure:
                error = failure
                continue
            value, (new, R, results) = target, following_one
            break
        else:
            stopped = "" if error is None else tried(error)
            return Iteration(new, moved, number, False, stopped), results
    raise ValueError("rounds must be at least 1")


# Least canonical correlation below which instruments are weak.
WEAK = 0.05
# Relative eigenvalue that replaces smaller ones: directions almost without information.
LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class IV(ClosedLoopFit):
    """Instrumental variables, Z'W beta = Z'y with Z = W(q_s, dq_s, ddq_s) along simulated motion, iterated.

    The instruments follow the model under the feedback of `DIDIM`, whose options apply here too. Noise of the measured
    W is averaged out, since Z does not share it; joints weigh 1/sigma_j^2 of their own residuals. The status reports
    weak instruments: a least canonical correlation between Z and W below 0.05.

    References
    ----------
    Janot, Vandanjon and Gautier 2014; Young 2011, ch. 6 (iterated instruments).

    """

    rounds: int = most_rounds(10)
    name: str = "iv"

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between simulated instruments and their equations.

        Raises UsageError if there are only factors, SolverError if no parameters near the data can be simulated.
        """
        simulation, start, feedback = self.opened(regression, self.name)
        measured = list(simulation.source.with_batches(simulation.measured).pieces(simulation.wanted))

        def following(value: Float) -> tuple[Float, Float, Solved]:
            simulated: LogSource = simulation.source.with_batches(simulation.simulated(value, feedback))
            solved = solve_instruments(regression, measured, simulated.pieces(simulation.wanted))
            return solved.value, solved.triangle, solved

        iteration, solved = iterated(
            following, simulation.simulable.nearest, start, self.rounds, self.tolerance
        )
        text = iteration.text(f"instruments at {simulation.bandwidth:.2g} Hz feedback")
        weak = solved.correlation < WEAK
        if weak:
            text += (
                f"; weak instruments: least correlation with the regressor {solved.correlation:.2g}; "
                "record a richer motion, filter more (lower cutoff), or use 'didim' or 'ridge'"
            )
        status = Status(iteration.converged and not weak, text)
        return solved.estimate(self.name, regression, status, self.intervals)


@dataclass(frozen=True, eq=False)
class Solved:
    """Solution of Z'W beta = Z'y, with the ingredients of its uncertainty.

    Attributes
    ----------
    value : ndarray, shape (b,)
        Solution.
    triangle : ndarray, shape (b, b)
        Its square is the inverse of the textbook covariance.
    weights, sigma : ndarray, shape (g,)
        Weights and residual standard deviations of the groups.
    textbook : ndarray, shape (b, b)
        Textbook covariance.
    A : ndarray, shape (M, b, b)
        Z'W of every block.
    score : ndarray, shape (M, b)
        Z'e of every block.
    correlation : float
        Least canonical correlation between Z and W.

    """

    value: Float
    triangle: Float
    weights: Float
    sigma: Float
    textbook: Float
    A: Float
    score: Float
    correlation: float

    def covariance(self, kind: str, segment: Int) -> Float:
        """Covariance (b, b) from the blocks, which lie in segments (M,).

        Z'W is symmetric except for noise: leverages are those of its symmetric part.
        """
        A = self.A.sum(axis=0)
        even = 0.5 * (A + A.T)
        size = np.sqrt(np.abs(np.diag(even)))
        root = _inverse_root(even / np.outer(size, size)) / size
        H = np.einsum("ia,mab,jb->mij", root, self.A, root)
        into = np.linalg.solve(A, np.linalg.inv(root))
        blocks = BlockScores(into, 0.5 * (H + H.transpose(0, 2, 1)), self.score @ root.T, segment)
        if kind != Intervals.JACKKNIFE:
            return covariance_of(kind, blocks)
        white = np.linalg.solve(into, np.linalg.solve(into, self.jackknife()).T)
        return blocks.covariance(shrunk(0.5 * (white + white.T), blocks))

    def jackknife(self) -> Float:
        """Covariance (b, b) by leaving out one block at a time, exactly."""
        A, M = self.A.sum(axis=0), len(self.A)
        shifts = np.array([np.linalg.solve(A - a, s) for a, s in zip(self.A, self.score, strict=True)])
        D = shifts - shifts.mean(axis=0)
        return np.asarray((M - 1) / M * (D.T @ D))

    def estimate(self, name: str, regression: Regression, status: Status, intervals: str) -> Estimate:
        """Estimate with its covariance from blocks."""
        A, together = self.A.sum(axis=0), regression.factors.independent()
        segment = np.array(
            [regression.factors.blocks[numbers[0]].segment for numbers in together], dtype=np.int64
        )
        independent = replace(
            self,
            A=np.array([self.A[numbers].sum(axis=0) for numbers in together]),
            score=np.array([self.score[numbers].sum(axis=0) for numbers in together]),
        )
        share = np.maximum(np.trace(np.linalg.solve(A, self.A), axis1=1, axis2=2) / len(A), 0.0)
        return Estimate(
            method=name,
            columns=regression.columns,
            base=regression.base,
            group_names=regression.factors.group_names,
            value=self.value,
            covariance=independent.covariance(intervals, segment),
            textbook_covariance=self.textbook,
            degrees_of_freedom=float(len(together) - 1),
            sigma=self.sigma,
            weights=self.weights,
            parameters=regression.base.lift(self.value, regression.prior, regression.spread),
            block_leverage=share / max(share.sum(), 1.0),
            count=regression.factors.count,
            status=status,
        )


def solve_instruments(
    regression: Regression, measured: Iterable[Piece], simulated: Iterable[Piece]
) -> Solved:
    """Solve the equations of measured pieces with instruments of simulated pieces.

    `measured`, `simulated`: equations along measured and simulated motion. Result: solution. Raises SolverError if the
    equations are singular.
    """
    p, base = regression.factors.parameter_count, regression.base
    double = replace(
        regression, factors=Factors(regression.factors.group_names, 2 * p, regression.factors.blocks)
    )
    both = factors_of_pieces(double, _side_by_side(measured, simulated, p))
    sigma = np.array(WLS().fit(regression).sigma)
    value = np.zeros(base.rank)
    for _ in range(5):
        weights = 1.0 / sigma**2
        parts = [_products(block.groups, base.independent, weights, p) for block in both.blocks]
        A, y, ZZ, WW = (np.array([part[i] for part in parts]) for i in range(4))
        total = A.sum(axis=0)
        try:
            value = np.linalg.solve(total, y.sum(axis=0))
        except np.linalg.LinAlgError as error:
            raise _singular_error() from error
        theta = np.zeros(2 * p)
        theta[base.independent] = value
        new = np.array(
            [np.sqrt(f.residual_square(theta) / max(f.count - len(f.columns) // 2, 1)) for f in both.total]
        )
        new = np.maximum(new, 1e-12 * sigma)
        settled = np.abs(new / sigma - 1.0).max() < 1e-3
        sigma = new
        if settled:
            break
    square = ZZ.sum(axis=0)
    triangle = _triangle(total, square)
    inverse = solve_triangular(triangle, np.eye(base.rank))
    scores = np.array([block_y - a @ value for block_y, a in zip(y, A, strict=True)])
    return Solved(
        value,
        triangle,
        weights,
        sigma,
        inverse @ inverse.T,
        A,
        scores,
        least_correlation(total, square, WW.sum(axis=0)),
    )


def _triangle(ZW: Float, ZZ: Float) -> Float:
    # R with R'R = (Z'W)' (Z'Z)^-1 Z'W, the inverse of the textbook covariance.
    size = np.sqrt(np.diag(ZZ))
    try:
        root = np.linalg.cholesky(_regularised(ZZ / np.outer(size, size)))
        R = np.linalg.qr(solve_triangular(root, ZW / size[:, None], lower=True), mode="r")
        np.linalg.inv(R)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise _singular_error() from error
    return np.asarray(R * np.sign(np.diag(R))[:, None])


def _singular_error() -> SolverError:
    return SolverError(
        "singular-instruments",
        found="instruments that are not correlated with the regressor",
        expected="a simulated motion like the measured one",
        do="filter more, or use 'didim'",
    )


def least_correlation(ZW: Float, ZZ: Float, WW: Float) -> float:
    """Least canonical correlation between instruments and regressors.

    `ZW`, `ZZ`, `WW` (b, b): products of instruments Z and regressors W.
    """
    z, w = np.linalg.cholesky(_regularised(ZZ)), np.linalg.cholesky(_regularised(WW))
    whitened = np.linalg.solve(w, np.linalg.solve(z, ZW).T)
    return float(np.linalg.svd(whitened, compute_uv=False)[-1])


def _inverse_root(S: Float) -> Float:
    # L^-1 of S = L L'; directions without information get almost none.
    values, vectors = np.linalg.eigh(S)
    return np.asarray((vectors / np.sqrt(np.maximum(values, LEAST_SHARE * values[-1]))).T)


def _regularised(S: Float) -> Float:
    return S + 1e-13 * np.diag(np.diag(S))


def _side_by_side(measured: Iterable[Piece], simulated: Iterable[Piece], p: int) -> Iterator[Piece]:
    for a, b in zip(measured, simulated, strict=True):
        columns = tuple(np.concatenate([x, p + z]) for x, z in zip(a.columns, b.columns, strict=True))
        panels = tuple(
            np.concatenate([x[:-1], z[:-1], x[-1:]]) for x, z in zip(a.panels, b.panels, strict=True)
        )
        yield replace(a, columns=columns, panels=panels)


def _products(
    groups: tuple[Factor, ...], independent: Int, weights: Float, p: int
) -> tuple[Float, Float, Float, Float]:
    # Z'W, Z'y, Z'Z and W'W of one block over the base columns, with the weights of the groups.
    b = len(independent)
    position = {int(c): i for i, c in enumerate(independent)}
    ZW, ZZ, WW, Zy = np.zeros((b, b)), np.zeros((b, b)), np.zeros((b, b)), np.zeros(b)
    for factor, weight in zip(groups, weights, strict=True):
        of_regressor = factor.columns < p
        W, Z, y = factor.R[:, :-1][:, of_regressor], factor.R[:, :-1][:, ~of_regressor], factor.R[:, -1]
        rows = np.array([position[int(c)] for c in factor.columns[of_regressor]])
        columns = np.array([position[int(c)] for c in factor.columns[~of_regressor] - p])
        ZW[np.ix_(columns, rows)] += weight * (Z.T @ W)
        ZZ[np.ix_(columns, columns)] += weight * (Z.T @ Z)
        WW[np.ix_(rows, rows)] += weight * (W.T @ W)
        Zy[columns] += weight * (Z.T @ y)
    return ZW, Zy, ZZ, WW
