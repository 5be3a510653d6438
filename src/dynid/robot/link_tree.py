"""Links and joints as one tree: parents, cycles, roots and mimic chains."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError
from dynid.base.overview import few
from dynid.robot.links import Link, LinkJoint
from dynid.robot.xml import Element

Children = dict[str, list[LinkJoint]]


def children_of(joints: dict[str, LinkJoint]) -> Children:
    """The joints that hang on each link, by name: siblings stand in the order that pinocchio gives them."""
    children: Children = {}
    for name in sorted(joints):
        children.setdefault(joints[name].parent, []).append(joints[name])
    return children


def welded(link: str, children: Children) -> list[str]:
    """The link and all that is fixed to it."""
    found, stack = [], [link]
    while stack:
        one = stack.pop()
        found.append(one)
        stack += [joint.child for joint in children.get(one, []) if not joint.moves]
    return found


def check_tree(links: dict[str, Link], joints: dict[str, LinkJoint], errors: list[DynidError]) -> None:
    """Notes unknown links, links with two parents and cycles."""
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
                found="links in a circle: " + _chain([*cycle, cycle[0]]),
                expected="a tree",
                place=holder[cycle[0]].element.place,
            )
        )


def nearest(name: str, known: dict[str, Link] | dict[str, LinkJoint]) -> str:
    """A question with the known name that looks most like the given one, or nothing."""
    # The search is slow: a file full of mistakes must not keep its reader busy for minutes.
    short = len(name) < 100 and len(known) < 500
    near = get_close_matches(name, known, n=1, cutoff=0.4) if short else []
    return f"did you mean '{near[0]}'?" if near else ""


def _two_parents(joint: LinkJoint, other: LinkJoint) -> InputError:
    return InputError(
        "two-parents",
        found=f"link '{joint.child}' held by joint '{other.name}' (line {other.element.line}) and joint "
        f"'{joint.name}' (line {joint.element.line})",
        expected="one parent joint a link",
        do="closed loops are not supported: open one of the joints",
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


def _chain(names: list[str], most: int = 12) -> str:
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
    """The link that stands still: `wanted`, or the only one without a parent."""
    children = {joint.child for joint in joints.values()}
    roots = [name for name in links if name not in children]
    listed = few(roots, 8)
    if wanted is not None:
        if wanted in links:
            return wanted
        errors.append(
            InputError(
                "unknown-link",
                found=f"root '{wanted}' is not a link",
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
            expected="one root",
            do="choose one with --root LINK",
            place=links[roots[1]].element.place,
        )
    )
    return None


def below(
    root: str, links: dict[str, Link], joints: dict[str, LinkJoint]
) -> tuple[dict[str, Link], dict[str, LinkJoint]]:
    """The part of a robot that hangs on a link."""
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
    """The joints, where those that follow nothing that moves are independent; notes those that follow each other."""
    joints = dict(joints)
    for name, joint in joints.items():
        if joint.mimic is None:
            continue
        followed = joint.mimic.joint
        if followed not in joints or not joints[followed].moves:
            diagnostics.warn(
                "mimic-missing",
                f"joint '{name}' mimics '{followed}', which is not a moving joint: it is a joint of its own; "
                + (nearest(followed, joints) or "name an existing joint, if it follows one"),
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
                    found="joints that mimic each other: " + _chain([*circle, circle[0]]),
                    expected="one independent joint",
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
