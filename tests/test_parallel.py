"""Ordered work on threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from dynid.base import default_threads, ordered_map


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    def slow_when_even(i: int) -> int:
        time.sleep(0.002 * (i % 2 == 0))
        return i * i

    assert list(ordered_map(slow_when_even, range(23), threads)) == [i * i for i in range(23)]
    assert list(ordered_map(slow_when_even, [], threads)) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_items_are_drawn_as_they_are_needed(threads: int) -> None:
    drawn = 0

    def items() -> Iterator[int]:
        nonlocal drawn
        for i in range(1000):
            drawn += 1
            yield i

    results = ordered_map(lambda i: i, items(), threads)
    assert [next(results) for _ in range(5)] == list(range(5))
    assert drawn <= 5 + threads + 1


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_reaches_the_caller_in_its_turn(threads: int) -> None:
    def fails_at_four(i: int) -> int:
        if i == 4:
            raise KeyError("four")
        return i

    results = ordered_map(fails_at_four, range(100), threads)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="four"):
        next(results)


def test_several_threads_work_at_once() -> None:
    barrier = threading.Barrier(3, timeout=10)
    assert list(ordered_map(lambda _: barrier.wait() >= 0, range(3), 3)) == [True] * 3
    assert default_threads() >= 1
