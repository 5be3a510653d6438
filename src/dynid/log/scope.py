"""Tables that TwinCAT's Scope View exports: lines of properties of the channels above the rows, no line of names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dynid.base.numbers import number_of

# The lines that name the channels, the better one first, and one that no other program writes.
_NAMES, _STEP = ("SymbolName", "Name"), "SampleTime[ms]"
# The last line, where an export is set up to have one.
END_TAG = "EOF"
# What begins a line above the rows.
_PROPERTIES = {
    "Name", "File", "Starttime of export", "Endtime of export", "StartRecord", "EndRecord", "StartTime", "EndTime",
    "SymbolName", "SymbolComment", "SymbolBased", "Data-Type", "VariableSize", "SampleTime[ms]", "NetID", "NetId",
    "Port", "IndexGroup", "IndexOffset", "Offset", "ScaleFactor", "BitMask", "Unit", "Unit ScaleFactor", "Unit Offset",
}  # fmt: skip
# Above this a time is no offset in ms but a stamp in 100 ns since 1601.
_STAMP = 1e15


def is_scope(lines: Iterable[Sequence[str]]) -> bool:
    """Whether one of the lines is such as Scope View alone writes."""
    return any(cells[:1] == [_STEP] for cells in lines)


def is_property(cells: Sequence[str]) -> bool:
    """Whether a line says something of the channels, or of the export."""
    return bool(cells) and cells[0] in _PROPERTIES


def scope_names(above: Sequence[Sequence[str]], row: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns, () where the lines above the rows are none of Scope View's.

    above: cells of the lines above the first row.    row: its cells. Each channel has a time before it, or all have the
    one at the beginning, in ms since the export's start.
    """
    width = len(row)
    lines = [cells for cells in above if len(cells) == width and width > 1]
    in_pairs = {cells[0]: cells[1::2] for cells in lines if width % 2 == 0 and len(set(cells[0::2])) == 1}
    shared = {cells[0]: cells[1:] for cells in lines}
    if _STEP in in_pairs and width > 2:
        names = _distinct(in_pairs)
        times = [_time(row[2 * k], k + 1) for k in range(len(names))]
        return tuple(one for pair in zip(times, names, strict=True) for one in pair) if names else ()
    if _STEP in shared:
        names = _distinct(shared)
        return (_time(row[0], 1), *names) if names else ()
    return ()


def _distinct(properties: dict[str, Sequence[str]]) -> Sequence[str]:
    """The channels' full names where their short ones are not distinct."""
    short = properties.get(_NAMES[1], ())
    return short if len(set(short)) == len(short) else properties.get(_NAMES[0], ())


def _time(cell: str, number: int) -> str:
    """What a column of times is called."""
    try:
        value = number_of(cell.replace(",", "."))
    except ValueError:
        value = 0.0
    return f"Filetime {number}" if value > _STAMP else f"Time {number} [ms]" if number > 1 else "Time [ms]"
