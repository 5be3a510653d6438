"""Read tensors from PyTorch files, which torch.save writes as a zip archive with a pickled index.

A minimal interpreter reads the pickle instructions of tensors, numbers, text, lists and dictionaries. It rejects all
other instructions and names, and never imports or calls an object that the file names. Source: CPython,
Lib/pickletools.py; PyTorch, torch/serialization.py and torch/_utils.py.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.errors import Place, RefusedError
from dynid.base.files import Budget
from dynid.base.records import dataclass
from dynid.log.readers.arrays import (
    MAX_FIELDS,
    SHOWN,
    Array,
    ArrayTable,
    StoredArray,
    damaged,
    fields_of,
    reading,
)
from dynid.log.readers.numpy_files import ZIP_MAGIC, first_member

INDEX = "data.pkl"
MAX_INDEX_BYTES = 4_000_000  # the index has a few hundred bytes per tensor
MAX_DEPTH = 8  # maximum nesting of dictionaries and lists
_MOST_AXES = 32  # maximum number of axes of a NumPy array
_REFERENCE_BYTES = 8  # memory of a reference in a list, or of a number in an array
_STORAGES = {
    "DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "BFloat16Storage": "bf16", "LongStorage": "i8",
    "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?",
}  # fmt: skip
_REBUILD = {("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_tensor")}
_WRAPPED = {("torch._utils", "_rebuild_parameter")}
_ORDERED = ("collections", "OrderedDict")
_SIZE = ("torch", "Size")
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """Name of a Python object in the file; it is only compared with the names of tensor types and never imported."""

    module: str
    name: str


@dataclass(frozen=True)
class _Storage:
    """File in the archive that contains the numbers of a tensor."""

    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """Tensor as a view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class TorchReader:
    """Opens files of tensors: torch.save of a tensor, or of dictionaries and lists of tensors."""

    name = "PyTorch tensors"
    suffixes = (".pt", ".pth")

    def can_read(self, head: bytes) -> bool:
        """Whether a file with these first bytes is a zip archive with an index of tensors."""
        return head.startswith(ZIP_MAGIC) and (
            first_member(head).endswith(f"/{INDEX}") or f"/{INDEX}".encode() in head
        )

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file; raise InputError if it is damaged, RefusedError if it contains other objects than tensors."""
        with reading(path, "an archive of tensors"), zipfile.ZipFile(path) as archive:
            return _Archive(path, archive).table()


class _Archive:
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive, self.budget = path, archive, Budget(path)
        members = {member.filename: member for member in archive.infolist()}
        self.index = next((name for name in members if name.endswith(f"/{INDEX}")), "")
        if not self.index:
            raise damaged(path, f"an archive without {INDEX}")
        self.root = self.index.removesuffix(INDEX)
        self.members = members
        self.storages: dict[str, Array] = {}
        order = members.get(f"{self.root}byteorder")
        self.big = order is not None and archive.open(order).read(8).strip() == b"big"

    def table(self) -> ArrayTable:
        info = self.members[self.index]
        if info.file_size > MAX_INDEX_BYTES:
            raise _refused(self.path, f"an index of {info.file_size} bytes", f"at most {MAX_INDEX_BYTES}")
        with self.archive.open(info) as file:
            content = _Machine(file.read(MAX_INDEX_BYTES), self.path, self.budget).run()
        arrays: list[StoredArray] = []
        left_out: list[str] = []
        for name, value in _Expansion(self.budget).parts("", content, 0):
            if len(arrays) + len(left_out) >= MAX_FIELDS:
                raise _refused(self.path, f"more than {MAX_FIELDS} entries", "the channels of a log")
            if isinstance(value, _Tensor):
                values = self.values(value, name)
                arrays += fields_of(name or "tensor", values)
            elif isinstance(value, np.ndarray):
                arrays += fields_of(name, value)
            else:
                left_out.append(f"{name[:SHOWN]} = {_text(value)}"[:SHOWN])
        return ArrayTable(self.path, arrays, left_out)

    def values(self, tensor: _Tensor, name: str) -> Array:
        label = f"tensor '{name[:SHOWN]}'"
        if len(tensor.shape) > _MOST_AXES:
            raise damaged(self.path, f"{label} of {len(tensor.shape)} axes")
        sizes = (tensor.offset, *tensor.shape, *tensor.strides)
        if len(tensor.shape) != len(tensor.strides) or any(
            not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in sizes
        ):
            raise damaged(self.path, f"{label} of shape {tensor.shape} and strides {tensor.strides}")
        numbers = self.numbers(tensor.storage, label)
        last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
        if prod(tensor.shape) and last >= len(numbers):
            raise damaged(self.path, f"{label} that extends beyond its {len(numbers)} numbers")
        self.budget.spend(prod(tensor.shape) * 8, label)
        if not prod(tensor.shape):
            return np.zeros(tensor.shape)
        step = numbers.itemsize
        view = np.lib.stride_tricks.as_strided(
            numbers[tensor.offset :], tensor.shape, tuple(s * step for s in tensor.strides), writeable=False
        )
        return np.ascontiguousarray(view)

    def numbers(self, storage: _Storage, label: str) -> Array:
        if storage.key in self.storages:
            return self.storages[storage.key]
        info = self.members.get(f"{self.root}data/{storage.key}")
        bfloat = storage.kind == "bf16"
        dtype = np.dtype("u2" if bfloat else storage.kind).newbyteorder(">" if self.big else "<")
        size = storage.count * dtype.itemsize
        if info is None or info.file_size < size or size < 0:
            available = "no file" if info is None else f"{info.file_size} bytes"
            raise damaged(self.path, f"{available} for {label}, which needs {size} bytes")
        self.budget.spend(size, label)
        with self.archive.open(info) as file:
            data = file.read(size)
            file.read(1)  # reading to the end verifies the checksum
        values: Array = np.frombuffer(data, dtype=dtype)
        if bfloat:  # bfloat16 is the upper half of a 32-bit float
            values = (values.astype(np.uint32) << 16).view(np.float32)
        self.storages[storage.key] = values
        return values


class _Expansion:
    """Expands the nested entries of an index to a flat list of names and values.

    An index may refer to the same list many times. Each reference is charged to the memory budget of the file before it
    is expanded, so that a small index with many references to a long list is rejected early.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        # Array of each list of numbers, None for other lists. The key is the id of the list, which the index keeps
        # alive.
        self.arrays: dict[int, Array | None] = {}

    def parts(self, name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        """Yield all entries of nested dictionaries and lists by dotted names; lists of numbers become arrays."""
        self.budget.spend(len(name), f"the name '{name[:SHOWN]}'")
        if isinstance(value, Mapping | list | tuple):
            self.budget.spend(len(value) * _REFERENCE_BYTES, f"'{name[:SHOWN]}'")
        if depth > MAX_DEPTH:
            yield name, "nested too deeply"
        elif isinstance(value, Mapping):
            if (
                not value
            ):  # count it as an entry, so that the limit on entries also stops nested empty dictionaries
                yield name, "empty"
            for key, inner in value.items():
                yield from self.parts(f"{name}.{key}" if name else str(key), inner, depth + 1)
        elif isinstance(value, list | tuple):
            if (numbers := self.numbers(value)) is not None:
                yield name, numbers
            elif any(isinstance(item, _Tensor | Mapping | list | tuple) for item in value):
                for i, inner in enumerate(value):
                    yield from self.parts(f"{name}({i})" if name else f"({i})", inner, depth + 1)
            else:
                yield name, ", ".join(map(_text, value[:16]))
        else:
            yield name, value

    def numbers(self, values: Sequence[Any]) -> Array | None:
        """Convert a list of numbers to an array, which all references share; None for other lists."""
        key = id(values)
        if key not in self.arrays:
            numeric = len(values) > 1 and all(isinstance(value, int | float) for value in values)
            self.arrays[key] = np.array(values, dtype=np.float64) if numeric else None
        return self.arrays[key]


def _text(value: Any) -> str:
    """Beginning of a value's text, without building a long text."""
    if isinstance(value, str):
        return value[:SHOWN]
    if isinstance(value, _Name):
        return f"{value.module}.{value.name}"[:SHOWN]
    if isinstance(value, _Storage):
        return f"a storage of {value.kind}"
    return str(value)[:SHOWN]


def _refused(
    path: Path, finding: str, expected: str = "tensors, numbers, text, lists and dictionaries"
) -> RefusedError:
    return RefusedError(
        "pickled",
        found=f"{finding} in the pickled index, which is not executed",
        expected=expected,
        do="save tensors alone (torch.save of a dictionary of tensors), or numpy.savez",
        place=Place(file=str(path)),
    )


@dataclass
class _Machine:
    """Interpreter of the pickle instructions for tensors, with a stack and a memory."""

    code: bytes
    path: Path
    budget: Budget
    at: int = 0
    stack: list[Any] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)

    def run(self) -> Any:
        """Run all instructions and return the content of the index."""
        while True:
            place = self.at
            code = self.take(1)
            if code == b".":
                return self.pop()
            step = _STEPS.get(code)
            if step is None:
                raise _refused(self.path, f"instruction 0x{code.hex()} at byte {place}")
            step(self)

    def take(self, count: int) -> bytes:
        data = self.code[self.at : self.at + count]
        if count < 0 or len(data) < count:
            raise damaged(self.path, f"an index that ends at byte {len(self.code)}")
        self.at += count
        return data

    def skip(self, count: int) -> None:
        self.take(count)

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        end = self.code.find(b"\n", self.at)
        text = self.take(max(end - self.at, -1) + 1) if end >= 0 else self.take(len(self.code) + 1)
        return text[:-1].decode("ascii", "replace")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise damaged(self.path, f"an index that takes from an empty stack at byte {self.at}")
        return self.stack.pop()

    def top(self) -> Any:
        value = self.pop()
        self.stack.append(value)
        return value

    def since_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise damaged(self.path, f"an index that ends a list without a beginning at byte {self.at}")

    def load(self, key: int) -> None:
        if key not in self.memory:
            raise damaged(self.path, f"an index with an undefined reference at byte {self.at}")
        self.push(self.memory[key])

    def keep(self, key: int) -> None:
        self.memory[key] = self.top()

    def append(self, items: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, list):
            raise damaged(
                self.path, f"an index that appends to something other than a list at byte {self.at}"
            )
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, dict) or len(items) % 2:
            raise damaged(
                self.path, f"an index that sets items of something other than a dict at byte {self.at}"
            )
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int | float | bool | None):
                raise _refused(self.path, f"a key of type {type(key).__name__}")
            target[key] = value

    def persistent(self) -> None:
        reference = self.pop()
        if (
            not isinstance(reference, tuple)
            or len(reference) != 5
            or reference[0] != "storage"
            or not isinstance(reference[1], _Name)
            or not isinstance(reference[2], str)
            or not isinstance(reference[4], int)
        ):
            raise _refused(self.path, f"a reference at byte {self.at} that is no storage of numbers")
        kind = _STORAGES.get(reference[1].name) if reference[1].module == "torch" else None
        if kind is None:
            raise _refused(self.path, f"'{reference[1].module}.{reference[1].name}'")
        self.push(_Storage(kind, reference[2], reference[4]))

    def reduce(self) -> None:
        arguments, called = self.pop(), self.pop()
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise _refused(self.path, f"a call without a name at byte {self.at}")
        name = called.module, called.name
        if name in _REBUILD and len(arguments) >= 4 and isinstance(arguments[0], _Storage):
            storage, offset, shape, strides = arguments[:4]
            if isinstance(shape, tuple) and isinstance(strides, tuple):
                self.push(_Tensor(storage, offset, shape, strides))
                return
        if name in _WRAPPED and arguments and isinstance(arguments[0], _Tensor):
            self.push(arguments[0])
        elif name == _ORDERED and not arguments:
            self.push({})
        elif name == _SIZE and len(arguments) == 1 and isinstance(arguments[0], tuple | list):
            # Charge this copy to the budget: a few bytes of the index could request many copies of a long list.
            self.budget.spend(len(arguments[0]) * _REFERENCE_BYTES, "a torch.Size")
            self.push(tuple(arguments[0]))
        else:
            raise _refused(self.path, f"a call of '{called.module}.{called.name}'")

    def build(self) -> None:
        # Ignore the attributes of an OrderedDict (for example, the state of a module): they are not channels.
        self.pop()
        if not isinstance(self.top(), dict):
            raise _refused(self.path, f"attributes of something other than a dictionary at byte {self.at}")

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise _refused(self.path, f"a name that is no text at byte {self.at}")
        known = {*_REBUILD, *_WRAPPED, _ORDERED, _SIZE}
        if (module, name) not in known and not (module == "torch" and (name in _STORAGES or name in _DTYPES)):
            raise _refused(self.path, f"'{module}.{name}'")
        self.push(_Name(module, name))

    def text(self, count: int) -> None:
        self.push(self.take(count).decode("utf-8", "surrogatepass"))

    def tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.push(tuple(items[::-1]))


