"""The rooms of docs/design.md: no module uses a room above its own, and no imports go round in a circle.

Imports inside functions and for type checkers count like any other. `python tests/test_architecture.py` draws the
rooms and what they import, docs/images/rooms.svg.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from dynid.terms import CATALOGUE

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dynid"
BENCH = Path(__file__).resolve().parents[1] / "bench" / "src" / "dynid_bench"
STUDIES = Path(__file__).resolve().parents[1] / "studies" / "src" / "dynid_studies"
# From the ground up; rooms of one floor do not import one another.
FLOORS = (
    ("base", "data"),
    ("spatial", "kernel"),
    ("robot",),
    ("recording",),
    ("log", "trajectories"),
    ("signals", "scene"),
    ("terms", "layouts"),
    ("rows", "dynamics", "feasible", "simulation"),
    ("factor",),
    ("estimate",),
    ("choose", "diagnosis"),
    ("run",),
    ("identification", "report"),
    ("exporters", "verbs"),
    ("testing", "papers", "lab", "formats", "excitation", "fleet", "app"),
    ("api",),
    ("cli",),
    ("__main__",),
)
# Rooms above the core that the core works without: they use its public names alone, and not one another. The core names
# them in registries and tables of commands, as texts.
SATELLITES = ("papers", "lab", "formats", "excitation", "fleet", "app")
# A room is held in one view; in rooms that are catalogues every entry has a file.
MOST_FILES = 14
CATALOGUES = {
    "terms",
    "cli",
    "verbs",
    "estimate",
    "robot",
    "log/readers",
    "excitation/formats",
    "exporters",
    "report/sections",
} | {
    "layouts"  # presets
}
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


# Parsed by the tests that need it, not by every process that only collects them.
@cache
def trees() -> dict[str, ast.Module]:
    """The source of every module."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


@cache
def loaded() -> dict[str, set[str]]:
    """What every module imports when it is loaded."""
    return {name: named(at_import(tree.body)) - {name} for name, tree in trees().items()}


@cache
def uses() -> dict[str, set[str]]:
    """What every module imports, within functions and for type checkers as well."""
    return {name: named(ast.walk(tree)) - {name} for name, tree in trees().items()}


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
        for name, others in uses().items()
        for other in others
        if other.startswith("dynid") and room(name) != room(other) and floor(name) <= floor(other)
    ]
    assert [one for one in wrong if not one.startswith("dynid -> ")] == []


def test_no_module_is_in_a_circle() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name in done or name not in uses():
            return
        for other in sorted(uses()[name] - {"dynid"}):
            visit(other, (*path, name))
        done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("name", ["cli", "testing"])
def test_only_its_own_room_and_the_entrance_import(name: str) -> None:
    allowed = {"cli": {"dynid.__main__"}, "testing": set()}[name]
    users = {one for one, others in loaded().items() if any(o.startswith(f"dynid.{name}") for o in others)}
    assert {one for one in users if not one.startswith((f"dynid.{name}", "dynid.cli"))} <= allowed


@cache
def shown(module: str) -> set[str]:
    """Public names of a room or of a module: its `__all__`."""
    return set(getattr(import_module(module), "__all__", ()))


def test_type_checkers_see_every_public_name_of_a_room() -> None:
    """Names that are loaded on first use are imported for type checkers, with an alias that marks them as public."""
    hidden = set()
    for name, tree in trees().items():
        if MODULES[name].name == "__init__.py":
            imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
            aliases = {alias.asname for node in imports for alias in node.names if alias.asname == alias.name}
            hidden |= {
                f"{name}.{public}" for public in shown(name) - set(vars(import_module(name))) - aliases
            }
    assert {public for public in hidden if room(public.rpartition(".")[0])} == set()


def test_columns_and_units_of_files_end_at_the_recording() -> None:
    """What works on measured motion asks for joints and signals, never for the columns that hold them."""
    reading = {"log", "layouts", "formats", "api", "cli", "recording"}
    mapped = {
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if room(name) not in reading
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "mapping")
        or (
            isinstance(node, ast.ImportFrom)
            and {alias.name for alias in node.names} & {"ChannelMap", "Conversion"}
        )
    }
    assert mapped == set()


def test_satellites_use_public_names_of_core_rooms_alone() -> None:
    private = {
        f"{name}: {node.module}.{alias.name}"
        for name, tree in trees().items()
        if room(name) in SATELLITES
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dynid.")
        for alias in node.names
        if room(str(node.module)) != room(name) and alias.name not in shown(str(node.module))
    }
    assert private == set()


