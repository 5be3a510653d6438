"""Fit of a rigid load to the wrench of a sensor whose bias, drift, turn and gains are nuisances."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.estimate.posterior import Prior
from dynid.estimate.uncertainty import BlockScores, covariance_of
from dynid.kernel import cho_factor, cho_solve
from dynid.rows.wrench import load_regressor
from dynid.spatial.algebra import rotation_about, skew

FORCES, TORQUES = slice(0, 3), slice(3, 6)
# Radius of gyration (m) in the middle of the prior of a load, and standard deviations of the logarithm of its mass, of
# its centre (m) and of the logarithm of its inertia: cameras of 0.1 kg and welding guns of 100 kg lie within two.
GYRATION, MASS_WIDTH, CENTRE_WIDTH, INERTIA_WIDTH = 0.06, 2.0, 0.2, 1.5
# Standard deviations of the mounting rotation and of a tilt of the base, rad, and of the gain of an axis.
TURN, TILT, GAIN = np.radians(1.0), np.radians(0.5), 0.01
# s, or poses of a table: the bias is linear between knots that are so far apart, as are most of a long log.
KNOT, MOST_KNOTS = 5.0, 120
# Standard deviation of the first bias, in greatest values of the axis: free.
FREE = 100.0
# Rounds of the weights, relative change at their end, and steps of one solution.
ROUNDS, CHANGED, STEPS = 40, 0.01, 12
# Least noise of an axis, as a share of its root mean square, so that exact data have finite weights.
FLOOR = 1e-6
# Degrees of freedom of the middle noise of the three forces, or torques, that each of them is given: an axis that
# six poses happen to fit exactly has no infinite weight.
LIKE = 4.0
# Least relative drift, so that its prior stays invertible: a share of the noise per root second.
LEAST_DRIFT = 1e-3
# Most blocks for intervals; neighbouring samples are alike.
BLOCKS = 30
PARTS = ("turn", "tilt", "gain")
_AT = {"turn": slice(10, 13), "tilt": slice(13, 15), "gain": slice(15, 21)}


@dataclass(frozen=True, eq=False)
class WrenchData:
    """Wrenches of one sensor, and the motion of its frame.

    Attributes
    ----------
    rows : ndarray, shape (T, 6, 10)
        Wrench on the load per parameter of the load about the sensor.
    rotation : ndarray, shape (T, 3, 3)
        Sensor's axes in the base frame.
    wrench : ndarray, shape (T, 6), N, N m
        As logged, in the sensor's axes.
    time : ndarray, shape (T,)
        Seconds, or numbers of the poses of a table.
    segment : ndarray of int, shape (T,)
        Number of the recording.
    gravity : ndarray, shape (3,), m/s^2
        In the base frame.

    """

    rows: Float
    rotation: Float
    wrench: Float
    time: Float
    segment: Int
    gravity: Float

    def taken(self, index: Int | Bool) -> WrenchData:
        """Some of the samples."""
        return WrenchData(
            self.rows[index],
            self.rotation[index],
            self.wrench[index],
            self.time[index],
            self.segment[index],
            self.gravity,
        )

    def tilted(self) -> Float:
        """Change of the rows (2, T, 6, 10) per rad that the base is tilted about two horizontal axes."""
        up = -self.gravity / np.linalg.norm(self.gravity)
        first = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
        first /= np.linalg.norm(first)
        still = np.zeros((len(self.time), 3))
        felt = [-np.cross(axis, self.gravity) @ self.rotation for axis in (first, np.cross(up, first))]
        return np.array([load_regressor(still, still, change) for change in felt])


@dataclass(frozen=True, eq=False)
class WrenchFit:
    """Most probable load and nuisances.

    Attributes
    ----------
    parameters : ndarray, shape (10,)
        Of the load, about the sensor.
    covariance, before : ndarray, shape (10, 10) and (10,)
        Posterior covariance, and prior variances at the estimate.
    turn, tilt, gain : ndarray, shape (3,), (2,) and (6,), rad, rad and 1
        Rotation of the sensor against its link, tilt of the base, and relative errors of the axes.
    gain_std : ndarray, shape (6,)
    knots, bias : ndarray, shape (K,) and (K, 6)
        Times and biases between which the bias is linear.
    bias_std : ndarray, shape (6,)
        Of the mean bias.
    drift : ndarray, shape (6,)
        Standard deviation of the change of the bias in one unit of time.
    sigma : ndarray, shape (6,)
        Noise of the axes.
    effect : ndarray, shape (6,)
        Number of correlated samples that count as one.
    load, residual : ndarray, shape (T, 6)
        Fitted wrench without bias, and what is left over.
    blocks : int
    mounted : ndarray, shape (3, 3)
        Rotation of the sensor against its link, without `turn`.
    prior : Prior
    x : ndarray, shape (22,)
        Coordinates of the prior.

    """

    parameters: Float
    covariance: Float
    before: Float
    turn: Float
    tilt: Float
    gain: Float
    gain_std: Float
    knots: Float
    bias: Float
    bias_std: Float
    drift: Float
    sigma: Float
    effect: Float
    load: Float
    residual: Float
    blocks: int
    mounted: Float
    prior: Prior
    x: Float


def load_prior(data: WrenchData, gain: float = GAIN) -> Prior:
    """Prior of a load, and of the sensor's nuisances."""
    g = float(np.linalg.norm(data.gravity))
    reach = np.ptp(data.wrench[:, FORCES], axis=0).max()
    others = np.arange(10, 21)
    scale = np.concatenate([np.full(3, TURN), np.full(2, TILT), np.full(6, gain)])
    return Prior(
        bodies=np.arange(10)[None],
        mass=np.array([max(0.5 * reach / g, 1e-3)]),
        centre=np.zeros((1, 3)),
        root=GYRATION * np.eye(3)[None],
        widths=np.array([[MASS_WIDTH, CENTRE_WIDTH, INERTIA_WIDTH, 0.0]]),
        others=others,
        middle=np.zeros(11),
        scale=scale,
        lower=np.full(11, -np.inf),
        upper=np.full(11, np.inf),
        described=np.zeros(1, dtype=np.bool_),
        size=21,
    )


