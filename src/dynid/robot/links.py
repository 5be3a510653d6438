"""Links and joints of a robot file in any format: checks, and conversion to a model without fixed joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, InputErrors, Place, RefusedError
from dynid.base.records import dataclass, few
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.options import Reading
from dynid.robot.xml import Element
from dynid.spatial.inertia import symmetric, transformed

# Links and joints as a reader returns them: numbers checked, fixed joints not yet merged.

MOVING = ("revolute", "continuous", "prismatic")
# Joints with several coordinates: fixed where they support the base, not supported elsewhere.
FREE = ("floating", "planar", "ball", "universal")


@dataclass(frozen=True, eq=False)
class LinkInertial:
    """Mass and inertia of a link.

    Parameters
    ----------
    mass : float, kg
    inertia : ndarray, shape (3, 3), kg m^2
        About the centre of mass.
    parameters : ndarray, shape (10,)
        Ten inertial parameters about the link's frame.

    """

    mass: float
    inertia: Float
    parameters: Float


@dataclass(frozen=True, eq=False)
class Link:
    """A link of a robot file.

    Parameters
    ----------
    name : str
    element : Element
        XML element, for the line in messages.
    inertial : LinkInertial or None
        None if the file has no inertial, or a placeholder.
    filled_in : bool
        Whether the file has a placeholder, see `filled_in`.

    """

    name: str
    element: Element
    inertial: LinkInertial | None
    filled_in: bool = False


@dataclass(frozen=True)
class Mimic:
    """A mimic joint: q = multiplier * q of the followed joint + offset (rad, or m if prismatic)."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class LinkJoint:
    """A joint of a robot file, its numbers checked.

    Parameters
    ----------
    name : str
    element : Element
        XML element, for the line in messages.
    kind : str
        Joint type: one of MOVING, one of FREE, or "fixed".
    parent, child : str
        Names of the links that it connects.
    placement : ndarray, shape (4, 4)
        Joint frame in the parent link's frame.
    axis : ndarray, shape (3,)
        Unit vector in the joint frame.
    lower, upper : float, rad (m)
        Position limits; infinite if there are none.
    velocity, effort : float, rad/s (m/s), N m (N)
        Limits; infinite if there are none.
    damping, friction : float, N m s/rad (N s/m), N m (N)
        Viscous and Coulomb friction; nan if unknown.
    mimic : Mimic or None
    spring : tuple of float, N m/rad (N/m) and rad (m)
        Stiffness k and position r without torque; the spring adds k (q - r) to the joint torque.

    """

    name: str
    element: Element
    kind: str
    parent: str
    child: str
    placement: Float
    axis: Float
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float
    friction: float
    mimic: Mimic | None
    spring: tuple[float, float] = (0.0, 0.0)

    @property
    def moves(self) -> bool:
        """Whether the joint has a coordinate."""
        return self.kind in MOVING


@dataclass(frozen=True)
class LinkTree:
    """Checked links and joints below one fixed root link."""

    name: str
    root: str
    links: dict[str, Link]
    joints: dict[str, LinkJoint]


# Links and joints as one tree: parents, cycles, roots and mimic chains.

Children = dict[str, list[LinkJoint]]


def children_of(joints: dict[str, LinkJoint]) -> Children:
    """Child joints of each link, sorted by name, as pinocchio sorts them."""
    children: Children = {}
    for name in sorted(joints):
        children.setdefault(joints[name].parent, []).append(joints[name])
    return children


def welded(link: str, children: Children) -> list[str]:
    """Names of a link and of all links fixed to it."""
    names, stack = [], [link]
    while stack:
        name = stack.pop()
        names.append(name)
        stack += [joint.child for joint in children.get(name, []) if not joint.moves]
    return names


