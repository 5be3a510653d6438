"""Open-loop runs: an identified model driven by measured torque, beside the motion that the robot made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import UsageError
from dynid.kernel import solved
from dynid.robot.model import RobotModel
from dynid.rows.momentum_filter import Hold
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

FAR = 1e3


@dataclass(frozen=True, eq=False)
class OpenLoop:
    """A simulated run beside the measured one.

    t: (T,) s.    q: (T, n) simulated, nan after the run has diverged.    error: (T, n) measured less simulated.
    norm: (n,) ||error||_2, the root of the sum of squares over the samples; infinite where the run diverged.
    diverged_at: s, None = it came to its end.
    """

    joint_names: tuple[str, ...]
    t: Float
    q: Float
    error: Float
    norm: Float
    diverged_at: float | None

    def __post_init__(self) -> None:
        T, n = len(self.t), len(self.joint_names)
        object.__setattr__(self, "t", locked(self.t, (T,), "t"))
        for name in ("q", "error"):
            object.__setattr__(self, name, locked(getattr(self, name), (T, n), name))
        object.__setattr__(self, "norm", locked(self.norm, (n,), "norm"))

    def lines(self) -> list[str]:
        """The figures in words."""
        if self.diverged_at is not None:
            return [f"the simulated run diverges at t = {self.diverged_at:.4g} s: no norm of its error"]
        return [f"{name}: ||q_error|| = {x:.4g}" for name, x in zip(self.joint_names, self.norm, strict=True)]


def open_loop(
    robot: RobotModel, terms: Terms, theta: Float, samples: Samples, hold: Hold = "linear", substeps: int = 2
) -> OpenLoop:
    """Simulates the model from the first sample's state with the measured torque, by Runge-Kutta of fourth order.

    theta: (p,) over terms.columns(robot).    hold: "zero" where torque is constant between samples, else "linear".
    substeps: integration steps a sample. A run that leaves every bound, or whose mass matrix loses its sign, is
    reported as diverged. Source: Chavez-Olivares et al. 2012 section 5, Table 2.

    Raises UsageError for parameters of another length, fewer than two samples or no substep.
    """
    p = len(terms.columns(robot))
    if np.shape(theta) != (p,) or len(samples) < 2 or substeps < 1:
        raise UsageError(
            "open-loop",
            found=f"{np.shape(theta)} parameters, {len(samples)} samples, {substeps} substeps",
            expected=f"({p},) parameters, two samples, one substep or more",
        )
    h = 1.0 / samples.rate / substeps
    q, dq = np.array(samples.q[0]), np.array(samples.dq[0])
    path = np.full_like(samples.q, np.nan)
    diverged: float | None = None
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(len(samples)):
            if not (np.abs(q) < FAR).all() or not np.isfinite(dq).all():
                diverged = float(samples.t[k])
                break
            path[k] = q
            if k + 1 == len(samples):
                break
            for i in range(substeps):
                torque = [_torque(samples.tau, k, (i + s) / substeps, hold) for s in (0.0, 0.5, 1.0)]
                q, dq = _step(robot, terms, theta, q, dq, torque, h)
    error = samples.q - path
    norm = np.full(robot.n, np.inf) if diverged is not None else np.sqrt((error**2).sum(axis=0))
    return OpenLoop(robot.joint_names, samples.t, path, error, norm, diverged)


def _torque(tau: Float, k: int, part: float, hold: Hold) -> Float:
    return np.asarray(tau[k]) if hold == "zero" else (1.0 - part) * tau[k] + part * tau[k + 1]


def _step(
    robot: RobotModel, terms: Terms, theta: Float, q: Float, dq: Float, torque: list[Float], h: float
) -> tuple[Float, Float]:
    a1 = _acceleration(robot, terms, theta, q, dq, torque[0])
    v2 = dq + 0.5 * h * a1
    a2 = _acceleration(robot, terms, theta, q + 0.5 * h * dq, v2, torque[1])
    v3 = dq + 0.5 * h * a2
    a3 = _acceleration(robot, terms, theta, q + 0.5 * h * v2, v3, torque[1])
    v4 = dq + h * a3
    a4 = _acceleration(robot, terms, theta, q + h * v3, v4, torque[2])
    return q + h / 6.0 * (dq + 2.0 * (v2 + v3) + v4), dq + h / 6.0 * (a1 + 2.0 * (a2 + a3) + a4)


def _acceleration(robot: RobotModel, terms: Terms, theta: Float, q: Float, dq: Float, tau: Float) -> Float:
    # Torque at zero and at unit accelerations holds the bias and the mass matrix of any model.
    n = robot.n
    if not (np.isfinite(q).all() and np.isfinite(dq).all()):
        return np.full(n, np.nan)
    ddq = np.vstack([np.zeros(n), np.eye(n)])
    states = Samples.from_motion(
        np.tile(q, (n + 1, 1)), np.tile(dq, (n + 1, 1)), ddq, np.tile(tau, (n + 1, 1))
    )
    found = terms.torque(robot, states, theta)
    M = found[1:] - found[0]
    if not np.linalg.eigvalsh(0.5 * (M + M.T))[0] > 0:
        return np.full(n, np.nan)
    return np.asarray(solved(0.5 * (M + M.T)[None], (tau - found[0])[None])[0])