_DTYPES = {
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
}  # fmt: skip


def _stack_name(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    machine.name(module, name)


_STEPS: Mapping[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda m: m.skip(1),  # PROTO
    b"\x95": lambda m: m.skip(8),  # FRAME
    b"(": lambda m: m.push(_MARK),
    b")": lambda m: m.push(()),
    b"t": lambda m: m.push(tuple(m.since_mark())),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"]": lambda m: m.push([]),
    b"a": lambda m: m.append([m.pop()]),
    b"e": lambda m: m.append(m.since_mark()),
    b"}": lambda m: m.push({}),
    b"s": lambda m: m.set_items([m.pop(), m.pop()][::-1]),
    b"u": lambda m: m.set_items(m.since_mark()),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"J": lambda m: m.push(m.number("<i")),
    b"K": lambda m: m.push(m.number("<B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"\x8a": lambda m: m.push(int.from_bytes(m.take(m.number("<B")), "little", signed=True)),  # LONG1
    b"G": lambda m: m.push(m.number(">d")),
    b"X": lambda m: m.text(m.number("<I")),
    b"\x8c": lambda m: m.text(m.number("<B")),
    b"h": lambda m: m.load(m.number("<B")),
    b"j": lambda m: m.load(m.number("<I")),
    b"q": lambda m: m.keep(m.number("<B")),
    b"r": lambda m: m.keep(m.number("<I")),
    b"\x94": lambda m: m.keep(len(m.memory)),  # MEMOIZE
    b"c": lambda m: m.name(m.line(), m.line()),
    b"\x93": _stack_name,
    b"Q": lambda m: m.persistent(),
    b"R": lambda m: m.reduce(),
    b"b": lambda m: m.build(),
}
