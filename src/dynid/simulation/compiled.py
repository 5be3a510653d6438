"""Fixed steps by the native kernel, of plants and controllers that it knows."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.kernel.multibody import Held, rollout
from dynid.simulation.control import Controller, Tabular
from dynid.simulation.integrate import STEPS_PER_CHECK, FixedStep, check_budget, check_times
from dynid.simulation.plant import Plant

# Rows of the controller's tables that are made at a time: a few MB, and a thousandth of the time of a run.
TABLE_ROWS = 20_000


def compiled(
    plant: Plant, controller: Controller, start: Float, t: Float, scheme: FixedStep
) -> tuple[Float, Float | None] | None:
    """What `scheme.run` gives, states (T, states) and held inputs; None for what the native kernel does not know.

    The error of a step is looked at as often as there, but at the beginning of samples, all of them at once.
    Raises as `FixedStep.run` does.
    """
    system = plant.multibody
    if system is None or not isinstance(controller, Tabular) or system.native() is None:
        return None
    check_times(t)
    check_budget(t, scheme.step)
    count = scheme.count(t)
    h = float(t[-1] - t[0]) / (len(t) - 1)
    held = Held(count) if scheme.held else None
    Y, inputs = np.empty((len(t), len(start))), []
    Y[0] = start
    samples = max(1, TABLE_ROWS // (2 * count))
    for first in range(0, len(t) - 1, samples):
        part = t[first : first + samples + 1]
        control = controller.table(part if scheme.held else _half_steps(part, count))
        if control is None:
            return None
        run = rollout(system, Y[None, first], len(part), h, count, control, held, begin=float(part[0]))
        Y[first : first + len(part)] = np.concatenate([run.x[0], run.v[0]], axis=1)
        if run.u is not None:
            inputs.append(run.u[0] if first + samples + 1 >= len(t) else run.u[0, :-1])
    _check(plant, controller, Y, t, scheme, h / count)
    return Y, np.concatenate(inputs) if scheme.held else None


def _half_steps(t: Float, count: int) -> Float:
    between = np.arange(2 * count) * (0.5 / count)
    inside = t[:-1, None] + between * np.diff(t)[:, None]
    return np.append(inside.ravel(), t[-1])


def _check(plant: Plant, controller: Controller, Y: Float, t: Float, scheme: FixedStep, h: float) -> None:
    every = max(1, STEPS_PER_CHECK // scheme.count(t))
    at = np.arange(0, max(len(t) - 1, 1), every)
    y, now = Y[at], t[at]
    with np.errstate(over="ignore", invalid="ignore"):
        loop = _Loops(plant, controller, controller.torque(now, plant.state(y)) if scheme.held else None)
        whole = _step(loop, now, y, h)
        halves = _step(loop, now + 0.5 * h, _step(loop, now, y, 0.5 * h), 0.5 * h)
        scale = 1.0 + np.maximum.accumulate(np.abs(Y), axis=0)[at]
        error = (np.abs(whole - halves) / scale).max(axis=1) / 15.0
    wrong = np.flatnonzero(~(error <= scheme.tolerance))
    if len(wrong):
        scheme.check_error(float(error[wrong[0]]), float(now[wrong[0]]), h)


class _Loops:
    # States of many times at once.
    def __init__(self, plant: Plant, controller: Controller, held: Float | None) -> None:
        self.plant, self.controller, self.held = plant, controller, held

    def slope(self, t: Float, y: Float) -> Float:
        u = self.held if self.held is not None else self.controller.torque(t, self.plant.state(y))
        return self.plant.rate(y, u)


def _step(loop: _Loops, t: Float, y: Float, h: float) -> Float:
    k1 = loop.slope(t, y)
    k2 = loop.slope(t + 0.5 * h, y + 0.5 * h * k1)
    k3 = loop.slope(t + 0.5 * h, y + 0.5 * h * k2)
    k4 = loop.slope(t + h, y + h * k3)
    return np.asarray(y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4))
