"""Extended, unscented and central-difference Kalman filters for the state and base parameters of a rigid robot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import expm

from dynid.arrays import Float
from dynid.errors import Place, SolverError, UsageError
from dynid.estimate.base_dynamics import BaseDynamics

SPREAD_SQUARE = 3.0
NODES = 4
PASSES = 2
# What accelerations at the nodes, constant around each, make of velocity and position at the nodes.
_TO_VELOCITY = (np.tri(NODES, k=-1) + 0.5 * np.eye(NODES)) / NODES
_TO_POSITION = _TO_VELOCITY @ _TO_VELOCITY


@dataclass(frozen=True, eq=False)
class Step:
    """One step of S states: after it, (S, 2n + b), and at its nodes, (S m, n) and (S m, n, n)."""

    after: Float
    q: Float
    dq: Float
    ddq: Float
    M: Float


@dataclass(frozen=True, eq=False)
class KalmanNoise:
    """Standard deviations of white noise.

    torque: (n,) N m or N, of the mean over a step.    position: (n,) rad or m.
    velocity: (n,), None = velocities are not measured.
    drift: (b,) of the parameters' random walk, per square root of a second; 0 = they are constant.

    Raises UsageError for values that are not positive.
    """

    torque: Float
    position: Float
    velocity: Float | None = None
    drift: Float | float = 0.0

    def __post_init__(self) -> None:
        positive = [self.torque, self.position, *([] if self.velocity is None else [self.velocity])]
        if not all((np.asarray(x) > 0).all() for x in positive) or not (np.asarray(self.drift) >= 0).all():
            raise UsageError(
                "kalman-noise", found="noise that is not positive", expected="deviations > 0, drift >= 0"
            )


class JointFilter(ABC):
    """A Kalman filter for z = (q, dq, beta), whose measurements are positions and perhaps velocities.

    Torque is the input, linear between rows; its noise w, that of its mean over a step h, drives the state: h M^-1 w of
    velocity. Accelerations are averaged over nodes within each step, whose states come from two passes of successive
    approximation: dry friction that turns round within a step would otherwise bias the parameters.
    innovation: normalised innovation squared of every correction so far, its expectation is the number of measurements.
    """

    def __init__(self, model: BaseDynamics, mean: Float, covariance: Float, noise: KalmanNoise) -> None:
        """mean: (2n + b,) of z at the first row.    covariance: (2n + b, 2n + b).

        Raises UsageError for other shapes.
        """
        size = 2 * model.robot.n + model.count
        if np.shape(mean) != (size,) or np.shape(covariance) != (size, size):
            raise UsageError(
                "kalman-start",
                found=f"mean {np.shape(mean)}, covariance {np.shape(covariance)}",
                expected=f"({size},) and ({size}, {size}): positions, velocities, base parameters",
            )
        self.model, self.noise = model, noise
        self.mean, self.covariance = np.array(mean, dtype=np.float64), np.array(covariance, dtype=np.float64)
        self.innovation: list[float] = []

    @property
    def value(self) -> Float:
        """The parameters, (b,)."""
        return self.mean[2 * self.model.robot.n :]

    @property
    def parameter_covariance(self) -> Float:
        """Of the parameters, (b, b)."""
        first = 2 * self.model.robot.n
        return self.covariance[first:, first:]

    def predict(self, tau: Float, seconds: float) -> None:
        """Carries the state over a step under torque (k, n) at k >= 2 even times from its beginning to its end.

        Raises SolverError once the mass matrix of the estimate is no longer positive definite.
        """
        push = self._carry(tau, seconds) * self.noise.torque
        n, h = self.model.robot.n, seconds
        self.covariance[: 2 * n, : 2 * n] += push @ push.T
        walk = np.broadcast_to(np.asarray(self.noise.drift, dtype=np.float64), (self.model.count,))
        index = np.arange(2 * n, len(self.mean))
        self.covariance[index, index] += h * walk**2

    def correct(self, q: Float, dq: Float | None = None) -> None:
        """Takes in a row's positions (n,) and, where they are measured, velocities (n,)."""
        n = self.model.robot.n
        measured = q if self.noise.velocity is None or dq is None else np.concatenate([q, dq])
        spread = [self.noise.position] + ([] if len(measured) == n else [np.asarray(self.noise.velocity)])
        count = len(measured)
        R = np.diag(np.concatenate([np.broadcast_to(x, (n,)) for x in spread]) ** 2)
        S = self.covariance[:count, :count] + R
        surprise = measured - self.mean[:count]
        gain = np.linalg.solve(S, self.covariance[:count]).T
        self.innovation.append(float(surprise @ np.linalg.solve(S, surprise)))
        self.mean = self.mean + gain @ surprise
        # Joseph's form, which bears rounding in the gain, multiplied out: no product of whole matrices is needed.
        known = gain @ self.covariance[:count]
        P = self.covariance - known - known.T + gain @ S @ gain.T
        self.covariance = 0.5 * (P + P.T)

    @abstractmethod
    def _carry(self, tau: Float, seconds: float) -> Float:
        """Moves mean and covariance over a step without its noise; returns what a constant torque makes of q and dq."""

    def _step(self, z: Float, tau: Float, h: float) -> Step:
        S, n, m = len(z), self.model.robot.n, NODES
        q, dq, beta = z[:, :n], z[:, n : 2 * n], z[:, 2 * n :]
        place = (np.arange(m) + 0.5) / m
        torque = np.tile(_means(len(tau)) @ tau, (S, 1))
        each = np.repeat(beta, m, axis=0)
        start, _ = self.model.acceleration(q, dq, beta, np.broadcast_to(tau[0], (S, n)))
        ddq, M = np.repeat(start, m, axis=0), np.zeros(0)
        for _ in range(PASSES):
            path = ddq.reshape(S, m, n)
            velocity = dq[:, None] + h * np.einsum("ij,sjk->sik", _TO_VELOCITY, path)
            position = q[:, None] + h * place[:, None] * dq[:, None]
            position = position + h * h * np.einsum("ij,sjk->sik", _TO_POSITION, path)
            nodes = position.reshape(-1, n), velocity.reshape(-1, n)
            ddq, M = self.model.acceleration(*nodes, each, torque)
        path = ddq.reshape(S, m, n)
        moved = np.array(z)
        moved[:, :n] += h * dq + h * h * np.einsum("j,sjk->sk", (1.0 - place) / m, path)
        moved[:, n : 2 * n] += h * path.mean(axis=1)
        return Step(moved, nodes[0], nodes[1], ddq, M)

    def _require_positive(self, M: Float) -> None:
        least = float(np.linalg.eigvalsh(M)[0]) if np.isfinite(M).all() else np.nan
        if not least > 0:
            raise SolverError(
                "filter-diverged",
                found=f"an estimate whose mass matrix has the eigenvalue {least:.3g}",
                expected="a positive definite one",
                do="begin from better parameters, with smaller variances, or after a longer fit by least squares; "
                "or use 'wls'",
                place=Place(),
            )


