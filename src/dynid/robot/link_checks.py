"""Checks of links and joints, whatever file they come from: one tree, sizes, inertias; every error at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, InputErrors, Place, RefusedError
from dynid.base.overview import few
from dynid.robot.link_tree import Children, below, check_mimic, check_tree, children_of, find_root, welded
from dynid.robot.links import FREE, Link, LinkInertial, LinkJoint, LinkTree
from dynid.robot.reading import Reading
from dynid.robot.xml import Element
from dynid.spatial.inertia import symmetric

# What a reader knows its bodies by: names or numbers.
Key = TypeVar("Key")
MAX_LINKS = 10_000
MAX_MOVING = 256
MAX_ERRORS = 50
_LISTED = 8
_ROUNDING = 1e-15
# Links with one mass and the inertia of one ball are filled in from so many on, if they are at least this share of all
# that have mass: equal links that somebody weighed or drew are no balls. Frames that were given a trace of mass, for a
# simulator's sake, are no part of it.
FILLED_IN, FILLED_IN_SHARE, FILLED_IN_MASS = 3, 0.5, 0.1
# A negative moment of inertia up to this share of the greatest about the same point is a description's mistake, such as
# a centre of mass that is a little off; a greater one is no inertia.
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
    """The tree below the root; robot: the element that holds it, for the place of what is wrong.

    Raises InputErrors with all that is wrong, `errors` included, RefusedError for robots over the size budget.
    """
    if not links:
        found = "a robot without links"
        errors.append(InputError("no-links", found=found, expected="<link> elements", place=robot.place))
    check_tree(links, joints, errors)
    stop(errors)
    root = find_root(robot, links, joints, reading.root, errors)
    if root is None:
        raise InputErrors(errors)
    links, joints = below(root, links, joints)
    _check_free(root, joints, reading, errors, diagnostics)
    joints = check_mimic(joints, errors, diagnostics)
    _check_moving(robot, joints, errors)
    links = _without_filled_in(root, links, joints, diagnostics)
    _check_inertia(root, links, joints, errors, diagnostics)
    stop(errors)
    return LinkTree(name, root, links, joints)


def held_still(names: list[str], diagnostics: Diagnostics, place: Place) -> None:
    """Warns that joints of a floating base are held where the description puts them."""
    several = len(names) > 1
    listed = few([f"'{name}'" for name in names], _LISTED)
    diagnostics.warn(
        "free-base",
        f"free joint{'s' if several else ''} {listed} {'are' if several else 'is'} held still: "
        "logs hold joints alone, so the base is taken to stand where the description puts it",
        place,
    )


def unsupported_joint(what: str, kind: str, place: Place, name: str) -> InputError:
    """The error for a joint with several coordinates that something moving hangs on."""
    return InputError(
        "joint-type",
        found=f"{what} of type '{kind}', which has several coordinates",
        expected="hinges and slides below a base that stands still",
        do=f"hold it where the description puts it: --lock '{name}=0'",
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
    held = []
    for joint in (one for one in joints.values() if one.kind in FREE):
        if joint.parent in base:
            held.append(joint)
        elif joint.name not in reading.lock:
            what = f"joint '{joint.name}'"
            errors.append(unsupported_joint(what, joint.kind, joint.element.place, joint.name))
    if held:
        held_still([joint.name for joint in held], diagnostics, held[0].element.place)


def stop(errors: list[DynidError]) -> None:
    """Raises InputErrors, the first fifty by line, if there are any."""
    if not errors:
        return
    shown = sorted(errors, key=lambda error: error.place.line or 0)[:MAX_ERRORS]
    if len(errors) > len(shown):
        found = f"{len(errors) - len(shown)} more errors"
        shown.append(InputError("more-errors", found=found, do="repair these first", place=shown[-1].place))
    raise InputErrors(shown)


def check_size(robot: Element, count: int) -> None:
    """Raises RefusedError for more links than fit the budget."""
    if count > MAX_LINKS:
        raise RefusedError(
            "too-many-links",
            found=f"{count} links (the regressor of one sample would take {count**2 * 80 / 2e6:.0f} MB)",
            expected=f"at most {MAX_LINKS}",
            place=robot.place,
        )


def _check_moving(robot: Element, joints: dict[str, LinkJoint], errors: list[DynidError]) -> None:
    moving = sum(joint.moves for joint in joints.values())
    if moving == 0:
        found = "no moving joint"
        errors.append(InputError("no-joints", found=found, expected="at least one", place=robot.place))
    if moving > MAX_MOVING:
        raise RefusedError(
            "too-many-joints",
            found=f"{moving} moving joints (about {moving**2 * 10 * 8 * 64 / 1e6:.0f} MB a regressor block)",
            expected=f"at most {MAX_MOVING}",
            place=robot.place,
        )


def filled_in(bodies: Mapping[Key, tuple[float, Float]]) -> tuple[Key, ...]:
    """Those of the bodies whose mass and inertia (3, 3) about the centre of mass somebody has filled in.

    Three or more with one mass and one inertia that is the same about every axis: half of all with mass, and a tenth
    of it.
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
    """Warns of bodies that are taken as not described."""
    listed = few([f"'{name}'" for name in names], _LISTED)
    sink.warn(
        "inertial-placeholder",
        f"{len(names)} links have one mass of {mass:g} kg and one inertia of {moment:g} kg m^2 about every axis "
        f"({listed}): values that were filled in, so their prior is unknown",
        place,
    )


