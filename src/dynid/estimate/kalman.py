"""Extended, unscented and central-difference Kalman filters for the state and base parameters of a robot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError, UsageError
from dynid.base.numerics import expm
from dynid.base.records import dataclass
from dynid.estimate.base_dynamics import BaseDynamics
from dynid.kernel import backend

# Squared distance of the points in variances: 3, the kurtosis of a Gaussian.
SPREAD_SQUARE = 3.0
# Nodes of the midpoint rule within a step.
NODES = 4
# Newton iterations per step.
PASSES = 2
# Velocity and position at the nodes from accelerations that are constant around each node.
_TO_VELOCITY = (np.tri(NODES, k=-1) + 0.5 * np.eye(NODES)) / NODES
_TO_POSITION = _TO_VELOCITY @ _TO_VELOCITY


@dataclass(frozen=True, eq=False)
class Step:
    """One step of S states: states after it (S, 2s + b), and motion x, v, a at the nodes of the first one, (m, s)."""

    after: Float
    x: Float
    v: Float
    a: Float


@dataclass(frozen=True, eq=False)
class KalmanNoise:
    """Standard deviations of white noise.

    Parameters
    ----------
    force : ndarray, shape (s,), N m or N
        Unknown force on every coordinate, mean over a step.
    position : ndarray, shape (s,), rad or m
        Noise of positions.
    velocity : ndarray, shape (s,), optional
        Noise of velocities; None = not measured.
    drift : ndarray, shape (b,), or float
        Random walk of the parameters, per square root of a second; 0 = constant.

    Raises
    ------
    UsageError
        For values that are not positive.

    """

    force: Float
    position: Float
    velocity: Float | None = None
    drift: Float | float = 0.0

    def __post_init__(self) -> None:
        positive = [self.force, self.position, *([] if self.velocity is None else [self.velocity])]
        if not all((np.asarray(x) > 0).all() for x in positive) or not (np.asarray(self.drift) >= 0).all():
            raise UsageError(
                "kalman-noise", found="noise that is not positive", expected="deviations > 0, drift >= 0"
            )


class JointFilter(ABC):
    """Kalman filter for z = (x, v, beta), with measured positions and optionally velocities.

    Coordinates x (s,) are the joints, then the motors behind springs. Drive torque is the input, linear between rows.
    Noise w of the mean force over a step h drives the state: about h M^-1 w of velocity. A step is the implicit
    midpoint rule over nodes within it, so that dry friction that reverses within a step does not bias the parameters,
    and stiff springs are stable. Its equations are solved by Newton's method with the mass matrix and springs at the
    beginning of the step.

    Parameters
    ----------
    model : BaseDynamics
        Model.
    mean : ndarray, shape (2s + b,)
        z at the first row.
    covariance : ndarray, shape (2s + b, 2s + b)
        Its covariance.
    noise : KalmanNoise
        Noise.

    Attributes
    ----------
    innovation : list of float
        Normalised innovation squared of every correction; its expectation is the number of measurements.

    Raises
    ------
    UsageError
        For other shapes.

    """

    def __init__(self, model: BaseDynamics, mean: Float, covariance: Float, noise: KalmanNoise) -> None:
        """See the class."""
        size = 2 * model.size + model.count
        if np.shape(mean) != (size,) or np.shape(covariance) != (size, size):
            raise UsageError(
                "kalman-start",
                found=f"mean {np.shape(mean)}, covariance {np.shape(covariance)}",
                expected=f"({size},) and ({size}, {size}): positions, velocities, base parameters",
            )
        self.model, self.noise = model, noise
        self.mean, self.covariance = np.array(mean, dtype=np.float64), np.array(covariance, dtype=np.float64)
        self.innovation: list[float] = []

    @classmethod
    def points(cls, length: int) -> int:
        """Number of states that a step propagates, for a state with parameters of this length."""
        return 2 * length + 1

    @classmethod
    def is_compiled(cls, model: BaseDynamics) -> bool:
        """Whether the native kernel computes the steps of `follow`."""
        return False

    @property
    def value(self) -> Float:
        """Parameters, (b,)."""
        return self.mean[2 * self.model.size :]

    @property
    def parameter_covariance(self) -> Float:
        """Covariance of the parameters, (b, b)."""
        first = 2 * self.model.size
        return self.covariance[first:, first:]

    def predict(self, tau: Float, seconds: float) -> None:
        """Propagate the state over a step.

        Parameters
        ----------
        tau : ndarray, shape (k, n), N m (N)
            Torque at k >= 2 even times from beginning to end of the step.
        seconds : float, s
            Length of the step.

        Raises
        ------
        SolverError
            If the mass matrix of the estimate is no longer positive definite.

        """
        h, known = seconds, 2 * self.model.size
        push = self._carry(tau, h) * self.noise.force
        self.covariance[:known, :known] += push @ push.T
        walk = np.broadcast_to(np.asarray(self.noise.drift, dtype=np.float64), (self.model.count,))
        index = np.arange(known, len(self.mean))
        self.covariance[index, index] += h * walk**2

    def correct(self, x: Float, v: Float | None = None) -> None:
        """Update with the positions (s,) of a row and, if measured, velocities (s,)."""
        s = self.model.size
        measured = x if self.noise.velocity is None or v is None else np.concatenate([x, v])
        spread = [self.noise.position] + ([] if len(measured) == s else [np.asarray(self.noise.velocity)])
        count = len(measured)
        R = np.diag(np.concatenate([np.broadcast_to(deviation, (s,)) for deviation in spread]) ** 2)
        S = self.covariance[:count, :count] + R
        surprise = measured - self.mean[:count]
        gain = np.linalg.solve(S, self.covariance[:count]).T
        self.innovation.append(float(surprise @ np.linalg.solve(S, surprise)))
        self.mean = self.mean + gain @ surprise
        # Joseph's form, which tolerates rounding of the gain, expanded so that no product of full matrices is needed.
        known = gain @ self.covariance[:count]
        P = self.covariance - known - known.T + gain @ S @ gain.T
        self.covariance = 0.5 * (P + P.T)

    def follow(self, tau: Float, x: Float, seconds: float) -> None:
        """Predict K steps, and update with the positions at their ends.

        Parameters
        ----------
        tau : ndarray, shape (K, k, n), N m (N)
            Torque of each step at k even times.
        x : ndarray, shape (K, s), rad (m)
            Measured positions.
        seconds : float, s
            Length of a step.

        """
        done = 0
        while done < len(x):
            done += self._compiled_steps(tau[done:], x[done:], seconds)
            if done < len(x):
                self.predict(tau[done], seconds)
                self.correct(x[done])
                done += 1

    def _compiled_steps(self, tau: Float, x: Float, seconds: float) -> int:
        """Compute the first steps of `follow` in the native kernel; returns their number."""
        return 0

    @abstractmethod
    def _carry(self, tau: Float, seconds: float) -> Float:
        """Propagate mean and covariance without noise; returns the effect of constant forces on x and v."""

    def _step(self, z: Float, tau: Float, h: float) -> Step:
        model, S, m, s = self.model, len(z), NODES, self.model.size
        x, v, beta = z[:, :s], z[:, s : 2 * s], z[:, 2 * s :]
        each = beta if S == 1 else np.repeat(beta, m, axis=0)
        drive = model.frame.on_coordinates(_means(len(tau)) @ tau)
        M, bias = model.mass(x, v, beta)
        self._require_positive(M[0])
        start = np.linalg.solve(M, (model.frame.on_coordinates(tau[:1]) - bias)[..., None])[..., 0]
        a = np.repeat(start[:, None], m, axis=1)
        correct = _Correction.of(model, x, v, beta, M, h / m)
        place = (np.arange(m) + 0.5) / m
        for _ in range(PASSES):
            inside_v = v[:, None] + h * (_TO_VELOCITY @ a)
            inside_x = x[:, None] + h * place[:, None] * v[:, None]
            inside_x = inside_x + h * h * (_TO_POSITION @ a)
            position, velocity, wanted = (part.reshape(S * m, s) for part in (inside_x, inside_v, a))
            force = model.force(position, velocity, wanted, each).reshape(S, m, s)
            a = a + correct.of_missing(drive - force)
        moved = np.array(z)
        moved[:, :s] += h * v + h * h * (((1.0 - place) / m) @ a)
        moved[:, s : 2 * s] += h * a.mean(axis=1)
        return Step(moved, inside_x[0], inside_v[0], a[0])

    def _slopes(self, step: Step, h: float) -> tuple[Float, Float]:
        """Derivatives of a step by the first state (2s, 2s), and by constant parameters and forces (2s, b + s)."""
        s, count = self.model.size, self.model.count
        slopes = self.model.slopes(step.x, step.v, step.a, self.value)
        A, into = np.zeros((4 * s, 4 * s)), np.zeros((2 * s, count + s))
        A[:s, s : 2 * s] = np.eye(s)
        A[s : 2 * s, : 2 * s] = np.concatenate([slopes.by_position, slopes.by_velocity], axis=2).mean(axis=0)
        A[: 2 * s, 2 * s :] = np.eye(2 * s)
        into[s:] = np.concatenate([slopes.by_parameter, slopes.by_force], axis=2).mean(axis=0)
        # Dry friction near rest and springs are stiff: h A may be large, so a short series is not enough.
        grown = expm(h * A)[: 2 * s]
        return grown[:, : 2 * s], grown[:, 2 * s :] @ into

    def _root(self) -> Float:
        # Lower triangular root of the covariance; rounding makes very different directions indefinite.
        try:
            return np.asarray(np.linalg.cholesky(self.covariance))
        except np.linalg.LinAlgError as error:
            raise diverged("a covariance that is no longer positive definite") from error

    def _require_positive(self, M: Float) -> None:
        least = float(np.linalg.eigvalsh(M)[0]) if np.isfinite(M).all() else np.nan
        if not least > 0:
            raise diverged(f"an estimate whose mass matrix has the eigenvalue {least:.3g}")


class ExtendedKalman(JointFilter):
    """Extended Kalman filter, linearised over the nodes of each step.

    The linearisation is exact in parameters and torque, and by differences in the state.

    References
    ----------
    Gautier and Poignet 2001; Ljung 1979 on convergence.

    """

    @classmethod
    def points(cls, length: int) -> int:
        """The mean only."""
        return 1

    @classmethod
    def is_compiled(cls, model: BaseDynamics) -> bool:
        """True for models whose equations the native kernel knows completely."""
        return model.compiled is not None and model.compiled.known.native() is not None

    def _compiled_steps(self, tau: Float, x: Float, seconds: float) -> int:
        compiled, s = self.model.compiled, self.model.size
        if compiled is None or not self.is_compiled(self.model):
            return 0
        noise = (self.noise.force, self.noise.position, self.noise.drift)
        sizes = (s, s, self.model.count)
        deviations = np.concatenate(
            [np.broadcast_to(array, (size,)) for array, size in zip(noise, sizes, strict=True)]
        )
        self.mean, self.covariance = (np.ascontiguousarray(array) for array in (self.mean, self.covariance))
        means = _means(tau.shape[1])
        squares = compiled.kalman(self.mean, self.covariance, tau, means, x, deviations, seconds, PASSES)
        self.innovation += squares.tolist()
        return len(squares)

    def _carry(self, tau: Float, seconds: float) -> Float:
        known, count = 2 * self.model.size, self.model.count
        step = self._step(self.mean[None], tau, seconds)
        state, driven = self._slopes(step, seconds)
        change = np.concatenate([state - np.eye(known), driven[:, :count]], axis=1)
        P = self.covariance
        P[:known] += change @ P
        P[:, :known] += P @ change.T
        self.mean, self.covariance = step.after[0], 0.5 * (P + P.T)
        return driven[:, count:]


class UnscentedKalman(JointFilter):
    """Unscented Kalman filter: propagates 2L + 1 points, L = 2s + b, at sqrt(3) standard deviations.

    References
    ----------
    Julier and Uhlmann 2004, eq. 12 with L + kappa = 3 by scaling (Julier 2002).

    """

    def _carry(self, tau: Float, seconds: float) -> Float:
        L = len(self.mean)
        root = self._root() * np.sqrt(SPREAD_SQUARE)
        points = np.vstack([self.mean, self.mean + root.T, self.mean - root.T])
        step = self._step(points, tau, seconds)
        driven = self._slopes(step, seconds)[1]
        weight = 0.5 / SPREAD_SQUARE
        # Deviations from the centre point, whose large negative weight would cancel in sums. What remains of that
        # weight, 2 - alpha^2 with alpha^2 = 3 / L, is positive.
        deviation = step.after - step.after[0]
        shift = weight * deviation[1:].sum(axis=0)
        P = weight * deviation[1:].T @ deviation[1:] + (2.0 - SPREAD_SQUARE / L) * np.outer(shift, shift)
        self.mean, self.covariance = step.after[0] + shift, 0.5 * (P + P.T)
        return driven[:, self.model.count :]


class CentralDifferenceKalman(JointFilter):
    """Central-difference Kalman filter: differences over sqrt(3) standard deviations instead of derivatives.

    References
    ----------
    Norgaard, Poulsen and Ravn 2000; Ito and Xiong 2000; h^2 is the kurtosis of a Gaussian.

    """

    def _carry(self, tau: Float, seconds: float) -> Float:
        L = len(self.mean)
        root = self._root() * np.sqrt(SPREAD_SQUARE)
        step = self._step(np.vstack([self.mean, self.mean + root.T, self.mean - root.T]), tau, seconds)
        driven = self._slopes(step, seconds)[1]
        centre, ahead, behind = step.after[0], step.after[1 : L + 1], step.after[L + 1 :]
        slope = (ahead - behind) / (2.0 * np.sqrt(SPREAD_SQUARE))
        bend = (ahead + behind - 2.0 * centre) * (np.sqrt(SPREAD_SQUARE - 1.0) / (2.0 * SPREAD_SQUARE))
        P = slope.T @ slope + bend.T @ bend
        self.mean = centre + (ahead + behind - 2.0 * centre).sum(axis=0) / (2.0 * SPREAD_SQUARE)
        self.covariance = 0.5 * (P + P.T)
        return driven[:, self.model.count :]


@dataclass(frozen=True, eq=False)
class _Correction:
    """Newton step of the implicit midpoint rule over m parts of `part` seconds, for S states.

    K, D: (S, s, s) of the springs.    inverse: of M + part D / 2 + part^2 K / 4, (S, s, s).
    sprung: whether there are springs.
    """

    K: Float
    D: Float
    inverse: Float
    part: float
    sprung: bool

    @staticmethod
    def of(model: BaseDynamics, x: Float, v: Float, beta: Float, M: Float, part: float) -> _Correction:
        """Correction about states (S, s) with mass matrices M."""
        K, D = model.springs(x, v, beta) if model.second else (np.zeros_like(M), np.zeros_like(M))
        inverse: Float = np.asarray(np.linalg.inv(M + 0.5 * part * D + 0.25 * part**2 * K), dtype=np.float64)
        return _Correction(K, D, inverse, part, bool(model.second))

    def of_missing(self, force: Float) -> Float:
        """Change of the accelerations that corrects a force residual (S, m, s) at the nodes."""
        if not self.sprung:
            return np.asarray(force @ self.inverse.transpose(0, 2, 1))
        change = np.zeros_like(force)
        x, v = np.zeros((2, *force[:, 0].shape))
        for i in range(force.shape[1]):
            middle = x + 0.5 * self.part * v
            remaining = force[:, i] - _times(self.K, middle) - _times(self.D, v)
            change[:, i] = _times(self.inverse, remaining)
            x = x + self.part * (v + 0.5 * self.part * change[:, i])
            v = v + self.part * change[:, i]
        return change


def diverged(reason: str) -> SolverError:
    """Error of a filter that has left the region that can be simulated."""
    return SolverError(
        "filter-diverged",
        found=reason,
        expected="positive definite matrices",
        do="begin from better parameters (longer least-squares fit), reduce width, give position_noise, or use 'wls'",
    )


def _times(matrix: Float, vector: Float) -> Float:
    return np.asarray(np.einsum("sij,sj->si", matrix, vector))


@lru_cache(maxsize=16)
def _means(count: int) -> Float:
    """Weights (NODES, count) of a piecewise linear signal's `count` values for its mean around each node."""
    fine = 8 * NODES * (count - 1)
    place = (np.arange(fine) + 0.5) / fine * (count - 1)
    lower_index = place.astype(np.int64)
    weight = np.zeros((fine, count))
    weight[np.arange(fine), lower_index] = 1.0 - (place - lower_index)
    weight[np.arange(fine), lower_index + 1] = place - lower_index
    return np.asarray(weight.reshape(NODES, -1, count).mean(axis=1))


