"""Names and words that a reader has to translate do not come back. A reminder: the reader is the judge."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dynid"

# Rooms whose names and texts are not yet reviewed. A review takes its room off this list.
NOT_REVIEWED = {"diagnosis"}

# Names that say nothing of the value.
NAMES = {"one", "ones", "found", "own", "it", "what", "such", "said", "told", "held"}

# Keywords that callers outside of dynid write: the part "what was found" of every message.
KEYWORDS = {
    ("base/errors.py", "DynidError.__init__", "found"),
    ("base/diagnostics.py", "Diagnostics.claim", "found"),
    ("terms/residual_tests.py", "Notice", "found"),
}

# Words with a term of the field in their place, by the pattern that finds their forms.
WORDS = {
    r"mend(s|ed|ing)?": "fix, correct",
    r"askew": "misaligned, tilted",
    r"slowness": "delay, lag",
    r"stand-ins?": "substitute",
    r"turn(s|ed|ing)? round": "reverse",
    r"sought": "searched, looked for",
    r"leav(e|es|ing) open|left open": "not determined, ambiguous",
    r"unseen": "held-out",
}
RETIRED = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# Keys, codes and the targets of links, which contain codes.
CODE = re.compile(r"`[^`]*`|(?<=\])\([^)]*\)")
# A line `name : type` of a NumPy docstring names a parameter of the code.
PARAMETER = re.compile(r"^\s*[\w, *]+ : ", re.MULTILINE)

REVIEWED_FILES = [
    path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in NOT_REVIEWED
]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, qualifier: str = "") -> Iterator[tuple[str, Function]]:
    """Every function under a node, nested ones too, with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{qualifier}{child.name}", child
        inside = f"{child.name}." if isinstance(child, Function | ast.ClassDef) else ""
        yield from functions(child, qualifier + inside)


def bound_names(function: Function) -> Iterator[tuple[str, int]]:
    """Names that a function binds and their lines, without those of functions and classes inside it."""
    nodes = list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.alias):
            yield node.asname or node.name, node.lineno
        elif isinstance(node, Function | ast.ClassDef):
            yield node.name, node.lineno
            continue
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno
        nodes.extend(ast.iter_child_nodes(node))


def cryptic_names(source: str, file: str) -> list[str]:
    """Places where a function binds a name that does not say what the value is."""
    return [
        f"{file}:{line} {qualified}: {name}"
        for qualified, function in functions(ast.parse(source))
        for name, line in bound_names(function)
        if name in NAMES and (file, qualified, name) not in KEYWORDS
    ]


def texts(source: str) -> Iterator[tuple[int, str]]:
    """String constants with a blank, docstrings and comments, with their lines. Keys and codes have no blank."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, PARAMETER.sub("", node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def retired_words(text: str) -> list[str]:
    """Retired words of a text outside of code blocks and backticks, also across the end of a line."""
    plain = CODE.sub("", FENCE.sub("", text))
    return [" ".join(match[0].split()) for match in RETIRED.finditer(re.sub(r"\s+", " ", plain))]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(values):\n    return [one for one in values]", 1),
        ("def f(found):\n    def g():\n        own = found\n    return g", 2),
        ("def f():\n    return lambda it: it", 1),
        ("def f():\n    try:\n        pass\n    except ValueError as what:\n        pass", 1),
        ("class A:\n    found: int = 0\n", 0),
        ("class DynidError:\n    def __init__(self, found): ...", 0),
    ],
)
def test_the_check_of_names_sees_every_binding(source: str, count: int) -> None:
    assert len(cryptic_names(source, "base/errors.py")) == count


def test_the_check_of_words_leaves_out_code() -> None:
    assert retired_words("the error on unseen\nmotion was sought") == ["unseen", "sought"]
    assert retired_words("it turned\nround") == ["turned round"]
    assert retired_words("the key `unseen` and\n```python\nunseen = 1\n```\nare code; amend, recommend") == []
    assert list(texts('x = {"unseen": 1}  # a mend')) == [(1, "# a mend")]


def test_locals_and_parameters_say_what_they_are() -> None:
    places = [
        place
        for path in REVIEWED_FILES
        for place in cryptic_names(path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix())
    ]
    assert places == []


def test_exceptions_are_still_needed() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert rooms >= NOT_REVIEWED
    for file, qualified, name in KEYWORDS:
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        assert name in {bound for bound, _ in bound_names(dict(functions(tree))[qualified])}


def test_texts_of_the_package_have_no_retired_words() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in REVIEWED_FILES
        for line, text in texts(path.read_text(encoding="utf-8"))
        for word in retired_words(text)
    ]
    assert places == []


def test_pages_have_no_retired_words() -> None:
    places = [
        f"{page.relative_to(ROOT)}: {word}"
        for page in PAGES
        for word in retired_words(page.read_text(encoding="utf-8"))
    ]
    assert places == []
