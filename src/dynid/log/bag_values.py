"""Numbers out of messages of any type, such as motor states: every field by its path, motor_state[0].q.

Messages are taken apart by their definitions alone; those of one layout are read together. Sources: OMG, Common Data
Representation (CORBA 3.3, part 2, 9.3), as ROS 2 writes it; ROS wiki, "Serialization", of ROS 1.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.bag_files import Codec, Topic
from dynid.log.bag_messages import MAX_LAYOUTS, Bytes, Group

DYNAMIC_STATE = "control_msgs/msg/DynamicJointState"
VALUE = "value"
# Elements of a list that are looked at, and numbers of a message: more are pictures, point clouds and maps.
MAX_WIDTH, MAX_NUMBERS, MAX_DEPTH = 512, 4096, 16
_CODES = {
    "bool": "u1", "byte": "u1", "octet": "u1", "char": "u1", "int8": "i1", "uint8": "u1", "int16": "i2",
    "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4
_STAMPS = (("header.stamp.sec", "header.stamp.nanosec"), ("stamp.sec", "stamp.nanosec"))


class UnusableMessageError(Exception):
    """A message that holds too much to be channels, or is cut off."""


@dataclass(eq=False)
class _Walk:
    """Where a message keeps its numbers: path -> offset and type; and which of its bytes say so."""

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
        if count > len(self.raw):  # every element takes a byte at least
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
class _Layout:
    """Where messages of the same sizes keep the wanted numbers."""

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
    """Reads numbers of the messages of one topic.    wanted: their paths, None = all."""

    def __init__(self, codec: Codec, topic: Topic, path: Path, wanted: Collection[str] | None = None) -> None:
        self.codec, self.topic, self.path = codec, topic, path
        self.wanted = None if wanted is None else frozenset(wanted)
        self.layouts: dict[int, list[_Layout]] = {}

    def decode(self, raws: Sequence[bytes], first: int = 0, seconds: Float | None = None) -> Iterator[Group]:
        """Yields the messages in groups.

        first: number of the first message.    seconds (k,): since the topic's first message; both for error messages.

        Raises InputError, naming the message, for one that cannot be read.
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

    def layout(self, raw: bytes, number: int = 0, seconds: float | None = None) -> _Layout:
        """Where a message keeps its numbers; raises InputError with its number and time."""
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
        return _Layout(np.frombuffer(raw, np.uint8), index.astype(np.int64), stamp, numbers)


def _by_joint(walk: _Walk) -> dict[str, tuple[int, str]]:
    """The numbers of a DynamicJointState as joint.interface."""
    found = {}
    for path, (name, _) in walk.texts.items():
        if not path.startswith("joint_names["):
            continue
        part = f"interface_values{path.removeprefix('joint_names')}"
        for i in range(MAX_WIDTH):
            interface = walk.texts.get(f"{part}.interface_names[{i}]")
            value = walk.numbers.get(f"{part}.values[{i}]")
            if interface is None or value is None:
                break
            found[f"{name}.{interface[0]}"] = value
    return found
