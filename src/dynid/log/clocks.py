"""Channels with time stamps of their own, brought to the times of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.log import Channel, Table, Text
from dynid.log.selection import ROWS, cell_number, column_numbers
from dynid.log.time_order import longest_step


@dataclass(frozen=True, eq=False)
class Series:
    """Samples of one column on its own clock, missing ones left out: t (k,) s ascending, values (k,)."""

    t: Float
    values: Float

    def at(self, t: Float) -> Float:
        """Values at these times, between two samples on the straight line; nan outside them and in pauses.

        Where two samples are further apart than half of all values, as where an angle begins a new turn, it is the
        nearer one.
        """
        if len(self.t) < 2:
            return np.full(len(t), np.nan)
        right = np.clip(np.searchsorted(self.t, t), 1, len(self.t) - 1)
        step = self.t[right] - self.t[right - 1]
        # Between two samples that a gap parts nothing is known.
        longest = longest_step(float(np.median(np.diff(self.t))))
        known = (step <= longest) | (t == self.t[right]) | (t == self.t[right - 1])
        known &= (t >= self.t[0]) & (t <= self.t[-1])
        before, after = self.values[right - 1], self.values[right]
        nearer = np.where(t - self.t[right - 1] < self.t[right] - t, before, after)
        jumps = np.abs(after - before) > 0.5 * np.ptp(self.values)
        return np.where(known, np.where(jumps, nearer, np.interp(t, self.t, self.values)), np.nan)


class OnOneClock:
    """A table whose channels with clocks of their own are brought to the times of its rows, linearly.

    time: of the rows.    positions: their columns; rows without any of them, which other clocks made, are left out.
    clocks: of each column that has its own, its time column; where that is the time of the rows, the column's cells may
    be empty in between. Rows before the first and after the last sample of any of them are left out.
    """

    def __init__(
        self, table: Table, time: Channel, positions: Sequence[str], clocks: Mapping[str, Channel]
    ) -> None:
        self.path: Path = table.path
        self.column_names = table.column_names
        self._table, self._time = table, time
        self.number: Callable[[str], float] = getattr(table, "number", cell_number)
        self._series = {name: self._read(name, clock) for name, clock in clocks.items()}
        t, there = self._rows(positions)
        low = max((float(one.t[0]) for one in self._series.values()), default=-np.inf)
        high = min((float(one.t[-1]) for one in self._series.values()), default=np.inf)
        self._kept = there & (t >= low) & (t <= high)
        inside = np.flatnonzero(self._kept)
        if not len(inside):
            raise InputError(
                "no-overlap",
                found=f"channels from {low:.6g} to {high:.6g} s and rows from {_ends(t)}",
                expected="clocks that share some time",
                do="look at the units of the time columns",
                place=Place(file=str(self.path)),
            )
        self._kept_rows = inside
        self.row_count: int | None = len(inside)
        self.trajectory = getattr(table, "trajectory", None)
        remarks = self._reported(t[inside], clocks, int(there.sum()) - len(inside), int((~there).sum()))
        self.remarks = (*getattr(table, "remarks", ()), *remarks)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; rows are counted among those that are kept."""
        wanted = self._kept_rows[start:stop]
        if not len(wanted):
            return
        plain = tuple(
            dict.fromkeys((self._time.column, *(one for one in columns if one not in self._series)))
        )
        row = int(wanted[0])
        for batch in self._table.batches(plain, rows, row, int(wanted[-1]) + 1):
            stamps = batch[self._time.column]
            t = column_numbers(stamps, self._time.column, self._table, row) * self._time.factor
            kept = self._kept[row : row + len(t)]
            row += len(t)
            if kept.any():
                yield {
                    name: self._series[name].at(t[kept]) if name in self._series else _part(batch[name], kept)
                    for name in columns
                }

    @property
    def sha256(self) -> str | None:
        """That of the table, where it has one of its own."""
        found: str | None = getattr(self._table, "sha256", None)
        return found

    def _rows(self, positions: Sequence[str]) -> tuple[Float, Bool]:
        """Time of every row, and whether any position is there."""
        columns = (self._time.column, *(one for one in positions if one not in self._series))
        times: list[Float] = [np.zeros(0)]
        present: list[Bool] = [np.zeros(0, dtype=np.bool_)]
        row = 0
        for batch in self._table.batches(columns, ROWS):
            data = [column_numbers(batch[name], name, self._table, row) for name in columns]
            times.append(data[0] * self._time.factor)
            present.append(np.asarray(np.isfinite(data[1:]).any(axis=0)))
            row += len(data[0])
        return np.concatenate(times), np.concatenate(present)

    def _read(self, name: str, clock: Channel) -> Series:
        parts: list[tuple[Float, Float]] = []
        row = 0
        for batch in self._table.batches((clock.column, name), ROWS):
            t, values = (column_numbers(batch[one], one, self._table, row) for one in (clock.column, name))
            parts.append((t * clock.factor, values))
            row += len(t)
        t, values = (np.concatenate([part[i] for part in parts] or [np.zeros(0)]) for i in (0, 1))
        there = np.isfinite(t) & np.isfinite(values)
        t, values = t[there], values[there]
        back = np.flatnonzero(np.diff(t) <= 0)
        if len(back) or len(t) < 2:
            at = int(np.flatnonzero(there)[back[0] + 1]) if len(back) else None
            raise InputError(
                "own-clock",
                found=f"time '{clock.column}' of '{name}' that does not ascend"
                if len(back)
                else f"{len(t)} samples of '{name}' on the clock '{clock.column}'",
                expected="ascending time over the whole file",
                do="split the file where its clock starts anew" if len(back) else "",
                place=Place(file=str(self.path), row=at),
            )
        return Series(t, values)

    def _reported(
        self, t: Float, clocks: Mapping[str, Channel], outside: int, empty: int
    ) -> Iterator[Diagnostic]:
        place = Place(file=str(self.path))
        for clock in dict.fromkeys(clocks.values()):
            names = [name for name, one in clocks.items() if one == clock]
            own = self._series[names[0]]
            what = ", ".join(names)
            if np.isin(t, own.t).all():
                text = f"{what} are joined to the rows by equal times of '{clock.column}'"
                yield Diagnostic(Severity.NOTE, "joined", text, place)
                continue
            missing = max(float(np.isnan(self._series[name].at(t)).mean()) for name in names)
            text = (
                f"{what} have a clock of their own, '{clock.column}' ({_rate(own.t)}), beside the rows ({_rate(t)}): "
                f"they are brought to the rows' time on straight lines between two samples"
            )
            text += f"; {100 * missing:.2g} % of the rows lie in pauses" if missing else ""
            yield Diagnostic(Severity.WARNING, "mixed-rates", text, place)
        if empty:
            text = f"{empty} rows without a position, made by other clocks, are left out"
            yield Diagnostic(Severity.NOTE, "empty-rows", text, place)
        if outside:
            text = f"{outside} rows before the first or after the last sample of another clock are left out"
            yield Diagnostic(Severity.NOTE, "common-time", text, place)


def _ends(t: Float) -> str:
    return f"{np.nanmin(t):.6g} to {np.nanmax(t):.6g} s" if np.isfinite(t).any() else "nowhere"


def _rate(t: Float) -> str:
    return f"{1.0 / float(np.median(np.diff(t))):.4g} Hz" if len(t) > 1 else "one sample"


def _part(values: Float | Text, kept: Bool) -> Float | Text:
    return Text(values.codes[kept], values.names) if isinstance(values, Text) else values[kept]
