"""Read bag files, including damaged bags; only this module imports the optional package rosbags."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from dynid.base.errors import DynidError, InputError, Place, RefusedError, ResourceError, UnfitDataError
from dynid.base.records import dataclass

# Find the intact part of a truncated bag: count complete records from the beginning instead of using the index.

ROS1_MAGIC = b"#ROSBAG V"
MCAP_MAGIC = b"\x89MCAP0\r\n"
SQLITE_MAGIC = b"SQLite format 3\0"
_MCAP_FOOTER, _MCAP_MESSAGE, _MCAP_CHUNK, _MCAP_INDEX = 0x02, 0x05, 0x06, 0x07


def intact_part(path: Path) -> str:
    """Text that describes the intact part of a truncated bag; "" if the bag does not seem to be truncated."""
    if path.is_dir():
        texts = [
            intact_part(member) for member in sorted(path.iterdir()) if member.suffix in (".mcap", ".db3")
        ]
        return "; ".join(text for text in texts if text)
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = file.seek(0, 2)
            if head.startswith(MCAP_MAGIC):
                return _mcap(file, size)
            if head.startswith(ROS1_MAGIC):
                return _ros1(file, size)
            if head.startswith(SQLITE_MAGIC) and len(head) == 100:
                return _sqlite(head, size)
    except (OSError, struct.error):
        return ""
    return ""


def _mcap(file: BinaryIO, size: int) -> str:
    file.seek(len(MCAP_MAGIC))
    chunks, count = 0, 0
    ends: list[int] = []
    while True:
        lead = file.read(9)
        length = struct.unpack("<Q", lead[1:])[0] if len(lead) == 9 else size
        start = file.tell()
        if start + length > size:
            return _intact_text(chunks, count, size, ends)
        head = file.read(min(length, 16))
        if lead[0] == _MCAP_FOOTER:
            return ""
        if lead[0] == _MCAP_MESSAGE and len(head) >= 14:
            count += 1
            ends = _extended(ends, struct.unpack_from("<Q", head, 6))
        elif lead[0] == _MCAP_CHUNK and len(head) == 16:
            chunks += 1
            ends = _extended(ends, struct.unpack("<QQ", head))
        elif lead[0] == _MCAP_INDEX and len(head) >= 6:
            count += struct.unpack_from("<I", head, 2)[0] // 16
        file.seek(start + length)


def _ros1(file: BinaryIO, size: int) -> str:
    file.seek(0)
    file.readline()
    chunks, count = 0, 0
    ends: list[int] = []
    indexed = True
    while file.tell() < size:
        places = []
        for _ in range(2):
            lead = file.read(4)
            length = struct.unpack("<I", lead)[0] if len(lead) == 4 else size
            places.append((file.tell(), length))
            if file.seek(length, 1) > size:
                return _intact_text(chunks, count, size, ends)
        (at, length), (body, body_length) = places
        file.seek(at)
        header = file.read(min(length, 4096))
        if b"op=\x03" in header and b"index_pos=" in header:
            indexed = struct.unpack_from("<Q", header, header.index(b"index_pos=") + 10)[0] > 0
        chunks += b"op=\x05" in header
        if b"op=\x04" in header and body_length >= 12:
            # An index entry after a chunk consists of seconds, nanoseconds and offset.
            count += body_length // 12
            for entry in (body, body + body_length - 12):
                file.seek(entry)
                seconds, nanoseconds = struct.unpack("<II", file.read(8))
                ends = _extended(ends, [seconds * 1_000_000_000 + nanoseconds])
        file.seek(body + body_length)
    return "" if indexed else _intact_text(chunks, count, size, ends)


def _sqlite(head: bytes, size: int) -> str:
    page: int = struct.unpack(">H", head[16:18])[0]
    page = 65536 if page == 1 else page
    pages = struct.unpack(">I", head[28:32])[0]
    if pages == 0 or size >= pages * page:
        return ""
    return f"{size // page} of {pages} pages of its database are intact"


def _extended(ends: Sequence[int], times: Sequence[int]) -> list[int]:
    return [min(*ends, *times, times[0]), max(*ends, *times, times[0])]


def _intact_text(chunks: int, count: int, size: int, ends: Sequence[int]) -> str:
    seconds = (ends[1] - ends[0]) * 1e-9 if ends else 0.0
    return f"{chunks} chunk(s) and {count} indexed messages over {seconds:.3g} s are intact in {size} bytes"


# Read the topics and raw messages of a bag.

METADATA = "metadata.yaml"

# Limits that protect against files that would exhaust the memory; recordings are far below these limits.
MAX_METADATA_BYTES = 4_000_000
MAX_ALIASES = 100
MAX_CHUNK_BYTES = 1 << 30
MAX_DEFINITIONS = 2000
_ALIAS = re.compile(r"(?:^|[\s\[{,:-])[*&]\w+", re.MULTILINE)
_IDENTIFIER = re.compile(r"[A-Za-z]\w*(/[A-Za-z]\w*)*")


@dataclass(frozen=True)
class Topic:
    """Topic of a bag: name, message type, and number of messages according to the bag's index."""

    name: str
    kind: str
    count: int


