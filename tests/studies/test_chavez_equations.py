"""Chavez-Olivares et al. 2012, acceptance 1 and 2: their closed forms against the general rows, and the wrong (34)."""

from __future__ import annotations

import numpy as np
import pytest
from dynid_studies import rotradi_equations as closed
from dynid_studies.rotradi import POLE, TERMS, arm, lift

from dynid.base import Float
from dynid.rows import CausalFilter
from dynid.signals import Samples
from dynid.testing import smooth_samples

ROBOT, LIFT = arm(), lift()
EVERY = np.ones(len(LIFT), dtype=np.bool_)
WRONG = {(0, i) for i in range(1, 11)} | {(1, i) for i in range(5, 11)} | {(2, i) for i in range(5, 9)}


@pytest.fixture(scope="module")
def motion() -> Samples:
    rng = np.random.default_rng(0)
    return Samples.from_motion(*(rng.uniform(-3, 3, (400, 3)) for _ in range(3)))


def general(samples: Samples) -> tuple[Float, Float, Float]:
    """Y, P and R of the general rows in the paper's 21 parameters, (T, 3, 21) each."""
    P, R = TERMS.momentum_form(ROBOT, samples, EVERY)
    Y = TERMS.torque_regressor(ROBOT, samples, EVERY)
    found = tuple(np.asarray(panels.dense(len(LIFT)) @ LIFT) for panels in (Y, P, R))
    return found[0], found[1], found[2]


def differing(a: Float, b: Float) -> set[tuple[int, int]]:
    """Entries that are not the same."""
    return {(int(i), int(j)) for i, j in np.argwhere(np.abs(a - b).max(axis=0) > 1e-12)}


def test_the_63_entries_of_33(motion: Samples) -> None:
    printed = closed.torque_regressor(motion.q, motion.dq, motion.ddq)
    assert printed.shape == (400, 3, 21)
    np.testing.assert_allclose(printed, general(motion)[0], rtol=0, atol=2e-12)


def test_the_63_entries_of_34_corrected(motion: Samples) -> None:
    _, P, R = general(motion)
    np.testing.assert_allclose(closed.momentum(motion.q, motion.dq), P, rtol=0, atol=1e-12)
    np.testing.assert_allclose(closed.force(motion.q, motion.dq), R, rtol=0, atol=1e-12)


def test_the_printed_34_is_wrong_in_20_entries(motion: Samples) -> None:
    printed, R = closed.force_printed(motion.q, motion.dq), general(motion)[2]
    assert differing(printed, R) == WRONG
    assert len(WRONG) == 20
    still = Samples.from_motion(motion.q, motion.dq, np.zeros_like(motion.q))
    np.testing.assert_allclose(printed, general(still)[0], rtol=0, atol=1e-12)  # it is Y without acceleration


def test_energy_and_power_rows_35_and_36(motion: Samples) -> None:
    stored, working = TERMS.energy_form(ROBOT, motion, EVERY)
    ours = stored.T @ LIFT
    theirs = closed.energy(motion.q, motion.dq)
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=0, atol=2e-12)
    Y = general(motion)[0]
    ours = np.einsum("tjp,tj->tp", Y, motion.dq)
    np.testing.assert_allclose(closed.power(motion.q, motion.dq, motion.ddq), ours, rtol=0, atol=1e-11)
    friction = np.einsum("tjp,tj->tp", working.dense(len(LIFT)) @ LIFT, motion.dq)
    np.testing.assert_allclose(friction[:, 15:], ours[:, 15:], rtol=0, atol=1e-12)


def test_filtered_33_is_34_only_when_corrected() -> None:
    motion = smooth_samples(ROBOT, 10_000, seed=5, rate=1e4)
    f = CausalFilter(POLE / (2 * np.pi), 1, motion.rate)
    columns = slice(0, 15)  # friction jumps at zero velocity

    def lines(values: Float) -> Float:
        return values[:, :, columns].reshape(len(values), -1).T

    Y = lines(closed.torque_regressor(motion.q, motion.dq, motion.ddq))
    P = lines(closed.momentum(motion.q, motion.dq))
    P = f.high(P - P[:, :1])
    right = P + f.low(lines(closed.force(motion.q, motion.dq)))
    printed = P + f.low(lines(closed.force_printed(motion.q, motion.dq)))
    scale = np.abs(Y).max()
    assert np.abs(f.low(Y) - right).max() < 1e-6 * scale
    assert np.abs(f.low(Y) - printed).max() > 1e-2 * scale
