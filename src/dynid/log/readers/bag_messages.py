"""Decode joint states from raw messages: messages of the same layout together, other messages one by one."""

from __future__ import annotations

import copy
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.readers.bag_files import Codec, Topic

Bytes = npt.NDArray[np.uint8]

JOINT_STATE = "sensor_msgs/msg/JointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"
KINDS = (JOINT_STATE, CONTROLLER_STATE)
FIELDS = ("position", "velocity", "effort")
# Fields with the names and numbers in each message type. If several names are listed for a part, the first name that
# exists is used.
_NAMES = {JOINT_STATE: "name", CONTROLLER_STATE: "joint_names"}
_PARTS: dict[str, tuple[str, ...]] = {JOINT_STATE: (), CONTROLLER_STATE: ("feedback", "actual")}
_ENDING = {
    JOINT_STATE: FIELDS,
    CONTROLLER_STATE: ("positions", "velocities", "effort"),
}
MAX_LAYOUTS = 64  # maximum number of layouts of a topic; messages of other layouts are decoded one by one
ALIGNMENT = 4  # bytes; messages may be padded at the end to a multiple of this size


@dataclass(frozen=True, eq=False)
class Group:
    """Decoded messages of a block that have the same joints.

    Parameters
    ----------
    rows : ndarray of int, shape (k,)
        Indices of the messages in the block.
    names : tuple of str
        Names of the joints.
    stamp : ndarray of int, shape (k,), ns
        Header stamps.
    fields : mapping of str to ndarray, shape (k, n_joints)
        Position, velocity and effort; only the fields that the messages contain.

    """

    rows: Int
    names: tuple[str, ...]
    stamp: Int
    fields: Mapping[str, Float]

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return self.rows.nbytes + self.stamp.nbytes + sum(values.nbytes for values in self.fields.values())


@dataclass(frozen=True, eq=False)
class _Content:
    """Names, stamp (ns) and numbers of a message."""

    names: tuple[str, ...]
    stamp: int
    fields: Mapping[str, Float]


@dataclass(frozen=True, eq=False)
class _Layout:
    """Byte offsets of the numbers in messages with the same names and sizes.

    Parameters
    ----------
    names : tuple of str
        Names of the joints.
    template : ndarray of uint8
        A message of this layout.
    fixed : ndarray of int
        Indices of the bytes that are neither numbers nor padding. In a message of this layout, they equal the template.
    stamp : int
        Offset of the stamp, which consists of two 32-bit integers.
    fields : mapping of str to tuple of int
        Offset and number of the float64 values of each field.

    """

    names: tuple[str, ...]
    template: Bytes
    fixed: Int
    stamp: int
    fields: Mapping[str, tuple[int, int]]

    def matches(self, data: Bytes) -> Bool:
        """Mask (k,) of the messages (k, n_bytes) that have this layout."""
        return np.asarray((data[:, self.fixed] == self.template[self.fixed]).all(axis=1))

    def group(self, rows: Int, data: Bytes) -> Group:
        """Decode messages (k, n_bytes) of this layout."""

        def numbers(at: int, count: int, kind: str) -> Any:
            size = np.dtype(kind).itemsize * count
            return np.ascontiguousarray(data[:, at : at + size]).view(kind)

        seconds = numbers(self.stamp, 2, "<u4").astype(np.int64)
        fields = {
            name: numbers(at, count, "<f8").astype(np.float64) for name, (at, count) in self.fields.items()
        }
        return Group(rows, self.names, seconds[:, 0] * 1_000_000_000 + seconds[:, 1], fields)


class _WrongMessage(Exception):
    """Error for a message with inconsistent content; its two arguments are the finding and the expected content."""


