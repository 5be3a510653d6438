"""The numeric kernel: regressors of kinematic trees, triangular factors and filters; native if built, else NumPy.

Both backends run the same algorithms and agree up to rounding. `backend()` names the one in use. The environment
variable DYNID_KERNEL=numpy, or `with using("numpy")`, selects NumPy.

Shapes: T samples, n joints and bodies, w columns that are not structurally zero. Column 10 j + k is inertial parameter
k of body j, in the order m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint frame. Motion is in SI units.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
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
from dynid.kernel.tree import Panels, Tree, joint_columns

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
# Numbers of the regressors in the native kernel.
_TORQUE, _MOMENTUM, _MOMENTUM_RATE, _KINETIC, _POTENTIAL = range(5)
# The same in NumPy, in this order.
_REFERENCES: tuple[Callable[..., Any], ...] = (
    reference.torque_regressor,
    reference.momentum_regressor,
    reference.momentum_rate_regressor,
    reference.kinetic_energy_regressor,
    reference.potential_energy_regressor,
)
_asked = os.environ.get("DYNID_KERNEL", "")
if _asked not in ("", "numpy", "native") or (_asked == "native" and _native is None):
    raise UsageError(
        "kernel",
        found=f"DYNID_KERNEL='{_asked}'",
        expected="'numpy' or nothing" if _native is None else "'numpy', 'native' or nothing",
    )
_native_wanted = ContextVar("native_wanted", default=_asked != "numpy")


def backend() -> str:
    """Return the kernel in use: "native (avx512)", "native (avx2)", "native (baseline)" or "numpy"."""
    native = _chosen()
    return f"native ({native.instruction_set()})" if native is not None else "numpy"


@contextmanager
def using(name: str) -> Iterator[None]:
    """Run a block of code with one of the kernels.

    Parameters
    ----------
    name : {"native", "numpy"}
        The kernel.

    Raises
    ------
    UsageError
        For another name, and for "native" if it was not built.

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
    """Torque regressor Y(q, dq, ddq) with tau = Y pi, without structurally zero columns.

    Source: Atkeson, An and Hollerbach 1986.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns; None = all.
    threads : int
        Number of threads.

    Returns
    -------
    Panels

    Raises
    ------
    UsageError
        For arrays of other shapes.

    """
    return _joint_panels(tree, _TORQUE, (q, dq, ddq), columns, threads)


def momentum_regressor(
    tree: Tree, q: Float, dq: Float, columns: Bool | None = None, threads: int = 1
) -> Panels:
    """Momentum regressor P(q, dq) with P pi = M(q) dq.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq : ndarray, shape (T, n)
        Position and velocity of the joints.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns; None = all.
    threads : int
        Number of threads.

    Returns
    -------
    Panels

    """
    return _joint_panels(tree, _MOMENTUM, (q, dq), columns, threads)


def momentum_rate_regressor(
    tree: Tree, q: Float, dq: Float, columns: Bool | None = None, threads: int = 1
) -> Panels:
    """Regressor R(q, dq) with R pi = -C'(q, dq) dq + g(q), so that Y pi = d(P pi)/dt + R pi.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq : ndarray, shape (T, n)
        Position and velocity of the joints.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns; None = all.
    threads : int
        Number of threads.

    Returns
    -------
    Panels

    """
    return _joint_panels(tree, _MOMENTUM_RATE, (q, dq), columns, threads)


def kinetic_energy_regressor(
    tree: Tree, q: Float, dq: Float, columns: Bool | None = None, threads: int = 1
) -> Float:
    """Regressor K of the kinetic energy, with pi' K = dq' M(q) dq / 2 over the wanted columns.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq : ndarray, shape (T, n)
        Position and velocity of the joints.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns; None = all.
    threads : int
        Number of threads.

    Returns
    -------
    ndarray, shape (w, T)

    """
    return _energy_lines(tree, _KINETIC, (q, dq), columns, threads)


