"""Held-out errors of columns on offer are those of the models that hold them; slow waves are a sound term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls

from dynid.choose.subset_regression import BlockRows, Prior, SubsetRegression, fold_triangles, nonnegative
from dynid.factor import Block, Factor, Factors, stack
from dynid.factor.folds import Fold
from dynid.kernel import qr_panel
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.terms import PositionWaves, Term, torque_of
from dynid.testing import TermContract, random_robot

NAMES = ("a", "b", "c", "d", "e")


def regression(dependent: bool = False) -> SubsetRegression:
    """Six blocks of a target that follows the columns a and d."""
    rng = np.random.default_rng(4)
    triangles = []
    for _ in range(6):
        X = rng.normal(0, 1, (40, 5)) * [1.0, 1e3, 1e-3, 1.0, 1.0]
        if dependent:
            X[:, 4] = X[:, 0] + 1e-3 * X[:, 1]
        y = 2.0 * X[:, 0] - 3.0 * X[:, 3] + 0.1 * rng.normal(0, 1, 40)
        triangles.append(qr_panel(np.ascontiguousarray(np.column_stack([X, y]).T)))
    blocks = np.array(triangles)

    def merged(which: list[int]) -> np.ndarray:
        return qr_panel(np.ascontiguousarray(blocks[which].reshape(-1, 6).T))

    folds = ((merged([2, 3, 4, 5]), np.array([0, 1])), (merged([0, 1]), np.array([2, 3, 4, 5])))
    return of_triangles(blocks, folds, 40.0)


def of_triangles(
    triangles: np.ndarray, folds: tuple[tuple[np.ndarray, np.ndarray], ...], count: float
) -> SubsetRegression:
    """Of triangles over all columns."""
    total = qr_panel(np.ascontiguousarray(triangles.reshape(-1, triangles.shape[-1]).T))
    return SubsetRegression(
        NAMES, BlockRows.of_triangles(triangles), folds, total, total, np.full(len(triangles), count)
    )


def grouped() -> tuple[Factors, np.ndarray, np.ndarray]:
    """Two groups of equations that hold some of five columns each, in blocks that may have fewer equations."""
    rng = np.random.default_rng(11)
    held, weights, blocks = (np.array([0, 2, 3]), np.array([1, 2, 4])), np.array([2.0, 0.5]), []
    for m in range(6):
        groups = []
        for columns in held:
            panel = rng.normal(0, 1, (len(columns) + 1, 2 if m == 3 else 9))
            panel[0] *= m != 2  # a column that is zero throughout a block
            groups.append(Factor.from_panel(columns, panel))
        blocks.append(Block("", 0, float(m), m + 1.0, tuple(groups)))
    return Factors(("one", "other"), 5, tuple(blocks)), np.arange(5), weights


def test_rows_by_group_are_those_of_all_groups_together() -> None:
    """Against one triangle a block over all columns, for blocks in a row and not."""
    factors, columns, weights = grouped()
    rows = BlockRows.of(factors, columns, weights)
    whole = np.array([stack(block.groups, columns, weights) for block in factors.blocks])
    rng = np.random.default_rng(12)
    used, x = np.array([4, 0, 2, 5]), rng.normal(0, 1, (4, 3))
    kept, behind, solved = np.array([1, 3]), np.array([0, 4, 5]), rng.normal(0, 1, (2, 3))
    # A column is explained by those alone that stand in equations with it; the target is in all of them.
    every = np.append(rows.used, np.ones((len(rows.used), 1), dtype=np.bool_), axis=1)
    solved *= every[:, kept].T @ every[:, behind]
    for blocks in (np.array([1, 2, 3]), np.array([0, 2, 5])):
        expected = np.sum((whole[blocks][:, :, used] @ x) ** 2, axis=1).T
        np.testing.assert_allclose(rows.squares(blocks, used, x), expected, rtol=1e-10)
        left = whole[blocks][:, :, behind] - whole[blocks][:, :, kept] @ solved
        found = np.zeros((len(blocks), len(behind), len(behind)))
        for places, lines in rows.residualised(blocks, kept, behind, solved):
            found[:, places[:, None], places] += np.einsum("amr,bmr->mab", lines, lines)
        np.testing.assert_allclose(found, np.einsum("mra,mrb->mab", left, left), atol=1e-10)
    own, both = fold_triangles(factors, [np.array([1, 2]), np.arange(6)], columns, weights)
    np.testing.assert_allclose(own.T @ own, sum(whole[m].T @ whole[m] for m in (1, 2)), atol=1e-10)
    np.testing.assert_allclose(both.T @ both, sum(R.T @ R for R in whole), atol=1e-10)


def test_branches_hold_no_rows_of_each_other() -> None:
    """Arrays grow with the squares of branches, not with that of all columns, unless a prior couples these."""
    rng = np.random.default_rng(3)
    columns = (np.array([0, 1, 2]), np.array([3, 4]))
    blocks = [
        Block(
            "", 0, m, m + 1.0, tuple(Factor.from_panel(c, rng.normal(size=(len(c) + 1, 9))) for c in columns)
        )
        for m in range(4)
    ]
    factors = Factors(("left", "right"), 5, tuple(blocks))
    kept, behind, solved = np.array([0, 3]), np.array([1, 2, 4, 5]), np.zeros((2, 4))
    for known, shapes in ((None, [(3, 4, 4), (2, 4, 3)]), (np.ones((1, 6)), [(4, 4, 7)])):
        rows = BlockRows.of(factors, np.arange(5), np.ones(2), known)
        held_out = rows.residualised(np.arange(4), kept, behind, solved)
        assert [lines.shape for _, lines in held_out] == shapes


@pytest.mark.parametrize("held", [(), ("a",), ("a", "b", "c")])
@pytest.mark.parametrize("more", [(), ("d",), ("c", "d", "e")])
def test_what_is_left_gives_the_errors_of_the_larger_model(
    held: tuple[str, ...], more: tuple[str, ...]
) -> None:
    one = regression()
    found = one.residualised(held).squares_of([one.index(more), one.index(())])
    np.testing.assert_allclose(found, one.squares_of([(*held, *more), held]), rtol=1e-9)


@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("joined", [("d",), ("a", "e"), ("b", "c", "d")])
def test_columns_may_join_a_model_one_after_another(joined: tuple[str, ...], dependent: bool) -> None:
    one = regression(dependent)
    rest = one.residualised(("b",))
    for name in joined:
        rest = rest.beside(one.index((name,)))
    others = [name for name in NAMES if name not in ("b", *joined)]
    found = rest.squares_of([one.index((name,)) for name in others])
    np.testing.assert_allclose(found, one.squares_of([("b", *joined, name) for name in others]), rtol=1e-9)
    at_once = one.residualised(("b",)).beside(one.index(joined)).squares_of([one.index(())])[0]
    np.testing.assert_allclose(at_once, one.squares(("b", *joined)), rtol=1e-9)


def test_what_a_model_holds_already_adds_nothing() -> None:
    one = regression(dependent=True)
    for rest in (one.residualised(("a", "b")), one.residualised(("b",)).beside(one.index(("a", "e")))):
        without, more, one_more = rest.squares_of([one.index(names) for names in ((), ("e", "a"), ("e",))])
        np.testing.assert_array_equal(more, without)
        np.testing.assert_array_equal(one_more, without)
        np.testing.assert_allclose(without, one.squares(("a", "b", "e")), rtol=1e-9)


def test_bounded_columns_are_those_of_nonnegative_least_squares() -> None:
    """Against SciPy's bounded solver on the same triangles; without a bound that binds nothing changes."""
    one = replace(regression(), bounded=frozenset({"b", "c", "d"}))
    found = one.squares_of([NAMES], within_bounds=True)[0]
    lower = np.array([-np.inf, 0.0, 0.0, 0.0, -np.inf])
    for training, left_out in one.folds:
        R = training / np.linalg.norm(training, axis=0)  # columns of 1e-3 and 1e3 side by side
        size = np.linalg.norm(training[:, -1]) / np.linalg.norm(training[:, :-1], axis=0)
        x = size * lsq_linear(R[:, :-1], R[:, -1], (lower, np.full(5, np.inf)), tol=1e-14).x
        errors = squares_of(one, left_out, np.append(x, -1.0))
        np.testing.assert_allclose(found[left_out], errors, rtol=1e-6)
    assert found.sum() > 2 * one.squares(NAMES).sum()  # d is -3
    free = replace(one, bounded=frozenset({"a"}))
    unbound = free.squares_of([NAMES], within_bounds=True)[0]
    np.testing.assert_allclose(
        unbound, free.squares(NAMES), rtol=1e-12
    )  # its columns are taken in another order


