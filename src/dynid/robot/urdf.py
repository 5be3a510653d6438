"""URDF: reads and checks links and joints."""

from __future__ import annotations

import math
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError
from dynid.base.records import dataclass
from dynid.robot.formats import RobotFile
from dynid.robot.links import (
    MOVING,
    Link,
    LinkInertial,
    LinkJoint,
    LinkTree,
    Mimic,
    check_size,
    checked_tree,
    model_of_links,
)
from dynid.robot.meshes import note_absent_meshes
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading
from dynid.robot.xml import Element, number, numbers
from dynid.spatial.algebra import placement, rotation_rpy
from dynid.spatial.inertia import from_com, symmetric, transformed

# Links and joints of a URDF, read number by number; errors are collected with their lines.

_TYPES = (*MOVING, "fixed", "floating", "planar")
_ZERO = (0.0, 0.0, 0.0)


def read_links(robot: Element, errors: list[DynidError]) -> dict[str, Link]:
    """Read the links by name; append errors."""
    links: dict[str, Link] = {}
    for element in robot.all("link"):
        name = _name(element, errors)
        if name in links:
            errors.append(duplicate("link", name, links[name].element, element))
            continue
        links[name] = Link(name, element, _inertial(name, element, errors))
    return links


# Name of the fixed world, which some programs know without a <link>.
WORLD = "world"


def with_world(
    links: dict[str, Link], joints: dict[str, LinkJoint], diagnostics: Diagnostics
) -> dict[str, Link]:
    """Add a link for the world if joints have it as parent and no <link> declares it."""
    on_world = [joint for joint in joints.values() if joint.parent == WORLD]
    if WORLD in links or not on_world:
        return links
    first = on_world[0]
    diagnostics.warn(
        "world-link",
        f"joint '{first.name}' has the parent '{WORLD}', which no <link> declares. It is read as the fixed world; "
        f'other programs may need <link name="{WORLD}"/>',
        first.element.place,
    )
    return {WORLD: Link(WORLD, first.element, None), **links}


def read_joints(robot: Element, errors: list[DynidError], diagnostics: Diagnostics) -> dict[str, LinkJoint]:
    """Read the joints by name; leave out those that cannot be understood and append errors."""
    joints: dict[str, LinkJoint] = {}
    seen: dict[str, Element] = {}
    for element in robot.all("joint"):
        name = _name(element, errors)
        if name in seen:
            errors.append(duplicate("joint", name, seen[name], element))
            continue
        seen[name] = element
        joint = _joint(name, element, errors, diagnostics)
        if joint is not None:
            joints[name] = joint
    return joints


def duplicate(kind: str, name: str, first: Element, second: Element) -> InputError:
    """Return the error for two elements with the same name.

    Parameters
    ----------
    kind : str
        "link", "joint" or "body".
    name : str
        The name.
    first, second : Element
        The elements, for their lines.

    Returns
    -------
    InputError

    """
    lines = f"lines {first.line} and {second.line}"
    if first.file != second.file:
        lines = f"'{first.place}' and '{second.place}'"
    return InputError(
        f"duplicate-{kind}",
        found=f"two {kind}s '{name}', in {lines}",
        expected="unique names",
        place=second.place,
    )


def _name(element: Element, errors: list[DynidError]) -> str:
    name = element.attributes.get("name", "")
    if not name:
        problem = f"a <{element.tag}> without a name"
        errors.append(InputError("no-name", found=problem, expected="a name", place=element.place))
    return name


def _inertial(link: str, element: Element, errors: list[DynidError]) -> LinkInertial | None:
    inertial = element.find("inertial")
    if inertial is None:
        return None
    subject = f"link '{link}'"
    before = len(errors)
    frame = _origin(inertial, subject, errors)
    mass = inertial.find("mass")
    if mass is None or "value" not in mass.attributes:
        problem = f"{subject} with an <inertial> without mass"
        errors.append(InputError("no-mass", found=problem, expected="<mass value>", place=inertial.place))
        return None
    value = number(mass, "value", errors, subject=subject)
    if value < 0:
        problem = f"{subject} with mass {value:g} kg"
        errors.append(InputError("negative-mass", found=problem, expected="a mass > 0", place=mass.place))
    six = [0.0] * 6
    if (inertia := inertial.find("inertia")) is not None:
        six = [
            number(inertia, key, errors, 0.0, subject) for key in ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
        ]
    if len(errors) > before:
        return None
    matrix = symmetric(np.array(six))
    return LinkInertial(value, matrix, transformed(from_com(value, np.zeros(3), matrix), frame))


