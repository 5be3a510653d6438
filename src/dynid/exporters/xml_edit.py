"""XML edited in place: positions of tags and attributes in the bytes of a file, and edits that touch nothing else."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from dynid.base.errors import InputError, Place
from dynid.base.files import read_bytes
from dynid.base.records import dataclass
from dynid.robot.xml import MAX_BYTES, Element, parse, present

_TAG = re.compile(rb"<[^\s/>]+")
_ATTRIBUTE = re.compile(rb"\s+([^\s=/>]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_LEVEL = b"  "


@dataclasses.dataclass
class Tag:
    """An opening tag with its attributes and their positions in the file.

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
    """Read the robot file of a run.

    `tag`: expected root element; `kind`: name of the format, for the message. Result: the file and its root. Raises
    InputError if the root is another element.
    """
    data = read_bytes(path, f"the {kind} file of the run", MAX_BYTES)
    element = parse(data, str(path))
    if element.tag != tag:
        raise InputError(
            "robot-format",
            found=f"<{element.tag}>",
            expected=f"the {kind} file of the run",
            place=Place(file=str(path)),
        )
    return data, element


@dataclasses.dataclass
class Edits:
    """Edits of a file, (start, end, new bytes), applied together."""

    data: bytes
    changes: list[tuple[int, int, bytes]] = field(default_factory=list)

    def set(self, tag: Tag, attribute: str, value: str) -> None:
        """Change an attribute, or add it behind the tag's name."""
        if attribute in tag.spans:
            self.changes.append((*tag.spans[attribute], quoteattr(value)[1:-1].encode()))
        else:
            self.changes.append((tag.name_end, tag.name_end, f" {attribute}={quoteattr(value)}".encode()))

    def remove(self, tag: Tag, attribute: str) -> None:
        """Remove an attribute if it exists."""
        if attribute in tag.wholes:
            self.changes.append((*tag.wholes[attribute], b""))

    def add(self, parents: Tag, elements: list[str]) -> None:
        """Add lines of XML as first content of an element, indented like the file."""
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
        """Remove an element, with its line if nothing else is on it; its content must not be edited."""
        start, end = tag.start, tag.closed
        line = self.data.rfind(b"\n", 0, start) + 1
        rest = self.data.find(b"\n", end)
        if rest >= 0 and not self.data[line:start].strip() and not self.data[end:rest].strip():
            start, end = line, rest + 1
        self.changes.append((start, end, b""))

    def hide(self, tag: Tag) -> None:
        """Put an element in a comment, or remove it if it contains one; its content must not be edited."""
        if b"--" in self.data[tag.start : tag.closed]:
            self.drop(tag)
            return
        self.changes += [(tag.start, tag.start, b"<!-- "), (tag.closed, tag.closed, b" -->")]

    def result(self) -> bytes:
        """The edited file."""
        pieces, position = [], 0
        for start, end, new in sorted(self.changes, key=lambda change: change[:2]):
            pieces += [self.data[position:start], new]
            position = end
        return b"".join([*pieces, self.data[position:]])

    def _margin(self, start: int) -> bytes:
        line = self.data[self.data.rfind(b"\n", 0, start) + 1 : start]
        return line if not line.strip() else b""


