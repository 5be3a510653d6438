"""What can be said about each parameter: identified, negligible, weak, only in combination, from the prior."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.factor.base import Category
from dynid.factor.factor import Factors

PRECISE = 0.2
NEGLIGIBLE = 0.01
PRIOR_DECIDES = 0.5


class Word(StrEnum):
    """Verdict on one base parameter."""

    IDENTIFIED = "identified"
    NEGLIGIBLE = "negligible"
    WEAK = "weak"
    PRIOR = "from the prior"


class Standing(StrEnum):
    """Where the value of one full parameter comes from."""

    IDENTIFIED = "identified"
    WEAK = "weak"
    COMBINATION = "only in combination"
    PRIOR = "from the prior"
    NOT_IDENTIFIABLE = "not identifiable"


class Known(StrEnum):
    """How well a value is known that the data determine by itself."""

    WELL = "well known"
    ROUGHLY = "roughly known"
    ZERO = "may be zero"


def how_well(value: float, half_width: float) -> Known:
    """Well known: the 95 % half width is at most 20 % of |value|; may be zero: the interval holds zero."""
    if half_width <= PRECISE * abs(value) and value != 0:
        return Known.WELL
    return Known.ROUGHLY if half_width < abs(value) else Known.ZERO


@dataclass(frozen=True)
class ParameterVerdict:
    """Verdict with its reasons.

    half_width: of the 95 % interval, in the parameter's unit.    relative: half_width / |value|.
    contribution: greatest share of a group's torque that the parameter makes up, upper end of its interval.
    group: the group in which it does, "" when no group with torque holds the parameter (contribution nan).
    """

    word: Word
    half_width: float
    relative: float
    contribution: float
    group: str


def base_verdicts(estimate: Estimate, factors: Factors) -> tuple[ParameterVerdict, ...]:
    """Verdict on every base parameter, (b,).

    identified: the 95 % half width is at most 20 % of |value|.
    negligible: (|value| + half width) rms(column) is less than 1 % of the torque rms of every group.
    from the prior: a pull towards the prior decides more than half of the value.
    weak: none of these.

    factors: those that were fitted; rms(column) is ||R[:, column]|| / sqrt(count).
    """
    share, best = _largest_share(factors)
    verdicts = []
    for index, value, half, pulled in zip(
        estimate.base.independent,
        np.abs(estimate.value),
        estimate.half_width(),
        estimate.prior_share,
        strict=True,
    ):
        relative = float(half / value) if value > 0 else np.inf
        contribution = float((value + half) * share[index])
        group = factors.group_names[best[index]] if np.isfinite(share[index]) else ""
        word = Word.PRIOR if pulled > PRIOR_DECIDES else _word(relative, contribution)
        verdicts.append(ParameterVerdict(word, float(half), relative, contribution, group))
    return tuple(verdicts)


@dataclass(frozen=True)
class FullVerdict:
    """What the value of one full parameter is worth.

    std: standard deviation, nan unless the data determine the parameter by itself.
    combination: the base parameters that it is part of, as formulas.
    known: how well, None unless the data determine the parameter by itself.
    """

    standing: Standing
    std: float
    combination: tuple[str, ...]
    known: Known | None = None


def full_verdicts(estimate: Estimate, factors: Factors) -> tuple[FullVerdict, ...]:
    """Verdict on every full parameter, (p,).

    identified or weak: the data determine it alone, well or badly (negligible ones count as identified).
    only in combination: the data determine sums that it is part of; how the sum is shared out follows the prior.
    from the prior: the data say nothing and the description gives a value, or a pull towards it decides.
    not identifiable: the data say nothing, and nothing else is known.
    """
    base, formulas = estimate.base, estimate.names
    words = dict(zip(base.independent.tolist(), base_verdicts(estimate, factors), strict=True))
    std = dict(zip(base.independent.tolist(), estimate.std.tolist(), strict=True))
    half = dict(zip(base.independent.tolist(), estimate.half_width().tolist(), strict=True))
    value = dict(zip(base.independent.tolist(), estimate.value.tolist(), strict=True))
    found = []
    for j, (column, category) in enumerate(zip(estimate.columns, base.categories(), strict=True)):
        members = tuple(formulas[i] for i in np.flatnonzero(base.B[:, j]))
        if category is Category.NOT_IDENTIFIABLE:
            known = np.isfinite(column.prior)
            found.append(FullVerdict(Standing.PRIOR if known else Standing.NOT_IDENTIFIABLE, np.nan, ()))
        elif category is Category.COMBINATION:
            found.append(FullVerdict(Standing.COMBINATION, np.nan, members))
        else:
            found.append(FullVerdict(_standing(words[j].word), std[j], members, how_well(value[j], half[j])))
    return tuple(found)


def _standing(word: Word) -> Standing:
    if word is Word.PRIOR:
        return Standing.PRIOR
    return Standing.WEAK if word is Word.WEAK else Standing.IDENTIFIED


def _word(relative: float, contribution: float) -> Word:
    if relative <= PRECISE:
        return Word.IDENTIFIED
    return Word.NEGLIGIBLE if contribution < NEGLIGIBLE else Word.WEAK


def _largest_share(factors: Factors) -> tuple[Float, list[int]]:
    # Norm of each column over that of the torque, greatest over the groups (p,), and the group where it is.
    share = np.full(factors.parameter_count, np.nan)
    best = [-1] * factors.parameter_count
    for group, factor in enumerate(factors.total):
        torque = np.sqrt(factor.target_square)
        if not torque > 0:
            continue
        norms = np.linalg.norm(factor.R[:, :-1], axis=0) / torque
        for column, norm in zip(factor.columns, norms, strict=True):
            if not norm <= share[column]:
                share[column], best[column] = norm, group
    return share, best
