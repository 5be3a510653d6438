"""Online estimation by a Kalman filter for state and parameters, started from recursive least squares."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from dynid.base import Float, Place, SolverError, UsageError, dataclass
from dynid.estimate import FILTERS, BaseDynamics, JointFilter, KalmanNoise, seconds_a_step
from dynid.fleet.stream import StreamRows
from dynid.fleet.watch import Watcher, WatchSettings
from dynid.robot import RobotModel

# Rows from which the noise of positions and torque is measured.
NOISE_ROWS = 4096
# Factor on the standard deviations of least squares, for errors of the model besides white noise.
WIDENED = 2.0
# Smallest noise relative to the standard deviation of the signal, so that no variance is zero.
LEAST_SHARE = 1e-6
# Positions at which the mass matrix must be positive definite before the filter starts.
TRIED_STATES = 64
# 1/s: greatest acceleration at the start of a segment, relative to the greatest speed before.
BRISKNESS = 10.0


@dataclass(frozen=True)
class KalmanSettings:
    """Settings of a Kalman filter that follows a running log; raises UsageError for values out of range.

    Attributes
    ----------
    kind : str
        "ekf", "ukf" or "cdkf": extended, unscented or central-difference Kalman filter.
    settle : float, s
        Motion that least squares process before the filter starts.
    rate : float, Hz
        Rate of steps and corrections; torque within a step is used row by row.
    drift : float, 1/sqrt(s)
        Random walk of each parameter, relative to its initial standard deviation; 0 for constant parameters.
    watch : WatchSettings
        Terms, and settings of the initial least squares.

    """

    kind: str = "ekf"
    settle: float = 10.0
    rate: float = 200.0
    drift: float = 0.0
    watch: WatchSettings = field(default_factory=WatchSettings)

    def __post_init__(self) -> None:
        if self.kind not in FILTERS or not (self.settle > 0 and self.rate > 0 and self.drift >= 0):
            raise UsageError(
                "kalman",
                found=f"filter '{self.kind}', settle = {self.settle}, rate = {self.rate}, drift = {self.drift}",
                expected="filter "
                + ", ".join(f"'{name}'" for name in FILTERS)
                + "; settle and rate > 0, drift >= 0",
            )


class KalmanWatcher(Watcher):
    """A watcher that estimates positions, velocities and base parameters by a Kalman filter.

    Least squares process the first rows. Once their mass matrix is positive definite, the filter starts from their
    estimate with standard deviations twice as large. The noise of positions and torque is measured in these rows by
    fourth differences. Afterwards each row is used once: torques predict the state, positions correct it. The robot
    must be rigid; logged velocities are used at the beginning only.
    """

    def __init__(self, robot: RobotModel, settings: KalmanSettings | None = None) -> None:
        """Find the base parameters of the robot; no row is needed."""
        chosen = settings or KalmanSettings()
        super().__init__(robot, chosen.watch)
        self.kalman = chosen
        self.model = BaseDynamics(robot, chosen.watch.terms, self.base)
        self.filter: JointFilter | None = None
        self._head = StreamRows.none(robot.n)
        self._every_row = 1
        self._pending = StreamRows.none(robot.n)
        self._speed = np.zeros(robot.n)
        self._running = False

    @property
    def consistency(self) -> float:
        """Mean normalised innovation squared per joint: 1 if model and noise are right."""
        if self.filter is None or not self.filter.innovation:
            return float("nan")
        return float(np.mean(self.filter.innovation)) / self.robot.n

    @property
    def load(self) -> float:
        """Estimated computing time of a step over the time between steps; nan before the filter starts.

        Above 1 the filter falls behind a log that grows. The estimate holds to a factor of two.
        """
        if self.filter is None or self._stream.step is None:
            return float("nan")
        return seconds_a_step(FILTERS[self.kalman.kind], self.model) / (self._every_row * self._stream.step)

    def finish(self) -> bool:
        """Process the remaining rows at the end of the log; return whether the estimate has changed."""
        return super().finish() if self.filter is None else self._note(-np.inf)

    def _accept(self, apart: bool, rows: StreamRows) -> bool:
        if self.filter is None:
            changed = super()._accept(apart, rows)
            self._head = (rows if apart else self._head.then(rows)).part(slice(-NOISE_ROWS, None))
            if changed and self.seconds >= self.kalman.settle:
                self.filter = self._started_filter()
            return changed
        if apart:
            self._running = False
            self._pending = StreamRows.none(self.robot.n)
        self._pending, every = self._pending.then(rows), self._every_row
        while len(self._pending) > every:
            self._advance(self.filter, self._pending.part(slice(0, every + 1)))
            self._pending = self._pending.part(slice(every, None))
        return self._note(self.kalman.watch.batch)

    def _advance(self, joint: JointFilter, rows: StreamRows) -> None:
        h = float(rows.t[-1] - rows.t[0])
        if not self._running:
            self._restart(joint, rows.q[[0, -1]], h)
            return
        try:
            joint.follow(rows.tau[None], rows.q[-1:], h)
        except SolverError as error:
            raise SolverError(
                error.identifier,
                found=error.found,
                expected=error.expected,
                do=error.do,
                place=Place(time=float(rows.t[-1])),
            ) from error
        self.seconds += h

    def _restart(self, joint: JointFilter, q: Float, h: float) -> None:
        # Position and velocity at the start of a segment come from its first two positions.
        n = self.robot.n
        joint.mean[: 2 * n] = np.concatenate([q[1], (q[1] - q[0]) / h])
        noise = np.broadcast_to(joint.noise.position, (n,)) ** 2
        bend = 0.5 * h * BRISKNESS * self._speed
        P = joint.covariance
        P[: 2 * n], P[:, : 2 * n] = 0.0, 0.0
        P[:n, :n] = np.diag(noise)
        P[:n, n : 2 * n] = P[n : 2 * n, :n] = np.diag(noise / h)
        P[n : 2 * n, n : 2 * n] = np.diag(2.0 * noise / h**2 + bend**2)
        self._running = True

    def _started_filter(self) -> JointFilter | None:
        head, step = self._head, self._stream.step
        every = np.linspace(0, len(head) - 1, TRIED_STATES).astype(np.int64)
        value, n = self.estimate.value, self.robot.n
        q = head.q[every]
        M, _ = self.model.mass(q, np.zeros_like(q), np.tile(value, (len(every), 1)))
        if step is None or not (np.linalg.eigvalsh(M) > 0).all():
            return None
        self._every_row = max(1, int(1.0 / (self.kalman.rate * step) * (1.0 + 1e-6)))
        self._speed = np.abs(np.gradient(head.q, head.t, axis=0)).max(axis=0)
        covariance = WIDENED**2 * self.variance * self.estimate.covariance
        noise = KalmanNoise(
            force=_white(head.tau) / np.sqrt(self._every_row),
            position=_white(head.q),
            drift=self.kalman.drift * np.sqrt(np.diag(covariance)),
        )
        whole = np.zeros((2 * n + len(value),) * 2)
        whole[2 * n :, 2 * n :] = covariance
        return FILTERS[self.kalman.kind](self.model, np.concatenate([np.zeros(2 * n), value]), whole, noise)

    def _note(self, since: float) -> bool:
        if self.filter is None or not self._running or not len(self._pending):
            return False
        now = float(self._pending.t[0])
        if now - self.time < max(since, 1e-9):
            return False
        P = self.filter.parameter_covariance
        eigenvalues = np.asarray(np.linalg.eigvalsh(P)[::-1], dtype=np.float64)
        self.recorder.note(now, np.array(self.filter.value), np.sqrt(np.diag(P)), eigenvalues)
        return True


def _white(values: Float) -> Float:
    # Standard deviation of white noise on smooth signals (T, n), never quite zero.
    noise = np.sqrt((np.diff(values, 4, axis=0) ** 2).mean(axis=0) / 70.0)
    return np.asarray(np.maximum(noise, LEAST_SHARE * np.maximum(values.std(axis=0), 1e-9)))
