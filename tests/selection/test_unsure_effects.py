"""An effect of the log stays in a model only where its interval in the reported fit leaves zero out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.choose import Chosen, MeasurementEffect, choose_model, wide_model
from dynid.choose.search import Fitted
from dynid.estimate import MAP, WLS, Estimate
from dynid.run import Identification
from dynid.terms import Kind, Terms
from tests.selection.test_choice import PLAIN, chosen, truth, write

DELAY = 0.01


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("late") / "late.csv", PLAIN, truth(PLAIN), delay=DELAY)


def held(found: Identification) -> list[MeasurementEffect]:
    assert found.selection is not None
    return [one for one in found.selection.measurement_effects if one.adopted and one.fault]


def notes(found: Identification, code: str) -> list[str]:
    return [item.text for item in found.diagnostics.items if item.identifier == code]


def test_a_sure_effect_stays(late: Path) -> None:
    found = chosen(late)
    (delay,) = held(found)
    assert abs(delay.value - DELAY) < delay.half_width < DELAY
    assert not notes(found, "effects-left-out")


def test_an_unsure_effect_goes_and_the_run_says_so(late: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constraints that move an effect widen its interval, as here by decree."""
    half_width = Estimate.half_width

    def widened(self: Estimate) -> Float:
        late_ones = [self.columns[i].name.startswith("delay") for i in self.base.independent]
        return np.where(late_ones, 2 * DELAY, half_width(self))

    monkeypatch.setattr(Estimate, "half_width", widened)
    found = chosen(late)
    assert not held(found)
    assert not any(term.traits.kind is Kind.LOG for term in found.terms)
    (text,) = notes(found, "effects-left-out")
    assert "delay" in text
    assert len(notes(found, "model")) == 1


def test_the_choice_has_the_prior_of_the_final_fit(late: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths that the user sets serve from the first comparison on; a method without a prior has the default one."""
    priors: list[MAP] = []
    probable = wide_model.most_probable

    def noted(fitted: Fitted, prior: MAP) -> Estimate:
        priors.append(prior)
        return probable(fitted, prior)

    monkeypatch.setattr(choose_model, "most_probable", noted)
    for estimator, expected in ((MAP(mass=0.05), MAP(mass=0.05)), (WLS(), MAP())):
        priors.clear()
        chosen(late, estimator=estimator)
        assert set(priors) == {expected}


def test_only_added_effects_whose_intervals_all_hold_zero_go(late: Path) -> None:
    estimate = chosen(late).estimate
    names = [estimate.columns[i].name for i in estimate.base.independent]
    sure, unsure = np.zeros(len(names)), np.zeros(len(names))
    sure[:2], unsure[:2] = 2.0, (2.0, 0.5)
    asked: list[set[tuple[str, int]]] = []

    def again(labels: Collection[tuple[str, int]]) -> Chosen:
        asked.append(set(labels))
        return Chosen(Terms(()))

    with_both = {("both", 0): tuple(names[:2]), ("second", 1): (names[1],), ("nothing", 2): ()}
    model = Chosen(Terms(()), added=with_both, among_others=again)
    certain = replace(estimate, covariance=np.eye(len(names)) / estimate.quantile() ** 2)
    assert model.without_unsure(replace(certain, value=sure), Diagnostics()) is None
    assert model.without_unsure(replace(certain, value=unsure), Diagnostics()) is not None
    assert asked == [{("second", 1)}]
