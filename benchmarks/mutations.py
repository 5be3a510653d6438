"""Small mistakes put into the code one at a time: does a test notice each.

    python benchmarks/mutations.py [--places 200] [--seed N] [--folder FOLDER] [--again] [--until HH:MM]

Places are lines of the rooms of ROOMS, as many from each as its share of their lines, in the order of a hash of
--seed and of what they say: a change of the code elsewhere leaves the draw as it is, and for a line that is gone the
next one stands in. Laws are written for what survived the sample of SEED; that of another seed, in a folder of its
own, says how many mistakes elsewhere they notice. One operator a place: a sign (+ for -, a minus dropped), an index
(one further), a factor (* for /, a number doubled), a transpose dropped (in einsum, two letters exchanged), a term
dropped from a sum, a comparison turned round (and `and` for `or`). Left out are texts, annotations, what is raised,
and numbers below 1e-3, which are tolerances that nothing derives. In C++ the same operators work on text, and the
kernel is built again; the next place stands in for a change that does not compile.

The tests meet a mutant in a copy of the checkout, in --folder. First every test runs once on a second copy in which
each function of ROOMS notes that it ran; how long each took is kept too. A mutant meets the tests that run its
function: those of its own room first, the quick ones before the slow ones, SECONDS of processor time at most, then
modules elsewhere that import its file. It is killed when a test fails, or tests end at their limit of processor time,
that does not without it. Results are kept in the folder, one line of JSON a mutant, and the same command goes on where
it stopped; --again runs survivors once more, with the tests as they are now.

Mutants that no test can notice are listed in EQUIVALENT, each with its proof. Prints the counts and every survivor.
Ends with 1 while fewer than 95 % of the others are killed, or more than 5 % are equivalent.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SEED = 20261122
ROOMS = ("terms", "rows", "factor", "estimate", "feasible", "simulation", "exporters", "kernel")
# Folders of tests beside those of ROOMS' own names; the nearest are traced first.
NEAR = {"simulation": "simulate", "exporters": "export"}
FIRST = (
    "covering",
    "kernel",
    "terms",
    "rows",
    "factor",
    "feasible",
    "simulate",
    "export",
    "dynamics",
    "estimate",
)
# Modules of the kernel through which its C++ files are called, where not through those of the equations.
DOORS = {
    "factors": ("factoring", "__init__"),
    "lines": ("__init__",),
    "sweeps": ("__init__",),
    "bodies": ("bodies",),
    "multibody": ("multibody",),
    "steps": ("multibody",),
}
# The kernel is built for one set of instructions with little optimisation, in a fraction of the time.
QUICK_BUILD = ((b"-O3", b"-O1"), (b'MATCHES "x86_64|AMD64"', b'STREQUAL "none"'))
WHOLE_PROGRAMS = ("test_docs", "test_architecture", "test_public", "test_demo", "test_paths")
LEFT_OUT = ("real", "studies", "docs", "layouts", "log", "robot", "bad_inputs", "signals")
SECONDS, FIRST_WAVE, MEMORY_GB = 40.0, 6.0, 8
SHARE_OF_A_FUNCTION = 0.1  # of those seconds, for the tests of one function through which C++ is called
FIRST_MODULES, IMPORT_SECONDS = 3, 0.3  # of tests; of processor time that importing one takes
TRACED_SECONDS = 60.0  # of processor time for a module of tests
LEAST_NUMBER = 1e-3
LEAST_SHARE = 0.95
NOTES = "_functions_that_ran"
ALIVE = ("survived", "unsteady test")
ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/dynid"

# file, function, operator, before, after, number: why no test can distinguish the two.
EQUIVALENT: dict[tuple[str, str, str, str, str, int], str] = {
    (
        "estimate/prior.py",
        "centre_limits",
        "index",
        "ten[0]",
        "ten[1]",
        1,
    ): "an inertia is known or not for a body as a whole: `unknown` goes by owner, `absent` by all ten numbers",
    (
        "estimate/simulated.py",
        "SimulationProblem._least",
        "sign",
        "-np.inf",
        "np.inf",
        0,
    ): "both infinities are no bound for Simulable.nearest; a stiffness, which alone is raised from it, multiplies "
    "theta - q, which no other column contains, so that its own lower bound stands there instead",
    (
        "estimate/kalman.py",
        "_Correction.of_missing",
        "index",
        "force[:, 0]",
        "force[:, 1]",
        0,
    ): "only the shape (S, s) is read, which is the same at each of the NODES = 4 nodes",
    (
        "simulation/mechanism.py",
        "Mechanism.springs",
        "comparison",
        "np.arange(s) < n",
        "np.arange(s) >= n",
        0,
    ): "the mask and its complement are both gone through, each entry of K and D is set once, in either order",
    (
        "lab/torque_replay.py",
        "in_mujoco",
        "index",
        "s.ddq[a:a + 1]",
        "s.ddq[a:a + 2]",
        0,
    ): "the acceleration that tree_motion returns is not used, and it is mapped apart from position and velocity",
    (
        "estimate/prior.py",
        "likely_bodies",
        "index",
        "ten[0]",
        "ten[1]",
        0,
    ): "the ten columns of a body have one owner, which alone is read",
    (
        "kernel/native/multibody.cpp",
        "",
        "comparison",
        "if (filled[at(k, i)] && filled[at(k, j)]) filled[at(i, j)] = filled[at(j, i)] = 1;",
        "if (filled[at(k, i)] || filled[at(k, j)]) filled[at(i, j)] = filled[at(j, i)] = 1;",
        0,
    ): "a larger pattern that elimination stays within as well: what is added is set to zero, is no coupled pair, so "
    "that nothing but products with these zeros is taken from it, and stays zero: the same values at more work",
}

# Mistakes that tests did not notice once, whatever the draw: file, text before, text after.
ONCE_UNNOTICED = (
    ("rows/torque.py", "mix[motor, j] / slopes[:, j]", "mix[motor, j] * slopes[:, j]"),
    ("rows/elastic.py", "wanted, samples.tau - known)", "wanted, samples.tau + known)"),
    ("rows/elastic.py", "samples.tau - known_motor)", "samples.tau - known)"),
    ("rows/energy.py", "-= work(known_working", "+= work(known_working"),
    ("rows/energy.py", "CausalFilter(self.cutoff, self.degree", "CausalFilter(self.cutoff, 1"),
    ("rows/energy.py", "CausalFilter(self.cutoff,", "CausalFilter(2 * self.cutoff,"),
    ("rows/energy.py", "energy.panels[0][:, start:]", "energy.panels[0][:, : len(samples) - start]"),
    ("rows/inertia.py", "g[:, j] - known[:, j]", "g[:, j] + known[:, j]"),
    ("rows/inertia.py", "M[:, i, j] - known[:, i]", "M[:, i, j] + known[:, i]"),
    ("terms/transmission.py", "robot.drive.motor_torque(samples.q, samples.tau)", "samples.tau"),
    ("terms/transmission.py", "drive.joint_torque(samples.q, known)", "drive.motor_torque(samples.q, known)"),
    (
        "terms/payload.py",
        "robot.tree_motion(samples.q, samples.dq, samples.ddq)",
        "samples.q, samples.dq, samples.ddq",
    ),
    ("terms/payload.py", "q, dq, ddq) @ robot.projection)", "q, dq, ddq)[:, : robot.n])"),
    ("terms/elastic.py", "R[:, joint] -= robot.projection", "R[:, joint] += robot.projection"),
    ("terms/elastic.py", "[body, :3, :3] @ robot.axis[body]", "[body, :3, :3].T @ robot.axis[body]"),
    (
        "papers/penalty.py",
        "inertia - mass[:, None, None] * square",
        "inertia + mass[:, None, None] * square",
    ),
    ("estimate/recursive.py", "-0.5 * seconds / self", "-seconds / self"),
    ("estimate/recursive.py", "(1.0 - kept) * seen", "(1.0 - kept**2) * seen"),
    ("papers/reveal.py", "M.transpose(0, 2, 1)", "M"),
)


@dataclass(frozen=True)
class Mutant:
    """file: from the package's folder.    number: of the same change in the same function, from 0."""

    file: str
    function: str
    operator: str
    before: str
    after: str
    number: int
    line: int

    @property
    def place(self) -> tuple[str, str, str, str, str, int]:
        """What a result or a proof is kept under: not the line, which any change of the file moves."""
        return self.file, self.function, self.operator, self.before, self.after, self.number

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.operator}: {self.before}  ->  {self.after}"


