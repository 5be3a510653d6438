"""Read MATLAB files of version 5 (MATLAB 5 to 7) with the reader below, and of version 7.3 as HDF5.

The reader checks each size in a file against the size of its container. scipy.io.loadmat is not used: for unknown types
it reads beyond the ends of its tables, and one damaged file in a thousand ends the process (scipy 1.17).
Source: MathWorks, MAT-File Format, R2023a, chapter 1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from dynid.base.files import Budget
from dynid.log.readers.arrays import MAX_FIELDS, ArrayTable, StoredArray, damaged, fields_of, reading
from dynid.log.readers.hdf5_files import matlab_table

MAGIC_5, MAGIC_73 = b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file"
HEADER_BYTES = 128
# Element types (table 1-1) and array types (table 1-3).
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXTS = {2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_CELL, _STRUCT, _CHAR, _FIRST_NUMERIC, _LAST_NUMERIC = 1, 2, 4, 6, 15
_COMPLEX, _OPAQUE = 0x800, 17
_WORDS = {_CELL: "a cell array", 3: "an object", 5: "a sparse matrix", 16: "a function", _OPAQUE: "an object"}
# Fields in the structs that the Simulink blocks Scope and To Workspace save.
_LABEL, _VALUES = "label", "values"
MAX_DEPTH = 16  # maximum nesting of structs
MAX_ELEMENTS = 64  # maximum number of elements in a struct array


class MatReader:
    """Opens MATLAB files; fields of structs are named s.name."""

    name = "MATLAB"
    suffixes = (".mat",)

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` is a MATLAB file of version 5 or 7.3."""
        return head.startswith((MAGIC_5, MAGIC_73))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file; raise InputError if it is damaged, RefusedError if it would take too much memory."""
        with path.open("rb") as file:
            newer = file.read(len(MAGIC_73)) == MAGIC_73
        if newer:
            return matlab_table(path)
        with reading(path, "a MATLAB file"):
            return _Version5(path).table()


@dataclass
class _Version5:
    """Reader of files of version 5, variable by variable."""

    path: Path
    order: str = "<"
    arrays: list[StoredArray] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def table(self) -> ArrayTable:
        for data in self._variables():
            self._matrix(data, "", 0)
        return ArrayTable(self.path, self.arrays, self.left_out)

    def _variables(self) -> Iterator[memoryview]:
        budget = Budget(self.path)
        with self.path.open("rb") as file:
            order = {b"IM": "<", b"MI": ">"}.get(file.read(HEADER_BYTES)[126:128])
            if order is None:
                raise damaged(self.path, "a MATLAB file without its byte-order mark")
            self.order = order
            while tag := file.read(8):
                if len(tag) < 8:
                    raise damaged(self.path, "a MATLAB file that ends within a variable")
                kind, size = struct.unpack(order + "II", tag)
                data = file.read(min(size, budget.size))
                if len(data) < size:
                    raise damaged(
                        self.path, f"a variable of {size} bytes with only {len(data)} bytes left in the file"
                    )
                if kind == _COMPRESSED:
                    kind, data = self._inflated(data, budget)
                else:
                    budget.spend(size, "a variable")
                if kind == _MATRIX:
                    yield memoryview(data)

    def _inflated(self, data: bytes, budget: Budget) -> tuple[int, bytes]:
        machine = zlib.decompressobj()
        tag = machine.decompress(data, 8)
        if len(tag) < 8:
            raise damaged(self.path, "a truncated compressed variable")
        kind, size = struct.unpack(self.order + "II", tag)
        budget.spend(size, "a compressed variable")
        inflated = machine.decompress(machine.unconsumed_tail, max(size, 1))
        if len(inflated) < size:
            raise damaged(self.path, f"a variable of {size} bytes with only {len(inflated)} compressed bytes")
        return kind, inflated

    def _matrix(self, data: memoryview, name: str, depth: int) -> None:
        """Collect an array and its parts; `name` is the path of an array that is part of another array."""
        if not data or len(self.arrays) + len(self.left_out) >= MAX_FIELDS:
            return
        if depth > MAX_DEPTH:
            raise damaged(self.path, f"variables nested more than {MAX_DEPTH} times")
        parts = list(self._elements(data))
        flags = self._whole_numbers(parts, 0, _UINT32)
        kind = flags[0] & 0xFF if flags else 0
        if kind not in (_CELL, _STRUCT, _CHAR, *range(_FIRST_NUMERIC, _LAST_NUMERIC + 1)):
            place = 1 if kind == _OPAQUE else 2  # newer objects have no shape before their name
            label = name or (bytes(parts[place][1]).decode("latin-1") if len(parts) > place else "")
            self.left_out.append(f"{label}: {_WORDS.get(kind, 'of an unknown type')}")
            return
        shape = self._whole_numbers(parts, 1, _INT32)
        if len(parts) < 3 or len(shape) < 2 or any(n < 0 for n in shape):
            raise damaged(self.path, f"a variable of shape {shape}")
        label = name or bytes(parts[2][1]).decode("latin-1")
        if not label:  # internal data of MATLAB about its objects
            return
        if kind == _STRUCT:
            self._struct(label, shape, parts[3:], depth)
        elif kind == _CELL or not prod(shape):
            self.left_out.append(f"{label}: {_WORDS[_CELL] if kind == _CELL else 'empty'}")
        elif kind == _CHAR:
            self.left_out.append(f"{label} = {self._text(parts[3:])}"[:60])
        elif flags[0] & _COMPLEX:
            self.left_out.append(f"{label}: complex numbers")
        else:
            self._numbers(label, shape, parts[3:])

    def _numbers(self, label: str, shape: tuple[int, ...], parts: list[tuple[int, memoryview]]) -> None:
        stored, data = parts[0] if parts else (0, memoryview(b""))
        if stored not in _NUMBERS:
            raise damaged(self.path, f"numbers of unknown type {stored} in '{label}'")
        dtype = np.dtype(self.order + _NUMBERS[stored])
        if len(data) != prod(shape) * dtype.itemsize:
            raise damaged(self.path, f"'{label}' of shape {shape} in {len(data)} bytes")
        self.arrays += fields_of(label, np.frombuffer(data, dtype).reshape(shape, order="F"))

    def _struct(
        self, label: str, shape: tuple[int, ...], parts: list[tuple[int, memoryview]], depth: int
    ) -> None:
        length = self._whole_numbers(parts, 0, _INT32)
        size = length[0] if len(length) == 1 else 0
        if size < 1 or len(parts) < 2 or parts[1][0] != _INT8 or len(parts[1][1]) % size:
            raise damaged(self.path, f"a struct '{label}' without names")
        text = bytes(parts[1][1])
        names = [text[i : i + size].split(b"\0")[0].decode("latin-1") for i in range(0, len(text), size)]
        count, values = prod(shape), parts[2:]
        if len(values) != count * len(names) or any(kind != _MATRIX for kind, _ in values):
            raise damaged(self.path, f"a struct '{label}' of {len(values)} parts, not {count * len(names)}")
        if count > MAX_ELEMENTS:
            self.left_out.append(f"{label}: {count} structs")
            return
        labels = self._labels(names, [value for _, value in values], count)
        for i, (_, value) in enumerate(values):
            if labels:
                # In data of a Simulink Scope, ScopeData.signals(1).values becomes ScopeData.q if its label is q.
                if names[i % len(names)] == _VALUES:
                    self._matrix(value, f"{label.rpartition('.')[0]}.{labels[i // len(names)]}", depth + 1)
                continue
            element = label if count == 1 else f"{label}({i // len(names) + 1})"  # MATLAB counts from 1
            self._matrix(value, f"{element}.{names[i % len(names)]}", depth + 1)

    def _labels(self, names: list[str], values: list[memoryview], count: int) -> list[str]:
        """Signal labels of a Simulink Scope; [] for other structs, or if the labels are not distinct."""
        if count == 1 or _LABEL not in names or _VALUES not in names:
            return []
        cells = values[names.index(_LABEL) :: len(names)]
        labels = [
            self._text(parts[3:]) if len(parts := list(self._elements(cell))) > 3 else "" for cell in cells
        ]
        labels = [label.strip() for label in labels]
        return labels if all(labels) and len(set(labels)) == count else []

    def _text(self, parts: list[tuple[int, memoryview]]) -> str:
        kind, data = parts[0] if parts else (0, memoryview(b""))
        coding = _TEXTS.get(kind, "latin-1")
        wide = {"<": "-le", ">": "-be"}[self.order] if coding in ("utf-16", "utf-32") else ""
        return bytes(data).decode(coding + wide, "replace")

    def _whole_numbers(self, parts: list[tuple[int, memoryview]], i: int, kind: int) -> tuple[int, ...]:
        if i >= len(parts) or parts[i][0] != kind or len(parts[i][1]) % 4:
            raise damaged(self.path, "a variable without its type, shape or names")
        data = parts[i][1]
        numbers: tuple[int, ...] = struct.unpack(
            f"{self.order}{len(data) // 4}{'I' if kind == _UINT32 else 'i'}", data
        )
        return numbers

    def _elements(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        at = 0
        while at + 8 <= len(data):
            kind, size = struct.unpack(self.order + "II", data[at : at + 8])
            if kind >> 16:  # an element of up to four bytes is stored in its tag
                kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
                if size > 4:
                    raise damaged(self.path, f"{size} bytes in a tag for 4 bytes")
            else:
                start, end = at + 8, at + 8 + size + (-size % 8)
                if start + size > len(data):
                    raise damaged(
                        self.path, f"an element of {size} bytes with only {len(data) - start} bytes left"
                    )
            yield kind, data[start : start + size]
            at = end
