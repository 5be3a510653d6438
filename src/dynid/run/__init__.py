"""The result of an identification: verdict, validation, provenance, and the folder that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.run.blocks import block_seconds
    from dynid.run.result import Identification, Validation
    from dynid.run.store import load

__all__ = [
    "Identification",
    "Validation",
    "block_seconds",
    "load",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "blocks": "block_seconds",
        "result": "Identification Validation",
        "store": "load",
    },
)