@dataclass(frozen=True, eq=False)
class _Drift:
    # Bias, linear between knots.    H: (T, K).    steps: (S, K) differences of neighbouring knots.    gap: (S,) time.
    # first: (K,) whether a knot begins a segment.
    H: Float
    steps: Float
    gap: Float
    first: Bool
    knots: Float

    @staticmethod
    def of(data: WrenchData) -> _Drift:
        duration = sum(np.ptp(data.time[data.segment == s]) for s in np.unique(data.segment))
        spacing = max(KNOT, duration / MOST_KNOTS)
        columns, steps, gaps, first, knots = [], [], [], [], []
        for number in np.unique(data.segment):
            inside = data.segment == number
            t = data.time[inside]
            at = np.linspace(t.min(), t.max(), 1 + max(round(np.ptp(t) / spacing), 0))
            hats = np.zeros((len(data.time), len(at)))
            for k in range(len(at)):
                hats[inside, k] = np.interp(t, at, np.eye(len(at))[k]) if len(at) > 1 else 1.0
            columns.append(hats)
            steps.append(np.diff(np.eye(len(at)), axis=0))
            gaps.append(np.diff(at))
            first.append(np.arange(len(at)) == 0)
            knots.append(at)
        S, K = sum(map(len, steps)), sum(map(len, knots))
        whole, row, column = np.zeros((S, K)), 0, 0
        for part in steps:
            whole[row : row + len(part), column : column + part.shape[1]] = part
            row, column = row + len(part), column + part.shape[1]
        return _Drift(
            np.concatenate(columns, axis=1),
            whole,
            np.concatenate(gaps),
            np.concatenate(first),
            np.concatenate(knots),
        )

    def precision(self, drift: float, free: float) -> Float:
        """Prior precision (K, K) of the biases of an axis."""
        P = self.steps.T @ (self.steps / (drift**2 * self.gap)[:, None])
        return np.asarray(P + np.diag(self.first / free**2))

    def rate(self, bias: Float, covariance: Float, before: float) -> tuple[float, float]:
        """Sum of squared steps per time, and how many of them the data determine (MacKay 1992)."""
        step = self.steps @ bias
        variance = np.einsum("sk,kl,sl->s", self.steps, covariance, self.steps)
        known = np.maximum(1.0 - variance / (before**2 * self.gap), 0.0)
        return float(np.sum(step**2 / self.gap)), float(known.sum())


