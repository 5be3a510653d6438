"""External torque along logs, and the thresholds that logs of free motion give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float, shared
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.dynamics import Dynamics
from dynid.dynamics.observer import CUTOFF, MomentumObserver, Thresholds
from dynid.log.read import Log

# Time constants of the observer after which its start at zero has decayed.
_SETTLED = 5.0
# Fewest parts of a log; each is predicted from the others.
_PARTS = 5


@dataclass(frozen=True, eq=False)
class ExternalTorque:
    """External torque along one trajectory of a log, estimated by an observer.

    Attributes
    ----------
    trajectory : str
    joint_names : tuple of str
    t : ndarray, shape (n_samples,), s
    torque : ndarray, shape (n_samples, n_joints), N m (N)
    dq : ndarray, shape (n_samples, n_joints), rad/s (m/s)

    """

    trajectory: str
    joint_names: tuple[str, ...]
    t: Float
    torque: Float
    dq: Float

    def __post_init__(self) -> None:
        T, n = len(self.t), len(self.joint_names)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        for name in ("torque", "dq"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))

    def __repr__(self) -> str:
        peaks = ", ".join(
            f"{name} {x:.3g}"
            for name, x in zip(self.joint_names, np.abs(self.torque).max(axis=0), strict=True)
        )
        return f"External torque in '{self.trajectory}', {len(self.t)} samples; largest, N m (N): {peaks}"


def external_torque(model: Dynamics, log: Log, cutoff: float = CUTOFF) -> tuple[ExternalTorque, ...]:
    """Estimate the external torque along every trajectory of a log by a momentum observer.

    Rows with a missing value are left out. Velocity that was not logged is the difference of positions.

    Parameters
    ----------
    model : Dynamics
        The model.
    log : Log
        The log.
    cutoff : float, Hz
        Bandwidth of the observer.

    Returns
    -------
    tuple of ExternalTorque

    Raises
    ------
    UsageError
        For a log of other joints, or without effort.

    """
    if log.robot.joint_names != model.robot.joint_names:
        raise UsageError(
            "other-joints",
            found=f"a log of the joints {', '.join(log.robot.joint_names)}",
            expected=", ".join(model.robot.joint_names),
        )
    return tuple(_along_trajectories(model, log, cutoff))


def thresholds(model: Dynamics, log: Log, rate: float, cutoff: float = CUTOFF) -> Thresholds:
    """Thresholds that a given share of the samples of a log of free motion exceeds.

    Parameters
    ----------
    model : Dynamics
        The model.
    log : Log
        A log without contact.
    rate : float
        Share of the samples, 0 to 1.
    cutoff : float, Hz
        Bandwidth of the observer.

    Returns
    -------
    Thresholds

    Raises
    ------
    UnfitDataError
        For a log that is too short for this share.

    """
    lag = 1.0 / MomentumObserver(model, cutoff).gain
    parts: list[tuple[Float, Float]] = []
    torques = external_torque(model, log, cutoff)
    pieces = max(1, -(-_PARTS // max(len(torques), 1)))
    for trajectory in torques:
        settled = trajectory.t - trajectory.t[0] > _SETTLED * lag
        cuts = (np.array_split(x[settled], pieces) for x in (trajectory.torque, trajectory.dq))
        parts += zip(*cuts, strict=True)
    return Thresholds.of_free_motion(
        [part for part in parts if len(part[0])], rate, cutoff, *model.friction_at_rest()
    )


def _along_trajectories(model: Dynamics, log: Log, cutoff: float) -> Iterator[ExternalTorque]:
    for trajectory in log.trajectories:
        raw = log.read(trajectory)
        if raw.tau is None:
            raise UsageError(
                "no-effort", found="a log without effort", expected="torque or current of every joint"
            )
        sound = np.asarray(np.isfinite(raw.q).all(axis=1) & np.isfinite(raw.tau).all(axis=1))
        sound[1:] &= np.diff(np.maximum.accumulate(raw.t)) > 0
        if raw.dq is not None:
            sound &= np.isfinite(raw.dq).all(axis=1)
        t, q, tau = raw.t[sound], raw.q[sound], raw.tau[sound]
        if len(t) < 2:
            continue
        dq = np.gradient(q, t, axis=0) if raw.dq is None else raw.dq[sound]
        torque = model.external_torque(t, q, dq, tau, cutoff=cutoff)
        yield ExternalTorque(trajectory.name, log.robot.joint_names, t, torque, dq)