def scan(data: bytes, file: str) -> Tag:
    """Root tag of XML that was parsed before.

    Raises InputError if the encoding does not allow tags to be found byte by byte.
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
            found="an encoding in which XML cannot be edited in place",
            expected="UTF-8",
            do="save the file as UTF-8",
            place=Place(file=file),
        )
    position, spans, wholes = opening.end(), {}, {}
    while (attribute := _ATTRIBUTE.match(data, position)) is not None:
        spans[attribute[1].decode()] = attribute.start(2) + 1, attribute.end(2) - 1
        wholes[attribute[1].decode()] = attribute.span()
        position = attribute.end()
    end = data.index(b">", position) + 1
    empty = data[position:end].strip() == b"/>"
    return Tag(name, attributes, start, opening.end(), end, empty, spans, wholes)


# Meshes, textures and height fields that a file names: their paths from a new folder, or removal if they do not exist.

# Where MuJoCo looks for the files that an element names.
MJCF_FOLDERS = {
    "mesh": "meshdir", "hfield": "meshdir", "skin": "meshdir", "flexcomp": "meshdir", "texture": "texturedir",
}  # fmt: skip
_FILE_SCHEME = "file://"
_SIDES = ("fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
# Attributes that name geoms, and attributes that name objects read from files.
_OF_GEOMS = ("geom", "geom1", "geom2")
_OF_OBJECTS = (("objtype", "objname"), ("reftype", "refname"))
_GEOM_ASSETS = ("mesh", "hfield")
_NAMING_GEOMS = ("contact", "sensor", "custom")


@dataclass(frozen=True)
class Placed:
    """A file whose references to other files are valid from its folder.

    absent: references to files that do not exist.    dropped: number of shapes (geoms) that stand in comments for that.
    moved: number of references that were rewritten.
    """

    data: bytes
    absent: tuple[str, ...] = ()
    dropped: int = 0
    moved: int = 0


def place_mjcf(data: bytes, source: Path, target: Path, *, shapes: bool = True) -> Placed:
    """Move MJCF to another folder: rewrite the folders of its assets, and put those that do not exist in comments.

    MuJoCo loads no file with absent assets. Their geoms are put in comments, too.

    `source`, `target`: old and new path; `shapes`: false hides every asset that is read from a file. Inertias, joints
    and all other geoms stay. Result: the new file.
    """
    root = scan(data, str(source))
    work = _Mjcf(root, Edits(data), source.resolve().parent, target.resolve().parent)
    for tag in root.walk():
        names = [tag.attributes[key] for key in ("file", *_SIDES) if tag.attributes.get(key)]
        if tag.name in MJCF_FOLDERS and names:
            work.place_asset(tag, names, shapes)
    work.name_folders()
    work.drop_users()
    return Placed(work.edits.result(), tuple(work.absent), work.shapes, len(work.used))


class _Mjcf:
    """Assets of an MJCF file, looked up from `start` and written for `end`, and what uses those that are dropped."""

    def __init__(self, root: Tag, edits: Edits, start: Path, end: Path) -> None:
        self.root, self.edits, self.start, self.end = root, edits, start, end
        self.settings: dict[str, str] = {}
        for compiler in root.all("compiler"):
            self.settings |= compiler.attributes
        self.absent: list[str] = []
        self.lost: dict[str, set[str]] = {"mesh": set(), "hfield": set(), "texture": set()}
        self.used: dict[str, str] = {}
        self.shapes = 0

    def place_asset(self, tag: Tag, names: Sequence[str], kept: bool) -> None:
        option = MJCF_FOLDERS[tag.name]
        folder = self.settings.get(option, self.settings.get("assetdir", ""))
        missing = [name for name in names if not kept or not present(self._path(folder, name))]
        if missing:
            self._drop_asset(tag, missing)
        if self.start != self.end and not all(Path(folder, name).is_absolute() for name in names):
            self.used[option] = folder

    def _path(self, folder: str, name: str) -> Path:
        strips = self.settings.get("strippath") == "true"
        return self.start / folder / (_file_name(name) if strips else name)

    def _drop_asset(self, tag: Tag, names: Sequence[str]) -> None:
        self.edits.hide(tag)
        self.absent += [name for name in names if name not in self.absent]
        if tag.name in self.lost:
            # MuJoCo names an asset without a name by its file.
            stem = Path(_file_name(tag.attributes.get("file", ""))).stem
            self.lost[tag.name].add(tag.attributes.get("name", stem))
        else:
            self.shapes += 1

    def name_folders(self) -> None:
        folders = {option: _path_from(self.end, self.start / folder) for option, folder in self.used.items()}
        compilers = self.root.all("compiler")
        for option, folder in folders.items() if compilers else ():
            self.edits.set(compilers[-1], option, folder)
        if folders and not compilers:
            options = " ".join(f"{option}={quoteattr(folder)}" for option, folder in folders.items())
            self.edits.add(self.root, [f"<compiler {options}/>"])

    def drop_users(self) -> None:
        gone = self._drop_geoms() if any(self.lost.values()) else set()
        for tag in self.root.walk():
            if tag.name == "material" and tag.attributes.get("texture", "") in self.lost["texture"]:
                self.edits.remove(tag, "texture")
            if tag.name == "layer" and tag.attributes.get("texture", "") in self.lost["texture"]:
                self.edits.hide(tag)
        for section in (element for name in _NAMING_GEOMS for element in self.root.all(name)):
            for tag in section.walk():
                if _names_geom(tag, gone):
                    self.edits.hide(tag)

    def _drop_geoms(self) -> set[str]:
        defaults = _defaults(self.root)
        for kind in _GEOM_ASSETS:
            for tag in (
                element
                for top in self.root.all("default")
                for element in top.walk()
                if element.name == "geom"
            ):
                if tag.attributes.get(kind, "") in self.lost[kind]:
                    self.edits.remove(tag, kind)
        gone: set[str] = set()
        for tag, around in _with_classes(self.root):
            attributes = defaults.get(tag.attributes.get("class", around), {}) | tag.attributes
            if tag.name == "geom" and any(
                attributes.get(kind, "") in self.lost[kind] for kind in _GEOM_ASSETS
            ):
                self.edits.hide(tag)
                self.shapes += 1
                gone |= {tag.attributes["name"]} if "name" in tag.attributes else set()
        return gone


def _names_geom(tag: Tag, geoms: set[str]) -> bool:
    named = {tag.attributes[key] for key in _OF_GEOMS if key in tag.attributes}
    named |= {
        tag.attributes.get(name, "") for kind, name in _OF_OBJECTS if tag.attributes.get(kind) == "geom"
    }
    return bool(named & geoms)


def _file_name(name: str) -> str:
    return Path(name.replace("\\", "/")).name


def _defaults(root: Tag) -> dict[str, dict[str, str]]:
    # Attributes of geoms per default class; "" = no class.
    classes: dict[str, dict[str, str]] = {"": {}}

    def visit(tag: Tag, name: str, inherited: dict[str, str]) -> None:
        geom_attributes = dict(inherited)
        for geom in tag.all("geom"):
            geom_attributes |= geom.attributes
        classes[name] = geom_attributes
        for child in tag.all("default"):
            visit(child, child.attributes.get("class", ""), geom_attributes)

    for top in root.all("default"):
        visit(top, "", classes[""])
        classes[top.attributes.get("class", "main")] = classes[""]
    return classes


def _with_classes(root: Tag) -> Iterator[tuple[Tag, str]]:
    # Elements of the worldbody with the class of the nearest `childclass` around each.
    stack = [(world, "") for world in root.all("worldbody")]
    while stack:
        tag, around = stack.pop()
        yield tag, around
        inner = tag.attributes.get("childclass", around)
        stack += [(child, inner) for child in reversed(tag.children)]


def place_urdf(data: bytes, source: Path, target: Path) -> Placed:
    """Move URDF to another folder: rewrite paths of meshes and textures, whether the files exist or not.

    Paths by package or with a network address do not depend on the folder and stay.

    `source`, `target`: old and new path. Result: the new file.
    """
    root, edits = scan(data, str(source)), Edits(data)
    start, end = source.resolve().parent, target.resolve().parent
    absent, moved = list[str](), 0
    for tag in root.walk():
        name = tag.attributes.get("filename", "") if tag.name in ("mesh", "texture") else ""
        local = name.removeprefix(_FILE_SCHEME)
        if not name or "://" in local:
            continue
        if not present(start / local):
            absent += [name] if name not in absent else []
        if local == name and not Path(name).is_absolute() and start != end:
            edits.set(tag, "filename", _path_from(end, start / name))
            moved += 1
    return Placed(edits.result(), tuple(absent), 0, moved)


def _path_from(folder: Path, path: Path) -> str:
    # Relative paths survive moving both folders; Windows has none between drives.
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return path.as_posix()