FILTERS: dict[str, type[JointFilter]] = {
    "ekf": ExtendedKalman,
    "ukf": UnscentedKalman,
    "cdkf": CentralDifferenceKalman,
}


# Computing time of a step of a Kalman filter.

# s on one core of 2020, measured on random chains of 2 to 14 joints and on arm7, to a factor of two. In the native
# kernel: equations per coordinate, and products with the covariance per coordinate and square of its length.
COMPILED_COORDINATE, COMPILED_PRODUCT = 1.5e-6, 1e-9
# s in NumPy: a step, its linearisation, and each propagated point. The last two grow with the model; the values were
# measured with 7 coordinates and 69 parameters.
STEP, LINEARISATION, POINT, USUAL_COORDINATES, USUAL_PARAMETERS = 1.5e-3, 1.5e-3, 2e-5, 7, 69
# Factor if the equations of motion are computed in NumPy too.
NUMPY_KERNEL = 5.0


def seconds_a_step(kind: type[JointFilter], model: BaseDynamics) -> float:
    """Seconds that a step and its correction take on the path that will be used."""
    s, length = model.size, 2 * model.size + model.count
    if kind.is_compiled(model):
        return COMPILED_COORDINATE * s + COMPILED_PRODUCT * s * length**2
    size = s / USUAL_COORDINATES * model.count / USUAL_PARAMETERS
    seconds = STEP + (LINEARISATION + POINT * kind.points(length)) * size
    return NUMPY_KERNEL * seconds if backend() == "numpy" else seconds
