"""SDF: links and joints with frames that refer to one another, converted to a tree of joint frames.

Source: SDFormat specification 1.4 to 1.12 (sdformat.org/spec): pose frame semantics, joint axes, default values.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dynid.base import Diagnostics, DynidError, Float, InputError, InputErrors, dataclass
from dynid.robot import (
    FREE,
    GRAVITY,
    MOVING,
    Element,
    Link,
    LinkInertial,
    LinkJoint,
    Mimic,
    Reading,
    RobotFile,
    RobotModel,
    check_size,
    checked_tree,
    duplicate,
    held_still,
    model_of_links,
    nearest,
    note_absent_meshes,
    numbers,
    unit_axis,
)
from dynid.spatial import (
    from_com,
    inverse,
    placement,
    rotation_quaternion,
    rotation_rpy,
    symmetric,
    transformed,
)

WORLD, MODEL = "world", "__model__"
# m/s^2: default of a <world> in the specification.
_WORLD_GRAVITY = (0.0, 0.0, -9.8)
_SIX = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")
# Limits of this size mean none, by the specification.
_NO_LIMIT = 1e16
_AXIS_IN_MODEL = (1, 4)  # up to this version axes are expressed in the model's frame
_KINDS = {"revolute2": "universal"} | {kind: kind for kind in (*MOVING, *FREE, "fixed")}


@dataclass(frozen=True)
class SdfFormat:
    """SDF, recognised by <sdf>."""

    name: str = "SDF"

    def knows(self, file: RobotFile) -> bool:
        """Whether the root element is <sdf>."""
        return file.tag == "sdf"

    def read(self, file: RobotFile) -> RobotModel:
        """Read the robot; raises as `read_sdf`."""
        return read_sdf(file.root, file.path, file.reading, file.diagnostics)


def read_sdf(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """Read the only model with moving joints of an <sdf> element.

    Gravity is that of its world, or 9.81 m/s^2 along -z. A model without a joint to the world is fixed where the file
    puts it.

    Parameters
    ----------
    root : Element
        The element.
    path : Path
        The file.
    reading : Reading
        How it is read.
    diagnostics : Diagnostics
        Receives the warnings.

    Returns
    -------
    RobotModel
        The robot.

    Raises
    ------
    RefusedError
        If the robot exceeds the size budget.
    InputErrors
        With all errors of the file.

    """
    world, model = _choose_model(root, reading)
    check_size(model, len(model.all("link")))
    _note_meshes(model, path.parent, reading, diagnostics)
    return _Reader(root, world, model, reading, diagnostics).robot(str(path))


def _choose_model(root: Element, reading: Reading) -> tuple[Element | None, Element]:
    models: list[tuple[Element | None, Element]] = [(None, element) for element in root.all("model")]
    models += [(world, element) for world in root.all("world") for element in world.all("model")]
    moving = [
        pair
        for pair in models
        if any(element.attributes.get("type") != "fixed" for element in pair[1].all("joint"))
    ]
    if reading.root is not None:
        named = [pair for pair in moving if _names_link(pair[1], reading.root)]
        moving = named if named else moving
    if len(moving) == 1:
        return moving[0]
    names = ", ".join(f"'{element.attributes.get('name', '')}'" for _, element in moving[:8])
    raise InputError(
        "no-joints" if not moving else "several-models",
        found=f"models {names}, all with moving joints" if moving else "no model with a moving joint",
        expected="one robot",
        do="choose one with --root LINK, a link that does not move" if moving else "",
        place=moving[1][1].place if moving else root.place,
    )


def _names_link(model: Element, name: str) -> bool:
    return any(link.attributes.get("name") == name for link in model.all("link"))


def _note_meshes(model: Element, folder: Path, reading: Reading, diagnostics: Diagnostics) -> None:
    named = []
    for mesh in (element for element in model.walk() if element.tag == "mesh"):
        uri = mesh.find("uri")
        if uri is not None and uri.content.strip():
            named.append((uri.content.strip(), mesh))
    note_absent_meshes(named, folder, diagnostics, reading.packages)


class _Reader:
    def __init__(
        self,
        root: Element,
        world: Element | None,
        model: Element,
        reading: Reading,
        diagnostics: Diagnostics,
    ) -> None:
        self.world, self.model, self.reading, self.diagnostics = world, model, reading, diagnostics
        self.errors: list[DynidError] = []
        version = root.attributes.get("version", "1.6").split(".")
        self.version = tuple(int(part) if part.isdecimal() else 0 for part in version[:2])
        for nested in (*model.all("include"), *model.all("model")):
            self.fail(
                "sdf-nested",
                f"a nested model (<{nested.tag}>)",
                "links and joints of one model",
                nested,
                "write it out as one model: gz sdf -p FILE",
            )
        self.stop()
        self.elements = {kind: self._by_name(kind) for kind in ("link", "joint", "frame")}
        self.frames = _Frames(self.elements, self.errors)

    def fail(self, identifier: str, finding: str, expected: str, element: Element, do: str = "") -> None:
        self.errors.append(
            InputError(identifier, found=finding, expected=expected, do=do, place=element.place)
        )

    def stop(self) -> None:
        if self.errors:
            raise InputErrors(self.errors)

    def _by_name(self, kind: str) -> dict[str, Element]:
        named: dict[str, Element] = {}
        for element in self.model.all(kind):
            name = element.attributes.get("name", "")
            if not name:
                self.fail("no-name", f"a <{kind}> without name", "a name", element)
            elif name in named:
                self.errors.append(duplicate(kind, name, named[name], element))
            else:
                named[name] = element
        return named

    def robot(self, source: str) -> RobotModel:
        joints = [self._ends(name, element) for name, element in self.elements["joint"].items()]
        self.stop()
        holding_joint = {child: name for name, parent, child in joints}
        in_world = self.pose(self.model) if self.model.find("pose") is not None else np.eye(4)
        on_world = any(parent == WORLD for _, parent, _ in joints)
        # As in URDF, a link's frame is that of its parent joint.
        frame = {name: self.frames.of(holding_joint.get(name, name)) for name in self.elements["link"]}
        if on_world:
            frame[WORLD] = inverse(in_world)
        self.stop()
        links = {
            name: self._link(name, element, frame[name]) for name, element in self.elements["link"].items()
        }
        if on_world:
            links[WORLD] = Link(WORLD, self.model, None)
        made = {}
        for name, parent, child in joints:
            joint = self._joint(name, parent, child, frame)
            if joint is not None:
                made[name] = joint
        name = self.model.attributes.get("name", "")
        tree = checked_tree(name, self.model, links, made, self.reading, self.errors, self.diagnostics)
        if not on_world and not _true(self.model.find("static")):
            held_still([tree.root], self.diagnostics, links[tree.root].element.place)
        R = (in_world @ frame[tree.root])[:3, :3]
        gravity = R.T @ np.array(self._gravity())
        self.stop()
        return model_of_links(tree, source, (float(gravity[0]), float(gravity[1]), float(gravity[2])))

    def _gravity(self) -> tuple[float, ...]:
        if self.world is None:
            return GRAVITY
        return self.values(self.world, "gravity", 3, _WORLD_GRAVITY, "world")

    def values(
        self, element: Element, tag: str, count: int, default: tuple[float, ...], label: str
    ) -> tuple[float, ...]:
        """Numbers in the content of a child element."""
        child = element.find(tag)
        return (
            default
            if child is None
            else numbers(_as_attribute(child), "value", count, self.errors, default, label)
        )

    def pose(self, element: Element) -> Float:
        return pose_of(element, self.errors)

    def _ends(self, name: str, element: Element) -> tuple[str, str, str]:
        ends = []
        for tag in ("parent", "child"):
            end = element.find(tag)
            link = "" if end is None else end.content.strip()
            if not link:
                self.fail("joint-ends", f"joint '{name}' without <{tag}>", "both links", element)
            ends.append(self.frames.link_of(link))
        return name, ends[0], ends[1]

    def _link(self, name: str, element: Element, frame: Float) -> Link:
        inertial = element.find("inertial")
        if inertial is None or inertial.find("mass") is None or inertial.attributes.get("auto") == "true":
            return Link(name, element, None)
        label = f"link '{name}'"
        before = len(self.errors)
        (mass,) = self.values(inertial, "mass", 1, (math.nan,), label)
        if mass < 0:
            self.fail("negative-mass", f"{label}: mass {mass:g} kg", "a mass > 0", inertial)
        entries = [0.0] * 6
        if (inertia := inertial.find("inertia")) is not None:
            entries = [self.values(inertia, key, 1, (0.0,), label)[0] for key in _SIX]
        here = inverse(frame) @ self.frames.of(name) @ self.pose(inertial)
        if len(self.errors) > before:
            return Link(name, element, None)
        matrix = symmetric(np.array(entries))
        return Link(
            name,
            element,
            LinkInertial(mass, matrix, transformed(from_com(mass, np.zeros(3), matrix), here)),
        )

    def _joint(self, name: str, parent: str, child: str, frame: dict[str, Float]) -> LinkJoint | None:
        element, label = self.elements["joint"][name], f"joint '{name}'"
        kind = _KINDS.get(element.attributes.get("type", ""), "")
        if not kind:
            self.fail(
                "joint-type",
                f"{label} of type '{element.attributes.get('type', '')}'",
                "one of " + ", ".join(_KINDS),
                element,
            )
            return None
        here = self.frames.of(name)
        axis = element.find("axis") if kind in MOVING else None
        direction = np.array([0.0, 0.0, 1.0]) if axis is None else self._axis(axis, here, label)
        lower, upper, velocity, effort = self._limits(axis, label)
        if kind == "revolute" and math.isinf(lower) and math.isinf(upper):
            kind = "continuous"
        damping, friction, spring = self._dynamics(axis, label)
        return LinkJoint(
            name=name,
            element=element,
            kind=kind,
            parent=parent,
            child=child,
            # A parent that does not exist is reported with all others.
            placement=inverse(frame.get(parent, np.eye(4))) @ here,
            axis=direction,
            lower=lower,
            upper=upper,
            velocity=velocity,
            effort=effort,
            damping=damping,
            friction=friction,
            mimic=None if axis is None else self._mimic(axis, label),
            spring=spring,
        )

    def _axis(self, axis: Element, here: Float, label: str) -> Float:
        direction = np.array(self.values(axis, "xyz", 3, (0.0, 0.0, 1.0), label))
        xyz = axis.find("xyz")
        given = "" if xyz is None else xyz.attributes.get("expressed_in", "")
        in_model = axis.find("use_parent_model_frame")
        if given:
            direction = here[:3, :3].T @ self.frames.of(given)[:3, :3] @ direction
        elif _true(in_model) or (in_model is None and self.version <= _AXIS_IN_MODEL):
            direction = here[:3, :3].T @ direction
        return unit_axis(direction, axis, label, self.errors, self.diagnostics)

    def _limits(self, axis: Element | None, label: str) -> tuple[float, float, float, float]:
        limit = None if axis is None else axis.find("limit")
        if limit is None:
            return -math.inf, math.inf, math.inf, math.inf
        bounds = []
        for tag, none in (
            ("lower", -math.inf),
            ("upper", math.inf),
            ("velocity", math.inf),
            ("effort", math.inf),
        ):
            value = self._bound(limit, tag, none, label)
            # The specification writes -1 for no limit of speed and effort.
            beyond = abs(value) >= _NO_LIMIT or (tag in ("velocity", "effort") and value <= 0)
            bounds.append(none if beyond else value)
        if bounds[0] > bounds[1]:
            self.fail(
                "limits-swapped",
                f"{label}: lower {bounds[0]:g} > upper {bounds[1]:g}",
                "lower <= upper",
                limit,
            )
        return bounds[0], bounds[1], bounds[2], bounds[3]

    def _bound(self, limit: Element, tag: str, none: float, label: str) -> float:
        child = limit.find(tag)
        if child is None or child.content.strip().lower().lstrip("+-") in ("inf", "infinity"):
            return none
        return self.values(limit, tag, 1, (none,), label)[0]

    def _dynamics(self, axis: Element | None, label: str) -> tuple[float, float, tuple[float, float]]:
        dynamics = None if axis is None else axis.find("dynamics")
        if dynamics is None:
            return math.nan, math.nan, (0.0, 0.0)
        damping, friction = (
            self.values(dynamics, tag, 1, (math.nan,), label)[0] for tag in ("damping", "friction")
        )
        stiffness, reference = (
            self.values(dynamics, tag, 1, (0.0,), label)[0]
            for tag in ("spring_stiffness", "spring_reference")
        )
        return damping, friction, (stiffness, reference)

    def _mimic(self, axis: Element, label: str) -> Mimic | None:
        mimic = axis.find("mimic")
        if mimic is None:
            return None
        parts = (("multiplier", 1.0), ("offset", 0.0), ("reference", 0.0))
        factor, offset, reference = (self.values(mimic, tag, 1, (usual,), label)[0] for tag, usual in parts)
        return Mimic(mimic.attributes.get("joint", ""), factor, offset - factor * reference)


class _Frames:
    """Placements (4, 4) of links, joints and frames in the frame of the model."""

    def __init__(self, elements: dict[str, dict[str, Element]], errors: list[DynidError]) -> None:
        self.elements, self.errors = elements, errors
        self.known: dict[str, Float] = {MODEL: np.eye(4), "": np.eye(4)}

    def link_of(self, name: str) -> str:
        """The link to which a frame is attached; the name itself if it is no frame."""
        for _ in self.elements["frame"]:
            if name not in self.elements["frame"]:
                break
            name = self.elements["frame"][name].attributes.get("attached_to", name)
        return name

    def of(self, name: str) -> Float:
        """Placement of a frame; the model's frame, and an error, if it is not defined."""
        waiting: list[str] = []
        frame = name
        while frame not in self.known:
            if frame in waiting:
                self._fail("pose-circle", f"frames that refer to each other: {', '.join(waiting)}", frame)
                self.known[frame] = np.eye(4)
                break
            waiting.append(frame)
            frame = self._reference_frame(frame)
        for frame in reversed(waiting):
            element = self._element(frame)
            if frame not in self.known:
                here = np.eye(4) if element is None else pose_of(element, self.errors)
                self.known[frame] = self.known[self._reference_frame(frame)] @ here
        return self.known[name]

    def _element(self, name: str) -> Element | None:
        return next((kind[name] for kind in self.elements.values() if name in kind), None)

    def _reference_frame(self, name: str) -> str:
        element = self._element(name)
        if element is None:
            self._fail("unknown-frame", f"frame '{name}', which does not exist", name)
            return MODEL
        pose = element.find("pose")
        given = "" if pose is None else pose.attributes.get("relative_to", pose.attributes.get("frame", ""))
        if given:
            return given
        if element.tag == "joint":
            child = element.find("child")
            return MODEL if child is None else child.content.strip()
        return element.attributes.get("attached_to", MODEL) if element.tag == "frame" else MODEL

    def _fail(self, identifier: str, finding: str, name: str) -> None:
        named = {key: Link(key, link_element, None) for key, link_element in self.elements["link"].items()}
        element = self._element(name) or next(iter(self.elements["link"].values()), None)
        error = InputError(
            identifier,
            found=finding,
            expected="the name of a link, joint or frame",
            do=nearest(name, named),
            **({"place": element.place} if element is not None else {}),
        )
        if str(error) not in map(str, self.errors):
            self.errors.append(error)


