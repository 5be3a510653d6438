"""Blocks of time: what intervals and held-out scores are built from. Light to load."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.base.options import check_options, option

MOST_FOLDS = 1000


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How a log is cut into blocks and folds.

    Raises UsageError for values out of range.
    """

    folds: int = option(
        5,
        "folds for held-out blocks, contiguous or of parts of a motion that repeats",
        least=2,
        most=MOST_FOLDS,
    )
    seed: int = option(0, "of the random states for the structural base", least=0, most=2**32 - 1)
    block_seconds: float | None = option(
        None,
        "length of a block; without it a sixtieth of the log (of its motion where the robot stands for most of it), at "
        "least eight periods of the cut-off (if short, two); of a motion that repeats a thirtieth to a tenth of it",
        unit="s",
        above=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
