"""What parameters may be, whatever the data say: bounds, bodies that exist, and where unknown ones plausibly lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.feasible.balls import Balls
from dynid.feasible.bodies import NO_ROTORS, body_columns, plausible
from dynid.feasible.cones import Cone, violations
from dynid.feasible.constraints import Condition, Convex, DensityLimit, PhysicalBodies, all_conditions
from dynid.feasible.density import compactness
from dynid.feasible.half_spaces import HalfSpaces
from dynid.feasible.region import Region
from dynid.terms.term import Column

# By how much of its size a condition may be missed.
INSIDE = 1e-9


@dataclass(frozen=True, eq=False)
class Setting:
    """One for all programs that differ in their equations and in the strength of the prior alone.

    centre: (p,) the prior, plausible where it is unknown.    spread: (p,) > 0.
    compactness: of the density limit; 0 = none.    rotors: (nr,) indices of rotor inertias whose centre is known, > 0:
    bodies of one number, in the entropic and the geodesic distance as positive as links.
    margins: (nb,) least eigenvalue of each body's pseudo-inertia; None = 0.
    """

    columns: tuple[Column, ...]
    conditions: tuple[Condition, ...]
    centre: Float
    spread: Float
    compactness: float = 0.0
    rotors: Int = field(default_factory=NO_ROTORS.copy)
    margins: Float | None = None

    @staticmethod
    def of(
        columns: tuple[Column, ...],
        constraints: Sequence[Convex],
        prior: Float,
        spread: Float,
        rotors: Int | None = None,
    ) -> Setting:
        """prior: (p,), nan = unknown.    rotors: None = none whose inertia is known."""
        densest = min((c.densest for c in constraints if isinstance(c, DensityLimit)), default=np.inf)
        return Setting(
            columns,
            all_conditions(constraints, columns, spread),
            plausible(columns, prior, spread, densest),
            spread,
            compactness(densest),
            NO_ROTORS if rotors is None else rotors,
            _margins(columns, constraints),
        )

    @cached_property
    def margin(self) -> Float:
        """(nb,) least eigenvalue of each body's pseudo-inertia."""
        return np.zeros(len(self.bodies)) if self.margins is None else self.margins

    @cached_property
    def bodies(self) -> Int:
        """(nb, 10) columns of each."""
        return body_columns(self.columns)

    @cached_property
    def absent(self) -> Bool:
        """(p,) which parameters the robot lacks."""
        return np.array([column.absent for column in self.columns], dtype=np.bool_)

    @cached_property
    def lower(self) -> Float:
        """(p,) bounds of single parameters."""
        return np.array([column.lower for column in self.columns])

    @cached_property
    def upper(self) -> Float:
        """(p,) bounds of single parameters."""
        return np.array([column.upper for column in self.columns])

    @cached_property
    def region(self) -> Region:
        """Bounds of what belongs to no body, linear conditions, cones and margins; of what the robot lacks none."""
        free = self.absent.copy()
        free[self.bodies] = True
        lower, upper = np.where(free, -np.inf, self.lower), np.where(free, np.inf, self.upper)
        present = [condition for condition in self.conditions if self._present(condition)]
        sides = HalfSpaces.of(lower, upper, self.spread, present)
        return Region(sides, Balls.of(present, len(self.columns)), self.bodies, self.margin)

    def _present(self, condition: Condition) -> bool:
        return not condition.block.matrix[:, self.absent].any()

    def violated(self, theta: Float) -> bool:
        """Whether some condition is."""
        return any(
            (sizes * violations(cone, offsets + matrix @ theta) > INSIDE * sizes).any()
            for cone, matrix, offsets, sizes in self._stacked
        )

    @cached_property
    def _stacked(self) -> list[tuple[Cone, Float, Float, Float]]:
        # By cone and number of lines m the k conditions together: (k, m, p) and (k, m), and their sizes (k,).
        kinds: dict[tuple[Cone, int], list[Condition]] = {}
        for one in self.conditions:
            kinds.setdefault((one.block.cone, len(one.block.offset)), []).append(one)
        return [
            (
                cone,
                np.stack([one.block.matrix for one in like]),
                np.stack([one.block.offset for one in like]),
                np.array([one.size for one in like]),
            )
            for (cone, _), like in kinds.items()
        ]


def _margins(columns: tuple[Column, ...], constraints: Sequence[Convex]) -> Float:
    bodies = body_columns(columns)
    found = np.zeros(len(bodies))
    for constraint in constraints:
        if isinstance(constraint, PhysicalBodies):
            priors = [np.array([columns[k].prior for k in ten]) for ten in bodies]
            found = np.maximum(found, [constraint.of_body(prior) for prior in priors])
    return found
