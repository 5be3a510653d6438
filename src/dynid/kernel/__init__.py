"""The numeric kernel: regressors of trees, triangular factors and filters; native where built, else NumPy.

Both backends run the same algorithms and agree to rounding. `backend()` names the one in use; the environment
variable DYNID_KERNEL=numpy, or `with using("numpy")`, selects the NumPy one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import SolverError, UsageError
from dynid.kernel import factoring, reference
from dynid.kernel.panels import Panels, joint_columns
from dynid.kernel.tree import Tree

try:
    from dynid.kernel import _native  # type: ignore[attr-defined,unused-ignore]  # built or not
except ImportError:
    _native = None

__all__ = [
    "NotFiniteError",
    "Panels",
    "SingularError",
    "Tree",
    "backend",
    "cho_factor",
    "cho_solve",
    "equations_of_motion",
    "factor_torque",
    "filtered_panels",
    "forward_dynamics",
    "gathered_gram",
    "gravity_torque",
    "inverse_dynamics",
    "joint_columns",
    "kinetic_energy_regressor",
    "mass_matrix",
    "momentum_rate_regressor",
    "momentum_regressor",
    "nonlinear_effects",
    "potential_energy_regressor",
    "qr_panel",
    "solve_triangular",
    "solved",
    "stop_operator",
    "torque_regressor",
    "using",
    "zero_phase",
]

Numbers = npt.NDArray[np.floating[Any]]
_TORQUE, _MOMENTUM, _MOMENTUM_RATE, _KINETIC, _POTENTIAL = range(5)
_asked = os.environ.get("DYNID_KERNEL", "")
if _asked not in ("", "numpy", "native") or (_asked == "native" and _native is None):
    raise UsageError(
        "kernel",
        found=f"DYNID_KERNEL='{_asked}'",
        expected="'numpy' or nothing" if _native is None else "'numpy', 'native' or nothing",
    )
_native_wanted = ContextVar("native_wanted", default=_asked != "numpy")


def backend() -> str:
    """Name of the kernel in use: "native (avx512)", "native (avx2)", "native (baseline)" or "numpy"."""
    native = _chosen()
    return f"native ({native.instruction_set()})" if native is not None else "numpy"


@contextmanager
def using(name: str) -> Iterator[None]:
    """Runs a block of code with the "native" or the "numpy" kernel.

    Raises UsageError for another name, or for "native" when it was not built.
    """
    if name not in ("native", "numpy") or (name == "native" and _native is None):
        raise UsageError(
            "kernel", found=f"kernel '{name}'", expected="'numpy'" + (" or 'native'" if _native else "")
        )
    token = _native_wanted.set(name == "native")
    try:
        yield
    finally:
        _native_wanted.reset(token)


def torque_regressor(
    tree: Tree, q: Float, dq: Float, ddq: Float, columns: Bool | None = None, threads: int = 1
) -> Panels:
    """Torque regressor Y with tau = Y(q, dq, ddq) pi, structurally zero columns left out.

    q, dq, ddq: (T, n), SI.    columns: (10 n,) mask of the wanted columns, None = all.
    Source: Atkeson, An and Hollerbach 1986.
    """
    wanted = _wanted(tree, columns)
    _check(tree, q, dq, ddq)
    if (native := _chosen()) is not None:
        return _joint_panels(native, tree, _TORQUE, q, dq, ddq, wanted, threads)
    return reference.torque_regressor(tree, q, dq, ddq, wanted)


def momentum_regressor(
    tree: Tree, q: Float, dq: Float, columns: Bool | None = None, threads: int = 1
) -> Panels:
    """Generalised momentum P with P(q, dq) pi = M(q) dq; q, dq: (T, n)."""
    wanted = _wanted(tree, columns)
    _check(tree, q, dq)
    if (native := _chosen()) is not None:
        return _joint_panels(native, tree, _MOMENTUM, q, dq, dq, wanted, threads)
    return reference.momentum_regressor(tree, q, dq, wanted)


def momentum_rate_regressor(
    tree: Tree, q: Float, dq: Float, columns: Bool | None = None, threads: int = 1
) -> Panels:
    """R with R(q, dq) pi = -C'(q, dq) dq + g(q), so that Y pi = d(P pi)/dt + R pi; q, dq: (T, n)."""
    wanted = _wanted(tree, columns)
    _check(tree, q, dq)
    if (native := _chosen()) is not None:
        return _joint_panels(native, tree, _MOMENTUM_RATE, q, dq, dq, wanted, threads)
    return reference.momentum_rate_regressor(tree, q, dq, wanted)


