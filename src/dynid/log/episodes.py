"""Lists of episodes, each of which holds its signals as equally long lists: one trajectory each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dynid.log.arrays import MAX_FIELDS, Array, StoredArray
from dynid.log.records import flat

# Rows of an episode: lists that are shorter are of joints, or of settings.
LEAST_ROWS = 20
# Signals that are equally long, at least: what is commanded and what came of it.
_LEAST_SIGNALS = 2
# What names the episode of each row; the second where a signal is called so.
_NAMES = ("episode", "number of the episode")


def are_episodes(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each record holds several signals as lists of equally many rows, and not the state at one moment.

    Messages hold lists, too, of joints or of a scanner's rays, beside a stamp that ascends from one to the next.
    """
    if not records or any(len(_signals(one)) < _LEAST_SIGNALS for one in map(flat, records)):
        return False
    numbers = [{name for name, one in record.items() if _is_number(one)} for record in records]
    shared = set.intersection(*numbers)
    return not any(
        len(records) > 2 and all(a[name] < b[name] for a, b in pairwise(records))
        for name in shared
        if not isinstance(records[0][name], int)  # numbers of episodes ascend as well
    )


def arrays_of_episodes(records: Sequence[Mapping[str, Any]]) -> tuple[list[StoredArray], list[str], str]:
    """Signals of all episodes one behind the other, what is none of them, and the array that names the episodes.

    Signals are those that each episode has in each of its rows.
    """
    found = [_signals(flat(one)) for one in records]
    shared = [name for name in found[0] if all(name in one for one in found)][:MAX_FIELDS]
    arrays = []
    for name in shared:
        parts = [one[name] for one in found]
        if len({part.shape[1:] for part in parts}) == 1:
            arrays.append(StoredArray.of(name, np.concatenate(parts)))
    taken = {one.name for one in arrays}
    episode = next(name for name in _NAMES if name not in taken)
    rows = [len(next(iter(one.values()))) for one in found]
    numbers = np.repeat([str(k + 1) for k in range(len(records))], rows)
    others = dict.fromkeys(name for one in records for name in flat(one) if name not in taken)
    left_out = [f"{name}: of episodes, not of rows" for name in others]
    return [*arrays, StoredArray.of(episode, numbers)], left_out, episode


def _signals(record: Mapping[str, Any]) -> dict[str, Array]:
    """Lists of numbers, or of lists of equally many numbers, that are as long as most are; () = too short."""
    lists = {name: one for name, one in record.items() if isinstance(one, list) and len(one) >= LEAST_ROWS}
    usual = Counter(map(len, lists.values())).most_common(1)
    found = {}
    for name, one in lists.items():
        if len(one) == usual[0][0] and (values := _numbers(one)) is not None:
            found[name] = values
    return found


def _numbers(cells: Sequence[Any]) -> Array | None:
    """(T,) or (T, k); None for what is none."""
    try:
        values = np.array([np.nan if one is None else one for one in cells], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values if values.ndim in (1, 2) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
