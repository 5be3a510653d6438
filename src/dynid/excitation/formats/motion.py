"""Interface of motion formats, and notes that every format contains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dynid.base import Float, UsageError, dataclass
from dynid.trajectories import TorqueMotion, Trajectory


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion at the rate of a format.

    t: (T,) s.    q, dq, ddq: (T, n) rad, rad/s, rad/s^2 (m, m/s, m/s^2 for sliding joints).
    trajectory: the same as a function of time.    headline: what could not be checked, or "".
    """

    joints: tuple[str, ...]
    t: Float
    q: Float
    dq: Float
    ddq: Float
    trajectory: Trajectory
    headline: str = ""

    @property
    def torque(self) -> Float | None:
        """Commanded torque (T, n), N m (N); None for a motion that is commanded as positions."""
        return self.trajectory.torque(self.t) if isinstance(self.trajectory, TorqueMotion) else None

    @property
    def step(self) -> float:
        """Time between two rows, s."""
        return float(self.t[1] - self.t[0]) if len(self.t) > 1 else 0.0

    def notes(self, units: str = "rad (m of joints that slide), s") -> tuple[str, ...]:
        """Lines for comments: what could not be checked, units, length, and peaks that the controller must reach."""
        peaks = [
            f"{name} {q:.4g}, {dq:.4g}, {ddq:.4g}"
            for name, q, dq, ddq in zip(
                self.joints,
                *(np.abs(x).max(axis=0) for x in (self.q, self.dq, self.ddq)),
                strict=True,
            )
        ]
        return (
            *([self.headline] if self.headline else []),
            f"units: {units}; {len(self.t)} rows, {self.t[-1]:.6g} s",
            "largest position, velocity, acceleration: " + "; ".join(_plain(text) for text in peaks),
        )


@dataclass(frozen=True)
class MotionFormat:
    """A file format of motions.

    name: of the written file or folder.    write: writes the file or folder, which does not exist yet.
    joints: allowed numbers of joints, () = any.    rate: Hz that the controller requires, None = free.
    torque: whether it can store commanded torque.
    """

    name: str
    write: Callable[[Motion, Path], None]
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = False


def check_fit(form: str, wanted: MotionFormat, joints: Sequence[str], torque: bool = False) -> None:
    """Raise UsageError for an arm with a wrong number of joints, or torque that a format cannot store."""
    if wanted.joints and len(joints) not in wanted.joints:
        count = " or ".join({6: "six", 7: "seven"}.get(n, str(n)) for n in wanted.joints)
        raise UsageError(form, found=f"{len(joints)} joints", expected=f"{count} joints")
    if torque and not wanted.torque:
        raise UsageError(
            "format",
            found=f"commanded torque in format {form}, which stores positions",
            expected="csv, parquet or mujoco",
        )


def commented(lines: Sequence[str], mark: str = "# ") -> str:
    """Lines as comments."""
    return "".join(f"{mark}{line}\n" for line in lines)


def listed(values: Float) -> str:
    """[x, y, ...] with nine decimals: to 1e-9 rad, 0.1 micrometres at 100 m."""
    return "[" + ", ".join(f"{x:.9f}" for x in values) + "]"


def _plain(text: str) -> str:
    # Names may contain line breaks, comments may not.
    return "".join(c if c.isprintable() else "?" for c in text)
