"""Every constraint that an experiment may name keeps the laws of constraints."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.feasible import (
    CATALOGUE,
    BodyMass,
    CentreCone,
    CentreHalfSpaces,
    Convex,
    DensityLimit,
    InsideEllipsoid,
    InsideHull,
    TotalMass,
)
from dynid.terms import RigidBody
from dynid.testing import ConstraintContract, random_robot

EYE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
EXAMPLES: tuple[Convex, ...] = (
    TotalMass(1.0, 9.0),
    BodyMass(2, 0.5, 3.0),
    DensityLimit(30.0),
    CentreHalfSpaces(1, EYE, (0.3, 0.2, 0.1)),
    CentreCone(1, EYE[:2], (0.0, 0.0), (0.0, 0.0, 0.5), 0.1),
    InsideEllipsoid(1, (0.1, 0.0, 0.0), (0.4, 0.3, 0.2)),
    InsideHull(1, ((0.0, 0.0, 0.0), *EYE)),
)


@pytest.fixture(params=EXAMPLES, ids=lambda one: type(one).__name__, autouse=True)
def each(request: pytest.FixtureRequest) -> None:
    """One of the examples."""
    TestConstraints.one = request.param


class TestConstraints(ConstraintContract):
    one: Convex = EXAMPLES[0]

    def constraint(self) -> Convex:
        return self.one


@pytest.mark.parametrize("unit", ["kg", "kg m"])
def test_a_condition_is_as_large_as_parameters_of_its_own_unit(unit: str) -> None:
    """Violations are compared in units of what is typical: of a mass where they are masses, whatever the rest is."""
    columns = RigidBody().columns(random_robot(1, 3, 0.0))
    larger = np.where([column.unit == unit for column in columns], 7.0, 1.0)
    for one in EXAMPLES:
        plain, grown = (one.conditions(columns, spread) for spread in (np.ones(len(columns)), larger))
        for before, after in zip(plain, grown, strict=True):
            if before.unit in ("kg", "kg m"):
                assert after.size == pytest.approx(before.size * (7.0 if before.unit == unit else 1.0))


def test_a_centre_of_mass_misses_a_plane_by_its_distance_times_the_mass() -> None:
    """In kg m, in whatever typical sizes the parameters are scaled."""
    columns = RigidBody().columns(random_robot(1, 3, 0.0))
    theta, centre, rng = np.zeros(len(columns)), np.array([0.4, -0.1, 0.3]), np.random.default_rng(0)
    theta[10:14] = 2.0 * np.array([1.0, *centre])
    beyond = CentreHalfSpaces(2, (*EYE, (0.0, -1.0, 0.0)), (0.3, 0.2, 0.1, 0.05))
    for _ in range(3):
        found = beyond.conditions(columns, rng.uniform(0.2, 5.0, len(columns)))
        np.testing.assert_allclose([one.violation(theta) for one in found], [0.2, 0.0, 0.4, 0.1], atol=1e-12)


def test_every_named_constraint_is_tested_here() -> None:
    assert {type(one) for one in EXAMPLES} == set(CATALOGUE.values())
