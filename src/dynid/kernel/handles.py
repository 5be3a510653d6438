"""Native objects that belong to Python objects, and their release before the interpreter exits.

nanobind prints a warning for each native object that outlives the interpreter. That happens to objects in reference
cycles, since the command line exits with a frozen garbage collector.
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
