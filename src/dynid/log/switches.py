"""Columns of a log that the mapping leaves unused and that have two values: outputs, states of a gripper or a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.log.log import Channel, Table, Text
from dynid.log.read import Log

# Rows of a file that tell which columns have more than two values, so that these are never read in whole.
FIRST_ROWS = 4096
STATES = 2


@dataclass(frozen=True, eq=False)
class Switch:
    """A column of two values.    column: its name.    low, high: the two, ascending.

    on: by trajectory, times (T,) on the log's clock and whether the value is the higher one (T,) from then on: where it
    changes, the first row and the last.
    """

    column: str
    low: float
    high: float
    on: Mapping[str, tuple[Float, Bool]]

    def share(self, trajectory: str, t: Float, seconds: float) -> Float:
        """Share of so many seconds around each time (N,) in which the value is the higher one, as filters see it."""
        times, on = self.on[trajectory]
        edges = np.append(times, times[-1] + seconds)
        total = np.concatenate([[0.0], np.cumsum(np.diff(edges) * on)])
        low, high = np.maximum(t - 0.5 * seconds, edges[0]), np.minimum(t + 0.5 * seconds, edges[-1])
        width = np.maximum(high - low, 1e-12)
        return np.asarray((np.interp(high, edges, total) - np.interp(low, edges, total)) / width)


def switches_of(log: Log) -> tuple[Switch, ...]:
    """The unused columns of two values; () where none of them can be read."""
    known = {log.mapping.time.column, log.mapping.trajectory, *_mapped(log)}
    names = [
        name
        for name in log.tables[0].column_names
        if name not in known and all(name in table.column_names for table in log.tables)
    ]
    for table in log.tables:
        names = _may_switch(table, names)
    if not names:
        return ()
    found: dict[str, dict[str, tuple[Float, Float]]] = {name: {} for name in names}
    for trajectory in log.trajectories:
        for name, column in _columns(log, names, trajectory.name).items():
            found[name][trajectory.name] = column
    return tuple(one for name in names if (one := _switch(name, found[name])) is not None)


def _mapped(log: Log) -> set[str]:
    m = log.mapping
    groups = (
        *(m.position, m.velocity, m.effort, m.motor_position, m.motor_velocity, m.temperature, m.extra),
        *(m.command_position, m.command_velocity, m.command_effort, m.clocks),
    )
    return {channel.column for group in groups for channel in group.values()}


def _may_switch(table: Table, names: list[str]) -> list[str]:
    if not names:
        return names
    try:
        batch = next(iter(table.batches(tuple(names), FIRST_ROWS)), None)
    except DynidError:
        return []
    if batch is None:
        return []
    return [
        name
        for name in names
        if not isinstance(column := batch[name], Text) and len(_values(column)) <= STATES
    ]


def _values(column: Float) -> Float:
    return np.unique(column[np.isfinite(column)])


def _columns(log: Log, names: list[str], trajectory: str) -> dict[str, tuple[Float, Float]]:
    extra = {name: Channel(name, "1", 1.0) for name in names}
    asked = replace(log, mapping=replace(log.mapping, extra=extra))
    one = next(one for one in asked.trajectories if one.name == trajectory)
    parts: dict[str, list[tuple[Float, Float]]] = {name: [] for name in names}
    for chunk in asked.chunks(one):
        for name, kept in parts.items():
            kept.append(_changes(chunk.t, chunk.extra[name]))
    return {
        name: _changes(*(np.concatenate(column) for column in zip(*kept, strict=True)))
        for name, kept in parts.items()
    }


def _changes(t: Float, values: Float) -> tuple[Float, Float]:
    # A day's log has few changes, and no room for each of its rows.
    told = np.concatenate([[True], values[1:] != values[:-1]])
    told[-1] = True
    return t[told], values[told]


def _switch(name: str, by_trajectory: Mapping[str, tuple[Float, Float]]) -> Switch | None:
    values = np.unique(np.concatenate([_values(column) for _, column in by_trajectory.values()]))
    if len(values) != STATES or not all(np.isfinite(column).all() for _, column in by_trajectory.values()):
        return None
    on = {key: (t, np.asarray(column == values[1])) for key, (t, column) in by_trajectory.items()}
    return Switch(name, float(values[0]), float(values[1]), on)