def _origin(element: Element, subject: str, errors: list[DynidError]) -> Float:
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    rpy = numbers(origin, "rpy", 3, errors, _ZERO, subject)
    return placement(rotation_rpy(np.array(rpy)), np.array(numbers(origin, "xyz", 3, errors, _ZERO, subject)))


def _joint(
    name: str, element: Element, errors: list[DynidError], diagnostics: Diagnostics
) -> LinkJoint | None:
    kind = element.attributes.get("type", "")
    subject = f"joint '{name}'"
    if kind not in _TYPES:
        errors.append(_unknown_type(kind, subject, element))
        return None
    parent, child = (_end_link(element, tag) for tag in ("parent", "child"))
    if parent is None or child is None:
        missing = "parent" if parent is None else "child"
        problem = f"{subject} without <{missing} link>"
        errors.append(InputError("joint-ends", found=problem, expected="both links", place=element.place))
        return None
    lower, upper, velocity, effort = _limits(element, kind, subject, errors, diagnostics)
    dynamics = element.find("dynamics")
    damping, friction = (
        math.nan if dynamics is None else number(dynamics, key, errors, math.nan, subject)
        for key in ("damping", "friction")
    )
    return LinkJoint(
        name=name,
        element=element,
        kind=kind,
        parent=parent,
        child=child,
        placement=_origin(element, subject, errors),
        axis=_axis(element, kind, subject, errors, diagnostics),
        lower=lower,
        upper=upper,
        velocity=velocity,
        effort=effort,
        damping=damping,
        friction=friction,
        mimic=_mimic(element, subject, errors) if kind in MOVING else None,
    )


def _unknown_type(kind: str, subject: str, element: Element) -> InputError:
    near = get_close_matches(kind, _TYPES, n=1, cutoff=0.4)
    return InputError(
        "joint-type",
        found=f"{subject} of type '{kind}'",
        expected="one of " + ", ".join(_TYPES),
        do=f"did you mean '{near[0]}'?" if near else "",
        place=element.place,
    )


def _end_link(element: Element, tag: str) -> str | None:
    end = element.find(tag)
    return None if end is None else end.attributes.get("link")


def _axis(
    joint: Element, kind: str, subject: str, errors: list[DynidError], diagnostics: Diagnostics
) -> Float:
    element = joint.find("axis")
    x = np.array([1.0, 0.0, 0.0])
    if element is None or kind not in MOVING:
        return x
    axis = np.array(numbers(element, "xyz", 3, errors, (1.0, 0.0, 0.0), subject))
    return unit_axis(axis, element, subject, errors, diagnostics)


def unit_axis(
    axis: Float, element: Element, subject: str, errors: list[DynidError], diagnostics: Diagnostics
) -> Float:
    """Normalise an axis; warn if its length is not 1 and append an error if it is zero.

    Parameters
    ----------
    axis : ndarray, shape (3,)
        Axis in the file.
    element : Element
        For the place in messages.
    subject : str
        The joint, for messages.
    errors : list of DynidError
        Receives the error.
    diagnostics : Diagnostics
        Receives the warning.

    Returns
    -------
    ndarray, shape (3,)
        Unit vector; the axis as it is after an error.

    """
    length = float(np.linalg.norm(axis))
    if math.isnan(length):
        return axis
    if length < 1e-9:
        problem = f"{subject} with an axis of length zero"
        errors.append(InputError("zero-axis", found=problem, expected="a direction", place=element.place))
        return axis
    if abs(length - 1.0) > 1e-6:
        text = f"{subject} has an axis of length {length:.6g}, which is normalised"
        diagnostics.warn("axis-length", text, element.place)
    return axis / length


