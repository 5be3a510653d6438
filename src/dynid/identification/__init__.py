"""The main job: what shapes an identification, the experiment file, and the whole way from log to result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.identification.experiment import Experiment, open_log
    from dynid.identification.logs import factors_of
    from dynid.identification.settings import Settings

__all__ = [
    "Experiment",
    "Settings",
    "factors_of",
    "open_log",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "experiment": "Experiment open_log",
        "logs": "factors_of",
        "settings": "Settings",
    },
)