def kinetic_energy_regressor(
    tree: Tree, q: Float, dq: Float, columns: Bool | None = None, threads: int = 1
) -> Float:
    """Lines K (w, T) with pi' K = dq' M(q) dq / 2 over the wanted columns; q, dq: (T, n)."""
    wanted = _wanted(tree, columns)
    _check(tree, q, dq)
    if (native := _chosen()) is not None:
        return _lines(native, tree, _KINETIC, q, dq, dq, wanted, threads)[0]
    return reference.kinetic_energy_regressor(tree, q, dq, wanted)


def potential_energy_regressor(tree: Tree, q: Float, columns: Bool | None = None, threads: int = 1) -> Float:
    """Lines U (w, T), pi' U = potential energy over the wanted columns, zero at the base origin."""
    wanted = _wanted(tree, columns)
    _check(tree, q)
    if (native := _chosen()) is not None:
        return _lines(native, tree, _POTENTIAL, q, q, q, wanted, threads)[0]
    return reference.potential_energy_regressor(tree, q, wanted)


def inverse_dynamics(tree: Tree, inertia: Float, q: Float, dq: Float, ddq: Float, threads: int = 1) -> Float:
    """Joint torque (T, n) for inertial parameters (n, 10), which need not belong to physically consistent bodies."""
    _check(tree, q, dq, ddq)
    pi = _contiguous(np.reshape(inertia, (tree.n, 10)))
    if (native := _chosen()) is not None:
        wanted = np.asarray(pi.ravel() != 0)
        return np.asarray(
            native.torque(*_data(tree, wanted), pi.ravel(), *map(_contiguous, (q, dq, ddq)), threads)
        )
    return reference.inverse_dynamics(tree, pi, q, dq, ddq)


def gravity_torque(tree: Tree, inertia: Float, q: Float) -> Float:
    """g(q), (T, n)."""
    return inverse_dynamics(tree, inertia, q, np.zeros_like(q), np.zeros_like(q))


def nonlinear_effects(tree: Tree, inertia: Float, q: Float, dq: Float) -> Float:
    """C(q, dq) dq + g(q), (T, n)."""
    return inverse_dynamics(tree, inertia, q, dq, np.zeros_like(q))


def equations_of_motion(
    tree: Tree, inertia: Float, q: Float, dq: Float, threads: int = 1
) -> tuple[Float, Float]:
    """Mass matrix M(q), (T, n, n), and bias h(q, dq) = C dq + g, (T, n), with tau = M ddq + h; q, dq: (T, n).

    inertia: (n, 10).    Source: composite rigid bodies, Walker and Orin 1982.
    """
    _check(tree, q, dq)
    pi = _contiguous(np.reshape(inertia, (tree.n, 10)))
    if (native := _chosen()) is not None:
        M, h = native.dynamics(*_whole(tree), pi.ravel(), _contiguous(q), _contiguous(dq), threads)
        return np.asarray(M), np.asarray(h)
    return reference.equations_of_motion(tree, pi, q, dq)


def forward_dynamics(tree: Tree, inertia: Float, q: Float, dq: Float, tau: Float, threads: int = 1) -> Float:
    """Joint acceleration M^-1 (tau - C dq - g), (T, n); q, dq, tau: (T, n), inertia (n, 10).

    Raises SolverError if a mass matrix is not positive definite.
    """
    _check(tree, q, dq, tau)
    M, h = equations_of_motion(tree, inertia, q, dq, threads)
    return solved(M, tau - h)


def solved(M: Float, force: Float) -> Float:
    """M^-1 force for symmetric matrices (T, n, n) and vectors (T, n).

    Raises SolverError if a matrix is not positive definite.
    """
    if (native := _chosen()) is not None:
        x, positive = native.solve(_contiguous(M), _contiguous(force))
        if positive:
            return np.asarray(x)
    else:
        try:
            np.linalg.cholesky(M)
            return np.asarray(np.linalg.solve(M, force[:, :, None])[:, :, 0])
        except np.linalg.LinAlgError:
            pass
    # Infinity is what a motion that runs off leaves behind; its integrator says so.
    if not np.isfinite(M).all():
        return np.full_like(force, np.nan)
    raise SolverError(
        "singular-mass-matrix",
        found="a mass matrix that is not positive definite",
        expected="every joint to move some inertia",
    )