def check_tree(links: dict[str, Link], joints: dict[str, LinkJoint], errors: list[DynidError]) -> None:
    """Append an error for each unknown link, link with two parents, and cycle."""
    holder: dict[str, LinkJoint] = {}
    for joint in joints.values():
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                errors.append(
                    InputError(
                        "unknown-link",
                        found=f"joint '{joint.name}': {role} link '{link}' does not exist",
                        expected="the name of a <link>",
                        do=nearest(link, links),
                        place=joint.element.place,
                    )
                )
        if joint.child in holder:
            errors.append(_two_parents(joint, holder[joint.child]))
        else:
            holder[joint.child] = joint
    for cycle in _cycles(holder):
        errors.append(
            InputError(
                "cycle",
                found="a cycle of links: " + _arrows([*cycle, cycle[0]]),
                expected="a tree",
                place=holder[cycle[0]].element.place,
            )
        )


def nearest(name: str, known: dict[str, Link] | dict[str, LinkJoint]) -> str:
    """Return "did you mean 'NAME'?" for the most similar known name, or "" if none is similar.

    Parameters
    ----------
    name : str
        The unknown name.
    known : dict
        Links or joints by name.

    Returns
    -------
    str

    """
    # The search is slow, and a file full of mistakes would take minutes.
    short = len(name) < 100 and len(known) < 500
    near = get_close_matches(name, known, n=1, cutoff=0.4) if short else []
    return f"did you mean '{near[0]}'?" if near else ""


def _two_parents(joint: LinkJoint, other: LinkJoint) -> InputError:
    return InputError(
        "two-parents",
        found=f"link '{joint.child}' with two parent joints, '{other.name}' (line {other.element.line}) and "
        f"'{joint.name}' (line {joint.element.line})",
        expected="one parent joint per link",
        do="closed loops are not supported: remove one of the joints",
        place=joint.element.place,
    )


def _cycles(holder: dict[str, LinkJoint]) -> list[list[str]]:
    done: set[str] = set()
    cycles = []
    for start in holder:
        path: dict[str, int] = {}
        link = start
        while link in holder and link not in done and link not in path:
            path[link] = len(path)
            link = holder[link].parent
        if link in path:
            cycles.append(list(path)[path[link] :][::-1])
        done.update(path)
    return cycles


def _arrows(names: list[str], most: int = 12) -> str:
    if len(names) > most:
        names = [*names[: most - 1], "...", names[-1]]
    return " -> ".join(names)


def find_root(
    robot: Element,
    links: dict[str, Link],
    joints: dict[str, LinkJoint],
    wanted: str | None,
    errors: list[DynidError],
) -> str | None:
    """Name of the fixed base link, or None after appending an error.

    Parameters
    ----------
    robot : Element
        Root element of the file, for the place in messages.
    links, joints : dict
        By name.
    wanted : str or None
        The link that the user named; None = the only link without a parent.
    errors : list of DynidError
        Receives the error.

    Returns
    -------
    str or None

    """
    children = {joint.child for joint in joints.values()}
    roots = [name for name in links if name not in children]
    listed = few(roots, 8)
    if wanted is not None:
        if wanted in links:
            return wanted
        errors.append(
            InputError(
                "unknown-link",
                found=f"root '{wanted}', which is not a link",
                expected=f"one of {listed}",
                do=nearest(wanted, links),
                place=robot.place,
            )
        )
        return None
    if len(roots) == 1:
        return roots[0]
    errors.append(
        InputError(
            "two-roots",
            found=f"{len(roots)} links without parent: {listed}",
            expected="one",
            do="choose the base link with --root LINK",
            place=links[roots[1]].element.place,
        )
    )
    return None


def below(
    root: str, links: dict[str, Link], joints: dict[str, LinkJoint]
) -> tuple[dict[str, Link], dict[str, LinkJoint]]:
    """Links and joints of the subtree below a link, the link included."""
    children = children_of(joints)
    reached, kept, stack = {root}, set[str](), [root]
    while stack:
        for joint in children.get(stack.pop(), []):
            kept.add(joint.name)
            reached.add(joint.child)
            stack.append(joint.child)
    return (
        {name: link for name, link in links.items() if name in reached},
        {name: joint for name, joint in joints.items() if name in kept},
    )