class Decoder:
    """Decodes the messages of a topic with joint states.

    The rosbags package decodes the first message of each layout. Encoding this message again with other numbers shows
    which bytes are numbers. All messages that equal it in the other bytes are decoded together. If the layout does not
    reproduce the result of rosbags, rosbags decodes these messages one by one.
    """

    def __init__(self, codec: Codec, topic: Topic, path: Path) -> None:
        self.codec, self.topic, self.path = codec, topic, path
        self.layouts: dict[int, list[_Layout]] = {}
        self.tries = 0

    def decode(self, raws: Sequence[bytes], first: int = 0, seconds: Float | None = None) -> Iterator[Group]:
        """Decode messages and yield them in groups.

        Parameters
        ----------
        raws : sequence of bytes
            Serialised messages.
        first : int
            Number of the first message, which error messages state.
        seconds : ndarray, shape (k,), s, optional
            Time of each message since the topic's first message, which error messages state.

        Raises
        ------
        InputError
            If a message cannot be decoded.

        """

        def alone(row: int) -> _Content:
            return self.content(raws[row], first + row, None if seconds is None else float(seconds[row]))

        lengths = np.array([len(raw) for raw in raws], dtype=np.int64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            data = np.frombuffer(b"".join([raws[i] for i in rows.tolist()]), dtype=np.uint8).reshape(
                -1, length
            )
            known = self.layouts.setdefault(length, [])
            for layout in known:
                same = layout.matches(data)
                if same.any():
                    yield layout.group(rows[same], data[same])
                    rows, data = rows[~same], data[~same]
            while len(rows):
                if self.tries >= MAX_LAYOUTS:
                    yield from (_single_group(row, alone(row)) for row in rows.tolist())
                    break
                self.tries += 1
                top = int(rows[0])
                content = alone(top)
                new_layout = self._layout(raws[top], content)
                if new_layout is None:
                    yield _single_group(top, content)
                    rows, data = rows[1:], data[1:]
                    continue
                known.append(new_layout)
                same = new_layout.matches(data)
                yield new_layout.group(rows[same], data[same])
                rows, data = rows[~same], data[~same]

    def content(self, raw: bytes, number: int, seconds: float | None = None) -> _Content:
        """Decode a message with rosbags; raise InputError with its number and time if this fails."""
        try:
            return self._content(self.codec.decode(raw))
        except _WrongMessage as error:
            finding, expected = error.args
        except Exception as error:  # rosbags can raise any error for a damaged message
            text = " ".join(str(error).split())[:160]
            finding, expected = f"that cannot be read ({text})", f"one of {self.topic.kind}"
        raise InputError(
            "message",
            found=f"message {number} of topic {self.topic.name} {finding}",
            expected=expected,
            place=Place(file=str(self.path), row=number, time=seconds),
        )

    def _content(self, message: Any) -> _Content:
        names = tuple(str(name) for name in getattr(message, _NAMES[self.topic.kind]))
        stamp = message.header.stamp
        fields = {}
        for name, (holder, ending) in self._holders(message).items():
            values = np.asarray(getattr(holder, ending), dtype=np.float64)
            if len(values) and len(values) != len(names):
                raise _WrongMessage(
                    f"with {len(names)} names but {len(values)} values of {name}", "a value for each name"
                )
            if len(values):
                fields[name] = values
        # Read the seconds as unsigned in both bag formats, as the layouts do; times before 1970 do not occur.
        return _Content(names, (stamp.sec & 0xFFFFFFFF) * 1_000_000_000 + stamp.nanosec, fields)

    def _holders(self, message: Any) -> dict[str, tuple[Any, str]]:
        kind = self.topic.kind
        parts = _PARTS[kind]
        holder = next((getattr(message, part) for part in parts if hasattr(message, part)), message)
        return {name: (holder, ending) for name, ending in zip(FIELDS, _ENDING[kind], strict=True)}

    def _layout(self, raw: bytes, content: _Content) -> _Layout | None:
        try:
            layout = self._probed_layout(raw, content)
            if layout is not None and _equal(
                layout.group(np.zeros(1, dtype=np.int64), _bytes(raw)[None]), content
            ):
                return layout
        except Exception:  # a message of a type that cannot be filled or encoded is decoded by rosbags
            return None
        return None

    def _probed_layout(self, raw: bytes, content: _Content) -> _Layout | None:
        codec, kind = self.codec, self.topic.kind
        message = codec.decode(raw)
        blank = copy.deepcopy(message)
        _fill(codec, blank, kind, bits_set=False)
        full = copy.deepcopy(message)
        _fill(codec, full, kind, bits_set=True)
        zeros, all_ones = codec.encode(blank), codec.encode(full)
        if not len(zeros) == len(all_ones) <= len(raw) < len(zeros) + ALIGNMENT:
            return None

        def region(changed: Any) -> tuple[int, int]:
            differs = np.flatnonzero(_bytes(codec.encode(changed)) != _bytes(zeros))
            return (int(differs[0]), int(differs[-1]) + 1) if len(differs) else (0, 0)

        stamped = copy.deepcopy(blank)
        stamped.header.stamp = full.header.stamp
        at, end = region(stamped)
        if end - at != 8:
            return None
        fields = {}
        for name in content.fields:
            marked = copy.deepcopy(blank)
            holder, ending = self._holders(marked)[name]
            setattr(holder, ending, getattr(*self._holders(full)[name]))
            first, last = region(marked)
            if last - first != 8 * len(content.names):
                return None
            fields[name] = (first, len(content.names))
        same = np.flatnonzero(_bytes(zeros) == _bytes(all_ones)).tolist()
        fixed = np.array([at for at in same if self._affects_content(raw, at, content)], dtype=np.int64)
        return _Layout(content.names, _bytes(raw), fixed, at, fields)

    def _affects_content(self, raw: bytes, at: int, content: _Content) -> bool:
        # Padding between aligned fields has no effect; it is uninitialised memory and differs between messages.
        changed = bytearray(raw)
        changed[at] ^= 0xFF
        try:
            changed_content = self._content(self.codec.decode(bytes(changed)))
        except Exception:  # the changed byte makes the message unreadable
            return True
        return not _same(changed_content, content)


def _single_group(row: int, content: _Content) -> Group:
    fields = {name: values[None] for name, values in content.fields.items()}
    return Group(np.array([row]), content.names, np.array([content.stamp]), fields)


def _equal(group: Group, content: _Content) -> bool:
    fields = {name: values[0] for name, values in group.fields.items()}
    return _same(_Content(group.names, int(group.stamp[0]), fields), content)


def _same(content: _Content, other: _Content) -> bool:
    return (
        (content.names, content.stamp, set(content.fields)) == (other.names, other.stamp, set(other.fields))
    ) and all(content.fields[name].tobytes() == values.tobytes() for name, values in other.fields.items())


def _bytes(raw: bytes) -> Bytes:
    return np.frombuffer(raw, dtype=np.uint8)


_SIGNED = {f"int{bits}" for bits in (8, 16, 32, 64)}
_UNSIGNED = {
    "uint8": 255,
    "byte": 255,
    "char": 255,
    "uint16": 2**16 - 1,
    "uint32": 2**32 - 1,
    "uint64": 2**64 - 1,
}
_NOT_A_NUMBER = float(np.frombuffer(b"\xff" * 8, dtype=np.float64)[0])


def _fill(codec: Codec, message: Any, kind: str, bits_set: bool) -> None:
    """Set all bits of all numbers in a message to 0 or to 1; keep names and lengths."""
    for name, (node, detail) in codec.fields(kind):
        value = getattr(message, name)
        if node == 1 and detail[0] != "string":
            setattr(message, name, _filled(detail[0], bits_set))
        elif node == 2:
            _fill(codec, value, detail, bits_set)
        elif node in (3, 4):
            (inner, of), _ = detail
            if isinstance(value, np.ndarray):
                byte = 1 if value.dtype == np.bool_ else 255
                filled = np.full(value.nbytes, byte * bits_set, dtype=np.uint8)
                setattr(message, name, filled.view(value.dtype))
            elif inner == 2:
                for item in value:
                    _fill(codec, item, of, bits_set)


def _filled(kind: str, bits_set: bool) -> bool | int | float:
    if kind == "bool":
        return bits_set
    if kind.startswith("float"):
        return _NOT_A_NUMBER if bits_set else 0.0
    return (-1 if kind in _SIGNED else _UNSIGNED[kind]) if bits_set else 0


# Decode the numbers of messages of any type (for example, motor states). The path of a field, such as
# motor_state[0].q, names its number.
#
# Messages are decoded with the definition of their type, and messages of the same layout together. Sources: OMG, Common
# Data Representation (CORBA 3.3, part 2, 9.3) for ROS 2; ROS wiki, "Serialization", for ROS 1.

DYNAMIC_STATE = "control_msgs/msg/DynamicJointState"
VALUE = "value"
# Maximum number of elements in a list, of numbers in a message, and of nested levels. Larger messages are images, point
# clouds or maps.
MAX_WIDTH, MAX_NUMBERS, MAX_DEPTH = 512, 4096, 16
_CODES = {
    "bool": "u1", "byte": "u1", "octet": "u1", "char": "u1", "int8": "i1", "uint8": "u1", "int16": "i2",
    "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4
_STAMPS = (("header.stamp.sec", "header.stamp.nanosec"), ("stamp.sec", "stamp.nanosec"))


class UnusableMessageError(Exception):
    """Error for a message that is truncated or too large to be read as channels."""


@dataclass(eq=False)
class _Walk:
    """Finds the offset and type of each number in a message, by path, and the bytes that determine the offsets."""

    codec: Codec
    raw: bytes
    at: int = 0
    numbers: dict[str, tuple[int, str]] = field(default_factory=dict)
    texts: dict[str, tuple[str, slice]] = field(default_factory=dict)
    fixed: list[slice] = field(default_factory=list)

    def message(self, kind: str) -> _Walk:
        self.base = 0 if self.codec.ros1 else 4
        if len(self.raw) < self.base:
            raise UnusableMessageError("a message that is cut off")
        self.order = "<" if self.codec.ros1 or self.raw[1] & 1 else ">"
        self.at = self.base
        self._fields(kind, "", 0)
        return self

    def _fields(self, kind: str, prefix: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise UnusableMessageError("a message nested too deeply")
        for name, (node, detail) in self.codec.fields(kind):
            self._value(node, detail, f"{prefix}{name}", depth)

    def _value(self, node: int, detail: Any, path: str, depth: int) -> None:
        if node == _BASE:
            self._base(detail[0], path)
        elif node == _NAME:
            self._fields(detail, f"{path}.", depth + 1)
        else:
            (inner, of), count = detail
            self._list(int(inner), of, int(count) if node == _ARRAY else self._count(), path, depth)

    def _list(self, node: int, detail: Any, count: int, path: str, depth: int) -> None:
        if node == _BASE and detail[0] in _CODES and count > MAX_WIDTH:
            size = int(_CODES[detail[0]][1])
            self._align(size)
            self._skip(size * count)
            return
        if count > MAX_WIDTH:
            raise UnusableMessageError(f"a list of {count} in {path}")
        for i in range(count):
            self._value(node, detail, f"{path}[{i}]", depth + 1)

    def _base(self, kind: str, path: str) -> None:
        if kind in ("string", "wstring"):
            count = self._count() * (2 if kind == "wstring" else 1)
            part = slice(self.at, self.at + count)
            self._skip(count)
            self.texts[path] = self.raw[part].rstrip(b"\0").decode("utf-8", "replace"), part
            return
        code = _CODES.get(kind)
        if code is None:
            raise UnusableMessageError(f"a number of type {kind}")
        size = int(code[1])
        self._align(size)
        self.numbers[path] = self.at, self.order + code
        if len(self.numbers) > MAX_NUMBERS:
            raise UnusableMessageError(f"over {MAX_NUMBERS} numbers")
        self._skip(size)

    def _count(self) -> int:
        self._align(4)
        part = slice(self.at, self.at + 4)
        self._skip(4)
        self.fixed.append(part)
        count: int = struct.unpack(self.order + "I", self.raw[part])[0]
        if count > len(self.raw):  # each element has at least one byte
            raise UnusableMessageError(f"a length of {count}")
        return count

    def _align(self, size: int) -> None:
        if not self.codec.ros1:
            self.at += -(self.at - self.base) % size

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.raw):
            raise UnusableMessageError("a message that is cut off")


@dataclass(frozen=True, eq=False)
class _BagValuesLayout:
    """Byte offsets of the wanted numbers in messages with the same layout."""

    template: Bytes
    fixed: Any
    stamp: tuple[tuple[int, str], tuple[int, str]] | None
    numbers: dict[str, tuple[int, str]]

    def group(self, rows: Any, data: Bytes) -> Group:
        def column(at: int, code: str) -> Any:
            return np.ascontiguousarray(data[:, at : at + int(code[2])]).view(code)[:, 0]

        values = np.empty((len(data), len(self.numbers)))
        for i, place in enumerate(self.numbers.values()):
            values[:, i] = column(*place)
        stamp = np.zeros(len(data), dtype=np.int64)
        if self.stamp is not None:
            seconds, rest = (column(*part).astype(np.int64) for part in self.stamp)
            stamp = (seconds & 0xFFFFFFFF) * 1_000_000_000 + rest
        return Group(rows, tuple(self.numbers), stamp, {VALUE: values})


class ValueDecoder:
    """Decodes numbers in the messages of a topic.

    Parameters
    ----------
    codec : Codec
        Codec of the message type.
    topic : Topic
        Topic of the messages.
    path : Path
        Path of the bag, which error messages state.
    wanted : collection of str, optional
        Paths of the numbers to decode; None means all numbers.

    """

    def __init__(self, codec: Codec, topic: Topic, path: Path, wanted: Collection[str] | None = None) -> None:
        self.codec, self.topic, self.path = codec, topic, path
        self.wanted = None if wanted is None else frozenset(wanted)
        self.layouts: dict[int, list[_BagValuesLayout]] = {}

    def decode(self, raws: Sequence[bytes], first: int = 0, seconds: Float | None = None) -> Iterator[Group]:
        """Decode messages and yield them in groups.

        Parameters
        ----------
        raws : sequence of bytes
            Serialised messages.
        first : int
            Number of the first message, which error messages state.
        seconds : ndarray, shape (k,), s, optional
            Time of each message since the topic's first message, which error messages state.

        Raises
        ------
        InputError
            If a message cannot be decoded.

        """
        lengths = np.array([len(raw) for raw in raws], dtype=np.int64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            data = np.frombuffer(b"".join(raws[i] for i in rows.tolist()), np.uint8).reshape(
                len(rows), length
            )
            known = self.layouts.setdefault(length, [])
            for layout in known:
                same = (data[:, layout.fixed] == layout.template[layout.fixed]).all(axis=1)
                if same.any():
                    yield layout.group(rows[same], data[same])
                    rows, data = rows[~same], data[~same]
            while len(rows):
                top = int(rows[0])
                layout = self.layout(raws[top], first + top, None if seconds is None else float(seconds[top]))
                if len(known) < MAX_LAYOUTS:
                    known.append(layout)
                same = (data[:, layout.fixed] == layout.template[layout.fixed]).all(axis=1)
                yield layout.group(rows[same], data[same])
                rows, data = rows[~same], data[~same]

    def layout(self, raw: bytes, number: int = 0, seconds: float | None = None) -> _BagValuesLayout:
        """Find the layout of a message; raise InputError with its number and time if it cannot be decoded."""
        try:
            walk = _Walk(self.codec, raw).message(self.topic.kind)
        except (UnusableMessageError, struct.error, KeyError, IndexError, RecursionError) as error:
            raise InputError(
                "message",
                found=f"message {number} of topic {self.topic.name} that cannot be read ({error})",
                expected=f"one of {self.topic.kind}",
                place=Place(file=str(self.path), row=number, time=seconds),
            ) from error
        numbers, fixed = dict(walk.numbers), list(walk.fixed)
        stamp = None
        for names in _STAMPS:
            if all(name in numbers for name in names):
                stamp = numbers.pop(names[0]), numbers.pop(names[1])
                break
        if self.topic.kind == DYNAMIC_STATE:
            numbers = _by_joint(walk)
            fixed += [part for _, part in walk.texts.values()]
        if self.wanted is not None:
            numbers = {name: place for name, place in numbers.items() if name in self.wanted}
        index = np.concatenate([np.arange(part.start, part.stop) for part in fixed] or [np.zeros(0)])
        return _BagValuesLayout(np.frombuffer(raw, np.uint8), index.astype(np.int64), stamp, numbers)


def _by_joint(walk: _Walk) -> dict[str, tuple[int, str]]:
    """Offset and type of each number in a DynamicJointState message, by "joint.interface"."""
    numbers = {}
    for path, (name, _) in walk.texts.items():
        if not path.startswith("joint_names["):
            continue
        part = f"interface_values{path.removeprefix('joint_names')}"
        for i in range(MAX_WIDTH):
            interface = walk.texts.get(f"{part}.interface_names[{i}]")
            value = walk.numbers.get(f"{part}.values[{i}]")
            if interface is None or value is None:
                break
            numbers[f"{name}.{interface[0]}"] = value
    return numbers
