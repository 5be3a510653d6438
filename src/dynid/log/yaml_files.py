"""Lists of numbers and of records in YAML, as programs write them: no tags, anchors or text over several lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place
from dynid.base.numbers import number_of
from dynid.log.arrays import ArrayTable, Budget, reading
from dynid.log.echoed_messages import EchoReader
from dynid.log.json_files import array_table

_TIMES_TEXT = 8
_MAX_DEPTH = 16
_KEY = r"(?:[A-Za-z_][\w ./\[\]-]*|\"[^\"]+\"|'[^']+')"
_FIELD = re.compile(rf"(?P<key>{_KEY})\s*:(?:\s+(?P<value>.*))?$")
# A text without quotes holds no further colon.
_LINE = re.compile(rf"\s*(?:-(?:\s|$)|{_KEY}\s*:(?:\s*$|\s+(?:[\[{{\"']|(?!.*:\s))))")
_TOKEN = re.compile(r"\s*([\[\]{},]|\"[^\"]*\"|'[^']*'|[^\[\]{},:]+|:)")
_LIST = re.compile(rf"^\s*(?:-\s|{_KEY}\s*:\s*[\[{{])", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_MISSING = ("", "~", "null", "Null", "NULL")

# (indent, text, number of the line)
_Line = tuple[int, str, int]


class YamlReader:
    """Opens YAML of numbers: a list of records, or lists by name."""

    name = "YAML"
    suffixes = (".yaml", ".yml", ".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether the first lines are fields and items, and lists are among them, but no printed messages."""
        if EchoReader().can_read(head):
            return False
        text = head.decode("utf-8", "replace")
        lines = [line for line in text.splitlines()[:-1] if _COMMENT.sub("", line).strip() not in ("", "---")]
        # One line may hold more than what is looked at, and a list in brackets goes on in the next ones.
        first = _LINE.match(lines[0] if lines else text)
        opened, plain = 0, True
        for line in lines:
            plain = plain and (opened > 0 or _LINE.match(line) is not None)
            opened += sum(line.count(one) for one in "[{") - sum(line.count(one) for one in "]}")
        return first is not None and plain and _LIST.search(text) is not None

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Opens a file; raises InputError for lines that are none of these, RefusedError for one that is too large."""
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "YAML")
        with reading(path, "YAML"), path.open(encoding="utf-8-sig", errors="replace") as file:
            reader = _Blocks(path, list(_lines(file)))
            tree = reader.block(0)
            if reader.at < len(reader.lines):
                raise reader.error()
        # Of a list of one list of records, or a single name before it, the records are the rows.
        while (
            isinstance(tree, dict) and len(tree) == 1 and isinstance(next(iter(tree.values())), list | dict)
        ):
            inside = next(iter(tree.values()))
            if isinstance(inside, list) and not all(isinstance(one, dict) for one in inside):
                break
            tree = inside
        return array_table(path, tree)


def _lines(lines: Iterator[str]) -> Iterator[_Line]:
    """Lines without comments and marks of documents; those of a list in brackets as one."""
    held: _Line | None = None
    opened = number = 0
    for number, line in enumerate(lines, 1):
        text = (_COMMENT.sub("", line) if "#" in line else line).rstrip()
        if not text.strip() or (not opened and text in ("---", "...")):
            continue
        plain = text.lstrip(" ")
        held = (
            (len(text) - len(plain), plain, number)
            if held is None
            else (held[0], f"{held[1]} {plain}", held[2])
        )
        opened += sum(plain.count(one) for one in "[{") - sum(plain.count(one) for one in "]}")
        if opened <= 0:
            yield held
            held, opened = None, 0
    # A program that is stopped leaves half a line; what nothing closes further up is an error where it is read.
    if held is not None and held[2] < number:
        yield held


class _Blocks:
    """Nested blocks from lines, the next one at `at`."""

    def __init__(self, path: Path, lines: list[_Line]) -> None:
        self.path, self.lines, self.at = path, lines, 0

    def block(self, depth: int) -> Any:
        """The list or the fields that begin at the next line."""
        indent, text, _ = self.lines[self.at]
        if depth > _MAX_DEPTH:
            raise self.error()
        return self._items(indent, depth) if _is_item(text) else self._fields(indent, depth)

    def error(self) -> InputError:
        """The next line is none that is read."""
        _, text, number = self.lines[min(self.at, len(self.lines) - 1)]
        return InputError(
            "echo",
            found=f"'{text[:60]}'",
            expected="YAML of plain lists and fields",
            do="write what it holds as CSV, JSON or .npz",
            place=Place(file=str(self.path), line=number),
        )

    def _items(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while self._here(indent) and _is_item(self.lines[self.at][1]):
            text, number = self.lines[self.at][1:]
            inside = text[1:].lstrip(" ")
            if not inside:
                self.at += 1
                found.append(self.block(depth + 1) if self._deeper(indent) else None)
            elif _is_item(inside) or _FIELD.match(inside):
                self.lines[self.at] = (indent + len(text) - len(inside), inside, number)
                found.append(self.block(depth + 1))
            else:
                found.append(self._value(inside))
                self.at += 1
        return found

    def _fields(self, indent: int, depth: int) -> Any:
        """Fields by name; a name of the outermost ones that comes again begins the next record."""
        records: list[dict[str, Any]] = [{}]
        while self._here(indent) and (field := _FIELD.match(self.lines[self.at][1])):
            key, value = field["key"].strip("\"'"), (field["value"] or "").strip()
            if key in records[-1]:
                if depth:
                    raise self.error()
                records.append({})
            if value:
                records[-1][key] = self._value(value)
                self.at += 1
                continue
            self.at += 1
            below = self._deeper(indent) or (self._here(indent) and _is_item(self.lines[self.at][1]))
            records[-1][key] = self.block(depth + 1) if below else None
        if not records[0]:
            raise self.error()
        return records if len(records) > 1 else records[0]

    def _here(self, indent: int) -> bool:
        return self.at < len(self.lines) and self.lines[self.at][0] == indent

    def _deeper(self, indent: int) -> bool:
        return self.at < len(self.lines) and self.lines[self.at][0] > indent

    def _value(self, text: str) -> Any:
        if text[0] in "!&*|>":
            raise self.error()
        if text[0] not in "[{":
            return _scalar(text)
        tokens = _TOKEN.findall(text)
        value, end = self._flow(tokens, 0, 0)
        if end < len(tokens):
            raise self.error()
        return value

    def _flow(self, tokens: Sequence[str], k: int, depth: int) -> tuple[Any, int]:
        """A value in brackets from token k on, and the number of the token behind it."""
        if k >= len(tokens) or depth > _MAX_DEPTH or tokens[k] in ("]", "}", ",", ":"):
            raise self.error()
        begin = tokens[k]
        if begin not in ("[", "{"):
            return _scalar(begin), k + 1
        k += 1
        items: list[Any] = []
        fields: dict[str, Any] = {}
        while k < len(tokens) and tokens[k] not in ("]", "}"):
            if begin == "{":
                if tokens[k + 1 : k + 2] != [":"]:
                    raise self.error()
                key = tokens[k].strip().strip("\"'")
                fields[key], k = self._flow(tokens, k + 2, depth + 1)
            else:
                value, k = self._flow(tokens, k, depth + 1)
                items.append(value)
            k += tokens[k : k + 1] == [","]
        if tokens[k : k + 1] != ["]" if begin == "[" else "}"]:
            raise self.error()
        return (items if begin == "[" else fields), k + 1


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(text: str) -> Any:
    plain = text.strip()
    if plain in _MISSING:
        return None
    try:
        return number_of(plain.replace(".nan", "nan").replace(".inf", "inf"))
    except ValueError:
        return plain.strip("\"'")
