"""Maximum likelihood with noise in the positions: the variance of an equation depends on state and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dynid.base import Float, Int, check_options, dataclass
from dynid.estimate import (
    WLS,
    BlockScores,
    Estimate,
    Places,
    Regression,
    SimulationProblem,
    Status,
    covariance_of,
    encoder_noise,
    interval_kind,
    last_move,
    most_rounds,
    piece_of,
    require_enough,
    residual_sigma,
)
from dynid.kernel import solve_triangular
from dynid.rows import ElasticRows, TorqueRows
from dynid.signals import MotionNoise, zero_phase_filter
from dynid.simulation import Mechanism, extra_of, measured_motion

# Steps of central differences in position, velocity and acceleration, SI units.
STEPS = (1e-5, 1e-4, 1e-3)
# Most halvings of a step.
HALVINGS = 4
# Least variance of torque noise relative to the mean squared residual, so that no joint gets an infinite weight.
LEAST_SHARE = 1e-4


@dataclass(frozen=True)
class ML:
    """Maximum likelihood: min sum_k e_k' S_k^-1 e_k, e = tau - Y(q, dq, ddq) beta in filtered samples k.

    S_k = diag(sigma_j^2) + sum_c J_kc N_c J_kc', with J_kc = d(Y beta)/d(q, dq, ddq) of coordinate c and N_c (3, 3)
    the covariance of its noise behind all filters. This is the likelihood after the true states are eliminated. Since
    S depends on beta as well, the bias of least squares under position noise is removed to first order, and samples
    where noise matters most have less weight.

    The equations are those of torque (and of the motors behind elastic joints), whatever the rows. sigma_j match the
    residuals. Without known noise of the motion it is weighted least squares. The covariance is that of the scores of
    blocks, see Intervals.

    Parameters
    ----------
    position_noise : float or sequence of float, optional, rad or m
        Standard deviation of the encoder noise, as in `TLS`.
    rounds : int
        Maximum number of iterations.
    tolerance : float
        Last change of the estimate, in standard deviations.
    intervals : str
        Kind of confidence intervals.

    References
    ----------
    Olsen and Petersen 2001; Olsen, Swevers and Verdonck 2002.

    """

    position_noise: float | Sequence[float] | None = encoder_noise()
    rounds: int = most_rounds(25)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    name: str = "ml"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Fisher scoring with halved steps, from weighted least squares.

        Raises UsageError if there are only factors, without samples.
        """
        require_enough(regression)
        simulation = SimulationProblem.of(regression, self.name, 1.0)
        free = WLS().fit(regression)
        noise = simulation.source.noise(self.position_noise)
        if noise is None:
            text = (
                f"{free.status.text}; the noise of the motion is unknown, so this is weighted least squares"
            )
            return replace(free, method=self.name, status=Status(free.status.ok, text))
        likelihood = Likelihood.of(simulation, noise)
        point = likelihood.at(np.array(free.value))
        variance = likelihood.matched(point, np.array(free.sigma) ** 2)
        slope = likelihood.slope(point, variance)
        moved, done, stuck = np.inf, 0, False
        while done < self.rounds and not stuck:
            done, moved = done + 1, slope.moved
            if moved < self.tolerance:
                break
            trial = _step_that_improves(likelihood, point, slope.step, variance)
            stuck = trial is None
            if trial is not None:
                point = trial
                variance = likelihood.matched(point, variance)
                slope = likelihood.slope(point, variance)
        status = _status(done, moved, self.tolerance, stuck)
        return self._estimate(regression, likelihood, point, slope, status)

    def _estimate(
        self, regression: Regression, likelihood: Likelihood, point: Point, slope: Slope, status: Status
    ) -> Estimate:
        b = len(point.value)
        inverse = solve_triangular(np.linalg.cholesky(slope.information).T, np.eye(b))
        M = len(regression.factors.blocks)
        scores, information = np.zeros((M, b)), np.zeros((M, b, b))
        whitened = slope.whitened @ inverse
        for m in range(M):
            in_block = likelihood.block == m
            scores[m] = slope.scores[in_block].sum(axis=0) @ inverse
            information[m] = np.einsum("tgi,tgj->ij", whitened[in_block], whitened[in_block])
        segment = np.array([block.segment for block in regression.factors.blocks], dtype=np.int64)
        blocks = BlockScores(inverse, information, scores, segment)
        independent = blocks.grouped(regression.factors.independent())
        sigma = residual_sigma(regression, point.value)
        return Estimate(
            method=self.name,
            columns=regression.columns,
            base=regression.base,
            group_names=regression.factors.group_names,
            value=point.value,
            covariance=covariance_of(self.intervals, independent),
            textbook_covariance=inverse @ inverse.T,
            degrees_of_freedom=float(independent.count - 1),
            sigma=sigma,
            weights=1.0 / sigma**2,
            parameters=regression.base.lift(point.value, regression.prior, regression.spread),
            block_leverage=blocks.leverage(),
            count=regression.factors.count,
            status=status,
        )