def mass_matrix(tree: Tree, inertia: Float, q: Float) -> Float:
    """M(q), (T, n, n)."""
    return equations_of_motion(tree, inertia, q, np.zeros_like(q))[0]


def factor_torque(
    tree: Tree,
    q: Float,
    dq: Float,
    ddq: Float,
    tau: Float,
    extra: Sequence[Float] | None = None,
    columns: Bool | None = None,
    method: str = "qr",
    threads: int = 1,
) -> list[Float]:
    """Per joint the triangular factor or the Gram matrix of [Y extra tau]; the regressor is never stored.

    q, dq, ddq, tau: (T, n).    extra: per joint (e, T) further lines, e.g. its friction.
    columns: (10 n,) mask.    method: "qr" -> upper triangular R with non-negative diagonal; "gram" -> X'X.
    The result does not depend on the number of threads.
    """
    if method not in ("qr", "gram"):
        raise UsageError("method", found=f"method '{method}'", expected="'qr' or 'gram'")
    wanted = _wanted(tree, columns)
    _check(tree, q, dq, ddq, tau)
    more = [np.zeros((0, len(q)))] * tree.n if extra is None else list(extra)
    if len(more) != tree.n or any(lines.shape[1:] != (len(q),) for lines in more):
        raise UsageError(
            "array-shape",
            found=f"extra lines of shapes {[lines.shape for lines in more]}",
            expected=f"(any, {len(q)}) for each of {tree.n} joints",
        )
    if (native := _chosen()) is None:
        return factoring.factor_torque(tree, q, dq, ddq, tau, more, wanted, method)
    owner = np.repeat(np.arange(tree.n), [len(lines) for lines in more])
    lines = np.ascontiguousarray(np.concatenate(more), dtype=np.float64)
    arguments = (
        *_data(tree, wanted),
        *map(_contiguous, (q, dq, ddq)),
        lines,
        owner.astype(np.int32),
        _contiguous(tau),
    )
    return list(native.fused(*arguments, 0 if method == "qr" else 1, threads))


def gathered_gram(lines: Float, ends: Int, places: Int, weights: Float, size: int) -> Float:
    """Sum of the groups' Gram matrices, weights[g] X_g X_g', line r of them at row and column places[r]; (size, size).

    lines: (R, T), group g the rows ends[g] to ends[g + 1].    places: (R,), different within a group.
    Raises UsageError for numbers that do not fit.
    """
    steps = np.diff(ends, prepend=0, append=len(lines))
    if len(ends) != len(weights) + 1 or len(places) != len(lines) or (steps < 0).any():
        raise UsageError(
            "array-shape",
            found=f"{len(ends)} ends, {len(weights)} weights, {len(places)} places of {len(lines)} lines",
            expected="a place a line, and ascending ends, one more than weights",
        )
    if len(places) and not (places.min() >= 0 and places.max() < size):
        raise UsageError("array-shape", found=f"places up to {places.max()}", expected=f"0 to {size - 1}")
    if (native := _chosen()) is not None:
        numbers = (np.ascontiguousarray(values, dtype=np.int32) for values in (ends, places))
        return np.asarray(native.gathered_gram(lines, *numbers, weights, size))
    return factoring.gathered_gram(lines, ends, places, weights, size)


class NotFiniteError(SolverError, ValueError):
    """Linear equations with numbers that are not finite, as a simulated motion that runs off leaves them behind."""

    def __init__(self) -> None:
        super().__init__(
            "not-finite",
            found="linear equations with numbers that are not finite",
            expected="finite ones: a motion that was simulated or a value of the log has run off",
            do="check units, gains and delays that were declared, or use another estimator, such as 'wls'",
        )


