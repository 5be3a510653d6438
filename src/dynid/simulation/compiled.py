"""Fixed steps by the native kernel, of plants and controllers that it knows."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.kernel.multibody import Held, rollout
from dynid.simulation.control import Controller, Tabular
from dynid.simulation.integrate import STEPS_PER_CHECK, FixedStep, check_times
from dynid.simulation.plant import Plant


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
    count = scheme.count(t)
    control = controller.table(t if scheme.held else _half_steps(t, count))
    if control is None:
        return None
    h = float(t[-1] - t[0]) / (len(t) - 1)
    found = rollout(system, start[None], len(t), h, count, control, Held(count) if scheme.held else None)
    Y = np.concatenate([found.x[0], found.v[0]], axis=1)
    _check(plant, controller, Y, t, scheme, h / count)
    return Y, None if found.u is None else found.u[0]


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
