"""URDF checked before anything is built from it: every independent error at once, each with its line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from dynid.arrays import Float
from dynid.diagnostics import Diagnostics
from dynid.errors import DynidError, InputError, InputErrors, RefusedError
from dynid.robot.xml import Element, inside, number, numbers
from dynid.spatial.inertia import symmetric

MAX_LINKS = 10_000
MAX_MOVING = 256
MOVING = ("revolute", "continuous", "prismatic")
UNSUPPORTED = ("floating", "planar", "spherical", "ball")


@dataclass
class UrdfLink:
    """A link; `inertial` is (mass, xyz, rpy, inertia (3, 3) in the inertial frame) or None."""

    name: str
    element: Element
    inertial: tuple[float, tuple[float, ...], tuple[float, ...], Float] | None


@dataclass
class UrdfJoint:
    """A joint with checked numbers; mimic is (joint, multiplier, offset) or None."""

    name: str
    element: Element
    kind: str
    parent: str
    child: str
    xyz: tuple[float, ...]
    rpy: tuple[float, ...]
    axis: tuple[float, ...]
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float
    friction: float
    mimic: tuple[str, float, float] | None


@dataclass
class Urdf:
    """A checked URDF: links and joints below one root."""

    name: str
    root: str
    links: dict[str, UrdfLink]
    joints: dict[str, UrdfJoint]


def lint(robot: Element, folder: Path, root: str | None, diagnostics: Diagnostics) -> Urdf:
    """Checks a <robot> element; `root` picks a tree if there are several.

    Raises RefusedError for remote files, paths outside the folder and robots over the size budget, InputErrors with
    all that is wrong otherwise.
    """
    if len(robot.all("link")) > MAX_LINKS:
        count = len(robot.all("link"))
        raise RefusedError(
            "too-many-links",
            found=f"{count} links (the regressor of one sample would take {count**2 * 80 / 2e6:.0f} MB)",
            expected=f"at most {MAX_LINKS}",
            place=robot.place,
        )
    _check_files(robot, folder, diagnostics)
    errors: list[DynidError] = []
    links = _links(robot, errors)
    joints = _joints(robot, errors, diagnostics)
    if not links:
        errors.append(InputError("no-links", found="a robot without links", expected="<link> elements", place=robot.place))
    _check_tree(links, joints, errors)
    if errors:
        raise InputErrors(errors)
    kept_root = _root(robot, links, joints, root, errors)
    if errors or kept_root is None:
        raise InputErrors(errors)
    links, joints = _below(kept_root, links, joints)
    _check_mimic(joints, errors)
    moving = [joint for joint in joints.values() if joint.kind in MOVING]
    if not moving:
        errors.append(InputError("no-joints", found="no moving joint", expected="at least one", place=robot.place))
    if len(moving) > MAX_MOVING:
        raise RefusedError(
            "too-many-joints",
            found=f"{len(moving)} moving joints (about {len(moving) ** 2 * 10 * 8 * 64 / 1e6:.0f} MB a regressor block)",
            expected=f"at most {MAX_MOVING}",
            place=robot.place,
        )
    _check_inertia(links, joints, errors, diagnostics)
    if errors:
        raise InputErrors(errors)
    return Urdf(robot.attributes.get("name", ""), kept_root, links, joints)


def _check_files(robot: Element, folder: Path, diagnostics: Diagnostics) -> None:
    for element in robot.walk():
        if element.tag not in ("mesh", "texture"):
            continue
        name = element.attributes.get("filename", "")
        if not name or name.startswith(("package://", "model://")):
            continue
        local = name.removeprefix("file://")
        path = inside(folder, local, element)
        if not path.exists():
            diagnostics.warn("mesh-missing", f"mesh '{name}' does not exist; meshes are not needed", element.place)


def _links(robot: Element, errors: list[DynidError]) -> dict[str, UrdfLink]:
    links: dict[str, UrdfLink] = {}
    for element in robot.all("link"):
        name = _name(element, errors)
        if name in links:
            errors.append(_duplicate("link", name, links[name].element, element))
            continue
        links[name] = UrdfLink(name, element, _inertial(name, element, errors))
    return links


def _inertial(
    link: str, element: Element, errors: list[DynidError]
) -> tuple[float, tuple[float, ...], tuple[float, ...], Float] | None:
    inertial = element.find("inertial")
    if inertial is None:
        return None
    what = f"link '{link}'"
    origin, mass, inertia = inertial.find("origin"), inertial.find("mass"), inertial.find("inertia")
    xyz = numbers(origin, "xyz", 3, errors, (0.0,) * 3, what) if origin else (0.0,) * 3
    rpy = numbers(origin, "rpy", 3, errors, (0.0,) * 3, what) if origin else (0.0,) * 3
    if mass is None or "value" not in mass.attributes:
        errors.append(InputError("no-mass", found=f"{what}: an inertial without mass", expected="<mass value>", place=inertial.place))
        return None
    before = len(errors)
    value = number(mass, "value", errors, what=what)
    if value < 0:
        errors.append(InputError("negative-mass", found=f"{what}: mass {value:g} kg", expected="a mass > 0", place=mass.place))
    entries = (
        [number(inertia, key, errors, 0.0, what) for key in ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")]
        if inertia
        else [0.0] * 6
    )
    if len(errors) > before:
        return None
    return value, xyz, rpy, symmetric(np.array(entries))


def _joints(robot: Element, errors: list[DynidError], diagnostics: Diagnostics) -> dict[str, UrdfJoint]:
    joints: dict[str, UrdfJoint] = {}
    for element in robot.all("joint"):
        name = _name(element, errors)
        if name in joints:
            errors.append(_duplicate("joint", name, joints[name].element, element))
            continue
        joint = _joint(name, element, errors, diagnostics)
        if joint is not None:
            joints[name] = joint
    return joints


def _joint(name: str, element: Element, errors: list[DynidError], diagnostics: Diagnostics) -> UrdfJoint | None:
    kind = element.attributes.get("type", "")
    what = f"joint '{name}'"
    if kind in UNSUPPORTED:
        errors.append(
            InputError(
                "joint-type",
                found=f"{what} of type '{kind}'",
                expected="revolute, continuous, prismatic or fixed",
                do="describe the robot on a fixed base (--root names the link that stands still)",
                place=element.place,
            )
        )
        return None
    if kind not in (*MOVING, "fixed"):
        near = get_close_matches(kind, (*MOVING, "fixed"), n=1, cutoff=0.4)
        errors.append(
            InputError(
                "joint-type",
                found=f"{what} of type '{kind}'",
                expected="one of revolute, continuous, prismatic, fixed",
                do=f"did you mean '{near[0]}'?" if near else "",
                place=element.place,
            )
        )
        return None
    ends = [element.find(tag) for tag in ("parent", "child")]
    if any(end is None or "link" not in end.attributes for end in ends):
        errors.append(InputError("joint-ends", found=f"{what} without parent or child", expected="both links", place=element.place))
        return None
    origin, axis, limit = element.find("origin"), element.find("axis"), element.find("limit")
    dynamics = element.find("dynamics")
    xyz = numbers(origin, "xyz", 3, errors, (0.0,) * 3, what) if origin else (0.0,) * 3
    rpy = numbers(origin, "rpy", 3, errors, (0.0,) * 3, what) if origin else (0.0,) * 3
    direction = numbers(axis, "xyz", 3, errors, (1.0, 0.0, 0.0), what) if axis else (1.0, 0.0, 0.0)
    direction = _unit_axis(direction, axis or element, kind, what, errors, diagnostics)
    lower, upper = -math.inf, math.inf
    velocity = effort = math.inf
    if limit is not None:
        velocity = number(limit, "velocity", errors, math.inf, what)
        effort = number(limit, "effort", errors, math.inf, what)
        if kind != "continuous":
            lower = number(limit, "lower", errors, 0.0, what)
            upper = number(limit, "upper", errors, 0.0, what)
            if lower > upper:
                errors.append(
                    InputError("limits-swapped", found=f"{what}: lower {lower:g} > upper {upper:g}", expected="lower <= upper",
                               place=limit.place)
                )  # fmt: skip
    elif kind in ("revolute", "prismatic"):
        diagnostics.warn("limit-missing", f"{what} has no <limit>: taken as unlimited", element.place)
    mimic_element = element.find("mimic")
    mimic = None
    if mimic_element is not None and kind in MOVING:
        mimic = (
            mimic_element.attributes.get("joint", ""),
            number(mimic_element, "multiplier", errors, 1.0, what),
            number(mimic_element, "offset", errors, 0.0, what),
        )
    parent, child = (end.attributes["link"] for end in ends if end is not None)
    return UrdfJoint(
        name, element, kind, parent, child, xyz, rpy, direction, lower, upper, velocity, effort,
        number(dynamics, "damping", errors, math.nan, what) if dynamics else math.nan,
        number(dynamics, "friction", errors, math.nan, what) if dynamics else math.nan,
        mimic,
    )  # fmt: skip


def _unit_axis(
    axis: tuple[float, ...], element: Element, kind: str, what: str, errors: list[DynidError], diagnostics: Diagnostics
) -> tuple[float, ...]:
    if kind == "fixed":
        return (1.0, 0.0, 0.0)
    length = math.sqrt(sum(x * x for x in axis))
    if math.isnan(length):
        return axis
    if length < 1e-9:
        errors.append(InputError("zero-axis", found=f"{what}: axis of length zero", expected="a direction", place=element.place))
        return axis
    if abs(length - 1.0) > 1e-6:
        diagnostics.warn("axis-length", f"{what}: axis of length {length:.6g} was normalised", element.place)
    return tuple(x / length for x in axis)


def _check_tree(links: dict[str, UrdfLink], joints: dict[str, UrdfJoint], errors: list[DynidError]) -> None:
    holder: dict[str, UrdfJoint] = {}
    for joint in joints.values():
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                near = get_close_matches(link, links, n=1, cutoff=0.4)
                errors.append(
                    InputError(
                        "unknown-link",
                        found=f"joint '{joint.name}': {role} link '{link}' does not exist",
                        expected="the name of a <link>",
                        do=f"did you mean '{near[0]}'?" if near else "",
                        place=joint.element.place,
                    )
                )
        if joint.child in holder:
            other = holder[joint.child]
            errors.append(
                InputError(
                    "two-parents",
                    found=f"link '{joint.child}' held by joint '{other.name}' (line {other.element.line}) and joint "
                    f"'{joint.name}' (line {joint.element.line})",
                    expected="one parent joint a link",
                    do="closed loops are not supported: open one of the joints",
                    place=joint.element.place,
                )
            )
        else:
            holder[joint.child] = joint
    for cycle in _cycles(holder):
        errors.append(
            InputError(
                "cycle",
                found="links in a circle: " + " -> ".join([*cycle, cycle[0]]),
                expected="a tree",
                place=holder[cycle[0]].element.place,
            )
        )


def _cycles(holder: dict[str, UrdfJoint]) -> list[list[str]]:
    done: set[str] = set()
    cycles = []
    for start in holder:
        path: list[str] = []
        link = start
        while link in holder and link not in done and link not in path:
            path.append(link)
            link = holder[link].parent
        if link in path:
            cycles.append(path[path.index(link) :][::-1])
        done.update(path)
    return cycles


def _root(
    robot: Element, links: dict[str, UrdfLink], joints: dict[str, UrdfJoint], wanted: str | None, errors: list[DynidError]
) -> str | None:
    children = {joint.child for joint in joints.values()}
    roots = [name for name in links if name not in children]
    if wanted is not None:
        if wanted in links:
            return wanted
        near = get_close_matches(wanted, links, n=1, cutoff=0.4)
        errors.append(
            InputError("unknown-link", found=f"root '{wanted}' is not a link", expected="one of " + ", ".join(roots),
                       do=f"did you mean '{near[0]}'?" if near else "", place=robot.place)
        )  # fmt: skip
        return None
    if len(roots) == 1:
        return roots[0]
    errors.append(
        InputError(
            "two-roots",
            found=f"{len(roots)} links without parent: " + ", ".join(roots[:8]),
            expected="one root",
            do="choose one with --root LINK",
            place=links[roots[1]].element.place if len(roots) > 1 else robot.place,
        )
    )
    return None


def _below(
    root: str, links: dict[str, UrdfLink], joints: dict[str, UrdfJoint]
) -> tuple[dict[str, UrdfLink], dict[str, UrdfJoint]]:
    reached, kept = {root}, {}
    pending = dict(joints)
    while True:
        now = {name: joint for name, joint in pending.items() if joint.parent in reached}
        if not now:
            break
        for name, joint in now.items():
            kept[name] = joint
            reached.add(joint.child)
            del pending[name]
    return {name: links[name] for name in links if name in reached}, {n: j for n, j in joints.items() if n in kept}


def _check_mimic(joints: dict[str, UrdfJoint], errors: list[DynidError]) -> None:
    for joint in joints.values():
        seen = [joint.name]
        one = joint
        while one.mimic is not None:
            followed = one.mimic[0]
            if followed not in joints or joints[followed].kind not in MOVING:
                near = get_close_matches(followed, joints, n=1, cutoff=0.4)
                errors.append(
                    InputError(
                        "mimic-missing",
                        found=f"joint '{one.name}' mimics '{followed}', which is not a moving joint",
                        expected="the name of a moving joint",
                        do=f"did you mean '{near[0]}'?" if near else "",
                        place=one.element.place,
                    )
                )
                break
            if followed in seen:
                circle = " -> ".join([*seen, followed])
                errors.append(
                    InputError("mimic-cycle", found=f"joints that mimic each other: {circle}", expected="one independent joint",
                               place=joint.element.place)
                )  # fmt: skip
                break
            seen.append(followed)
            one = joints[followed]


def _check_inertia(
    links: dict[str, UrdfLink], joints: dict[str, UrdfJoint], errors: list[DynidError], diagnostics: Diagnostics
) -> None:
    moved = {joint.child for joint in joints.values() if joint.kind in MOVING}
    for name, link in links.items():
        if link.inertial is None:
            if name in moved:
                diagnostics.warn("inertial-missing", f"link '{name}' has no <inertial>: its prior is unknown", link.element.place)
            continue
        mass, _, _, inertia = link.inertial
        where = link.element.place
        principal = np.linalg.eigvalsh(inertia)
        if mass == 0 and name in moved:
            if not _carries_mass(name, links, joints):
                errors.append(
                    InputError("zero-mass", found=f"link '{name}': mass 0 kg on a moving link", expected="a mass > 0",
                               do="give its mass, or remove its <inertial> to have it unknown", place=where)
                )  # fmt: skip
            continue
        if principal[0] < -1e-9 * max(abs(principal[-1]), 1e-12):
            errors.append(
                InputError("inertia-not-psd", found=f"link '{name}': inertia with eigenvalues {_listed(principal)} kg m^2",
                           expected="all >= 0", place=where)
            )  # fmt: skip
        elif principal[0] + principal[1] < principal[2] * (1 - 1e-6):
            diagnostics.warn(
                "triangle-inequality",
                f"link '{name}': principal inertias {_listed(principal)} kg m^2 belong to no body (the greatest exceeds the "
                "sum of the others); used as a prior only",
                where,
            )


def _carries_mass(link: str, links: dict[str, UrdfLink], joints: dict[str, UrdfJoint]) -> bool:
    stack = [link]
    while stack:
        one = stack.pop()
        found = links[one].inertial
        if found is not None and found[0] > 0:
            return True
        stack += [joint.child for joint in joints.values() if joint.parent == one and joint.kind == "fixed"]
    return False


def _name(element: Element, errors: list[DynidError]) -> str:
    name = element.attributes.get("name", "")
    if not name:
        errors.append(InputError("no-name", found=f"a <{element.tag}> without name", expected="a name", place=element.place))
    return name


def _duplicate(kind: str, name: str, first: Element, second: Element) -> InputError:
    return InputError(
        f"duplicate-{kind}",
        found=f"{kind} '{name}' twice, in lines {first.line} and {second.line}",
        expected="unique names",
        place=second.place,
    )


def _listed(values: Float) -> str:
    return "[" + ", ".join(f"{x:.3g}" for x in values) + "]"
