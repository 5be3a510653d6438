"""What was found in a log, by trajectory and joint."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass


@dataclass
class TrajectorySummary:
    """What one trajectory holds; arrays are (n,)."""

    name: str
    file: str
    rows: int = 0
    start: float = np.nan
    end: float = np.nan
    dt: Float = field(default_factory=lambda: np.zeros(0))
    median_dt: float = np.nan
    gaps: int = 0
    largest_gap: float = 0.0
    lost: int = 0
    duplicates: int = 0
    missing_rows: int = 0
    empty_rows: int = 0
    spread_rows: int = 0
    lower: Float = field(default_factory=lambda: np.zeros(0))
    upper: Float = field(default_factory=lambda: np.zeros(0))
    speed: Float = field(default_factory=lambda: np.zeros(0))
    effort: Float = field(default_factory=lambda: np.zeros(0))

    @property
    def rate(self) -> float:
        """Samples a second, from the median of the time steps."""
        return 1.0 / self.median_dt


@dataclass(frozen=True, eq=False)
class LogSummary:
    """What was found in a log.

    moved: (n,) whether each joint moved.    position_step, velocity_step: (n,) lattice of the values, 0 = none seen.
    saturated: (n,) share of the effort at one end of its range.
    cut_off: (2, n) effort at the upper and the lower end where more than a fiftieth of it lies there, else nan.
    wraps: number of jumps by 2 pi that are undone.
    """

    joint_names: tuple[str, ...]
    trajectories: tuple[TrajectorySummary, ...]
    moved: Bool
    position_step: Float
    velocity_step: Float
    saturated: Float
    cut_off: Float
    wraps: int
    has_velocity: bool
    has_effort: bool

    @property
    def at_rest(self) -> tuple[str, ...]:
        """Joints that never moved."""
        return tuple(name for name, moved in zip(self.joint_names, self.moved, strict=True) if not moved)

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder and the report."""
        return {
            "trajectories": [
                {
                    "name": t.name, "file": t.file, "rows": t.rows, "start_s": t.start, "end_s": t.end,
                    "rate_hz": t.rate, "dt_min_s": float(t.dt.min(initial=np.inf)),
                    "dt_max_s": float(t.dt.max(initial=0.0)), "long_steps": t.lost, "gaps": t.gaps,
                    "largest_gap_s": t.largest_gap, "duplicate_rows": t.duplicates,
                    "rows_with_missing_values": t.missing_rows,
                }
                for t in self.trajectories
            ],
            "joints": [
                {
                    "name": name,
                    "lower": float(min(t.lower[j] for t in self.trajectories)),
                    "upper": float(max(t.upper[j] for t in self.trajectories)),
                    "peak_velocity": float(max(t.speed[j] for t in self.trajectories)),
                    "peak_effort": float(max(t.effort[j] for t in self.trajectories)),
                    "moved": bool(self.moved[j]),
                    "position_step": float(self.position_step[j]),
                    "velocity_step": float(self.velocity_step[j]),
                    "saturated_share": float(self.saturated[j]),
                }
                for j, name in enumerate(self.joint_names)
            ],
            "turns_unwrapped": self.wraps,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Lines of text for the terminal."""
        lines = [f"{'trajectory':<40}{'rows':>9}{'seconds':>10}{'Hz':>8}{'gaps':>6}{'missing':>9}"]
        for t in self.trajectories:
            lines.append(
                f"{t.name[:39]:<40}{t.rows:>9}{t.end - t.start:>10.2f}{t.rate:>8.4g}{t.gaps:>6}{t.missing_rows:>9}"
            )
        lines += ["", f"{'joint':<24}{'lower':>10}{'upper':>10}{'velocity':>10}{'effort':>10}  moved"]
        for joint in self.describe()["joints"]:
            lines.append(
                f"{joint['name']:<24}{joint['lower']:>10.4g}{joint['upper']:>10.4g}{joint['peak_velocity']:>10.4g}"
                f"{joint['peak_effort']:>10.4g}  {'yes' if joint['moved'] else 'NO'}"
            )
        return lines