class SingularError(SolverError, np.linalg.LinAlgError):
    """Linear equations without a single solution."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            "singular",
            found=f"linear equations with {problem}",
            expected="equations that determine every unknown",
            do="record a longer motion, or use fewer terms",
        )


def qr_panel(panel: Float) -> Float:
    """Upper triangular R (w, w), diagonal >= 0, with R'R = panel panel' for a panel (w, T) of lines."""
    if (native := _chosen()) is not None:
        gapless = panel.dtype == np.float64 and panel.strides[1] == panel.itemsize
        return np.asarray(native.qr_panel(panel if gapless else _contiguous(panel)))
    return factoring.qr_panel(panel)


def solve_triangular(
    a: Numbers, b: Numbers, transposed: bool = False, lower: bool = False, check_finite: bool = True
) -> Float:
    """The x with a x = b, or a' x = b, for the upper or the lower triangle of a (n, n); b, x: (n,) or (n, k).

    Raises NotFiniteError for numbers that are not finite, SingularError for a zero on the diagonal.
    """
    if check_finite and not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise NotFiniteError
    if not b.size:
        return np.zeros(b.shape)
    diagonal = a.diagonal()
    if not diagonal.all():
        raise SingularError(f"a zero on the diagonal of their triangle (number {np.argmin(diagonal != 0.0)})")
    if not a.flags.c_contiguous and a.flags.f_contiguous:
        a, transposed, lower = a.T, not transposed, not lower
    if (native := _chosen()) is not None:
        return np.asarray(native.triangle_solve(_contiguous(a), _contiguous(b), transposed, lower))
    return factoring.triangle_solve(_contiguous(a), _contiguous(b), transposed, lower)


def cho_factor(a: Numbers) -> Float:
    """Lower triangle L with L L' = a, a symmetric matrix (n, n), for `cho_solve`.

    Raises NotFiniteError for numbers that are not finite, SingularError unless it is positive definite.
    """
    if not np.isfinite(a).all():
        raise NotFiniteError
    try:
        return np.asarray(np.linalg.cholesky(a), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise SingularError("a matrix that is not positive definite") from error


def cho_solve(factor: Float, b: Numbers) -> Float:
    """The x with L L' x = b, (n,) or (n, k), for the L of `cho_factor`; NotFiniteError as there."""
    return solve_triangular(factor, solve_triangular(factor, b, lower=True), transposed=True, lower=True)


def zero_phase(lines: Float, sos: Float, settled: Float, pad: int, start: int = 0, step: int = 1) -> Float:
    """Runs a cascade of second-order sections forward and backward over each line (L, T): no phase.

    sos: (s, 6), s <= 4.    settled: (s, 2) state of the sections after a constant input of 1.
    pad: < T, samples of odd reflection at both ends.    start, step: samples that are returned, (L, kept).
    """
    if (native := _chosen()) is not None:
        return np.asarray(
            native.zero_phase(_contiguous(lines), _contiguous(sos), _contiguous(settled), pad, start, step)
        )
    return factoring.zero_phase(lines, sos, settled, pad, start, step)


def filtered_panels(
    tree: Tree,
    q: Float,
    dq: Float,
    ddq: Float,
    further: Sequence[Float],
    columns: Bool | None,
    joints: Bool | None,
    sos: Float,
    settled: Float,
    pad: int,
    start: int = 0,
    step: int = 1,
) -> Panels:
    """Per joint the torque regressor and further lines after it, through `zero_phase`; (any, kept).

    The native kernel stores no line of the regressor before it is filtered.
    further: per joint (e, T) lines.    columns: (10 n,) mask.    joints: (n,) whose regressor is wanted, None = all.
    """
    wanted = _wanted(tree, columns)
    _check(tree, q, dq, ddq)
    shown = np.ones(tree.n, dtype=np.bool_) if joints is None else joints
    kept_columns = tuple(
        c if asked else c[:0] for c, asked in zip(joint_columns(tree, wanted), shown, strict=True)
    )
    if (native := _chosen()) is None:
        lines = reference.torque_regressor(tree, q, dq, ddq, wanted).values
        panels = (
            np.concatenate([lines[j], further[j]]) if shown[j] else np.asarray(further[j])
            for j in range(tree.n)
        )
        filtered = (factoring.zero_phase(panel, sos, settled, pad, start, step) for panel in panels)
        return Panels(kept_columns, tuple(filtered))
    motion, low_pass = map(_contiguous, (q, dq, ddq)), map(_contiguous, (sos, settled))
    asked = np.ascontiguousarray(shown, dtype=np.int32)
    more = [_contiguous(lines) for lines in further]
    panels, first = native.filtered(*_data(tree, wanted), asked, *motion, more, *low_pass, pad, start, step)
    values = np.asarray(panels)
    return Panels(kept_columns, tuple(values[a:b] for a, b in pairwise(first)))


