"""Open-loop simulation: an identified model driven by the measured torque, compared with the measured motion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dynid.base import Float, UnfitDataError, UsageError, dataclass, locked
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.simulation.forward import ForwardModel, Hold, stick_slip
from dynid.terms import Scale, Terms
from dynid.terms.forms import torque_of

__all__ = ["OpenLoop", "open_loop"]


@dataclass(frozen=True, eq=False)
class OpenLoop:
    """A simulated motion compared with the measured one.

    Attributes
    ----------
    joint_names : tuple of str
        Joints.
    t : ndarray, shape (T,), s
        Times.
    q : ndarray, shape (T, n), rad (m)
        Simulated positions; nan after divergence.
    error : ndarray, shape (T, n), rad (m)
        Measured minus simulated positions.
    norm : ndarray, shape (n,)
        ||error||_2, the root of the sum of squares over the samples; infinite if the simulation diverged.
    diverged_at : float or None, s
        Time of divergence; None if there was none.

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
        """The figures as lines of text."""
        if self.diverged_at is not None:
            return [f"the simulation diverges at t = {self.diverged_at:.3g} s, so its error has no norm"]
        return [f"{name}: ||q_error|| = {x:.4g}" for name, x in zip(self.joint_names, self.norm, strict=True)]


def open_loop(
    robot: RobotModel, terms: Terms, theta: Float, samples: Samples, hold: Hold = "linear", substeps: int = 1
) -> OpenLoop:
    """Simulate the model from the state of the first sample under the measured torque; joints may stick.

    A simulation that leaves all bounds, or whose mass matrix is no longer positive definite, is reported as diverged.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters, in the order of `terms.columns(robot)`.
    samples : Samples
        Measured motion and torque.
    hold : {"linear", "zero"}
        Torque between samples: linear, or constant ("zero").
    substeps : int
        Least number of integration steps per sample.

    Returns
    -------
    OpenLoop
        Simulated motion and its error.

    Raises
    ------
    UsageError
        If theta has another length, for fewer than two samples or one substep, or terms that read a log channel or past
        motion.

    References
    ----------
    Chavez-Olivares et al. 2012, section 5, Table 2.

    """
    if len(samples) < 2 or substeps < 1:
        raise UsageError(
            "open-loop",
            found=f"{len(samples)} samples, {substeps} substeps",
            expected="at least two samples and one substep",
        )
    model = ForwardModel(robot, terms, theta)
    tau = _driving_torque(robot, terms, theta, samples)
    run = stick_slip(model, samples.q[0], samples.dq[0], tau, samples.rate, hold, substeps)
    error = samples.q - run.q
    diverged = None if run.diverged is None else float(samples.t[run.diverged])
    norm = np.full(robot.n, np.inf) if diverged is not None else np.sqrt((error**2).sum(axis=0))
    return OpenLoop(robot.joint_names, samples.t, run.q, error, norm, diverged)


def first_stretch(batches: Iterable[Samples], seconds: float) -> Samples:
    """First part of a prepared log without gaps, at most `seconds` long.

    Parameters
    ----------
    batches : iterable of Samples
        Prepared log.
    seconds : float, s
        Greatest duration.

    Returns
    -------
    Samples
        Consecutive samples.

    Raises
    ------
    UnfitDataError
        If no two usable samples are consecutive.

    """
    for samples in batches:
        kept = np.flatnonzero(samples.keep)
        if len(kept) < 2:
            continue
        gaps = np.flatnonzero(np.diff(kept) > 1)
        count = min(int(gaps[0]) + 1 if len(gaps) else len(kept), round(seconds * samples.rate) + 1)
        if count >= 2:
            part = slice(int(kept[0]), int(kept[0]) + count)
            motion = (samples.q[part], samples.dq[part], samples.ddq[part], samples.tau[part])
            return replace(
                Samples.from_motion(*motion, samples.rate),
                t=samples.t[part],
                trajectory=samples.trajectory,
            )
    raise UnfitDataError(
        "open-loop-samples", found="no two consecutive samples", expected="a part of the log without gaps"
    )


def _driving_torque(robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> Float:
    # A gain stands on the model's side of the equation, but scales the measured torque.
    tau, first = np.array(samples.tau), 0
    for term in terms:
        count = len(term.columns(robot))
        if term.traits.scale is Scale.FREES:
            tau -= torque_of(term, robot, samples, theta[first : first + count])
        first += count
    return tau
