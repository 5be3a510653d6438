"""The task of a worker: reduce one log to a row with its factor, or with the reason for its failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Diagnostics, DynidError, Float, Int, Level, ResourceError, UnfitDataError, dataclass
from dynid.estimate import LARGEST_LEVERAGE
from dynid.factor import Factor, Factors
from dynid.fleet.plan import FleetLog, TypeModel
from dynid.identification import Experiment, factors_of, open_log
from dynid.log import file_hash

DONE, FAILED = "done", "failed"
# Relative size of singular values of a joint's factor below which a direction is not identifiable.
_NOTHING = 1e-9
# Stored bits of the mantissa for up to KEPT_COUNT equations; single precision has 23.
KEPT_BITS, KEPT_COUNT, _MANTISSA = 16, 4000, 23
# Models that a worker keeps in memory.
_MODELS = 64

LocalFile = Callable[[str], AbstractContextManager[Path]]


@dataclass(frozen=True, eq=False)
class LogRow:
    """The row of one log in the store.

    Attributes
    ----------
    log : FleetLog
        The log.
    status : str
        "done" or "failed".
    model : str
        Digest of the type's model.
    code, message : str
        Code and text of the error; empty without an error.
    again : bool
        Whether later runs try the log again, because the error was not in the log.
    seconds : float, s
        Duration of the data.
    sha256 : str
        Hash of the file.
    warnings : tuple of str
        Codes of warnings.
    R : ndarray
        Upper triangles of the joints' factors, row by row, one joint after the other, in single precision.
    count : tuple of int, length n
        Number of equations of each joint.
    sigma : tuple of float, length n
        Standard deviation of the residuals of a fit to this log alone.
    design : tuple of float, length n
        Design effect: variance of an estimate over its variance with independent residuals.
    relative : tuple of float, length n
        Error of the type's model on this log, relative to the torque.

    """

    log: FleetLog
    status: str
    model: str
    code: str = ""
    message: str = ""
    again: bool = False
    seconds: float = 0.0
    sha256: str = ""
    warnings: tuple[str, ...] = ()
    R: Float = field(default_factory=lambda: np.zeros(0))
    count: tuple[int, ...] = ()
    sigma: tuple[float, ...] = ()
    design: tuple[float, ...] = ()
    relative: tuple[float, ...] = ()


def failed(log: FleetLog, model: str, code: str, message: str, again: bool = False) -> LogRow:
    """Return the row of a log that failed."""
    return LogRow(log, FAILED, model, code, message, again)


def process(fields: Mapping[str, Any], text: str, local_file: LocalFile) -> LogRow:
    """Reduce one log to its row; an error of the log is recorded in the row.

    Parameters
    ----------
    fields : mapping
        Fields of the FleetLog, as texts.
    text : str
        Text of the type's model.
    local_file : callable
        Context manager that returns the local file of a path or URI.

    Returns
    -------
    LogRow
        The row, with status "done" or "failed".

    """
    log = FleetLog(**dict(fields) | {"time": datetime.fromisoformat(fields["time"])})
    model = _model(text)
    try:
        with local_file(log.path) as path:
            return _factored(log, model, path)
    except DynidError as error:
        # The message goes without its place: a remote log is read from a temporary copy.
        return failed(log, model.digest, error.identifier, error.message, isinstance(error, ResourceError))
    except Exception as error:  # a defect in a reader must not stop the other logs
        return failed(log, model.digest, "internal", f"{type(error).__name__}: {error}", True)


@lru_cache(_MODELS)
def _model(text: str) -> TypeModel:
    return TypeModel.of_text(text)


def _factored(log: FleetLog, model: TypeModel, path: Path) -> LogRow:
    diagnostics = Diagnostics()
    diagnostics.accept(model.accepted)
    experiment = Experiment.from_dict(model.experiment)
    opened = open_log(experiment, [path], model.robot, [log.trajectory], diagnostics)
    factors = factors_of(model.robot, model.terms, model.preparation, opened, model.wanted, diagnostics, 1)
    total = factors.total
    same = all(np.array_equal(a.columns, b) for a, b in zip(total, model.layout, strict=True))
    if not same or not all(np.isfinite(factor.R).all() for factor in total):
        raise UnfitDataError(
            "factor",
            found="equations with values that are not finite, or with other parameters",
            expected="finite equations of the type's model",
        )
    theta = np.zeros(len(model.columns))
    theta[model.kept] = model.value
    fits = [_own_fit(factor) for factor in total]
    return LogRow(
        log=log,
        status=DONE,
        model=model.digest,
        seconds=float(opened.duration),
        sha256=file_hash(path),
        warnings=tuple(
            sorted({diagnostic.code for diagnostic in diagnostics if diagnostic.level is not Level.NOTE})
        ),
        R=packed([factor.R for factor in total], [factor.count for factor in total]),
        count=tuple(factor.count for factor in total),
        sigma=tuple(sigma for _, sigma, _ in fits),
        design=tuple(
            _design_effect(factors, g, value, sigma, inverse)
            for g, (value, sigma, inverse) in enumerate(fits)
        ),
        relative=tuple(
            float(np.sqrt(factor.residual_square(theta) / max(factor.target_square, 1e-300)))
            for factor in total
        ),
    )


def _own_fit(factor: Factor) -> tuple[Float, float, Float]:
    """Fit one joint's equations alone: values (w,), residual deviation, root (w, f) of the inverse information."""
    R, z = factor.R[:, :-1], factor.R[:, -1]
    size = np.linalg.norm(R, axis=0)
    size = np.where(size > 0, size, 1.0)
    U, s, Vt = np.linalg.svd(R / size, full_matrices=False)
    seen = s > _NOTHING * s[0] if len(s) else np.zeros(0, dtype=np.bool_)
    inverse = (Vt[seen].T / s[seen]) / size[:, None]
    value = inverse @ (U.T[seen] @ z)
    rest = z - R @ value
    freedom = max(factor.count - int(seen.sum()), 1)
    return value, float(np.sqrt(rest @ rest / freedom)), inverse


