"""Objects of the native kernel that Python objects hold, and their release before the interpreter ends.

nanobind prints a warning for every object that outlives the interpreter. One that is reachable from a reference cycle
does, once nobody searches for cycles: the command line ends with a frozen garbage collector.
"""

from __future__ import annotations

import atexit
import weakref
from typing import Any

_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def keep_handle(holder: Any, handle: Any) -> None:
    """Store a native object as `holder._handle` until the interpreter ends.

    Parameters
    ----------
    holder : object
        Python object of the same data; it may be frozen.
    handle : object
        Object of the native kernel.

    """
    object.__setattr__(holder, "_handle", handle)
    _holders.add(holder)


def _release() -> None:
    for holder in tuple(_holders):
        object.__setattr__(holder, "_handle", None)


atexit.register(_release)
