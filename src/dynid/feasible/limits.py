"""What is known of one body, as plain data: the form in which experiment files and run folders hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynid.errors import UsageError
from dynid.feasible.constraints import BodyMass, CentreHalfSpaces, Convex, InsideEllipsoid

KEYS = ("body", "mass", "centre_lower", "centre_upper", "hull", "ellipsoid_centre", "ellipsoid_semi_axes")


def limits_of_body(entry: Mapping[str, Any]) -> Sequence[Convex]:
    """Constraints of one entry.

    body: number from 1.    mass: window, kg.    centre_lower, centre_upper: box of the centre of mass, m.
    hull: points (k, 3) around the centre of mass, m.    ellipsoid_semi_axes, ellipsoid_centre: m, around the body;
    the centre is the joint frame's origin where it is not given.
    Raises UsageError for an unknown key, a missing body or semi-axes that are not positive.
    """
    unknown = sorted(set(entry) - set(KEYS))
    if unknown or "body" not in entry:
        raise UsageError(
            "body-limits",
            found=f"keys {', '.join(sorted(entry)) or 'none'}",
            expected="body and some of " + ", ".join(KEYS[1:]),
        )
    body = int(entry["body"])
    found: list[Convex] = []
    if entry.get("mass") is not None:
        lower, upper = entry["mass"]
        found.append(BodyMass(body, float(lower), float(upper)))
    low, high = entry.get("centre_lower"), entry.get("centre_upper")
    if low is not None or high is not None:
        found.append(CentreHalfSpaces.box(body, _three(low, -np.inf), _three(high, np.inf)))
    if entry.get("hull") is not None:
        found.append(CentreHalfSpaces.hull(body, np.array(entry["hull"], dtype=np.float64).reshape(-1, 3)))
    axes = entry.get("ellipsoid_semi_axes")
    if axes is not None:
        semi = _three(axes, np.nan)
        if not min(semi) > 0:
            raise UsageError("ellipsoid", found=f"semi-axes {list(semi)}", expected="three lengths > 0")
        found.append(InsideEllipsoid(body, _three(entry.get("ellipsoid_centre"), 0.0), semi))
    return found


def _three(values: Sequence[float] | None, missing: float) -> tuple[float, float, float]:
    if values is None:
        return missing, missing, missing
    x, y, z = (float(v) for v in values)
    return x, y, z
