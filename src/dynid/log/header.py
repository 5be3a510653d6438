"""Lines of names above a table: which of them holds the names, which the units, and how names become distinct."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from dynid.base.units import is_unit

_UNIT_BEHIND = re.compile(r"\[[^][]*\]$|\([^()]*\)$")


def names_above_units(
    before: Sequence[tuple[str, ...]], width: int
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Names and units where a line above the rows holds units; remarks may stand between them and the rows or names."""
    other = next((k for k, cells in enumerate(reversed(before)) if len(cells) != width), len(before))
    block = list(before[len(before) - other :])
    at = next((k for k in range(len(block) - 1, 0, -1) if _are_units(block[k])), None)
    if at is None:
        return None
    for k in range(at - 1, -1, -1):
        if _is_distinct(block[k]):
            return block[k], block[at]
        if k > 0 and not _is_distinct(block[k - 1]) and (whole := under_groups(block[k - 1], block[k])):
            return whole, block[at]
    return block[at - 1], block[at]


def _is_distinct(names: Sequence[str]) -> bool:
    """Whether names are no two alike, and stand over most columns: those of groups stand over the first of each."""
    named = [name for name in names if name]
    return len(set(named)) == len(named) > len(names) // 2


def under_groups(groups: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Names that are only distinct with those of the line above, each of which goes on to the right; else ()."""
    group, whole = "", []
    for above, name in zip(groups, names, strict=True):
        group = above or group
        whole.append(f"{group} {name}".strip())
    named = [name for name in names if name]
    return tuple(whole) if len(set(named)) < len(named) and len(set(whole)) == len(whole) else ()


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which some stand over several columns side by side are numbered as an array: pos[0], pos[1], ...

    A name that ends in a number of its own is not: it is one too many. One that comes again at even distances from the
    first column on, as a clock before each channel, is numbered, too: Time [s], Time 2 [s], ...
    """
    again = [i for i, name in enumerate(names) if name and name == names[0]]
    if len(again) > 1 and again[1] > 1 and again == list(range(0, len(names), again[1])):
        unit = _UNIT_BEHIND.search(names[0])
        plain = names[0][: unit.start()].rstrip() if unit else names[0]
        behind = names[0][len(plain) :]
        numbered = {i: f"{plain} {k}{behind}" for k, i in enumerate(again[1:], 2)}
        names = [numbered.get(i, name) for i, name in enumerate(names)]
    starts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    runs = list(pairwise([*starts, len(names)]))
    if len({names[a] for a, _ in runs if names[a]}) < sum(bool(names[a]) for a, _ in runs):
        return tuple(names)
    return tuple(
        names[a] if b - a == 1 or not names[a] or names[a][-1].isdigit() else f"{names[a]}[{i - a}]"
        for a, b in runs
        for i in range(a, b)
    )


def _are_units(cells: Sequence[str]) -> bool:
    units = [cell.strip("[]() ") for cell in cells if cell]
    return 2 * sum(is_unit(unit) for unit in units) > len(units)
