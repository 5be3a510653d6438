"""Loops that MJCF closes by constraints between bodies, which a tree of joints does not have."""

from __future__ import annotations

from dynid.base.diagnostics import Diagnostics
from dynid.robot.xml import Element

# Constraints that close loops, which are told apart from others.
CLOSING = ("connect", "weld")
_WORLD = "world"


def warn_of_loops(root: Element, diagnostics: Diagnostics) -> None:
    """Names, for each active <connect> and <weld>, the joints whose torque its force enters.

    The force acts on both bodies with opposite signs, so that it moves no joint that carries both of them, and every
    joint that carries one alone. What ties a body to a mocap body is a handle by which a simulation drags it, and no
    part of the robot.
    """
    carried = _carried(root)
    handles = {one.attributes.get("name") for one in root.walk() if one.attributes.get("mocap") == "true"}
    for equality in root.all("equality"):
        for one in equality.children:
            if one.tag not in CLOSING or one.attributes.get("active") == "false":
                continue
            ends = _ends(one)
            if handles.intersection(ends):
                held, handle = sorted(ends, key=handles.__contains__)
                diagnostics.warn(
                    "mjcf-left-out",
                    f"<{one.tag}> between '{held}' and the mocap body '{handle}', by which a simulation drags it, is "
                    "left out of the model",
                    one.place,
                )
                continue
            joints = [carried.get(end, ()) for end in ends]
            affected = [
                name for name in (*joints[0], *joints[1]) if (name in joints[0]) != (name in joints[1])
            ]
            if not affected:
                continue
            named = ", ".join(f"'{name}'" for name in affected)
            diagnostics.warn(
                "closed-loop",
                f"<{one.tag}> between '{ends[0]}' and '{ends[1]}' closes a loop: its force is not in the model, which "
                f"misses torque of {named}; the equations of all other joints are as without it. Bodies in the loop "
                "take up what they can of that torque: their masses are not to be trusted",
                one.place,
            )


def _carried(root: Element) -> dict[str, tuple[str, ...]]:
    """The joints, of the base first, that carry each body and site, by its name."""
    found: dict[str, tuple[str, ...]] = {_WORLD: ()}
    stack: list[tuple[Element, tuple[str, ...]]] = [
        (child, ()) for world in root.all("worldbody") for child in world.children
    ]
    while stack:
        element, joints = stack.pop()
        own: tuple[str, ...] = joints
        if element.tag == "body":
            for child in element.children:
                if child.tag == "joint" and child.attributes.get("type") != "free":
                    name = child.attributes.get("name", "")
                    own = (*own, name or f"a joint of body '{element.attributes.get('name', '')}'")
        if element.tag in ("body", "site") and element.attributes.get("name"):
            found[element.attributes["name"]] = own
        stack += [(child, own) for child in element.children if child.tag in ("body", "site", "frame")]
    return found


def _ends(constraint: Element) -> tuple[str, str]:
    given = constraint.attributes
    return (
        given.get("body1", given.get("site1", _WORLD)),
        given.get("body2", given.get("site2", _WORLD)),
    )
