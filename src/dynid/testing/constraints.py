"""What every convex constraint must do, as a suite to inherit from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError, fields, is_dataclass

import numpy as np

from dynid.feasible.catalogue import CATALOGUE, constraint_from_spec, constraint_to_spec
from dynid.feasible.cones import slack
from dynid.feasible.constraints import Condition, Convex
from dynid.robot.model import RobotModel
from dynid.terms.rigid_body import RigidBody
from dynid.testing.builders import random_robot


class ConstraintContract(ABC):
    """Laws of every convex constraint.

    Hooks: `constraint` (required); `robot` it is tried on.
    """

    @abstractmethod
    def constraint(self) -> Convex:
        """The constraint under test."""

    def robot(self) -> RobotModel:
        """A chain of three bodies."""
        return random_robot(1, 3, 0.0)

    def test_conditions_have_the_announced_form(self) -> None:
        """Each has a name and a finite block with one column a parameter."""
        found, p = self._conditions()
        _law(bool(found), "no condition")
        for one in found:
            _law(bool(one.name), "a condition needs a name: it appears where it is in conflict with others")
            _law(one.block.matrix.shape == (len(one.block.offset), p), f"a block {one.block.matrix.shape}")
            _law(bool(np.isfinite(one.block.matrix).all()), "a block with nan or inf")

    def test_it_is_convex(self) -> None:
        """Between two parameter vectors it holds as well as at the worse of them."""
        found, p = self._conditions()
        rng = np.random.default_rng(0)
        for one in found:
            for _ in range(20):
                a, b = rng.normal(0, 1, (2, p))
                ends = min(slack(one.block, a), slack(one.block, b))
                _law(slack(one.block, (a + b) / 2) >= ends - 1e-9, f"'{one.name}' is not convex")

    def test_it_is_frozen_and_survives_an_experiment(self) -> None:
        """Constraints are frozen dataclasses; a registered one comes back from plain data as it was."""
        one = self.constraint()
        _law(is_dataclass(one), "a constraint must be a dataclass")
        first = fields(one)[0].name  # type: ignore[arg-type]  # it is one
        try:
            setattr(one, first, getattr(one, first))
        except FrozenInstanceError:
            pass
        else:
            raise AssertionError("a constraint must be frozen")
        if type(one) in CATALOGUE.values():
            _law(constraint_from_spec(constraint_to_spec(one)) == one, "an experiment changes the constraint")

    def _conditions(self) -> tuple[list[Condition], int]:
        columns = RigidBody().columns(self.robot())
        return list(self.constraint().conditions(columns, np.ones(len(columns)))), len(columns)


def _law(holds: bool, broken: str) -> None:
    if not holds:
        raise AssertionError(broken)