def potential_energy_regressor(tree: Tree, q: Float, columns: Bool | None = None, threads: int = 1) -> Float:
    """Regressor U of the potential energy, with pi' U = potential energy, zero at the base origin.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q : ndarray, shape (T, n)
        Position of the joints.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns; None = all.
    threads : int
        Number of threads.

    Returns
    -------
    ndarray, shape (w, T)

    """
    return _energy_lines(tree, _POTENTIAL, (q,), columns, threads)


def inverse_dynamics(tree: Tree, inertia: Float, q: Float, dq: Float, ddq: Float, threads: int = 1) -> Float:
    """Joint torque for inertial parameters, which need not be physically consistent.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    threads : int
        Number of threads.

    Returns
    -------
    ndarray, shape (T, n), N m (N)

    """
    _check(tree, q, dq, ddq)
    pi = _contiguous(np.reshape(inertia, (tree.n, 10)))
    if (native := _chosen()) is not None:
        wanted = np.asarray(pi.ravel() != 0)
        return np.asarray(
            native.torque(*_data(tree, wanted), pi.ravel(), *map(_contiguous, (q, dq, ddq)), threads)
        )
    return reference.inverse_dynamics(tree, pi, q, dq, ddq)


def gravity_torque(tree: Tree, inertia: Float, q: Float) -> Float:
    """Gravity torque g(q), (T, n), for inertial parameters (n, 10) and positions (T, n).

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q : ndarray, shape (T, n)
        Position of the joints.

    Returns
    -------
    ndarray, shape (T, n), N m (N)

    """
    return inverse_dynamics(tree, inertia, q, np.zeros_like(q), np.zeros_like(q))


def nonlinear_effects(tree: Tree, inertia: Float, q: Float, dq: Float) -> Float:
    """Nonlinear effects C(q, dq) dq + g(q).

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q, dq : ndarray, shape (T, n)
        Position and velocity of the joints.

    Returns
    -------
    ndarray, shape (T, n), N m (N)

    """
    return inverse_dynamics(tree, inertia, q, dq, np.zeros_like(q))


def equations_of_motion(
    tree: Tree, inertia: Float, q: Float, dq: Float, threads: int = 1
) -> tuple[Float, Float]:
    """Mass matrix M(q) and bias h(q, dq) = C dq + g, with tau = M ddq + h.

    Source: composite rigid bodies, Walker and Orin 1982.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q, dq : ndarray, shape (T, n)
        Position and velocity of the joints.
    threads : int
        Number of threads.

    Returns
    -------
    M : ndarray, shape (T, n, n)
    h : ndarray, shape (T, n)

    """
    _check(tree, q, dq)
    pi = _contiguous(np.reshape(inertia, (tree.n, 10)))
    if (native := _chosen()) is not None:
        M, h = native.dynamics(*_whole(tree), pi.ravel(), _contiguous(q), _contiguous(dq), threads)
        return np.asarray(M), np.asarray(h)
    return reference.equations_of_motion(tree, pi, q, dq)


def forward_dynamics(tree: Tree, inertia: Float, q: Float, dq: Float, tau: Float, threads: int = 1) -> Float:
    """Joint acceleration M^-1 (tau - C dq - g).

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q, dq : ndarray, shape (T, n)
        Position and velocity of the joints.
    tau : ndarray, shape (T, n), N m (N)
        Joint torque.
    threads : int
        Number of threads.

    Returns
    -------
    ndarray, shape (T, n), rad/s^2 (m/s^2)

    Raises
    ------
    SolverError
        If a mass matrix is not positive definite.

    """
    _check(tree, q, dq, tau)
    M, h = equations_of_motion(tree, inertia, q, dq, threads)
    return solved(M, tau - h)


