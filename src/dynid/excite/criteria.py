"""How much a motion tells: criteria on the column-scaled base regressor, with their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from dynid.arrays import Float, Int, locked
from dynid.errors import UnfitDataError, UsageError
from dynid.excite.gradient import MotionGradient
from dynid.factor.base import BaseMap
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

SMOOTHNESS = 8.0
_FLOOR = 1e-10
SQUARABLE = 1e-6


class Criterion(StrEnum):
    """What is minimised; W holds the rows in units of their noise, its columns scaled.

    CONDITION: log of the condition number of W with columns of unit length.
    LOGDET: -log det(W'W / T), the volume of the estimates' ellipsoid (D).
    TRACE: log tr (W'W / T)^-1, the sum of the variances (A).
    LEAST: -log of the least eigenvalue of W'W / T, the worst direction (E).

    For the optimiser greatest and least eigenvalue are replaced by power means of degree SMOOTHNESS, which bound
    them and are smooth where eigenvalues cross.
    """

    CONDITION = "condition"
    LOGDET = "logdet"
    TRACE = "trace"
    LEAST = "least"


@dataclass(frozen=True, eq=False)
class Figures:
    """Exact figures of a motion: condition number of the unit-length columns, log det, log trace, log least value."""

    condition: float
    logdet: float
    trace: float
    least: float

    def of(self, criterion: Criterion) -> float:
        """The figure behind a criterion, as it is minimised."""
        if criterion is Criterion.CONDITION:
            return float(np.log(self.condition))
        return {Criterion.LOGDET: -self.logdet, Criterion.TRACE: self.trace, Criterion.LEAST: -self.least}[
            criterion
        ]


@dataclass(frozen=True, eq=False)
class Information:
    """A criterion for one robot and model.

    base: structural base parameters.    noise: (n,) expected deviation of the torque, N m (N); only ratios count
        unless something was recorded.
    focus: (k, b) combinations of the base parameters whose variance counts (TRACE alone); None = all.
    recorded: (r, b) triangle of what was recorded already, rows in units of the noise; rate: Hz, how many
        independent rows a second of the new motion counts for beside it.
    """

    robot: RobotModel
    terms: Terms
    base: BaseMap
    noise: Float
    criterion: Criterion = Criterion.LOGDET
    focus: Float | None = None
    recorded: Float | None = None
    rate: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", locked(self.noise, (self.robot.n,), "noise"))
        if not (np.isfinite(self.noise) & (self.noise > 0)).all():
            raise UsageError(
                "noise", found=f"deviations {self.noise.tolist()}", expected="positive, finite ones"
            )
        b = self.base.rank
        for name in ("focus", "recorded"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, locked(getattr(self, name), (None, b), name))

    def figures(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> Figures:
        """Exact figures of a motion (T, n) each."""
        R = self.triangle(q, dq, ddq, seconds)
        length = np.linalg.norm(R, axis=0)
        s = np.linalg.svd(R / np.where(length > 0, length, 1.0), compute_uv=False)
        l = np.linalg.svd(R / self._scale, compute_uv=False) ** 2
        with np.errstate(divide="ignore"):
            condition = float(s[0] / s[-1]) if s[-1] > 0 else np.inf
            return Figures(
                condition, float(np.log(l).sum()), float(np.log((1 / l).sum())), float(np.log(l[-1]))
            )

    def triangle(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> Float:
        """R (b, b) with R'R = W'W / T, what was recorded included."""
        return self._triangle(self._panels(q, dq, ddq), len(q), seconds)

    def value(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> float:
        """The smooth criterion."""
        return self._smooth(self._panels(q, dq, ddq), len(q), seconds)[0]

    def gradient(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> tuple[float, Float]:
        """The smooth criterion and its derivatives (3, T, n) with respect to q, dq, ddq."""
        panels = self._panels(q, dq, ddq)
        value, F = self._smooth(panels, len(q), seconds)
        lines = tuple(
            (2.0 * weight**2 * F[np.ix_(at, at)]) @ values
            for at, values, weight in zip(
                self._places(panels), panels.values, self._weights(len(q), seconds), strict=True
            )
        )
        return value, self.chain.of_contraction(q, dq, ddq, Panels(panels.columns, lines))

    @cached_property
    def chain(self) -> MotionGradient:
        """The chain rule through the model."""
        return MotionGradient(self.robot, self.terms)

    def _panels(self, q: Float, dq: Float, ddq: Float) -> Panels:
        return self.terms.torque_regressor(self.robot, Samples.from_motion(q, dq, ddq), self.base.mask)

    def _places(self, panels: Panels) -> list[Int]:
        place = np.full(len(self.base.names), -1)
        place[self.base.independent] = np.arange(self.base.rank)
        return [place[columns] for columns in panels.columns]

    def _weights(self, T: int, seconds: float) -> Float:
        share = self.rate * seconds if self.recorded is not None else 1.0
        return np.asarray(np.sqrt(share / T) / self.noise)

    def _triangle(self, panels: Panels, T: int, seconds: float) -> Float:
        rows = [] if self.recorded is None else [np.asarray(self.recorded)]
        for at, values, weight in zip(
            self._places(panels), panels.values, self._weights(T, seconds), strict=True
        ):
            W = np.zeros((T, self.base.rank))
            W[:, at] = values.T * weight
            rows.append(W)
        return np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))

    def _smooth(self, panels: Panels, T: int, seconds: float) -> tuple[float, Float]:
        # Value, and dvalue/dM for M = W'W / T. Squaring W costs digits, so it is done only where enough are left.
        b = self.base.rank
        M = np.zeros((b, b)) if self.recorded is None else self.recorded.T @ self.recorded
        for at, values, weight in zip(
            self._places(panels), panels.values, self._weights(T, seconds), strict=True
        ):
            M[np.ix_(at, at)] += (weight**2 * values) @ values.T
        length = np.sqrt(np.maximum(np.diag(M), 1e-300))
        D = length if self.criterion is Criterion.CONDITION else self._scale
        l, V = np.linalg.eigh(M / np.outer(D, D))
        if not l[0] > SQUARABLE * l[-1]:
            R = self._triangle(panels, T, seconds)
            length = np.maximum(np.linalg.norm(R, axis=0), 1e-300)
            D = length if self.criterion is Criterion.CONDITION else self._scale
            _, s, Vt = np.linalg.svd(R / D, full_matrices=False)
            l, V = np.maximum(s, _FLOOR * s[0]) ** 2, Vt.T
        return self._of(l, V.T, D)

    @property
    def _scale(self) -> Float:
        scale = self.base.scale[self.base.independent]
        return np.where(scale > 0, scale, 1.0) / float(np.exp(np.log(self.noise).mean()))

    def _of(self, l: Float, Vt: Float, D: Float) -> tuple[float, Float]:
        # From the eigenvalues and eigenvectors of M with its columns divided by D.
        value, F = self._spectral(l, Vt, D)
        scaled = F / np.outer(D, D)
        if self.criterion is not Criterion.CONDITION:
            return value, scaled
        N = Vt.T * l @ Vt
        return value, scaled - np.diag(np.einsum("ij,ij->i", F, N) / D**2)

    def _spectral(self, l: Float, Vt: Float, D: Float) -> tuple[float, Float]:
        if self.focus is not None:
            C = self.focus / D
            half = (C @ Vt.T) / l
            total = float(np.sum(half**2 * l))
            S = half @ Vt
            return float(np.log(total)), -S.T @ S / total
        if self.criterion is Criterion.LOGDET:
            return -float(np.log(l).sum()), -(Vt.T / l) @ Vt
        power = 1.0 if self.criterion is Criterion.TRACE else SMOOTHNESS
        low, low_share = _power_mean(1.0 / l, power)
        value, slope = low, -low_share / l
        if self.criterion is Criterion.CONDITION:
            high, high_share = _power_mean(l, power)
            value, slope = 0.5 * (low + high), 0.5 * (slope + high_share / l)
        return value, (Vt.T * slope) @ Vt


def _power_mean(x: Float, power: float) -> tuple[float, Float]:
    # log (sum x^p)^(1/p) and its derivative with respect to log x.
    top = x.max()
    shares = (x / top) ** power
    return float(np.log(top) + np.log(shares.sum()) / power), shares / shares.sum()


def focus_on(base: BaseMap, names: Sequence[str]) -> Float:
    """Rows (k, b) that give the named parameters from the base parameters.

    Raises UnfitDataError for a parameter that no motion tells on its own, naming the combinations that it is part of.
    """
    rows = []
    for name in names:
        if name not in base.names:
            raise UsageError(
                "unknown-parameter", found=f"'{name}'", expected=f"one of {', '.join(base.names[:12])} ..."
            )
        j = base.names.index(name)
        lead = np.flatnonzero(base.independent == j)
        if len(lead) == 0 or np.count_nonzero(np.abs(base.B[lead[0]]) > 1e-12) != 1:
            within = [f for f, row in zip(base.formulas(), base.B, strict=True) if row[j] != 0]
            raise UnfitDataError(
                "unidentifiable",
                found=f"'{name}' as a quantity to be told, which no motion tells on its own",
                expected="parameters that torque depends on by themselves",
                do="it counts in " + "; ".join(within[:3]) if within else "it has no influence on the torque",
            )
        row = np.zeros(base.rank)
        row[lead[0]] = 1.0
        rows.append(row)
    return np.stack(rows)