def check_mimic(
    joints: dict[str, LinkJoint], errors: list[DynidError], diagnostics: Diagnostics
) -> dict[str, LinkJoint]:
    """Joints without mimic joints that follow no moving joint; append an error for each mimic cycle."""
    joints = dict(joints)
    for name, joint in joints.items():
        if joint.mimic is None:
            continue
        followed = joint.mimic.joint
        if followed not in joints or not joints[followed].moves:
            diagnostics.warn(
                "mimic-missing",
                f"joint '{name}' mimics '{followed}', which is not a moving joint. It is read as an independent joint; "
                + (nearest(followed, joints) or "name an existing joint if it follows one"),
                joint.element.place,
            )
            joints[name] = replace(joint, mimic=None)
    reported: set[str] = set()
    for name in joints:
        circle = _mimic_circle(name, joints)
        if circle and not reported.intersection(circle):
            reported.update(circle)
            errors.append(
                InputError(
                    "mimic-cycle",
                    found="a cycle of mimic joints: " + _arrows([*circle, circle[0]]),
                    expected="one of them without <mimic>",
                    place=joints[circle[0]].element.place,
                )
            )
    return joints


def _mimic_circle(name: str, joints: dict[str, LinkJoint]) -> list[str]:
    path: dict[str, int] = {}
    while name in joints and name not in path:
        path[name] = len(path)
        mimic = joints[name].mimic
        if mimic is None:
            return []
        name = mimic.joint
    return list(path)[path[name] :] if name in path else []


# Checks of links and joints in any format: one tree, sizes, inertias. All errors are reported together.

# How a reader identifies bodies: by name or by number.
Key = TypeVar("Key")
# Links: bounds memory and time for hostile or broken files.
MAX_LINKS = 10_000
# Moving joints: a block of the regressor grows with their square (42 MB at 256, for 64 samples).
MAX_MOVING = 256
# Errors per message: the first ones are usually the cause of the rest.
MAX_ERRORS = 50
# Names per message.
_LISTED = 8
# kg m^2: rounding of an inertia that is zero.
_ROUNDING = 1e-15
# Placeholder inertials: at least FILLED_IN links with the same mass and the same isotropic inertia, which are at least
# FILLED_IN_SHARE of the links with mass (equal links that were weighed or drawn are not isotropic) and FILLED_IN_MASS
# of the total mass (frames that got a trace of mass for a simulator do not count).
FILLED_IN, FILLED_IN_SHARE, FILLED_IN_MASS = 3, 0.5, 0.1
# Share of the greatest principal moment about the same point. A negative moment up to it is a mistake in the file, such
# as a slightly wrong centre of mass; beyond it the numbers are not an inertia.
SLIGHT = 0.1


def checked_tree(
    name: str,
    robot: Element,
    links: dict[str, Link],
    joints: dict[str, LinkJoint],
    reading: Reading,
    errors: list[DynidError],
    diagnostics: Diagnostics,
) -> LinkTree:
    """Check links and joints and return the tree below the root link.

    Parameters
    ----------
    name : str
        Name of the robot.
    robot : Element
        Root element of the file, for the place in messages.
    links, joints : dict
        By name.
    reading : Reading
        Root link and locked joints that the user named.
    errors : list of DynidError
        Errors found so far.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    LinkTree

    Raises
    ------
    InputErrors
        With all errors, those in `errors` included.
    RefusedError
        For more than MAX_MOVING moving joints.

    """
    if not links:
        problem = "no links"
        errors.append(InputError("no-links", found=problem, expected="<link> elements", place=robot.place))
    check_tree(links, joints, errors)
    stop(errors)
    root = find_root(robot, links, joints, reading.root, errors)
    if root is None:
        raise InputErrors(errors)
    links, joints = below(root, links, joints)
    _check_free(root, joints, reading, errors, diagnostics)
    joints = check_mimic(joints, errors, diagnostics)
    _check_moving(robot, joints, errors)
    links = _without_placeholders(root, links, joints, diagnostics)
    _check_inertia(root, links, joints, errors, diagnostics)
    stop(errors)
    return LinkTree(name, root, links, joints)


