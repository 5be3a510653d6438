"""Estimates that follow a running log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.online.stream import watch_lines
    from dynid.online.watch import Watcher, WatchSettings

__all__ = [
    "WatchSettings",
    "Watcher",
    "watch_lines",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "stream": "watch_lines",
        "watch": "Watcher WatchSettings",
    },
)
