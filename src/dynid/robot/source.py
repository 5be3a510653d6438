"""A robot description as it is opened, before anyone knows its format."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.base.input_file import read_bytes
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.xacro import expanded, expanded_before, is_xacro, require_asked
from dynid.robot.xml import MAX_BYTES, Element, read_xml

KIND = "a robot description: URDF, xacro, MJCF, SDF, USD or TOML"
_HEAD = 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, eq=False)
class RobotFile:
    """A file, how it is to be read, and where warnings go.

    other: reads a description that this one builds upon.
    """

    path: Path
    reading: Reading
    diagnostics: Diagnostics
    other: Callable[[Path], RobotModel]

    @property
    def suffix(self) -> str:
        """The ending of the file's name in small letters, with its dot."""
        return self.path.suffix.lower()

    @property
    def tag(self) -> str:
        """Name of the root element; "" of a file that does not begin like XML."""
        return self.root.tag if self.begins_like_xml else ""

    @property
    def begins_like_xml(self) -> bool:
        """Whether the first character is that of an element, or the file is one of UTF-16."""
        return self.head.lstrip()[:1] == b"<" or self.head[:2] in _UTF16

    @cached_property
    def head(self) -> bytes:
        """The file's first bytes, without the mark of UTF-8."""
        return read_bytes(self.path, KIND, MAX_BYTES)[:_HEAD].removeprefix(b"\xef\xbb\xbf")

    @cached_property
    def root(self) -> Element:
        """Root element of a file of XML, with xacro expanded."""
        return read_description(self.path, self.reading, self.diagnostics)


def read_again(path: Path, reading: Reading) -> Element:
    """The same for a robot that was read from a file before; nothing is expanded for a stored name.

    Raises InputError for a xacro file that was not expanded in this process, and what `read_xml` raises.
    """
    root = read_xml(path, KIND)
    if not is_xacro(root):
        return root
    if (known := expanded_before(path, reading)) is None:
        raise InputError(
            "xacro",
            found="a xacro file that a run names, which is not expanded unasked",
            expected="shapes of a file that you name yourself: they are drawn when the run is made",
            place=Place(file=str(path)),
        )
    return known


def read_description(path: Path, reading: Reading, diagnostics: Diagnostics) -> Element:
    """Root element of a robot description in XML, with xacro expanded.

    Raises what `read_xml`, `require_asked` and `expanded` raise.
    """
    root = read_xml(path, KIND)
    require_asked(root, path, reading)
    return expanded(root, path, reading, diagnostics) if is_xacro(root) else root
