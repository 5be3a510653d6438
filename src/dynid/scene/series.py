"""Recorded signals over time as a part of a page: zoom, joints to choose, and times of findings marked."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding
from dynid.base.pages import own_text, script_json
from dynid.base.records import dataclass
from dynid.log.read import Log
from dynid.recording import IMU_CHANNELS, RawChunk, Trajectory
from dynid.scene.page import ASSETS, Fragment

__all__ = ["Mark", "Motion", "Signal", "motions_of", "series_fragment"]

# Values on a page, 5.4 bytes each: it stays below 3 MB. Fewest points of a signal; motions beyond are left out.
MOST_VALUES, LEAST_POINTS = 300_000, 200
# Median steps of time above which a line is broken.
_BREAK = 5.0
# Chart, unit, name and kind of a signal.
Label: TypeAlias = tuple[str, str, str, str]
_HINT = "Drag: zoom in time. Double-click: all. Click a name: hide or show it."


@dataclass(frozen=True, eq=False)
class Signal:
    """A recorded signal.

    Attributes
    ----------
    chart : str
        Signals of the same chart and unit share axes: "position", "torque".
    unit : str
    name : str
        Joint, or axis of a sensor.
    kind : str
        "" = measured at a joint, else "command", "motor", or "sensor" of no joint.
    values : ndarray, shape (n_points,)
        nan where missing.

    """

    chart: str
    unit: str
    name: str
    kind: str
    values: Float


@dataclass(frozen=True)
class Mark:
    """Time of a finding; start = end for a moment. s on the log's clock."""

    start: float
    end: float
    level: str
    text: str


@dataclass(frozen=True, eq=False)
class Motion:
    """Signals of one trajectory.

    Attributes
    ----------
    name : str
    t : ndarray, shape (n_points,), s
        On the log's clock.
    signals : tuple of Signal
    rows : int
        Rows of the log, of which the points are the least and the largest values.
    marks : tuple of Mark

    """

    name: str
    t: Float
    signals: tuple[Signal, ...]
    rows: int
    marks: tuple[Mark, ...] = ()


