"""A robot's dynamics with known parameters: inverse and forward dynamics, kinematics, energy, derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.dynamics.model import Dynamics as Dynamics
    from dynid.dynamics.observer import Thresholds as Thresholds

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "model": "Dynamics",
        "observer": "Thresholds",
    },
)
