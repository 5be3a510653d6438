"""Small effects linearised about the model that holds them, where a first fit without them was a rough guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynid.choose.search import Fit, Fitted, NonlinearFit
from dynid.choose.wide_model import found_effects, nominal_model
from dynid.robot.model import RobotModel
from dynid.terms.nominal import Nominal, NominalTerm
from dynid.terms.term import Term, Terms

ROUNDS = 3
# Steps within this share of the interval are of no account.
CLOSE = 0.1


def relinearised(
    robot: RobotModel, nonlinear: NonlinearFit, fitted: Fitted, nominal: Nominal, fit: Fit
) -> tuple[NonlinearFit, Fitted]:
    """The model fitted again until the effects that are linearised about a nominal model stay where they are.

    nominal: that which a choice of the model linearised about; terms with any other are left alone.
    A gain that is off by g is found off by g / (1 + g) about a model that took it for granted.
    """
    for _ in range(ROUNDS):
        found = nominal_model(robot, fitted.estimate, nominal)
        terms = _about(robot, nonlinear.terms, nominal, found, found_effects(fitted.estimate))
        if terms == nonlinear.terms:
            break
        again = fit(terms)
        step = _step(fitted, again)
        nonlinear, fitted, nominal = replace(nonlinear, terms=terms), again, found
        if step <= CLOSE:
            break
    return nonlinear, fitted


def _about(robot: RobotModel, terms: Terms, old: Nominal, new: Nominal, values: Mapping[str, float]) -> Terms:
    made: list[Term] = []
    for term in terms:
        if isinstance(term, NominalTerm) and term.inertia == old.inertia:
            term_now = replace(term, inertia=new.inertia, drives=new.drives if term.drives else ())
            made.append(term_now.near(robot, values))
        else:
            made.append(term)
    return Terms(tuple(made))


def _step(before: Fitted, after: Fitted) -> float:
    """Largest step of an effect that is linearised over its 95 % half width."""
    old, new = _effects(before), _effects(after)
    steps = [abs(new[name][0] - old[name][0]) / new[name][1] for name in new if name in old]
    return max((step for step in steps if np.isfinite(step)), default=0.0)


def _effects(fitted: Fitted) -> dict[str, tuple[float, float]]:
    """By name, value and half width of the linearised effects."""
    estimate = fitted.estimate
    own = {term.name for term in fitted.assembly.terms if term.linearised}
    return {
        estimate.columns[i].name: (float(value), float(half))
        for i, value, half in zip(
            estimate.base.independent, estimate.value, estimate.half_width(), strict=True
        )
        if estimate.columns[i].term in own
    }
