"""What is between motors and links: elastic joints, how rotors move."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass


class Coupling(StrEnum):
    """How rotors move: with the links that carry them, or as inertias that only spin (Spong 1987)."""

    FULL = "full"
    SIMPLIFIED = "simplified"


@dataclass(frozen=True, eq=False)
class Elasticity:
    """Springs between reflected motors and joints: tau = K (theta - q) + D (theta' - q').

    stiffness: K, (n,) N m/rad.    damping: D, (n,) N m s/rad.
    Raises UsageError unless stiffness is positive and finite, and damping neither negative nor infinite.
    """

    stiffness: Float
    damping: Float

    def __post_init__(self) -> None:
        n = len(self.stiffness)
        for name in ("stiffness", "damping"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))
        K, D = self.stiffness, self.damping
        if not (np.isfinite(K) & (K > 0)).all() or not (np.isfinite(D) & (D >= 0)).all():
            raise UsageError(
                "elasticity",
                found=f"stiffness {K.tolist()}, damping {D.tolist()}",
                expected="finite numbers, stiffness > 0, damping >= 0",
            )
