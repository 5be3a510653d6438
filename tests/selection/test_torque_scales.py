"""The factor on some drives' torque with which consistent bodies fit it beside the others', on arms of pinocchio."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float
from dynid.choose.consistency_cause import NEARBY, ScaledDrives
from dynid.estimate import WLS, FeasibleFit, Regression
from dynid.factor import Factors
from tests.estimate.test_partial_prior import arm, regression

FIT = FeasibleFit(strength=1e3, prior="entropic")
SEEDS = [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]


@cache
def case(seed: int, folder: Path) -> tuple[Regression, Float]:
    made = regression(folder, arm(), seed=seed)
    return made, np.asarray(WLS().fit(made).weights)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arm")


def logged(factors: Factors, gains: Float) -> Factors:
    """The same motion with the torque of every group times its gain."""
    blocks = (
        replace(
            block,
            groups=tuple(g.with_target_times(k) for g, k in zip(block.groups, gains, strict=True)),
        )
        for block in factors.blocks
    )
    return replace(factors, blocks=tuple(blocks))


@pytest.mark.parametrize("seed", SEEDS)
def test_torque_on_the_scale_of_the_others_needs_no_factor(folder: Path, seed: int) -> None:
    """Of a drive that carries all but the first body: what lies behind the wrist's drives, of 40 g, decides nothing."""
    made, weights = case(seed, folder)
    drives = ScaledDrives(made, weights, FIT, np.arange(4) == 1)
    factor, theta = drives.best(made.factors)
    # Cogging that no model knows is 1 % of the torque, and the factor takes up what it can of it.
    as_logged = drives.missed(made.factors, 1.0, drives.parameters(made.factors, 1.0))
    assert drives.missed(made.factors, factor, theta) > 0.99 * as_logged
    assert abs(np.log(factor)) < NEARBY[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gain", [0.4, 1.7])
def test_the_factor_undoes_a_gain_and_gives_the_same_bodies(folder: Path, seed: int, gain: float) -> None:
    """A drive that reports k times its torque, errors and all: 1 / k of the factor, and the same parameters."""
    made, weights = case(seed, folder)
    own = np.arange(4) == 1
    gains = np.where(own, gain, 1.0)
    off = replace(made, factors=logged(made.factors, gains))
    true, off_scale = (
        ScaledDrives(one, w, FIT, own) for one, w in ((made, weights), (off, weights / gains**2))
    )
    factor, theta = true.best(made.factors)
    found, same = off_scale.best(off.factors)
    assert found == pytest.approx(factor / gain, rel=5e-3)
    assert off_scale.missed(off.factors, found, same) == pytest.approx(
        true.missed(made.factors, factor, theta), rel=1e-3
    )
    again = off_scale.parameters(off.factors, factor / gain)
    np.testing.assert_allclose(again, theta, rtol=1e-6, atol=1e-6 * np.abs(theta).max())


def test_the_errors_are_those_of_the_torque_as_it_is_logged(folder: Path) -> None:
    """So that a factor towards zero is no way to small errors."""
    made, weights = case(1, folder)
    drives = ScaledDrives(made, weights, FIT, np.ones(4, dtype=np.bool_))
    nothing = np.zeros(len(made.columns))
    torque = sum(w * group.target_square for w, group in zip(weights, made.factors.total, strict=True))
    for factor in (0.1, 1.0, 3.0):
        assert drives.missed(made.factors, factor, nothing) == pytest.approx(torque, rel=1e-12)