def rotation_of(turn: Float) -> Float:
    """Rotation matrix (3, 3) of a rotation vector."""
    angle = float(np.linalg.norm(turn))
    return rotation_about(turn / angle, angle) if angle > 0 else np.eye(3)


class _Problem:
    def __init__(self, data: WrenchData, mounted: Float) -> None:
        self.data, self.drift, self.mounted = data, _Drift.of(data), mounted
        self.tilted = data.tilted()
        self.rms = np.maximum(np.std(data.wrench, axis=0), 1e-9)
        self.reach = np.maximum(np.abs(data.wrench).max(axis=0), 1e-9)
        self.HH = self.drift.H.T @ self.drift.H

    def predicted(self, theta: Float) -> tuple[Float, Float]:
        """Wrench (T, 6) without bias, and its slopes (T, 6, 21) by load and nuisances."""
        turn, tilt, gain = (theta[_AT[part]] for part in PARTS)
        rows = self.data.rows + np.tensordot(tilt, self.tilted, 1)
        R = rotation_of(turn) @ self.mounted
        turned = np.concatenate([R @ rows[:, FORCES], R @ rows[:, TORQUES]], axis=1)
        pi, scale = theta[:10], (1.0 + gain)[None, :]
        load = turned @ pi
        slopes = np.zeros((*load.shape, 21))
        slopes[:, :, :10] = scale[:, :, None] * turned
        for k in range(3):
            # Exact at 0, near which the turn stays: larger ones are in `mounted`.
            S = skew(np.eye(3)[k])
            slopes[:, FORCES, 10 + k] = scale[:, FORCES] * (load[:, FORCES] @ S.T)
            slopes[:, TORQUES, 10 + k] = scale[:, TORQUES] * (load[:, TORQUES] @ S.T)
        for k in range(2):
            change = self.tilted[k] @ pi
            both = np.concatenate([change[:, FORCES] @ R.T, change[:, TORQUES] @ R.T], axis=1)
            slopes[:, :, 13 + k] = scale * both
        for k in range(6):
            slopes[:, k, 15 + k] = load[:, k]
        return scale * load, slopes


@dataclass(frozen=True, eq=False)
class _State:
    # One linearisation.    bias: (K, 6).    curvature: of the coordinates, biases marginalised.    gradient, cost.
    # free: slopes (T, 6, count) from which biases are removed.    spread: (6, K, K) covariance of biases for a given
    # load.    pull: (6, K, count) change of the biases with the coordinates.
    residual: Float
    bias: Float
    curvature: Float
    gradient: Float
    cost: float
    free: Float
    spread: Float
    pull: Float


def _state(problem: _Problem, prior: Prior, x: Float, weights: Float, drift: Float, full: bool) -> _State:
    theta, slope = prior.parameters(x)
    value, slopes = problem.predicted(theta)
    off, J = problem.data.wrench - value, slopes @ slope
    H, count = problem.drift.H, len(x)
    curvature, gradient, cost = np.eye(count), x.copy(), float(x @ x)
    bias, residual = np.zeros((H.shape[1], 6)), np.zeros_like(off)
    free, spread = np.zeros_like(J), np.zeros((6, H.shape[1], H.shape[1]))
    pull = np.zeros((6, H.shape[1], count))
    for i in range(6):
        P = problem.drift.precision(drift[i], FREE * problem.reach[i])
        factor = cho_factor(weights[i] * problem.HH + P)
        bias[:, i] = cho_solve(factor, weights[i] * (H.T @ off[:, i]))
        residual[:, i] = off[:, i] - H @ bias[:, i]
        cost += weights[i] * float(residual[:, i] @ residual[:, i]) + float(bias[:, i] @ P @ bias[:, i])
        if not full:
            continue
        G = H.T @ J[:, i]
        solved = cho_solve(factor, weights[i] * G)
        free[:, i], pull[i] = J[:, i] - H @ solved, solved
        curvature += weights[i] * (J[:, i].T @ J[:, i] - G.T @ solved)
        gradient -= weights[i] * (J[:, i].T @ residual[:, i])
        spread[i] = cho_solve(factor, np.eye(H.shape[1]))
    return _State(residual, bias, curvature, gradient, cost, free, spread, pull)


