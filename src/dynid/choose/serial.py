"""A choice among models as plain data, for the run folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dynid.choose.selection import Ablation, JointForm, MeasurementEffect, Model, Selection


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
