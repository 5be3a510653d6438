"""Parts of the baseline: the command line run in this process, keys of JSON, stored files, comparison of both."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid.cli import main as cli

STORED = Path(__file__).parent / "stored"
# JSON objects whose keys are data: names of parameters, files, packages, or the number of a set of samples.
KEYED_BY_DATA = {"parameters", "logs", "validation_logs", "packages", "residuals"}
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")


@dataclass(frozen=True)
class Ended:
    """Exit code and what was printed on standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object that --json printed."""
        return dict(json.loads(self.out))


def command(*words: object) -> Ended:
    """Runs `dynid WORDS` in this process."""
    arguments, handlers = sys.argv, {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["dynid", *map(str, words)]
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as leaving:
        code = leaving.code
    finally:
        sys.argv = arguments
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Ended(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


def keys_of(value: Any) -> list[str]:
    """Paths of all keys of a JSON value, sorted: `a.b`, `a[].b` in lists, `a.*` where the keys are data."""
    return sorted(set(_keys(value, "")))


def _keys(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        by_data = path.rpartition(".")[2] in KEYED_BY_DATA
        for key, inner in value.items():
            inner_path = ".".join(filter(None, (path, "*" if by_data else key)))
            yield inner_path
            yield from _keys(inner, inner_path)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{path}[]")


def stored(name: str) -> Any:
    """A stored JSON file, compressed or not."""
    return json.loads(read_text(f"{name}.json"))


def store(name: str, data: Any, packed: bool = False) -> None:
    """Writes a JSON file of the baseline: one line an entry, so that differences between versions can be read."""
    write_text(f"{name}.json", _lines(data, 0) + "\n", packed)


def read_text(name: str) -> str:
    """A stored file, by its name without the ending of a compressed one."""
    path = STORED / name
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()).decode()


def write_text(name: str, text: str, packed: bool = False) -> None:
    """Writes a stored file; the same text gives the same bytes, compressed or not."""
    path = STORED / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if packed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    else:
        path.write_text(text, encoding="utf-8")


def _lines(data: Any, level: int) -> str:
    plain = json.dumps(data, allow_nan=False)
    if not data or not isinstance(data, dict | list) or len(plain) + level <= 100:
        return plain
    indent = " " * level
    if isinstance(data, dict):
        parts = [f"{json.dumps(key)}: {_lines(value, level + 1)}" for key, value in data.items()]
        opening, closing = "{", "}"
    elif any(isinstance(one, list) for one in data) and not any(isinstance(one, dict) for one in data):
        parts = [json.dumps(one, allow_nan=False, separators=(",", ":")) for one in data]
        opening, closing = "[]"
    else:
        parts, (opening, closing) = [_lines(one, level + 1) for one in data], "[]"
    inner = f",\n{indent}".join(parts)
    return f"{opening}\n{indent}{inner}\n{closing}"


def differences(now: Any, before: Any, path: str = "") -> list[str]:
    """Where two JSON values differ, each with its path; strings of lists are compared as sets, then in their order."""
    if isinstance(now, dict) and isinstance(before, dict):
        lines = [f"{path}.{key}: gone (was {before[key]!r:.120})" for key in before if key not in now]
        lines += [f"{path}.{key}: new ({now[key]!r:.120})" for key in now if key not in before]
        for key in before:
            lines += differences(now[key], before[key], f"{path}.{key}") if key in now else []
        return lines
    if isinstance(now, list) and isinstance(before, list) and now != before:
        texts = all(isinstance(one, str) for one in (*now, *before))
        if not texts:
            return [f"{path}: now {now!r:.300}, was {before!r:.300}"]
        lines = [f"{path}: gone: {one}" for one in before if one not in now]
        lines += [f"{path}: new: {one}" for one in now if one not in before]
        return lines or [f"{path}: another order: now {now!r:.300}, was {before!r:.300}"]
    return [] if now == before else [f"{path}: now {now!r:.300}, was {before!r:.300}"]


def expect_none(lines: Sequence[str]) -> None:
    """Fails with all differences, and says what to do where they are wanted."""
    assert not lines, "\n".join(
        (*lines, "wanted? python -m tests.baseline.write PART, see tests/baseline/README.md")
    )


def text_differences(now: str, before: str, relative: float, absolute: float) -> list[str]:
    """Where two texts differ: words exactly, numbers beyond a relative and an absolute tolerance."""
    lines_now, lines_before = now.splitlines(), before.splitlines()
    if len(lines_now) != len(lines_before):
        return [f"{len(lines_now)} lines, were {len(lines_before)}"]
    wrong = []
    for number, (line_now, line_before) in enumerate(zip(lines_now, lines_before, strict=True), 1):
        values_now, values_before = (
            [float(text) for text in NUMBER.findall(line)] for line in (line_now, line_before)
        )
        same_words = NUMBER.sub("#", line_now) == NUMBER.sub("#", line_before)
        if not same_words or not _close(values_now, values_before, relative, absolute):
            wrong.append(f"line {number}: now {line_now.strip():.160}\n    was {line_before.strip():.160}")
    return wrong


def _close(now: Iterable[float], before: Iterable[float], relative: float, absolute: float) -> bool:
    return all(abs(a - b) <= max(relative * abs(b), absolute) for a, b in zip(now, before, strict=True))
