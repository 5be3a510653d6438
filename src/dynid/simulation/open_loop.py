"""Open-loop runs: an identified model driven by measured torque, beside the motion that the robot made."""

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
    robot: RobotModel, terms: Terms, theta: Float, samples: Samples, hold: Hold = "linear", substeps: int = 1
) -> OpenLoop:
    """Simulates the model from the first sample's state with the measured torque; joints may stick.

    theta: (p,) over terms.columns(robot).    hold: "zero" where torque is constant between samples, else "linear".
    substeps: integration steps a sample, at least. A run that leaves every bound, or whose mass matrix loses its sign,
    is reported as diverged. Source: Chavez-Olivares et al. 2012 section 5, Table 2.

    Raises UsageError for parameters of another length, fewer than two samples, no substep, or terms that read a log
    channel or the past.
    """
    if len(samples) < 2 or substeps < 1:
        raise UsageError(
            "open-loop",
            found=f"{len(samples)} samples, {substeps} substeps",
            expected="two samples, one substep or more",
        )
    model = ForwardModel(robot, terms, theta)
    tau = _driving(robot, terms, theta, samples)
    run = stick_slip(model, samples.q[0], samples.dq[0], tau, samples.rate, hold, substeps)
    error = samples.q - run.q
    diverged = None if run.diverged is None else float(samples.t[run.diverged])
    norm = np.full(robot.n, np.inf) if diverged is not None else np.sqrt((error**2).sum(axis=0))
    return OpenLoop(robot.joint_names, samples.t, run.q, error, norm, diverged)


def first_stretch(batches: Iterable[Samples], seconds: float) -> Samples:
    """The first samples of a prepared log that count, without a gap: what a run is driven by and compared with.

    Raises UnfitDataError if fewer than two follow each other.
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
        "open-loop-samples", found="no two samples that follow each other", expected="a stretch of motion"
    )


def _driving(robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> Float:
    # A gain stands on the model's side of the equation, but scales the measured torque.
    tau, first = np.array(samples.tau), 0
    for term in terms:
        count = len(term.columns(robot))
        if term.traits.scale is Scale.FREES:
            tau -= torque_of(term, robot, samples, theta[first : first + count])
        first += count
    return tau
