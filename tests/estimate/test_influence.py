"""Who informs a parameter, and what a result hangs on: against refitting, and where the answer is plain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.estimate import (
    OLS,
    WLS,
    Influence,
    Ridge,
    Standing,
    Word,
    base_verdicts,
    full_verdicts,
    influence_of,
)
from dynid.factor import Category
from dynid.testing import Synthetic, factors_of, synthetic_regression


def influence(case: Synthetic) -> Influence:
    found = influence_of(OLS().fit(case.regression), case.regression.factors)
    assert found is not None
    return found


def rebuilt(case: Synthetic, y: list[Float]) -> Synthetic:
    """The same equations with other targets."""
    own = [factor.columns for factor in case.regression.factors.total]
    blocks = len(case.regression.factors.blocks)
    factors = factors_of(case.X, y, own, len(case.regression.columns), blocks)
    return replace(case, regression=replace(case.regression, factors=factors))


@pytest.mark.parametrize("seed", range(3))
def test_shares_are_shares(seed: int) -> None:
    found = influence(synthetic_regression(seed))
    np.testing.assert_allclose(found.group_share.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.block_share.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.leverage.sum(), 1.0)
    assert min(found.group_share.min(), found.block_share.min()) >= 0.0


def test_shift_is_what_refitting_without_the_block_gives() -> None:
    case = synthetic_regression(4, count=240, blocks=8)
    whole = OLS().fit(case.regression)
    found = influence(case)
    for m in range(8):
        kept = case.regression.factors.subset([k for k in range(8) if k != m])
        without = OLS().fit(replace(case.regression, factors=kept)).value
        np.testing.assert_allclose(found.shift[:, m], (without - whole.value) / whole.std, rtol=1e-6)


def test_a_parameter_of_one_group_is_informed_by_that_group() -> None:
    # Column 1 does not occur in the second group's equations.
    case = synthetic_regression(5)
    absent = sorted(set(range(5)) - set(case.regression.factors.total[1].columns.tolist()))
    found = influence(case)
    assert (found.group_share[absent, 0] > 0.99).all()
    assert (np.delete(found.group_share, absent, axis=0)[:, 1] > 0.01).all()


def test_a_spoilt_block_stands_out() -> None:
    case = synthetic_regression(6, blocks=24)
    y = [one.copy() for one in case.y]
    y[0][500:550] += 5.0  # block 10 of 50 rows each
    found = influence(rebuilt(case, y))
    assert int(np.argmax(found.cook)) == 10
    assert np.abs(found.shift[:, 10]).max() > 0.8


def test_factors_of_another_model_give_nothing() -> None:
    case, other = synthetic_regression(1), synthetic_regression(1, base=6)
    assert influence_of(OLS().fit(case.regression), other.regression.factors) is None


def test_a_strong_pull_is_labelled() -> None:
    case = synthetic_regression(7, count=60, blocks=6)
    factors = case.regression.factors
    words = {v.word for v in base_verdicts(Ridge(strength=1e9).fit(case.regression), factors)}
    assert words == {Word.PRIOR}
    gentle = base_verdicts(Ridge(strength=1e-9).fit(case.regression), factors)
    assert [v.word for v in gentle] == [v.word for v in base_verdicts(WLS().fit(case.regression), factors)]


def test_full_parameters_carry_a_std_only_where_the_data_give_one() -> None:
    case = synthetic_regression(8)
    B = np.array(case.regression.base.B)
    B[:, 5] = (
        0.0  # parameter 6 has no effect at all, parameter 7 a share in every base parameter but the first
    )
    B[0, 6] = 0.0
    columns = tuple(
        replace(c, prior=float("nan")) if i == 5 else c for i, c in enumerate(case.regression.columns)
    )
    regression = replace(case.regression, base=replace(case.regression.base, B=B), columns=columns)
    estimate = OLS().fit(regression)
    found = full_verdicts(estimate, regression.factors)
    categories = estimate.base.categories()
    assert categories[0] is Category.IDENTIFIABLE
    assert found[0].std == estimate.std[0]
    assert found[0].standing in (Standing.IDENTIFIED, Standing.WEAK)
    assert found[5].standing is Standing.NOT_IDENTIFIABLE
    for verdict in (*found[1:5], found[6]):
        assert verdict.standing is Standing.COMBINATION
        assert verdict.combination
        assert np.isnan(verdict.std)
    assert set(found[6].combination) == set(estimate.names[1:])
    with_prior = replace(estimate, columns=tuple(replace(c, prior=1.0) for c in columns))
    assert full_verdicts(with_prior, regression.factors)[5].standing is Standing.PRIOR