def squares_of(one: SubsetRegression, left_out: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Squared errors by block of values of all columns and of the target."""
    return np.sum(np.einsum("wmr,w->mr", one.blocks.lines[0][:, left_out], x) ** 2, axis=1)


def test_a_prior_joins_every_training_and_no_error() -> None:
    """Against least squares of the weighted equations and the prior, stacked; errors have weights of their own."""
    factors, columns, weights = grouped()
    rng = np.random.default_rng(5)
    prior = Prior(np.array([0.3, 4.0]), rng.normal(0, 1, (2, 6)))
    first, last = np.arange(2), np.arange(2, 6)
    folds = [Fold(last, first), Fold(first, last)]
    whole = SubsetRegression.of(factors, NAMES, columns, weights, folds, prior=prior)
    expected = np.zeros(6)
    for fold in folds:
        rows = np.concatenate(
            [
                *(stack(factors.blocks[m].groups, columns, prior.weights) for m in fold.training),
                prior.equations,
            ]
        )
        x = np.append(np.linalg.lstsq(rows[:, :5], rows[:, 5], rcond=None)[0], -1.0)
        for m in fold.held_out:
            expected[m] = np.sum((stack(factors.blocks[m].groups, columns, weights) @ x) ** 2)
    np.testing.assert_allclose(whole.squares(NAMES), expected, rtol=1e-9)
    beside = whole.residualised(NAMES[:2]).squares_of([whole.index(NAMES[2:])])[0]
    np.testing.assert_allclose(beside, expected, rtol=1e-9)


def test_a_prior_adds_no_parameter_that_the_data_do_not_tell() -> None:
    """Columns that depend on others count once, and have values all the same."""
    told = regression(dependent=True)
    prior = np.column_stack([np.eye(5), np.zeros(5)])
    together = replace(told, total=qr_panel(np.ascontiguousarray(np.concatenate([told.total, prior]).T)))
    assert together.rank(("a", "b", "e")) == told.rank(("a", "b", "e")) == 2
    assert np.count_nonzero(list(told.values(("a", "b", "e")).values())) == 2
    assert np.count_nonzero(list(together.values(("a", "b", "e")).values())) == 3


class TestPositionWaves(TermContract):
    def term(self) -> Term:
        return PositionWaves()

    def robots(self) -> tuple[RobotModel, ...]:
        return random_robot(2, 3, 0.0), random_robot(5, 3, 0.5)


def test_waves_are_of_the_own_joint() -> None:
    robot = random_robot(2, 3, 0.0)
    q = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    theta = np.zeros(12)
    theta[4 + 2] = 2.0  # sin 2 q of the second joint
    tau = torque_of(PositionWaves(), robot, Samples.from_motion(q, q, q, rate=100.0), theta)
    np.testing.assert_allclose(tau[:, 1], 2.0 * np.sin(2.0 * q[:, 1]))
    assert not tau[:, [0, 2]].any()


@pytest.mark.parametrize("seed", range(40))
def test_nonnegative_least_squares_are_lawson_and_hansons(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 25))
    A = rng.normal(0, 1, (k + 8, k)) + rng.uniform(0, 3) * rng.normal(0, 1, (k + 8, 1))
    z = A @ rng.normal(rng.uniform(-1, 1), 1, k) + rng.normal(0, rng.uniform(0, 3), k + 8)
    expected = nnls(A, z)[0]
    found = nonnegative(A, z, np.linalg.lstsq(A, z)[0] > 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max(initial=1.0))