def held_still(names: list[str], diagnostics: Diagnostics, place: Place) -> None:
    """Warn that free joints of the base are fixed at their pose in the robot file.

    Parameters
    ----------
    names : list of str
        Names of the joints.
    diagnostics : Diagnostics
        Receives the warning.
    place : Place
        Of the first joint.

    """
    several = len(names) > 1
    listed = few([f"'{name}'" for name in names], _LISTED)
    diagnostics.warn(
        "free-base",
        f"free joint{'s' if several else ''} {listed} {'are' if several else 'is'} fixed: logs contain joint "
        "positions only, so the base is assumed to stay at its pose in the robot file",
        place,
    )


def unsupported_joint(subject: str, kind: str, place: Place, name: str) -> InputError:
    """Return the error for a joint with several coordinates that is not part of the base."""
    return InputError(
        "joint-type",
        found=f"{subject} of type '{kind}', which has several coordinates",
        expected="revolute and prismatic joints on a fixed base",
        do=f"fix it at its pose in the robot file: --lock '{name}=0'",
        place=place,
    )


def _check_free(
    root: str,
    joints: dict[str, LinkJoint],
    reading: Reading,
    errors: list[DynidError],
    diagnostics: Diagnostics,
) -> None:
    base = set(welded(root, children_of(joints)))
    fixed = []
    for joint in (candidate for candidate in joints.values() if candidate.kind in FREE):
        if joint.parent in base:
            fixed.append(joint)
        elif joint.name not in reading.lock:
            subject = f"joint '{joint.name}'"
            errors.append(unsupported_joint(subject, joint.kind, joint.element.place, joint.name))
    if fixed:
        held_still([joint.name for joint in fixed], diagnostics, fixed[0].element.place)


def stop(errors: list[DynidError]) -> None:
    """Raise InputErrors with the first MAX_ERRORS errors by line, if there are any."""
    if not errors:
        return
    shown = sorted(errors, key=lambda error: error.place.line or 0)[:MAX_ERRORS]
    if len(errors) > len(shown):
        problem = f"{len(errors) - len(shown)} more errors"
        shown.append(
            InputError("more-errors", found=problem, do="correct these first", place=shown[-1].place)
        )
    raise InputErrors(shown)


def check_size(robot: Element, count: int) -> None:
    """Raise RefusedError for more than MAX_LINKS links.

    Parameters
    ----------
    robot : Element
        Root element of the file, for the place in the message.
    count : int
        Number of links.

    Raises
    ------
    RefusedError

    """
    if count > MAX_LINKS:
        raise RefusedError(
            "too-many-links",
            found=f"{count} links (the regressor of one sample would take {count**2 * 80 / 2e9:.2g} GB)",
            expected=f"at most {MAX_LINKS}",
            place=robot.place,
        )


def _check_moving(robot: Element, joints: dict[str, LinkJoint], errors: list[DynidError]) -> None:
    moving = sum(joint.moves for joint in joints.values())
    if moving == 0:
        problem = "no moving joint"
        errors.append(InputError("no-joints", found=problem, expected="at least one", place=robot.place))
    if moving > MAX_MOVING:
        raise RefusedError(
            "too-many-joints",
            found=f"{moving} moving joints (about {moving**2 * 10 * 8 * 64 / 1e6:.0f} MB per block of the regressor)",
            expected=f"at most {MAX_MOVING}",
            place=robot.place,
        )


