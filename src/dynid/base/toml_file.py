"""TOML files as they stand: their data, and the line of every key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place, RefusedError
from dynid.base.input_file import read_bytes

Key = str | int
Lines = dict[tuple[Key, ...], int]
MAX_TOML_BYTES = 4_000_000
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'|#[^\n]*|[A-Za-z0-9_+:\-]+|\s|.',
    re.DOTALL,
)


def read_toml(path: str | Path) -> tuple[dict[str, Any], Lines]:
    """Reads a TOML file: its data, and the line of every key (by path, array elements by number).

    Raises InputError with file and line if it is missing, not UTF-8 or not TOML, RefusedError if it is larger
    than 4 MB or nested too deeply.
    """
    place = Place(file=str(path))
    data = read_bytes(path, "a TOML file", MAX_TOML_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "encoding",
            found=f"byte {error.start} is not UTF-8",
            expected="UTF-8 text",
            place=Place(file=str(path), line=data.count(b"\n", 0, error.start) + 1),
        ) from error
    try:
        return tomllib.loads(text), key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text, Path(path)) from error
    except RecursionError as error:
        raise RefusedError(
            "toml-depth", found="arrays or tables nested too deeply", expected="a few levels", place=place
        ) from error
    except ValueError as error:
        raise InputError("toml-syntax", found=str(error), expected="TOML", place=place) from error


def _syntax_error(error: tomllib.TOMLDecodeError, text: str, path: Path) -> InputError:
    where = re.search(r"line (\d+), column (\d+)", str(error))
    line, column = (int(where[1]), int(where[2])) if where else (text.rstrip("\n").count("\n") + 1, None)
    return InputError(
        "toml-syntax",
        found=re.sub(r"\s*\(at .*\)", "", str(error)),
        expected="TOML",
        place=Place(file=str(path), line=line, column=column),
    )


def key_lines(text: str) -> Lines:
    """Line numbers, counted from 1, of the tables, keys and elements of arrays of a valid TOML text.

    Keys inside inline tables are left out: `line_of` gives the line of the table then.
    """
    lines: Lines = {}
    counts: dict[tuple[Key, ...], int] = {}
    table: tuple[Key, ...] = ()
    for number, tokens in _statements(text):
        words = [token for token, _ in tokens]
        if words[0] == "[":
            double = len(words) > 1 and words[1] == "["
            table = _resolved(_parts(words), counts)
            if double:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines[table] = number
        elif "=" in words:
            split = words.index("=")
            key = table + _parts(words[:split])
            lines.setdefault(key, number)
            _element_lines(tokens[split + 1 :], key, lines)
    return lines


def _statements(text: str) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    # Tokens with their lines, cut where a line ends outside brackets; no blanks and comments.
    number, depth = 1, 0
    statement: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word == "\n" and depth == 0 and statement:
            yield statement[0][1], statement
            statement = []
        if not word.isspace() and not word.startswith("#"):
            statement.append((word, number))
        depth += (word in ("[", "{")) - (word in ("]", "}"))
        number += word.count("\n")
    if statement:
        yield statement[0][1], statement


def _element_lines(tokens: list[tuple[str, int]], key: tuple[Key, ...], lines: Lines) -> None:
    if not tokens or tokens[0][0] != "[":
        return
    depth, element, fresh = 0, -1, False
    for token, number in tokens:
        if depth == 1 and fresh and token not in ("]", ","):
            element, fresh = element + 1, False
            lines.setdefault((*key, element), number)
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth == 1 and token in ("[", ","):
            fresh = True


def line_of(path: Sequence[Key], lines: Lines) -> int | None:
    """Line of a key, or of the nearest key above it."""
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


def _parts(words: list[str]) -> tuple[Key, ...]:
    return tuple(word.strip("\"'") for word in words if word not in ("[", "]", "."))


def _resolved(name: tuple[Key, ...], counts: dict[tuple[Key, ...], int]) -> tuple[Key, ...]:
    path: tuple[Key, ...] = ()
    for part in name[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path])
    return (*path, name[-1])
