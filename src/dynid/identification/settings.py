"""What shapes an identification: model, equations, method and signals."""

from __future__ import annotations

from dataclasses import asdict, field, replace
from typing import Any

from dynid.base.diagnostics import claim_codes
from dynid.base.records import dataclass
from dynid.base.registry import Need, fields_of, named_for
from dynid.estimate.estimator import Estimator
from dynid.estimate.feasible import FeasibleFit
from dynid.feasible.catalogue import constraint_to_spec
from dynid.identification.blocks import Blocks
from dynid.rows.automatic import AutomaticRows
from dynid.rows.catalogue import rows_to_spec
from dynid.rows.rows import Rows
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import DEFAULT_TERMS, needs_of_terms, terms_to_spec
from dynid.terms.term import Terms

__all__ = ["DEFAULT_TERMS", "Settings", "default_estimator", "needs_of", "settings_to_experiment"]


# Methods that need the equations' factors alone, so that dozens of models cost little; the others read every sample.
ON_FACTORS = ("ols", "wls", "ridge", "feasible")


def default_estimator() -> FeasibleFit:
    """Weighted least squares among consistent bodies, drawn to the description as strongly as unseen blocks bear."""
    return FeasibleFit()


@dataclass(frozen=True)
class Settings(Blocks):
    """How to identify: everything that shapes the numbers, and nothing else.

    `Settings()` is the default of the command line, of experiment files and of Python alike: the model is chosen by
    held-out blocks. `Settings(terms=...)` fits the terms that it is given.

    terms: the model; None = chosen, beginning with DEFAULT_TERMS.
    rows: the equations; automatic ones are chosen from the log.    estimator: the method.
    preparation: the signals.    folds, seed, block_seconds: of held-out blocks and of intervals.
    automatic: whether friction, rotors and what the log adds are chosen around the model by held-out blocks; None =
    where no terms are given, unless the method reads every sample, which it would do for dozens of models.
    accept: codes of claims that warn where they would be doubts, see `dynid.base.diagnostics.CLAIMS`; one that
    is not found is an error.

    Raises UsageError for a code that no claim has.
    """

    terms: Terms | None = None
    rows: Rows | AutomaticRows = field(default_factory=AutomaticRows)
    estimator: Estimator = field(default_factory=default_estimator)
    preparation: Preparation = field(default_factory=Preparation)
    automatic: bool | None = None
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "accept", claim_codes(self.accept))

    @property
    def model(self) -> Terms:
        """The terms that the fit, or the choice of a model, begins with."""
        return DEFAULT_TERMS if self.terms is None else self.terms

    @property
    def chooses_model(self) -> bool:
        """Whether the model is chosen by held-out blocks."""
        if self.automatic is not None:
            return self.automatic
        return self.terms is None and self._method in ON_FACTORS

    @property
    def choice_left_out(self) -> str:
        """Why the model is not chosen though no terms are given; "" where it is, or nobody expects it."""
        if self.terms is not None or self.automatic is not None or self.chooses_model:
            return ""
        return (
            "the default model is fitted as it is, not chosen on held-out blocks: method "
            f"'{self._method}' reads every sample, and a choice would fit dozens of models to blocks of them, each of "
            "which takes about as long as this fit. Run without a method first and give its terms here, or set "
            "automatic to true"
        )

    def resolved(self) -> Settings:
        """The same settings with terms, and whether a model is chosen, written out."""
        return replace(self, terms=self.model, automatic=self.chooses_model)

    @property
    def _method(self) -> str:
        inner = self.estimator.inner if isinstance(self.estimator, FeasibleFit) else None
        return (inner or self.estimator).name


def settings_to_experiment(settings: Settings) -> dict[str, Any]:
    """The settings as plain data, in the form of an experiment file."""
    prepare_options = {key: value for key, value in asdict(settings.preparation).items() if value is not None}
    estimate: dict[str, Any] = {
        "folds": settings.folds,
        "seed": settings.seed,
    }
    if settings.block_seconds is not None:
        estimate["block_seconds"] = settings.block_seconds
    accept = {"accept": list(settings.accept)} if settings.accept else {}
    model: dict[str, Any] = {}
    if settings.terms is not None:
        model["terms"] = terms_to_spec(settings.terms)
    if settings.automatic is not None:
        model["automatic"] = settings.automatic
    plugins = named_for(needs_of(settings))
    return {
        **accept,
        **({"plugins": plugins} if plugins else {}),
        "model": model | rows_to_spec(settings.rows),
        "estimate": estimate | _method(settings.estimator),
        "prepare": prepare_options,
    }


def needs_of(settings: Settings) -> list[Need]:
    """Kinds in the settings that are not dynid's own, each with where it came from."""
    estimator = settings.estimator
    fit = estimator if isinstance(estimator, FeasibleFit) else None
    inner, further = (fit.inner, fit.further) if fit is not None else (None, ())
    used = [
        ("rows", settings.rows.name, settings.rows),
        *(("estimator", one.name, one) for one in (estimator, inner) if one is not None),
        *(("constraint", constraint_to_spec(one)["constraint"], one) for one in further),
    ]
    found = needs_of_terms(settings.model)
    return found + [need for kind, name, one in used if (need := Need.of(kind, name, type(one))) is not None]


def _method(estimator: Estimator) -> dict[str, Any]:
    own = {key: getattr(estimator, key) for key in fields_of(type(estimator))}
    if not isinstance(estimator, FeasibleFit):
        return {"method": estimator.name} | own
    options = {
        key: value for key, value in own.items() if key not in ("inner", "required", "further", "mass_share")
    }
    if estimator.further:
        options["constraints"] = [constraint_to_spec(one) for one in estimator.further]
    if estimator.inner is None:
        return {"method": estimator.name} | options | ({"feasible": True} if estimator.required else {})
    # Around another method that one's weights count.
    options.pop("weights")
    options.pop("intervals")
    return options | _method(estimator.inner) | {"feasible": True}