def filled_in(bodies: Mapping[Key, tuple[float, Float]]) -> tuple[Key, ...]:
    """Bodies whose inertials are placeholders: FILLED_IN or more with the same mass and the same isotropic inertia.

    Parameters
    ----------
    bodies : mapping
        Mass, kg, and inertia (3, 3) about the centre of mass, kg m^2, of each body.

    Returns
    -------
    tuple
        Keys of the placeholders; empty if there are too few, see FILLED_IN.

    """
    alike: dict[tuple[float, float], list[Key]] = {}
    massive = {key: (mass, inertia) for key, (mass, inertia) in bodies.items() if mass > 0}
    for key, (mass, inertia) in massive.items():
        moment = float(inertia[0, 0])
        if moment > 0 and np.array_equal(inertia, moment * np.eye(3)):
            alike.setdefault((mass, moment), []).append(key)
    (mass, _), most = max(alike.items(), key=lambda pair: len(pair[1]), default=((0.0, 0.0), []))
    several = len(most) >= max(FILLED_IN, FILLED_IN_SHARE * len(massive))
    whole = sum(mass for mass, _ in massive.values())
    return tuple(most) if several and mass * len(most) >= FILLED_IN_MASS * whole else ()


def warn_filled_in(names: Sequence[str], mass: float, moment: float, place: Place, sink: Diagnostics) -> None:
    """Warn that the inertials of some links are placeholders and their priors unknown."""
    listed = few([f"'{name}'" for name in names], _LISTED)
    sink.warn(
        "inertial-placeholder",
        f"{len(names)} links have the same mass, {mass:.3g} kg, and the same inertia, {moment:.3g} kg m^2 about every "
        f"axis ({listed}). These are placeholders, so the priors of these links are unknown",
        place,
    )


def _without_placeholders(
    root: str, links: dict[str, Link], joints: dict[str, LinkJoint], diagnostics: Diagnostics
) -> dict[str, Link]:
    base = set(welded(root, children_of(joints)))
    known = {
        name: link.inertial for name, link in links.items() if name not in base and link.inertial is not None
    }
    names = filled_in({name: (inertial.mass, inertial.inertia) for name, inertial in known.items()})
    if not names:
        return links
    first, place = known[names[0]], links[names[0]].element.place
    warn_filled_in(names, first.mass, float(first.inertia[0, 0]), place, diagnostics)
    return {
        name: replace(link, inertial=None, filled_in=True) if name in names else link
        for name, link in links.items()
    }


def _check_inertia(
    root: str,
    links: dict[str, Link],
    joints: dict[str, LinkJoint],
    errors: list[DynidError],
    diagnostics: Diagnostics,
) -> None:
    children = children_of(joints)
    base = set(welded(root, children))
    moved = {joint.child for joint in joints.values() if joint.moves}
    for name, link in links.items():
        if name in moved:
            _check_mass(link, links, children, diagnostics)
        # Inertias of the fixed base have no effect on the dynamics.
        if link.inertial is not None and name not in base:
            _check_principal(link, link.inertial, errors, diagnostics)


def _check_mass(
    link: Link,
    links: dict[str, Link],
    children: Children,
    diagnostics: Diagnostics,
) -> None:
    carried = [links[part] for part in welded(link.name, children)]
    if any(part.filled_in for part in carried):
        return  # `warn_filled_in` has warned of it
    masses = [part.inertial.mass for part in carried if part.inertial is not None]
    if not masses:
        diagnostics.warn(
            "inertial-missing",
            f"link '{link.name}' has no <inertial>, so its prior is unknown",
            link.element.place,
        )
    elif max(masses) == 0:
        # Exporters write 0 for an unknown mass.
        diagnostics.warn(
            "zero-mass",
            f"link '{link.name}' moves and has mass 0 kg, so its prior is unknown",
            link.element.place,
        )


