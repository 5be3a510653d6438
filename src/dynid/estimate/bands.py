"""How well a model knows the torque it predicts: the covariance of its parameters, carried through its equations."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.nominal import NominalTerm
from dynid.terms.term import Term, Terms

POINTS = 400


@dataclass(frozen=True, eq=False)
class Bands:
    """Standard deviation of predicted torque, sqrt(y Cov y') for a line y of the regressor, from an estimate.

    Nonlinear parameters that were estimated count only as far as they widened the covariance of the linear ones.
    """

    robot: RobotModel
    terms: Terms
    estimate: Estimate

    @cached_property
    def _covariance(self) -> Float:
        """(p, p) covariance of all columns, zero where they are not independent."""
        whole = np.zeros((len(self.estimate.columns), len(self.estimate.columns)))
        independent = self.estimate.base.independent
        whole[np.ix_(independent, independent)] = self.estimate.covariance
        return whole

    @cached_property
    def _spans(self) -> tuple[slice, ...]:
        """Columns of each term."""
        edges = np.cumsum([0, *(len(term.columns(self.robot)) for term in self.terms)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(edges))

    @cached_property
    def _roots(self) -> dict[bytes, Float]:
        return {}

    def _root(self, columns: Int) -> Float:
        """(w, w) upper triangular with root' root the covariance of some columns; the same for every batch."""
        key = columns.tobytes()
        if key not in self._roots:
            values, vectors = np.linalg.eigh(self._covariance[np.ix_(columns, columns)])
            scaled = vectors * np.sqrt(np.maximum(values, 0.0))
            self._roots[key] = np.asarray(np.linalg.qr(scaled.T, mode="r"))
        return self._roots[key]

    def std(self, samples: Samples, index: Int) -> Float:
        """(len(index), n) standard deviations at some samples, computed at most at POINTS of them.

        Between those it is interpolated: it changes with the motion, not with the noise.
        """
        if not len(index) or not np.isfinite(self.estimate.covariance).all():
            return np.full((len(index), self.robot.n), np.nan)
        few = index[:: max(-(-len(index) // POINTS), 1)]
        part = _picked(samples, few)
        n = self.robot.n
        columns: list[list[Int]] = [[] for _ in range(n)]
        lines: list[list[Float]] = [[] for _ in range(n)]
        independent = np.diag(self._covariance) > 0
        for term, span in zip(self.terms, self._spans, strict=True):
            if not independent[span].any():
                continue
            whole = _needs_time(term)
            panels = term.torque_regressor(
                self.robot, term.seen(samples if whole else part), independent[span]
            )
            for j in range(n):
                columns[j].append(panels.columns[j] + span.start)
                lines[j].append(panels.values[j][:, few] if whole else panels.values[j])
        found = np.zeros((n, len(few)))
        for j in range(n):
            if columns[j]:
                spread = self._root(np.concatenate(columns[j])) @ np.concatenate(lines[j])
                found[j] = np.sqrt(np.einsum("wt,wt->t", spread, spread))
        if len(few) == len(index):
            return np.ascontiguousarray(found.T)
        return np.column_stack([np.interp(index, few, line) for line in found])


def _needs_time(term: Term) -> bool:
    """Whether a term reads its samples as a stretch of time."""
    return term.remembers or isinstance(term, NominalTerm)


def _picked(samples: Samples, index: Int) -> Samples:
    """Some samples as a batch of their own, for terms that take each sample by itself."""
    names = ("t", "q", "dq", "ddq", "tau", "keep", "theta", "dtheta", "ddtheta", "temperature", "gate")
    values = {name: getattr(samples, name)[index] for name in names if getattr(samples, name) is not None}
    extra = {name: channel[index] for name, channel in samples.extra.items()}
    return replace(samples, **values, extra=extra, past=None)