def _without_filled_in(
    root: str, links: dict[str, Link], joints: dict[str, LinkJoint], diagnostics: Diagnostics
) -> dict[str, Link]:
    base = set(welded(root, children_of(joints)))
    known = {
        name: link.inertial for name, link in links.items() if name not in base and link.inertial is not None
    }
    names = filled_in({name: (own.mass, own.inertia) for name, own in known.items()})
    if not names:
        return links
    one, place = known[names[0]], links[names[0]].element.place
    warn_filled_in(names, one.mass, float(one.inertia[0, 0]), place, diagnostics)
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
        # What stands still has no influence on the dynamics.
        if link.inertial is not None and name not in base:
            _check_principal(link, link.inertial, errors, diagnostics)


def _check_mass(
    link: Link,
    links: dict[str, Link],
    children: Children,
    diagnostics: Diagnostics,
) -> None:
    carried = [links[one] for one in welded(link.name, children)]
    if any(one.filled_in for one in carried):
        return  # which has been said
    masses = [one.inertial.mass for one in carried if one.inertial is not None]
    if not masses:
        diagnostics.warn(
            "inertial-missing",
            f"link '{link.name}' has no <inertial>: its prior is unknown",
            link.element.place,
        )
    elif max(masses) == 0:
        # What exporters write for "not known", as no moving link has no mass.
        diagnostics.warn(
            "zero-mass",
            f"link '{link.name}': mass 0 kg on a moving link: its prior is unknown",
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


NOT_NEGATIVE = f"all >= 0 (about the joint, -{100 * SLIGHT:g} % of the greatest is let pass as a prior)"
AS_PRIOR = "the nearest possible inertia is the prior"


def slightly_impossible(pi: Float) -> bool:
    """Whether the inertia about the frame of ten parameters, which the joint feels, is negative by SLIGHT at most.

    By so much of its greatest principal moment. A centre of mass that is a little off makes the inertia about it
    impossible, and hardly changes the one about the joint.
    """
    principal = np.linalg.eigvalsh(symmetric(pi[4:]))
    return bool(principal[0] >= -SLIGHT * principal[-1] and principal[-1] > 0)


def inertia_problem(inertia: Float) -> tuple[str, str] | None:
    """What is wrong with an inertia (3, 3) about a centre of mass: identifier and text."""
    principal = np.linalg.eigvalsh(inertia).astype(np.float64)
    listed = "[" + ", ".join(f"{x:.3g}" for x in principal) + "] kg m^2"
    if principal[0] < -1e-9 * abs(principal[-1]) - _ROUNDING:
        return "inertia-not-psd", f"inertia with eigenvalues {listed}"
    if principal[0] + principal[1] < principal[2] * (1 - 1e-6) - _ROUNDING:
        text = f"principal inertias {listed} belong to no body (the greatest exceeds the sum of the others)"
        return "triangle-inequality", text
    return None
