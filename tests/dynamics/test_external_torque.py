"""External torque: what pushes a simulated robot is found, and thresholds are crossed as often as is said."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.dynamics import Dynamics, Thresholds
from tests.dynamics.test_c_code import Compiled, pointer
from tests.dynamics.test_dynamics import arm

RATE = 500.0


def pushed(model: Dynamics, seconds: float = 1.2) -> tuple[Float, Float, Float, Float, Float]:
    """t, q, dq, tau, push of an arm that swings under torque while something pushes it from 0.3 to 0.7 s (RK4)."""
    n, h = model.robot.n, 1.0 / RATE
    t = np.arange(0.0, seconds, h)
    push = np.where(((t > 0.3) & (t < 0.7))[:, None], np.linspace(3.0, -2.0, n), 0.0)

    def rate(x: Float, v: Float, time: float, outside: Float) -> Float:
        return model.forward_dynamics(x, v, torque(x, v, time) + outside)

    def torque(x: Float, v: Float, time: float) -> Float:
        return model.gravity(x) + 2.0 * np.sin(6.0 * time + np.arange(n)) - 4.0 * v

    q, dq, tau = (np.zeros((len(t), n)) for _ in range(3))
    q[0] = 0.3
    for k, time in enumerate(t):
        x, v = q[k], dq[k]
        tau[k] = torque(x, v, time)
        if k + 1 < len(t):
            a1 = rate(x, v, time, push[k])
            a2 = rate(x + h / 2 * v, v + h / 2 * a1, time + h / 2, push[k])
            a3 = rate(x + h / 2 * (v + h / 2 * a1), v + h / 2 * a2, time + h / 2, push[k])
            a4 = rate(x + h * (v + h / 2 * a2), v + h * a3, time + h, push[k])
            q[k + 1] = x + h * v + h * h / 6 * (a1 + a2 + a3)
            dq[k + 1] = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return t, q, dq, tau, push


def rough(model: Dynamics) -> Dynamics:
    n = model.robot.n
    return replace(model, viscous=np.full(n, 0.5), coulomb=np.full(n, 0.4), width=np.full(n, 0.1))


def test_a_push_is_found_behind_a_low_pass() -> None:
    model = rough(arm())
    t, q, dq, tau, push = pushed(model)
    found = model.external_torque(t, q, dq, tau, cutoff=20.0)
    before, within, after = t < 0.3, (t > 0.4) & (t < 0.7), t > 0.8
    size = np.abs(push).max()
    assert np.abs(found[before]).max() < 1e-3 * size
    # 0.1 s are 12 lags of a low-pass of 20 Hz.
    np.testing.assert_allclose(found[within], push[within], rtol=0, atol=2e-3 * size)
    assert np.abs(found[after]).max() < 2e-3 * size
    begins = int(np.flatnonzero(push.any(axis=1))[0])
    for later in (1, 4, 10):
        share = 1.0 - np.exp(-2.0 * np.pi * 20.0 * (t[begins + later] - t[begins]))
        np.testing.assert_allclose(found[begins + later] / push[begins], share, rtol=0, atol=1e-3)


def test_sample_by_sample_is_the_same(tmp_path: Path) -> None:
    model = rough(arm())
    t, q, dq, tau, _ = pushed(model, 0.5)
    wanted = model.external_torque(t, q, dq, tau)
    observer, n = model.observer(), model.robot.n
    steps = np.diff(t, prepend=t[0])
    found = [observer.update(*one) for one in zip(steps, q, dq, tau, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
    observer.reset()
    assert not observer.update(0.1, q[9], dq[9], tau[9]).any()
    if shutil.which("gcc") is None:
        return
    code, state, out = Compiled(model, tmp_path), np.zeros(3 * n + 1), np.zeros(n)
    function = code.library[f"{code.prefix}_external_torque"]
    function.restype = None
    for k in range(len(t)):
        arrays = [pointer(np.ascontiguousarray(one[k])) for one in (q, dq, tau)]
        function(
            pointer(state), ctypes.c_double(steps[k]), ctypes.c_double(observer.gain), *arrays, pointer(out)
        )
        np.testing.assert_allclose(out, wanted[k], rtol=0, atol=1e-10)


def test_behind_a_gap_it_begins_anew() -> None:
    model = rough(arm())
    t, q, dq, tau, _ = pushed(model)
    kept = (t < 0.5) | (t > 0.6)
    found = model.external_torque(t[kept], q[kept], dq[kept], tau[kept])
    at = int(np.searchsorted(t[kept], 0.6))
    assert found[at - 1].any()
    assert not found[at].any()
    alone = model.external_torque(t[kept][at:], q[kept][at:], dq[kept][at:], tau[kept][at:])
    np.testing.assert_allclose(found[at:], alone, rtol=0, atol=1e-12)


def test_what_does_not_fit_is_said() -> None:
    model = arm()
    t, q = np.arange(5.0), np.zeros((5, 7))
    with pytest.raises(UsageError, match="do not increase"):
        model.external_torque(t[::-1], q, q, q)
    with pytest.raises(UsageError, match=r"\(T, n\)"):
        model.external_torque(t[:4], q, q, q)
    with pytest.raises(UsageError, match="cutoff = 0"):
        model.observer(0.0)


def free_motion(seed: int, count: int = 20_000) -> tuple[Float, Float]:
    """Residuals of three joints that grow near rest and follow one another in time, and their speeds."""
    rng = np.random.default_rng(seed)
    dq = np.cumsum(rng.normal(size=(count, 3)), axis=0) * 0.01
    dq = np.sin(dq)
    noise = rng.standard_t(5, size=(count, 3))
    smooth = np.apply_along_axis(lambda x: np.convolve(x, np.ones(20) / 20.0, "same"), 0, noise)
    return smooth * (0.5 + 3.0 * np.exp(-np.abs(dq) / 0.1)) * [1.0, 4.0, 0.1], dq


@pytest.mark.parametrize("rate", [0.005, 0.01, 0.05])
def test_free_motion_crosses_thresholds_as_often_as_is_said(rate: float) -> None:
    nothing = np.zeros(3)
    parts = [tuple(np.array_split(x, 5)[k] for x in free_motion(1)) for k in range(5)]
    found = Thresholds.of_free_motion(parts, rate, 5.0, nothing, nothing)  # type: ignore[arg-type] # pairs
    alarms = [found.crossed(*free_motion(seed)).any(axis=1).mean() for seed in range(2, 12)]
    # Residuals that follow one another are worth as much as a twentieth of their number.
    assert abs(np.mean(alarms) - rate) < 4.0 * np.sqrt(rate * 20 / 20_000)
    # Thresholds follow the size of the residuals: lower for fast motion than for slow, and by joint.
    assert (found.at(np.full(3, 0.9)) < 0.6 * found.at(np.full(3, 0.01))).all()
    assert found.at(nothing)[1] > 10.0 * found.at(nothing)[2]
    assert f"{100 * rate:.3g} % of 20000" in repr(found)


def test_a_joint_at_rest_may_be_held_by_its_friction() -> None:
    model = rough(arm())
    dry, slow = model.friction_at_rest()
    np.testing.assert_allclose(slow, 0.25)
    np.testing.assert_allclose(dry, 0.4 * np.tanh(2.5) + 0.5 * 0.25)
    external, dq = free_motion(1)
    level = np.array([5.0, 50.0, 5.0])
    found = Thresholds.of_free_motion([(external, dq)], 0.01, 5.0, level, np.full(3, 0.05))
    np.testing.assert_array_less(level - 1e-12, found.at(np.full(3, 0.05)))
    assert (found.at(np.full(3, 0.5)) < level).all()


def test_too_little_motion_shows_no_rate() -> None:
    external, dq = free_motion(1)
    nothing = np.zeros(3)
    with pytest.raises(UnfitDataError, match="5000 samples or more"):
        Thresholds.of_free_motion([(external[:4000], dq[:4000])], 0.001, 5.0, nothing, nothing)
    with pytest.raises(UsageError, match="between 0 and 1"):
        Thresholds.of_free_motion([(external, dq)], 0.0, 5.0, nothing, nothing)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_thresholds_in_c_are_those_of_python(tmp_path: Path) -> None:
    model = rough(arm())
    n = model.robot.n
    external, dq = (np.tile(x, (1, n // 3 + 1))[:, :n] for x in free_motion(1))
    dry, slow = model.friction_at_rest()
    limits = Thresholds.of_free_motion([(external, dq)], 0.01, 5.0, 0.3 * dry, slow)
    code = Compiled(model, tmp_path, limits)
    assert "FALSE_ALARMS 0.01" in code.header
    # At and between knots, at rest, at the end of what friction holds, and beyond every speed.
    speeds = [
        np.zeros(n),
        slow,
        np.nextafter(slow, 9.0),
        *limits.speeds.T,
        *(-limits.speeds.T),
        np.full(n, 99.0),
    ]
    speeds += list(np.random.default_rng(0).uniform(-1.5, 1.5, (200, n)))
    crossed = np.zeros(n, dtype=np.int32)
    for k, v in enumerate(speeds):
        np.testing.assert_allclose(code("thresholds", (n,), v)[0], limits.at(v), rtol=1e-12)
        pushes = limits.at(v) * (0.9 + 0.2 * ((k + np.arange(n)) % 2)) * (-1.0) ** k
        count = code.library[f"{code.prefix}_pushed"](
            pointer(pushes),
            pointer(np.ascontiguousarray(v)),
            crossed.ctypes.data_as(ctypes.POINTER(ctypes.c_int)),
        )
        np.testing.assert_array_equal(crossed, limits.crossed(pushes, v))
        assert count == crossed.sum()
