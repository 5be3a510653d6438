"""Faults of recording that leave plausible numbers: rows lost behind even time stamps, frozen or unsigned efforts."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.log.log import RawChunk
from dynid.robot.model import RobotModel

# An effort that stands still for so long (s and rows), while its joint moves on by so much (rad or m), is frozen.
FROZEN_SECONDS, FROZEN_ROWS, FROZEN_MOTION = 0.25, 20, 0.02
# And that much longer than it usually repeats itself.
FROZEN_TIMES = 5.0
# Below this share of the log it is a hitch.
FROZEN_SHARE = 0.01
# An effort whose least value lies within this share of its peak above zero, and so many samples near zero, has lost
# its sign: an effort that happens to end at zero does so once in some hundred joints.
AT_ZERO, NEAR_ZERO, NEAR_ZERO_SHARE = 2e-3, 0.02, 2e-3
# A jump along the motion counts from so many times the usual unevenness on, and from most of a row.
JUMP_SIGNIFICANCE, JUMP_ROWS = 12.0, 0.8
EVEN = 0.2


class RecordingWatch:
    """Looks for such faults while the chunks of a log pass by."""

    def __init__(self, robot: RobotModel) -> None:
        n = robot.n
        self.names = robot.joint_names
        self.seconds, self.rows = 0.0, 0
        self.frozen, self.frozen_at = np.zeros(n), np.full(n, np.nan)
        self.least, self.most = np.full(n, np.inf), np.full(n, -np.inf)
        self.near_zero = np.zeros(n)
        self.jumps: list[tuple[float, float]] = []

    def see(self, chunk: RawChunk) -> None:
        """Looks at a chunk."""
        if len(chunk.t) < FROZEN_ROWS:
            return
        self.seconds += float(chunk.t[-1] - chunk.t[0])
        self.rows += len(chunk.t)
        self._jumps(chunk.t, chunk.q)
        if chunk.tau is not None:
            self._frozen(chunk.t, chunk.q, chunk.tau)
            self._unsigned(chunk.tau)

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Tells what was found.    Claims: constant-effort, unsigned-effort, rows-lost."""
        for j in np.flatnonzero(moved & (self.frozen > FROZEN_SHARE * self.seconds)):
            sink.claim(
                "constant-effort",
                found=f"an effort that stands still for {self.frozen[j]:.3g} s of {self.seconds:.3g} s (first at "
                f"t = {self.frozen_at[j]:.4g} s) while the joint moves: frozen",
                expected="an effort that follows the motion",
                do="leave these times out (window under [data]), or look at the driver",
                place=Place(joint=self.names[j]),
            )
        with np.errstate(invalid="ignore"):
            unsigned = (self.least >= 0) & (self.least <= AT_ZERO * self.most) & (self.most > 0)
        unsigned &= self.near_zero > NEAR_ZERO_SHARE * max(self.rows, 1)
        for j in np.flatnonzero(moved & unsigned):
            sink.claim(
                "unsigned-effort",
                found=f"an effort from 0 to {self.most[j]:.4g} that turns back at zero: its absolute value",
                expected="an effort with a sign",
                do="log the signed effort: no sign can be given back",
                place=Place(joint=self.names[j]),
            )
        if self.jumps:
            at, rows = self.jumps[0]
            sink.claim(
                "rows-lost",
                found=f"{len(self.jumps)} jump(s) of all joints along their motion while time goes on evenly (first at "
                f"t = {at:.4g} s, by {rows:.2g} rows): rows were lost and time was numbered anew",
                expected="time stamps of the measurement",
                do="log time as it was measured, or split the log there (trajectory under [log])",
            )

    def _frozen(self, t: Float, q: Float, tau: Float) -> None:
        for j, values in enumerate(tau.T):
            edges = np.flatnonzero(np.diff(values) != 0) + 1
            starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(values)]]) - 1
            rows = ends - starts
            long = (rows >= FROZEN_ROWS) & (t[ends] - t[starts] > FROZEN_SECONDS)
            # A coarse or slowly updated effort repeats itself all the time.
            long &= rows > FROZEN_TIMES * np.quantile(rows, 0.95)
            if not long.any():
                continue
            low, high = np.nanmin(values), np.nanmax(values)
            for a, b in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
                # At an end of the range it is cut off, which is told elsewhere.
                if low < values[a] < high and np.ptp(q[a : b + 1, j]) > FROZEN_MOTION:
                    self.frozen[j] += float(t[b] - t[a])
                    self.frozen_at[j] = np.fmin(self.frozen_at[j], t[a])

    def _unsigned(self, tau: Float) -> None:
        low, high = np.nanmin(tau, axis=0), np.nanmax(tau, axis=0)
        self.least, self.most = np.fmin(self.least, low), np.fmax(self.most, high)
        # Exact zeros are a joint that is switched off, or cut off.
        self.near_zero += ((tau > 0) & (tau < NEAR_ZERO * high)).sum(axis=0)

    def _jumps(self, t: Float, q: Float) -> None:
        step, dt = np.diff(q, axis=0), np.diff(t)
        usual = float(np.median(dt))
        if len(step) < FROZEN_ROWS or usual <= 0:
            return
        around = 0.5 * (step[2:] + step[:-2])
        uneven = step[1:-1] - around
        scale = np.nanmedian(np.abs(uneven), axis=0) / 0.6745 + 1e-12
        weight = 1.0 / scale**2
        # Rows lost at each step if all joints went on as fast as before: u = m v.
        information = np.nansum(around**2 * weight, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = np.nansum(around * uneven * weight, axis=1) / information
            left = np.nansum((uneven - rows[:, None] * around) ** 2 * weight, axis=1)
            whole = np.nansum(uneven**2 * weight, axis=1)
        found = (rows > JUMP_ROWS) & (rows * np.sqrt(information) > JUMP_SIGNIFICANCE) & (left < 0.05 * whole)
        found &= np.abs(dt[1:-1] / usual - 1.0) < EVEN
        self.jumps += [(float(t[k + 1]), float(rows[k])) for k in np.flatnonzero(found)]
