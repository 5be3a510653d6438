"""Joint states out of raw messages: many of one layout at once, the others one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.bag_files import Codec, Topic

Bytes = npt.NDArray[np.uint8]

JOINT_STATE = "sensor_msgs/msg/JointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"
KINDS = (JOINT_STATE, CONTROLLER_STATE)
FIELDS = ("position", "velocity", "effort")
# Where each kind of message keeps names and numbers; of several names of a part the first that is there.
_NAMES = {JOINT_STATE: "name", CONTROLLER_STATE: "joint_names"}
_PARTS: dict[str, tuple[str, ...]] = {JOINT_STATE: (), CONTROLLER_STATE: ("feedback", "actual")}
_ENDING = {
    JOINT_STATE: FIELDS,
    CONTROLLER_STATE: ("positions", "velocities", "effort"),
}
MAX_LAYOUTS = 64
# Messages may end in padding up to this.
ALIGNMENT = 4


@dataclass(frozen=True, eq=False)
class Group:
    """Messages of a block that name the same joints.

    rows (k,): their places in the block.    stamp (k,): header stamps in ns.    fields: (k, joints) for each of
    position, velocity and effort that the messages hold.
    """

    rows: Int
    names: tuple[str, ...]
    stamp: Int
    fields: Mapping[str, Float]

    @property
    def nbytes(self) -> int:
        """Of all its numbers."""
        return self.rows.nbytes + self.stamp.nbytes + sum(values.nbytes for values in self.fields.values())


@dataclass(frozen=True, eq=False)
class _Content:
    """One message: what a Group holds of many."""

    names: tuple[str, ...]
    stamp: int
    fields: Mapping[str, Float]


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where messages with the same names and sizes keep their numbers.

    template: one of them.    fixed: bytes that hold neither numbers nor padding, so must be those of the template.
    stamp: offset of two 32-bit integers.    fields: offset and count of float64 numbers.
    """

    names: tuple[str, ...]
    template: Bytes
    fixed: Int
    stamp: int
    fields: Mapping[str, tuple[int, int]]

    def matches(self, data: Bytes) -> Bool:
        """Which messages (k, bytes) have this layout."""
        return np.asarray((data[:, self.fixed] == self.template[self.fixed]).all(axis=1))

    def group(self, rows: Int, data: Bytes) -> Group:
        """Reads messages (k, bytes) of this layout."""

        def numbers(at: int, count: int, kind: str) -> Any:
            size = np.dtype(kind).itemsize * count
            return np.ascontiguousarray(data[:, at : at + size]).view(kind)

        seconds = numbers(self.stamp, 2, "<u4").astype(np.int64)
        fields = {
            name: numbers(at, count, "<f8").astype(np.float64) for name, (at, count) in self.fields.items()
        }
        return Group(rows, self.names, seconds[:, 0] * 1_000_000_000 + seconds[:, 1], fields)


class _WrongMessage(Exception):
    """What was found and what expected."""


