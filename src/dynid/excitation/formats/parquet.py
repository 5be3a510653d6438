"""Parquet: the columns of the CSV with every digit; notes in the metadata of the schema."""

from __future__ import annotations

from pathlib import Path

from dynid.base import dataclass
from dynid.excitation.formats.csv import columns
from dynid.excitation.formats.motion import Motion
from dynid.log import write_log


@dataclass(frozen=True)
class Parquet:
    """A table."""

    name: str = "motion.parquet"
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = True

    def write(self, motion: Motion, path: Path) -> None:
        """Write the table; its metadata contain notes, and not_checked if something could not be checked."""
        warned = {"not_checked": motion.headline} if motion.headline else {}
        write_log(path, motion.t, columns(motion), metadata=warned | {"notes": "\n".join(motion.notes())})


FORMAT = Parquet()
