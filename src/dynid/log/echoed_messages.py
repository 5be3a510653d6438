"""Messages as `rostopic echo` and `ros2 topic echo` print them, one below the other with `---` between."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place
from dynid.base.numbers import number_of
from dynid.log.arrays import ArrayTable, Budget, reading
from dynid.log.records import arrays_of

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
        """Opens a file; raises InputError for lines that are no message, RefusedError for one that is too large."""
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "messages")
        with reading(path, "printed messages"), path.open(encoding="utf-8", errors="replace") as file:
            messages = list(_messages(path, file))
        # What was cut off when the program was stopped.
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
        found = _LINE.match(text)
        indent = len(found["indent"]) if found else 0
        if found and found["dash"] is not None and found["key"] is None and parents:
            # An item of the list of the last key that is not further to the right.
            while len(parents) > 1 and parents[-1][0] > indent:
                parents.pop()
            _, owner, key = parents[-1]
            if not isinstance(owner[key], list):
                owner[key] = []
            owner[key].append(_value(found["item"]))
            continue
        if found is None or found["key"] is None or found["dash"] is not None:
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
        owner[found["key"]] = _value(found["value"] or "")
        parents.append((indent, owner, found["key"]))
    if message:
        yield message


def _value(text: str) -> Any:
    """A number, a list, or text; a field without value holds nothing until lines below it say what."""
    plain = text.strip()
    if plain.startswith("[") and plain.endswith("]"):
        inside = plain[1:-1].strip()
        return [_value(one) for one in inside.split(",")] if inside else []
    try:
        return number_of(plain)
    except ValueError:
        return plain.strip("'\"") if plain else None
