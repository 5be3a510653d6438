"""The model by evidence: candidates compared on held-out blocks, nonlinear parameters by variable projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.choose.choose_model import Chosen as Chosen
    from dynid.choose.search import ShapeEstimate as ShapeEstimate
    from dynid.choose.selection import MeasurementEffect as MeasurementEffect
    from dynid.choose.selection import Model as Model
    from dynid.choose.selection import Selection as Selection

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "choose_model": "Chosen",
        "search": "ShapeEstimate",
        "selection": "MeasurementEffect Model Selection",
    },
)
