"""KUKA FRI: rows of seven joint positions at 1 kHz, for LBRJointCommandClient::command of an LBR iiwa."""

from __future__ import annotations

from pathlib import Path

from dynid.base import dataclass
from dynid.excitation.formats.motion import Motion

RATE = 1000.0  # Hz of the shortest FRI cycle; a client with a longer one uses every second or fifth row


@dataclass(frozen=True)
class KukaFri:
    """Rows of numbers."""

    name: str = "kuka_fri.csv"
    joints: tuple[int, ...] = (7,)
    rate: float | None = RATE
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write positions with twelve digits, and notes in a second file, since the rows have no place for them."""
        path.write_text(
            "".join(",".join(f"{x:.12g}" for x in row) + "\n" for row in motion.q), encoding="utf-8"
        )
        notes = ("columns: position of each joint, rad, a row a millisecond", *motion.notes())
        path.with_suffix(".txt").write_text("\n".join(notes) + "\n", encoding="utf-8")


FORMAT = KukaFri()
