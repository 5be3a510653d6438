"""URScript: movej to the start, then servoj along the motion, then stopj."""

from __future__ import annotations

from pathlib import Path

from dynid.base import Float, UsageError, dataclass
from dynid.excitation.formats.motion import Motion, commented, listed

LOOKAHEAD, GAIN = 0.1, 300  # within 0.03 to 0.2 s and 100 to 2000, the ranges of servoj


def urscript(t: Float, q: Float) -> str:
    """A URScript program of servoj; raises UsageError unless there are six joints and at least two points."""
    if q.shape[1] != 6 or len(t) < 2:
        raise UsageError(
            "urscript",
            found=f"{q.shape[1]} joints, {len(t)} points",
            expected="six joints and at least two points",
        )
    step = float(t[1] - t[0])
    lines = ["def excitation():", f"  movej({listed(q[0])}, a=0.5, v=0.5)", "  sleep(1.0)"]
    lines += [
        f"  servoj({listed(row)}, t={step:.9g}, lookahead_time={LOOKAHEAD:g}, gain={GAIN})" for row in q[1:]
    ]
    return "\n".join([*lines, "  stopj(2.0)", "end", ""])


@dataclass(frozen=True)
class UrScript:
    """A program of servoj."""

    name: str = "motion.script"
    joints: tuple[int, ...] = (6,)
    rate: float | None = None
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write positions with nine decimals."""
        text = commented(motion.notes("rad, s, rad/s, rad/s^2")) + urscript(motion.t, motion.q)
        path.write_text(text, encoding="utf-8")


FORMAT = UrScript()
