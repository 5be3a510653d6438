"""The result of an identification: everything that the run folder and the report are made of."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from dynid.base.diagnostics import Diagnostics, Verdict, claim_codes
from dynid.base.records import dataclass
from dynid.base.registry import Need, __version__
from dynid.choose.search import Choice, ShapeEstimate
from dynid.choose.selection import Selection
from dynid.diagnosis.finding import ResidualFinding
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.prior import likely_bodies, parameter_spread
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
    """Scores on one set of data, with the torque behind them when there is any to show."""

    scores: Scores
    residuals: Residuals | None = None

    def with_rest(self, at_rest: tuple[str, ...]) -> Validation:
        """The same, some joints known to have stood still."""
        return replace(self, scores=replace(self.scores, at_rest=at_rest))

    def __repr__(self) -> str:
        return repr(self.scores)


@dataclass(frozen=True, eq=False)
class Identification:
    """A finished identification.

    experiment: the experiment file as plain data, enough to repeat the run.    terms: the model that was fitted.
    structural: base parameters that any motion could determine.    estimate.base: those that this log does.
    training: scores on the data that was fitted, with residuals.
    validations: scores on data that was not fitted: held-out blocks or held-out logs.
    preparation: resolved signal settings and evidence (spectra) for the cut-offs, as plain data.
    shapes: nonlinear parameters, estimated.    choices: forms of friction that were compared on held-out blocks.
    selection: how the model was chosen, where that was left to the data.
    residual_findings: effects that the residuals show and the model lacks.
    replayed: errors of a log that exported files replayed, as plain data (`dynid replay`); None = none was.
    files: robot, logs, validate and config, as a command named them; {} from Python.
    log_summary: what was found in the logs, as plain data.    provenance: versions, hashes, seeds, kernel, times.
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
    residual_findings: tuple[ResidualFinding, ...] = ()
    selection: Selection | None = None
    replayed: Mapping[str, Any] | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        """Codes of claims that the user accepted for this run."""
        accept: Any = self.experiment.get("accept", ())
        return claim_codes(accept)

    @cached_property
    def regression(self) -> Regression:
        """The regression that the run came from: factors, base parameters and priors, without its samples."""
        columns, base = self.estimate.columns, self.estimate.base
        held = {int(c) for factor in self.factors.total for c in factor.columns}
        factors = self.factors if held <= set(base.independent.tolist()) else self.factors.select(base.mask)
        spread = parameter_spread(self.robot, columns, influence(factors, base))
        return Regression(columns, base, factors, spread, likely=likely_bodies(self.robot, columns, spread))

    @cached_property
    def influence(self) -> Influence | None:
        """What each group of equations and block of time says of the estimate; None where factors are of another."""
        return influence_of(self.estimate, self.factors)

    def __repr__(self) -> str:
        return f"Identification of '{self.robot.name}': {self.verdict.level.upper()}: {self.verdict.headline}"


# Where a result comes from: versions, hashes, seeds, machine-independent facts.

_PACKAGES = ("numpy", "scipy", "pyarrow")


def provenance(
    log: Log, validation: Log | None, seed: int, seconds: float, needs: Sequence[Need] = ()
) -> dict[str, object]:
    """Plain data: dynid and package versions, kernel, SHA-256 of every file read, seed, date, duration.

    needs: kinds of plug-ins that the settings took; readers are found from the logs.
    """
    tables = [table for one in (log, validation) if one is not None for table in one.tables]
    readers = [Need.of("reader", table.path.suffix[1:].lower(), type(table)) for table in tables]
    plugins = dict.fromkeys([*needs, *(one for one in readers if one is not None)])
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
