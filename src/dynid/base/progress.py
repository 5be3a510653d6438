"""Progress of long work, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable

# Called with (stage, seconds of data done).
Progress = Callable[[str, float], None]