@dataclass(frozen=True, eq=False)
class Point:
    """A value with residuals e (T, g), slopes J (T, g, s, 3) and the covariance (T, g, g) of noise in the equations."""

    value: Float
    e: Float
    J: Float
    spread: Float


@dataclass(frozen=True, eq=False)
class Slope:
    """Information (b, b) and step (b,) at a point.

    scores: (T, b) minus gradient of each sample.    whitened: (T, g, b) S^-1/2 X.
    """

    information: Float
    step: Float
    scores: Float
    whitened: Float

    @property
    def moved(self) -> float:
        """Length of the step in standard deviations."""
        return float(np.sqrt(self.step @ self.information @ self.step / len(self.step)))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Filtered equations of T samples in g groups, their states, and the noise of the states.

    X: (T, g, b).    y: (T, g).    block: (T,).    x, v, a, extra: states at the times of the equations.
    noise: (s, 3, 3) covariance of position, velocity and acceleration of each coordinate behind all filters.
    groups: (g, s), groups of equations from forces on the coordinates.
    """

    simulation: SimulationProblem
    X: Float
    y: Float
    block: Int
    x: Float
    v: Float
    a: Float
    extra: dict[str, Float]
    noise: Float
    groups: Float

    @staticmethod
    def of(simulation: SimulationProblem, noise: MotionNoise) -> Likelihood:
        """The samples of a simulation problem, without gates: the variance of an equation determines its weight."""
        source, base = simulation.source, simulation.regression.base
        rows = source.assembly.rows if isinstance(source.assembly.rows, ElasticRows) else TorqueRows()
        assembly = replace(source.assembly, wanted=base.mask, rows=rows)
        probe = simulation.mechanism(np.zeros(base.rank))
        position = {int(c): i for i, c in enumerate(base.independent)}
        places = Places(simulation.regression.factors.blocks)
        parts: list[list[Any]] = []
        extras: list[dict[str, Float]] = []
        for samples in simulation.batches:
            piece = piece_of(assembly, replace(samples, gate=None))
            kept = assembly.parallel.kept(samples)
            block = places.of(samples.segment, piece.times[0])
            inside = block >= 0
            X = np.zeros((len(block), len(piece.panels), base.rank))
            for g, (columns, panel) in enumerate(zip(piece.columns, piece.panels, strict=True)):
                X[:, g, [position[int(c)] for c in columns]] = panel[:-1].T
            y = np.stack([panel[-1] for panel in piece.panels], axis=1)
            motion = measured_motion(probe, samples)
            parts.append([X[inside], y[inside], block[inside], *(z[kept[inside]] for z in motion)])
            extras.append({name: z[kept[inside]] for name, z in extra_of(probe, samples).items()})
        X, y, block, x, v, a = (np.concatenate([part[i] for part in parts]) for i in range(6))
        extra = {name: np.concatenate([batch[name] for batch in extras]) for name in extras[0]}
        groups = _groups(
            source.robot.n, simulation.second, isinstance(rows, ElasticRows) and rows.form == "link"
        )
        return Likelihood(simulation, X, y, block, x, v, a, extra, _filtered_noise(simulation, noise), groups)

    def at(self, value: Float) -> Point:
        """Residuals and their noise at a value."""
        J = self._slopes(value)
        spread = np.einsum("tgca,cab,thcb->tgh", J, self.noise, J)
        return Point(value, self.y - self.X @ value, J, spread)

    def matched(self, point: Point, variance: Float) -> Float:
        """Variance (g,) of the torque at which residuals are as large as S predicts, from a first guess."""
        floor = LEAST_SHARE * np.mean(point.e**2, axis=0)
        for _ in range(5):
            inverse = np.linalg.inv(point.spread + np.diag(variance))
            z = np.einsum("tgh,th->tg", inverse, point.e)
            share = np.sum(z**2, axis=0) / np.einsum("tgg->g", inverse)
            variance = np.maximum(variance * share, floor)
        return variance

    def cost(self, point: Point, variance: Float) -> float:
        """Half the weighted sum of squares."""
        S = point.spread + np.diag(variance)
        return 0.5 * float(np.sum(point.e * np.linalg.solve(S, point.e[:, :, None])[:, :, 0]))

    def slope(self, point: Point, variance: Float) -> Slope:
        """Gradient, sample by sample, and the information of the equations."""
        S = point.spread + np.diag(variance)
        z = np.linalg.solve(S, point.e[:, :, None])[:, :, 0]
        U = np.einsum("tg,th,thca,cab->tgcb", z, z, point.J, self.noise, optimize=True)
        scores = np.einsum("tgb,tg->tb", self.X, z) + self._contracted(U)
        whitened = np.asarray(np.linalg.solve(np.linalg.cholesky(S), self.X), dtype=np.float64)
        information = np.einsum("tgi,tgj->ij", whitened, whitened, optimize=True)
        return Slope(information, np.linalg.solve(information, scores.sum(axis=0)), scores, whitened)

    def _slopes(self, value: Float) -> Float:
        # (T, g, s, 3): d(Y beta) / d(position, velocity, acceleration) of each coordinate.
        mechanism = self.simulation.mechanism(value)
        f_x, f_v = mechanism.slopes(self.x, self.v, self.a, self.extra)
        M = mechanism.equations(self.x, self.v, self.extra)[0]
        return np.asarray(np.einsum("gs,tsca->tgca", self.groups, np.stack([f_x, f_v, M], axis=3)))

    def _contracted(self, U: Float) -> Float:
        # (T, b): sum over groups, coordinates and derivatives of U times d^2(Y beta) / (d state d beta).
        forces = np.einsum("gs,tgca->tsca", self.groups, U)
        total = np.zeros((len(self.x), self.X.shape[2]))
        for c in range(self.x.shape[1]):
            for order, h in enumerate(STEPS):
                weight = forces[:, :, c, order]
                if not weight.any():
                    continue
                for sign in (1.0, -1.0):
                    moved = [np.array(part) for part in (self.x, self.v, self.a)]
                    moved[order][:, c] += sign * h
                    total += sign / (2.0 * h) * self._weighted_regressor(moved, weight)
        return total

    def _weighted_regressor(self, state: list[Float], weight: Float) -> Float:
        # Sum over coordinates of weight (T, s) times the regressor, (T, b).
        mechanism = self._probe
        samples = mechanism.samples(state[0], state[1], state[2], self.extra)
        robot, terms, n = mechanism.robot, mechanism.terms, mechanism.n
        weighted = np.zeros((len(mechanism.theta), len(weight)))
        on_total = np.array(weight[:, :n])
        panels = terms.torque_regressor(robot, samples, self.simulation.wanted)
        for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
            weighted[columns] += on_total[:, j] * values
        if mechanism.second:
            motor = terms.motor_regressor(robot, samples, self.simulation.wanted)
            for i, j in enumerate(mechanism.second):
                weighted[motor.columns[j]] += (weight[:, n + i] - weight[:, j]) * motor.values[j]
        return weighted[self.simulation.regression.base.independent].T

    @cached_property
    def _probe(self) -> Mechanism:
        return self.simulation.mechanism(np.zeros(self.simulation.regression.base.rank))


def _step_that_improves(likelihood: Likelihood, point: Point, step: Float, variance: Float) -> Point | None:
    here = likelihood.cost(point, variance)
    for halving in range(HALVINGS):
        trial = likelihood.at(point.value + step / 2**halving)
        if likelihood.cost(trial, variance) < here:
            return trial
    return None


def _groups(n: int, second: tuple[int, ...], link_form: bool) -> Float:
    s = n + len(second)
    made = np.eye(s)
    for i, j in enumerate(second):
        if link_form:
            # In link form, row j is the motor's equation and row n + i the link's.
            made[[j, n + i]] = made[[n + i, j]]
        else:
            made[j, n + i] = 1.0
    return made


def _filtered_noise(simulation: SimulationProblem, noise: MotionNoise) -> Float:
    parallel = simulation.source.assembly.parallel
    robot = simulation.source.robot

    def covariance(motor: bool) -> Float:
        lines = np.stack(noise.draw(8192, np.random.default_rng(0), motor))
        flat = np.ascontiguousarray(lines.transpose(0, 2, 1).reshape(3 * robot.n, -1))
        if parallel.cutoff is not None:
            flat = zero_phase_filter(parallel.cutoff, parallel.order, parallel.rate)(flat)
        kept = flat[:, 256:-256].reshape(3, robot.n, -1)
        return np.asarray(np.einsum("ajt,bjt->jab", kept, kept) / kept.shape[2])

    links = covariance(False)
    if not simulation.second:
        return links
    return np.concatenate([links, covariance(True)[list(simulation.second)]])


def _status(rounds: int, moved: float, tolerance: float, stuck: bool) -> Status:
    text = f"maximum likelihood with noise of the positions, {rounds} scoring rounds"
    if moved < tolerance:
        return Status(True, text)
    why = "no smaller step raises the likelihood" if stuck else "all rounds are used"
    return Status(
        False,
        f"{text}; the estimate still moves by {moved:.2g} standard deviations per round, {why}: "
        "lower the cut-off, give position_noise, or use 'tls'",
    )