class ExtendedKalman(JointFilter):
    """Linearised over the nodes of each step: exact in parameters and torque, by differences in the state.

    Source: Gautier and Poignet 2001, extended Kalman filtering for robot identification; Ljung 1979 on its convergence.
    """

    def _carry(self, tau: Float, seconds: float) -> Float:
        n, h = self.model.robot.n, seconds
        step = self._step(self.mean[None], tau, h)
        self._require_positive(step.M[0])
        s = self.model.slopes(step.q, step.dq, self.value, step.ddq, step.M)
        A, into = np.zeros((4 * n, 4 * n)), np.zeros((2 * n, self.model.count + n))
        A[:n, n : 2 * n] = np.eye(n)
        A[n : 2 * n, : 2 * n] = np.concatenate(
            [s.by_position.mean(axis=0), s.by_velocity.mean(axis=0)], axis=1
        )
        A[: 2 * n, 2 * n :] = np.eye(2 * n)
        into[n:] = np.concatenate([s.by_parameter.mean(axis=0), s.by_torque.mean(axis=0)], axis=1)
        # Dry friction near rest is stiff: h A may be large, and no series of a few terms would do.
        grown = expm(h * A)[: 2 * n]
        driven = grown[:, 2 * n :] @ into
        change = np.concatenate([grown[:, : 2 * n] - np.eye(2 * n), driven[:, : self.model.count]], axis=1)
        P = self.covariance
        P[: 2 * n] += change @ P
        P[:, : 2 * n] += P @ change.T
        self.mean, self.covariance = step.after[0], 0.5 * (P + P.T)
        return np.asarray(driven[:, self.model.count :])


