"""How well a model knows the torque it predicts: the covariance of its parameters, carried through its equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dynid.arrays import Float, Int
from dynid.estimate.estimator import Estimate
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.nuisance import NominalTerm
from dynid.terms.term import Term, Terms

POINTS = 400


@dataclass(frozen=True, eq=False)
class Bands:
    """Standard deviation of predicted torque, sqrt(y Cov y') for a line y of the regressor, from an estimate.

    Nonlinear parameters that were sought count only as far as they widened the covariance of the linear ones.
    """

    robot: RobotModel
    terms: Terms
    estimate: Estimate

    @cached_property
    def _root(self) -> Float:
        """(p, b) with root root' the covariance, zero lines for columns that are not independent."""
        values, vectors = np.linalg.eigh(np.asarray(self.estimate.covariance))
        root = np.zeros((len(self.estimate.columns), len(values)))
        root[self.estimate.base.independent] = vectors * np.sqrt(np.maximum(values, 0.0))
        return root

    def std(self, samples: Samples, index: Int) -> Float:
        """(len(index), n) standard deviations at some samples, computed at most at POINTS of them.

        Between those it is interpolated: it changes with the motion, not with the noise.
        """
        if not len(index) or not np.isfinite(self.estimate.covariance).all():
            return np.full((len(index), self.robot.n), np.nan)
        few = index[:: max(-(-len(index) // POINTS), 1)]
        part = _picked(samples, few)
        joints = self.robot.n
        spread = np.zeros((joints, len(few), self._root.shape[1]))
        first = 0
        for term in self.terms:
            count = len(term.columns(self.robot))
            root = self._root[first : first + count]
            wanted = np.any(root != 0, axis=1)
            first += count
            if not wanted.any():
                continue
            whole = _needs_time(term)
            panels = term.torque_regressor(self.robot, term.seen(samples if whole else part), wanted)
            for j in range(joints):
                lines = panels.values[j][:, few] if whole else panels.values[j]
                spread[j] += lines.T @ root[panels.columns[j]]
        found = np.sqrt(np.sum(spread**2, axis=2))
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
