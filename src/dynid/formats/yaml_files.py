"""Lists of numbers and of records in YAML, as programs write them: without tags, aliases or multi-line text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynid.base import Budget, InputError, Place, number_of
from dynid.log import ArrayTable, array_table, arrays_of, reading

# Messages as printed by `rostopic echo` and `ros2 topic echo`, separated by `---`.

# Memory of Python's objects relative to the text.
_TIMES_TEXT = 8
_LINE = re.compile(
    r"^(?P<indent> *)(?P<dash>- ?)?(?:(?P<key>[A-Za-z_]\w*):(?:\s+(?P<value>.*))?|(?P<item>.*))$"
)
_BEGINS = re.compile(rb"(?:\A|\n)(?:---\r?\n)?(?:header|name|position|joint_names):", re.MULTILINE)
_HAS = re.compile(rb"^ *(?:position|positions|actual|feedback|name|velocity|data):", re.MULTILINE)


class EchoReader:
    """Opens text of printed messages."""

    name = "printed messages"
    suffixes = (".yaml", ".yml", ".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are those of a message with a header or with names."""
        text = head.lstrip(b"- \r\n")
        return _BEGINS.match(text) is not None and _HAS.search(text) is not None and b"{" not in text[:64]

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file of printed messages.

        Raises InputError for lines that are no message; RefusedError if the file is too large.
        """
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "messages")
        with reading(path, "printed messages"), path.open(encoding="utf-8", errors="replace") as file:
            messages = list(_messages(path, file))
        # The last message is incomplete if the program was stopped.
        if len(messages) > 1 and len(messages[-1]) < len(messages[0]):
            messages.pop()
        return ArrayTable(path, *arrays_of(messages))


def _messages(path: Path, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {}
    parents: list[tuple[int, dict[str, Any], str]] = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if text == "---":
            if message:
                yield message
            message, parents = {}, []
            continue
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        match = _LINE.match(text)
        indent = len(match["indent"]) if match else 0
        if match and match["dash"] is not None and match["key"] is None and parents:
            # An item belongs to the list of the last key that is not indented further.
            while len(parents) > 1 and parents[-1][0] > indent:
                parents.pop()
            _, owner, key = parents[-1]
            if not isinstance(owner[key], list):
                owner[key] = []
            owner[key].append(_value(match["item"]))
            continue
        if match is None or match["key"] is None or match["dash"] is not None:
            raise InputError(
                "echo", found=f"'{text[:60]}'", expected="a line 'field: value' of a printed message",
                place=Place(file=str(path), line=number),
            )  # fmt: skip
        while parents and parents[-1][0] >= indent:
            parents.pop()
        owner = message
        if parents:
            _, above, key = parents[-1]
            if not isinstance(above[key], dict):
                above[key] = {}
            owner = above[key]
        owner[match["key"]] = _value(match["value"] or "")
        parents.append((indent, owner, match["key"]))
    if message:
        yield message


def _value(text: str) -> Any:
    """A number, a list, or text; None for a field whose value is on the lines below."""
    plain = text.strip()
    if plain.startswith("[") and plain.endswith("]"):
        inside = plain[1:-1].strip()
        return [_value(item) for item in inside.split(",")] if inside else []
    try:
        return number_of(plain)
    except ValueError:
        return plain.strip("'\"") if plain else None


# Memory of Python's objects relative to the text, and deepest nesting, which bounds recursion.
_YAML_FILES_TIMES_TEXT = 8
_MAX_DEPTH = 16
_KEY = r"(?:[A-Za-z_][\w ./\[\]-]*|\"[^\"]+\"|'[^']+')"
# Unquoted text contains no further colon.
_YAML_FILES_LINE = re.compile(rf"\s*(?:-(?:\s|$)|{_KEY}\s*:(?:\s*$|\s+(?:[\[{{\"']|(?!.*:\s))))")
_LIST = re.compile(rf"^\s*(?:-\s|{_KEY}\s*:\s*[\[{{])", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_MISSING = ("", "~", "null", "Null", "NULL")


class YamlReader:
    """Opens YAML of numbers: a list of records, or lists by name."""

    name = "YAML"
    suffixes = (".yaml", ".yml", ".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether the first lines are fields and items with lists among them, but no printed messages."""
        if EchoReader().can_read(head):
            return False
        text = head.decode("utf-8", "replace")
        lines = [line for line in text.splitlines()[:-1] if _COMMENT.sub("", line).strip() not in ("", "---")]
        # One line may be longer than the first bytes, and a list in brackets may continue on the next lines.
        first = _YAML_FILES_LINE.match(lines[0] if lines else text)
        opened, plain = 0, True
        for line in lines:
            plain = plain and (opened > 0 or _YAML_FILES_LINE.match(line) is not None)
            opened += sum(line.count(bracket) for bracket in "[{") - sum(
                line.count(bracket) for bracket in "]}"
            )
        return first is not None and plain and _LIST.search(text) is not None

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a YAML file.

        Raises InputError for anything but plain lists and fields; RefusedError if the file is too large.
        """
        budget = Budget(path)
        budget.spend(_YAML_FILES_TIMES_TEXT * budget.size, "YAML")
        with reading(path, "YAML"):
            text = path.read_text("utf-8-sig", errors="replace")
            tree = _Events(path, text).tree()
        # The rows are the records inside a list of one list, or below a single name.
        while (
            isinstance(tree, dict) and len(tree) == 1 and isinstance(next(iter(tree.values())), list | dict)
        ):
            inside = next(iter(tree.values()))
            if isinstance(inside, list) and not all(isinstance(record, dict) for record in inside):
                break
            tree = inside
        return array_table(path, tree)


class _Events:
    """Nested lists and fields from the events of PyYAML; numbers are read as in other logs."""

    def __init__(self, path: Path, text: str) -> None:
        import yaml

        self.path, self.text, self.yaml = path, text, yaml
        self.events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def tree(self, may_be_cut: bool = True) -> Any:
        """Content of all documents; raises InputError for anything but lists and fields."""
        try:
            return self._documents()
        except self.yaml.MarkedYAMLError as error:
            line, lines = error.problem_mark.line, self.text.rstrip().split("\n")
            if not may_be_cut or line < len(lines) - 1:
                raise self._error(line) from error
        # A stopped program leaves half a line, which is dropped; errors further up remain.
        return _Events(self.path, "\n".join(lines[:-1])).tree(may_be_cut=False)

    def _documents(self) -> Any:
        # An outermost name that occurs again begins the next record.
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
        # Refused, since aliases can expand a small file to a huge one, and tags can create objects.
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
            do="convert it to CSV, JSON or .npz",
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
