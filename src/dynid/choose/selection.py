"""Results of a choice among models, their texts and their plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dynid.base.diagnostics import Finding, Level
from dynid.base.records import dataclass
from dynid.base.units import with_interval
from dynid.terms.catalogue import question_words


@dataclass(frozen=True)
class Model:
    """One combination of options, one per axis.

    `parameters` counts columns and estimated shapes. `relative` is the r.m.s. held-out error over the r.m.s. torque,
    each joint weighted by its residual. `behind` is the excess of the held-out squared error over the best model's,
    relative to the latter; `behind_std` is its standard error over blocks, and `within` whether the excess is within
    one standard error or negligible.
    """

    options: tuple[str, ...]
    parameters: int
    relative: float
    behind: float
    behind_std: float
    within: bool


@dataclass(frozen=True)
class Ablation:
    """Gain of one option of the chosen model over another option.

    `gain` is the relative reduction of the held-out squared error (negative = increase), `gain_std` its standard error
    over blocks.
    """

    axis: str
    option: str
    other: str
    gain: float
    gain_std: float


@dataclass(frozen=True)
class JointForm:
    """A friction form that gains significantly on one joint.

    `gain` is the reduction of all joints' held-out squared error relative to plain friction, `gain_std` its standard
    error.
    """

    joint: str
    form: str
    gain: float
    gain_std: float


@dataclass(frozen=True)
class MeasurementEffect:
    """A quantity of the log rather than of the robot, estimated together with the chosen model.

    `half_width` is that of the 95 % interval, `adopted` whether the chosen model contains the effect, and `fault`
    whether it belongs to the log alone.
    """

    name: str
    kind: str
    joint: str
    unit: str
    value: float
    half_width: float
    adopted: bool
    fault: bool = True

    @property
    def significant(self) -> bool:
        """Whether its interval excludes zero."""
        return abs(self.value) > self.half_width


@dataclass(frozen=True)
class Selection:
    """Models compared on held-out blocks; the first of `models` is the one chosen by the one-standard-error rule.

    `axes` are the names of the options' axes; `models` continues with the best others, at most MOST in all; `compared`
    and `folds` are the numbers of compared models and of runs of blocks. `friction` lists the forms of the option "by
    joint", `ablations` the gain of each chosen option, and `measurement_effects` the effects of the log.
    """

    axes: tuple[str, ...]
    models: tuple[Model, ...]
    compared: int
    folds: int
    friction: tuple[JointForm, ...]
    ablations: tuple[Ablation, ...]
    measurement_effects: tuple[MeasurementEffect, ...]

    @property
    def chosen(self) -> Model:
        """The chosen model."""
        return self.models[0]


MOST = 40


# Messages about a choice among models.

_LOUD = {"s": (1e3, "ms"), "1": (1e2, "%"), "rad": (1e3, "mrad")}


def selection_findings(selection: Selection | None) -> list[Finding]:
    """One finding on the chosen model; none without a choice."""
    if selection is None:
        return []
    text = options_in_words(selection.axes, selection.chosen.options) + "."
    if selection.friction and "by joint" in selection.chosen.options:
        text += " Friction by joint: " + ", ".join(f"{f.joint} {f.form}" for f in selection.friction) + "."
    faults = [effect for effect in selection.measurement_effects if effect.adopted and effect.fault]
    if faults:
        text += " Also estimated: " + ", ".join(_in_words(effect) for effect in faults) + "."
    title = f"Model chosen among {selection.compared} on held-out blocks"
    return [Finding(Level.GOOD, "model-chosen", text, title=title)]


def effects_left_out(effects: Mapping[tuple[str, int], Sequence[tuple[str, float, float, str]]]) -> str:
    """Note on effects that were removed from the model; `effects` has name, value, half-width, unit per parameter."""
    parts = [
        f"{label.split('@')[0]} ({', '.join(_limits_in_words(*limits) for limits in parameters)})"
        for (label, _), parameters in effects.items()
    ]
    return (
        f"{', '.join(parts)}: improves the held-out error, but the interval in the final fit contains zero; not in the "
        "model"
    )


def _limits_in_words(name: str, value: float, half_width: float, unit: str) -> str:
    factor, unit = _LOUD.get(unit, (1.0, unit))
    return f"{name} = {with_interval(factor * value, factor * half_width)} {unit}"


def _in_words(effect: MeasurementEffect) -> str:
    factor, unit = _LOUD.get(effect.unit, (1.0, effect.unit))
    where = f" of {effect.joint}" if effect.joint else ""
    return f"{effect.kind}{where} {with_interval(factor * effect.value, factor * effect.half_width)} {unit}"


def options_in_words(axes: Sequence[str], options: Sequence[str]) -> str:
    """Describe the chosen option of every axis of the comparison."""
    return "; ".join(
        f"{question_words(axis)}: {'kept' if option == axis else option}"
        for axis, option in zip(axes, options, strict=True)
    )


# A choice among models as plain data, for the run folder.


def selection_to_dict(selection: Selection | None) -> dict[str, Any] | None:
    """Plain data; None for none."""
    return None if selection is None else asdict(selection)


def selection_from_dict(data: Mapping[str, Any] | None) -> Selection | None:
    """The selection from plain data."""
    if data is None:
        return None
    return Selection(
        axes=tuple(data["axes"]),
        models=tuple(
            Model(**{**m, "options": tuple(m["options"]), "relative": _number(m["relative"])})
            for m in data["models"]
        ),
        compared=int(data["compared"]),
        folds=int(data["folds"]),
        friction=tuple(JointForm(**entry) for entry in data["friction"]),
        ablations=tuple(Ablation(**entry) for entry in data["ablations"]),
        measurement_effects=tuple(
            MeasurementEffect(**{**entry, "half_width": _number(entry["half_width"])})
            for entry in data["measurement_effects"]
        ),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
