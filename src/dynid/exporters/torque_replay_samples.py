"""What of a log's torque exported files are to give: less what is of the measurement, apart what no file holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.exporters.mixed import motors_of
from dynid.exporters.model import ExportModel
from dynid.run.result import Identification
from dynid.signals.samples import Samples
from dynid.terms.exports import MotionBasis, mixed_torque
from dynid.terms.gravity_tilt import Lean
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Scale, Term


@dataclass(frozen=True, eq=False)
class LogPart:
    """Consecutive samples and their torques, (T, n).

    tau: measured, less what the model says of the measurement.    predicted: by the run, of the same.
    apart: of effects of the robot that no file holds.
    """

    samples: Samples
    tau: Float
    predicted: Float
    apart: Float


def part_of(run: Identification, theta: Float, model: ExportModel, samples: Samples) -> LogPart:
    """A batch of samples with its torques.    theta: parameters of the files' bodies.    model: what the files hold."""
    # A log tells the sum of an offset and of a spring's preload alone: the model has it in the spring.
    of_log = _torque(run, theta, samples, lambda term, own: _is_of_log(term, own) and not _is_constant(term))
    of_log += model.offset
    predicted = _torque(run, run.estimate.parameters, samples, lambda _, __: True)
    known = run.terms.known_torque(run.robot, samples)
    apart = _torque(run, theta, samples, partial(_is_apart, run)) + known
    apart += mixed_torque(motors_of(model.mixed)[1], tuple(MotionBasis), samples.dq, samples.ddq)
    predicted += known - of_log
    tau = samples.tau - of_log
    if samples.measured is not None:
        tau = np.where(samples.measured, tau, predicted)
    return LogPart(samples, tau, predicted, apart)


def _torque(
    run: Identification, theta: Float, samples: Samples, which: Callable[[Term, Float], bool]
) -> Float:
    # (T, n) of some terms with parameters theta (p,).
    tau = np.zeros_like(samples.tau)
    for term, own in run.terms.with_values(run.robot, theta):
        if which(term, own):
            tau += term.torque(run.robot, term.seen(samples), own)
    return tau


def _is_of_log(term: Term, _: Float) -> bool:
    return term.of_log or _is_constant(term) or term.scale is Scale.FREES


def _is_constant(term: Term) -> bool:
    return isinstance(term, JointTerm) and term.exports_as is MotionBasis.ONE


def _is_apart(run: Identification, term: Term, own: Float) -> bool:
    if _is_of_log(term, own):
        return False
    pieces = term.exported(run.robot, own)
    return pieces is None or any(isinstance(piece, Lean) for piece in pieces)


def effects_apart(run: Identification, theta: Float, model: ExportModel) -> list[str]:
    """Names of the effects that no file holds, but that act on the robot."""
    found = [term.name for term, own in run.terms.with_values(run.robot, theta) if _is_apart(run, term, own)]
    return [*found, *(part.term for part in motors_of(model.mixed)[1])]


def of_measured(parts: Sequence[LogPart], values: Float) -> Float:
    """Values (n,) with nan for joints without a measured torque."""
    measured = parts[0].samples.measured
    return values if measured is None else np.where(measured, values, np.nan)


def relative_error(errors: Iterable[Float], sizes: Iterable[Float]) -> Float:
    """Root of the mean square of errors over that of sizes, (n,); parts of (T, n) each."""
    total, whole = (sum((np.asarray(x) ** 2).sum(axis=0) for x in parts) for parts in (errors, sizes))
    return np.asarray(np.sqrt(np.asarray(total) / np.maximum(np.asarray(whole), np.finfo(np.float64).tiny)))