class Bag:
    """ROS 1 bag, rosbag2 folder, or single .mcap or .db3 file; each pass reopens the file.

    Parameters
    ----------
    path : Path
        Path of the bag.
    kinds : collection of str
        Message types of joint states.
    definitions : collection of Path
        .msg files, or folders of them, for types that the bag does not define.

    Attributes
    ----------
    codecs : dict of Topic to Codec
        Codecs of the topics with joint states.
    other_codecs : dict of Topic to Codec
        Codecs of all other topics whose message type is defined.
    checksums : bool
        Whether the bag has checksums, which reveal damaged values.

    Raises
    ------
    InputError
        If the file is not a bag, or if the definition of a type of joint states is missing.
    UnfitDataError
        If the bag is truncated.

    """

    def __init__(self, path: Path, kinds: Collection[str], definitions: Collection[Path] = ()) -> None:
        self.path = path
        self.further = read_definitions(definitions)
        self.ros1 = path.suffix.lower() == ".bag"
        if path.is_dir():
            _check_folder(path)
        with self._opened() as reader:
            counts: dict[tuple[str, str], int] = {}
            for connection in reader.connections:
                counts[connection.topic, connection.msgtype] = (
                    counts.get((connection.topic, connection.msgtype), 0) + connection.msgcount
                )
            self.checksums = _has_checksums(reader)
            self.topics = tuple(Topic(*key, count) for key, count in sorted(counts.items()))
            self.codecs = {
                topic: Codec(self._typestore(reader, topic), topic.kind, self.ros1)
                for topic in self.topics
                if topic.kind in kinds
            }
            self.other_codecs, self.first_messages = self._others(reader, kinds)
            self.seconds = 1e-9 * max(float(reader.duration), 0.0)

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the bag."""
        return bag_files(self.path)

    def messages(self, topics: Collection[Topic]) -> Iterator[tuple[Topic, int, bytes]]:
        """Yield the messages of the given topics in the order of reception.

        Yields
        ------
        topic : Topic
        time : int, ns
            Reception time.
        message : bytes
            Serialised message.

        Raises
        ------
        UnfitDataError, InputError
            If the file is damaged.

        """
        wanted = {(topic.name, topic.kind): topic for topic in topics}
        with self._opened() as reader:
            connections = [
                connection
                for connection in reader.connections
                if (connection.topic, connection.msgtype) in wanted
            ]
            if not connections:
                return
            by_id = {
                id(connection): wanted[connection.topic, connection.msgtype] for connection in connections
            }
            for connection, time, raw in reader.messages(connections):
                topic = by_id.get(id(connection)) or wanted[connection.topic, connection.msgtype]
                yield topic, time, raw

    def _typestore(self, reader: Any, topic: Topic) -> Any:
        from rosbags.typesys import Stores, get_typestore

        known = get_typestore(Stores.ROS1_NOETIC if self.ros1 else Stores.ROS2_HUMBLE)
        types = next(
            (
                definitions
                for connection in reader.connections
                if (connection.topic, connection.msgtype) == (topic.name, topic.kind)
                and (definitions := self._definitions(connection)) is not None
            ),
            {},
        )
        if topic.kind not in types:
            if topic.kind in known.fielddefs:
                return known
            raise InputError(
                "unknown-schema",
                found=f"no message definition of {topic.kind} (topic {topic.name})",
                expected="definitions in the bag",
                do='add its .msg files (definitions = "FOLDER" under [log]), or record with a newer ROS',
                place=Place(file=str(self.path)),
            )
        if all(name in known.fielddefs and known.fielddefs[name][1] == types[name][1] for name in types):
            return known
        # rosbags generates Python code from the definitions, so only plain identifiers are accepted.
        for name, (_, entries) in types.items():
            for text in (name, *(field for field, _ in entries)):
                if not _IDENTIFIER.fullmatch(text):
                    raise RefusedError(
                        "schema-name",
                        found=f"the name {text!r} in a message definition",
                        expected="letters, digits and _",
                        place=Place(file=str(self.path)),
                    )
        store = get_typestore(Stores.EMPTY)
        store.register({name: ([], entries) for name, (_, entries) in types.items()})
        return store

    def _others(self, reader: Any, kinds: Collection[str]) -> tuple[dict[Topic, Codec], dict[Topic, bytes]]:
        """Codecs and first messages of the topics without joint states; their definitions do not become code."""
        from rosbags.typesys import Stores, get_typestore

        known = dict(get_typestore(Stores.ROS1_NOETIC if self.ros1 else Stores.ROS2_HUMBLE).fielddefs)
        codecs: dict[Topic, Codec] = {}
        first: dict[Topic, bytes] = {}
        for topic in self.topics:
            if topic.kind in kinds or not topic.count:
                continue
            # A topic of an undefined or unreadable type has no columns; mapping such a column causes an error later.
            with suppress(InputError, UnfitDataError), _translated(self.path):
                same = [
                    connection
                    for connection in reader.connections
                    if (connection.topic, connection.msgtype) == (topic.name, topic.kind)
                ]
                types = next(
                    (definitions for definitions in map(self._definitions, same) if definitions is not None),
                    {},
                )
                fields = {**self.further, **known, **types}
                message = next(reader.messages(same), None) if topic.kind in fields else None
                if message is not None:
                    codecs[topic] = Codec(_Fields(fields), topic.kind, self.ros1)
                    first[topic] = bytes(message[2])
        return codecs, first

    def _definitions(self, connection: Any) -> dict[str, Any] | None:
        """Parsed message definitions of a connection, by type; None if the bag has no definitions."""
        try:
            return _parsed(connection)
        except Exception as error:  # a third-party parser can raise any error for a damaged definition
            text = " ".join(str(error).split())[:160]
            raise InputError(
                "unknown-schema",
                found=f"an unreadable definition of {connection.msgtype} (topic {connection.topic}): {text}",
                expected="a definition in the ROS message language",
                place=Place(file=str(self.path)),
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        readers = _readers(self.path)
        with _translated(self.path), readers[0 if self.ros1 else 1](self.path) as reader:
            _refuse_bombs(reader, self.path)
            yield reader


@dataclass(frozen=True, eq=False)
class _Fields:
    """Message types by name as parsed by rosbags, used without generating code from them."""

    fielddefs: Mapping[str, Any]


class Codec:
    """Converts messages of a type to objects and back with rosbags."""

    def __init__(self, store: Any, kind: str, ros1: bool) -> None:
        self.store, self.kind, self.ros1 = store, kind, ros1

    def decode(self, raw: bytes) -> Any:
        """Deserialise a message; errors of rosbags are not converted."""
        return (self.store.deserialize_ros1 if self.ros1 else self.store.deserialize_cdr)(raw, self.kind)

    def encode(self, message: Any) -> bytes:
        """Serialise a message."""
        if self.ros1:
            return bytes(self.store.serialize_ros1(message, self.kind))
        return bytes(self.store.serialize_cdr(message, self.kind, little_endian=True))

    def fields(self, kind: str) -> list[tuple[str, Any]]:
        """Name and rosbags field definition of each field of a message type."""
        return [(name, description) for name, description in self.store.fielddefs[kind][1]]


def read_definitions(paths: Collection[Path]) -> dict[str, Any]:
    """Read message types from .msg files into a mapping by type name.

    A file PACKAGE/msg/TYPE.msg or PACKAGE/TYPE.msg defines the type PACKAGE/msg/TYPE.

    Raises
    ------
    InputError
        If a file is missing or not a message definition.

    """
    types: dict[str, Any] = {}
    for path in paths:
        files = sorted(path.rglob("*.msg"))[:MAX_DEFINITIONS] if path.is_dir() else [path]
        if not files or not path.exists():
            raise InputError(
                "definitions",
                found="no .msg file" if path.exists() else "no such file",
                expected="message definitions, PACKAGE/msg/TYPE.msg",
                place=Place(file=str(path)),
            )
        for definition in files:
            folder = definition.resolve().parent
            package = folder.parent.name if folder.name == "msg" else folder.name
            try:
                from rosbags.typesys import get_types_from_msg

                with definition.open(encoding="utf-8") as file:
                    types |= get_types_from_msg(
                        file.read(MAX_METADATA_BYTES), f"{package}/msg/{definition.stem}"
                    )
            except ImportError:
                _readers(definition)
            except Exception as error:  # a third-party parser can raise any error for a damaged definition
                text = " ".join(str(error).split())[:160]
                raise InputError(
                    "definitions",
                    found=f"an unreadable definition: {text}",
                    expected="a definition in the ROS message language",
                    place=Place(file=str(definition)),
                ) from error
    return types


def bag_files(path: Path) -> tuple[Path, ...]:
    """Files of a bag: the file itself, or metadata.yaml and the storage files of a folder."""
    if not path.is_dir():
        return (path,)
    endings = (".db3", ".mcap", ".db3.zstd", ".mcap.zstd")
    return tuple(
        sorted(file for file in path.iterdir() if file.name == METADATA or file.name.endswith(endings))
    )


def _readers(path: Path) -> tuple[Any, Any]:
    try:
        from rosbags.rosbag1 import Reader as Ros1Reader
        from rosbags.rosbag2 import Reader as Ros2Reader
    except ImportError as error:
        raise ResourceError(
            "no-rosbags",
            found=f"no package '{error.name}'",
            expected="rosbags, which reads ROS bags and MCAP files",
            do="pip install 'dynid[bags]'",
            place=Place(file=str(path)),
        ) from error
    return Ros1Reader, Ros2Reader


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Convert errors of rosbags, which may have any type, to errors of dynid."""
    try:
        yield
    except DynidError:
        raise
    except MemoryError as error:
        if sum(file.stat().st_size for file in bag_files(path)) > MAX_CHUNK_BYTES:
            raise
        raise _damaged(path, ValueError("a record longer than the file")) from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # raised by a decompressor, or by an offset outside the file
            raise _damaged(path, error) from error
        raise ResourceError(
            "file-unreadable",
            found=f"'{error.strerror}'",
            expected="a readable bag",
            place=Place(file=str(error.filename or path)),
        ) from error
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DynidError:
    text = " ".join(str(error).split())[:200] or type(error).__name__
    place = Place(file=str(path))
    if "checksum" in text:
        return UnfitDataError(
            "checksum",
            found=f"a damaged bag ({text})",
            expected="data that match their checksums",
            do="copy it again",
            place=place,
        )
    intact = "" if "not supported" in text else intact_part(path)
    if intact:
        return UnfitDataError(
            "truncated",
            found=f"a damaged or truncated bag ({text}): {intact}",
            expected="the complete file",
            do="copy it again, or repair it (`ros2 bag reindex`, `rosbag reindex`, `mcap recover`)",
            place=place,
        )
    return InputError(
        "bag",
        found=f"a bag that cannot be read ({text})",
        expected="a ROS 1 bag, or a rosbag2 recording in MCAP or SQLite",
        do="copy it again, or record it in a supported format",
        place=place,
    )