def _check_principal(
    link: Link, inertial: LinkInertial, errors: list[DynidError], diagnostics: Diagnostics
) -> None:
    problem = inertia_problem(inertial.inertia)
    if problem is None:
        return
    identifier, text = problem
    text = f"link '{link.name}': {text}"
    if identifier == "inertia-not-psd" and not slightly_impossible(inertial.parameters):
        errors.append(InputError(identifier, found=text, expected=NOT_NEGATIVE, place=link.element.place))
        return
    diagnostics.warn(identifier, f"{text}; {AS_PRIOR}", link.element.place)


NOT_NEGATIVE = f"all >= 0 (-{100 * SLIGHT:g} % of the greatest about the joint is accepted for a prior)"
AS_PRIOR = "the nearest physically consistent inertia is used as the prior"


def slightly_impossible(pi: Float) -> bool:
    """Whether the least principal moment about the joint frame is at least -SLIGHT times the greatest.

    A slightly wrong centre of mass makes the inertia about it inconsistent and hardly changes the inertia about the
    joint, which is the one in the dynamics.

    Parameters
    ----------
    pi : ndarray, shape (10,)
        Inertial parameters about the joint frame.

    """
    principal = np.linalg.eigvalsh(symmetric(pi[4:]))
    return bool(principal[0] >= -SLIGHT * principal[-1] and principal[-1] > 0)


def inertia_problem(inertia: Float) -> tuple[str, str] | None:
    """Return identifier and text of what is wrong with an inertia (3, 3) about a centre of mass; None = nothing."""
    principal = np.linalg.eigvalsh(inertia).astype(np.float64)
    listed = "[" + ", ".join(f"{x:.3g}" for x in principal) + "] kg m^2"
    if principal[0] < -1e-9 * abs(principal[-1]) - _ROUNDING:
        return "inertia-not-psd", f"inertia with eigenvalues {listed}"
    if principal[0] + principal[1] < principal[2] * (1 - 1e-6) - _ROUNDING:
        text = f"principal inertias {listed} are not possible: the greatest exceeds the sum of the others"
        return "triangle-inequality", text
    return None


# Links and joints as the model of a robot: fixed joints merged, mimic joints projected.

# m/s^2, in the base frame.
GRAVITY = (0.0, 0.0, -9.81)


def model_of_links(
    tree: LinkTree,
    source: str,
    gravity: tuple[float, float, float] = GRAVITY,
    rotors: Mapping[str, float] | None = None,
) -> RobotModel:
    """Convert links and joints to a robot model, with fixed joints merged and mimic joints projected.

    Joints are ordered depth first, siblings by name, as in pinocchio.

    Parameters
    ----------
    tree : LinkTree
        Checked links and joints.
    source : str
        Path of the file.
    gravity : tuple of float, m/s^2
        In the frame of the root link.
    rotors : mapping of str to float, kg m^2, optional
        Rotor inertia reflected to the joint, by joint.

    Returns
    -------
    RobotModel

    """
    base, bodies, frames = _merge(tree)
    joints = [body.joint for body in bodies if body.joint is not None]
    independent = [joint for joint in joints if joint.mimic is None]
    projection, offset = _projection(tree, joints, independent)
    unknown = np.full(len(independent), np.nan)
    seen = np.array([(rotors or {}).get(joint.name, np.nan) for joint in independent])
    return RobotModel(
        name=tree.name,
        source=source,
        body_names=tuple(joint.child for joint in joints),
        tree_joint_names=tuple(joint.name for joint in joints),
        joint_names=tuple(joint.name for joint in independent),
        parent=np.array([body.parent for body in bodies], dtype=np.int64),
        joint_types=tuple(JointType(joint.kind) for joint in joints),
        T_parent_joint=np.array([body.placement for body in bodies]),
        axis=np.array([joint.axis for joint in joints]),
        inertia_prior=np.array([body.prior for body in bodies]),
        gravity=np.array(gravity),
        limits=Limits(
            lower=np.array([joint.lower for joint in independent]),
            upper=np.array([joint.upper for joint in independent]),
            velocity=np.array([joint.velocity for joint in independent]),
            effort=np.array([joint.effort for joint in independent]),
        ),
        drive=Drive(np.eye(len(independent)), seen, unknown, unknown),
        projection=projection,
        projection_offset=offset,
        friction_prior=np.array([[joint.damping, joint.friction] for joint in independent]),
        spring_prior=_springs(joints, projection, offset),
        merged=tuple(tuple(body.links) for body in bodies),
        locked={joint.name: 0.0 for joint in tree.joints.values() if joint.kind in FREE},
        frames=frames,
        base_links=tuple(base.links),
        base_prior=base.prior,
    )


