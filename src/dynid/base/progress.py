"""Progress of long work, for whoever watches it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

# Called with (stage, seconds of data done).
Progress = Callable[[str, float], None]
# Names a file that a command keeps its progress in, for programs that watch it.
PROGRESS_VARIABLE = "DYNID_PROGRESS"
# A file is written at most so often, s: a page that shows it asks no more often.
WRITTEN_EVERY = 0.2


def progress_file(path: Path, total: float) -> Progress:
    """Keeps the present stage and its share in a JSON file: {"stage": text, "share": 0 to 1, or null = not known}.

    total: seconds of data of a stage, nan = not known.    What cannot be written is left out.
    """
    done: dict[str, float] = {}
    latest = -math.inf

    def advance(stage: str, seconds: float) -> None:
        nonlocal latest
        new = stage not in done
        done[stage] = done.get(stage, 0.0) + seconds
        if not new and monotonic() - latest < WRITTEN_EVERY:
            return
        latest = monotonic()
        share = min(1.0, done[stage] / total) if math.isfinite(total) and total > 0 else None
        part = path.with_name(f"{path.name}.part")
        with suppress(OSError):
            part.write_text(json.dumps({"stage": stage, "share": share}), encoding="utf-8")
            part.replace(path)

    return advance