def _solved(problem: _Problem, prior: Prior, x: Float, weights: Float, drift: Float) -> tuple[Float, _State]:
    state = _state(problem, prior, x, weights, drift, full=True)
    damping = 0.0
    for _ in range(STEPS):
        size = np.sqrt(np.diag(state.curvature))
        step = (
            -np.linalg.solve(
                state.curvature / np.outer(size, size) + damping * np.eye(len(x)), state.gradient / size
            )
            / size
        )
        candidate = x + step * prior.shortening(step)
        trial = _state(problem, prior, candidate, weights, drift, full=True)
        if not trial.cost <= state.cost:
            damping = max(10.0 * damping, 1e-3)
            continue
        gained, x, state = state.cost - trial.cost, candidate, trial
        damping = 0.1 * damping if damping > 1e-3 else 0.0
        if gained < CHANGED:
            break
    return x, state


def correlated(residual: Float, segment: Int) -> Float:
    """Number (n,) of neighbouring samples that count as one, from the autocorrelation of residuals (T, n).

    Sum of the initial positive sequence of pairs of autocorrelations (Geyer 1992), over all segments.
    """
    effects = np.ones(residual.shape[1])
    parts = [residual[segment == number] for number in np.unique(segment)]
    for i in range(residual.shape[1]):
        size = 1 << (2 * max(map(len, parts)) - 1).bit_length()
        power = sum(np.abs(np.fft.rfft(part[:, i], size)) ** 2 for part in parts)
        sums = np.fft.irfft(power, size)[: size // 2]
        if not sums[0] > 0:
            continue
        rho = sums / sums[0]
        pairs = rho[1 : 1 + 2 * ((len(rho) - 1) // 2)].reshape(-1, 2).sum(axis=1)
        positive = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
        effects[i] = max(1.0 + 2.0 * float(pairs[:positive].sum()), 1.0)
    return effects


def fit_wrench(data: WrenchData, mounted: Float | None = None, gain: float = GAIN) -> WrenchFit:
    """Most probable load among those that can exist, with the sensor's nuisances.

    Reading of axis i = (1 + gain_i) [R(turn) (Y + tilt Y') pi]_i + bias_i(t) + noise_i, with the load pi = theta(x) of
    `dynid.estimate.posterior.Prior`. The bias is linear between knots. Its steps are a random walk; their standard
    deviation, one for forces and one for torques, is the most probable one, as is the noise of each axis, whose prior
    is that of the other forces or torques. Samples count as many as their autocorrelation leaves independent.

    Parameters
    ----------
    data : WrenchData
        Wrenches and motion.
    mounted : ndarray, shape (3, 3), optional
        Rotation of the sensor against its link, from the link's axes to the sensor's; the fit adds a small turn.
    gain : float
        Prior standard deviation of the gains.

    Returns
    -------
    WrenchFit

    References
    ----------
    Rucker and Wensing 2022 (coordinates); MacKay 1992 (evidence of the widths).

    """
    problem, prior = _Problem(data, np.eye(3) if mounted is None else mounted), load_prior(data, gain)
    drifting = problem.drift
    x = np.zeros(prior.count)
    sigma = 0.3 * problem.rms
    effect = np.ones(6)
    drift = np.maximum(LEAST_DRIFT * sigma, 0.1 * sigma)
    for _ in range(ROUNDS):
        weights = 1.0 / (sigma**2 * effect)
        x, state = _solved(problem, prior, x, weights, drift)
        before = np.concatenate([sigma, drift, effect])
        inverse = np.linalg.inv(state.curvature)
        for axes in (FORCES, TORQUES):
            scale = sigma[axes]
            sums = [
                drifting.rate(
                    state.bias[:, i] / sigma[i], state.spread[i] / sigma[i] ** 2, drift[i] / sigma[i]
                )
                for i in range(6)[axes]
            ]
            square, known = np.sum(sums, axis=0)
            rate = np.sqrt(square / known) if known > 0 else 0.0
            drift[axes] = np.maximum(rate, LEAST_DRIFT) * scale
        lost = np.array(
            [
                weights[i] * float(np.sum(problem.HH * state.spread[i]))
                + weights[i] * float(np.sum((state.free[:, i] @ inverse) * state.free[:, i]))
                for i in range(6)
            ]
        )
        freedom = np.maximum(len(data.time) - effect * lost, 0.0)
        square = np.sum(state.residual**2, axis=0)
        for axes in (FORCES, TORQUES):
            usual = np.median(square[axes] / np.maximum(freedom[axes], 1.0))
            sigma[axes] = np.sqrt((square[axes] + LIKE * usual) / (freedom[axes] + LIKE))
        sigma = np.maximum(sigma, FLOOR * problem.rms)
        effect = correlated(state.residual, data.segment)
        after = np.concatenate([sigma, drift, effect])
        if np.abs(after / before - 1.0).max() < CHANGED:
            break
    return _summary(problem, prior, x, state, sigma, drift, effect)


def _summary(
    problem: _Problem,
    prior: Prior,
    x: Float,
    state: _State,
    sigma: Float,
    drift: Float,
    effect: Float,
) -> WrenchFit:
    theta, slope = prior.parameters(x)
    inverse = np.linalg.inv(state.curvature)
    covariance = slope @ inverse @ slope.T
    weights = 1.0 / (sigma**2 * effect)
    root = np.linalg.cholesky(inverse)
    blocks = _blocks(problem.data)
    H, s = [], []
    for index in blocks:
        X = [np.sqrt(weights[i]) * state.free[index, i] @ root for i in range(6)]
        e = [np.sqrt(weights[i]) * state.residual[index, i] for i in range(6)]
        H.append(sum(part.T @ part for part in X))
        s.append(sum(part.T @ off for part, off in zip(X, e, strict=True)))
    scores = BlockScores(root, np.array(H), np.array(s), np.zeros(len(s), dtype=np.int64))
    from_blocks = slope @ covariance_of("jackknife", scores) @ slope.T
    std = np.sqrt(np.diag(covariance))
    wider = np.sqrt(np.maximum(np.diag(from_blocks) / std**2, 1.0))
    covariance = covariance * np.outer(wider, wider)
    std = np.sqrt(np.diag(covariance))
    alone = np.delete(slope, 10, axis=1)
    mean = np.full(len(problem.drift.knots), 1.0 / len(problem.drift.knots))
    pulled = np.einsum("k,ikx->ix", mean, state.pull)
    of_bias = np.einsum("k,ikl,l->i", mean, state.spread, mean) + np.einsum(
        "ix,xy,iy->i", pulled, inverse, pulled
    )
    return WrenchFit(
        parameters=theta[:10],
        covariance=covariance[:10, :10],
        before=np.diag(alone @ alone.T)[:10],
        turn=theta[_AT["turn"]],
        tilt=theta[_AT["tilt"]],
        gain=theta[_AT["gain"]],
        gain_std=std[_AT["gain"]],
        knots=problem.drift.knots,
        bias=state.bias,
        bias_std=np.sqrt(of_bias),
        drift=drift,
        sigma=sigma,
        effect=effect,
        load=problem.predicted(theta)[0],
        residual=state.residual,
        blocks=len(blocks),
        mounted=problem.mounted,
        prior=prior,
        x=x,
    )


def _blocks(data: WrenchData, count: int = BLOCKS) -> list[Int]:
    """Contiguous runs of samples, of about equally many."""
    pieces = []
    for number in np.unique(data.segment):
        inside = np.flatnonzero(data.segment == number)
        pieces += np.array_split(inside, max(round(count * len(inside) / len(data.time)), 1))
    return [piece for piece in pieces if len(piece)]


def held_out(data: WrenchData, fit: WrenchFit, folds: int = 10) -> Float:
    """Errors (T, 6) of fits to all other folds of contiguous time, with the weights of the whole fit.

    The bias of a fold is that of the time around it.
    """
    error, weights = np.zeros_like(data.wrench), 1.0 / (fit.sigma**2 * fit.effect)
    for index in _blocks(data, folds):
        kept = data.taken(np.setdiff1d(np.arange(len(data.time)), index))
        problem, prior = _Problem(kept, fit.mounted), fit.prior
        x, state = _solved(problem, prior, fit.x, weights, fit.drift)
        fold = data.taken(index)
        value = _Problem(fold, fit.mounted).predicted(prior.parameters(x)[0])[0]
        bias = [np.interp(fold.time, problem.drift.knots, column) for column in state.bias.T]
        error[index] = fold.wrench - value - np.column_stack(bias)
    return error
