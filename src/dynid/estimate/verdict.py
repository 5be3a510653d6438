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

    half_width: of the 95 % interval, in the parameter's unit.
    contribution: greatest share of a joint's torque that the parameter makes up, upper end of its interval.
    """

    word: Word
    half_width: float
    contribution: float


def base_verdicts(estimate: Estimate, factors: Factors) -> tuple[ParameterVerdict, ...]:
    """Verdict on every base parameter.

    identified: the 95 % half width is at most 20 % of the value.    negligible: even the far end of the interval makes
    up less than 1 % of the torque (root mean square) of every joint.    weak: neither.
    """
    half = estimate.half_width()
    reach = (np.abs(estimate.value) + half) * _largest_share(estimate, factors)
    verdicts = []
    for value, width, share in zip(estimate.value, half, reach, strict=True):
        word = Word.IDENTIFIED if width <= PRECISE * abs(value) else Word.NEGLIGIBLE if share < NEGLIGIBLE else Word.WEAK
        verdicts.append(ParameterVerdict(word, float(width), float(share)))
    return tuple(verdicts)


def _largest_share(estimate: Estimate, factors: Factors) -> Float:
    # Root mean square of each column over that of the joint's torque, greatest over the joints.
    share = np.zeros(len(estimate.columns))
    for factor in factors.total:
        torque = np.sqrt(factor.target_square)
        if torque > 0:
            norms = np.linalg.norm(factor.R[:, :-1], axis=0) / torque
            share[factor.columns] = np.maximum(share[factor.columns], norms)
    return share[estimate.base.independent]
