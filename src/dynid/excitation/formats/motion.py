"""What a form of a motion is written from, and what every form says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from dynid.base import Float, UsageError, dataclass
from dynid.trajectories import TorqueMotion, Trajectory


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion at the rate of a form.

    t: (T,) s.    q, dq, ddq: (T, n) rad, rad/s, rad/s^2 (m, m/s, m/s^2 of joints that slide).
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
        """(T, n) N m (N), of a motion that is commanded as torque."""
        return self.trajectory.torque(self.t) if isinstance(self.trajectory, TorqueMotion) else None

    @property
    def step(self) -> float:
        """Between two rows, s."""
        return float(self.t[1] - self.t[0]) if len(self.t) > 1 else 0.0

    def notes(self, units: str = "rad (m of joints that slide), s") -> tuple[str, ...]:
        """Lines for comments: what could not be checked, units, length, and what the controller must be able to do."""
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
            "greatest position, velocity, acceleration: " + "; ".join(_plain(text) for text in peaks),
        )


class MotionFormat(Protocol):
    """A form of a motion: one file of this folder with an object FORMAT, and one name in `Format`.

    name: of the file or folder that is written.    joints: how many an arm must have, () = any.
    rate: Hz that the controller asks for, None = as wanted.    torque: whether it can hold commanded torque.
    """

    name: str
    joints: tuple[int, ...]
    rate: float | None
    torque: bool

    def write(self, motion: Motion, path: Path) -> None:
        """Writes the file or folder, which is not there yet."""
        ...


def check_fit(form: str, wanted: MotionFormat, joints: Sequence[str], torque: bool = False) -> None:
    """Raises UsageError for an arm with another number of joints than a form has, or torque that it cannot hold."""
    if wanted.joints and len(joints) not in wanted.joints:
        count = " or ".join({6: "six", 7: "seven"}.get(n, str(n)) for n in wanted.joints)
        raise UsageError(form, found=f"{len(joints)} joints", expected=f"{count} joints")
    if torque and not wanted.torque:
        raise UsageError(
            "format", found=f"{form}, which holds positions, for torque", expected="csv, parquet or mujoco"
        )


def commented(lines: Sequence[str], mark: str = "# ") -> str:
    """Lines as comments."""
    return "".join(f"{mark}{line}\n" for line in lines)


def listed(values: Float) -> str:
    """[x, y, ...] with nine decimals: to 1e-9 rad, 0.1 micrometres at 100 m."""
    return "[" + ", ".join(f"{x:.9f}" for x in values) + "]"


def _plain(text: str) -> str:
    # A joint may be called anything; a comment is one line.
    return "".join(c if c.isprintable() else "?" for c in text)