# --- Python -----------------------------------------------------------------------------------------------------------

COMPARED = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SUMS: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
PRODUCTS: dict[type, type] = {ast.Mult: ast.Div, ast.Div: ast.Mult}


def is_number(node: ast.AST) -> bool:
    """Whether a node is a number as it stands."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_sequence(node: ast.AST) -> bool:
    """Whether + joins rather than adds here."""
    return isinstance(node, (ast.Tuple, ast.List, ast.JoinedStr, ast.ListComp)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Operator and changed copy of one node, for every operator that fits it."""
    if isinstance(node, ast.BinOp):
        sequences = is_sequence(node.left) or is_sequence(node.right)
        if type(node.op) in SUMS and not sequences:
            yield "sign", with_(node, op=SUMS[type(node.op)]())
            yield "dropped term", copy.deepcopy(node.left)
        if type(node.op) in PRODUCTS and not sequences:
            yield "factor", with_(node, op=PRODUCTS[type(node.op)]())
            for side in ("left", "right"):
                number = getattr(node, side)
                if is_number(number) and abs(number.value) >= LEAST_NUMBER:
                    yield "factor", with_(node, **{side: ast.Constant(2 * number.value)})
    elif isinstance(node, ast.AugAssign):
        if type(node.op) in SUMS and not is_sequence(node.value):
            yield "sign", with_(node, op=SUMS[type(node.op)]())
            yield "dropped term", ast.Pass()
        if type(node.op) in PRODUCTS:
            yield "factor", with_(node, op=PRODUCTS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", copy.deepcopy(node.operand)
    elif isinstance(node, ast.Attribute) and node.attr == "T" and isinstance(node.ctx, ast.Load):
        yield "transpose", copy.deepcopy(node.value)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "transpose" and isinstance(node.func, ast.Attribute) and node.args:
            yield "transpose", copy.deepcopy(node.func.value)
        if name == "einsum" and node.args and isinstance(node.args[0], ast.Constant):
            text = str(node.args[0].value)
            first = re.match(r"(\.*)(\w*)(\w)(\w)(.*)", text)
            if first:
                a, b, c, d, rest = first.groups()
                changed = copy.deepcopy(node)
                changed.args[0] = ast.Constant(a + b + d + c + rest)
                yield "transpose", changed
        if name == "range":
            for i, argument in enumerate(node.args):
                if is_number(argument):
                    changed = copy.deepcopy(node)
                    changed.args[i] = ast.Constant(argument.value + 1)
                    yield "index", changed
        for i, keyword in enumerate(node.keywords):
            if keyword.arg == "axis" and is_number(keyword.value):
                changed = copy.deepcopy(node)
                changed.keywords[i].value = ast.Constant(1 - abs(keyword.value.value))
                yield "index", changed
    elif isinstance(node, ast.Subscript):
        for part in ast.walk(node.slice):
            if is_number(part) and type(part.value) is int:
                changed = copy.deepcopy(node)
                place = [id(x) for x in ast.walk(node.slice)].index(id(part))
                number = list(ast.walk(changed.slice))[place]
                number.value = part.value + 1  # type: ignore[attr-defined]  # a Constant
                yield "index", changed
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield "comparison", with_(node, ops=[COMPARED[type(node.ops[0])]()])
    elif isinstance(node, ast.BoolOp):
        yield "comparison", with_(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def with_(node: ast.AST, **fields: Any) -> ast.AST:
    """A copy of a node with other fields."""
    found = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def sites(tree: ast.Module) -> Iterator[tuple[ast.AST, str, str, Any]]:
    """Every node that may be changed, with its function, and where it hangs: parent, field (and place in a list)."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str, ast.AST, tuple[str, int | None]]]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "type_comment", "format_spec"):
                continue
            for place, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.JoinedStr)):
                    continue
                inner = function
                if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                    inner = f"{function}.{child.name}".lstrip(".")
                yield child, function, node, (field, place)
                yield from walk(child, inner)

    yield from walk(tree, "")  # type: ignore[misc]  # a generator that calls itself


def python_mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every change of a module, in order."""
    count: dict[tuple[str, ...], int] = {}
    for node, function, _, _ in sites(ast.parse(source)):
        for operator, changed in changes(node):
            before, after = ast.unparse(node), ast.unparse(ast.fix_missing_locations(changed))
            key = (function, operator, before, after)
            number = count.get(key, 0)
            count[key] = number + 1
            yield Mutant(file, function, operator, before, after, number, node.lineno)  # type: ignore[attr-defined]  # nodes with lines alone come here


def mutated_python(source: str, mutant: Mutant) -> str | None:
    """The module with the change; None where it is not found any more."""
    if mutant.operator == "text":
        return source.replace(mutant.before, mutant.after) if source.count(mutant.before) == 1 else None
    tree = ast.parse(source)
    seen = 0
    for node, function, parent, (field, place) in sites(tree):
        if function != mutant.function:
            continue
        for operator, changed in changes(node):
            same = operator == mutant.operator and ast.unparse(node) == mutant.before
            if not same or ast.unparse(ast.fix_missing_locations(changed)) != mutant.after:
                continue
            if seen == mutant.number:
                if place is None:
                    setattr(parent, field, changed)
                else:
                    getattr(parent, field)[place] = changed
                return ast.unparse(ast.fix_missing_locations(tree))
            seen += 1
    return None


# --- C++ --------------------------------------------------------------------------------------------------------------

TEXT_OPERATORS = (
    ("sign", r" \+ ", " - "),
    ("sign", r" - ", " + "),
    ("sign", r" \+= ", " -= "),
    ("sign", r" -= ", " += "),
    ("sign", r"(?<=[=(,] )-(?=\w)", ""),
    ("factor", r" \* (?=[\w(])", " / "),
    ("factor", r" / ", " * "),
    ("factor", r"\b0\.5\b", "1.0"),
    ("factor", r"\b2\.0\b", "4.0"),
    ("index", r"\[(\d)\]", lambda m: f"[{(int(m[1]) + 1) % 3}]"),
    ("index", r"\[(\w+)\]", lambda m: f"[{m[1]} + 1]"),
    ("transpose", r"\[3 \* (\w+) \+ (\w+)\]", lambda m: f"[3 * {m[2]} + {m[1]}]"),
    ("dropped term", r"^\s*[\w\[\]., *+>-]+ [+-]= [^;]*;", ";"),
    ("comparison", r" < ", " >= "),
    ("comparison", r" > ", " <= "),
    ("comparison", r" >= ", " < "),
    ("comparison", r" == ", " != "),
    ("comparison", r" && ", " || "),
)


def native_mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every change of a C++ file, line by line."""
    count: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("//")[0]
        if code.lstrip().startswith("#") or '"' in code or "template" in code or "using" in code:
            continue
        for operator, pattern, replacement in TEXT_OPERATORS:
            for found in re.finditer(pattern, code):
                new = replacement(found) if callable(replacement) else replacement
                after = code[: found.start()] + new + code[found.end() :]
                key = (operator, line.strip(), after.strip())
                place = count.get(key, 0)
                count[key] = place + 1
                yield Mutant(file, "", operator, line.strip(), after.strip(), place, number)


def mutated_native(source: str, mutant: Mutant) -> str | None:
    """The file with the change; None where it is not found any more."""
    lines = source.splitlines()
    places = [i for i, line in enumerate(lines) if line.strip() == mutant.before]
    if not places:
        return None
    nearest = min(places, key=lambda i: abs(i + 1 - mutant.line))
    lines[nearest] = mutant.after
    return "\n".join(lines) + "\n"


# --- drawing ----------------------------------------------------------------------------------------------------------


def sources(root: Path, room: str) -> list[Path]:
    """Files of a room."""
    folder = root / PACKAGE / room
    return sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".cpp", ".hpp"))


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """Every change of a file."""
    file, source = str(path.relative_to(root / PACKAGE)), path.read_text(encoding="utf-8")
    return list((python_mutants if path.suffix == ".py" else native_mutants)(file, source))


def hashed(seed: int, *parts: object) -> bytes:
    """What places and mutants are put in order by."""
    return hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()


def draw(root: Path, places: int, unfit: Collection[Any] = (), seed: int = SEED) -> list[Mutant]:
    """One mutant a place, rooms in proportion to their lines; places whose mutant is unfit are passed over."""
    lines: dict[str, int] = {}
    offered: dict[str, list[tuple[bytes, Mutant]]] = {}
    for room in ROOMS:
        lines[room], offered[room] = 0, []
        for path in sources(root, room):
            by_line: dict[int, list[Mutant]] = {}
            for mutant in mutants_of(root, path):
                by_line.setdefault(mutant.line, []).append(mutant)
            seen: dict[str, int] = {}
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                text = line.strip()
                lines[room] += bool(text)
                seen[text] = seen.get(text, 0) + 1
                if number in by_line:
                    own = min(by_line[number], key=lambda m: hashed(seed, *m.place))
                    offered[room].append((hashed(seed, path.relative_to(root), text, seen[text]), own))
    exact = {room: places * own / sum(lines.values()) for room, own in lines.items()}
    share = {room: int(x) for room, x in exact.items()}
    for room in sorted(ROOMS, key=lambda r: share[r] - exact[r])[: places - sum(share.values())]:
        share[room] += 1
    drawn = []
    for room in ROOMS:
        drawn += sorted((o for o in offered[room] if o[1].place not in unfit), key=lambda o: o[0])[
            : share[room]
        ]
    return [mutant for _, mutant in sorted(drawn, key=lambda o: o[0])]


# --- which tests run what ---------------------------------------------------------------------------------------------


def with_notes(source: str, file: str) -> str:
    """A module whose functions note that they ran, in a set that builtins hold."""
    tree = ast.parse(source)

    def walk(node: ast.AST, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                walk(child, around)
                continue
            name = f"{around}.{child.name}".lstrip(".")
            walk(child, name)
            if isinstance(child, ast.FunctionDef):
                note = ast.parse(f"{NOTES}.add({file + '::' + name!r})").body
                child.body[bool(ast.get_docstring(child)) : 0] = note

    walk(tree, "")
    first = 0
    for place, node in enumerate(tree.body[:5]):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            first = place + 1
    tree.body[first:first] = ast.parse(
        f"import builtins as _b\n{NOTES} = _b.__dict__.setdefault({NOTES!r}, set())"
    ).body
    return ast.unparse(ast.fix_missing_locations(tree))


class Tracer:
    """A pytest plugin: functions of ROOMS that each test runs, its processor time and its outcome."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.reached: set[str] = builtins.__dict__.setdefault(NOTES, set())
        self.shared: dict[str, set[str]] = {}
        self.tests: dict[str, dict[str, Any]] = {}
        self.failed: set[str] = set()
        self.started = 0.0

    def pytest_runtest_setup(self, item: Any) -> None:
        """Begins to listen."""
        self.reached.clear()
        self.started = time.process_time()

    def pytest_runtest_call(self, item: Any) -> None:
        """Notes what fixtures reached, which may serve further tests of the module."""
        self.shared.setdefault(str(item.nodeid).split("::")[0], set()).update(self.reached)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Ends it."""
        taken = time.process_time() - self.started
        self.tests[item.nodeid] = {"seconds": taken, "reached": sorted(self.reached)}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes what did not pass."""
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Writes the file."""
        for name in self.failed:
            self.tests.pop(name, None)
        for name, test in self.tests.items():
            test["reached"] = sorted(set(test["reached"]) | self.shared.get(name.split("::")[0], set()))
        self.out.write_text(json.dumps(self.tests), encoding="utf-8")


def test_files(root: Path, far: bool) -> list[Path]:
    """Modules of tests, the nearest first; far: those of other rooms as well."""
    found = [p for p in (root / "tests").rglob("test_*.py") if p.relative_to(root).parts[1] not in LEFT_OUT]
    found = [p for p in found if p.stem not in WHOLE_PROGRAMS]

    def rank(path: Path) -> tuple[int, str]:
        room = path.relative_to(root).parts[1]
        return (FIRST.index(room) if room in FIRST else len(FIRST)), str(path)

    return sorted((p for p in found if far or rank(p)[0] < len(FIRST)), key=rank)


ARGUMENTS = ("-x", "-n", "0", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line")


def naming(copy_: Path, mutant: Mutant, met: Sequence[Test]) -> list[str]:
    """Modules of tests of other rooms that import the mutant's file by name, less those that were met."""
    module = "dynid." + mutant.file.removesuffix(".py").replace("/", ".")
    known = {test.name.split("::")[0] for test in met}
    found = []
    for path in sorted((copy_ / "tests").rglob("test_*.py")):
        name = str(path.relative_to(copy_))
        if name in known or path.relative_to(copy_).parts[1] in LEFT_OUT or path.stem in WHOLE_PROGRAMS:
            continue
        if f"from {module} import" in path.read_text(encoding="utf-8"):
            found.append(name)
    return found


def steady(copy_: Path, folder: Path, entry: dict[str, Any]) -> bool:
    """Whether tests that failed, or ran too long, pass in the same time without the mistake; looked at once."""
    saved = folder / "steady.json"
    known = json.loads(saved.read_text(encoding="utf-8")) if saved.exists() else {}
    name, allowed = entry["killer"], max(entry["seconds"], SECONDS)
    if name not in known:
        # pytest cuts long names at blanks in its summary: then the whole function.
        whole = [n if n.endswith("]") else n.partition("[")[0] for n in name.split(" tests/")]
        whole = [n if n.startswith("tests/") else "tests/" + n for n in whole]

        def work() -> int:
            import pytest

            return int(pytest.main([*ARGUMENTS, *whole]))

        known[name] = forked(copy_, work, folder / "steady.log", allowed)[0] == 0
        saved.write_text(json.dumps(known), encoding="utf-8")
    return bool(known[name])


def marked(module: Path) -> str:
    """What a trace is kept for: this text of the module."""
    return hashlib.sha256(module.read_bytes()).hexdigest()[:16]


def traced(copy_: Path, folder: Path, until: float, paths: Sequence[Path]) -> None:
    """Runs the modules whose tests are not traced yet, one process each."""
    (folder / "traces").mkdir(exist_ok=True)
    left = []
    for path in paths:
        name = str(path.relative_to(copy_))
        mark = marked(path)
        out = folder / "traces" / (name.replace("/", "__") + ".json")
        if not out.with_suffix(".sha").exists() or out.with_suffix(".sha").read_text() != mark:
            left.append((name, mark, out))
    noted = folder / "noted"
    if left:
        refreshed(noted, notes=True)
        for library in (copy_ / PACKAGE / "kernel").glob("_native*.so"):
            shutil.copy2(library, noted / PACKAGE / "kernel")
    for name, mark, out in left:
        if time.time() > until:
            return

        def work(name: str = name, out: Path = out) -> int:
            import pytest

            def ended(*_: object) -> None:
                signal.signal(signal.SIGXCPU, signal.SIG_IGN)
                raise KeyboardInterrupt  # pytest keeps what it has

            signal.signal(signal.SIGXCPU, ended)
            plugin = Tracer(out)
            return int(pytest.main([a for a in ARGUMENTS if a != "-x"] + [name], plugins=[plugin]))

        forked(noted, work, folder / "trace.log", TRACED_SECONDS)
        if out.exists():
            out.with_suffix(".sha").write_text(mark)


@dataclass(frozen=True)
class Test:
    """seconds: of processor.    reached: functions that it runs, "FILE::NAME"."""

    name: str
    seconds: float
    reached: frozenset[str]


def tests_of(folder: Path, copy_: Path) -> list[Test]:
    """Tests that pass, from the traces of modules as they are now."""
    found = []
    for path in sorted((folder / "traces").glob("*.json")):
        module, mark = copy_ / path.stem.replace("__", "/"), path.with_suffix(".sha")
        if module.is_file() and mark.is_file() and mark.read_text() == marked(module):
            for name, test in json.loads(path.read_text(encoding="utf-8")).items():
                found.append(Test(name, test["seconds"], frozenset(test["reached"])))
    return found


def quickest_by_function(tests: Sequence[Test], doors: tuple[str, ...]) -> frozenset[str]:
    """The quickest tests of every function through which C++ is called: which of them runs a line is not known."""
    found: set[str] = set()
    used: dict[str, float] = {}
    for test in sorted(tests, key=lambda t: (t.seconds, t.name)):
        for function in test.reached:
            if function.startswith(doors):
                used[function] = used.get(function, 0.0) + test.seconds
                if used[function] <= SHARE_OF_A_FUNCTION * SECONDS:
                    found.add(test.name)
    return frozenset(found)


def chosen(mutant: Mutant, tests: Sequence[Test], seconds: float) -> list[Test]:
    """The tests that a mutant meets, in order."""
    room = mutant.file.split("/")[0]
    own = f"{mutant.file}::{mutant.function}"
    if mutant.file.endswith(".py"):
        met = [t for t in tests if own in t.reached] if mutant.function else []
        if not met:  # run at import: whatever uses the file
            met = [t for t in tests if any(x.startswith(mutant.file + "::") for x in t.reached)]
        leading = frozenset[str]()
    else:
        doors = tuple(f"kernel/{name}" for name in DOORS.get(Path(mutant.file).stem, ("__init__", "adjoint")))
        met = [t for t in tests if any(x.startswith(doors) for x in t.reached)]
        leading = quickest_by_function(met, doors)
    near = f"tests/{NEAR.get(room, room)}/"
    stem = Path(mutant.file).stem

    def module(test: Test) -> str:
        return test.name.split("::")[0]

    def distance(name: str) -> int:
        return (
            0
            if stem in name
            else 1
            if name.startswith(near)
            else 2
            if name.startswith("tests/covering/")
            else 3
        )

    # What takes longest of quick tests is to import their modules: those of a module stay together.
    quickest: dict[str, float] = {}
    for test in met:
        quickest[module(test)] = min(test.seconds, quickest.get(module(test), float("inf")))
    met.sort(
        key=lambda t: (
            t.name not in leading,
            distance(module(t)),
            round(quickest[module(t)], 1),
            module(t),
            t.seconds,
            t.name,
        )
    )
    found, used, opened = [], 0.0, set()
    for test in met:
        cost = test.seconds + IMPORT_SECONDS * (module(test) not in opened)
        if used + cost <= seconds:
            used += cost
            opened.add(module(test))
            found.append(test)
    return found


# --- running ----------------------------------------------------------------------------------------------------------


def preload() -> None:
    """Heavy packages of others, imported once before the forks."""
    for name in (
        "numpy", "scipy.optimize", "scipy.signal", "scipy.linalg", "scipy.spatial", "scipy.stats", "scipy.sparse",
        "pytest", "pyarrow.parquet", "pyarrow.csv", "pydantic", "typer", "rich",
        "jinja2", "pinocchio", "mujoco", "clarabel",
    ):  # fmt: skip
        try:
            __import__(name)
        except ImportError as missing:
            print("not preloaded:", missing)


def forked(root: Path, work: Any, log: Path, seconds: float) -> tuple[int, float]:
    """Exit code of `work` in a child, and its processor time; -9 for one that took too long."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # A session of its own: whatever it starts ends with it.
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_GB << 30, MEMORY_GB << 30))
            os.chdir(root)
            # Byte code of a mutant is overwritten by that of the file as it was.
            sys.dont_write_bytecode = False
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            os.environ["PYTHONPATH"] = f"{root}/src:{root}/studies/src"
            sys.path[:0] = [str(root), str(root / "src"), str(root / "studies/src")]
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(out, 1)
            os.dup2(out, 2)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    began = time.monotonic()
    try:
        while True:
            done, status, used = os.wait4(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() - began > 6 * seconds:  # asleep, or a machine with much else to do
                os.killpg(child, 9)
                _, status, used = os.wait4(child, 0)
                break
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, 9)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def meets(
    copy_: Path, folder: Path, tests: Sequence[Test], modules: Sequence[str], seconds: float
) -> tuple[str, float, str]:
    """Outcome ("killed", "timeout", "survived"), processor time and the test that failed."""
    first = list(dict.fromkeys(t.name.split("::")[0] for t in tests))[:FIRST_MODULES]
    quick, used, total = set(), 0.0, 0.0
    for test in sorted((t for t in tests if t.name.split("::")[0] in first), key=lambda t: t.seconds):
        used += test.seconds
        if used <= FIRST_WAVE or not quick:
            quick.add(test.name)
    waves = [
        ([t.name for t in wave], 2 * sum(t.seconds for t in wave) + 20.0)
        for wave in ([t for t in tests if t.name in quick], [t for t in tests if t.name not in quick])
    ]
    for names, allowed in [*waves, *(([name], seconds) for name in modules)]:
        if not names:
            continue

        def work(names: list[str] = names) -> int:
            import pytest

            return int(pytest.main([*ARGUMENTS, *names]))

        code, spent = forked(copy_, work, folder / "mutant.log", min(allowed, 2 * SECONDS))
        total += spent
        late = code in (-signal.SIGKILL, -signal.SIGXCPU)
        if late and names[0] in modules:
            continue  # how long it takes is not known
        if late:
            return "timeout", total, " ".join(names)
        if code != 0:
            text = (folder / "mutant.log").read_text(encoding="utf-8", errors="replace")
            named = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M)
            return "killed", total, named[0] if named else " ".join(names)
    return "survived", total, ""


def built(copy_: Path) -> bool:
    """Builds the native kernel of the copy; whether that went well."""
    build = copy_ / "build"
    if not build.exists():
        options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]
        cmake = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", *options]
        subprocess.run(cmake, cwd=copy_, check=True, capture_output=True)
    made = subprocess.run(["cmake", "--build", "build"], cwd=copy_, check=False, capture_output=True)  # noqa: S607  # cmake, wherever it is
    if made.returncode:
        return False
    (library,) = build.glob("_native*.so")
    target = copy_ / PACKAGE / "kernel" / library.name
    shutil.copy2(library, target.with_suffix(".new"))
    target.with_suffix(".new").replace(target)
    return True


def once_unnoticed() -> list[Mutant]:
    """The listed ones, each in the function that it stands in."""
    found = []
    for file, before, after in ONCE_UNNOTICED:
        source = (ROOT / PACKAGE / file).read_text(encoding="utf-8")
        if source.count(before) != 1:
            print(f"not there once: {file}: {before}")
            continue
        line = source[: source.index(before)].count("\n") + 1
        around = [m for m in python_mutants(file, source) if m.line <= line]
        function = max(around, key=lambda m: m.line).function if around else ""
        found.append(Mutant(file, function, "text", before, after, 0, line))
    return found


def run_one(
    copy_: Path, folder: Path, mutant: Mutant, tests: Sequence[Test], seconds: float = SECONDS
) -> dict[str, Any]:
    """Puts the mistake in, meets the tests, takes it out."""
    path = copy_ / PACKAGE / mutant.file
    source, stamp = path.read_bytes(), path.stat()
    mutate = mutated_python if path.suffix == ".py" else mutated_native
    changed = mutate(source.decode(), mutant)
    entry = asdict(mutant)
    if changed is None:
        return entry | {"outcome": "gone"}
    met = chosen(mutant, tests, seconds)
    modules = naming(copy_, mutant, met) if seconds >= SECONDS else []
    caches = list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")) if path.suffix == ".py" else []
    caches += [] if path.suffix == ".py" else list((copy_ / PACKAGE / "kernel").glob("_native*.so"))
    kept = [(cache, cache.read_bytes()) for cache in caches]
    try:
        if path.suffix == ".py":
            for cache in caches:
                cache.unlink()
        path.write_text(changed, encoding="utf-8")
        if path.suffix != ".py":
            (copy_ / "changed").touch()  # stays where even this process is ended
        if path.suffix != ".py" and not built(copy_):
            return entry | {"outcome": "not compiled"}
        outcome, spent, killer = meets(copy_, folder, met, modules, seconds)
    finally:
        path.write_bytes(source)
        if path.suffix == ".py":
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        for cache, content in kept:  # a new time of a C++ file is enough for it to be compiled again
            cache.with_suffix(".kept").write_bytes(content)
            cache.with_suffix(".kept").replace(cache)
        (copy_ / "changed").unlink(missing_ok=True)
    return entry | {
        "outcome": outcome,
        "tests": len(met),
        "seconds": round(spent, 1),
        "killer": killer,
    }


def refreshed(copy_: Path, notes: bool = False) -> None:
    """Brings a copy to the state of the checkout: files that git knows or would add; notes: in ROOMS' functions."""
    git = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
    names = [n for n in listed.stdout.splitlines() if (ROOT / n).is_file()]
    for name in names:
        content, target = (ROOT / name).read_bytes(), copy_ / name
        file = name.removeprefix(PACKAGE + "/")
        if notes and file.startswith(tuple(room + "/" for room in ROOMS)) and name.endswith(".py"):
            content = with_notes(content.decode(), file).encode()
        if name == "CMakeLists.txt":
            for before, after in QUICK_BUILD:
                content = content.replace(before, after)
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for old in (copy_ / "tests").rglob("test_*.py"):
        if str(old.relative_to(copy_)) not in names:
            old.unlink()


def table(drawn: Sequence[Mutant], results: dict[Any, dict[str, Any]]) -> bool:
    """Prints the counts; whether enough are killed and few enough equivalent."""
    count = {
        "killed": 0,
        "timeout": 0,
        "survived": 0,
        "equivalent": 0,
        "unsteady test": 0,
    }
    survivors = []
    for mutant in drawn:
        entry = results.get(mutant.place)
        if entry is None:
            continue
        outcome = entry["outcome"]
        if outcome == "survived" and mutant.place in EQUIVALENT:
            outcome = "equivalent"
        count[outcome] += 1
        if outcome == "survived":
            survivors.append(mutant)
    run = sum(count.values())
    allowed = count["equivalent"] <= (1 - LEAST_SHARE) * len(drawn)
    killed, alive = count["killed"] + count["timeout"], count["survived"] + count["unsteady test"]
    share = killed / max(killed + alive, 1)
    print(f"drawn {len(drawn)}, run {run}: " + ", ".join(f"{v} {k}" for k, v in count.items()))
    print(f"killed {100 * share:.1f} % of {killed + alive}; processor time "
          f"{sum(e.get('seconds', 0.0) for e in results.values()) / 60:.1f} min")  # fmt: skip
    for mutant in survivors:
        print("survived:", mutant)
    return share >= LEAST_SHARE and allowed


def main() -> int:
    """Goes on with the campaign and prints its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw")
    parser.add_argument("--folder", type=Path, default=Path("mutations"))
    parser.add_argument("--far", action="store_true", help="also tests of rooms above those of ROOMS")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="of tests that a mutant meets at most; less than the default: a first look, its survivors for --again",
    )
    parser.add_argument("--traced", action="store_true", help="with the tests that are traced so far")
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument(
        "--at", nargs="*", default=[], help="only this line's mutants, FILE:LINE from src/dynid"
    )
    parser.add_argument("--unnoticed", action="store_true", help="only those of ONCE_UNNOTICED")
    parser.add_argument("--until", default="", help="HH:MM UTC at which to stop")
    parser.add_argument("--table", action="store_true", help="print the counts only")
    options = parser.parse_args()
    until = float("inf")
    if options.until:
        hour, minute = map(int, options.until.split(":"))
        until = time.time() // 86400 * 86400 + 3600 * hour + 60 * minute
        until += 86400 * (until < time.time())
    folder = options.folder.resolve()
    copy_ = folder / "copy"
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "results.jsonl"
    results: dict[Any, dict[str, Any]] = {}
    for line in out.read_text(encoding="utf-8").splitlines() if out.exists() else []:
        entry = json.loads(line)
        results[Mutant(**{k: entry[k] for k in Mutant.__dataclass_fields__}).place] = entry

    def unfit() -> set[Any]:
        return {place for place, entry in results.items() if entry["outcome"] == "not compiled"}

    drawn = draw(ROOT, options.places, unfit(), options.seed)

    if not options.table:
        os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        refreshed(copy_)
        sys.path[:] = [p for p in sys.path if not p.startswith(str(ROOT))]
        preload()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was put in is taken out
        stale = (copy_ / "changed").exists() or not list((copy_ / PACKAGE / "kernel").glob("_native*.so"))
        if stale and not built(copy_):
            raise SystemExit("the native kernel could not be built")
        if not options.traced:
            traced(copy_, folder, until, test_files(copy_, options.far))
        tests = tests_of(folder, copy_)
        passing = {test.name for test in tests}
        control = sorted(tests, key=lambda t: (t.seconds, t.name))[:20]
        if meets(copy_, folder, control, (), SECONDS)[0] != "survived":
            raise SystemExit(f"tests fail without any mistake: see {folder / 'mutant.log'}")
        print(f"{len(tests)} tests, {sum(t.seconds for t in tests):.0f} s", flush=True)
        if options.at or options.unnoticed:
            wanted = once_unnoticed() if options.unnoticed else []
            for place in options.at:
                file, line = place.split(":")
                own = mutants_of(ROOT, ROOT / PACKAGE / file)
                wanted += [m for m in own if m.line == int(line)]
            for mutant in wanted:
                entry = run_one(copy_, folder, mutant, tests, options.seconds)
                print(entry["outcome"], entry.get("seconds"), entry.get("killer"), mutant, flush=True)
            return 0
        alive = {place for place, entry in results.items() if entry["outcome"] in ALIVE}
        again = (
            {m.place for m in drawn if m.place in alive and m.place not in EQUIVALENT}
            if options.again
            else set()
        )
        while time.time() < until:
            left = [m for m in drawn if m.place not in results or m.place in again]
            if not left:
                break
            mutant = min(left, key=lambda m: not m.file.endswith(".py"))  # those that are compiled come last
            again.discard(mutant.place)
            entry = run_one(copy_, folder, mutant, tests, options.seconds)
            doubtful = entry["outcome"] in ("killed", "timeout") and entry["killer"] not in passing
            if doubtful and not steady(copy_, folder, entry):
                entry["outcome"] = "unsteady test"
            results[mutant.place] = entry
            if entry["outcome"] == "not compiled":
                drawn = draw(ROOT, options.places, unfit(), options.seed)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
            print(entry["outcome"], entry.get("seconds"), entry.get("killer"), mutant, flush=True)
    return int(not table(drawn, results))


if __name__ == "__main__":
    sys.exit(main())
