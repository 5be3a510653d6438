"""The catalogue of robot descriptions: one reader a format, as plug-ins may bring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.base.registry import Registry
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.source import RobotFile


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
        "usd": "dynid.robot.usd:UsdFormat",
        "urdf": "dynid.robot.urdf:UrdfFormat",
        "mjcf": "dynid.robot.mjcf:MjcfFormat",
        "sdf": "dynid.robot.sdf:SdfFormat",
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
    for one in _formats(file.suffix):
        if one.knows(file):
            return one.read(file)
    if file.suffix not in _OF_XML and not file.begins_like_xml:
        raise _no_xml(file)
    fragment = file.root.tag == "mujocoinclude"
    raise InputError(
        "robot-format",
        found=f"XML with root element <{file.root.tag}>",
        expected="<robot> (URDF), <mujoco> (MJCF) or <sdf> (SDF)",
        do="it is a part of an MJCF: give the file that includes it" if fragment else "",
        place=Place(file=str(path), line=file.root.line),
    )


def _no_xml(file: RobotFile) -> InputError:
    """The error for a file that is no XML, which shows its first line that is not blank."""
    lines = enumerate(file.head.decode("utf-8", "replace").split("\n"), 1)
    number, first = next(((k, one.strip()) for k, one in lines if one.strip()), (None, ""))
    shown = "".join(one if one.isprintable() else "?" for one in first[:_SHOWN])
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
    own = [name for name in FORMATS if name not in FORMATS.added]
    if suffix and suffix[1:] not in own:
        FORMATS.get(suffix[1:])  # an installed reader of such files is loaded now
    for name in (*FORMATS.added, *sorted(own, key=lambda one: one != suffix[1:])):
        kind = FORMATS[name]
        yield kind() if isinstance(kind, type) else kind
