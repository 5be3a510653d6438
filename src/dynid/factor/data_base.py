"""Base parameters that the data at hand can determine, and how much each parameter matters."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.factor.base import DATA_TOLERANCE, BaseMap, base_of_matrix
from dynid.factor.factor import Factors, group_scale, stack


def influence(factors: Factors, base: BaseMap | None = None) -> Float:
    """(p,) root mean square of each column over that of the torque it acts on, greatest over the groups; nan = none.

    base: map onto columns of the factors, with which those that depend on them are measured as well.
    """
    found = np.full(factors.parameter_count, np.nan)
    place = {} if base is None else {int(c): i for i, c in enumerate(base.independent)}
    for factor in factors.total:
        torque = np.sqrt(factor.target_square)
        if not torque > 0:
            continue
        R, columns = factor.R[:, :-1], factor.columns
        if base is not None:
            own = np.array([int(c) in place for c in columns], dtype=np.bool_)
            R = R[:, own] @ base.B[[place[int(c)] for c in columns[own]]]
            columns = np.arange(factors.parameter_count)
        norms = np.linalg.norm(R, axis=0)
        found[columns] = np.fmax(found[columns], norms / torque)
    return np.where(found > 0, found, np.nan)


def data_base(structural: BaseMap, factors: Factors) -> BaseMap:
    """Base parameters that the data at hand can determine, as a map from all parameters.

    Each group counts by its own torque, so that a small wrist joint weighs as much as a shoulder.
    """
    present = np.unique(np.concatenate([factor.columns for factor in factors.total]))
    weights = group_scale(factors.total)
    R = stack(factors.total, present, weights)[:-1, :-1]
    rows = np.sqrt(max(factor.count for factor in factors.total))
    names = [structural.names[i] for i in present]
    inner = BaseMap(
        names=structural.names,
        independent=present,
        B=structural.B[np.searchsorted(structural.independent, present)],
        singular_values=structural.singular_values,
        gap=structural.gap,
        scale=structural.scale,
    )
    found = base_of_matrix(R, names, DATA_TOLERANCE)
    scaled = BaseMap(
        names=tuple(names),
        independent=found.independent,
        B=found.B,
        singular_values=found.singular_values,
        gap=found.gap,
        scale=np.linalg.norm(R, axis=0) / rows,
    )
    return scaled.compose(inner)