def _design_effect(factors: Factors, group: int, value: Float, sigma: float, inverse: Float) -> float:
    """Return the design effect of a joint: variance of its estimate over that with independent residuals, at least 1.

    It is sum_m |s_m|^2 / (sigma^2 sum_m tr(H_m - H_m^2)) over blocks of time m, with the score s_m and the information
    H_m of each block in coordinates in which the total information is the identity.
    """
    theta = np.zeros(factors.parameter_count)
    square, expected = 0.0, 0.0
    for block in factors.blocks:
        factor = block.groups[group]
        theta[factor.columns] = value
        X = factor.R[:, :-1] @ inverse
        H = X.T @ X
        score = inverse.T @ factor.gradient(theta)
        square += float(score @ score)
        expected += float(np.trace(H) - np.sum(H**2))
    if not expected > (1.0 - LARGEST_LEVERAGE) or not sigma > 0:
        return 1.0
    return max(square / (sigma**2 * expected), 1.0)


@lru_cache
def _upper(size: int) -> tuple[Int, Int]:
    return np.triu_indices(size)


def packed(triangles: Sequence[Float], counts: Sequence[int]) -> Float:
    """Pack upper triangles, row by row and one after the other, rounded below single precision.

    A row of R has the noise of one equation and values of the order of the square root of the number of equations.
    With KEPT_BITS bits, and one more for each factor of four in the count, rounding changes estimates by at most a
    tenth of their standard error, and a factor takes two thirds of the space.

    Parameters
    ----------
    triangles : sequence of ndarray
        Upper triangular factors R.
    counts : sequence of int
        Number of equations of each factor.

    Returns
    -------
    ndarray
        The values in single precision.

    """
    parts = []
    for R, count in zip(triangles, counts, strict=True):
        values = R[_upper(len(R))].astype(np.float32)
        more = int(np.ceil(max(np.log2(max(count, 1) / KEPT_COUNT), 0.0) / 2.0))
        drop = max(_MANTISSA - KEPT_BITS - more, 0)
        bits = values.view(np.uint32)
        if drop:
            # Round to nearest; a carry into the exponent is correct.
            bits = (bits + np.uint32(1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)
        parts.append(bits.view(np.float32))
    return np.concatenate(parts)


def unpacked(values: Float, widths: Sequence[int]) -> tuple[Float, ...]:
    """Unpack triangles that `packed` made; raises ValueError if the number of values does not fit.

    `widths` is the number of columns of each triangle without the column of the torque.
    """
    triangles, start = [], 0
    for w in widths:
        rows, columns = _upper(w + 1)
        R = np.zeros((w + 1, w + 1))
        R[rows, columns] = values[start : start + len(rows)]
        triangles.append(R)
        start += len(rows)
    if start != len(values):
        raise ValueError(f"{len(values)} values of triangles instead of {start}")
    return tuple(triangles)
