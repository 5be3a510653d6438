"""The same regression written otherwise: in other units, in another order, on other threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.estimator import Regression
from dynid.estimate.source import LogSource
from dynid.factor.base import BaseMap
from dynid.signals.samples import Samples
from dynid.testing.builders import DenseSource, Synthetic, factors_of


def in_other_order(case: Synthetic) -> tuple[Regression, Regression]:
    """The same data in two orders: blocks reversed, or the two halves of a motion, as segments, exchanged."""
    regression = case.regression
    source = regression.source
    if not isinstance(source, LogSource):
        factors = regression.factors
        return regression, replace(
            regression, factors=replace(factors, blocks=tuple(reversed(factors.blocks)))
        )
    (whole,) = source.batches
    middle = len(whole) // 2
    halves = whole.part(0, middle), replace(whole.part(middle, len(whole)), segment=1)
    one, other = (_of_batches(regression, source, batches) for batches in (halves, halves[::-1]))
    return one, other


def in_other_units(case: Synthetic) -> tuple[Regression, Float]:
    """The same data in other units, and what each base parameter is multiplied by in them, (b,).

    Factors alone: every parameter has a unit of its own. Motion: torque, masses and inertias in thousandths.
    """
    regression = case.regression
    source = regression.source
    p = len(regression.columns)
    if isinstance(source, LogSource):
        size = np.full(p, 1000.0)
        batches = [replace(samples, tau=1000.0 * samples.tau) for samples in source.batches]
        if (servo := source.robot.drive.servo) is not None:
            stiffer = replace(servo, kp=1000.0 * servo.kp, kd=1000.0 * servo.kd)
            robot = source.robot.with_servo(stiffer)
            source = replace(source, assembly=replace(source.assembly, robot=robot))
        if (told := source.commands) is not None:
            source = replace(
                source, commands=lambda name: replace(told(name), tau_ff=1000.0 * told(name).tau_ff)
            )
        moved = _of_batches(regression, source, batches)
        return replace(_scaled(moved, size), base=regression.base), size[regression.base.independent]
    size = np.asarray(10.0 ** np.random.default_rng(0).integers(-4, 5, p), dtype=np.float64)
    own = size[regression.base.independent]
    X = [dense / own for dense in case.X]
    groups = [factor.columns for factor in regression.factors.total]
    factors = factors_of(X, case.y, groups, p, len(regression.factors.blocks))
    base = regression.base
    scaled = BaseMap(
        base.names,
        base.independent,
        own[:, None] * base.B / size,
        base.singular_values,
        base.gap,
        base.scale / size,
    )
    again = None if source is None else DenseSource(tuple(groups), tuple(X), case.y)
    return replace(_scaled(regression, size), base=scaled, factors=factors, source=again), own


def on_threads(regression: Regression, threads: int) -> Regression:
    """The same regression with a source that works on several threads."""
    if not isinstance(regression.source, LogSource):
        return regression
    return replace(regression, source=replace(regression.source, threads=threads))


def _scaled(regression: Regression, size: Float) -> Regression:
    columns = tuple(
        replace(c, prior=c.prior * s, lower=c.lower * s, upper=c.upper * s)
        for c, s in zip(regression.columns, size.tolist(), strict=True)
    )
    likely = None if regression.likely is None else regression.likely * size
    return replace(regression, columns=columns, spread=regression.spread * size, likely=likely)


def _of_batches(
    regression: Regression, source: LogSource, batches: tuple[Samples, ...] | list[Samples]
) -> Regression:
    factors = source.assembly.factors(batches).select(regression.base.mask)
    return replace(regression, factors=factors, source=source.with_batches(batches))