def _check_folder(path: Path) -> None:
    place = Place(file=str(path / METADATA))
    with (path / METADATA).open("rb") as file:
        text = file.read(MAX_METADATA_BYTES + 1).decode("utf-8", "replace")
    if len(text) > MAX_METADATA_BYTES or len(_ALIAS.findall(text)) > MAX_ALIASES:
        raise RefusedError(
            "metadata",
            found="a metadata.yaml that is too large or has too many aliases",
            expected="the metadata of a recording",
            do="restore it with `ros2 bag reindex`",
            place=place,
        )
    root = path.resolve()
    outside = [str(member.name) for member in bag_files(path) if root not in member.resolve().parents]
    if outside or re.search(r"^\s*(?:-|path:)\s*['\"]?(?:/|.*\.\./)", text, re.MULTILINE):
        raise RefusedError(
            "bag-path",
            found="a bag with files outside its folder" + (f" ({', '.join(outside)})" if outside else ""),
            expected="all files within the folder",
            do="copy all files of the bag into its folder",
            place=place,
        )


def _has_checksums(reader: Any) -> bool:
    storage = getattr(reader, "storage", None)
    parts = getattr(storage, "storages", [storage])
    return all(getattr(part, "chunks", ()) for part in parts) and all(
        any(_chunk_checksum(part.path, chunk.chunk_start_offset))
        for part in parts
        for chunk in part.chunks[:1]
    )


