"""The result of an identification: the data for the run folder and the report."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from dynid.base.diagnostics import Diagnostics, Finding, Verdict, claim_codes
from dynid.base.records import dataclass
from dynid.base.registry import Need, __version__
from dynid.choose.search import Choice, ShapeEstimate
from dynid.choose.selection import Selection
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.prediction import Forecast
from dynid.estimate.prior import link_priors, parameter_spread
from dynid.estimate.scores import Residuals, Scores
from dynid.estimate.uncertainty import Influence, influence_of
from dynid.factor.base import BaseMap, influence
from dynid.factor.factor import Factors
from dynid.kernel import backend
from dynid.robot.model import RobotModel
from dynid.terms.term import Terms

if TYPE_CHECKING:  # a result is read without the readers of logs
    from dynid.log.read import Log


@dataclass(frozen=True)
class Validation:
    """Scores on one data set, with the residuals behind them if they were kept.

    expected: torque error over all joints that the fit expects on this motion; None = not predicted.
    """

    scores: Scores
    residuals: Residuals | None = None
    expected: float | None = None

    def with_rest(self, at_rest: tuple[str, ...]) -> Validation:
        """Copy with the names of joints that were at rest."""
        return replace(self, scores=replace(self.scores, at_rest=at_rest))

    def __repr__(self) -> str:
        return repr(self.scores)


@dataclass(frozen=True, eq=False)
class Identification:
    """A finished identification.

    Attributes
    ----------
    experiment : mapping
        The experiment file as plain data, sufficient to repeat the run.
    robot : RobotModel
    terms : Terms
        The fitted model.
    structural : BaseMap
        Base parameters that any motion could determine; `estimate.base` holds those that this log determines.
    estimate : Estimate
    factors : Factors
    training : Validation
        Scores on the fitted data, with residuals.
    validations : tuple of Validation
        Scores on held-out blocks or held-out logs.
    verdict : Verdict
    diagnostics : Diagnostics
    files : mapping
        Paths of robot, logs, validate and config, as the command named them; empty from Python.
    preparation : mapping
        Resolved signal settings, and the spectra behind the cutoff frequencies, as plain data.
    log_summary : mapping
        Summary of the logs, as plain data.
    provenance : mapping
        Versions, hashes, seeds, kernel and times.
    truth : mapping or None
        True parameters by name, for simulated robots.
    shapes : tuple of ShapeEstimate
        Nonlinear parameters.
    choices : tuple of Choice
        Forms of friction that were compared on held-out blocks.
    residual_findings : tuple of Finding
        Effects visible in the residuals but missing in the model.
    selection : Selection or None
        How the model was chosen; None if its terms were given.
    replayed : mapping or None
        Errors of a log replayed by exported files (`dynid replay`), as plain data.

    """

    experiment: Mapping[str, object]
    robot: RobotModel
    terms: Terms
    structural: BaseMap
    estimate: Estimate
    factors: Factors
    training: Validation
    validations: tuple[Validation, ...]
    verdict: Verdict
    diagnostics: Diagnostics
    files: Mapping[str, object] = field(default_factory=dict)
    preparation: Mapping[str, object] = field(default_factory=dict)
    log_summary: Mapping[str, object] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    truth: Mapping[str, float] | None = None
    shapes: tuple[ShapeEstimate, ...] = ()
    choices: tuple[Choice, ...] = ()
    residual_findings: tuple[Finding, ...] = ()
    selection: Selection | None = None
    replayed: Mapping[str, Any] | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        """Codes of the doubts that the user accepted for this run."""
        accept: Any = self.experiment.get("accept", ())
        return claim_codes(accept)

    @cached_property
    def forecast(self) -> Forecast | None:
        """Expected errors on other motions; None if the run cannot predict them."""
        held_out = self.validations[-1].scores if self.validations else None
        return Forecast.of(
            self.robot,
            self.terms,
            self.estimate,
            self.training.residuals,
            self.training.scores,
            held_out,
        )

    @cached_property
    def regression(self) -> Regression:
        """The regression behind the estimate: factors, base parameters and priors, without samples."""
        columns, base = self.estimate.columns, self.estimate.base
        columns_used = {int(c) for factor in self.factors.total for c in factor.columns}
        factors = (
            self.factors if columns_used <= set(base.independent.tolist()) else self.factors.select(base.mask)
        )
        spread = parameter_spread(self.robot, columns, influence(factors, base))
        return Regression(columns, base, factors, spread, **link_priors(self.robot, columns, spread))

    @cached_property
    def influence(self) -> Influence | None:
        """Influence of each group of equations and block of time; None if the factors do not match the estimate."""
        return influence_of(self.estimate, self.factors)

    def __repr__(self) -> str:
        return f"Identification of '{self.robot.name}': {self.verdict.level.upper()}: {self.verdict.headline}"


# Provenance of a result.

_PACKAGES = ("numpy", "scipy", "pyarrow")


def provenance(
    log: Log, validation: Log | None, seed: int, seconds: float, needs: Sequence[Need] = ()
) -> dict[str, object]:
    """Versions, kernel, SHA-256 of every file read, seed, date and duration, as plain data.

    `log`: training log; `validation`: held-out log; `seed`: seed of the run; `seconds` in s: wall time of the
    identification; `needs`: plug-ins that the settings use; readers are found from the logs.
    """
    tables = [table for read in (log, validation) if read is not None for table in read.tables]
    readers = [Need.of("reader", table.path.suffix[1:].lower(), type(table)) for table in tables]
    plugins = dict.fromkeys([*needs, *(need for need in readers if need is not None)])
    return {
        "dynid": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "plugins": [asdict(need) for need in plugins],
        "kernel": backend(),
        "architecture": platform.machine(),
        "seed": seed,
        "logs": dict(log.sha256),
        "training_data": log.identity(),
        "validation_logs": dict(validation.sha256) if validation is not None else {},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
