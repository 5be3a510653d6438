"""XML messages one after another, as KUKA's Robot Sensor Interface sends them: <Rob><AIPos A1="0.1"/></Rob>."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dynid.base import Budget, number_of
from dynid.log import ArrayTable, arrays_of, reading

# Memory of Python's objects relative to the text.
_TIMES_TEXT = 8
# Least number of messages in the first bytes.
_LEAST = 2
_FIRST = re.compile(r"\s*(?:<\?xml[^>]{0,100}\?>\s*)?<([A-Za-z][\w.-]{0,60})[\s>]")
_PART = re.compile(
    r"<([A-Za-z][\w.-]{0,60})((?:\s+[\w.:-]{1,60}\s*=\s*\"[^\"<]{0,100}\")*)\s*(?:/>|>([^<]{0,100}))"
)
_ATTRIBUTE = re.compile(r"([\w.:-]+)\s*=\s*\"([^\"]*)\"")


class XmlMessagesReader:
    """Opens text of XML messages; columns are named by element and attribute, AIPos.A1, or by the element."""

    name = "XML messages"
    suffixes = (".xml", ".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes contain several messages of one kind with numbers."""
        text = head.decode("utf-8", "replace")
        kind = _kind(text)
        whole = list(_messages(text, kind))[:-1] if kind else []
        return len(whole) >= _LEAST and all(map(_numbers, whole))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file.

        Raises RefusedError if the file is too large.
        """
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "XML messages")
        with reading(path, "XML messages"):
            text = path.read_text(encoding="utf-8", errors="replace")
            messages = [_numbers(message) for message in _messages(text, _kind(text))]
            arrays, left_out = arrays_of(messages)
            return ArrayTable(path, arrays, left_out)


def _kind(text: str) -> str:
    match = _FIRST.match(text)
    return match[1] if match else ""


def _messages(text: str, kind: str) -> Iterator[str]:
    """Texts from one element of a kind to the next; the last may be incomplete."""
    begins = [match.start() for match in re.finditer(rf"<{re.escape(kind)}(?=[\s>])", text)]
    for start, end in zip(begins, [*begins[1:], len(text)], strict=True):
        yield text[start:end]


def _numbers(message: str) -> dict[str, float]:
    """Numbers of a message by name, without words."""
    named: dict[str, float] = {}
    for part in _PART.finditer(message):
        values = {f"{part[1]}.{name}": value for name, value in _ATTRIBUTE.findall(part[2])}
        for name, value in (values | {part[1]: part[3] or ""}).items():
            try:
                named[name] = number_of(value)
            except ValueError:
                continue
    return named
