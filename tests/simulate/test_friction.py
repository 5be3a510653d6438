"""LuGre and Dahl: passivity, their static maps, and the terms that these are identified by."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from dynid.base import Float, UsageError
from dynid.kernel import stop_operator
from dynid.signals import Samples
from dynid.simulation import Dahl, Friction, LuGre
from dynid.terms import Coulomb, Stribeck, Terms, Viscous
from dynid.testing import random_robot

ONE = np.ones(2)
LUGRE = LuGre(1.0 * ONE, 1.6 * ONE, 0.1 * ONE, 1e3 * ONE, 20.0 * ONE, 0.3 * ONE)
DAHL = Dahl(np.array([1.0, 0.5]), np.array([200.0, 400.0]))
ROBOT = random_robot(3, 2, 0.0)


def steady(model: Friction, speed: float) -> Float:
    v = np.full((1, 2), speed)
    done = solve_ivp(
        lambda t, z: model.rate(v, z[None])[0],
        (0, 2.0 / abs(speed)),
        np.zeros(2),
        method="LSODA",
        rtol=1e-9,
        atol=1e-12,
    )
    return model.torque(v, done.y[:, -1][None])[0]


STRIBECK = Viscous() + Coulomb() + Stribeck((0.1, 0.1), exponent=2.0, width=0.0)


@pytest.mark.parametrize(
    ("model", "terms", "theta"),
    [
        (LUGRE, STRIBECK, np.repeat([0.3, 1.0, 0.6], 2)),
        (DAHL, Terms((Coulomb(),)), np.array([1.0, 0.5])),
    ],
    ids=["lugre", "dahl"],
)
@pytest.mark.parametrize("speed", [0.02, -0.2, 1.5])
def test_steady_sliding_is_the_torque_of_the_terms(
    model: LuGre | Dahl, terms: Terms, theta: Float, speed: float
) -> None:
    samples = Samples.from_motion(np.zeros((1, 2)), np.full((1, 2), speed), np.zeros((1, 2)))
    static = terms.torque(ROBOT, samples, theta)[0]
    np.testing.assert_allclose(steady(model, speed), static, rtol=1e-6)


@pytest.mark.parametrize("model", [LUGRE, DAHL], ids=["lugre", "dahl"])
def test_friction_gives_back_no_more_than_its_deflection_stored(model: LuGre | Dahl) -> None:
    def velocity(t: float) -> Float:
        return np.array([[0.4 * np.sin(3 * t) + 0.2 * np.sin(11 * t), 0.05 * np.cos(2 * t)]])

    def rates(t: float, y: Float) -> Float:
        v, z = velocity(t), y[None, :2]
        return np.concatenate([model.rate(v, z)[0], (model.torque(v, z) * v)[0]])

    done = solve_ivp(rates, (0, 8), np.zeros(4), method="LSODA", rtol=1e-8, atol=1e-10, max_step=0.01)
    stored = 0.5 * model.stiffness[:, None] * done.y[:2] ** 2
    assert (done.y[2:] - stored >= -1e-6).all()


def test_dahl_rounds_the_presliding_element() -> None:
    # Both start alike and end alike; in between the rounded one lags.
    distance = DAHL.coulomb[0] / DAHL.stiffness[0]
    x = np.linspace(0, 12 * distance, 2000)
    rounded = 1 - np.exp(-x / distance)
    element = stop_operator([], x / distance)
    assert np.abs(rounded - element)[:20].max() < 0.01
    assert np.abs(rounded - element)[-1] < 1e-4
    assert (rounded <= element + 1e-12).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dahl(np.zeros(1), np.ones(1)),
        lambda: LuGre(ONE, 0.5 * ONE, ONE, ONE, ONE, ONE),
        lambda: LuGre(ONE, ONE, ONE, ONE, -ONE, ONE),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]  # a function or a class
