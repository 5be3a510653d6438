"""A constraint: one body weighs at least as much as another."""

from dataclasses import dataclass

import numpy as np

from dynid.feasible.cones import Block, Cone
from dynid.feasible.constraints import Condition, ten_of


@dataclass(frozen=True)
class AtLeastAsHeavy:
    """Mass of body a >= mass of body b."""

    a: int
    b: int

    def conditions(self, columns, spread):
        row = np.zeros((1, len(columns)))
        row[0, ten_of(columns, self.a)[0]], row[0, ten_of(columns, self.b)[0]] = 1.0, -1.0
        block = Block(Cone.POSITIVE, row, np.zeros(1))
        return [Condition(f"body {self.a} as heavy as {self.b}", block, "kg")]
