"""Names of the constraints in experiment files; a new one is registered here with one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from dynid.base.errors import UsageError
from dynid.base.registry import Registry, kind_from_spec, kind_to_spec
from dynid.feasible.constraints import (
    BodyMass,
    CentreCone,
    CentreHalfSpaces,
    Convex,
    DensityLimit,
    InsideEllipsoid,
    InsideHull,
    TotalMass,
)

CATALOGUE: Registry[type[Any]] = Registry(
    "constraint",
    "dynid.constraints",
    {
        "total_mass": TotalMass,
        "body_mass": BodyMass,
        "centre_half_spaces": CentreHalfSpaces,
        "centre_cone": CentreCone,
        "density": DensityLimit,
        "inside_ellipsoid": InsideEllipsoid,
        "inside_hull": InsideHull,
    },
)
# Rules of plug-ins for `dynid retrieve --rule`: functions of the links, >= 0 where fulfilled.
RULES: Registry[Callable[[Any], float]] = Registry("rule", "dynid.rules", {})


def constraint_from_spec(spec: str | Mapping[str, Any]) -> Convex:
    """Read a constraint from its name or a table {constraint = name, option = value}.

    Raises InputError for an unknown constraint, or an unknown or missing option.
    """
    return cast(Convex, kind_from_spec(spec, "constraint", CATALOGUE))


def constraint_to_spec(constraint: Convex) -> dict[str, Any]:
    """Plain data of a constraint, {"constraint": name, option: value}; raises UsageError if it is not registered."""
    name = next((name for name, kind in CATALOGUE.items() if kind is type(constraint)), "")
    if not name:
        raise UsageError(
            "constraint-unnamed",
            found=f"a constraint of the class {type(constraint).__name__}, which has no name",
            expected="a registered constraint",
            do="register it: dynid.feasible.catalogue.CATALOGUE.register(name, class)",
        )
    return kind_to_spec(constraint, "constraint", name)
