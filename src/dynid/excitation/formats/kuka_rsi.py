"""KUKA RSI over Ethernet: one telegram per 4 ms cycle with axis corrections relative to the start, in degrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base import dataclass
from dynid.excitation.formats.motion import Motion, commented

RATE = 250.0  # Hz of the IPO_FAST cycle, 4 ms
SENDER = "dynid"


def telegrams(motion: Motion) -> list[str]:
    """Telegrams for RSI_AXISCORR in absolute mode; the sender fills <IPOC> with that of the robot's packet."""
    degrees = np.rad2deg(motion.q - motion.q[0])
    return [
        f'<Sen Type="{SENDER}"><AK '
        + " ".join(f'A{j + 1}="{x:.9f}"' for j, x in enumerate(row))
        + "/><IPOC>0</IPOC></Sen>"
        for row in degrees
    ]


@dataclass(frozen=True)
class KukaRsi:
    """One telegram per line."""

    name: str = "kuka_rsi.txt"
    joints: tuple[int, ...] = (6,)
    rate: float | None = RATE
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write one telegram per line, and start pose (as KRL) and notes in a second file."""
        path.write_text("\n".join(telegrams(motion)) + "\n", encoding="utf-8")
        start = ", ".join(f"A{j + 1} {x:.9f}" for j, x in enumerate(np.rad2deg(motion.q[0])))
        notes = motion.notes("telegrams in degrees from the start, 4 ms apart")
        path.with_suffix(".start.src").write_text(
            commented(notes, "; ") + f"PTP {{{start}}}\n", encoding="utf-8"
        )


FORMAT = KukaRsi()
