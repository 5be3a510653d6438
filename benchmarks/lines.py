"""Size of the package by room: lines of code, docstrings and comments, documented names, and numbers.

python benchmarks/lines.py [FOLDER]: a table for src/dynid, or for a folder like it. Code is a line that holds a token
which is neither a comment nor part of a docstring; blank lines count nowhere. `named` counts assignments at the top of
a module that hold a number, `literals` the numbers inside functions other than -1 to 3 and 0.5.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dynid"
NO_CODE = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
}
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Counts and halves, which are no choice of anybody's; -1 is 1 with a sign.
PLAIN_NUMBERS = (0, 1, 2, 3, 0.5)
COLUMNS = ("files", "code", "docstrings", "comments", "public", "documented", "named", "literals")


def numbers(node: ast.AST) -> list[ast.Constant]:
    """Numeric constants below a node."""
    constants = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
    return [part for part in constants if type(part.value) in (int, float)]


def named_numbers(tree: ast.Module) -> int:
    """Assignments at the top of a module whose value holds a number."""
    assignments = (node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value)
    return sum(bool(numbers(node.value)) for node in assignments)


def literal_numbers(tree: ast.Module) -> int:
    """Numbers inside functions other than PLAIN_NUMBERS, each counted once."""
    functions = (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))
    inside = {id(constant): constant for node in functions for constant in numbers(node)}
    return sum(constant.value not in PLAIN_NUMBERS for constant in inside.values())


def measured(text: str) -> dict[str, int]:
    """Counts of one file, by the names of COLUMNS; public: modules, classes and functions without a leading underscore.

    Functions within functions and methods of private classes count as private.
    """
    docstrings: set[int] = set()
    public = documented = 0

    def visit(node: ast.AST, shown: bool) -> None:
        nonlocal public, documented
        if isinstance(node, DEFINITIONS):
            shown = shown and not getattr(node, "name", "").startswith("_")
            has_docstring = ast.get_docstring(node) is not None
            if has_docstring:
                docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
            public, documented = public + shown, documented + (shown and has_docstring)
        inside = shown and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    tree = ast.parse(text)
    visit(tree, True)
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    lengths = (1, len(code), len(docstrings), len(comments - code))
    counts = (*lengths, public, documented, named_numbers(tree), literal_numbers(tree))
    return dict(zip(COLUMNS, counts, strict=True))


def rooms(source: Path) -> dict[str, dict[str, int]]:
    """Counts by room; "" holds the files that lie in none."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        room = counts[parts[0] if len(parts) > 1 else ""]
        for name, count in measured(path.read_text(encoding="utf-8")).items():
            room[name] += count
    return counts


def main() -> None:
    """Prints the table, rooms with most code first."""
    counts = rooms(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
    rows = sorted(counts.items(), key=lambda row: -row[1]["code"])
    total = {name: sum(room[name] for room in counts.values()) for name in COLUMNS}
    print(f"{'room':16}" + "".join(f"{name:>11}" for name in COLUMNS))
    for name, room in [*rows, ("all", total)]:
        print(f"{name or '-':16}" + "".join(f"{room[column]:11}" for column in COLUMNS))


if __name__ == "__main__":
    main()
