"""Checks of MJCF before MuJoCo reads it: includes inside the folder, bounded size, numbers and names."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, RefusedError
from dynid.robot.links import stop
from dynid.robot.meshes import note_absent_meshes
from dynid.robot.mjcf_loops import Loop
from dynid.robot.urdf import duplicate, unit_axis
from dynid.robot.xml import MAX_DEPTH, MAX_ELEMENTS, Element, check_numbers, inside, number, numbers, read_xml

# Loops that MJCF closes by constraints between bodies, which a tree of joints cannot represent.

# Constraints that close loops.
CLOSING = ("connect", "weld")
_WORLD = "world"


def loops_of(root: Element, diagnostics: Diagnostics) -> tuple[Loop, ...]:
    """Each active <connect> and <weld>, with the joints whose torque its force affects.

    The force acts on both bodies with opposite signs. It therefore affects the joints that carry only one of the two
    bodies. A constraint to a mocap body is not part of the robot: a simulation drags the robot with it.

    Parameters
    ----------
    root : Element
        The <mujoco> element.
    diagnostics : Diagnostics
        Receives warnings of constraints to mocap bodies.

    Returns
    -------
    tuple of Loop

    """
    loops = []
    carried = _joints_above(root)
    handles = {
        element.attributes.get("name") for element in root.walk() if element.attributes.get("mocap") == "true"
    }
    for equality in root.all("equality"):
        for element in equality.children:
            if element.tag not in CLOSING or element.attributes.get("active") == "false":
                continue
            ends = _ends(element)
            if handles.intersection(ends):
                robot_body, handle = sorted(ends, key=handles.__contains__)
                diagnostics.warn(
                    "mjcf-left-out",
                    f"<{element.tag}> between '{robot_body}' and the mocap body '{handle}' is not in the model: "
                    "it only drags the robot in a simulation",
                    element.place,
                )
                continue
            joints = [carried.get(end, ()) for end in ends]
            affected = tuple(
                name for name in (*joints[0], *joints[1]) if (name in joints[0]) != (name in joints[1])
            )
            if affected:
                anchor = numbers(element, "anchor", 3, [], ()) if "anchor" in element.attributes else ()
                loops.append(Loop(element.tag, ends, tuple(anchor), affected, element.place))
    return tuple(loops)


def warn_of_loop(loop: Loop, diagnostics: Diagnostics) -> None:
    """Warn of a loop that is not in the model, with the joints whose torque its force affects."""
    named = ", ".join(f"'{name}'" for name in loop.affected)
    diagnostics.warn(
        "closed-loop",
        f"<{loop.tag}> between '{loop.ends[0]}' and '{loop.ends[1]}' closes a loop. The model has no torque from its "
        f"force at {named}; other joints are not affected. Do not trust the masses of the links in the loop",
        loop.place,
    )


def _joints_above(root: Element) -> dict[str, tuple[str, ...]]:
    """Joints above each body and site, from the base on, by the name of the body or site."""
    joints_by_name: dict[str, tuple[str, ...]] = {_WORLD: ()}
    stack: list[tuple[Element, tuple[str, ...]]] = [
        (child, ()) for world in root.all("worldbody") for child in world.children
    ]
    while stack:
        element, joints = stack.pop()
        carrying: tuple[str, ...] = joints
        if element.tag == "body":
            for child in element.children:
                if child.tag == "joint" and child.attributes.get("type") != "free":
                    name = child.attributes.get("name", "")
                    carrying = (*carrying, name or f"a joint of body '{element.attributes.get('name', '')}'")
        if element.tag in ("body", "site") and element.attributes.get("name"):
            joints_by_name[element.attributes["name"]] = carrying
        stack += [(child, carrying) for child in element.children if child.tag in ("body", "site", "frame")]
    return joints_by_name


def _ends(constraint: Element) -> tuple[str, str]:
    given = constraint.attributes
    return (
        given.get("body1", given.get("site1", _WORLD)),
        given.get("body2", given.get("site2", _WORLD)),
    )


# Bodies: a block of the regressor grows with their square.
MAX_BODIES = 256
_JOINTS = ("hinge", "slide", "ball", "free")
_NUMERIC = {
    "pos", "quat", "axisangle", "xyaxes", "zaxis", "euler", "axis", "ref", "range", "mass", "density", "size",
    "fromto", "diaginertia", "fullinertia", "armature", "damping", "frictionloss", "stiffness", "springref",
    "gravity", "timestep", "actuatorfrcrange", "boundmass", "boundinertia", "settotalmass", "gravcomp",
}  # fmt: skip
_FOLDERS = {"mesh": "meshdir", "texture": "texturedir", "hfield": "meshdir", "skin": "meshdir"}
_DROPPED = {
    "asset", "visual", "sensor", "contact", "keyframe", "tendon", "equality", "deformable",
    "custom", "extension", "statistic", "camera", "light", "skin", "flexcomp", "composite", "plugin",
    "size",
}  # fmt: skip
_LEFT_OUT = {"tendon", "equality", "deformable"}
_BOMBS = {"flexcomp", "composite"}
# Actuators that may be position controllers of a joint, or apply a torque to it.
_CONTROLLERS = {"position", "general", "motor"}

# Writes a model and everything attached to it as one file, into the same folder, where its meshes are.
_WRITTEN_OUT = (
    "python -c \"import mujoco; s = mujoco.MjSpec.from_file('FILE'); s.compile(); "
    "open('whole.xml', 'w').write(s.to_xml())\""
)


def check_mjcf(
    root: Element, folder: Path, packages: Sequence[str], diagnostics: Diagnostics
) -> tuple[Loop, ...]:
    """Resolve the includes of a <mujoco> element, check it and remove what is not part of the dynamics.

    Parameters
    ----------
    root : Element
        The <mujoco> element; modified.
    folder : Path
        Of the file.
    packages : sequence of str
        Folders that the user named; included files may be in them, too.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    tuple of Loop
        The loops that constraints close.

    Raises
    ------
    RefusedError
        For remote files, files outside the folders, and models over the size budget, copies of <replicate> included.
    InputErrors
        With all errors.

    """
    _refuse_fragment(root)
    resolve_includes(root, folder, packages)
    elements = list(root.walk())
    if len(elements) > MAX_ELEMENTS:
        raise RefusedError("xml-size", found=f"more than {MAX_ELEMENTS} elements", place=root.place)
    _refuse_bombs(elements)
    _check_files(root, elements, folder, packages, diagnostics)
    errors: list[DynidError] = []
    _check_names(elements, errors)
    for element in elements:
        _check_numbers(element, errors)
        if element.tag == "joint":
            _check_joint(element, errors, diagnostics)
    stop(errors)
    loops = loops_of(root, diagnostics)
    _remove_unused(root, diagnostics)
    return loops


def _refuse_fragment(root: Element) -> None:
    stray = root.find("body")
    if stray is not None:
        raise InputError(
            "mjcf-fragment",
            found="a <body> outside <worldbody>, so only a part of a model",
            expected="the whole model",
            do="name the file that includes this one",
            place=stray.place,
        )


def resolve_includes(root: Element, folder: Path, packages: Sequence[str] = ()) -> None:
    """Replace each <include> with the elements of the included file; raises as `check_mjcf`."""
    root.children = _included(root, folder, packages, {Path(root.file).resolve()}, 1)


def _included(
    element: Element, folder: Path, packages: Sequence[str], seen: set[Path], depth: int
) -> list[Element]:
    if depth > MAX_DEPTH:
        raise RefusedError("xml-depth", found=f"elements nested deeper than {MAX_DEPTH}", place=element.place)
    children: list[Element] = []
    for child in element.children:
        if child.tag != "include":
            child.children = _included(child, folder, packages, seen, depth + 1)
            children.append(child)
            continue
        file = inside(folder, child.attributes.get("file", ""), child.place, packages)
        if file in seen:
            raise InputError(
                "include-twice",
                found=f"'{file.name}' included twice, or by itself",
                expected="each file once, as MuJoCo requires",
                place=child.place,
            )
        seen.add(file)
        children += _included(read_xml(file, "an MJCF file"), folder, packages, seen, depth + 1)
    return children


def _refuse_bombs(elements: list[Element]) -> None:
    errors: list[DynidError] = []
    for element in elements:
        if element.tag == "hfield":
            cells = number(element, "nrow", errors, 0.0) * number(element, "ncol", errors, 0.0)
            if cells > 1e6:
                problem = f"a height field of {cells:.3g} cells"
                raise RefusedError("mjcf-hfield", found=problem, expected="at most 1e6", place=element.place)
    bodies, written = _expanded(elements[0], errors)
    stop(errors)
    if written > MAX_ELEMENTS:
        copies = next(element for element in elements if element.tag == "replicate")
        raise RefusedError(
            "xml-size",
            found=f"{written:.3g} elements with the copies of <replicate>",
            expected=f"at most {MAX_ELEMENTS}",
            place=copies.place,
        )
    if bodies > MAX_BODIES:
        problem = (
            f"{bodies:.6g} bodies (about {bodies**2 * 10 * 8 * 64 / 1e6:.0f} MB per block of the regressor)"
        )
        raise RefusedError(
            "too-many-links", found=problem, expected=f"at most {MAX_BODIES}", place=elements[0].place
        )
    stop(errors)


def _expanded(element: Element, errors: list[DynidError]) -> tuple[float, float]:
    """Count the bodies and elements of an element, with all copies of each <replicate>."""
    inside_it = [_expanded(child, errors) for child in element.children]
    copies = number(element, "count", errors, 1.0) if element.tag == "replicate" else 1.0
    bodies, elements = (max(copies, 0.0) * sum(counts[k] for counts in inside_it) for k in range(2))
    return bodies + (element.tag == "body"), elements + 1.0


def _check_files(
    root: Element, elements: list[Element], folder: Path, packages: Sequence[str], diagnostics: Diagnostics
) -> None:
    settings: dict[str, str] = {}
    named: list[tuple[str, Element]] = []
    for compiler in root.all("compiler"):
        settings |= compiler.attributes
    for element in elements:
        if element.tag == "model" and "file" in element.attributes:
            inside(folder, element.attributes["file"], element.place)
            raise InputError(
                "mjcf-attach",
                found=f"an attached model, '{element.attributes['file']}'",
                expected="one file",
                do=f"write both as one file and name that: {_WRITTEN_OUT}",
                place=element.place,
            )
        name = element.attributes.get("file", "")
        if element.tag not in _FOLDERS or not name:
            continue
        start = settings.get(_FOLDERS[element.tag], settings.get("assetdir", ""))
        named.append((f"{start}/{name}" if start else name, element))
    note_absent_meshes(named, folder, diagnostics, packages)


def _check_names(elements: list[Element], errors: list[DynidError]) -> None:
    seen: dict[tuple[str, str], Element] = {}
    for element in elements:
        kind = "joint" if element.tag == "freejoint" else element.tag
        if kind not in ("body", "joint") or not element.attributes.get("name"):
            continue
        key = (kind, element.attributes["name"])
        if key in seen:
            errors.append(duplicate(kind, key[1], seen[key], element))
        seen.setdefault(key, element)


def _check_numbers(element: Element, errors: list[DynidError]) -> None:
    subject = f"{element.tag} '{element.attributes['name']}'" if element.attributes.get("name") else ""
    if element.tag == "flag":
        return
    for attribute in sorted(_NUMERIC.intersection(element.attributes)):
        values = check_numbers(element, attribute, errors, subject)
        if attribute == "mass" and values and min(values) < 0:
            problem = f"{subject or element.tag} with mass {values[0]:g} kg"
            errors.append(
                InputError("negative-mass", found=problem, expected="a mass > 0", place=element.place)
            )


def _check_joint(element: Element, errors: list[DynidError], diagnostics: Diagnostics) -> None:
    subject = f"joint '{element.attributes.get('name', '')}'"
    kind = element.attributes.get("type", "hinge")
    if kind not in _JOINTS:
        near = get_close_matches(kind, _JOINTS, n=1, cutoff=0.4)
        errors.append(
            InputError(
                "joint-type",
                found=f"{subject} of type '{kind}'",
                expected="hinge or slide",
                do=f"did you mean '{near[0]}'?" if near else "",
                place=element.place,
            )
        )
    ignored: list[DynidError] = []
    axis = np.array(numbers(element, "axis", 3, ignored, (0.0, 0.0, 1.0)))
    if not ignored:
        unit_axis(axis, element, subject, errors, diagnostics)
    low, high = numbers(element, "range", 2, ignored, (0.0, 0.0))
    if low > high:
        problem = f"{subject} with lower limit {low:g} > upper limit {high:g}"
        errors.append(
            InputError("limits-swapped", found=problem, expected="lower <= upper", place=element.place)
        )


def _left_out_text(element: Element) -> str:
    # The joints are named, so that a coupling between fingers does not raise doubts about the arm.
    named = [
        part.attributes[key]
        for part in element.walk()
        for key in ("joint", "joint1", "joint2")
        if part.attributes.get(key)
    ]
    joints = ", ".join(f"'{name}'" for name in dict.fromkeys(named))
    coupling = f", which couples joints {joints}," if joints else ""
    return f"<{element.tag}>{coupling} is not in the model"


def _remove_unused(root: Element, diagnostics: Diagnostics) -> None:
    for element in root.walk():
        for child in element.children:
            reported = child.tag in _LEFT_OUT and element.tag != "default"
            if child.tag in _BOMBS or (reported and any(part.tag not in CLOSING for part in child.children)):
                diagnostics.warn("mjcf-left-out", _left_out_text(child), child.place)
        element.children = [child for child in element.children if child.tag not in _DROPPED]
        if element.tag == "actuator":
            element.children = [
                child
                for child in element.children
                if child.tag in _CONTROLLERS and "joint" in child.attributes
            ]
        for unwanted in ("material", "hfield") if element.tag in ("geom", "site") else ():
            element.attributes.pop(unwanted, None)
        for unwanted in ("meshdir", "texturedir", "assetdir") if element.tag == "compiler" else ():
            element.attributes.pop(unwanted, None)
