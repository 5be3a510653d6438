"""Safe XML reader that keeps the line of each element: no entities, no DOCTYPE, bounded depth and size."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from dynid.base.arrays import LARGEST_VALUE
from dynid.base.errors import DynidError, InputError, Place, RefusedError
from dynid.base.files import read_bytes

# Bounds on memory and time for hostile files, far above those of real robots.
MAX_BYTES = 64_000_000
MAX_DEPTH = 256
MAX_ELEMENTS = 200_000
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
# Only UTF-8 and ASCII: a file in another encoding must declare it at the very top. No possessive quantifiers: in
# Python 3.11.2 they lose matches around groups.
_LATE_DECLARATION = re.compile(
    rb"""((?:\xef\xbb\xbf)?(?:\s|<!--[^-]*(?:-(?!->)[^-]*)*-->)+)"""
    rb"""(<\?xml\s+version=["']1\.[0-9]["'](?:\s+encoding=["'](?:utf-8|UTF-8|us-ascii|US-ASCII)["'])?(?:\s+standalone=["']\w+["'])?\s*\?>)""",
    re.DOTALL,
)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]+:/")
_NO_ELEMENT = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
_INVALID = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]
_ENDS = {
    _NO_ELEMENT,
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION],
    expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
}
_ENCODINGS = {
    expat.errors.codes[expat.errors.XML_ERROR_UNKNOWN_ENCODING],
    expat.errors.codes[expat.errors.XML_ERROR_INCORRECT_ENCODING],
}


@dataclass
class Element:
    """One XML element with its place in the file.

    Parameters
    ----------
    tag : str
    attributes : dict of str to str
    file : str
    line, column : int
        Of the opening tag, from 1; 0 if unknown.
    children : list of Element
    content : str
        Character data of the element itself.

    """

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    column: int
    children: list[Element] = field(default_factory=list)
    content: str = ""

    @property
    def place(self) -> Place:
        """File, line and column of the opening tag; only the file if the line is unknown."""
        return Place(file=self.file, line=self.line or None, column=self.column or None)

    def find(self, tag: str) -> Element | None:
        """First child with that tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """Children with that tag."""
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> Iterator[Element]:
        """The element and everything below it, in document order."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    def text(self) -> str:
        """The element as XML without character data; line k + 1 is the k-th element of `walk`."""
        lines: list[str] = []
        self._write(lines)
        return "\n".join(lines)

    def _write(self, lines: list[str]) -> None:
        from xml.sax.saxutils import quoteattr  # imports urllib, which is slow

        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in self.attributes.items())
        lines.append(f"<{self.tag}{attributes}>")
        for child in self.children:
            child._write(lines)
        lines[-1] += f"</{self.tag}>"


def read_xml(path: Path, kind: str) -> Element:
    """Read the root element of an XML file; raises as `read_bytes` and `parse`, and InputError for an empty file."""
    data = read_bytes(path, kind, MAX_BYTES)
    if not data.strip():
        place = Place(file=str(path), line=1)
        raise InputError("file-empty", found="an empty file", expected=kind, place=place)
    return parse(data, str(path))


def parse(data: bytes, file: str) -> Element:
    """Parse XML into elements.

    Raises InputError with line and column (with the last complete element for a truncated file, with the byte offset
    for a wrong encoding), RefusedError for DOCTYPE, entities, and more than MAX_DEPTH levels or MAX_ELEMENTS elements.
    """
    reader = _Reader(file)
    return reader.run(_begins_with_declaration(data))


def _begins_with_declaration(data: bytes) -> bytes:
    """Replace an XML declaration after blank lines or comments with blanks, since XML does not allow it there.

    Robot files exist with a licence or a generator's remark on top, and the parsers of ROS accept them.
    """
    match = _LATE_DECLARATION.match(data)
    if match is None:
        return data
    blank = re.sub(rb"[^\r\n]", b" ", match[2])
    return match[1] + blank + data[match.end() :]


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._content
        self.parser.buffer_text = True
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
        except (LookupError, ValueError) as error:
            offset = max(self.parser.CurrentByteIndex, 0)
            raise self._encoding_error(offset, str(error), Place(self.file, line=1)) from error
        if self.root is None:
            place = Place(file=self.file, line=1)
            raise InputError("xml-syntax", found="no XML element", expected="XML", place=place)
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

    def _content(self, text: str) -> None:
        if self.open:
            self.open[-1].content += text

    def _end(self, _tag: str) -> None:
        self.last = self.open.pop()

    def _doctype(self, *_arguments: object) -> None:
        raise RefusedError(
            "xml-doctype",
            found="a DOCTYPE or entity declaration",
            expected="plain XML",
            do="remove it; robot files need none",
            place=self._place(),
        )

    def _syntax_error(self, error: expat.ExpatError, data: bytes) -> DynidError:
        place = Place(file=self.file, line=error.lineno, column=error.offset + 1)
        text = expat.ErrorString(error.code)
        offset = self.parser.ErrorByteIndex
        if error.code in _ENCODINGS or (error.code == _INVALID and _undecodable(data, offset)):
            return self._encoding_error(offset, text, place)
        if error.code in _ENDS and (self.open or error.code != _NO_ELEMENT):
            return self._truncated(place)
        inside = f" inside <{self.open[-1].tag}> (opened in line {self.open[-1].line})" if self.open else ""
        return InputError("xml-syntax", found=f"{text}{inside}", expected="well-formed XML", place=place)

    def _encoding_error(self, offset: int, why: str, place: Place) -> InputError:
        return InputError(
            "encoding",
            found=f"an undecodable byte at offset {offset} ({why})",
            expected="UTF-8, or the encoding that the file declares",
            place=place,
        )

    def _truncated(self, place: Place) -> InputError:
        problem = "the end of the file"
        if self.open:
            problem += f" inside <{self.open[-1].tag}> (opened in line {self.open[-1].line})"
        if self.last is not None:
            problem += f"; the last complete element is <{self.last.tag}> in line {self.last.line}"
        return InputError(
            "xml-truncated",
            found=problem,
            expected="the whole file",
            do="copy or export it again",
            place=place,
        )


def _undecodable(data: bytes, offset: int) -> bool:
    byte = data[offset : offset + 1]
    if byte == b"\0":
        return True
    try:
        data[offset : offset + 4].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start == 0
    return False


# Elements without the check of size: the largest double is often written for "no limit".
WITHOUT_BOUND = ("limit",)


def number(
    element: Element, attribute: str, errors: list[DynidError], default: float = math.nan, subject: str = ""
) -> float:
    """Read one finite number from an attribute, as `numbers` does.

    Parameters
    ----------
    element : Element
        The element.
    attribute : str
        Name of the attribute.
    errors : list of DynidError
        Receives an error if the attribute is not one finite number.
    default : float
        Value of an absent attribute.
    subject : str
        Link or joint, for the message.

    Returns
    -------
    float
        nan after an error.

    """
    return numbers(element, attribute, 1, errors, (default,), subject)[0]


def numbers(
    element: Element,
    attribute: str,
    count: int,
    errors: list[DynidError],
    default: tuple[float, ...],
    subject: str = "",
) -> tuple[float, ...]:
    """Read finite numbers from an attribute.

    Parameters
    ----------
    element : Element
        The element.
    attribute : str
        Name of the attribute.
    count : int
        How many numbers are expected.
    errors : list of DynidError
        Receives an error if the attribute is anything else.
    default : tuple of float
        Value of an absent attribute.
    subject : str
        Link or joint, for the message.

    Returns
    -------
    tuple of float
        nan after an error.

    """
    if attribute not in element.attributes:
        return default
    values = check_numbers(element, attribute, errors, subject)
    if values is not None and len(values) != count:
        expected = "1 number" if count == 1 else f"{count} numbers separated by blanks"
        errors.append(_wrong_number(element, attribute, subject, "number-count", expected))
        values = None
    return (math.nan,) * count if values is None else values


def check_numbers(
    element: Element, attribute: str, errors: list[DynidError], subject: str = ""
) -> tuple[float, ...] | None:
    """Read any count of finite numbers from an attribute; append an error and return None for anything else."""
    parts = element.attributes[attribute].split()
    values = []
    for part in parts:
        try:
            value = float(part if part.isascii() and "_" not in part else "?")
        except ValueError:
            single = len(parts) == 1 and part.count(",") <= 1
            expected = "a number with a decimal point" if single else "numbers separated by blanks"
            errors.append(_wrong_number(element, attribute, subject, "number", expected, _repaired(part)))
            return None
        if not math.isfinite(value):
            errors.append(_wrong_number(element, attribute, subject, "not-finite", "a finite number"))
            return None
        if abs(value) > LARGEST_VALUE and element.tag not in WITHOUT_BOUND:
            errors.append(_wrong_number(element, attribute, subject, "no-size", "a number of plausible size"))
            return None
        values.append(value)
    return tuple(values)


def _repaired(part: str) -> str:
    near = _NUMBER.match(part)
    return f"write '{near[0].replace(',', '.')}'" if near and part.count(",") <= 1 else ""


def _wrong_number(
    element: Element, attribute: str, subject: str, identifier: str, expected: str, do: str = ""
) -> InputError:
    label = f"{subject}: " if subject else ""
    problem = f"{label}{element.tag} {attribute} = '{element.attributes[attribute][:80]}'"
    return InputError(identifier, found=problem, expected=expected, do=do, place=element.place)


def inside(root: Path, relative: str, place: Place, further: Sequence[str] = ()) -> Path:
    """Resolve a file name of a robot file inside its folder.

    Parameters
    ----------
    root : Path
        Folder of the robot file.
    relative : str
        File name in the robot file.
    place : Place
        For messages.
    further : sequence of str
        Other allowed folders.

    Returns
    -------
    Path

    Raises
    ------
    RefusedError
        If the name is remote or leaves the allowed folders.
    InputError
        If the name is not a path.

    """
    if _SCHEME.match(relative):
        raise RefusedError(
            "remote-file",
            found=f"a remote file '{relative}'",
            expected="a local one, since dynid downloads nothing",
            do="copy it next to the robot file",
            place=place,
        )
    if "\0" in relative or not relative:
        raise InputError("file-name", found=f"file name {relative!r}", expected="a path", place=place)
    try:
        path = (root / relative).resolve()
    except (OSError, RuntimeError) as error:
        raise InputError(
            "file-name", found=f"file name '{relative}' ({error})", expected="a path", place=place
        ) from error
    if not any(path.is_relative_to(folder.resolve()) for folder in (root, *map(Path, further))):
        raise RefusedError(
            "outside-root",
            found=f"'{relative}', which is '{path}'",
            expected=f"a path inside '{root}'",
            do="to allow it, name its folder: --packages DIR",
            place=place,
        )
    return path


def present(path: Path) -> bool:
    """Whether a file exists; False for an invalid file name."""
    try:
        return path.exists()
    except OSError:
        return False
