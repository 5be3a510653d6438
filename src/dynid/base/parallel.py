"""Ordered work on several threads: the results, and their order, do not depend on how many there are."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yields function(item) in the order of the items, at most threads + 1 of them in flight.

    The items are drawn lazily, so a stream that does not fit in memory may be mapped.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            # A thread does not inherit what its caller chose with dynid.kernel.using.
            waiting.append(pool.submit(copy_context().run, function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def beside(work: Callable[[], Result], threads: int) -> Callable[[], Result]:
    """Starts work beside what follows and returns a function that waits for its result; with one thread does it now."""
    if threads <= 1:
        result = work()
        return lambda: result
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(copy_context().run, work)
    pool.shutdown(wait=False)
    return future.result


def default_threads() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
