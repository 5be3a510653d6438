"""Centres of mass stay within reach of where the description puts them, where the data bear it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float
from dynid.estimate import NEAR, REACH_DESCRIBED, WLS, FeasibleFit, Regression
from dynid.estimate import prior as reach
from dynid.estimate.feasible import WORSE
from dynid.estimate.prior import REACH_GUESSED, centre_limits
from dynid.factor import Factors
from dynid.feasible import body_columns, plausible, slack
from tests.estimate.test_partial_prior import PLAIN, arm, regression

UNKNOWN = float("nan")


@pytest.mark.parametrize(("mass", "reach"), [(1.0, REACH_DESCRIBED), (UNKNOWN, REACH_GUESSED)])
def test_a_limit_is_a_ball_around_the_priors_centre(tmp_path: Path, mass: float, reach: float) -> None:
    one = regression(tmp_path, arm((1.0, mass, 1.0, 1.0)))
    prior = plausible(one.columns, one.guess, one.spread)
    ten = body_columns(one.columns)[1]
    length = np.sqrt(one.spread[ten[4]] / one.spread[ten[0]])
    assert not centre_limits(one.columns, prior, prior, one.spread)
    for away, limited in ((0.98, False), (1.02, True)):
        theta = prior.copy()
        theta[ten[2]] += theta[ten[0]] * away * reach * length
        limits = centre_limits(one.columns, theta, prior, one.spread)
        assert bool(limits) == limited
        for limit in limits:
            assert limit.body == 2
            (condition,) = limit.conditions(one.columns, one.spread)
            assert slack(condition.block, theta) < 0 < slack(condition.block, prior)
            # A longer reach holds it.
            assert not centre_limits(one.columns, theta, prior, one.spread, 1.1)


def test_a_centre_is_held_within_reach_unless_the_data_speak_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The centre of a wrist of 30 g seems to lie ten lengths off; a shorter reach makes the fit too far off.
    one = regression(tmp_path, arm(), PLAIN)
    prior = plausible(one.columns, one.guess, one.spread)
    ten = body_columns(one.columns)[2]
    truth = prior.copy()
    truth[ten[1]] += 10.0 * truth[ten[0]] * np.sqrt(one.spread[ten[4]] / one.spread[ten[0]])
    for noise, held in ((1.0, True), (1e-3, False)):
        seen, fit = replace(one, factors=measured(one, truth, noise)), FeasibleFit(strength=0.1)
        monkeypatch.setattr(reach, "REACH_DESCRIBED", 0.2)
        estimate, found = fit.solution(seen, WLS().fit(seen))
        before = fit._solved(seen, estimate.weights, 0.1)
        assert centre_limits(one.columns, before.parameters, prior, one.spread)
        further = centre_limits(one.columns, found.parameters, prior, one.spread, max(NEAR))
        assert bool(further) != held
        # So much for the limits, and as much for what no equation holds.
        assert found.cost - before.cost <= 2 * WORSE * one.factors.count


def measured(one: Regression, truth: Float, noise: float) -> Factors:
    """The factors with the torque of other parameters (p,), and residuals of so many N m."""
    blocks = []
    for block in one.factors.blocks:
        groups = []
        for factor in block.groups:
            R = np.array(factor.R)
            R[:, -1] = np.append(R[:-1, :-1] @ truth[factor.columns], noise * np.sqrt(factor.count))
            groups.append(replace(factor, R=R))
        blocks.append(replace(block, groups=tuple(groups)))
    return replace(one.factors, blocks=tuple(blocks))
