"""Scores against plain NumPy, and cross-validation that never looks at what it scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dynid.base import UnfitDataError, UsageError
from dynid.estimate import OLS, WLS, Estimate, Origin, Regression, Scores, Sums, cross_validate
from dynid.estimate.scores import worse_than_constant
from dynid.factor import Factors
from dynid.testing import synthetic_regression


def data(T: int = 300, n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    measured = rng.normal(2.0, 3.0, (T, n)) * np.array([1.0, 10.0, 0.1])
    return measured, measured + rng.normal(0.05, 0.2, (T, n))


def scores(measured: np.ndarray, predicted: np.ndarray) -> Scores:
    names = [f"j{i}" for i in range(measured.shape[1])]
    return Sums.of_arrays(measured, predicted).scores(Origin.HELD_OUT_LOG, names, ["a"])


def test_every_score_is_its_formula() -> None:
    measured, predicted = data()
    e = measured - predicted
    found = scores(measured, predicted)
    wanted = {
        "mse": np.mean(e**2, axis=0),
        "rms": np.sqrt(np.mean(e**2, axis=0)),
        "relative": np.linalg.norm(e, axis=0) / np.linalg.norm(measured, axis=0),
        "r2": 1 - np.sum(e**2, axis=0) / np.sum((measured - measured.mean(axis=0)) ** 2, axis=0),
        "nmse": np.mean(e**2, axis=0) / np.mean(np.abs(measured), axis=0),
        "sde": e.std(axis=0),
        "torque_rms": np.sqrt(np.mean(measured**2, axis=0)),
        "count": np.full(3, 300.0),
    }
    for name, value in wanted.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(found.total_relative, np.linalg.norm(e) / np.linalg.norm(measured))
    np.testing.assert_allclose(found.total_nmse, wanted["nmse"].sum())
    assert found.origin is Origin.HELD_OUT_LOG


def test_sums_add() -> None:
    measured, predicted = data()
    parts = Sums.of_arrays(measured[:80], predicted[:80]) + Sums.of_arrays(measured[80:], predicted[80:])
    whole = Sums.of_arrays(measured, predicted)
    for name in ("count", "error", "error_square", "torque", "torque_abs", "torque_square"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)


def test_perfect_and_useless_predictions() -> None:
    measured, _ = data()
    perfect = scores(measured, measured)
    assert not perfect.rms.any()
    assert (perfect.r2 == 1).all()
    mean = scores(measured, np.broadcast_to(measured.mean(axis=0), measured.shape))
    np.testing.assert_allclose(mean.r2, 0, atol=1e-12)
    np.testing.assert_allclose(mean.sde, measured.std(axis=0))
    zero = scores(measured, np.zeros_like(measured))
    np.testing.assert_allclose(zero.relative, 1)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_as_good_as_a_constant_is_not_called_worse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    measured = rng.normal(1.0, 1.0, (40, 50, 2))
    # The right mean but for what chance does to it, and a whole spread away from it.
    predicted = np.stack([np.full((40, 50), 1.01), measured[..., 1] + rng.normal(0.0, 1.5, (40, 50))], axis=2)
    parts = [Sums.of_arrays(m, p) for m, p in zip(measured, predicted, strict=True)]
    np.testing.assert_array_equal(worse_than_constant(parts), [False, True])


def test_without_blocks_nothing_is_called_worse() -> None:
    measured, predicted = data()
    assert scores(measured, predicted + 100.0).worse == ()
    one = Sums.of_arrays(measured, predicted + 100.0)
    assert not worse_than_constant([one]).any()


def test_scores_without_meaning_are_nan_or_infinite_not_errors() -> None:
    measured, predicted = data()
    measured[:, 1] = 0.0
    found = scores(measured, predicted)
    assert not np.isfinite([found.relative[1], found.r2[1], found.nmse[1]]).any()
    assert np.isfinite(found.rms).all()
    assert np.isfinite(found.r2[[0, 2]]).all()


def test_factors_score_like_arrays() -> None:
    case = synthetic_regression(1)
    theta = np.append(case.beta + 0.1, [0.0, 0.0])
    measured = np.column_stack(case.y)
    predicted = np.column_stack([X @ (case.beta + 0.1) for X in case.X])
    one, other = Sums.of_factors(case.regression.factors, theta), Sums.of_arrays(measured, predicted)
    for name in ("count", "error", "error_square", "torque", "torque_abs", "torque_square"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, err_msg=name)


@dataclass
class Witness:
    """An estimator that notes what it was shown."""

    name: str = "witness"
    shown: list[Factors] = field(default_factory=list)

    def fit(self, regression: Regression) -> Estimate:
        self.shown.append(regression.factors)
        return OLS().fit(regression)


@pytest.mark.parametrize(("blocks", "folds"), [(24, 5), (23, 5), (8, 2), (6, 9)])
def test_no_block_is_scored_by_a_model_that_saw_it(blocks: int, folds: int) -> None:
    case = synthetic_regression(3, count=480, blocks=blocks)
    every = case.regression.factors.blocks
    witness = Witness()
    found = cross_validate(case.regression, witness, folds)
    held_out = [[b for b in every if all(b is not s for s in shown.blocks)] for shown in witness.shown]
    # Each block is held out once, in runs of neighbours, and its score is that of the model fitted without it.
    assert [b.start for fold in held_out for b in fold] == [b.start for b in every]
    total = None
    for shown, fold in zip(witness.shown, held_out, strict=True):
        assert len(shown.blocks) + len(fold) == blocks
        rows = np.concatenate([np.arange(int(b.start), int(b.end) + 1) for b in fold])
        rest = np.setdiff1d(np.arange(480), rows)
        X, y = (np.concatenate([one[rest] for one in parts]) for parts in (case.X, case.y))
        beta = np.linalg.lstsq(X, y, rcond=None)[0]
        measured = np.column_stack([one[rows] for one in case.y])
        sums = Sums.of_arrays(measured, np.column_stack([one[rows] @ beta for one in case.X]))
        total = sums if total is None else total + sums
    assert total is not None
    wanted = total.scores(Origin.HELD_OUT_BLOCKS, found.joint_names, ["synthetic"])
    np.testing.assert_allclose(found.rms, wanted.rms, rtol=1e-9)
    np.testing.assert_allclose(found.r2, wanted.r2, rtol=1e-9)
    assert found.origin is Origin.HELD_OUT_BLOCKS
    assert (found.count == 480).all()
    assert found.trajectories == ("synthetic",)


def test_held_out_error_exceeds_training_error_of_a_greedy_model() -> None:
    case = synthetic_regression(3, count=20, blocks=10, base=8, noise=(1.0, 1.0))
    estimate = WLS().fit(case.regression)
    training = Sums.of_factors(case.regression.factors, estimate.full_vector)
    unseen = cross_validate(case.regression, OLS(), 5)
    assert unseen.rms.mean() > np.sqrt(training.error_square / training.count).mean()


def test_nothing_to_hold_out_is_said() -> None:
    case = synthetic_regression(3)
    empty = replace(case.regression, factors=case.regression.factors.subset([]))
    with pytest.raises(UnfitDataError, match="found 0 blocks of data"):
        cross_validate(empty, OLS())
    with pytest.raises(UnfitDataError, match="at least 6, to hold 3 parts out"):
        cross_validate(synthetic_regression(3, blocks=3).regression, OLS(), 3)


def test_scores_of_another_length_are_refused() -> None:
    measured, predicted = data()
    with pytest.raises(UsageError, match="array-shape"):
        Sums.of_arrays(measured, predicted).scores(Origin.TRAINING, ["a", "b"], [])
