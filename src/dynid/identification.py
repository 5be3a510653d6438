"""The result of an identification: everything that the run folder and the report are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dynid.arrays import Float, Int, locked_int, shared
from dynid.diagnosis.symptom import Symptom
from dynid.diagnostics import Diagnostics
from dynid.estimate.estimator import Estimate
from dynid.factor.base import BaseMap
from dynid.factor.factor import Factors
from dynid.robot.model import RobotModel
from dynid.scores import Scores
from dynid.selection.result import Selection
from dynid.shapes.result import Choice, ShapeEstimate
from dynid.terms.term import Terms


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured and predicted torque, filtered alike, at the decimated rate.

    t: (T,) s, on the log's clock.    trajectory: (T,) index into `trajectories`.    segment: (T,).
    measured, predicted: (T, n) N m.    q, dq: (T, n), for plots against position and velocity.
    rate: Hz.
    std: (T, n) standard deviation of the predicted torque from that of the parameters; None = not known.
    temperature: (T, n) of the drives, degrees C, nan where a joint has none; None = not logged.
    """

    trajectories: tuple[str, ...]
    joint_names: tuple[str, ...]
    t: Float
    trajectory: Int
    segment: Int
    measured: Float
    predicted: Float
    q: Float
    dq: Float
    rate: float
    std: Float | None = None
    temperature: Float | None = None

    def __post_init__(self) -> None:
        T, n = len(self.t), len(self.joint_names)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        for name in ("trajectory", "segment"):
            object.__setattr__(self, name, locked_int(getattr(self, name), (T,), name))
        for name in ("measured", "predicted", "q", "dq"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name in ("std", "temperature"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))

    @property
    def error(self) -> Float:
        """Measured minus predicted torque, (T, n)."""
        return self.measured - self.predicted


@dataclass(frozen=True)
class Validation:
    """Scores on one set of data, with the torque behind them when there is any to show."""

    scores: Scores
    residuals: Residuals | None = None


@dataclass(frozen=True)
class Finding:
    """One sentence of the verdict: how much it matters, what was seen, what to do."""

    level: str
    title: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer in plain words: can this model be trusted, what is weak, what to do next.

    level: "good", "usable" or "poor".
    """

    level: str
    headline: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, eq=False)
class Identification:
    """A finished identification.

    recipe: settings as plain JSON data, enough to repeat the run.    terms: the model that was fitted.
    structural: base parameters that any motion could tell apart.    estimate.base: those that this log does.
    training: scores on the data that was fitted, with residuals.
    validations: scores on data that was not fitted: held-out blocks or held-out logs.
    preparation: resolved signal settings and evidence (spectra) for the cut-offs, as plain data.
    shapes: nonlinear parameters that were sought.    choices: forms of friction that were compared on held-out blocks.
    selection: how the model was chosen, where that was left to the data.
    symptoms: effects that the residuals show and the model lacks.
    log_summary: what was found in the logs, as plain data.    provenance: versions, hashes, seeds, kernel, times.
    """

    recipe: Mapping[str, object]
    robot: RobotModel
    terms: Terms
    structural: BaseMap
    estimate: Estimate
    factors: Factors
    training: Validation
    validations: tuple[Validation, ...]
    verdict: Verdict
    diagnostics: Diagnostics
    preparation: Mapping[str, object] = field(default_factory=dict)
    log_summary: Mapping[str, object] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    truth: Mapping[str, float] | None = None
    shapes: tuple[ShapeEstimate, ...] = ()
    choices: tuple[Choice, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    selection: Selection | None = None