class Decoder:
    """Reads the messages of one topic of joint states.

    The first message of each layout is taken apart by rosbags, and its layout found by writing it again with other
    numbers; messages that agree with it in every byte that is no number are read together. What has no layout that
    reads that message as rosbags does is left to rosbags.
    """

    def __init__(self, codec: Codec, topic: Topic, path: Path) -> None:
        self.codec, self.topic, self.path = codec, topic, path
        self.layouts: dict[int, list[_Layout]] = {}
        self.tries = 0

    def decode(self, raws: Sequence[bytes], first: int = 0, seconds: Float | None = None) -> Iterator[Group]:
        """Yields the messages in groups.

        first: number of the first message.    seconds (k,): since the topic's first message; both for error messages.

        Raises InputError, naming the message, for one that cannot be read.
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
                    yield from (_alone(row, alone(row)) for row in rows.tolist())
                    break
                self.tries += 1
                top = int(rows[0])
                content = alone(top)
                found = self._layout(raws[top], content)
                if found is None:
                    yield _alone(top, content)
                    rows, data = rows[1:], data[1:]
                    continue
                known.append(found)
                same = found.matches(data)
                yield found.group(rows[same], data[same])
                rows, data = rows[~same], data[~same]

    def content(self, raw: bytes, number: int, seconds: float | None = None) -> _Content:
        """One message as rosbags reads it; raises InputError with its number and time."""
        try:
            return self._content(self.codec.decode(raw))
        except _WrongMessage as error:
            found, expected = error.args
        except Exception as error:  # whatever comes up in reading what others wrote
            text = " ".join(str(error).split())[:160]
            found, expected = f"that cannot be read ({text})", f"one of {self.topic.kind}"
        raise InputError(
            "message",
            found=f"message {number} of topic {self.topic.name} {found}",
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
                raise _WrongMessage(f"with {len(names)} names and {len(values)} of {name}", "one a name")
            if len(values):
                fields[name] = values
        # Seconds before 1970 do not occur: both kinds of bag are read as unsigned, as the layouts do.
        return _Content(names, (stamp.sec & 0xFFFFFFFF) * 1_000_000_000 + stamp.nanosec, fields)

    def _holders(self, message: Any) -> dict[str, tuple[Any, str]]:
        kind = self.topic.kind
        parts = _PARTS[kind]
        holder = next((getattr(message, part) for part in parts if hasattr(message, part)), message)
        return {name: (holder, ending) for name, ending in zip(FIELDS, _ENDING[kind], strict=True)}

    def _layout(self, raw: bytes, content: _Content) -> _Layout | None:
        try:
            found = self._found_layout(raw, content)
            if found is not None and _equal(
                found.group(np.zeros(1, dtype=np.int64), _bytes(raw)[None]), content
            ):
                return found
        except Exception:  # types that cannot be filled or written, whatever they are, are read one by one
            return None
        return None

    def _found_layout(self, raw: bytes, content: _Content) -> _Layout | None:
        codec, kind = self.codec, self.topic.kind
        message = codec.decode(raw)
        blank = copy.deepcopy(message)
        _fill(codec, blank, kind, ones=False)
        full = copy.deepcopy(message)
        _fill(codec, full, kind, ones=True)
        zeros, ones = codec.encode(blank), codec.encode(full)
        if not len(zeros) == len(ones) <= len(raw) < len(zeros) + ALIGNMENT:
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
        same = np.flatnonzero(_bytes(zeros) == _bytes(ones)).tolist()
        fixed = np.array([at for at in same if self._matters(raw, at, content)], dtype=np.int64)
        return _Layout(content.names, _bytes(raw), fixed, at, fields)

    def _matters(self, raw: bytes, at: int, content: _Content) -> bool:
        # Writers leave whatever was in memory between fields that must be aligned.
        changed = bytearray(raw)
        changed[at] ^= 0xFF
        try:
            found = self._content(self.codec.decode(bytes(changed)))
        except Exception:  # what cannot be read any more mattered
            return True
        return not _same(found, content)


def _alone(row: int, content: _Content) -> Group:
    fields = {name: values[None] for name, values in content.fields.items()}
    return Group(np.array([row]), content.names, np.array([content.stamp]), fields)


def _equal(group: Group, content: _Content) -> bool:
    fields = {name: values[0] for name, values in group.fields.items()}
    return _same(_Content(group.names, int(group.stamp[0]), fields), content)


def _same(one: _Content, other: _Content) -> bool:
    return ((one.names, one.stamp, set(one.fields)) == (other.names, other.stamp, set(other.fields))) and all(
        one.fields[name].tobytes() == values.tobytes() for name, values in other.fields.items()
    )


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


def _fill(codec: Codec, message: Any, kind: str, ones: bool) -> None:
    """Sets every bit of every number of a message, names and lengths apart, to 0 or 1."""
    for name, (node, detail) in codec.fields(kind):
        value = getattr(message, name)
        if node == 1 and detail[0] != "string":
            setattr(message, name, _filled(detail[0], ones))
        elif node == 2:
            _fill(codec, value, detail, ones)
        elif node in (3, 4):
            (inner, of), _ = detail
            if isinstance(value, np.ndarray):
                byte = 1 if value.dtype == np.bool_ else 255
                filled = np.full(value.nbytes, byte * ones, dtype=np.uint8)
                setattr(message, name, filled.view(value.dtype))
            elif inner == 2:
                for item in value:
                    _fill(codec, item, of, ones)


def _filled(kind: str, ones: bool) -> bool | int | float:
    if kind == "bool":
        return ones
    if kind.startswith("float"):
        return _NOT_A_NUMBER if ones else 0.0
    return (-1 if kind in _SIGNED else _UNSIGNED[kind]) if ones else 0
