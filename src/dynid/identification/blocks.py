"""Blocks of time, from which intervals and held-out scores are computed; without heavy imports."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.base.options import check_options, option

MOST_FOLDS = 1000  # more fits add nothing but time


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How a log is cut into blocks and folds for cross-validation.

    Raises
    ------
    UsageError
        For values out of range.

    """

    folds: int = option(
        5,
        "folds of the cross-validation: contiguous blocks, or parts of a motion that repeats",
        least=2,
        most=MOST_FOLDS,
    )
    seed: int = option(
        0, "seed of the random states from which the structural base is computed", least=0, most=2**32 - 1
    )
    block_seconds: float | None = option(
        None,
        "length of a block; without it a sixtieth of the log (of its motion if the robot rests most of the time), at "
        "least eight periods of the cutoff frequency (two in a short log); for a motion that repeats, a thirtieth to a "
        "tenth of it",
        unit="s",
        above=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