def solved(M: Float, force: Float) -> Float:
    """Solve M x = force for symmetric positive definite matrices.

    Parameters
    ----------
    M : ndarray, shape (T, n, n)
        Matrices.
    force : ndarray, shape (T, n)
        Right-hand sides.

    Returns
    -------
    ndarray, shape (T, n)
        nan if a matrix is not finite.

    Raises
    ------
    SolverError
        If a matrix is not positive definite.

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
    # A diverging motion leads to infinite matrices; its integrator reports it.
    if not np.isfinite(M).all():
        return np.full_like(force, np.nan)
    raise SolverError(
        "singular-mass-matrix",
        found="a mass matrix that is not positive definite",
        expected="inertia that moves with each joint",
    )


def mass_matrix(tree: Tree, inertia: Float, q: Float) -> Float:
    """Mass matrix M(q).

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q : ndarray, shape (T, n)
        Position of the joints.

    Returns
    -------
    ndarray, shape (T, n, n)

    """
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
    """Triangular factor or Gram matrix of X = [Y extra tau] for each joint, without storing the regressor Y.

    The result does not depend on the number of threads.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    tau : ndarray, shape (T, n), N m (N)
        Joint torque.
    extra : sequence of ndarray, shape (e, T), optional
        Further columns of X for each joint, such as its friction, one per row.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns of Y; None = all.
    method : {"qr", "gram"}
        "qr" = upper triangular R with non-negative diagonal; "gram" = X'X.
    threads : int
        Number of threads.

    Returns
    -------
    list of ndarray, shape (w + e + 1, w + e + 1)
        One per joint.

    Raises
    ------
    UsageError
        For another method, and for arrays of other shapes.

    """
    if method not in ("qr", "gram"):
        raise UsageError("method", found=f"method '{method}'", expected="'qr' or 'gram'")
    wanted = _wanted(tree, columns)
    _check(tree, q, dq, ddq, tau)
    more = [np.zeros((0, len(q)))] * tree.n if extra is None else list(extra)
    if len(more) != tree.n or any(lines.shape[1:] != (len(q),) for lines in more):
        raise UsageError(
            "array-shape",
            found=f"extra columns of shapes {[lines.shape for lines in more]}",
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
    """Sum of weighted Gram matrices weights[g] X_g X_g' of groups of lines, scattered into one matrix.

    Parameters
    ----------
    lines : ndarray, shape (R, T)
        X; group g is the rows ends[g] to ends[g + 1].
    ends : ndarray of int, shape (G + 1,)
        First row of each group, and R.
    places : ndarray of int, shape (R,)
        Row and column of each line in the result; distinct within a group.
    weights : ndarray, shape (G,)
        Weight of each group.
    size : int
        Size of the result.

    Returns
    -------
    ndarray, shape (size, size)

    Raises
    ------
    UsageError
        For arrays that do not fit together.

    """
    steps = np.diff(ends, prepend=0, append=len(lines))
    if len(ends) != len(weights) + 1 or len(places) != len(lines) or (steps < 0).any():
        raise UsageError(
            "array-shape",
            found=f"{len(ends)} ends, {len(weights)} weights and {len(places)} places for {len(lines)} lines",
            expected="one place per line, and ascending ends, one more than weights",
        )
    if len(places) and not (places.min() >= 0 and places.max() < size):
        raise UsageError("array-shape", found=f"places up to {places.max()}", expected=f"0 to {size - 1}")
    if (native := _chosen()) is not None:
        numbers = (np.ascontiguousarray(values, dtype=np.int32) for values in (ends, places))
        return np.asarray(native.gathered_gram(lines, *numbers, weights, size))
    return factoring.gathered_gram(lines, ends, places, weights, size)


class NotFiniteError(SolverError, ValueError):
    """Linear equations with numbers that are not finite, for example after a diverging simulation."""

    def __init__(self) -> None:
        super().__init__(
            "not-finite",
            found="linear equations with numbers that are not finite",
            expected="finite numbers; a simulated motion or a value of the log diverges",
            do="check the declared units, gains and delays, or use another estimator, such as 'wls'",
        )


class SingularError(SolverError, np.linalg.LinAlgError):
    """Linear equations without a unique solution; problem: what is wrong with them."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            "singular",
            found=f"linear equations with {problem}",
            expected="a unique solution",
            do="record a longer motion, or use fewer terms",
        )


def qr_panel(panel: Float) -> Float:
    """Upper triangular factor R of a matrix, with R'R = panel panel' and a diagonal >= 0.

    Parameters
    ----------
    panel : ndarray, shape (w, T)
        The transposed matrix, one column per line.

    Returns
    -------
    ndarray, shape (w, w)

    """
    if (native := _chosen()) is not None:
        gapless = panel.dtype == np.float64 and panel.strides[1] == panel.itemsize
        return np.asarray(native.qr_panel(panel if gapless else _contiguous(panel)))
    return factoring.qr_panel(panel)


