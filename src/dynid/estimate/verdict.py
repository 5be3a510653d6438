"""What can be said about each base parameter: identified, negligible or weak."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dynid.arrays import Float
from dynid.estimate.estimator import Estimate
from dynid.factor.factor import Factors

PRECISE = 0.2
NEGLIGIBLE = 0.01


class Word(StrEnum):
    """Verdict on one base parameter."""

    IDENTIFIED = "identified"
    NEGLIGIBLE = "negligible"
    WEAK = "weak"


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
    weak: neither.

    factors: those that were fitted; rms(column) is ||R[:, column]|| / sqrt(count).
    """
    share, best = _largest_share(factors)
    verdicts = []
    for index, value, half in zip(
        estimate.base.independent, np.abs(estimate.value), estimate.half_width(), strict=True
    ):
        relative = float(half / value) if value > 0 else np.inf
        contribution = float((value + half) * share[index])
        group = factors.group_names[best[index]] if np.isfinite(share[index]) else ""
        verdicts.append(
            ParameterVerdict(_word(relative, contribution), float(half), relative, contribution, group)
        )
    return tuple(verdicts)


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
