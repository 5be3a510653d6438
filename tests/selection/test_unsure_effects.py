"""An effect of the log stays in a model only where its interval in the reported fit leaves zero out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dynid.base import Diagnostics
from dynid.choose import Chosen, MeasurementEffect, Selection
from dynid.estimate import Estimate
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
    as_estimated = Chosen.as_estimated

    def widened(self: Chosen, estimate: Estimate) -> Chosen:
        found = as_estimated(self, estimate)
        assert found.selection is not None
        wide = tuple(replace(one, half_width=2 * DELAY) for one in found.selection.measurement_effects)
        return replace(found, selection=replace(found.selection, measurement_effects=wide))

    monkeypatch.setattr(Chosen, "as_estimated", widened)
    found = chosen(late)
    assert not held(found)
    assert not any(term.traits.kind is Kind.LOG for term in found.terms)
    (text,) = notes(found, "effects-left-out")
    assert "delay" in text
    assert len(notes(found, "model")) == 1


def effect(kind: str, joint: str, value: float, half: float, **of: bool) -> MeasurementEffect:
    options = {"adopted": True, "fault": True} | of
    return MeasurementEffect(f"{kind}{joint}{value}", kind, joint, "1", value, half, **options)


@pytest.mark.parametrize(
    ("effects", "gone"),
    [
        ((effect("gain", "j1", 0.4, 1.0), effect("gain", "j2", 0.4, 0.1)), {("gain", "j1")}),
        # A lean about one axis is a lean.
        ((effect("tilt", "", 0.01, 0.02), effect("tilt", "", 0.1, 0.02)), None),
        ((effect("tilt", "", 0.01, 0.02), effect("tilt", "", 0.01, 0.03)), {("tilt", "")}),
        (
            (effect("gain", "j1", 0.4, 1.0, adopted=False), effect("offset", "j1", 0.4, 1.0, fault=False)),
            None,
        ),
    ],
)
def test_only_effects_of_the_log_in_the_model_whose_intervals_hold_zero_go(
    effects: tuple[MeasurementEffect, ...], gone: set[tuple[str, str]] | None
) -> None:
    asked: list[set[tuple[str, str]]] = []

    def again(places: object) -> Chosen:
        asked.append(set(places))  # type: ignore[call-overload]
        return Chosen(Terms(()))

    selection = Selection((), (), 0, 5, (), (), effects)
    model = Chosen(Terms(()), selection=selection, among_others=again)
    found = model.without_unsure(Diagnostics())
    assert (found is None) == (gone is None)
    assert asked == ([] if gone is None else [gone])
