"""Linearly implicit steps of adaptive length: order, stiff friction, both kernels, batches of different models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.base import Float, ResourceError, SolverError, UsageError
from dynid.kernel import using
from dynid.kernel.multibody import (
    AdaptiveRollout,
    Control,
    Held,
    Multibody,
    Parameter,
    Slope,
    adaptive_rollout,
    rollout,
)
from dynid.kernel.rosenbrock import COUPLING, EMBEDDED, GAMMA, STAGE, WEIGHT, input_weights
from tests.kernel.test_multibody import KD, KP, N, references, starts, system

H, SAMPLES, COUNT = 4e-3, 41, 2
# Shorter than any step in these tests.
EXACT = 1e-11


def control(rows_per_sample: int, h: float = H, samples: int = SAMPLES, **others: object) -> Control:
    rows = rows_per_sample * (samples - 1) + 1
    return Control(N, kp=KP, kd=KD, q=references(rows, h / rows_per_sample), **others)  # type: ignore[arg-type]


def states(run: AdaptiveRollout) -> Float:
    return np.concatenate([run.x, run.v], axis=2)


def stiff(seed: int) -> Multibody:
    """Friction that decays within 0.1 ms on the lightest joint."""
    one = system(seed)
    light = np.diag(np.diag(one.mass) * np.array([1.0, 1.0, 1.0, 0.0]))
    inertia = np.array(one.inertia)
    inertia[-1] *= 1e-3
    return replace(one, mass=light, inertia=inertia, level=np.full(N, 3.0), width=np.full(N, 0.01))


def test_the_scheme_has_order_three_with_any_jacobian() -> None:
    ones, c, G = np.ones(4), STAGE.sum(axis=1), np.hstack([COUPLING, np.zeros((4, 1))]) + GAMMA * np.eye(4)
    A = np.hstack([STAGE, np.zeros((4, 1))])
    for weights in (WEIGHT, EMBEDDED):
        assert_allclose([weights.sum(), weights @ c, weights @ G @ ones], [1.0, 0.5, 0.0], atol=1e-14)
    third = [WEIGHT @ c**2, WEIGHT @ A @ c, WEIGHT @ A @ G @ ones, WEIGHT @ G @ c, WEIGHT @ G @ G @ ones]
    assert_allclose(third, [1 / 3, 1 / 6, 0.0, 0.0, 0.0], atol=1e-14)
    assert_allclose(A[3] + G[3], WEIGHT, atol=1e-14)  # stiffly accurate


@pytest.mark.usefixtures("native_kernel")
@pytest.mark.parametrize("elastic", [False, True])
def test_halving_the_steps_divides_the_error_by_eight(elastic: bool) -> None:
    one = replace(system(3, elastic), width=np.full(N, 1.0))

    def end(count: int) -> Float:
        # Any error is tolerated, so that each interval is one step.
        run = adaptive_rollout(one, starts(one), 11, 0.02, count, control(4 * count, 0.02, 11), tolerance=1e9)
        assert run.tried.tolist() == [10 * count]
        return states(run)[0, -1]

    exact = end(64)
    ratio = np.linalg.norm(end(4) - exact) / np.linalg.norm(end(8) - exact)
    assert 6.5 < ratio < 10


def test_inputs_between_rows_are_a_quartic() -> None:
    nodes = np.arange(5) / 4
    for at in (0.0, 0.1, 0.37, 0.75, 1.0):
        assert_allclose(input_weights(at) @ nodes[:, None] ** np.arange(5), at ** np.arange(5), atol=1e-14)


@pytest.mark.usefixtures("native_kernel")
@pytest.mark.parametrize(
    ("elastic", "projected"), [(False, False), (True, False), (False, True), (True, True)]
)
@pytest.mark.parametrize("held", [False, True])
def test_both_kernels_take_the_same_steps(elastic: bool, projected: bool, held: bool) -> None:
    one, samples = system(5, elastic, projected), 16
    weight = None if elastic or projected else system(6)
    law = control(
        1 if held else 4 * COUNT,
        samples=samples,
        limit=np.full(N, 12.0),
        dead_band=np.full(N, 0.02),
        weight=weight,
    )
    runs = []
    for kernel in ("native", "numpy"):
        with using(kernel):
            runs.append(adaptive_rollout(one, starts(one), samples, H, COUNT, law, 1e-6, held))
    native, numpy = runs
    assert np.ptp(native.x[0], axis=0).max() > 0.02
    assert native.tried.tolist() == numpy.tried.tolist()
    assert_allclose(states(native), states(numpy), rtol=0, atol=1e-10)
    if held:
        assert native.u is not None
        assert numpy.u is not None
        assert_allclose(native.u, numpy.u, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("native_kernel")
def test_the_motion_is_that_of_fine_explicit_steps() -> None:
    one, samples = stiff(3), 101
    law = control(4, samples=samples)
    run = adaptive_rollout(one, starts(one), samples, H, 1, law, 1e-6)
    count = 512
    fine = rollout(one, starts(one), samples, H, count, control(2 * count, samples=samples))
    assert np.ptp(fine.x[0], axis=0).max() > 0.1
    assert_allclose(run.x, fine.x, rtol=0, atol=2e-5)
    assert run.tried[0] < 30 * samples


@pytest.mark.usefixtures("native_kernel")
def test_friction_that_holds_a_joint_takes_one_step_a_sample() -> None:
    one = stiff(3)
    # N m on 1e-5 kg m^2 over 1e-4 rad/s: explicit steps would be shorter than a nanosecond.
    held = replace(one, level=np.full(N, 300.0), width=np.full(N, 1e-4), constant=np.zeros(N))
    start = np.zeros((1, 2 * N))
    run = adaptive_rollout(held, start, SAMPLES, H, 1, control(4), 1e-5)
    assert run.tried[0] <= 1.5 * SAMPLES
    assert np.abs(run.v).max() < 1e-3


@pytest.mark.usefixtures("native_kernel")
def test_runs_of_different_models_are_those_of_each_alone() -> None:
    """Byte for byte, for any number of threads, with explicit and implicit steps."""
    first = stiff(3)
    rng = np.random.default_rng(0)
    models = [
        replace(
            first,
            inertia=first.inertia * (1 + 0.02 * rng.uniform(size=first.inertia.shape[:1])[:, None]),
            mass=first.mass * (1 + 0.1 * k),
            damping=first.damping + 0.1 * k * np.eye(N),
            level=first.level * rng.uniform(0.5, 1.5, N),
            width=first.width * (1 + k),
            constant=first.constant + k,
        )
        for k in range(6)
    ]
    models[2] = replace(models[2], damping=np.zeros((N, N)))  # another pattern of the zeros
    start, law = starts(first, 6), control(4)
    for threads in (1, 3):
        together = adaptive_rollout(models, start, SAMPLES, H, 1, law, 1e-5, threads=threads)
        batch = rollout(models, start, 6, H, 64, control(128, samples=6), threads=threads)
        assert len({row.tobytes() for row in together.x[:, -1]}) == 6
        for k, model in enumerate(models):
            alone = adaptive_rollout(model, start[k : k + 1], SAMPLES, H, 1, law, 1e-5)
            assert states(together)[k].tobytes() == states(alone)[0].tobytes()
            assert together.tried[k] == alone.tried[0]
            single = rollout(model, start[k : k + 1], 6, H, 64, control(128, samples=6))
            assert batch.x[k].tobytes() == single.x[0].tobytes()


@pytest.mark.usefixtures("native_kernel")
def test_a_motion_in_parts_is_the_whole_motion() -> None:
    one, law = stiff(3), control(4)
    whole = adaptive_rollout(one, starts(one), SAMPLES, H, 1, law, 1e-5)
    assert law.q is not None
    half = SAMPLES // 2
    first = adaptive_rollout(one, starts(one), half + 1, H, 1, replace(law, q=law.q[: 4 * half + 1]), 1e-5)
    rest = adaptive_rollout(
        one, states(first)[:, -1], SAMPLES - half, H, 1, replace(law, q=law.q[4 * half :]), 1e-5, before=first
    )
    assert np.concatenate([first.x, rest.x[:, 1:]], axis=1).tobytes() == whole.x.tobytes()
    assert rest.tried.tolist() == whole.tried.tolist()


@pytest.mark.parametrize("kernel", ["native", "numpy"])
def test_failures_are_named(kernel: str, request: pytest.FixtureRequest) -> None:
    if kernel == "native":
        request.getfixturevalue("native_kernel")
    one, law = stiff(3), control(4, samples=6)
    with using(kernel):
        with pytest.raises(ResourceError, match=r"simulation-steps.*reached t = 1"):
            adaptive_rollout(one, starts(one), 6, H, 1, law, EXACT, most=50, begin=1.0)
        blown = replace(law, u=np.where(np.arange(21)[:, None] > 10, np.inf, 0.0) * np.ones(N))
        with pytest.raises(SolverError, match="diverged"):
            adaptive_rollout(one, starts(one), 6, H, 1, blown, 1e-5)


@pytest.mark.usefixtures("native_kernel")
def test_systems_that_do_not_fit_together_are_refused() -> None:
    one, start = system(3), starts(system(3), 2)
    for other, difference in ((system(5), "trees"), (replace(one, at=one.at[::-1]), "at")):
        with pytest.raises(UsageError, match=difference):
            rollout([one, other], start, 2, H, 1, Control(N))
    with pytest.raises(UsageError, match="one system per run"):
        rollout([one], start, 2, H, 1, Control(N))
    other = replace(one, constant=one.constant + 1.0)
    with pytest.raises(UsageError, match="one system"):
        rollout([one, other], start, 2, H, 1, Control(N), Held(1), [Parameter(Slope.VELOCITY, 0)])
