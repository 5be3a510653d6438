"""XML read safely and with the line of every element: no entities, no DOCTYPE, bounded depth and size."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from dynid.errors import DynidError, InputError, Place, RefusedError

MAX_BYTES = 64_000_000
MAX_DEPTH = 256
MAX_ELEMENTS = 200_000
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


@dataclass
class Element:
    """One XML element with its place in the file."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    column: int
    children: list[Element] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """File, line and column of the opening tag."""
        return Place(file=self.file, line=self.line, column=self.column)

    def find(self, tag: str) -> Element | None:
        """First child with that tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """Children with that tag."""
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> Iterator[Element]:
        """This element and everything below it, in document order."""
        stack = [self]
        while stack:
            one = stack.pop()
            yield one
            stack.extend(reversed(one.children))

    def text(self) -> str:
        """The element written as XML; character data is left out, as neither URDF nor MJCF uses it."""
        attributes = "".join(f" {escape(key)}={quoteattr(value)}" for key, value in self.attributes.items())
        inside = "".join(child.text() for child in self.children)
        return f"<{self.tag}{attributes}>{inside}</{self.tag}>" if inside else f"<{self.tag}{attributes}/>"


def read_bytes(path: Path, kind: str) -> bytes:
    """Bytes of an input file; raises InputError if it is missing, a folder or empty, RefusedError if it is too large."""
    place = Place(file=str(path))
    if not path.exists():
        raise InputError("file-missing", found="no such file", expected=kind, place=place)
    if path.is_dir():
        raise InputError("file-missing", found="a folder", expected=kind, place=place)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise RefusedError("too-large", found=f"{size} bytes", expected=f"at most {MAX_BYTES}", place=place)
    data = path.read_bytes()
    if not data.strip():
        raise InputError("file-empty", found="an empty file", expected=kind, place=Place(file=str(path), line=1))
    return data


def parse(data: bytes, file: str) -> Element:
    """Parses XML into elements.

    Raises InputError with line and column (and the last complete element if the file ends early, the byte offset if it
    cannot be decoded), RefusedError for DOCTYPE, entities, depth over 256 or more than 200,000 elements.
    """
    reader = _Reader(file)
    return reader.run(data)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._doctype
        self.open: list[Element] = []
        self.root: Element | None = None
        self.last: Element | None = None
        self.count = 0

    def run(self, data: bytes) -> Element:
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            raise self._syntax_error(error, data) from error
        except (LookupError, ValueError, UnicodeError) as error:
            raise InputError(
                "encoding",
                found=f"an encoding that cannot be decoded near byte {max(self.parser.CurrentByteIndex, 0)} ({error})",
                expected="UTF-8, or the encoding that the file declares",
                place=Place(file=self.file, line=1),
            ) from error
        if self.root is None:
            raise InputError("xml-syntax", found="no element", expected="XML", place=Place(file=self.file, line=1))
        return self.root

    def _place(self) -> Place:
        return Place(self.file, self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        place = self._place()
        self.count += 1
        if len(self.open) >= MAX_DEPTH:
            raise RefusedError("xml-depth", found=f"elements nested deeper than {MAX_DEPTH}", place=place)
        if self.count > MAX_ELEMENTS:
            raise RefusedError("xml-size", found=f"more than {MAX_ELEMENTS} elements", place=place)
        element = Element(tag, dict(attributes), self.file, place.line or 0, place.column or 0)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def _end(self, _tag: str) -> None:
        self.last = self.open.pop()

    def _doctype(self, *_arguments: object) -> None:
        raise RefusedError(
            "xml-doctype",
            found="a DOCTYPE or entity declaration",
            expected="plain XML",
            do="remove it: robot descriptions need none",
            place=self._place(),
        )

    def _syntax_error(self, error: expat.ExpatError, data: bytes) -> DynidError:
        place = Place(file=self.file, line=error.lineno, column=error.offset + 1)
        text = expat.ErrorString(error.code)
        at_end = self.parser.ErrorByteIndex >= len(data.rstrip()) - 1 or "unclosed" in text or "no element" in text
        if self.open and at_end:
            last = f"the last complete element is <{self.last.tag}> in line {self.last.line}" if self.last else ""
            return InputError(
                "xml-truncated",
                found=f"the end of the file inside <{self.open[-1].tag}> (opened in line {self.open[-1].line})"
                + (f"; {last}" if last else ""),
                expected="the whole file",
                do="copy or export it again",
                place=place,
            )
        if b"\0" in data or "encoding" in text or _undecodable(data) is not None:
            offset = data.find(b"\0")
            offset = offset if offset >= 0 else _undecodable(data) or self.parser.ErrorByteIndex
            return InputError(
                "encoding",
                found=f"a byte that cannot be decoded at offset {offset} ({text})",
                expected="UTF-8, or the encoding that the file declares",
                place=place,
            )
        inside = f" inside <{self.open[-1].tag}> of line {self.open[-1].line}" if self.open else ""
        return InputError("xml-syntax", found=f"{text}{inside}", expected="well-formed XML", place=place)


def _undecodable(data: bytes) -> int | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def number(element: Element, attribute: str, errors: list[DynidError], default: float = math.nan, what: str = "") -> float:
    """One finite number of an attribute; notes what is wrong in `errors` and returns nan then."""
    values = numbers(element, attribute, 1, errors, (default,), what)
    return values[0]


def numbers(
    element: Element, attribute: str, count: int, errors: list[DynidError], default: tuple[float, ...], what: str = ""
) -> tuple[float, ...]:
    """Finite numbers of an attribute, separated by blanks; notes what is wrong in `errors`."""
    if attribute not in element.attributes:
        return default
    raw = element.attributes[attribute]
    label = f"{what}: " if what else ""
    parts = raw.split()
    name = f"{label}{element.tag} {attribute} = '{raw}'"
    if len(parts) != count:
        hint = f"write '{raw.replace(',', '.')}'" if count == 1 and len(parts) == 1 else ""
        errors.append(InputError("number-count", found=name, expected=f"{count} numbers", do=hint, place=element.place))
        return (math.nan,) * count
    values = []
    for part in parts:
        try:
            value = float(part.replace("_", "?"))
        except ValueError:
            near = _NUMBER.match(part)
            do = f"write '{near[0].replace(',', '.')}'" if near else ""
            errors.append(InputError("number", found=name, expected="a number with a decimal point", do=do, place=element.place))
            return (math.nan,) * count
        if not math.isfinite(value):
            errors.append(InputError("not-finite", found=name, expected="a finite number", place=element.place))
            return (math.nan,) * count
        values.append(value)
    return tuple(values)


def inside(root: Path, relative: str, element: Element) -> Path:
    """Path of a file named in a description; raises RefusedError if it is remote or leaves the folder `root`."""
    if re.match(r"^[a-zA-Z][a-zA-Z0-9+.\-]*://", relative):
        raise RefusedError(
            "remote-file",
            found=f"'{relative}'",
            expected="a file beside the description",
            do="nothing is fetched over a network",
            place=element.place,
        )
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise RefusedError(
            "outside-root", found=f"'{relative}' leads to '{path}'", expected=f"a path inside '{root}'", place=element.place
        )
    return path