def _limits(
    joint: Element, kind: str, subject: str, errors: list[DynidError], diagnostics: Diagnostics
) -> tuple[float, float, float, float]:
    limit = joint.find("limit")
    if limit is None or kind not in MOVING:
        if kind in ("revolute", "prismatic"):
            diagnostics.warn("limit-missing", f"{subject} has no <limit> and is unlimited", joint.place)
        return -math.inf, math.inf, math.inf, math.inf
    velocity, effort = (_magnitude(limit, key, subject, errors) for key in ("velocity", "effort"))
    if kind == "continuous":
        return -math.inf, math.inf, velocity, effort
    if "lower" not in limit.attributes and "upper" not in limit.attributes:
        # The format's default for both is 0, which would lock the joint.
        diagnostics.warn(
            "limit-missing", f"{subject} has no lower and upper limit and is unlimited", limit.place
        )
        return -math.inf, math.inf, velocity, effort
    lower, upper = (
        side * math.inf if _unbounded(limit, key, sign) else number(limit, key, errors, 0.0, subject)
        for key, side, sign in (("lower", -1, "-"), ("upper", 1, ""))
    )
    if lower > upper:
        problem = f"{subject} with lower limit {lower:g} > upper limit {upper:g}"
        errors.append(
            InputError("limits-swapped", found=problem, expected="lower <= upper", place=limit.place)
        )
    return lower, upper, velocity, effort


def _unbounded(limit: Element, key: str, sign: str = "") -> bool:
    """Whether a limit is infinite with the given sign."""
    return limit.attributes.get(key, "").strip().lower().lstrip("+") in (
        f"{sign}inf",
        f"{sign}infinity",
        f"{sign}.inf",
    )


def _magnitude(limit: Element, key: str, subject: str, errors: list[DynidError]) -> float:
    if _unbounded(limit, key):
        return math.inf
    value = number(limit, key, errors, math.inf, subject)
    if value < 0:
        problem = f"{subject} with limit {key} = {value:g}"
        errors.append(
            InputError(
                "negative-limit",
                found=problem,
                expected="a number > 0, or 0 for no limit",
                do="write its magnitude, which applies to both directions",
                place=limit.place,
            )
        )
    # Exporters write 0 for an unknown limit.
    return value if value > 0 else math.inf


def _mimic(joint: Element, subject: str, errors: list[DynidError]) -> Mimic | None:
    element = joint.find("mimic")
    if element is None:
        return None
    return Mimic(
        element.attributes.get("joint", ""),
        number(element, "multiplier", errors, 1.0, subject),
        number(element, "offset", errors, 0.0, subject),
    )


def read_urdf(robot: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """Read the robot of a <robot> element, with gravity 9.81 m/s^2 along -z of the root link.

    Parameters
    ----------
    robot : Element
        The <robot> element.
    path : Path
        Of the file.
    reading : Reading
        Root link, locked joints and folders of packages.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    RobotModel

    Raises
    ------
    RefusedError
        For robots over the size budget.
    InputErrors
        With all errors.

    """
    return model_of_links(lint(robot, path.parent, reading, diagnostics), str(path))


def lint(robot: Element, folder: Path, reading: Reading, diagnostics: Diagnostics) -> LinkTree:
    """Read and check the links and joints of a <robot> element.

    Parameters
    ----------
    robot : Element
        The <robot> element.
    folder : Path
        Of the file.
    reading : Reading
        Its root selects one of several trees.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    LinkTree

    Raises
    ------
    RefusedError
        For robots over the size budget.
    InputErrors
        With all errors.

    """
    check_size(robot, len(robot.all("link")))
    named = [
        (element.attributes["filename"], element)
        for element in robot.walk()
        if element.tag in ("mesh", "texture") and element.attributes.get("filename")
    ]
    note_absent_meshes(named, folder, diagnostics, reading.packages)
    errors: list[DynidError] = []
    links = read_links(robot, errors)
    joints = read_joints(robot, errors, diagnostics)
    links = with_world(links, joints, diagnostics)
    name = robot.attributes.get("name", "")
    return checked_tree(name, robot, links, joints, reading, errors, diagnostics)


@dataclass(frozen=True)
class UrdfFormat:
    """URDF, recognised by its root element <robot>."""

    name: str = "URDF"

    def knows(self, file: RobotFile) -> bool:
        """Whether the root element is <robot>."""
        return file.tag == "robot"

    def read(self, file: RobotFile) -> RobotModel:
        """Read the robot; raises as `read_urdf`."""
        return read_urdf(file.root, file.path, file.reading, file.diagnostics)
