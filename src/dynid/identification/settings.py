"""What shapes an identification: model, equations, method and signals."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dynid.base.diagnostics import claim_codes
from dynid.estimate.estimator import Estimator
from dynid.estimate.feasible import FeasibleFit
from dynid.rows.automatic import AutomaticRows
from dynid.rows.catalogue import rows_to_spec
from dynid.rows.rows import Rows
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import terms_to_spec
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Terms


def default_estimator() -> FeasibleFit:
    """Weighted least squares among real bodies, drawn to the description's as strongly as unseen blocks bear."""
    return FeasibleFit(strength="held-out", prior="entropic")


DEFAULT_TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.02) + Offset()


@dataclass(frozen=True)
class Settings:
    """How to identify: everything that shapes the numbers, and nothing else.

    terms: the model.    automatic: whether friction, rotors and what the log adds are chosen around it, by held-out
    blocks.
    rows: the equations; automatic ones are chosen from the log.    estimator: the method.
    preparation: the signals.
    folds: number of contiguous folds for held-out blocks.    seed: of the random states for the structural base.
    block_seconds: length of the blocks that intervals and folds are built from; None = from the log's length.
    accept: codes of claims that warn where they would stop the work, see `dynid.base.diagnostics.CLAIMS`; one that
    is not found is an error.

    Raises UsageError for a code that no claim has.
    """

    terms: Terms = DEFAULT_TERMS
    rows: Rows | AutomaticRows = field(default_factory=AutomaticRows)
    estimator: Estimator = field(default_factory=default_estimator)
    preparation: Preparation = field(default_factory=Preparation)
    folds: int = 5
    seed: int = 0
    block_seconds: float | None = None
    automatic: bool = False
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "accept", claim_codes(self.accept))


def settings_to_recipe(settings: Settings) -> dict[str, Any]:
    """The settings as plain data, in the form of an experiment file."""
    prepare_options = {key: value for key, value in asdict(settings.preparation).items() if value is not None}
    estimate: dict[str, Any] = {
        "folds": settings.folds,
        "seed": settings.seed,
    }
    if settings.block_seconds is not None:
        estimate["block_seconds"] = settings.block_seconds
    accept = {"accept": list(settings.accept)} if settings.accept else {}
    return {
        "experiment": accept
        | {
            "model": {"terms": terms_to_spec(settings.terms), "automatic": settings.automatic}
            | rows_to_spec(settings.rows),
            "estimate": estimate | _method(settings.estimator),
            "prepare": prepare_options,
        }
    }


def _method(estimator: Estimator) -> dict[str, Any]:
    options = {key: value for key, value in vars(estimator).items() if key not in ("name", "inner")}
    inner: Estimator | None = getattr(estimator, "inner", None)
    if inner is None:
        return {"method": estimator.name} | options
    # Real bodies around another method: that one's weights count.
    options.pop("weights", None)
    options.pop("intervals", None)
    return options | _method(inner) | {"feasible": True}
