"""The parallel filter: one low pass over both sides of the equations, then decimation (Madsen et al. 2020, sec. 4.2).

A filter is linear and does not change with time, so filtering every column of Y and the torque alike leaves
tau = Y theta true while noise and what the model cannot follow above the cut-off are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel import Panels, Tree, filtered_panels
from dynid.signals.filter import ZeroPhase, zero_phase_filter
from dynid.signals.samples import ALONG_TIME, Samples, joined_samples


@dataclass(frozen=True)
class ParallelFilter:
    """Zero-phase low pass at `cutoff` Hz (None = none) for samples of `rate` Hz, then every `decimation`-th sample.

    Which samples stay depends on their number within the segment, not on how the segment was cut into chunks.
    """

    rate: float
    cutoff: float | None
    order: int = 4
    decimation: int = 1

    @property
    def settling(self) -> int:
        """Neighbouring samples needed on each side."""
        return 0 if self.cutoff is None else self._filter.settling

    @property
    def margin(self) -> int:
        """Neighbouring samples on each side without which only what is lost in noise is missing."""
        return 0 if self.cutoff is None else self._filter.margin

    @property
    def _filter(self) -> ZeroPhase:
        return zero_phase_filter(self.cutoff or np.inf, self.order, self.rate)

    def kept(self, samples: Samples) -> Int:
        """Indices of the samples that stay."""
        grid = np.arange(self.phase(samples), len(samples), self.decimation)
        return grid[samples.keep[grid]]

    def apply(self, panel: Float, samples: Samples) -> tuple[Float, Float]:
        """Filters a panel (w, T); returns what stays of it (w, kept) and the times (kept,)."""
        thinned = self.lines(panel, self.phase(samples), self.needs_ends(samples))
        return self.counting(thinned, samples), samples.t[self.kept(samples)]

    def counting(self, thinned: Float, samples: Samples) -> Float:
        """What counts of lines (w, any) that were filtered and thinned."""
        keep = samples.keep[self.phase(samples) :: self.decimation]
        if keep.all():
            return thinned
        places = np.flatnonzero(keep)
        if len(places) and places[-1] - places[0] + 1 == len(places):
            return thinned[:, places[0] : places[-1] + 1]
        return thinned.take(places, axis=1)

    def lines(self, panel: Float, start: int, continued: bool = True) -> Float:
        """Filters lines (w, T) of samples without a gap; of these start, start + decimation, ... stay.

        continued: the ends are; only where `needs_ends` they have to be.
        """
        if self.cutoff is None:
            return panel[:, start :: self.decimation]
        return self._filter(panel, start, self.decimation, continued)

    def torque_panels(
        self,
        tree: Tree,
        samples: Samples,
        columns: Bool,
        further: Sequence[Float],
        joints: Bool | None = None,
    ) -> Panels | None:
        """What `apply` leaves of the panels of `filtered_panels`; None without a filter.

        samples: whose motion is that of the tree.
        """
        T = len(samples)
        if self.cutoff is None or T < 2:
            return None
        low_pass, start = self._filter, self.phase(samples)
        found = filtered_panels(
            tree,
            samples.q,
            samples.dq,
            samples.ddq,
            further,
            columns,
            joints,
            low_pass.sections,
            low_pass.settled,
            low_pass.pad(T, self.needs_ends(samples)),
            start,
            self.decimation,
        )
        return Panels(found.columns, tuple(self.counting(lines, samples) for lines in found.values))

    def needs_ends(self, samples: Samples) -> bool:
        """Whether some sample that counts lies within the margin of an end."""
        return bool(
            samples.keep[: self.margin].any() or samples.keep[max(len(samples) - self.margin, 0) :].any()
        )

    def phase(self, samples: Samples) -> int:
        """Index of the first sample that stays, whether it counts or not."""
        return -samples.first % self.decimation


# Several batches of samples one after the other: functions of each sample, and filters along time, of all
# at once.


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
