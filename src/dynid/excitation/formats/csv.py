"""CSV: t, q_<joint>, dq_<joint>, ddq_<joint>, tau_<joint> where torque is commanded; SI units."""

from __future__ import annotations

from pathlib import Path

from dynid.base import Float, dataclass
from dynid.excitation.formats.motion import Motion, commented
from dynid.log import canonical_columns, write_log


def columns(motion: Motion) -> dict[str, Float]:
    """Columns of a table; commanded torque is among them, for `open-loop:` and torque controllers."""
    named = canonical_columns(motion.joints, motion.q, motion.dq, motion.torque)
    return named | {f"ddq_{name}": motion.ddq[:, j] for j, name in enumerate(motion.joints)}


@dataclass(frozen=True)
class Csv:
    """A table as text."""

    name: str = "motion.csv"
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = True

    def write(self, motion: Motion, path: Path) -> None:
        """Write the table; a comment precedes the header only if something could not be checked."""
        write_log(path, motion.t, columns(motion))
        if motion.headline:
            path.write_text(commented([motion.headline]) + path.read_text(encoding="utf-8"), encoding="utf-8")


FORMAT = Csv()
