"""Recordings of yarpdatadumper: one folder per port, with data.log ("counter stamp values ...") and info.log.

Order of the extended states: jointData.thrift of robotology/yarp.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from dynid.base import Finding, Float, InputError, Level, Place
from dynid.log import ArrayTable, CsvReader, Series, StoredArray, Table, Text

_DATA, _INFO = "data.log", "info.log"
# Rows that are read at once.
_ROWS = 32768
# Depth of port folders (icub/left_arm/state), and maximum number of ports.
_DEEPEST, _MOST_PORTS = 4, 64
# Ports with fewer rows than this share of the longest carry no joint signals, and do not determine the rows.
_SLOW = 0.1
# Variation of the difference between two columns, relative to their range, below which both are stamps (of sending and
# reception).
_SAME_CLOCK = 0.01
_STATES = (
    "jointPosition",
    "jointVelocity",
    "jointAcceleration",
    "motorPosition",
    "motorVelocity",
    "motorAcceleration",
    "torque",
    "pwmDutycycle",
    "current",
)
_BOARD = re.compile(r"(?:^|[/_-])state(?:ext)?(?::o)?$", re.IGNORECASE)
# The states are followed by control and interaction modes; early versions have no current.
_LEAST_LISTS, _MODES = 10, 2


class PortFolderReader:
    """Opens folders that yarpdatadumper recorded, of one port or with one folder per port."""

    name = "YARP dump"
    suffixes: tuple[str, ...] = ()

    def can_read(self, head: bytes) -> bool:
        """Always false, since a dump is a folder."""
        return False

    def can_read_folder(self, path: Path) -> bool:
        """Whether a folder contains a dump of a port."""
        return bool(_ports(path))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> PortFolders:
        """Open a folder.

        Parameters
        ----------
        path : Path
            The folder.
        delimiter, decimal : str, optional
            Not used by this format.

        Returns
        -------
        PortFolders
            The table.

        Raises
        ------
        InputError
            If no port contains numbers.

        """
        return PortFolders(path)


class PortFolders(ArrayTable):
    """The ports of a dump side by side: columns PORT[0], PORT[1], ... and time in s.

    Rows are at the times of the slowest port; other ports are interpolated linearly to these.
    """

    def __init__(self, path: Path) -> None:
        self._files = _ports(path)
        ports: dict[str, tuple[Float, dict[str, Float]]] = {}
        left: list[str] = []
        for name, file in self._files.items():
            port_data = _signals(file)
            if port_data is None:
                left.append(f"{name}: no numbers")
            else:
                ports[name] = port_data
        if not ports:
            raise InputError(
                "no-rows",
                found="a YARP dump whose ports have no numbers: " + ", ".join(self._files),
                expected=f"{_DATA} with lines 'counter stamp value value ...'",
                place=Place(file=str(path)),
            )
        most = max(len(t) for t, _ in ports.values())
        rows = min(
            (name for name in ports if len(ports[name][0]) >= _SLOW * most),
            key=lambda name: len(ports[name][0]),
        )
        t = ports[rows][0]
        apart = [name for name, (stamps, _) in ports.items() if stamps[-1] < t[0] or stamps[0] > t[-1]]
        left += [f"{name}: recorded at another time than {rows}" for name in apart]
        ports = {name: port for name, port in ports.items() if name not in apart}
        low, high = (
            max(stamps[0] for stamps, _ in ports.values()),
            min(stamps[-1] for stamps, _ in ports.values()),
        )
        t = t[(t >= low) & (t <= high)]
        arrays = [StoredArray.of("time", t, unit="s")]
        for name, (stamps, signals) in ports.items():
            for signal, values in signals.items():
                at = np.stack([Series(stamps, column).at(t) for column in values.T], axis=1)
                arrays.append(StoredArray.of(_signal_name(name, signal), at))
        super().__init__(path, arrays, left)
        text = (
            f"one row for each of the {len(t)} samples of {rows}; other ports are interpolated to their times"
        )
        if len(ports) > 1:
            noted = Finding(Level.NOTE, "ports", text, Place(file=str(path)))
            self.remarks = (*self.remarks, noted)

    @property
    def sha256(self) -> str:
        """Hash of the ports' names and hashes."""
        lines = ""
        for name, path in self._files.items():
            with path.open("rb") as file:
                lines += f"{hashlib.file_digest(file, 'sha256').hexdigest()} {name}\n"
        return hashlib.sha256(lines.encode()).hexdigest()


def _ports(folder: Path) -> dict[str, Path]:
    """The data file of each port in a folder, by the name of the port's folder."""
    ports = {}
    for depth in range(_DEEPEST):
        for file in sorted(folder.glob("*/" * depth + _DATA)):
            if file.with_name(_INFO).is_file():
                ports[file.parent.relative_to(folder).as_posix() if depth else folder.name] = file
    return ports if len(ports) <= _MOST_PORTS else {}


def _signal_name(port: str, signal: str) -> str:
    """Name of a signal: state:o of a control board streams the positions of its encoders."""
    board = _BOARD.search(port)
    if board is None:
        return f"{port}/{signal}" if signal else port
    part = port[: board.start()]
    return f"{part}/{signal or 'position'}" if part else signal or "position"


def _signals(file: Path) -> tuple[Float, dict[str, Float]] | None:
    """Stamps (T,) s and signals (T, k) of a port by name, "" = its only one; None = it has no numbers."""
    if not file.stat().st_size or "image" in file.with_name(_INFO).read_text("utf-8", "replace").lower():
        return None
    table = CsvReader().open(file)
    texts = set(table.texts)
    names = [name for name in table.column_names if name not in texts]
    if len(names) < 3 or names[:2] != list(table.column_names[:2]):
        return None
    values = _numbers(table, names)
    t, first = values[:, 1], 2
    if values.shape[1] > 3 and np.ptp(values[:, 2] - t) < _SAME_CLOCK * np.ptp(t):
        first = 3
    good = np.isfinite(t)
    t, order = np.unique(t[good], return_index=True)
    if len(t) < 2:
        return None
    values = values[good][order]
    place = {name: k for k, name in enumerate(names)}
    runs = [
        [place[name] for name in group]
        for text, group in groupby(table.column_names, lambda name: name in texts)
        if not text
    ]
    runs = [kept for run in runs if (kept := [k for k in run if k >= first])]
    if len(runs) >= _LEAST_LISTS and len({len(run) for run in runs}) == 1:
        words = _STATES[: len(runs) - _MODES]
        return t, {word: values[:, run] for word, run in zip(words, runs, strict=False)}
    return t, {"": values[:, first:]}


def _numbers(table: Table, names: Sequence[str]) -> Float:
    parts = []
    for batch in table.batches(tuple(names), _ROWS):
        parts.append(np.stack([_column(batch, name) for name in names], axis=1))
    return np.concatenate(parts)


def _column(batch: Mapping[str, Float | Text], name: str) -> Float:
    values = batch[name]
    return np.full(len(values.codes), np.nan) if isinstance(values, Text) else values