def solve_triangular(
    a: Numbers, b: Numbers, transposed: bool = False, lower: bool = False, check_finite: bool = True
) -> Float:
    """Solve a x = b for a triangular matrix.

    Parameters
    ----------
    a : ndarray, shape (n, n)
        Only one triangle is used.
    b : ndarray, shape (n,) or (n, k)
        Right-hand sides.
    transposed : bool
        Solve a' x = b.
    lower : bool
        Use the lower triangle of a, not the upper one.
    check_finite : bool
        Check that all numbers are finite.

    Returns
    -------
    ndarray, shape (n,) or (n, k)

    Raises
    ------
    NotFiniteError
        For numbers that are not finite.
    SingularError
        For a zero on the diagonal.

    """
    if check_finite and not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise NotFiniteError
    if not b.size:
        return np.zeros(b.shape)
    diagonal = a.diagonal()
    if not diagonal.all():
        raise SingularError(f"a zero on the diagonal of their triangle (index {np.argmin(diagonal != 0.0)})")
    if not a.flags.c_contiguous and a.flags.f_contiguous:
        a, transposed, lower = a.T, not transposed, not lower
    if (native := _chosen()) is not None:
        return np.asarray(native.triangle_solve(_contiguous(a), _contiguous(b), transposed, lower))
    return factoring.triangle_solve(_contiguous(a), _contiguous(b), transposed, lower)