def _chunk_checksum(path: Path, start: int) -> bytes:
    # In an MCAP chunk, the checksum follows the record type, the length, two times and the size.
    with path.open("rb") as file:
        file.seek(start + 9 + 24)
        return file.read(4)


def _refuse_bombs(reader: Any, path: Path) -> None:
    storage = getattr(reader, "storage", None)
    for part in getattr(storage, "storages", [storage]):
        sizes = [chunk.uncompressed_size for chunk in getattr(part, "chunks", ())]
        if max(sizes, default=0) > MAX_CHUNK_BYTES:
            raise RefusedError(
                "decompression",
                found=f"a chunk of {max(sizes)} bytes",
                expected=f"at most {MAX_CHUNK_BYTES}",
                do="record with smaller chunks",
                place=Place(file=str(path)),
            )


def _parsed(connection: Any) -> dict[str, Any] | None:
    from rosbags.typesys import get_types_from_idl, get_types_from_msg

    text, form = connection.msgdef.data, connection.msgdef.format.name
    if form == "MSG":
        return dict(get_types_from_msg(text, connection.msgtype))
    if form != "IDL":
        return None
    ruler = "=" * 80 + "\n"
    types: dict[str, Any] = {}
    for part in text.split(ruler):
        body = part.split("\n", 1)[1] if part.startswith("IDL: ") else part
        if body.strip():
            types |= get_types_from_idl(body)
    return types
