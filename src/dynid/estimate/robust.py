"""Robust regression: equations with large residuals have less weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import (
    Estimate,
    Piece,
    Regression,
    Status,
    require_enough,
)
from dynid.estimate.least_squares import WLS, completed, full_vector, residual_sigma, solve, weight_floor
from dynid.estimate.source import Places, factors_of_pieces, kept_pieces
from dynid.estimate.uncertainty import interval_kind, last_move, most_rounds
from dynid.factor.factor import Factors

Loss = Literal["huber", "tukey"]
# 95 % efficient on Gaussian noise.
TUNING = {"huber": 1.345, "tukey": 4.685}
# Standard deviation over median absolute deviation of Gaussian noise.
MAD = 1.4826
# Share of light equations above which they are no outliers.
MANY = 0.1


@dataclass(frozen=True)
class IRLS:
    """Iteratively re-weighted least squares, min sum rho(e / s_j), with s_j the robust spread of joint j's residuals.

    huber: weight 1 up to c s, then c s / abs(e); convex, one solution. tukey: weight (1 - (e / c s)^2)^2, zero beyond c
    s, so that contact, blows and other external torque have no weight; it starts from Huber's answer, since it is not
    convex. s_j = 1.4826 median(abs(e)). If weighted least squares bounds the joints' weights, they are bounded by the
    same model error here. The covariance is that of the weighted equations, scaled by (mean weight / mean psi')^2
    (Huber 1981, sec. 7.6).

    Parameters
    ----------
    loss : {"huber", "tukey"}
        Loss function.
    tuning : float, optional
        c; None = 1.345 and 4.685, which are 95 % efficient on Gaussian noise.
    rounds : int
        Greatest number of rounds.
    tolerance : float
        Move of the estimate in a round at which iteration stops, in standard deviations.
    intervals : str
        Method of the covariance, see dynid.estimate.uncertainty.Intervals.

    Raises
    ------
    UsageError
        For another loss, or a tuning that is not positive.

    References
    ----------
    Huber 1964; Beaton and Tukey 1974; Holland and Welsch 1977.

    """

    loss: Loss = option("huber", 'irls: loss function; default `"huber"`')
    tuning: float | None = option(
        None,
        "irls: residual from which weights fall, in standard deviations; default 1.345 (huber), 4.685 (tukey)",
        above=0,
    )
    rounds: int = most_rounds(60)
    tolerance: float = last_move(1e-2)
    intervals: str = interval_kind()
    name: str = "irls"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between weights and weighted least squares; raises UsageError without single equations."""
        require_enough(regression)
        walk = kept_pieces(regression, self.name)
        plain = WLS().fit(regression)
        value, floor = plain.value, weight_floor(plain.weights, plain.sigma)
        state = None
        for loss in dict.fromkeys(("huber", self.loss)):
            c = TUNING[loss] if self.tuning is None or loss != self.loss else self.tuning
            state = self._iterated(regression, walk, value if state is None else state.value, floor, loss, c)
        if state is None:
            raise UsageError("rounds", found=f"rounds = {self.rounds}", expected="at least 1")
        weighted, spread = state.weighted, state.spread
        status = Status(state.converged, self._status_text(state))
        sigma = np.maximum(spread, residual_sigma(regression, state.value) * 1e-12)
        weights = 1.0 / (sigma**2 + floor**2)
        R = solve(replace(regression, factors=weighted), weights)[1]
        estimate = completed(
            self,
            regression,
            state.value,
            R,
            weights,
            sigma,
            1.0,
            None,
            status,
            weighted.scaled(weights),
        )
        tally = state.tally
        return replace(
            estimate,
            covariance=estimate.covariance * tally.widening**2,
            textbook_covariance=estimate.textbook_covariance * tally.textbook,
        )

    def _iterated(
        self,
        regression: Regression,
        walk: Callable[[], Iterable[Piece]],
        value: Float,
        floor: Float,
        loss: str,
        c: float,
    ) -> _State | None:
        state = None
        for number in range(self.rounds):
            spread = robust_spread(regression, walk(), value)
            tally = _Tally(len(regression.factors.blocks))
            pieces = _weighted(regression, walk(), value, spread, loss, c, tally)
            weighted = factors_of_pieces(regression, pieces)
            if tally.count - tally.light < 2 * regression.base.rank:
                raise UsageError(
                    "tuning",
                    found=f"tuning = {c:g} with loss '{loss}': {tally.light} of {tally.count} equations count "
                    "less than half",
                    expected=f"{2 * regression.base.rank} equations that count, for {regression.base.rank} parameters",
                    do=f"raise tuning; {TUNING[loss]:g} is usual",
                )
            new, R = solve(replace(regression, factors=weighted), 1.0 / (spread**2 + floor**2))
            moved = float(np.linalg.norm(R @ (new - value)) / np.sqrt(len(value)))
            value = new
            state = _State(value, moved < self.tolerance, moved, weighted, spread, number + 1, tally)
            if state.converged:
                break
        return state

    def _status_text(self, state: _State) -> str:
        tally = state.tally
        share = tally.light / max(tally.count, 1)
        text = f"{self.loss} weights after {state.rounds} rounds, {100 * share:.2g} % of equations count less than half"
        if tally.light and share < MANY:
            worst = int(np.argmax(tally.by_block))
            text += f", most of them in block {worst + 1}"
        if share >= MANY:
            text += "; that is too many for outliers: look for a missing effect in the residuals"
        if not state.converged:
            text += (
                f"; not converged: the last round moved the estimate by {state.moved:.2g} standard deviations; "
                "raise rounds, or use loss = 'huber'"
            )
        return text


class _Tally:
    """Statistics of the weights of one round."""

    def __init__(self, blocks: int) -> None:
        self.count, self.light = 0, 0
        self.weight, self.slope, self.square = 0.0, 0.0, 0.0
        self.by_block = np.zeros(blocks)

    def add(self, w: Float, u: Float, slope: Float, place: Int) -> None:
        """Add the equations of one group that lie in a block."""
        inside = place >= 0
        self.count += int(inside.sum())
        self.weight += float(w[inside].sum())
        self.slope += float(slope[inside].sum())
        self.square += float(np.sum((w[inside] * u[inside]) ** 2))
        light = inside & (w < 0.5)
        self.light += int(light.sum())
        self.by_block += np.bincount(place[light], minlength=len(self.by_block))

    @property
    def widening(self) -> float:
        """Mean weight over mean psi', at least 1."""
        return max(self.weight / self.slope, 1.0) if self.slope > 0 else 1.0

    @property
    def textbook(self) -> float:
        """Mean weight times mean psi^2 over (mean psi')^2: independent residuals' variance, Huber 1981, eq. 7.6.1."""
        return self.weight * self.square / self.slope**2 if self.slope > 0 else 1.0


@dataclass(frozen=True, eq=False)
class _State:
    value: Float
    converged: bool
    moved: float
    weighted: Factors
    spread: Float
    rounds: int
    tally: _Tally


def residuals_of(regression: Regression, piece: Piece, theta: Float) -> list[Float]:
    """Residuals y - X theta of a piece.

    `piece`: equations; `theta` (p,): parameters. Result: residuals by group.
    """
    return [
        panel[-1] - theta[columns] @ panel[:-1]
        for columns, panel in zip(piece.columns, piece.panels, strict=True)
    ]


def robust_spread(regression: Regression, pieces: Iterable[Piece], value: Float) -> Float:
    """Robust standard deviation, 1.4826 times the median of abs(residual), over the blocks of the regression.

    `pieces`: equations; `value` (b,): base parameters. Result: spread by group, (g,).
    """
    theta, places = full_vector(regression, value), Places(regression.factors.blocks)
    sizes_by_group: list[list[Float]] = [[] for _ in regression.factors.group_names]
    for piece in pieces:
        for g, e in enumerate(residuals_of(regression, piece, theta)):
            sizes_by_group[g].append(np.abs(e[places.of(piece.segment, piece.times[g]) >= 0]))
    sizes = np.array([_scaled_median(np.concatenate(parts)) for parts in sizes_by_group])
    scale = np.array([np.sqrt(f.target_square / max(f.count, 1)) for f in regression.factors.total])
    floor = np.finfo(np.float64).eps * np.where(scale > 0, scale, scale.max(initial=1.0))
    return np.asarray(np.maximum(sizes, floor))


def _scaled_median(deviations: Float) -> float:
    # A joint without equations has no residual.
    return MAD * float(np.median(deviations)) if len(deviations) else 0.0


def robust_weights(u: Float, loss: str, c: float) -> tuple[Float, Float]:
    """Weights psi(u) / u and slopes psi'(u) of standardised residuals.

    `loss`: loss function; `c`: tuning constant. Results: `weights`, `slopes`.
    """
    if loss == "huber":
        far = np.abs(u) > c
        return np.where(far, c / np.maximum(np.abs(u), c), 1.0), np.where(far, 0.0, 1.0)
    inside = np.maximum(1.0 - (u / c) ** 2, 0.0)
    return inside**2, inside * (1.0 - 5.0 * (u / c) ** 2) * (inside > 0)


def _weighted(
    regression: Regression,
    pieces: Iterable[Piece],
    value: Float,
    spread: Float,
    loss: str,
    c: float,
    tally: _Tally,
) -> Iterator[Piece]:
    theta, places = full_vector(regression, value), Places(regression.factors.blocks)
    for piece in pieces:
        panels = []
        for g, e in enumerate(residuals_of(regression, piece, theta)):
            w, slope = robust_weights(e / spread[g], loss, c)
            tally.add(w, e / spread[g], slope, places.of(piece.segment, piece.times[g]))
            panels.append(piece.panels[g] * np.sqrt(w))
        yield replace(piece, panels=tuple(panels))
