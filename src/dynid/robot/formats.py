"""The catalogue of robot descriptions: one reader a format, as plug-ins may bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.base.files import read_bytes
from dynid.base.records import dataclass
from dynid.base.registry import Registry
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading
from dynid.robot.xacro import expanded, expanded_before, is_xacro, require_asked
from dynid.robot.xml import MAX_BYTES, Element, read_xml

# A robot description as it is opened, before anyone knows its format.

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


# The catalogue of robot descriptions: one reader a format, as plug-ins may bring.


class RobotFormat(Protocol):
    """Reads one format of robot descriptions."""

    @property
    def name(self) -> str:
        """In words."""
        ...

    def knows(self, file: RobotFile) -> bool:
        """Whether a file is of this format, by its ending or, in XML, by its root element."""
        ...

    def read(self, file: RobotFile) -> RobotModel:
        """The whole robot; joints are held, and gravity is replaced, by whoever asks.

        Raises InputError, with file and line, for what cannot be understood, RefusedError for what is not to be opened.
        """
        ...


# Plug-ins name their reader after the ending of the files, without the dot.
FORMATS: Registry[RobotFormat | type[RobotFormat]] = Registry(
    "robot format",
    "dynid.robots",
    {},
    {
        "toml": "dynid.robot.toml:TomlFormat",
        "usd": "dynid.formats.usd:UsdFormat",
        "urdf": "dynid.robot.urdf:UrdfFormat",
        "mjcf": "dynid.robot.mjcf:MjcfFormat",
        "sdf": "dynid.formats.sdf:SdfFormat",
    },
)


# Endings of files that dynid's own readers take, for where robots and logs stand side by side; .xml is no log's.
_ENDINGS = (".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".world", ".toml", ".usd", ".usda", ".usdc", ".usdz")

# Those of XML alone: what is wrong there is told by its parser.
_OF_XML = (".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".world")
_SHOWN = 40  # characters


def named_as_robot(path: Path) -> bool:
    """Whether a file's name ends like a robot description's, by dynid's own readers or one of a plug-in."""
    ending = path.suffix.lower()
    return ending in _ENDINGS or ending[1:] in FORMATS


def read_robot_file(path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """The whole robot of a description, by the reader that knows the file.

    Raises what the reader raises, InputError if there is none.
    """
    file = RobotFile(path, reading, diagnostics, lambda other: read_robot_file(other, reading, diagnostics))
    for reader in _formats(file.suffix):
        if reader.knows(file):
            return reader.read(file)
    if file.suffix not in _OF_XML and not file.begins_like_xml:
        raise _not_xml_error(file)
    fragment = file.root.tag == "mujocoinclude"
    raise InputError(
        "robot-format",
        found=f"XML with root element <{file.root.tag}>",
        expected="<robot> (URDF), <mujoco> (MJCF) or <sdf> (SDF)",
        do="it is a part of an MJCF: give the file that includes it" if fragment else "",
        place=Place(file=str(path), line=file.root.line),
    )


def _not_xml_error(file: RobotFile) -> InputError:
    """The error for a file that is no XML, which shows its first line that is not blank."""
    lines = enumerate(file.head.decode("utf-8", "replace").split("\n"), 1)
    number, first = next(((k, line.strip()) for k, line in lines if line.strip()), (None, ""))
    shown = "".join(line if line.isprintable() else "?" for line in first[:_SHOWN])
    table = (
        "a table of DH parameters is written as TOML, a [[joint]] with name, a, alpha, d and theta for each "
        'of its lines, below convention = "standard_dh" or "modified_dh" (docs/robot-file.md)'
    )
    return InputError(
        "robot-format",
        found=f"a file that is no XML and begins with '{shown}'" if shown else "an empty file",
        expected="URDF, xacro, MJCF, SDF, USD, or dynid's TOML",
        do=table if shown else "write or copy it again",
        place=Place(file=str(file.path), line=number),
    )


def _formats(suffix: str) -> Iterator[RobotFormat]:
    """The readers of plug-ins, then dynid's own, that of the ending first: others are loaded when it is none of its."""
    built_in = [name for name in FORMATS if name not in FORMATS.added]
    if suffix and suffix[1:] not in built_in:
        FORMATS.get(suffix[1:])  # an installed reader of such files is loaded now
    for name in (*FORMATS.added, *sorted(built_in, key=lambda format_name: format_name != suffix[1:])):
        kind = FORMATS[name]
        yield kind() if isinstance(kind, type) else kind
