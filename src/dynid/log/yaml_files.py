"""Lists of numbers and of records in YAML, as programs write them: no tags, aliases or text over several lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
# A text without quotes holds no further colon.
_LINE = re.compile(rf"\s*(?:-(?:\s|$)|{_KEY}\s*:(?:\s*$|\s+(?:[\[{{\"']|(?!.*:\s))))")
_LIST = re.compile(rf"^\s*(?:-\s|{_KEY}\s*:\s*[\[{{])", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_MISSING = ("", "~", "null", "Null", "NULL")


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
        with reading(path, "YAML"):
            text = path.read_text("utf-8-sig", errors="replace")
            tree = _Events(path, text).tree()
        # Of a list of one list of records, or a single name before it, the records are the rows.
        while (
            isinstance(tree, dict) and len(tree) == 1 and isinstance(next(iter(tree.values())), list | dict)
        ):
            inside = next(iter(tree.values()))
            if isinstance(inside, list) and not all(isinstance(one, dict) for one in inside):
                break
            tree = inside
        return array_table(path, tree)


class _Events:
    """Nested lists and fields from what PyYAML finds in a text; numbers are read as in other logs."""

    def __init__(self, path: Path, text: str) -> None:
        import yaml

        self.path, self.text, self.yaml = path, text, yaml
        self.events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def tree(self, may_be_cut: bool = True) -> Any:
        """What all documents hold; raises InputError for what is more than lists and fields."""
        try:
            return self._documents()
        except self.yaml.MarkedYAMLError as error:
            line, lines = error.problem_mark.line, self.text.rstrip().split("\n")
            if not may_be_cut or line < len(lines) - 1:
                raise self._error(line) from error
        # A program that is stopped leaves half a line; what nothing closes further up is an error once more.
        return _Events(self.path, "\n".join(lines[:-1])).tree(may_be_cut=False)

    def _documents(self) -> Any:
        # A name of the outermost fields that comes again begins the next record.
        rows: list[Any] = []
        records: list[dict[str, Any]] = [{}]
        for event in self.events:
            if isinstance(event, self.yaml.MappingStartEvent):
                for key, value, _ in self._fields(0):
                    if key in records[-1]:
                        records.append({})
                    records[-1][key] = value
            elif isinstance(event, self.yaml.SequenceStartEvent):
                rows += self._value(event, 0)
            elif isinstance(event, self.yaml.NodeEvent) and getattr(event, "value", True):
                raise self._error(event.start_mark.line)
        if bool(rows) == bool(records[0]):
            raise self._error(0)
        return rows or (records if len(records) > 1 else records[0])

    def _value(self, event: Any, depth: int) -> Any:
        line = event.start_mark.line
        # Aliases would make a small file a large one, and tags objects.
        if depth > _MAX_DEPTH or event.anchor is not None or getattr(event, "tag", None) is not None:
            raise self._error(line)
        if isinstance(event, self.yaml.ScalarEvent):
            if not event.style and event.end_mark.line > line:
                raise self._error(event.end_mark.line)
            return event.value if event.style else _scalar(event.value)
        if isinstance(event, self.yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(self.events), self.yaml.SequenceEndEvent):
                items.append(self._value(event, depth + 1))
            return items
        fields: dict[str, Any] = {}
        for key, value, at in self._fields(depth):
            if key in fields:
                raise self._error(at)
            fields[key] = value
        return fields

    def _fields(self, depth: int) -> Iterator[tuple[str, Any, int]]:
        """Names, values and lines up to the end of a mapping."""
        while not isinstance(event := next(self.events), self.yaml.MappingEndEvent):
            if not isinstance(event, self.yaml.ScalarEvent):
                raise self._error(event.start_mark.line)
            yield event.value, self._value(next(self.events), depth + 1), event.start_mark.line

    def _error(self, line: int) -> InputError:
        lines = self.text.split("\n")
        number = min(line, len(lines) - 1)
        return InputError(
            "echo",
            found=f"'{lines[number].strip()[:60]}'",
            expected="YAML of plain lists and fields",
            do="write what it holds as CSV, JSON or .npz",
            place=Place(file=str(self.path), line=number + 1),
        )


def _scalar(text: str) -> Any:
    plain = text.strip()
    if plain in _MISSING:
        return None
    try:
        return number_of(plain.replace(".nan", "nan").replace(".inf", "inf"))
    except ValueError:
        return plain
