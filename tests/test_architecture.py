"""The rooms of docs/design.md: no module uses a room above its own, and no imports go round in a circle.

Imports inside functions and for type checkers count like any other. `python tests/test_architecture.py` draws the
rooms and what they import, docs/images/rooms.svg.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dynid"
# From the ground up; rooms of one floor do not import one another.
FLOORS = (
    ("base", "data"),
    ("spatial",),
    ("kernel",),
    ("robot",),
    ("log", "trajectories"),
    ("signals",),
    ("terms",),
    ("rows",),
    ("factor",),
    ("feasible", "simulation"),
    ("excitation", "estimate"),
    ("choose",),
    ("diagnosis",),
    ("run",),
    ("identification", "report"),
    ("online", "exporters", "verbs"),
    ("testing", "api"),
    ("cli",),
    ("__main__",),
)
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "rooms.svg"
OPTIONAL = {"mujoco", "pinocchio", "coal", "plotly", "clarabel", "rich"}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a module is loaded: none inside functions or for type checkers alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_import(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from at_import(getattr(node, part, []))


def named(imports: Iterable[ast.AST]) -> set[str]:
    """Modules, of dynid and others, that import statements name."""
    found = set()
    for node in imports:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in MODULES else node.module
                for a in node.names
            }
    return found


TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
IMPORTS = {name: named(at_import(tree.body)) - {name} for name, tree in TREES.items()}
# Within functions and for type checkers as well.
USES = {name: named(ast.walk(tree)) - {name} for name, tree in TREES.items()}


def room(name: str) -> str:
    """The room of a module: the first folder below the package, or the module itself; "" for the package."""
    return name.split(".")[1] if "." in name else ""


def floor(name: str) -> int:
    """Floor of a module; the package itself, whose verbs are loaded on first use, stands on the roof."""
    return next((i for i, rooms in enumerate(FLOORS) if room(name) in rooms), len(FLOORS))


def test_every_module_has_a_room() -> None:
    assert {name for name in MODULES if floor(name) == len(FLOORS)} == {"dynid"}


def test_no_module_lies_loose_on_the_top_floor() -> None:
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_no_room_uses_one_above_or_beside_it() -> None:
    wrong = [
        f"{name} -> {other}"
        for name, others in USES.items()
        for other in others
        if other.startswith("dynid") and room(name) != room(other) and floor(name) <= floor(other)
    ]
    assert [one for one in wrong if not one.startswith("dynid -> ")] == []


def test_no_module_is_in_a_circle() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name in done or name not in USES:
            return
        for other in sorted(USES[name] - {"dynid"}):
            visit(other, (*path, name))
        done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("name", ["cli", "testing"])
def test_only_its_own_room_and_the_entrance_import(name: str) -> None:
    allowed = {"cli": {"dynid.__main__"}, "testing": set()}[name]
    users = {one for one, others in IMPORTS.items() if any(o.startswith(f"dynid.{name}") for o in others)}
    assert {one for one in users if not one.startswith((f"dynid.{name}", "dynid.cli"))} <= allowed


def test_heavy_packages_are_loaded_where_they_are_used() -> None:
    early = {
        f"{name} -> {other}"
        for name, others in IMPORTS.items()
        for other in others
        if other.split(".")[0] in OPTIONAL and not name.startswith("dynid.cli")
    }
    assert early == set()


def arrows() -> dict[str, set[str]]:
    """Rooms, and the other rooms that each imports."""
    found: dict[str, set[str]] = {room(name): set() for name in MODULES if room(name) not in ("", "__main__")}
    for name, others in USES.items():
        if room(name) in found:
            found[room(name)] |= {room(o) for o in others if o.startswith("dynid.")} & set(found) - {
                room(name)
            }
    return found


def heights(below: dict[str, set[str]]) -> dict[str, int]:
    """The floor of each room: one above the highest that it imports."""
    found: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in found:
            found[name] = 1 + max((height(other) for other in below[name]), default=0)
        return found[name]

    for name in below:
        height(name)
    return found


def picture() -> str:
    """The rooms as SVG, floor by floor; arrows that others imply are left out."""
    below = arrows()
    floors = heights(below)

    def reach(name: str) -> set[str]:
        return below[name].union(*(reach(other) for other in below[name]))

    direct = {name: below[name] - set().union(*(reach(o) for o in below[name])) for name in below}
    top, width, high, across = max(floors.values()), 900, 58, 150
    place: dict[str, tuple[float, float]] = {}
    for one in range(1, top + 1):
        names = sorted(name for name, at in floors.items() if at == one)
        for i, name in enumerate(names):
            place[name] = (width / 2 + (i - (len(names) - 1) / 2) * (across + 40), 40 + (top - one) * high)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top * high + 30}" '
        'font-family="sans-serif" font-size="14">',
        f'<rect width="{width}" height="{top * high + 30}" fill="#fff"/>',
    ]
    for name in sorted(direct):
        for other in sorted(direct[name]):
            (x, y), (u, v) = place[name], place[other]
            bend = 0 if v - y <= high else (60 if x >= width / 2 else -60)
            lines.append(
                f'<path d="M{x:.0f} {y + 15:.0f} C{x + bend:.0f} {y + 40:.0f} {u + bend:.0f} {v - 40:.0f} '
                f'{u:.0f} {v - 15:.0f}" fill="none" stroke="#9aa7b5"/>'
            )
    for name, (x, y) in sorted(place.items()):
        lines.append(
            f'<rect x="{x - across / 2:.0f}" y="{y - 15:.0f}" width="{across}" height="30" rx="4" fill="#eef3f8" '
            f'stroke="#5b7083"/><text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#1b2733">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def test_the_picture_of_the_rooms_is_up_to_date() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "draw it anew: python tests/test_architecture.py"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
