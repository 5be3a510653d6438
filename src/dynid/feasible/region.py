"""Where parameters may be, as functions that Newton's method follows: half-spaces, cones, least bodies."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.feasible.balls import Balls
from dynid.feasible.half_spaces import HalfSpaces
from dynid.spatial.inertia import eigenvalues


@dataclass(frozen=True, eq=False)
class Region:
    """All of half-spaces, second-order cones, and pseudo-inertias P >= margin of bodies.

    bodies: (nb, 10) columns of each.    margin: (nb,) least eigenvalue, kg m^2 and kg; 0 = none but that of existing.
    """

    sides: HalfSpaces
    balls: Balls
    bodies: Int
    margin: Float

    @cached_property
    def bounded(self) -> Int:
        """Which bodies have a margin, (nm,)."""
        return np.flatnonzero(self.margin > 0)

    def curved_inside(self, theta: Float) -> bool:
        """Whether parameters (p,) are within what is no half-space."""
        return bool((self.balls.room(theta) >= 0.0).all()) and all(
            float(eigenvalues(theta[self.bodies[body]])[0]) >= self.margin[body] for body in self.bounded
        )
