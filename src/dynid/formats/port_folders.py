"""What yarpdatadumper records: a folder for each port, with data.log ("counter stamp values ...") beside info.log.

Order of the extended states: jointData.thrift of robotology/yarp.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from dynid.base import Diagnostic, Float, InputError, Place, Severity
from dynid.log import ArrayTable, CsvReader, Series, StoredArray, Table, Text

_DATA, _INFO = "data.log", "info.log"
_ROWS = 32768
# Folders of folders are dumps of several parts: icub/left_arm/state.
_DEEPEST, _MOST_PORTS = 4, 64
# Ports with fewer rows than this share of the most are no signals of joints, and follow the others.
_SLOW = 0.1
# Two stamps in a row, of sending and reception, differ by less than this share of what they pass through.
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
# Behind them control and interaction modes; early versions have no current.
_LEAST_LISTS, _MODES = 10, 2


class PortFolderReader:
    """Opens folders that yarpdatadumper recorded, of one port or with a folder for each."""

    name = "YARP dump"
    suffixes: tuple[str, ...] = ()

    def can_read(self, head: bytes) -> bool:
        """No file is one."""
        return False

    def can_read_folder(self, path: Path) -> bool:
        """Whether a folder holds a dump of a port."""
        return bool(_ports(path))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> PortFolders:
        """Opens a folder; raises InputError where no port holds numbers, or no two share any time."""
        return PortFolders(path)


class PortFolders(ArrayTable):
    """The ports of a dump side by side: columns PORT[0], PORT[1], ... and time in s, a row for each of one port's.

    Rows are those of the slowest port; what other ports say is brought to their times along a straight line.
    """

    def __init__(self, path: Path) -> None:
        self._files = _ports(path)
        ports: dict[str, tuple[Float, dict[str, Float]]] = {}
        left: list[str] = []
        for name, file in self._files.items():
            port_data = _signals(file)
            if port_data is None:
                left.append(f"{name}: no port of numbers")
            else:
                ports[name] = port_data
        if not ports:
            raise InputError(
                "no-rows",
                found="a YARP dump without a port of numbers: " + ", ".join(self._files),
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
        left += [f"{name}: at another time than {rows}" for name in apart]
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
        text = f"a row for each of {rows}, {len(t)} in all; other ports are brought to its times"
        if len(ports) > 1:
            noted = Diagnostic(Severity.NOTE, "ports", text, Place(file=str(path)))
            self.remarks = (*self.remarks, noted)

    @property
    def sha256(self) -> str:
        """Of the ports' names and hashes."""
        lines = ""
        for name, path in self._files.items():
            with path.open("rb") as file:
                lines += f"{hashlib.file_digest(file, 'sha256').hexdigest()} {name}\n"
        return hashlib.sha256(lines.encode()).hexdigest()


def _ports(folder: Path) -> dict[str, Path]:
    """The data of each port by the name of its folder, below the one that is given."""
    ports = {}
    for depth in range(_DEEPEST):
        for file in sorted(folder.glob("*/" * depth + _DATA)):
            if file.with_name(_INFO).is_file():
                ports[file.parent.relative_to(folder).as_posix() if depth else folder.name] = file
    return ports if len(ports) <= _MOST_PORTS else {}


def _signal_name(port: str, signal: str) -> str:
    """What a signal of a port is called: a control board's state:o streams the positions of its encoders."""
    board = _BOARD.search(port)
    if board is None:
        return f"{port}/{signal}" if signal else port
    part = port[: board.start()]
    return f"{part}/{signal or 'position'}" if part else signal or "position"


def _signals(file: Path) -> tuple[Float, dict[str, Float]] | None:
    """Stamps (T,) s and signals (T, k) of a port by name, "" = its only one; None = it holds no numbers."""
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
