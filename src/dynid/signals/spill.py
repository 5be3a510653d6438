"""Samples of a long log on disk: written once, read batch by batch as often as they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from tempfile import TemporaryFile
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np

from dynid.base.records import dataclass
from dynid.signals.samples import Samples


@dataclass(frozen=True)
class _Place:
    # Where an array lies in the file.
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Spilled:
    """Batches of samples in a temporary file, which goes when they are no longer used or the program ends.

    It lies where Python puts such files: in the folder that TMPDIR names, or else in the system's.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="dynid-", buffering=0)  # noqa: SIM115  # closed with this object
        finalize(self, self._file.close)
        self._lock = Lock()
        self._end = 0
        self._batches: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, samples: Samples) -> None:
        """Appends a batch."""
        self._batches.append({one.name: self._put(getattr(samples, one.name)) for one in fields(samples)})

    def __iter__(self) -> Iterator[Samples]:
        for batch in self._batches:
            yield Samples(**{name: self._got(value) for name, value in batch.items()})

    def _put(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._put(one) for key, one in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        place = _Place(self._end, value.dtype, value.shape)
        left = memoryview(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        with self._lock:
            self._file.seek(self._end)
            while left:
                left = left[self._file.write(left) :]
        self._end += value.nbytes
        return place

    def _got(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._got(one) for key, one in value.items()}
        if not isinstance(value, _Place):
            return value
        found = np.empty(value.shape, value.dtype)
        left = memoryview(found.reshape(-1).view(np.uint8).data)
        with self._lock:
            self._file.seek(value.offset)
            while left:
                count = self._file.readinto(left)
                if not count:
                    raise OSError("the temporary file of samples has been cut short")
                left = left[count:]
        return found
