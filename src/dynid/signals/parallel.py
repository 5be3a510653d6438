"""The parallel filter: one low pass over both sides of the equations, then decimation (Madsen et al. 2020, sec. 4.2).

A linear time-invariant filter over every column of Y and over the torque keeps tau = Y theta valid and removes noise
and unmodelled dynamics above the cutoff frequency.
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
    """Zero-phase low pass and decimation.

    The remaining samples depend on their number within the segment, not on how it was cut into windows.

    Parameters
    ----------
    rate : float, Hz
        Rate of the samples.
    cutoff : float or None, Hz
        Cutoff frequency; None = no filter.
    order : int
        Order of the filter.
    decimation : int
        Samples per remaining sample.

    """

    rate: float
    cutoff: float | None
    order: int = 4
    decimation: int = 1

    @property
    def settling(self) -> int:
        """Samples that the filter needs on each side."""
        return 0 if self.cutoff is None else self._filter.settling

    @property
    def margin(self) -> int:
        """Samples on each side without which the error of the filter is below any sensor noise."""
        return 0 if self.cutoff is None else self._filter.margin

    @property
    def _filter(self) -> ZeroPhase:
        return zero_phase_filter(self.cutoff or np.inf, self.order, self.rate)

    def kept(self, samples: Samples) -> Int:
        """Indices of the samples that remain and count."""
        grid = np.arange(self.phase(samples), len(samples), self.decimation)
        return grid[samples.keep[grid]]

    def apply(self, panel: Float, samples: Samples) -> tuple[Float, Float]:
        """Filter a panel (w, T); returns the remaining columns (w, K) and their times (K,)."""
        thinned = self.lines(panel, self.phase(samples), self.needs_ends(samples))
        return self.counting(thinned, samples), samples.t[self.kept(samples)]

    def counting(self, thinned: Float, samples: Samples) -> Float:
        """Selects the columns that count from a filtered and decimated panel (w, any)."""
        keep = samples.keep[self.phase(samples) :: self.decimation]
        if keep.all():
            return thinned
        places = np.flatnonzero(keep)
        if len(places) and places[-1] - places[0] + 1 == len(places):
            return thinned[:, places[0] : places[-1] + 1]
        return thinned.take(places, axis=1)

    def lines(self, panel: Float, start: int, continued: bool = True) -> Float:
        """Filter a panel and keep every `decimation`-th column.

        Parameters
        ----------
        panel : ndarray, shape (w, T)
            Values at consecutive samples.
        start : int
            First column that remains.
        continued : bool
            Whether the ends are continued, which is necessary only if `needs_ends`.

        Returns
        -------
        ndarray, shape (w, K)
            The remaining columns.

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
        """Filtered and decimated regressor of the links.

        Parameters
        ----------
        tree, samples
            Kinematic tree of the robot, and samples with its motion.
        columns : ndarray of bool
            Columns of the regressor that are wanted.
        further : sequence of ndarray
            Further panels that are filtered along.
        joints : ndarray of bool, optional
            Joints whose equations are wanted; None = all.

        Returns
        -------
        Panels or None
            The panels; None without a filter.

        """
        T = len(samples)
        if self.cutoff is None or T < 2:
            return None
        low_pass, start = self._filter, self.phase(samples)
        panels = filtered_panels(
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
        return Panels(panels.columns, tuple(self.counting(lines, samples) for lines in panels.values))

    def needs_ends(self, samples: Samples) -> bool:
        """Whether a sample that counts lies within the margin of an end."""
        return bool(
            samples.keep[: self.margin].any() or samples.keep[max(len(samples) - self.margin, 0) :].any()
        )

    def phase(self, samples: Samples) -> int:
        """Index of the first sample that remains, whether it counts or not."""
        return -samples.first % self.decimation


# Several batches of samples at once: functions of single samples, and filters along time.


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Concatenated batches; batches of the same length and phase are filtered in one call, each by itself.

    Attributes
    ----------
    parallel : ParallelFilter
        The filter.
    samples : Samples
        Samples of all batches, without a past.
    kept : int
        Number of samples that remain.
    edges : ndarray of int, shape (B + 1,)
        Where the remaining samples of each batch begin and end.
    alike : tuple
        For each group of P alike batches: indices (P, T) of their samples, the first that remains, whether ends are
        continued, which samples count (P, K), and their places among all.

    """

    parallel: ParallelFilter
    samples: Samples
    kept: int
    edges: Int
    alike: tuple[tuple[Int, int, bool, Bool, Int], ...]

    @staticmethod
    def of(batches: Sequence[Samples], parallel: ParallelFilter) -> SideBySide:
        """Concatenate batches with the same channels."""
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
        """A panel (w, T) over all samples, filtered and decimated to (w, kept)."""
        if len(panel) == 0:
            return np.zeros((0, self.kept))
        thinned = np.empty((len(panel), self.kept))
        for index, start, continued, keep, places in self.alike:
            lines = self.parallel.lines(panel[:, index].reshape(-1, index.shape[1]), start, continued)
            thinned[:, places] = lines.reshape(len(panel), len(index), -1)[:, keep]
        return thinned


def gathered(batches: Iterable[Samples], most: int) -> Iterator[tuple[Samples, ...]]:
    """Groups of consecutive batches with the same channels, with at most `most` samples if more than one batch."""
    group: list[Samples] = []
    count = 0
    for samples in batches:
        if group and (count + len(samples) > most or not _same_channels(group[0], samples)):
            yield tuple(group)
            group, count = [], 0
        group.append(samples)
        count += len(samples)
    if group:
        yield tuple(group)


def _same_channels(a: Samples, b: Samples) -> bool:
    """Whether two batches have the same rate and channels."""
    return (
        (a.rate, a.span, tuple(a.extra), tuple(a.left_out))
        == (b.rate, b.span, tuple(b.extra), tuple(b.left_out))
        and all((getattr(a, name) is None) == (getattr(b, name) is None) for name in ALONG_TIME)
        and (a.measured is None) == (b.measured is None)
        and bool(np.all(a.measured == b.measured))
    )