@dataclasses.dataclass
class _Body:
    joint: LinkJoint | None
    parent: int
    placement: Float
    links: list[str] = field(default_factory=list)
    inertia: Float = field(default_factory=lambda: np.zeros(10))
    known: bool = False

    @property
    def prior(self) -> Float:
        """The ten inertial parameters; nan if no link of the body has a mass."""
        return self.inertia if self.known and self.inertia[0] > 0 else np.full(10, np.nan)


def _merge(tree: LinkTree) -> tuple[_Body, list[_Body], dict[str, tuple[int, Float]]]:
    # The base, the moving bodies, and the bodies that carry the links of fixed joints with the frames of these links.
    # Not recursive: a chain of fixed joints may exceed Python's recursion limit.
    children = children_of(tree.joints)
    bodies: list[_Body] = []
    frames = {tree.root: (-1, np.eye(4))}
    base = _Body(None, -1, np.eye(4))
    _carry(base, tree.root, tree, np.eye(4))
    stack = [(joint, -1, np.eye(4)) for joint in reversed(children.get(tree.root, []))]
    while stack:
        joint, carrier, frame = stack.pop()
        here = frame @ joint.placement
        if joint.moves:
            bodies.append(_Body(joint, carrier, here))
            carrier, here = len(bodies) - 1, np.eye(4)
        else:
            frames[joint.child] = (carrier, here)
        _carry(bodies[carrier] if carrier >= 0 else base, joint.child, tree, here)
        stack += [(next_joint, carrier, here) for next_joint in reversed(children.get(joint.child, []))]
    return base, bodies, frames


def _carry(body: _Body, link: str, tree: LinkTree, frame: Float) -> None:
    body.links.append(link)
    inertial = tree.links[link].inertial
    if tree.links[link].filled_in:
        body.inertia = np.full(10, np.nan)  # the other links alone are not the whole body
    if inertial is not None:
        body.known = True
        body.inertia = body.inertia + transformed(inertial.parameters, frame)


def _springs(joints: list[LinkJoint], projection: Float, offset: Float) -> Float:
    """Stiffness and preload (n, 2) of the springs of each joint and of its mimic joints; nan = no spring."""
    total = np.zeros((projection.shape[1], 2))
    for joint, row, shift in zip(joints, projection, offset, strict=True):
        k, rest = joint.spring
        total += np.column_stack([k * row**2, k * (shift - rest) * row])
    total[total[:, 0] == 0.0] = np.nan
    return total


def _projection(tree: LinkTree, joints: list[LinkJoint], independent: list[LinkJoint]) -> tuple[Float, Float]:
    index = {joint.name: k for k, joint in enumerate(independent)}
    projection = np.zeros((len(joints), len(independent)))
    offset = np.zeros(len(joints))
    for i, joint in enumerate(joints):
        factor, shift, leader = 1.0, 0.0, joint
        while leader.mimic is not None:
            shift += factor * leader.mimic.offset
            factor *= leader.mimic.multiplier
            leader = tree.joints[leader.mimic.joint]
        projection[i, index[leader.name]] = factor
        offset[i] = shift
    return projection, offset
