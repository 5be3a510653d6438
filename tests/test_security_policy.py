"""SECURITY.md: its promises have tests, and only the files that it names listen or load code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "studies" / "src").rglob("*.py")])
# Calls by the last name, with what they do; some only with an argument.
LISTENS = {
    "listen",
    "bind",
    "create_server",
    "HTTPServer",
    "TCPServer",
    "serve_forever",
    "LocalCluster",
    "Scheduler",
}
RUNS = {"eval", "exec", "exec_module", "system", "popen", "unsafe_load", "full_load"}
UNPICKLES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def uses(tree: ast.AST) -> set[str]:
    """What a module does that SECURITY.md has to name."""
    done: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = name_of(node)
            done |= {name} & (LISTENS | RUNS)
            for keyword in node.keywords:
                if keyword.arg in ("shell", "allow_pickle") and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    done.add(keyword.arg)
        elif isinstance(node, ast.Import):
            done |= {alias.name.split(".")[0] for alias in node.names} & UNPICKLES
        elif isinstance(node, ast.ImportFrom):
            done |= {(node.module or "").split(".")[0]} & UNPICKLES
    return done


def test_only_the_named_files_listen_or_load_code() -> None:
    named = set(re.findall(r"^- `(src/[^`]+)`", POLICY, re.MULTILINE))
    others = {
        str(path.relative_to(ROOT)): done
        for path in SOURCES
        if (done := uses(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert {path: done for path, done in others.items() if path not in named} == {}
    assert named == set(others)


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("socket.socket().listen()", "listen"),
        ("import pickle", "pickle"),
        ("eval('1')", "eval"),
        ("subprocess.run('x', shell=True)", "shell"),
        ("np.load('x', allow_pickle=flag)", "allow_pickle"),
    ],
)
def test_such_uses_are_seen(text: str, use: str) -> None:
    assert uses(ast.parse(text)) == {use}


def test_promises_have_tests() -> None:
    promised = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", POLICY)
    assert len(promised) >= 15
    missing = [
        f"{file}::{name}"
        for file, name in promised
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert missing == []