def test_the_core_works_without_its_satellites() -> None:
    entrances = {*SATELLITES, "api", "cli", ""}
    users = {
        f"{name} -> {other}"
        for name, others in uses().items()
        for other in others
        if room(name) not in entrances and room(other) in SATELLITES
    }
    assert users == set()


def test_a_room_is_held_in_one_view() -> None:
    files: dict[str, int] = {}
    for path in SOURCE.rglob("*.py"):
        folder = path.parent.relative_to(SOURCE).as_posix()
        files[folder] = files.get(folder, 0) + 1
    assert {room: n for room, n in files.items() if n > MOST_FILES and room not in CATALOGUES} == {}


def test_heavy_packages_are_loaded_where_they_are_used() -> None:
    early = {
        f"{name} -> {other}"
        for name, others in loaded().items()
        for other in others
        if other.split(".")[0] in OPTIONAL and not name.startswith("dynid.cli")
    }
    assert early == set()


def test_the_benchmark_uses_public_names() -> None:
    private = set()
    for path in BENCH.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dynid":
                shown = getattr(import_module(str(node.module)), "__all__", ())
                private |= {f"{path.name}: {node.module}.{a.name}" for a in node.names if a.name not in shown}
    assert private == set()


def test_studies_use_public_names_and_no_files_of_their_own() -> None:
    private, files = set(), set()
    for path in STUDIES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dynid":
                shown = getattr(import_module(str(node.module)), "__all__", ())
                private |= {f"{path.name}: {node.module}.{a.name}" for a in node.names if a.name not in shown}
            elif isinstance(node, ast.Import | ast.ImportFrom):
                files |= {path.name for name in named([node]) if name.split(".")[0] == "tempfile"}
    assert (private, files) == (set(), set())


def arrows() -> dict[str, set[str]]:
    """Rooms, and the other rooms that each imports."""
    found: dict[str, set[str]] = {room(name): set() for name in MODULES if room(name) not in ("", "__main__")}
    for name, others in uses().items():
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


def terms_asked_for(tree: ast.Module) -> set[str]:
    """Terms whose class or name a module switches on.

    By class: isinstance, comparisons and tables of classes. By name: comparisons of something called term or name with
    a term's name, and constants of the module that list such names alone.
    """
    classes = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dynid.terms")
        for alias in node.names
    } & {kind.__name__ for kind in CATALOGUE.values()}

    def named_in(*nodes: ast.AST) -> set[str]:
        used = {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}
        return used & classes

    def texts_in(*nodes: ast.AST) -> set[str]:
        inside = (one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Constant))
        return {one.value for one in inside if isinstance(one.value, str)}

    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            found |= named_in(node.args[1])
        elif isinstance(node, ast.Compare):
            found |= named_in(node.left, *node.comparators)
            texts = texts_in(node) & set(CATALOGUE)
            if texts and ("term" in (code := ast.unparse(node)) or ".name" in code):
                found |= texts
        elif isinstance(node, ast.Dict):
            found |= named_in(*(key for key in node.keys if key is not None))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.Set | ast.List):
            texts = texts_in(node.value)
            found |= texts if texts and texts <= set(CATALOGUE) else set()
    return found


def test_nothing_outside_the_terms_switches_on_one_of_them() -> None:
    found = {
        (name.removeprefix("dynid.").replace(".", "/"), term)
        for name, tree in trees().items()
        if room(name) != "terms"
        for term in terms_asked_for(tree)
    }
    assert found == set()


def test_switches_are_seen() -> None:
    tree = ast.parse(
        "from dynid.terms import Viscous, Drift\nKINDS = ('coulomb', 'offset')\n"
        "def f(term, x):\n    return isinstance(x, Viscous) or term.name == 'drive_gain' or type(x) is Drift\n"
        "def g(x):\n    return x == 'spring'\n"
    )
    assert terms_asked_for(tree) == {"Viscous", "Drift", "drive_gain", "coulomb", "offset"}


SUPPRESSED = re.compile(r"#\s*(?:noqa: [A-Z0-9, ]*[A-Z0-9]|type: ignore\[[^]]*\])(.*)")


def test_every_warning_that_is_switched_off_has_a_reason_on_its_line() -> None:
    found = [
        f"{path.name}: {line.strip()}"
        for path in (*SOURCE.rglob("*.py"), *STUDIES.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if (one := SUPPRESSED.search(line)) and not re.search("[a-z]", one[1])
    ]
    assert found == []