def motions_of(
    log: Log, findings: Sequence[Finding] = (), most_values: int = MOST_VALUES
) -> tuple[list[Motion], int]:
    """Signals of the trajectories of a log, thinned without losing peaks, and the number of trajectories left out.

    Parameters
    ----------
    log : Log
        Any log. Rows are read once, in chunks.
    findings : sequence of Finding
        Their times are marked.
    most_values : int
        Values of all signals together.

    Returns
    -------
    motions : list of Motion
    left_out : int
        Trajectories beyond those that fit with LEAST_POINTS points per signal.

    """
    width = len(_signals(log, next(log.recorded(log.trajectories[0])))) + 1 if log.trajectories else 1
    shown = log.trajectories[: max(most_values // (width * LEAST_POINTS), 1)]
    rows = sum(trajectory.row_count for trajectory in shown)
    motions = []
    for trajectory in shown:
        share = trajectory.row_count / max(rows, 1)
        points = max(int(most_values * share / width), LEAST_POINTS)
        size = max(-(-2 * trajectory.row_count // points), 1)
        reduced = _reduced(log, trajectory, size if size > 2 else 1)
        if reduced is not None:
            marks = tuple(mark for finding in findings for mark in marks_of(finding, trajectory))
            motions.append(Motion(trajectory.name, *reduced, trajectory.row_count, marks))
    return motions, len(log.trajectories) - len(shown)


def marks_of(finding: Finding, trajectory: Trajectory) -> list[Mark]:
    """Times of a finding within a trajectory: its intervals, or the time of its place."""
    text = f"{finding.title}: {finding.text}" if finding.title else finding.text
    spans = [(span.start, span.end) for span in finding.evidence.times if span.trajectory == trajectory.name]
    place = finding.place
    if not spans and place.time is not None and place.file in (None, str(trajectory.file)):
        spans = [(place.time, place.time)]
    return [
        Mark(start, end, str(finding.level), text)
        for start, end in spans
        if end >= trajectory.start_time and start <= trajectory.end_time
    ]


def _signals(log: Log, chunk: RawChunk) -> list[tuple[Label, Float]]:
    """Labels (chart, unit, name, kind) and values of all recorded signals of a chunk."""
    robot, recorded = log.robot, log.channels
    commands = [None] * 3 if chunk.commands is None else np.split(chunk.commands, 3, axis=1)
    every = frozenset(robot.joint_names)
    columns: list[tuple[str, str, str, str, Float | None, frozenset[str]]] = [
        ("position", "rad", "m", "", chunk.q, every),
        ("position", "rad", "m", "motor", chunk.theta, recorded.motor_position),
        ("position", "rad", "m", "command", commands[0], recorded.command_position),
        ("velocity", "rad/s", "m/s", "", chunk.dq, recorded.velocity),
        ("velocity", "rad/s", "m/s", "motor", chunk.dtheta, recorded.motor_velocity),
        ("velocity", "rad/s", "m/s", "command", commands[1], recorded.command_velocity),
        ("torque", "N m", "N", "", chunk.tau, recorded.effort),
        ("torque", "N m", "N", "command", commands[2], recorded.command_effort),
        ("temperature", "°C", "°C", "", chunk.temperature, recorded.temperature),
    ]
    made = [
        ((chart, sliding if robot.prismatic[j] else turning, joint, kind), values[:, j])
        for chart, turning, sliding, kind, values, joints in columns
        for j, joint in enumerate(robot.joint_names)
        if values is not None and joint in joints
    ]
    for sensor, wrench in chunk.wrench.items():
        for k, axis in enumerate(("fx", "fy", "fz", "tx", "ty", "tz")):
            chart = f"{sensor}: {'force' if k < 3 else 'torque'}"
            made.append(((chart, "N" if k < 3 else "N m", axis, "sensor"), wrench[:, k]))
    for name, values in chunk.extra.items():
        if name in IMU_CHANNELS:
            turning = "gyro" in name
            chart = "IMU: angular velocity" if turning else "IMU: acceleration"
            made.append(((chart, "rad/s" if turning else "m/s²", name.rpartition(".")[2], "sensor"), values))
        else:
            group, separator, member = name.partition(":")  # contact:FOOT of every foot
            made.append(((group, "", member if separator else name, "sensor"), values))
    return made


def _reduced(log: Log, trajectory: Trajectory, size: int) -> tuple[Float, tuple[Signal, ...]] | None:
    """Times and signals with the least and largest value of each `size` rows; size 1 keeps all rows."""
    times, tables = [], []
    labels: list[Label] = []
    for t, table, names in _batches(log, trajectory, size):
        labels = names
        count = len(t) // size
        if size == 1:
            times.append(t)
            tables.append(table)
        elif count:
            groups = table[: count * size].reshape(count, size, -1)
            low, high = np.fmin.reduce(groups, axis=1), np.fmax.reduce(groups, axis=1)
            rising = _place(groups, high) > _place(groups, low)
            pair = np.where(rising[:, None], np.stack([low, high], axis=1), np.stack([high, low], axis=1))
            times.append(t[: count * size].reshape(count, size)[:, [0, -1]].ravel())
            tables.append(pair.reshape(2 * count, -1))
    if not times:
        return None
    t, table = np.concatenate(times), np.concatenate(tables)
    # No line crosses a gap of the log.
    step = np.diff(t)
    gaps = (
        np.flatnonzero(step > _BREAK * float(np.median(step))) + 1
        if len(step)
        else np.zeros(0, dtype=np.int64)
    )
    t, table = np.insert(t, gaps, t[gaps]), np.insert(table, gaps, np.nan, axis=0)
    signals = (Signal(*label, values) for label, values in zip(labels, table.T, strict=True))
    return t, tuple(signal for signal in signals if np.isfinite(signal.values).any())


def _place(groups: Float, value: Float) -> Any:
    # Index within each group at which a signal has this value.
    return (groups == value[:, None]).argmax(axis=1)


def _batches(log: Log, trajectory: Trajectory, size: int) -> Iterator[tuple[Float, Float, list[Label]]]:
    """Times and values of the chunks, each a multiple of `size` rows but the last."""
    t, table = np.zeros(0), np.zeros((0, 0))
    labels: list[Label] = []
    for chunk in log.recorded(trajectory):
        signals = _signals(log, chunk)
        labels = [label for label, _ in signals]
        values = np.column_stack([values for _, values in signals])
        t, table = np.concatenate([t, chunk.t]), np.concatenate([table, values]) if len(table) else values
        whole = len(t) // size * size
        yield t[:whole], table[:whole], labels
        t, table = t[whole:], table[whole:]
    if len(t):  # the last rows, padded with the last of them
        pad = -len(t) % size
        yield (
            np.append(t, np.repeat(t[-1:], pad)),
            np.concatenate([table, np.repeat(table[-1:], pad, axis=0)]),
            labels,
        )


def series_fragment(motions: Sequence[Motion], left_out: int = 0) -> Fragment:
    """Render signals as a part of a page.

    Parameters
    ----------
    motions : sequence of Motion
        The first is shown, the others can be chosen.
    left_out : int
        Number of trajectories that are named as left out.

    Returns
    -------
    Fragment

    """
    choice = "".join(
        f'<option value="{i}">{escape(motion.name)}</option>' for i, motion in enumerate(motions)
    )
    more = f" {left_out} more trajectories of the log are not on this page." if left_out else ""
    html = f"""<div class="series">
<div class="series-bar" hidden><label{"" if len(motions) > 1 else " hidden"}>Trajectory <select>{choice}</select></label><button type="button" data-act="in">Zoom in</button><button type="button" data-act="out">Zoom out</button><button type="button" data-act="back" aria-label="earlier">◀</button><button type="button" data-act="on" aria-label="later">▶</button><button type="button" data-act="all">All</button></div>
<div class="series-joints" role="group" aria-label="Joints"></div>
<p class="series-note">{_HINT}{escape(more)}</p>
<ol class="series-marks"></ol>
<div class="series-charts"><noscript>Signals are drawn by a script, which this browser does not run.</noscript></div>
<script type="application/json" class="series-data">{script_json([_data(motion) for motion in motions])}</script>
</div>"""  # noqa: E501  (markup)
    script = own_text(ASSETS / "uplot.min.js") + own_text(ASSETS / "series.js")
    return Fragment(html, script, own_text(ASSETS / "uplot.min.css") + own_text(ASSETS / "series.css"))


def _data(motion: Motion) -> dict[str, Any]:
    start = float(motion.t[0])
    return {
        "name": motion.name,
        "start": start,
        "rows": motion.rows,
        "t": _packed(motion.t - start),
        "signals": [
            {
                "chart": signal.chart,
                "unit": signal.unit,
                "name": signal.name,
                "kind": signal.kind,
                "y": _packed(signal.values),
            }
            for signal in motion.signals
        ],
        "marks": [
            {"start": mark.start - start, "end": mark.end - start, "level": mark.level, "text": mark.text}
            for mark in motion.marks
        ],
    }


def _packed(values: Float) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")
