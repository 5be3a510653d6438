"""libfranka: rows of t, q, dq, ddq at 1 kHz without a header, for a callback that returns franka::JointPositions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base import dataclass
from dynid.excitation.formats.motion import Motion

RATE = 1000.0  # Hz of its control loop


@dataclass(frozen=True)
class LibFranka:
    """Rows of numbers."""

    name: str = "libfranka.csv"
    joints: tuple[int, ...] = ()
    rate: float | None = RATE
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write rows with twelve digits, and notes in a second file, since the rows have no place for them."""
        table = np.concatenate([motion.t[:, None], motion.q, motion.dq, motion.ddq], axis=1)
        path.write_text("".join(",".join(f"{x:.12g}" for x in row) + "\n" for row in table), encoding="utf-8")
        notes = ("columns: t, q, dq, ddq of each joint", *motion.notes())
        path.with_suffix(".txt").write_text("\n".join(notes) + "\n", encoding="utf-8")


FORMAT = LibFranka()
