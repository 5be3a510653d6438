"""Bounds of dynid excite from its options, and text as numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dynid.base.arrays import Float
    from dynid.excitation.capsules import Capsules
    from dynid.excitation.export import Format
    from dynid.excitation.limits import Bounds
    from dynid.robot.model import RobotModel
    from dynid.verbs.excite import Current

Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True)
class Given:
    """The bounds as the command line has them."""

    share: float
    velocity: str | None
    acceleration: str | None
    jerk: str | None
    torque: str | None
    lower: str | None
    upper: str | None
    payload: float
    floor: float | None
    box: str | None
    planes: Sequence[str]
    tool: str | None
    radius: str | None
    shapes: bool
    clearance: float


def bounds_of(model: RobotModel, file: Path, current: Current, given: Given) -> Bounds:
    """Limits of joints and torque, surroundings, capsules."""
    import numpy as np

    from dynid.excitation.limits import Bounds, MotionLimits, Workspace
    from dynid.excitation.quantities import loaded

    limits = MotionLimits.of(
        model,
        acceleration=numbers(given.acceleration, "--acceleration"),
        jerk=numbers(given.jerk, "--jerk"),
        share=given.share,
        velocity=numbers(given.velocity, "--velocity"),
        lower=numbers(given.lower, "--lower"),
        upper=numbers(given.upper, "--upper"),
        torque=numbers(given.torque, "--torque"),
    )
    tip = numbers(given.tool, "--tool", 3)
    corners = numbers(given.box, "--box", 6)
    capsules = _capsules(model, file, given, tip)
    theta = current.theta
    if theta is not None and given.payload > 0:
        tip_or_origin = np.zeros(3) if tip is None else tip
        theta = loaded(model, current.information.terms, theta, given.payload, tip_or_origin)
    planes = [required(text, "--plane", 4) for text in given.planes]
    space = Workspace.of(
        model, given.floor, None if corners is None else corners.reshape(2, 3), tip, capsules, planes
    )
    spread = None if theta is None else current.spread
    return Bounds(limits, theta, current.share, space, capsules, given.clearance, spread)


def _capsules(model: RobotModel, file: Path, given: Given, tip: Float | None) -> Capsules | None:
    from dynid.base.errors import UsageError
    from dynid.excitation.capsules import link_capsules
    from dynid.excitation.shapes import shape_capsules

    if given.shapes and given.radius is not None:
        raise UsageError("capsules", found="--shapes and --radius", expected="one of them")
    if given.shapes:
        return shape_capsules(model, file, given.clearance)
    radius = numbers(given.radius, "--radius")
    return None if radius is None else link_capsules(model, radius, tip, given.clearance)


def formats(names: Sequence[str] | None) -> tuple[Format, ...]:
    """Formats of the motion; CSV where none is named."""
    from dynid.excitation.export import Format

    return tuple(word(name, Format, "format") for name in (names or ["csv"]))


def check_formats(
    forms: Sequence[Format], model: RobotModel, family: str, rate: float, seconds: float
) -> None:
    """Raises UsageError for a format that cannot hold the arm or a rate out of range, before anything is computed."""
    from dynid.excitation.export import times

    times(seconds, rate)
    for one in forms:
        one.check(model.joint_names, family == "torque-sines")


def word(text: str, kind: type[Word], what: str) -> Word:
    """The member of an enumeration; raises UsageError that lists them."""
    from dynid.base.errors import UsageError

    try:
        return kind(text)
    except ValueError as error:
        known = ", ".join(kind)
        raise UsageError(what, found=f"{what} '{text}'", expected=f"one of {known}") from error


def numbers(text: str | None, option: str, count: int | None = None) -> Float | None:
    """Numbers with commas between; raises UsageError for other text or another count."""
    return None if text is None else required(text, option, count)


def required(text: str, option: str, count: int | None = None) -> Float:
    """The same where the option has a default."""
    import numpy as np

    from dynid.base.errors import UsageError

    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        values = np.zeros(0)
    if not len(values) or not np.isfinite(values).all() or (count is not None and len(values) != count):
        expected = "numbers with commas between" if count is None else f"{count} numbers with commas between"
        raise UsageError("option-numbers", found=f"{option} '{text}'", expected=expected)
    return values