def pose_of(element: Element, errors: list[DynidError]) -> Float:
    """The placement (4, 4) of an element's <pose>: x, y, z and roll, pitch, yaw (rad, or deg), or a quaternion."""
    pose = element.find("pose")
    if pose is None or not pose.content.strip():
        return np.eye(4)
    label = f"{element.tag} '{element.attributes.get('name', '')}'"
    if pose.attributes.get("rotation_format") == "quat_xyzw":
        values = np.array(numbers(_as_attribute(pose), "value", 7, errors, (0.0,) * 7, label))
        length = float(np.linalg.norm(values[3:]))
        if not length > 0:
            return np.eye(4)
        return placement(rotation_quaternion(values[[6, 3, 4, 5]] / length), values[:3])
    values = np.array(numbers(_as_attribute(pose), "value", 6, errors, (0.0,) * 6, label))
    unit = math.pi / 180.0 if pose.attributes.get("degrees") == "true" else 1.0
    return placement(rotation_rpy(values[3:] * unit), values[:3])


def _as_attribute(element: Element) -> Element:
    # The number readers expect attributes.
    return Element(
        element.tag, {"value": element.content.strip()}, element.file, element.line, element.column
    )


def _true(element: Element | None) -> bool:
    return element is not None and element.content.strip().lower() in ("1", "true")
