"""Informative torque sinusoids: the search among those that keep all bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.latin_hypercube import latin_hypercube
from dynid.base.records import dataclass
from dynid.excitation.constraints import Margin
from dynid.excitation.criteria import Figures, Information
from dynid.excitation.design import SHARES, worst_broken
from dynid.excitation.limits import Bounds
from dynid.excitation.torque_task import EXACT, RATE, VARIANTS, Motion, Stop, TorqueTask, check_start
from dynid.excitation.verify import Verified, verified
from dynid.trajectories.torque_sines import TorqueMotion, TorqueSinusoids

KEPT, SPREAD, SIZES = 4, 0.3, (1.0, 0.6, 0.35, 0.15)
A_START, AN_ITERATION = 6, 8


@dataclass(frozen=True, eq=False)
class TorquePlan:
    """Torque sinusoids and the motion expected of them.

    margins: the least over the model and its variants.    first: criterion of the best drawn torque.
    """

    task: TorqueTask
    trajectory: TorqueMotion
    figures: Figures
    margins: tuple[Margin, ...]
    value: float
    first: float
    generations: int
    stopped: bool = False
    verified: Verified | None = None

    @property
    def information(self) -> Information:
        """The criterion."""
        return self.task.information

    @property
    def bounds(self) -> Bounds:
        """The bounds; the torque is commanded, so that none of it is kept in reserve."""
        return replace(self.task.bounds, uncertainty=0.0, spread=None)

    @property
    def tightest(self) -> Margin:
        """The bound that the motion comes nearest to."""
        return min(self.margins, key=lambda m: m.margin)

    def describe(self) -> dict[str, Any]:
        """Plain data of how it was made."""
        sines = self.trajectory.sines
        names = ("offset", "amplitude", "frequency", "phase")
        numbers = {name: getattr(sines, name).tolist() for name in names}
        return {
            "basis": {"family": "torque-sines", "ramp": sines.ramp} | numbers,
            "generations": self.generations,
            "variants": VARIANTS,
            "variants_by": "share" if self.task.bounds.spread is None else "covariance",
        }


def design_torque(
    task: TorqueTask,
    starts: int = 4,
    iterations: int = 80,
    seed: int = 0,
    progress: Callable[[int, int, float], None] | None = None,
    stop: Stop | None = None,
) -> TorquePlan:
    """The best torque that a population of A_START a start finds in one generation an AN_ITERATION iterations.

    Every candidate is simulated forward and made smaller until it keeps all bounds; the best KEPT breed the next ones.
    The winner is made smaller until the model's variants keep the bounds too, with half the step as a check.
    progress, stop: as for design_motion.    The same seed gives the same torque.
    Raises UnfitDataError naming the bound that is broken however small the torque.
    """
    if min(starts, iterations) < 1:
        raise UsageError(
            "counts", found=f"{starts} starts, {iterations} iterations", expected="at least 1 each"
        )
    check_start(task)
    size, generations = A_START * starts, max(1, iterations // AN_ITERATION)
    rng, shape = np.random.default_rng(seed), (3, len(task.pose), task.count)
    drawn = latin_hypercube(size, math.prod(shape), rng).reshape(size, *shape)
    parents: list[tuple[float, Float]] = []
    first, done = np.inf, 0
    broken: list[Margin] = []
    for generation in range(generations):
        found, refused = _judged(task, drawn, stop if parents else None)
        broken += refused
        parents = sorted([*parents, *found], key=lambda one: one[0])[:KEPT]
        done = generation + 1
        if not parents:
            raise _nothing(broken)
        first = parents[0][0] if generation == 0 else first
        if progress is not None:
            progress(done * starts * AN_ITERATION, starts * iterations, parents[0][0])
        if stop is not None and stop():
            break
        width = SPREAD * (1.0 - 0.8 * generation / generations)
        chosen = rng.integers(len(parents), size=size)
        steps = rng.normal(0.0, width, drawn.shape) * (rng.random(drawn.shape) < 0.5)
        drawn = np.stack([parents[k][1] for k in chosen]) + steps
        drawn[:, 0], drawn[:, 1] = np.clip(drawn[:, 0], 0.0, 1.0), np.clip(drawn[:, 1], 0.0, 1.0)
    return _verified(task, parents, first, done, stop is not None and stop())


def _judged(
    task: TorqueTask, drawn: Float, stop: Stop | None
) -> tuple[list[tuple[float, Float]], list[Margin]]:
    # Criterion and variables of the candidates at their best size within all bounds; what the smallest ones break.
    tried = [np.concatenate([size * x[:1], x[1:]]) for x in drawn for size in SIZES]
    sines = [task.sines(x) for x in tried]
    swings = task.swung(task.models[0], sines, stop=stop)
    found: list[tuple[float, Float]] = []
    refused: list[Margin] = []
    if stop is not None and stop():
        return found, refused
    for first in range(0, len(tried), len(SIZES)):
        own: list[tuple[float, Float]] = []
        for b in range(first, first + len(SIZES)):
            motion = swings.q[b], swings.dq[b], swings.ddq[b]
            bad = worst_broken(task.margins(sines[b], motion))
            if swings.fine[b] and bad is None:
                own.append((_value(task, motion), tried[b]))
        found += [min(own, key=lambda one: one[0])] if own else []
        refused += [bad] if not own and bad is not None else []
    return found, refused


def _value(task: TorqueTask, motion: Motion) -> float:
    information = task.information
    thinned = [part[:: max(1, round(RATE / 20.0))] for part in motion]
    if information.focus is None:
        value = information.figures(thinned[0], thinned[1], thinned[2], task.duration).of(
            information.criterion
        )
    else:
        value = information.value(thinned[0], thinned[1], thinned[2], task.duration)
    return value if math.isfinite(value) else math.inf


def _verified(
    task: TorqueTask, parents: list[tuple[float, Float]], first: float, generations: int, stopped: bool
) -> TorquePlan:
    broken: list[Margin] = []
    close = ""
    for _, x in parents:
        found = _largest(task, x, broken)
        if found is None:
            continue
        sines, motion, kept = found
        table = TorqueMotion(sines, 1.0 / RATE, *motion)
        checked = verified(task.information.robot, task.bounds, table)
        if checked is not None and checked.broken is not None:
            close = f"; {checked.broken}, by {checked.library}"
            continue
        figures = task.information.figures(*motion, task.duration)
        value = _value(task, motion)
        return TorquePlan(task, table, figures, kept, value, first, generations, stopped, checked)
    raise _nothing(broken, close)


def _largest(
    task: TorqueTask, x: Float, broken: list[Margin]
) -> tuple[TorqueSinusoids, Motion, tuple[Margin, ...]] | None:
    # The largest share of the torque that every model answers within the bounds; what it breaks is noted.
    candidates = [task.sines(np.concatenate([size * x[:1], x[1:]])) for size in (1.0, *SHARES)]
    every = [task.swung(model, candidates, finer=1 if k else 2) for k, model in enumerate(task.models)]
    coarse = task.swung(task.models[0], candidates)
    for b, sines in enumerate(candidates):
        motions = [(one.q[b], one.dq[b], one.ddq[b]) for one in every]
        kept = _least([task.margins(sines, motion, smooth=k == 0) for k, motion in enumerate(motions)])
        bad = worst_broken(kept)
        if bad is not None:
            broken.append(bad)
            continue
        agree = np.abs(coarse.q[b] - every[0].q[b]).max() <= EXACT * max(1.0, np.abs(every[0].q[b]).max())
        if agree and all(one.fine[b] for one in every):
            return sines, motions[0], kept
    return None


def _least(every: list[tuple[Margin, ...]]) -> tuple[Margin, ...]:
    found: dict[tuple[str, str], list[Margin]] = {}
    for margin in (margin for one in every for margin in one):
        # Which point comes nearest to a plane differs from model to model.
        where = margin.where.split(" at the ")[-1]
        found.setdefault((margin.what, where), []).append(margin)
    return tuple(min(same, key=lambda m: m.margin) for same in found.values())


def _nothing(broken: list[Margin], close: str = "") -> UnfitDataError:
    what = close if close or not broken else f"; broken: {min(broken, key=lambda m: -m.margin)}"
    return UnfitDataError(
        "infeasible-limits",
        found=f"no torque that the model and its variants answer within the bounds, however small{what}",
        expected="a pose that the arm falls back to, or friction that holds it",
        do="give a hanging motion.start, shorten motion.seconds, or loosen that bound",
    )
