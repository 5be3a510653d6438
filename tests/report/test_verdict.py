"""Verdicts on base parameters: the three words, from the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.estimate import Word, base_verdicts
from dynid.run import Identification


def test_words_follow_from_interval_and_torque(identification: Identification) -> None:
    estimate, factors = identification.estimate, identification.factors
    half = estimate.half_width()
    for i, verdict in enumerate(base_verdicts(estimate, factors)):
        column = estimate.base.independent[i]
        shares = []
        for factor in factors.total:
            if column in factor.columns:
                k = list(factor.columns).index(column)
                rms = np.linalg.norm(factor.R[:, k]) / np.sqrt(factor.count)
                shares.append(
                    (abs(estimate.value[i]) + half[i]) * rms / np.sqrt(factor.target_square / factor.count)
                )
        assert np.isclose(verdict.contribution, max(shares))
        precise = half[i] <= 0.2 * abs(estimate.value[i])
        expected = Word.IDENTIFIED if precise else Word.NEGLIGIBLE if max(shares) < 0.01 else Word.WEAK
        assert verdict.word is expected
        assert verdict.group in factors.group_names


def test_a_value_of_zero_is_never_identified(identification: Identification) -> None:
    estimate = identification.estimate
    nothing = replace(estimate, value=np.zeros_like(estimate.value))
    assert all(v.word is not Word.IDENTIFIED for v in base_verdicts(nothing, identification.factors))


def test_an_unknown_covariance_is_weak(identification: Identification) -> None:
    estimate = identification.estimate
    unknown = replace(estimate, covariance=np.full_like(estimate.covariance, np.nan))
    assert {v.word for v in base_verdicts(unknown, identification.factors)} == {Word.WEAK}
