"""Arrow arrays made and read by their buffers are those that pyarrow makes and reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from dynid.base import arrow_array, codes_of, numbers_of, reader_of
from dynid.base import tables as arrow


@pytest.mark.parametrize(
    "values",
    [
        np.arange(5.0),
        np.arange(10)[::2],
        np.arange(4, dtype=np.float32),
        np.zeros(0),
        np.array([True, False]),
        np.arange(21) % 3 == 0,
        np.zeros(0, dtype=np.bool_),
        [1.0, 2, float("inf")],
        [1, 2, 3],
        ["a", "", "ü", "long " * 9],
        [[1, 2], [3]],
        [[1.0], [2.0, 3.0], []],
        [None, 1.0],
        [[], []],
    ],
)
def test_arrays_are_pyarrows(values: Any) -> None:
    found, expected = arrow_array(values), pa.array(values)
    assert found.to_pylist() == expected.to_pylist()
    assert found.type == expected.type or (not len(expected) and pa.types.is_float64(found.type))
    found.validate(full=True)


def test_arrows_threads_are_given_no_object_of_pythons() -> None:
    """They let go of it when they come to it; at the end of the process that aborted one run in ten."""
    block = b"a,b\n1,2\n" * 1000
    before = sys.getrefcount(block)
    reader = reader_of(block)
    assert sys.getrefcount(block) == before
    assert reader.read() == block
    source = Path(arrow.__file__).parents[1]
    users = {one for one in source.rglob("*.py") if "BufferReader(" in one.read_text(encoding="utf-8")}
    assert users == {Path(arrow.__file__)}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.uint8(), pa.int16()])
@pytest.mark.parametrize("gaps", [False, True])
def test_numbers_are_pyarrows(kind: pa.DataType, gaps: bool) -> None:
    whole = pa.array([None if gaps and i % 3 == 0 else i for i in range(100)], kind)
    for part in (whole, whole.slice(5, 50), whole.slice(97), whole.slice(3, 0)):
        assert_array_equal(numbers_of(part), part.to_numpy(zero_copy_only=False))
    pieces = pa.chunked_array([whole.slice(7, 9), whole.slice(40)])
    assert_array_equal(numbers_of(pieces), pieces.to_numpy())


def test_truths_are_pyarrows() -> None:
    whole = arrow_array(np.arange(100) % 3 == 0)
    for part in (whole, whole.slice(5, 50), whole.slice(97), whole.slice(3, 0)):
        found = numbers_of(part)
        assert found.dtype == np.bool_
        assert_array_equal(found, part.to_numpy(zero_copy_only=False))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint8()])
@pytest.mark.parametrize("gaps", [False, True])
def test_codes_are_minus_one_where_there_is_none(kind: pa.DataType, gaps: bool) -> None:
    whole = pa.array([None if gaps and i % 3 == 0 else i for i in range(100)], kind)
    for part in (whole, whole.slice(5, 50), whole.slice(3, 0)):
        found = codes_of(part)
        assert found.dtype == np.int64
        assert_array_equal(found, [-1 if code is None else code for code in part.to_pylist()])
