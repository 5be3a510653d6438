"""Several batches of samples one after the other: functions of each sample, and filters along time, of all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import ALONG_TIME, Samples, joined_samples


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Batches one after the other. Those of one length and phase are filtered together, each by itself.

    samples: of all batches, without a past.    kept: how many stay.
    edges: (B + 1,) where each batch's begin and end.
    alike: (P, T) samples of P alike batches, the first that stays, whether ends are continued, which samples count
        (P, K), and their places.
    """

    parallel: ParallelFilter
    samples: Samples
    kept: int
    edges: Int
    alike: tuple[tuple[Int, int, bool, Bool, Int], ...]

    @staticmethod
    def of(batches: Sequence[Samples], parallel: ParallelFilter) -> SideBySide:
        """Of batches with the same channels."""
        kinds: dict[tuple[int, int, bool], list[int]] = {}
        for i, samples in enumerate(batches):
            kind = len(samples), parallel.phase(samples), parallel.needs_ends(samples)
            kinds.setdefault(kind, []).append(i)
        first = np.cumsum([0, *map(len, batches)])
        place = np.cumsum([0, *(len(parallel.kept(samples)) for samples in batches)])
        alike = []
        for (length, start, continued), members in kinds.items():
            keep = np.stack([batches[i].keep[start :: parallel.decimation] for i in members])
            places = np.concatenate([np.arange(place[i], place[i + 1]) for i in members])
            alike.append((first[members][:, None] + np.arange(length), start, continued, keep, places))
        return SideBySide(parallel, joined_samples(batches), int(place[-1]), place, tuple(alike))

    def filtered(self, panel: Float) -> Float:
        """Lines (w, T) over the samples, filtered and thinned; (w, kept)."""
        if len(panel) == 0:
            return np.zeros((0, self.kept))
        found = np.empty((len(panel), self.kept))
        for index, start, continued, keep, places in self.alike:
            lines = self.parallel.lines(panel[:, index].reshape(-1, index.shape[1]), start, continued)
            found[:, places] = lines.reshape(len(panel), len(index), -1)[:, keep]
        return found


def gathered(batches: Iterable[Samples], most: int) -> Iterator[tuple[Samples, ...]]:
    """Batches in order, as many together as hold no more than `most` samples of the same channels; at least one."""
    group: list[Samples] = []
    count = 0
    for samples in batches:
        if group and (count + len(samples) > most or not _alike(group[0], samples)):
            yield tuple(group)
            group, count = [], 0
        group.append(samples)
        count += len(samples)
    if group:
        yield tuple(group)


def _alike(a: Samples, b: Samples) -> bool:
    """Whether batches have the same rate and channels."""
    return (
        (a.rate, a.span, tuple(a.extra), tuple(a.left_out))
        == (b.rate, b.span, tuple(b.extra), tuple(b.left_out))
        and all((getattr(a, name) is None) == (getattr(b, name) is None) for name in ALONG_TIME)
        and (a.measured is None) == (b.measured is None)
        and bool(np.all(a.measured == b.measured))
    )
