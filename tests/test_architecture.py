"""The rooms of docs/design.md: no module uses a room above its own, and no imports go round in a circle.

Imports inside functions and for type checkers count like any other.
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
    ("testing",),
    ("cli",),
    ("__main__",),
)
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
