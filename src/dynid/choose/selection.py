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
    """One combination of options, one an axis.

    parameters: columns of the model, and one for every shape that was estimated.
    relative: held-out error over torque, both RMS, every joint weighted by its own residual.
    behind: held-out squared error in excess of the best model's, as a share of the latter.
    behind_std: its standard error over blocks.    within: whether the excess is within one standard error,
    or too small to matter.
    """

    options: tuple[str, ...]
    parameters: int
    relative: float
    behind: float
    behind_std: float
    within: bool


@dataclass(frozen=True)
class Ablation:
    """What one option of the chosen model is worth: the chosen model against the same with another option.

    gain: held-out squared error less than with the other option, as a share of the latter; negative = more.
    gain_std: its standard error over blocks.
    """

    axis: str
    option: str
    other: str
    gain: float
    gain_std: float


@dataclass(frozen=True)
class JointForm:
    """A form of friction that earned its place on one joint.

    gain: held-out squared error of all joints less than with plain friction, as a share of the latter.
    gain_std: its standard error over blocks.
    """

    joint: str
    form: str
    gain: float
    gain_std: float


@dataclass(frozen=True)
class MeasurementEffect:
    """A quantity of the log rather than of the robot, estimated beside the chosen model.

    half_width: of the 95 % interval.    adopted: whether the chosen model contains it.
    fault: whether it is the log's alone, which no robot has.
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
        """Whether its interval leaves out zero."""
        return abs(self.value) > self.half_width


@dataclass(frozen=True)
class Selection:
    """Models compared on held-out blocks, the one chosen by the rule of one standard error first among `models`.

    axes: names of the options' axes.    models: the chosen one, then the others from the best on, at most MOST.
    compared: how many were compared.    folds: into how many runs of blocks the log was cut.
    friction: what "by joint" stands for.    ablations: what each chosen option gains.
    measurement_effects: what the log adds to the robot.
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


# What a choice among models says, in plain words.

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


def _in_words(one: MeasurementEffect) -> str:
    factor, unit = _LOUD.get(one.unit, (1.0, one.unit))
    where = f" of {one.joint}" if one.joint else ""
    return f"{one.kind}{where} {with_interval(factor * one.value, factor * one.half_width)} {unit}"


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
    """Back from plain data."""
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