def line_ranges(lines: Float, first: int = 0, count: int | None = None) -> Float:
    """Least and greatest value of each line (L, T), as (L, 2); nan for a line that holds one.

    first, count: samples that are looked at, at least one; None = all that follow. Lines that lie one after the other
    in memory are not copied for it.
    """
    count = lines.shape[1] - first if count is None else count
    if (native := _chosen()) is not None:
        return np.asarray(native.line_ranges(_contiguous(lines), first, count))
    window = lines[:, first : first + count]
    return np.stack([window.min(axis=1), window.max(axis=1)], axis=1)


def line_moments(lines: Float) -> Float:
    """Sum of each line (L, T), T >= 1, of its squares and of the squares of its steps from sample to sample, (L, 3)."""
    if (native := _chosen()) is not None:
        return np.asarray(native.line_moments(_contiguous(lines)))
    steps = np.diff(lines)
    return np.stack([lines.sum(axis=1), np.vecdot(lines, lines), np.vecdot(steps, steps)], axis=1)


def line_unevenness(lines: Float, share: float, first: int = 0, count: int | None = None) -> Float:
    """The greatest unevenness of each line (L, T), and how many samples have less than a share of it, (L, 2).

    Uneven is by how much three steps exceed the mean of the three before and the three after. Finite lines alone have
    an unevenness.    first, count: as for `line_ranges`, at least ten samples.
    """
    count = lines.shape[1] - first if count is None else count
    if (native := _chosen()) is not None:
        return np.asarray(native.line_unevenness(_contiguous(lines), first, count, share))
    return factoring.line_unevenness(lines[:, first : first + count], share)


def stop_operator(past: Sequence[float], path: Float) -> Float:
    """State of an elastic element that slides at +-1, (T,), for a path (T,) that follows turning points of the past.

    It begins at rest, with the first of these points. Source: the stop of Prandtl and Ishlinskii.
    """
    before = past[0] if past else float(path[0]) if len(path) else 0.0
    before, state = factoring.stopped(past, before, 0.0)
    if (native := _chosen()) is not None:
        return np.asarray(native.stop_operator(_contiguous(path), before, state))
    return factoring.stop_operator(path, before, state)


def release_memory() -> None:
    """Gives heap memory that is free back to the system, where the C library can; between stages of long work."""
    if _native is not None:
        _native.release_memory()


def _chosen() -> Any:
    return _native if _native_wanted.get() else None


def _contiguous(values: Numbers) -> Float:
    return np.ascontiguousarray(values, dtype=np.float64)


def _wanted(tree: Tree, columns: Bool | None) -> Bool:
    if columns is None:
        return np.ones(10 * tree.n, dtype=np.bool_)
    if np.shape(columns) != (10 * tree.n,):
        raise UsageError(
            "array-shape", found=f"columns of shape {np.shape(columns)}", expected=f"({10 * tree.n},)"
        )
    return columns


def _check(tree: Tree, *arrays: Float) -> None:
    for array in arrays:
        if array.ndim != 2 or array.shape != (len(arrays[0]), tree.n):
            raise UsageError(
                "array-shape",
                found=f"motion of shape {array.shape}",
                expected=f"({len(arrays[0])}, {tree.n})",
            )


def _data(tree: Tree, wanted: Bool) -> tuple[Any, ...]:
    mask = (wanted.reshape(tree.n, 10) << np.arange(10)).sum(axis=1)
    return (
        np.ascontiguousarray(tree.parent, dtype=np.int32),
        np.ascontiguousarray(tree.prismatic, dtype=np.int32),
        tree.axis,
        tree.rotation,
        tree.translation,
        tree.gravity,
        np.ascontiguousarray(mask, dtype=np.int32),
    )


@lru_cache(maxsize=32)
def _whole(tree: Tree) -> tuple[Float | Int, ...]:
    # Forward dynamics asks for the same tree thousands of times, one state at a time.
    return _data(tree, np.ones(10 * tree.n, dtype=np.bool_))


def _lines(
    native: Any, tree: Tree, quantity: int, q: Float, dq: Float, ddq: Float, wanted: Bool, threads: int
) -> tuple[Float, list[int]]:
    lines, first = native.regressor(*_data(tree, wanted), quantity, *map(_contiguous, (q, dq, ddq)), threads)
    return np.asarray(lines), list(first)


def _joint_panels(
    native: Any, tree: Tree, quantity: int, q: Float, dq: Float, ddq: Float, wanted: Bool, threads: int
) -> Panels:
    lines, first = _lines(native, tree, quantity, q, dq, ddq, wanted, threads)
    values = tuple(lines[a:b] for a, b in pairwise(first))
    return Panels(joint_columns(tree, wanted), values)
