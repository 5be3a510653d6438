"""What all TOML descriptions share: findings with their lines, inertias, limits, friction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, InputErrors, Place
from dynid.base.toml_file import Key, Lines, line_of
from dynid.robot.link_checks import AS_PRIOR, NOT_NEGATIVE, inertia_problem, slightly_impossible
from dynid.robot.model import JointType, Limits
from dynid.robot.toml_schema import Description, Inertial
from dynid.spatial.algebra import placement, rotation_rpy
from dynid.spatial.inertia import from_com, six, symmetric, to_com, transformed


class Findings:
    """Errors and warnings about one TOML file, each at the line of its key."""

    def __init__(self, path: Path, lines: Lines, diagnostics: Diagnostics) -> None:
        self.path, self.lines, self.diagnostics = path, lines, diagnostics
        self.errors: list[DynidError] = []

    def place(self, *key: Key) -> Place:
        """File and line of a key, or of the nearest table around it."""
        return Place(file=str(self.path), line=line_of(key, self.lines) or 1)

    def fail(self, identifier: str, found: str, expected: str, *key: Key, do: str = "") -> None:
        """Notes an error."""
        self.errors.append(
            InputError(identifier, found=found, expected=expected, do=do, place=self.place(*key))
        )

    def warn(self, identifier: str, text: str, *key: Key) -> None:
        """Passes a warning on."""
        self.diagnostics.warn(identifier, text, self.place(*key))

    def stop(self) -> None:
        """Raises InputErrors if there are errors."""
        if self.errors:
            raise InputErrors(self.errors)


def angle(description: Description) -> float:
    """Radians in one unit of the file's angles."""
    return math.pi / 180.0 if description.angle_unit == "deg" else 1.0


def base_placement(description: Description) -> Float:
    """Placement (4, 4) of the robot's base in the world."""
    base = description.base
    return placement(rotation_rpy(np.array(base.rpy) * angle(description)), np.array(base.xyz))


def parameters(inertial: Inertial, who: str, findings: Findings, *key: Key) -> Float:
    """Ten inertial parameters about the frame that the inertial is given in."""
    e = inertial.inertia
    matrix = symmetric(np.array([e.xx, e.xy, e.yy, e.xz, e.yz, e.zz]))
    if inertial.about == "com":
        pi = from_com(inertial.mass, np.array(inertial.com), matrix)
    else:
        pi = np.concatenate([[inertial.mass], inertial.mass * np.array(inertial.com), six(matrix)])
        matrix = to_com(pi)[2]
    problem = inertia_problem(matrix)
    if problem is not None and problem[0] == "inertia-not-psd" and not slightly_impossible(pi):
        findings.fail(problem[0], f"{who}: {problem[1]} about the centre of mass", NOT_NEGATIVE, *key)
    elif problem is not None:
        findings.warn(problem[0], f"{who}: {problem[1]}; {AS_PRIOR}", *key)
    return pi


def bolted(
    description: Description,
    names: Sequence[str],
    bodies: Sequence[str],
    frames: Sequence[Float],
    findings: Findings,
) -> tuple[Float, list[list[str]]]:
    """What the [[fixed]] parts add to each body: parameters (nb, 10) about its joint frame, and their names.

    frames: where the frame that the parts refer to is in each joint frame, (4, 4).
    """
    added = np.zeros((len(names), 10))
    parts: list[list[str]] = [[] for _ in names]
    for k, part in enumerate(description.fixed):
        if part.on not in names and part.on not in bodies:
            found = f"part '{part.name}' on '{part.on}'"
            findings.fail("unknown-body", found, "one of " + ", ".join(names), "fixed", k, "on")
            continue
        i = list(names).index(part.on) if part.on in names else list(bodies).index(part.on)
        own = parameters(part.inertial, f"part '{part.name}'", findings, "fixed", k, "inertial")
        rotation = rotation_rpy(np.array(part.rpy) * angle(description))
        added[i] += transformed(own, frames[i] @ placement(rotation, np.array(part.xyz)))
        parts[i].append(part.name)
    return added, parts


def limits(
    description: Description,
    names: Sequence[str],
    kinds: Sequence[JointType],
    known: Limits,
    findings: Findings,
) -> Limits:
    """The known limits (n,) with those of the description put over them."""
    values = {key: np.array(getattr(known, key)) for key in ("lower", "upper", "velocity", "effort")}
    for i, joint in enumerate(description.joint):
        if joint.name not in names:
            continue
        j = list(names).index(joint.name)
        unit = 1.0 if kinds[j] is JointType.PRISMATIC else angle(description)
        for key, column in values.items():
            given = getattr(joint, key)
            if given is not None:
                column[j] = given * (1.0 if key == "effort" else unit)
        low, high = values["lower"][j], values["upper"][j]
        if low > high:
            found = f"joint '{joint.name}': lower {low / unit:g} > upper {high / unit:g}"
            findings.fail("limits-swapped", found, "lower <= upper", "joint", i, "lower")
    return Limits(**values)


def friction(description: Description, names: Sequence[str], known: Float) -> Float:
    """The known friction coefficients (n, 2) with those of the description put over them."""
    values = np.array(known)
    for joint in description.joint:
        if joint.friction is None or joint.name not in names:
            continue
        for column, given in enumerate((joint.friction.viscous, joint.friction.coulomb)):
            if given is not None:
                values[list(names).index(joint.name), column] = given
    return values