class UnscentedKalman(JointFilter):
    """Carries 2L + 1 points of the distribution, L = 2n + b, at sqrt(3) standard deviations, through every step.

    Source: Julier and Uhlmann 2004, eq. 12 with L + kappa = 3 by scaling (Julier 2002).
    """

    def _carry(self, tau: Float, seconds: float) -> Float:
        L = len(self.mean)
        root = np.linalg.cholesky(self.covariance) * np.sqrt(SPREAD_SQUARE)
        points = np.vstack([self.mean, self.mean + root.T, self.mean - root.T])
        step = self._step(points, tau, seconds)
        self._require_positive(step.M[0])
        weight = 0.5 / SPREAD_SQUARE
        # Deviations from the centre point: its weight is far below zero, and sums over it would cancel. What remains
        # of that weight, 2 - alpha^2 with alpha^2 = 3 / L, is positive.
        deviation = step.after - step.after[0]
        shift = weight * deviation[1:].sum(axis=0)
        P = weight * deviation[1:].T @ deviation[1:] + (2.0 - SPREAD_SQUARE / L) * np.outer(shift, shift)
        self.mean, self.covariance = step.after[0] + shift, 0.5 * (P + P.T)
        inverse = np.linalg.inv(step.M[:NODES]).mean(axis=0)
        return np.concatenate([0.5 * seconds**2 * inverse, seconds * inverse])


class CentralDifferenceKalman(JointFilter):
    """Central differences, first and second, over steps of sqrt(3) standard deviations in place of derivatives.

    Source: Norgaard, Poulsen and Ravn 2000; Ito and Xiong 2000; h^2 is the kurtosis of a Gaussian.
    """

    def _carry(self, tau: Float, seconds: float) -> Float:
        L = len(self.mean)
        root = np.linalg.cholesky(self.covariance) * np.sqrt(SPREAD_SQUARE)
        step = self._step(np.vstack([self.mean, self.mean + root.T, self.mean - root.T]), tau, seconds)
        self._require_positive(step.M[0])
        centre, ahead, behind = step.after[0], step.after[1 : L + 1], step.after[L + 1 :]
        slope = (ahead - behind) / (2.0 * np.sqrt(SPREAD_SQUARE))
        bend = (ahead + behind - 2.0 * centre) * (np.sqrt(SPREAD_SQUARE - 1.0) / (2.0 * SPREAD_SQUARE))
        P = slope.T @ slope + bend.T @ bend
        self.mean = centre + (ahead + behind - 2.0 * centre).sum(axis=0) / (2.0 * SPREAD_SQUARE)
        self.covariance = 0.5 * (P + P.T)
        inverse = np.linalg.inv(step.M[:NODES]).mean(axis=0)
        return np.concatenate([0.5 * seconds**2 * inverse, seconds * inverse])


@lru_cache(maxsize=16)
def _means(count: int) -> Float:
    """(NODES, count): means around the nodes of what is linear between `count` even times."""
    fine = 8 * NODES * (count - 1)
    place = (np.arange(fine) + 0.5) / fine * (count - 1)
    left = place.astype(np.int64)
    weight = np.zeros((fine, count))
    weight[np.arange(fine), left] = 1.0 - (place - left)
    weight[np.arange(fine), left + 1] = place - left
    return np.asarray(weight.reshape(NODES, -1, count).mean(axis=1))


FILTERS: dict[str, type[JointFilter]] = {
    "ekf": ExtendedKalman,
    "ukf": UnscentedKalman,
    "cdkf": CentralDifferenceKalman,
}
