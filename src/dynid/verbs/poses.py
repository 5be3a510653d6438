"""Standstills in a log, and tables of poses: position, mean torque, and the side each joint came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.errors import InputError, Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.log.files import open_table
from dynid.log.log import RawChunk, Text
from dynid.log.read import Log
from dynid.robot.model import RobotModel

# Velocity is the change of position over this time, so that an encoder's noise counts little, s.
SPAN = 0.05
TABLE_ROWS = 65536


@dataclass(frozen=True, eq=False)
class StaticPoses:
    """Standstills of a robot.

    q, tau: (P, n) mean position and torque at the joints.    spread: (P, n) standard deviation of the torque.
    approach: (P, n) direction in which each joint reached its position: 1, -1, or 0 = unknown. Where motors move
        several joints it is each motor's direction, for friction sits there: of theta_m over its gear ratio's size.
    seconds: (P,) how long it stood.
    """

    q: Float
    tau: Float
    approach: Float
    spread: Float
    seconds: Float

    def __post_init__(self) -> None:
        P, n = np.shape(self.q)
        for name in ("q", "tau", "approach", "spread"):
            object.__setattr__(self, name, locked(getattr(self, name), (P, n), name))
        object.__setattr__(self, "seconds", locked(self.seconds, (P,), "seconds"))

    def __len__(self) -> int:
        return len(self.q)


@dataclass(frozen=True)
class Standstill:
    """What counts as a pose: every joint slower than `still` for at least `dwell` after `settle` seconds of standing.

    still: rad/s (m/s).    dwell, settle: s.    away: rad (m), how far a joint must have been from its position for the
    side that it came from to be known.
    """

    still: float = 2e-3
    dwell: float = 0.3
    settle: float = 0.2
    away: float = 5e-3

    def __post_init__(self) -> None:
        if not (self.still > 0 and self.dwell > 0 and self.settle >= 0 and self.away > 0):
            raise UsageError(
                "standstill-settings", found=str(self), expected="still, dwell, away > 0, settle >= 0"
            )


def find_poses(log: Log, settings: Standstill | None = None) -> StaticPoses:
    """Finds the standstills of a log; each trajectory is read as a whole.

    Raises UnfitDataError if there is none.
    """
    chosen = settings or Standstill()
    found: list[tuple[Float, Float, Float, Float, float]] = []
    for trajectory in log.trajectories:
        chunk = log.read(trajectory)
        found += _standstills(log.robot, chunk, chosen)
    if not found:
        raise UnfitDataError(
            "no-poses",
            found=f"no standstill of {chosen.settle + chosen.dwell:g} s below {chosen.still:g} rad/s",
            expected="poses that are held",
            do="hold each pose longer, or raise statics.still for a noisy encoder",
        )
    q, tau, approach, spread, seconds = zip(*found, strict=True)
    return StaticPoses(np.array(q), np.array(tau), np.array(approach), np.array(spread), np.array(seconds))


def read_poses(path: str | Path, robot: RobotModel) -> StaticPoses:
    """Reads a table of poses, SI units: q_<joint>, tau_<joint>, and from_<joint> = 1 or -1 (0 = unknown) where given.

    Where motors move several joints, from_<joint> is the direction of that joint's motor.

    Raises InputError for missing columns, and for rows that are incomplete or move (dq_<joint> other than 0).
    """
    path = Path(path)
    table = open_table(path)
    place = Place(file=str(path))
    known = {prefix: [f"{prefix}_{j}" for j in robot.joint_names] for prefix in ("q", "tau", "from", "dq")}
    missing = [name for name in known["q"] + known["tau"] if name not in table.column_names]
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column {', '.join(missing[:6])}",
            expected="q_<joint> and tau_<joint> of every joint",
            place=place,
        )
    columns = tuple(name for names in known.values() for name in names if name in table.column_names)
    parts: dict[str, list[Float]] = {name: [] for name in columns}
    for batch in table.batches(columns, TABLE_ROWS):
        for name in columns:
            values = batch[name]
            if isinstance(values, Text):
                raise InputError(
                    "text-cell", found=f"text in column '{name}'", expected="numbers", place=place
                )
            parts[name].append(values)
    data = {name: np.concatenate(values) if values else np.zeros(0) for name, values in parts.items()}

    def stacked(prefix: str) -> Float:
        rows = len(data[known["q"][0]])
        return np.stack([data.get(name, np.zeros(rows)) for name in known[prefix]], axis=1)

    q, tau, side = stacked("q"), stacked("tau"), np.sign(stacked("from"))
    _refuse_row(
        np.asarray(~np.isfinite(q + tau + side).all(axis=1)),
        "a pose with a missing number",
        "q and tau",
        path,
    )
    _refuse_row(
        (np.abs(stacked("dq")) > 0.02).any(axis=1), "a pose in motion (dq other than 0)", "rest", path
    )
    if not len(q):
        raise InputError("no-rows", found="a table without poses", expected="one row a pose", place=place)
    return StaticPoses(q, tau, side, np.zeros_like(q), np.full(len(q), np.nan))


def _refuse_row(wrong: Any, found: str, expected: str, path: Path) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError("wrong-pose", found=found, expected=expected, place=Place(file=str(path), row=row))


def _standstills(
    robot: RobotModel, chunk: RawChunk, settings: Standstill
) -> list[tuple[Float, Float, Float, Float, float]]:
    if chunk.tau is None or len(chunk.t) < 3:
        return []
    sound = np.isfinite(chunk.t) & np.isfinite(chunk.q).all(axis=1) & np.isfinite(chunk.tau).all(axis=1)
    t, q, tau = chunk.t[sound], chunk.q[sound], chunk.tau[sound]
    x = sided(robot, q)
    found = []
    for a, b in _runs(_still(t, q, settings.still)):
        inside = slice(int(np.searchsorted(t, t[a] + settings.settle)), b)
        if inside.start >= b or t[b - 1] - t[inside.start] < settings.dwell:
            continue
        pose, here = q[inside].mean(axis=0), x[inside].mean(axis=0)
        approach = np.array([_side(x[:a, j] - here[j], settings.away) for j in range(q.shape[1])])
        spread = tau[inside].std(axis=0)
        found.append((pose, tau[inside].mean(axis=0), approach, spread, float(t[b - 1] - t[inside.start])))
    return found


def sided(robot: RobotModel, q: Float) -> Float:
    """The positions whose direction decides on friction, (T, n): the joints', or the motors' of coupled drives."""
    drive = robot.drive
    return drive.motor_position(q) / np.abs(drive.transmission).max(axis=1) if drive.coupled else q


def _still(t: Float, q: Float, limit: float) -> Bool:
    # The span is symmetric in time and cut short at the ends of the log.
    before = np.searchsorted(t, t - 0.5 * SPAN, side="left")
    after = np.minimum(np.searchsorted(t, t + 0.5 * SPAN, side="right"), len(t) - 1)
    elapsed = np.maximum(t[after] - t[before], 1e-9)
    return np.asarray((np.abs(q[after] - q[before]) / elapsed[:, None] < limit).all(axis=1))


def _runs(mask: Bool) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _side(before: Float, away: float) -> float:
    # The last place well away from the pose shows where the joint came from.
    far = np.flatnonzero(np.abs(before) > away)
    return float(-np.sign(before[far[-1]])) if len(far) else 0.0
