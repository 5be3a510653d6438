"""The parameters that can be simulated: the nearest of them, its planes, and what statuses say where runs stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import SolverError
from dynid.estimate import CLIE, CLOE, DIDIM, IV, OE, WLS, Estimator, SimulationProblem, solve
from dynid.estimate.simulated import ENOUGH, lag_of, least_distance
from dynid.kernel import using
from dynid.papers import TLS
from dynid.signals import Samples, first_difference
from dynid.simulation import loop
from dynid.simulation.loop import differentiated
from dynid.testing import measured_regression
from dynid.testing.estimator_contract import _ADVICE


def test_least_distance_is_that_of_its_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    R, G, h = np.triu(rng.normal(0, 1, (6, 6))) + 3 * np.eye(6), rng.normal(0, 1, (9, 6)), rng.normal(0, 1, 9)
    z = least_distance(R, G, h)
    slack = G @ z - h
    assert slack.min() > -1e-9
    held = slack < 1e-7
    force = np.linalg.lstsq(G[held].T, R.T @ R @ z, rcond=None)[0]
    np.testing.assert_allclose(G[held].T @ force, R.T @ R @ z, atol=1e-7)
    assert held.any()
    assert (force >= -1e-7).all()
    with pytest.raises(SolverError, match="positive definite"):
        least_distance(R, np.array([[1.0, 0, 0, 0, 0, 0], [-1.0, 0, 0, 0, 0, 0]]), np.array([1.0, 1.0]))


def test_what_can_be_simulated_stays_and_the_rest_moves_to_the_border() -> None:
    case = measured_regression(1)
    simulation = SimulationProblem.of(case.regression, "didim", None)
    R = solve(case.regression, WLS().fit(case.regression).weights)[1]
    simulable = simulation.simulable
    np.testing.assert_array_equal(simulable.nearest(case.beta, R), case.beta)
    plane = simulable._planes(*worst(simulation, case.beta))[0]
    light = case.beta - 3.0 * plane / (plane @ plane)
    assert simulable.shortfall(light)[0].min() < 0
    near = simulable.nearest(light, R)
    assert ENOUGH <= simulable.shortfall(near)[0].min() < 1.1
    # The line to any other point of the set leads away from the answer: it is the nearest in the metric of R.
    for share in (0.01, 0.1, 1.0):
        other = near + share * (case.beta - near)
        assert np.linalg.norm(R @ (other - light)) > 0.95 * np.linalg.norm(R @ (near - light))


def worst(simulation: SimulationProblem, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    least, v = simulation.simulable.shortfall(value)
    at = np.array([int(np.argmin(least))])
    return v[at], at


def test_planes_are_the_slopes_of_their_eigenvalues() -> None:
    case = measured_regression(2, elastic=True, seconds=4.0)
    simulable = SimulationProblem.of(case.regression, "didim", None).simulable
    _, v = simulable.shortfall(case.beta)
    at = np.array([0, 3])
    planes = simulable._planes(v[at], at)
    change = np.random.default_rng(0).normal(0, 1e-6, len(case.beta)) * case.size
    above, below = (simulable.shortfall(case.beta + step)[0] for step in (change, -change))
    np.testing.assert_allclose((above - below)[at] / 2.0, planes @ change, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize(
    "method", [IV(), CLIE(), OE(), *(pytest.param(one, marks=pytest.mark.slow) for one in (DIDIM(), CLOE()))]
)
def test_a_run_that_stops_is_no_good_status_and_names_something_to_do(
    monkeypatch: pytest.MonkeyPatch, method: Estimator
) -> None:
    """From the second value on the mass matrix loses its sign, as it did on a real arm's light wrist."""
    case = measured_regression(2, seconds=4.0)
    known: list[np.ndarray] = []
    step = loop._Stepper.step

    def failing(self, x, v, k):  # type: ignore[no-untyped-def]  # a stub
        theta = self.mechanism.theta
        if not known:
            known.append(theta)
        if not np.array_equal(theta, known[0]):
            raise SolverError(
                "singular-mass-matrix",
                found="a mass matrix that is not positive definite",
                expected="every joint to move some inertia",
            )
        return step(self, x, v, k)

    monkeypatch.setattr(loop._Stepper, "step", failing)
    with using("numpy"):  # compiled steps cannot be made to fail from here
        status = replace(method, tolerance=1e-9).fit(case.regression).status  # type: ignore[type-var]  # both are dataclasses
    assert not status.ok
    assert "positive definite" in status.text
    assert any(word in status.text for word in _ADVICE)


def test_noise_that_is_taken_for_too_strong_is_no_good_status() -> None:
    status = TLS(position_noise=0.1).fit(measured_regression(1).regression).status
    assert not status.ok
    assert "position_noise" in status.text


def test_velocities_that_lag_are_seen_and_do_not_matter() -> None:
    case = measured_regression(1, quiet=True)
    samples = case.regression.source.batches[0]  # type: ignore[union-attr]  # the case has a source
    np.testing.assert_allclose(lag_of([samples]), 0.0, atol=1e-6)
    ahead = replace(samples, q=samples.q + 0.005 * samples.dq)
    np.testing.assert_allclose(lag_of([ahead]), 0.005, rtol=0.02)
    source = replace(case.regression.source, batches=[ahead])  # type: ignore[type-var]  # the case has a source
    found = CLOE().fit(replace(case.regression, source=source))
    assert found.status.ok
    assert (np.abs(found.value - case.beta) / case.size < 0.02).all()


def test_a_lag_is_the_share_of_the_acceleration_in_what_velocities_lack() -> None:
    """Where dq/dt - dq = lag ddq holds row for row, the lag is exact, however the acceleration changes."""
    rate, lag = 100.0, np.array([0.004, -0.01])
    t = np.arange(60) / rate
    q = np.stack([t**3, np.exp(4.0 * t)], axis=1)
    ddq = np.stack([6.0 * t, 16.0 * np.exp(4.0 * t)], axis=1)
    slope = first_difference(np.ascontiguousarray(q.T), rate).T
    samples = replace(Samples.from_motion(q, slope - lag * ddq, ddq), rate=rate)
    np.testing.assert_allclose(lag_of([samples]), lag, rtol=1e-9)
    np.testing.assert_allclose(lag_of([samples, samples]), lag, rtol=1e-9)


def test_accelerations_of_a_stiff_run_are_those_of_its_velocity() -> None:
    t = np.arange(40) / 100.0
    v = np.stack([np.sin(3 * t), t**4], axis=1)[None]
    wanted = np.stack([3 * np.cos(3 * t), 4 * t**3], axis=1)[None]
    np.testing.assert_allclose(differentiated(v, 100.0)[..., 1], wanted[..., 1], atol=1e-11)
    np.testing.assert_allclose(differentiated(v, 100.0)[..., 0], wanted[..., 0], atol=2e-6)
