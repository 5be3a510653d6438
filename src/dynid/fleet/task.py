"""What a worker does: one log in, one row out, with its factor or with why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Diagnostics, DynidError, Float, Int, ResourceError, Severity, UnfitDataError, dataclass
from dynid.estimate import LARGEST_LEVERAGE
from dynid.factor import Factor, Factors
from dynid.fleet.plan import FleetLog, TypeModel
from dynid.identification import Experiment, factors_of, open_log
from dynid.log import file_hash

DONE, FAILED = "done", "failed"
# Directions of a joint's factor below this share of the greatest say nothing of its residual.
_NOTHING = 1e-9
# Bits of the mantissa that are stored of up to so many equations; single precision has 23.
KEPT_BITS, KEPT_COUNT, _MANTISSA = 16, 4000, 23
# Models that a worker keeps ready.
_MODELS = 64

LocalFile = Callable[[str], AbstractContextManager[Path]]


@dataclass(frozen=True, eq=False)
class LogRow:
    """What the store holds of one log.

    status: "done" or "failed".    code, message: of the error, "" = none.    again: whether a later run tries it again,
        since nothing of the log itself was wrong.
    model: digest of the model.    seconds: of data.    sha256: of the file.    warnings: codes.
    R: the joints' triangles one after the other, the upper part row by row, in single precision.
    count: (n,) equations by joint.    sigma: (n,) standard deviation of their residual about the log's own best fit.
    design: (n,) by how much the variance of an estimate is larger than if residuals were independent.
    relative: (n,) error of the type's model on this log, over the torque.
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
    """The row of a log without a factor."""
    return LogRow(log, FAILED, model, code, message, again)


def process(fields: Mapping[str, Any], text: str, local_file: LocalFile) -> LogRow:
    """The row of one log; an error of the log is in the row.

    fields: of its FleetLog.    text: of its type's model.    local_file: gives a log as a file of this machine.
    """
    log = FleetLog(**dict(fields) | {"time": datetime.fromisoformat(fields["time"])})
    model = _model(text)
    try:
        with local_file(log.path) as path:
            return _factored(log, model, path)
    except DynidError as error:
        # The copy of a remote log has a name of its own, which says nothing to anybody.
        return failed(log, model.digest, error.identifier, error.message, isinstance(error, ResourceError))
    except Exception as error:  # a mistake in a reader must not stop a fleet: it is this log's row
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
    if not same or not all(np.isfinite(item.R).all() for item in total):
        raise UnfitDataError(
            "factor",
            found="equations without finite numbers, or of other parameters",
            expected="those of the type's model",
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
            sorted({item.identifier for item in diagnostics if item.severity is not Severity.NOTE})
        ),
        R=packed([factor.R for factor in total], [factor.count for factor in total]),
        count=tuple(factor.count for factor in total),
        sigma=tuple(sigma for _, sigma, _ in fits),
        design=tuple(
            _design_effect(factors, g, value, sigma, inverse)
            for g, (value, sigma, inverse) in enumerate(fits)
        ),
        relative=tuple(
            float(np.sqrt(item.residual_square(theta) / max(item.target_square, 1e-300))) for item in total
        ),
    )


def _own_fit(factor: Factor) -> tuple[Float, float, Float]:
    """Best values (w,) of one joint's equations alone, its residual, and a root of the inverse information (w, f)."""
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
    """Variance of a joint's estimate over that of independent residuals, by its blocks of time; 1 at least.

    sum_m |s_m|^2 / (sigma^2 sum_m tr(H_m - H_m^2)), s_m and H_m the blocks' scores and shares of the information in
    coordinates where that is the identity: the ratio is 1 on average if residuals are independent.
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
    """Upper triangles row by row, one after the other, in single precision and rounded further.

    counts: equations of each. A row of R has the noise of one equation, and numbers as large as a root of their count:
    with KEPT_BITS and one more for each factor of four in the count, rounding moves estimates by a tenth of their
    standard error at most (tests/fleet/test_fleet.py), and a factor takes two thirds of its room.
    """
    parts = []
    for R, count in zip(triangles, counts, strict=True):
        values = R[_upper(len(R))].astype(np.float32)
        more = int(np.ceil(max(np.log2(max(count, 1) / KEPT_COUNT), 0.0) / 2.0))
        drop = max(_MANTISSA - KEPT_BITS - more, 0)
        bits = values.view(np.uint32)
        if drop:
            # To the nearest: the carry may go into the exponent, which is right.
            bits = (bits + np.uint32(1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)
        parts.append(bits.view(np.float32))
    return np.concatenate(parts)


def unpacked(values: Float, widths: Sequence[int]) -> tuple[Float, ...]:
    """The triangles again; widths: number of columns of each, the target's not counted.

    Raises ValueError for too many or too few numbers.
    """
    triangles, start = [], 0
    for w in widths:
        rows, columns = _upper(w + 1)
        R = np.zeros((w + 1, w + 1))
        R[rows, columns] = values[start : start + len(rows)]
        triangles.append(R)
        start += len(rows)
    if start != len(values):
        raise ValueError(f"{len(values)} numbers of triangles in place of {start}")
    return tuple(triangles)
