"""Triangular factors, Gram matrices and filters against dense linear algebra and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from scipy.signal import butter, sosfilt_zi, sosfiltfilt

from dynid import kernel as k
from dynid.base import Float, SolverError, UsageError
from dynid.testing import random_motion, random_tree

pytestmark = pytest.mark.usefixtures("kernel")


def dense(T: int, n: int, seed: int = 1, masked: bool = False) -> tuple[tuple[object, ...], list[Float]]:
    """Arguments of factor_torque and, per joint, the dense equations [Y extra tau]."""
    rng = np.random.default_rng(seed)
    tree, (q, dq, ddq) = random_tree(seed, n, 0.4), random_motion(seed, T, n)
    tau = rng.normal(0, 3, (T, n))
    extra = [rng.normal(0, 1, (j % 3, T)) for j in range(n)]
    columns = rng.random(10 * n) < 0.5 if masked else None
    panels = k.torque_regressor(tree, q, dq, ddq, columns)
    X = [np.vstack([v, e, tau[:, j]]).T for j, (v, e) in enumerate(zip(panels.values, extra, strict=True))]
    return (tree, q, dq, ddq, tau, extra, columns), X


def is_triangular(R: Float) -> bool:
    return bool((np.tril(R, -1) == 0).all() and (np.diag(R) >= 0).all())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("T", [1, 5, 64, 65, 1000])
def test_fused_factors_are_those_of_the_dense_equations(T: int, masked: bool) -> None:
    arguments, X = dense(T, 4, seed=T, masked=masked)
    factors = k.factor_torque(*arguments, method="qr")  # type: ignore[arg-type]  # arguments in a tuple
    grams = k.factor_torque(*arguments, method="gram")  # type: ignore[arg-type]  # arguments in a tuple
    for R, gram, one in zip(factors, grams, X, strict=True):
        wanted = one.T @ one
        size = np.abs(wanted).max()
        assert is_triangular(R)
        assert (gram == gram.T).all()
        assert np.abs(gram - wanted).max() < 1e-12 * size
        assert np.abs(R.T @ R - wanted).max() < 1e-12 * size


def test_full_rank_factor_is_unique() -> None:
    rng = np.random.default_rng(0)
    tree, (q, dq, ddq) = random_tree(1, 2), random_motion(1, 300, 2)
    extra = [rng.normal(0, 1, (6, 300)), rng.normal(0, 1, (2, 300))]
    tau = rng.normal(0, 1, (300, 2))
    none = np.zeros(20, dtype=np.bool_)
    for j, R in enumerate(k.factor_torque(tree, q, dq, ddq, tau, extra, none)):
        wanted = np.linalg.qr(np.vstack([extra[j], tau[:, j]]).T, mode="r")
        np.testing.assert_allclose(R, wanted * np.sign(np.diag(wanted))[:, None], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("method", ["qr", "gram"])
def test_threads_do_not_change_a_byte(method: str) -> None:
    arguments, _ = dense(4 * 16384 + 33, 2)
    first, *others = (
        [R.tobytes() for R in k.factor_torque(*arguments, method=method, threads=threads)]  # type: ignore[arg-type]  # arguments in a tuple
        for threads in (1, 2, 5)
    )
    assert all(other == first for other in others)


def test_many_shards_make_the_same_factor() -> None:
    arguments, X = dense(2 * 16384 + 100, 2)
    for R, one in zip(k.factor_torque(*arguments), X, strict=True):  # type: ignore[arg-type]  # arguments in a tuple
        assert np.abs(R.T @ R - one.T @ one).max() < 1e-11 * np.abs(one.T @ one).max()


def test_no_sample_no_information() -> None:
    arguments, _ = dense(0, 3)
    for method in ("qr", "gram"):
        for R in k.factor_torque(*arguments, method=method):  # type: ignore[arg-type]  # arguments in a tuple
            assert not R.any()


def test_wrong_calls_are_refused() -> None:
    (tree, q, dq, ddq, tau, extra, _), _ = dense(10, 3)
    with pytest.raises(UsageError, match="method"):
        k.factor_torque(tree, q, dq, ddq, tau, method="svd")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(UsageError, match="array-shape"):
        k.factor_torque(tree, q, dq, ddq, tau[:, :2])  # type: ignore[arg-type, index]  # wrong on purpose
    for wrong in (extra[:2], [one[:, :9] for one in extra]):  # type: ignore[index, attr-defined]  # wrong on purpose
        with pytest.raises(UsageError, match="array-shape"):
            k.factor_torque(tree, q, dq, ddq, tau, wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("w", "T"), [(1, 1), (1, 100), (7, 3), (7, 7), (40, 63), (40, 64), (40, 500), (5, 0)]
)
def test_panel_factor(w: int, T: int) -> None:
    panel = np.random.default_rng(w * T).normal(0, 1, (w, T))
    R = k.qr_panel(panel)
    assert R.shape == (w, w)
    assert is_triangular(R)
    np.testing.assert_allclose(R.T @ R, panel @ panel.T, rtol=1e-12, atol=1e-12 * max(T, 1))
    if w <= T:
        wanted = np.linalg.qr(panel.T, mode="r")
        np.testing.assert_allclose(R, wanted * np.sign(np.diag(wanted))[:, None], rtol=1e-9, atol=1e-11)


def test_panel_with_dependent_and_empty_lines() -> None:
    panel = np.random.default_rng(0).normal(0, 1, (6, 200))
    panel[2] = 0.0
    panel[4] = 2.0 * panel[0] - panel[1]
    R = k.qr_panel(panel)
    assert is_triangular(R)
    assert np.isfinite(R).all()
    np.testing.assert_allclose(R.T @ R, panel @ panel.T, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_stacked_triangles_have_the_factor_of_their_rows_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = int(rng.integers(2, 90))
    rows = np.concatenate([np.triu(rng.normal(0, 1, (w, w))) for _ in range(5)])
    rows[rng.random(len(rows)) < 0.2] = 0.0
    rows = np.concatenate([rows, rng.normal(0, 1, (w, w))])
    wanted = np.linalg.qr(rows, mode="r")
    wanted *= np.sign(np.diag(wanted))[:, None]
    for panel in (rows.T, rng.permutation(rows).T):
        np.testing.assert_allclose(k.qr_panel(panel), wanted, rtol=1e-9, atol=1e-11)


def test_panel_factor_keeps_small_columns_beside_large_ones() -> None:
    scale = 10.0 ** np.array([8.0, -8.0, 3.0, -3.0])
    panel = np.random.default_rng(0).normal(0, 1, (4, 500))
    wanted = k.qr_panel(panel)
    np.testing.assert_allclose(k.qr_panel(scale[:, None] * panel) / scale, wanted, rtol=1e-9, atol=1e-12)


def test_merging_is_stacking() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(0, 1, (5, 100)), rng.normal(0, 1, (5, 3))
    a, b = k.qr_panel(one), k.qr_panel(other)
    merged = k.qr_panel(np.concatenate([a, b]).T)
    assert is_triangular(merged)
    np.testing.assert_allclose(merged, k.qr_panel(np.hstack([one, other])), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(merged.T @ merged, a.T @ a + b.T @ b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(k.qr_panel(np.concatenate([a, np.zeros((5, 5))]).T), a, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(k.qr_panel(np.concatenate([a, a]).T), np.sqrt(2.0) * a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("L", "T", "pad"), [(1, 40, 10), (7, 300, 50), (8, 301, 0), (9, 64, 63), (17, 1000, 200)]
)
def test_zero_phase_is_scipys(order: int, L: int, T: int, pad: int) -> None:
    lines = np.random.default_rng(L).normal(0, 1, (L, T)).cumsum(axis=1)
    sos = butter(order, 0.1, output="sos")
    wanted = sosfiltfilt(sos, lines, axis=1, padtype="odd", padlen=pad)
    found = k.zero_phase(lines, sos, sosfilt_zi(sos), pad)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10 * np.abs(lines).max())
    thinned = k.zero_phase(lines, sos, sosfilt_zi(sos), pad, 3, 5)
    np.testing.assert_array_equal(thinned, found[:, 3::5])


def test_zero_phase_keeps_constants_and_straight_lines() -> None:
    sos = butter(4, 0.05, output="sos")
    t = np.arange(400.0)
    lines = np.vstack([np.full(400, 3.0), 0.5 * t - 20.0])
    np.testing.assert_allclose(k.zero_phase(lines, sos, sosfilt_zi(sos), 399), lines, rtol=1e-9, atol=1e-7)
    assert k.zero_phase(lines[:0], sos, sosfilt_zi(sos), 10, 0, 4).shape == (0, 100)


def test_line_ranges_are_those_of_numpy() -> None:
    rng = np.random.default_rng(3)
    for T in (1, 3, 4, 5, 8, 61):
        lines = rng.normal(size=(9, T))
        lines[1, T // 2] = np.nan
        lines[2, T - 1] = np.inf
        lines[3, 0] = -np.inf
        expected = np.stack([lines.min(axis=1), lines.max(axis=1)], axis=1)
        np.testing.assert_array_equal(k.line_ranges(lines), expected)
        assert np.isnan(expected[1]).all()
        assert np.isinf(expected[2, 1])
        first = T // 3
        np.testing.assert_array_equal(
            k.line_ranges(lines, first, 1), np.repeat(lines[:, first], 2).reshape(-1, 2)
        )


def test_sums_and_unevenness_of_lines_are_those_of_numpy() -> None:
    rng = np.random.default_rng(4)
    for T in (1, 4, 5, 10, 13, 14, 200):
        lines = rng.normal(size=(3, T)).cumsum(axis=1)
        with k.using("numpy"):
            sums = k.line_moments(lines)
        np.testing.assert_allclose(k.line_moments(lines), sums, rtol=1e-12, atol=1e-12)
        steps = np.diff(lines)
        np.testing.assert_allclose(sums[:, 2], (steps**2).sum(axis=1))
        for first in (0, T - 10) if T >= 10 else ():
            with k.using("numpy"):
                expected = k.line_unevenness(lines, 0.5, first, T - first)
            found = k.line_unevenness(lines, 0.5, first, T - first)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_even_motion_has_no_unevenness_and_a_jump_has_its_own() -> None:
    line = np.arange(40.0)
    line[20:] += 2.0
    for name in ("native", "numpy") if k.backend() != "numpy" else ("numpy",):
        with k.using(name):
            np.testing.assert_array_equal(k.line_unevenness(line[None], 0.9, 0, 20), [[0.0, 0]])
            np.testing.assert_array_equal(k.line_unevenness(line[None], 0.9), [[2.0, 28]])


def test_a_stop_is_its_definition() -> None:
    rng = np.random.default_rng(7)
    for T in (0, 1, 2, 500):
        path, past = np.cumsum(rng.normal(0, 0.5, T)), [0.3, -2.0, 0.1]
        z, before, expected = 0.0, past[0], []
        for x in (*past, *path.tolist()):
            z = float(np.clip(z + (x - before), -1.0, 1.0))
            before = x
            expected.append(z)
        np.testing.assert_array_equal(k.stop_operator(past, path), expected[len(past) :])


@pytest.mark.parametrize("T", [1, 64, 67, 300])
def test_gathered_squares_are_those_of_scattered_lines(T: int) -> None:
    rng = np.random.default_rng(T)
    widths, size = (5, 0, 1, 9), 11
    lines, weights = rng.normal(size=(sum(widths), T)), rng.uniform(0.5, 2.0, 4)
    groups = [rng.permutation(size)[:width] for width in widths]
    ends = np.cumsum([0, *widths])
    found = k.gathered_gram(lines, ends, np.concatenate(groups), weights, size)
    dense = np.zeros((4, size, T))
    for g, (own, first) in enumerate(zip(groups, ends[:-1], strict=True)):
        dense[g, own] = np.sqrt(weights[g]) * lines[first : first + len(own)]
    np.testing.assert_allclose(found, np.einsum("grt,gct->rc", dense, dense), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_groups_that_do_not_fit_are_refused() -> None:
    lines, places, weights = np.ones((3, 4)), np.arange(3), np.ones(2)
    for ends, at, size in (
        (np.array([0, 2]), places, 3),
        (np.array([0, 2, 4]), places, 3),
        (np.array([0, 4, 3]), places, 3),
        (np.array([0, 2, 3]), places[:2], 3),
        (np.array([0, 2, 3]), places, 2),
        (np.array([0, 2, 3]), places - 1, 3),
    ):
        with pytest.raises(UsageError, match="array-shape"):
            k.gathered_gram(lines, ends, at, weights, size)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 17, 64])
@pytest.mark.parametrize("lines", [None, 0, 1, 3, 4, 16, 37])
def test_triangles_are_solved_as_lapack_solves_them(n: int, lines: int | None) -> None:
    rng = np.random.default_rng(n)
    b = rng.normal(size=(n,) if lines is None else (n, lines))
    for order in ("C", "F"):
        # What stands in the other triangle is not looked at.
        a = np.asarray(rng.normal(size=(n, n)) + (n + 1) * np.eye(n), order=order)  # type: ignore[call-overload]
        for lower in (False, True):
            for transposed in (False, True):
                x = k.solve_triangular(a, b, transposed=transposed, lower=lower)
                assert x.shape == b.shape
                if b.size:
                    expected = linalg.solve_triangular(a, b, trans=int(transposed), lower=lower)
                    np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-14)
    positive = a @ a.T + np.eye(n)
    if b.size:
        x = k.cho_solve(k.cho_factor(positive), b)
        np.testing.assert_allclose(positive @ x, b, rtol=1e-10, atol=1e-12)


def test_triangles_that_cannot_be_solved() -> None:
    for a in (np.diag([1.0, 0.0, 2.0]), np.array([[0.0]])):
        with pytest.raises(np.linalg.LinAlgError, match="zero"):
            k.solve_triangular(a, np.ones(len(a)))
    broken = np.diag([1.0, np.nan])
    for act in (lambda: k.solve_triangular(broken, np.ones(2)), lambda: k.cho_factor(broken)):
        with pytest.raises(ValueError, match="not finite"):
            act()
    assert np.isnan(k.solve_triangular(np.eye(2), np.array([np.nan, 1.0]), check_finite=False)[0])
    with pytest.raises(np.linalg.LinAlgError):
        k.cho_factor(-np.eye(2))


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("T", [2, 3, 64, 255, 256, 300, 1100])
def test_filtered_panels_are_the_filtered_lines_of_the_regressor(T: int, ends: bool) -> None:
    rng = np.random.default_rng(T)
    tree, (q, dq, ddq) = random_tree(T, 5, 0.3), random_motion(T, T, 5)
    further = [rng.normal(0, 1, (j % 3, T)) for j in range(5)]
    columns, joints = rng.random(50) < 0.6, np.array([True, True, False, True, False])
    sos = butter(4, 0.1, output="sos")
    settled, pad = sosfilt_zi(sos), min(211, T - 1) if ends else 0
    panels = k.torque_regressor(tree, q, dq, ddq, columns)
    for shown in (None, joints):
        found = k.filtered_panels(tree, q, dq, ddq, further, columns, shown, sos, settled, pad, 2, 3)
        for j, (own, values) in enumerate(zip(found.columns, found.values, strict=True)):
            asked = shown is None or shown[j]
            np.testing.assert_array_equal(own, panels.columns[j] if asked else [])
            lines = np.concatenate([panels.values[j] if asked else panels.values[j][:0], further[j]])
            np.testing.assert_array_equal(values, k.zero_phase(lines, sos, settled, pad, 2, 3))


@pytest.mark.parametrize("order", [1, 3, 4, 8])
def test_what_a_line_is_filtered_with_does_not_change_a_byte(order: int) -> None:
    lines = np.random.default_rng(order).normal(0, 1, (35, 700))
    sos = butter(order, 0.1, output="sos")
    whole = k.zero_phase(lines, sos, sosfilt_zi(sos), 100)
    for first, last in ((0, 1), (3, 11), (9, 26), (1, 35)):
        part = k.zero_phase(lines[first:last], sos, sosfilt_zi(sos), 100)
        np.testing.assert_array_equal(part, whole[first:last])


def test_panels_may_be_parts_of_others() -> None:
    whole = np.random.default_rng(0).normal(0, 1, (9, 900))
    for part in (whole[:, 100:300], whole[:, ::2], whole[:, :1], whole.T.copy().T):
        np.testing.assert_array_equal(k.qr_panel(part), k.qr_panel(part.copy()))


def test_equations_that_have_no_solution_end_in_errors_with_an_exit_code() -> None:
    """A caller who gives up on errors of the library gives up on these, too."""
    broken = np.array([[1.0, np.inf], [0.0, 1.0]])
    for act in (lambda: k.solve_triangular(broken, np.ones(2)), lambda: k.cho_factor(broken)):
        with pytest.raises(SolverError, match=r"error\[not-finite\]"):
            act()
    for act in (lambda: k.solve_triangular(np.zeros((2, 2)), np.ones(2)), lambda: k.cho_factor(-np.eye(2))):
        with pytest.raises(SolverError, match=r"error\[singular\]"):
            act()
