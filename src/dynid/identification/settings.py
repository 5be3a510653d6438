"""Settings of an identification: model, equations, method and signals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dynid.base.diagnostics import claim_codes
from dynid.base.options import option, set_options
from dynid.base.records import dataclass
from dynid.base.registry import Need, fields_of, named_for
from dynid.estimate.estimator import Estimator
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.posterior import MAP
from dynid.feasible.catalogue import constraint_to_spec
from dynid.identification.blocks import Blocks
from dynid.rows.automatic import AutomaticRows
from dynid.rows.catalogue import rows_to_spec
from dynid.rows.rows import Rows
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import DEFAULT_TERMS, needs_of_terms, terms_to_spec
from dynid.terms.term import Terms

__all__ = ["DEFAULT_TERMS", "Settings", "default_estimator", "needs_of", "settings_to_experiment"]


# Methods that need only the factors of the equations, so that fitting dozens of models is cheap; others read every
# sample.
ON_FACTORS = ("ols", "wls", "ridge", "feasible", "map")
# Fields of FeasibleFit that a file writes as tables, as `method` and `feasible`, or not at all.
NOT_IN_FILES = {"inner", "required", "limits", "further"}
# Options of FeasibleFit around another method: the other method has weights and intervals of its own.
AROUND_METHOD = fields_of(FeasibleFit).keys() - NOT_IN_FILES - {"weights", "intervals"}


def default_estimator() -> MAP:
    """Most probable parameters among physically consistent links."""
    return MAP()


@dataclass(frozen=True)
class Settings(Blocks):
    """Everything that determines the result of an identification.

    `Settings()` is the default on the command line, in experiment files and in Python: the model is chosen on held-out
    blocks. `Settings(terms=...)` fits the given terms.

    Parameters
    ----------
    terms : Terms, optional
        The model; without it the log chooses one, beginning with DEFAULT_TERMS.
    rows : Rows or AutomaticRows
        The equations; AutomaticRows lets the log choose them.
    estimator : Estimator
        The method.
    preparation : Preparation
        How the signals are prepared.
    automatic : bool, optional
        Whether friction, rotors and the effects of the measurement are chosen by held-out blocks.
        Without it they are, unless terms are given or the method would read every sample for dozens of models.
    accept : tuple of str
        Codes of `dynid.base.diagnostics.CLAIMS` that warn instead of counting against the verdict. A code that does
        not occur in the run is an error.
    folds, seed, block_seconds
        Blocks of held-out scores and of intervals, see `Blocks`.

    Raises
    ------
    UsageError
        If no claim has one of the codes, or a number is out of range.

    """

    terms: Terms | None = option(
        None,
        "`{ term = NAME, option = value }`; names alone take the defaults",
        kind="a list of names or tables, at least one",
    )
    rows: Rows | AutomaticRows = option(
        factory=AutomaticRows,
        doc="which equations are written down: `{ rows = NAME, option = value }`, see [rows](experiment.md#rows)",
        kind="a name or a table",
    )
    estimator: Estimator = option(factory=default_estimator)
    preparation: Preparation = option(factory=Preparation)
    automatic: bool | None = option(
        None,
        "whether the log [chooses the model](experiment.md#the-model-chosen-by-the-log); where no `terms` are given it "
        "does, without a method or with ols, wls, ridge, feasible",
    )
    accept: tuple[str, ...] = option(
        (), "codes of claims that warn only and do not count against the verdict"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "accept", claim_codes(self.accept))

    @property
    def model(self) -> Terms:
        """The given terms, or those with which the choice of a model begins."""
        return DEFAULT_TERMS if self.terms is None else self.terms

    @property
    def chooses_model(self) -> bool:
        """Whether the model is chosen on held-out blocks."""
        if self.automatic is not None:
            return self.automatic
        return self.terms is None and self._method in ON_FACTORS

    @property
    def choice_left_out(self) -> str:
        """Why the model is not chosen although no terms are given; "" if it is, or if the settings exclude it."""
        if self.terms is not None or self.automatic is not None or self.chooses_model:
            return ""
        return (
            "the default model is fitted without a choice on held-out blocks: method "
            f"'{self._method}' would read every sample for dozens of models. Give the terms of a run without a method, "
            "or set automatic = true"
        )

    def resolved(self) -> Settings:
        """The same settings with the defaults of `terms` and `automatic` filled in."""
        return replace(self, terms=self.model, automatic=self.chooses_model)

    @property
    def _method(self) -> str:
        inner = self.estimator.inner if isinstance(self.estimator, FeasibleFit) else None
        return (inner or self.estimator).name


def settings_to_experiment(settings: Settings) -> dict[str, Any]:
    """Convert settings to tables and keys of an experiment; `Experiment.from_dict(...).settings()` is the inverse."""
    lists = {"accept": list(settings.accept), "plugins": named_for(needs_of(settings))}
    terms = {} if settings.terms is None else {"terms": terms_to_spec(settings.terms)}
    automatic = {} if settings.automatic is None else {"automatic": settings.automatic}
    return {name: codes for name, codes in lists.items() if codes} | {
        "model": terms | automatic | rows_to_spec(settings.rows),
        "estimate": set_options(settings, Blocks) | _method(settings.estimator),
        "prepare": set_options(settings.preparation),
    }


def needs_of(settings: Settings) -> list[Need]:
    """What a run needs besides dynid: terms, rows, methods and constraints from plug-ins, each with its origin."""
    estimator = settings.estimator
    fit = estimator if isinstance(estimator, FeasibleFit) else None
    inner, further = (fit.inner, fit.further) if fit is not None else (None, ())
    used = [
        ("rows", settings.rows.name, settings.rows),
        *(("estimator", instance.name, instance) for instance in (estimator, inner) if instance is not None),
        *(("constraint", constraint_to_spec(instance)["constraint"], instance) for instance in further),
    ]
    needs = needs_of_terms(settings.model)
    return needs + [
        need for kind, name, instance in used if (need := Need.of(kind, name, type(instance))) is not None
    ]


def _method(estimator: Estimator) -> dict[str, Any]:
    options = {name: getattr(estimator, name) for name in fields_of(type(estimator))}
    if not isinstance(estimator, FeasibleFit):
        return {"method": estimator.name} | options
    known = AROUND_METHOD if estimator.inner is not None else options.keys() - NOT_IN_FILES
    written = {name: value for name, value in options.items() if name in known or name == "limits"}
    if estimator.further:
        written["constraints"] = [constraint_to_spec(constraint) for constraint in estimator.further]
    if estimator.inner is None:
        return {"method": estimator.name} | written | ({"feasible": True} if estimator.required else {})
    return written | _method(estimator.inner) | {"feasible": True}