def cho_factor(a: Numbers) -> Float:
    """Cholesky factor L of a symmetric positive definite matrix, a = L L', for `cho_solve`.

    Parameters
    ----------
    a : ndarray, shape (n, n)
        The matrix.

    Returns
    -------
    ndarray, shape (n, n)
        Lower triangular.

    Raises
    ------
    NotFiniteError
        For numbers that are not finite.
    SingularError
        If the matrix is not positive definite.

    """
    if not np.isfinite(a).all():
        raise NotFiniteError
    try:
        return np.asarray(np.linalg.cholesky(a), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise SingularError("a matrix that is not positive definite") from error


def cho_solve(factor: Float, b: Numbers) -> Float:
    """Solve L L' x = b with the factor L of `cho_factor`.

    Parameters
    ----------
    factor : ndarray, shape (n, n)
        L, lower triangular.
    b : ndarray, shape (n,) or (n, k)
        Right-hand sides.

    Returns
    -------
    ndarray, shape (n,) or (n, k)

    Raises
    ------
    NotFiniteError
        For numbers that are not finite.

    """
    return solve_triangular(factor, solve_triangular(factor, b, lower=True), transposed=True, lower=True)


def zero_phase(lines: Float, sos: Float, settled: Float, pad: int, start: int = 0, step: int = 1) -> Float:
    """Filter lines forward and backward with second-order sections, which gives zero phase.

    Parameters
    ----------
    lines : ndarray, shape (L, T)
        Signals.
    sos : ndarray, shape (s, 6)
        At most four sections.
    settled : ndarray, shape (s, 2)
        State of the sections after a constant input of 1.
    pad : int
        Samples of odd reflection at both ends, < T.
    start, step : int
        First returned sample, and distance between returned samples.

    Returns
    -------
    ndarray, shape (L, kept)

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
    """Torque regressor and further lines of each joint, filtered with `zero_phase`.

    The native kernel filters each line of the regressor as soon as it is computed, without storing it.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    further : sequence of ndarray, shape (e, T)
        Further lines of each joint.
    columns : ndarray of bool, shape (10 n,), optional
        Wanted columns; None = all.
    joints : ndarray of bool, shape (n,), optional
        Joints whose regressor is wanted; None = all.
    sos, settled, pad, start, step
        As for `zero_phase`.

    Returns
    -------
    Panels
        Values of shape (w + e, kept) per joint; the columns are those of the regressor alone.

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
    """Least and greatest value of each line; nan for a line that contains nan.

    Parameters
    ----------
    lines : ndarray, shape (L, T)
        Signals; contiguous arrays are not copied.
    first : int
        First sample.
    count : int, optional
        Number of samples, at least one; None = all that follow.

    Returns
    -------
    ndarray, shape (L, 2)

    """
    count = lines.shape[1] - first if count is None else count
    if (native := _chosen()) is not None:
        return np.asarray(native.line_ranges(_contiguous(lines), first, count))
    window = lines[:, first : first + count]
    return np.stack([window.min(axis=1), window.max(axis=1)], axis=1)


def line_moments(lines: Float) -> Float:
    """Sum of values, of their squares and of the squares of their differences: (L, 3) for lines (L, T), T >= 1."""
    if (native := _chosen()) is not None:
        return np.asarray(native.line_moments(_contiguous(lines)))
    steps = np.diff(lines)
    return np.stack([lines.sum(axis=1), np.vecdot(lines, lines), np.vecdot(steps, steps)], axis=1)


def line_unevenness(lines: Float, share: float, first: int = 0, count: int | None = None) -> Float:
    """Greatest unevenness of each line, and how many samples have less than a share of it.

    Unevenness is the distance of the change over three samples from the mean of the changes over the three samples
    before and after it. Lines must be finite.

    Parameters
    ----------
    lines : ndarray, shape (L, T)
        Signals.
    share : float
        Share of the greatest unevenness.
    first, count : int
        As for `line_ranges`; at least ten samples.

    Returns
    -------
    ndarray, shape (L, 2)

    """
    count = lines.shape[1] - first if count is None else count
    if (native := _chosen()) is not None:
        return np.asarray(native.line_unevenness(_contiguous(lines), first, count, share))
    return factoring.line_unevenness(lines[:, first : first + count], share)


def stop_operator(past: Sequence[float], path: Float) -> Float:
    """State of an elastic element that slides at +-1, the stop operator of Prandtl and Ishlinskii.

    Parameters
    ----------
    past : sequence of float
        Turning points before the path; the element is at rest at the first one.
    path : ndarray, shape (T,)
        Positions.

    Returns
    -------
    ndarray, shape (T,)

    """
    before = past[0] if past else float(path[0]) if len(path) else 0.0
    before, state = factoring.stopped(past, before, 0.0)
    if (native := _chosen()) is not None:
        return np.asarray(native.stop_operator(_contiguous(path), before, state))
    return factoring.stop_operator(path, before, state)


def release_memory() -> None:
    """Return free heap memory to the system, if the C library can; used between stages of long work."""
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
    # Cached, since forward dynamics uses the same tree thousands of times, one state at a time.
    return _data(tree, np.ones(10 * tree.n, dtype=np.bool_))


def _native_lines(
    native: Any, tree: Tree, quantity: int, motion: tuple[Float, ...], wanted: Bool, threads: int
) -> tuple[Float, list[int]]:
    # The native kernel takes q, dq and ddq, and does not read those that the quantity does not depend on.
    filled = map(_contiguous, (*motion, motion[-1], motion[-1])[:3])
    lines, first = native.regressor(*_data(tree, wanted), quantity, *filled, threads)
    return np.asarray(lines), list(first)


def _joint_panels(
    tree: Tree, quantity: int, motion: tuple[Float, ...], columns: Bool | None, threads: int
) -> Panels:
    wanted = _wanted(tree, columns)
    _check(tree, *motion)
    if (native := _chosen()) is None:
        panels: Panels = _REFERENCES[quantity](tree, *motion, wanted)
        return panels
    lines, first = _native_lines(native, tree, quantity, motion, wanted, threads)
    return Panels(joint_columns(tree, wanted), tuple(lines[a:b] for a, b in pairwise(first)))


def _energy_lines(
    tree: Tree, quantity: int, motion: tuple[Float, ...], columns: Bool | None, threads: int
) -> Float:
    wanted = _wanted(tree, columns)
    _check(tree, *motion)
    if (native := _chosen()) is None:
        return np.asarray(_REFERENCES[quantity](tree, *motion, wanted))
    return _native_lines(native, tree, quantity, motion, wanted, threads)[0]
