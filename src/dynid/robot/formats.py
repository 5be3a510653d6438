"""Registry of robot file formats: one reader per format, built in or from a plug-in."""

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

# A robot file before its format is known.

KIND = "a robot file: URDF, xacro, MJCF, SDF, USD or TOML"
# Bytes that are looked at to recognise the format.
_HEAD = 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, eq=False)
class RobotFile:
    """A robot file to be read.

    Parameters
    ----------
    path : Path
    reading : Reading
        Options of reading.
    diagnostics : Diagnostics
        Receives warnings.
    other : callable
        Reads another robot file that this one builds on.

    """

    path: Path
    reading: Reading
    diagnostics: Diagnostics
    other: Callable[[Path], RobotModel]

    @property
    def suffix(self) -> str:
        """Suffix of the file name in lower case, with its dot."""
        return self.path.suffix.lower()

    @property
    def tag(self) -> str:
        """Name of the root element; "" for a file that does not begin like XML."""
        return self.root.tag if self.begins_like_xml else ""

    @property
    def begins_like_xml(self) -> bool:
        """Whether the first character is "<", or the file is UTF-16."""
        return self.head.lstrip()[:1] == b"<" or self.head[:2] in _UTF16

    @cached_property
    def head(self) -> bytes:
        """First bytes of the file, without the byte order mark of UTF-8."""
        return read_bytes(self.path, KIND, MAX_BYTES)[:_HEAD].removeprefix(b"\xef\xbb\xbf")

    @cached_property
    def root(self) -> Element:
        """Root element of an XML file, with xacro expanded."""
        return read_description(self.path, self.reading, self.diagnostics)


def read_again(path: Path, reading: Reading) -> Element:
    """Read again the root element of a robot's file; a stored file name alone never expands xacro.

    Raises InputError for a xacro file that was not expanded in this process; otherwise as `read_xml`.
    """
    root = read_xml(path, KIND)
    if not is_xacro(root):
        return root
    if (known := expanded_before(path, reading)) is None:
        raise InputError(
            "xacro",
            found="a xacro file in a stored run, which is not expanded without your request",
            expected="a robot file that you name; its shapes are drawn when the run is made",
            place=Place(file=str(path)),
        )
    return known


def read_description(path: Path, reading: Reading, diagnostics: Diagnostics) -> Element:
    """Read the root element of a robot file in XML, with xacro expanded.

    Raises as `read_xml`, `require_asked` and `expanded`.
    """
    root = read_xml(path, KIND)
    require_asked(root, path, reading)
    return expanded(root, path, reading, diagnostics) if is_xacro(root) else root


# Registry of readers, one per format, built in or from a plug-in.


class RobotFormat(Protocol):
    """Reader of one robot file format."""

    @property
    def name(self) -> str:
        """Name of the format."""
        ...

    def knows(self, file: RobotFile) -> bool:
        """Whether a file has this format, by its suffix or, for XML, by its root element."""
        ...

    def read(self, file: RobotFile) -> RobotModel:
        """Read the whole robot; the caller locks joints and replaces gravity.

        Raises InputError, with file and line, for what cannot be understood, RefusedError for files that must not be
        opened.
        """
        ...


# Plug-ins name their reader after the suffix of the files, without the dot.
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


# Suffixes of dynid's readers, which distinguish robot files from logs.
_ENDINGS = (".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".world", ".toml", ".usd", ".usda", ".usdc", ".usdz")

# Suffixes of XML files, whose errors the XML parser reports.
_OF_XML = (".urdf", ".xacro", ".xml", ".mjcf", ".sdf", ".world")
_SHOWN = 40  # characters


def named_as_robot(path: Path) -> bool:
    """Whether the suffix of a file is that of a robot file, for dynid's readers or a plug-in's."""
    ending = path.suffix.lower()
    return ending in _ENDINGS or ending[1:] in FORMATS


def read_robot_file(path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """Read the whole robot of a file with the reader that knows its format.

    Parameters
    ----------
    path : Path
        The robot file.
    reading : Reading
        Options of reading.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        If no reader knows the file.
    DynidError
        As the reader.

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
        do="this is a part of an MJCF model: name the file that includes it" if fragment else "",
        place=Place(file=str(path), line=file.root.line),
    )


def _not_xml_error(file: RobotFile) -> InputError:
    """Return the error for a file that is not XML, with its first line that is not blank."""
    lines = enumerate(file.head.decode("utf-8", "replace").split("\n"), 1)
    number, first = next(((k, line.strip()) for k, line in lines if line.strip()), (None, ""))
    shown = "".join(line if line.isprintable() else "?" for line in first[:_SHOWN])
    table = (
        'write DH parameters as TOML: convention = "standard_dh" or "modified_dh", then a [[joint]] with name, a, '
        "alpha, d and theta per row (docs/robot-file.md)"
    )
    return InputError(
        "robot-format",
        found=f"a file that is not XML and begins with '{shown}'" if shown else "an empty file",
        expected="URDF, xacro, MJCF, SDF, USD, or dynid's TOML",
        do=table if shown else "export or copy it again",
        place=Place(file=str(file.path), line=number),
    )


def _formats(suffix: str) -> Iterator[RobotFormat]:
    """Yield the readers of plug-ins, then dynid's, that of the suffix first, so that others are rarely imported."""
    built_in = [name for name in FORMATS if name not in FORMATS.added]
    if suffix and suffix[1:] not in built_in:
        FORMATS.get(suffix[1:])  # imports an installed reader of such files
    for name in (*FORMATS.added, *sorted(built_in, key=lambda format_name: format_name != suffix[1:])):
        kind = FORMATS[name]
        yield kind() if isinstance(kind, type) else kind
