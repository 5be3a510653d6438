"""XML changed in place: where every tag and attribute stands in the bytes of a file, and edits that touch no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from dynid.base.errors import InputError, Place
from dynid.base.input_file import read_bytes
from dynid.robot.xml import MAX_BYTES, Element, parse

_TAG = re.compile(rb"<[^\s/>]+")
_ATTRIBUTE = re.compile(rb"\s+([^\s=/>]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_LEVEL = b"  "


@dataclass
class Tag:
    """An opening tag: values by attribute, and where they stand.

    start, name_end, end: of the tag, behind its name, behind its bracket.    closed: behind its closing tag.
    spans: of values without quotes.    wholes: of attributes with the blanks before them.
    """

    name: str
    attributes: dict[str, str]
    start: int
    name_end: int
    end: int
    empty: bool
    spans: dict[str, tuple[int, int]]
    wholes: dict[str, tuple[int, int]]
    children: list[Tag] = field(default_factory=list)
    closed: int = 0

    def find(self, name: str) -> Tag | None:
        """First child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def walk(self) -> Iterator[Tag]:
        """The tag and all below it, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, name: str) -> list[Tag]:
        """Children of that name."""
        return [child for child in self.children if child.name == name]


def read_source(path: Path, tag: str, kind: str) -> tuple[bytes, Element]:
    """Bytes and root of the file that a run was made from; raises InputError for another root than `tag`."""
    data = read_bytes(path, f"the {kind} that the run was made from", MAX_BYTES)
    element = parse(data, str(path))
    if element.tag != tag:
        raise InputError(
            "robot-format",
            found=f"<{element.tag}>",
            expected=f"the {kind} of the run",
            place=Place(file=str(path)),
        )
    return data, element


@dataclass
class Edits:
    """Changes to a file: (start, end, new bytes), applied at once."""

    data: bytes
    changes: list[tuple[int, int, bytes]] = field(default_factory=list)

    def set(self, tag: Tag, attribute: str, value: str) -> None:
        """Changes an attribute, or adds it behind the tag's name."""
        if attribute in tag.spans:
            self.changes.append((*tag.spans[attribute], quoteattr(value)[1:-1].encode()))
        else:
            self.changes.append((tag.name_end, tag.name_end, f" {attribute}={quoteattr(value)}".encode()))

    def remove(self, tag: Tag, attribute: str) -> None:
        """Takes an attribute away, if it is there."""
        if attribute in tag.wholes:
            self.changes.append((*tag.wholes[attribute], b""))

    def add(self, parents: Tag, elements: list[str]) -> None:
        """Adds lines of XML as the first content of an element, indented like the file."""
        newline = b"\r\n" if b"\r\n" in self.data else b"\n"
        margin = self._margin(parents.start)
        text = b"".join(newline + margin + _LEVEL + line.encode() for line in elements)
        if not parents.empty:
            self.changes.append((parents.end, parents.end, text))
            return
        slash = self.data.rindex(b"/", parents.start, parents.end)
        closing = newline + margin + b"</" + parents.name.encode() + b">"
        self.changes.append((slash, parents.end, b">" + text + closing))

    def drop(self, tag: Tag) -> None:
        """Takes an element away, with its line if nothing else stands there; what it holds must not be changed."""
        start, end = tag.start, tag.closed
        line = self.data.rfind(b"\n", 0, start) + 1
        rest = self.data.find(b"\n", end)
        if rest >= 0 and not self.data[line:start].strip() and not self.data[end:rest].strip():
            start, end = line, rest + 1
        self.changes.append((start, end, b""))

    def result(self) -> bytes:
        """The changed file."""
        pieces, position = [], 0
        for start, end, new in sorted(self.changes, key=lambda change: change[:2]):
            pieces += [self.data[position:start], new]
            position = end
        return b"".join([*pieces, self.data[position:]])

    def _margin(self, start: int) -> bytes:
        line = self.data[self.data.rfind(b"\n", 0, start) + 1 : start]
        return line if not line.strip() else b""


def scan(data: bytes, file: str) -> Tag:
    """Root tag of XML that has been checked before.

    Raises InputError for an encoding in which tags cannot be found byte by byte.
    """
    parser = expat.ParserCreate()
    open_tags: list[Tag] = []
    roots: list[Tag] = []

    def start(name: str, attributes: Mapping[str, str]) -> None:
        tag = _tag(data, parser.CurrentByteIndex, name, dict(attributes), file)
        (open_tags[-1].children if open_tags else roots).append(tag)
        open_tags.append(tag)

    def end(_name: str) -> None:
        tag = open_tags.pop()
        tag.closed = tag.end if tag.empty else data.index(b">", parser.CurrentByteIndex) + 1

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise InputError(
            "xml-syntax", found=str(error), expected="well-formed XML", place=Place(file=file)
        ) from error
    return roots[0]


def _tag(data: bytes, start: int, name: str, attributes: dict[str, str], file: str) -> Tag:
    opening = _TAG.match(data, start)
    if opening is None or opening[0][1:] != name.encode():
        raise InputError(
            "encoding",
            found="an encoding in which XML cannot be changed in place",
            expected="UTF-8",
            do="save the file as UTF-8",
            place=Place(file=file),
        )
    position, spans, wholes = opening.end(), {}, {}
    while (one := _ATTRIBUTE.match(data, position)) is not None:
        spans[one[1].decode()] = one.start(2) + 1, one.end(2) - 1
        wholes[one[1].decode()] = one.span()
        position = one.end()
    end = data.index(b">", position) + 1
    empty = data[position:end].strip() == b"/>"
    return Tag(name, attributes, start, opening.end(), end, empty, spans, wholes)
