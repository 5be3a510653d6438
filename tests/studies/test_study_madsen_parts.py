"""Pieces of the study of Madsen et al. 2020: base parameters, Table 4, weights, torque of models along a log."""

from __future__ import annotations

import numpy as np
import pytest
from dynid_studies.madsen_arm import (
    BODIES,
    FC,
    FL,
    FV,
    REFERENCE,
    SIGNS,
    Run,
    bodies,
    known,
    log_of,
    measured,
    regrouped,
    robot,
)
from dynid_studies.madsen_calibration import COMPENSATED, identified, weighted
from dynid_studies.madsen_table4 import NAMES, PRINTED, base_rows, put_right
from dynid_studies.madsen_validation import joints

from dynid.factor import structural_base
from dynid.rows import TorqueRows


@pytest.fixture(scope="module")
def run() -> Run:
    return measured(seed=4, seconds=10.0)


def test_rows_of_the_base_parameters_span_what_motion_can_determine() -> None:
    L, base = base_rows(), structural_base(robot(), BODIES, TorqueRows())
    assert L.shape == (36, 60)
    # Same row space: either set is a combination of the other.
    assert np.linalg.matrix_rank(np.concatenate([L, base.B]), tol=1e-9) == base.rank == 36


def test_base_parameters_survive_regrouping() -> None:
    random = np.random.default_rng(2).normal(size=(6, 10))
    L = base_rows()
    np.testing.assert_allclose(L @ regrouped(random).ravel(), L @ random.ravel(), atol=1e-12)


def test_names_put_right_keep_every_printed_value_but_one() -> None:
    right = put_right()
    assert list(right) == list(NAMES)
    assert right["ZZR2"] is None
    assert (right["mXR2"], right["XXR3"], right["mXR3"]) == (-4.1774, -0.7336, -1.8774)
    printed = {name: value for name, value, _ in PRINTED}
    assert [n for n in NAMES if right[n] == printed[n]] == [*NAMES[:5], *NAMES[15:]]
    assert sorted(v for v in right.values() if v is not None) == sorted(
        printed[n] for n in NAMES if n != "mY3"
    )


def test_weights_of_wls_give_its_own_fit_again(run: Run) -> None:
    fit = identified(log_of(run), COMPENSATED)
    again = weighted(fit, fit.estimate.weights)
    np.testing.assert_allclose(fit.estimate.base.reduce(_padded(again.pi, fit.estimate.full_vector)),
                               fit.estimate.value, rtol=1e-6, atol=1e-8)  # fmt: skip
    assert again.own == pytest.approx(fit.training.scores.total_nmse, rel=1e-3)


def _padded(pi: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.concatenate([pi, like[60:]])


def test_known_friction_is_wrong_by_its_share() -> None:
    assert known(error=0.1).load == pytest.approx((1 + 0.1 * SIGNS) * FL)
    assert known(error=0.1, signs=np.ones(6)).load == pytest.approx(1.1 * FL)
    assert known().reference == REFERENCE


def test_true_bodies_leave_only_noise_of_a_quiet_run() -> None:
    quiet = measured(seed=4, noise=0.01, seconds=10.0)
    lacking = -0.07 * np.concatenate([SIGNS * FV, SIGNS * FC])
    theta, maker = (np.concatenate([pi.ravel(), lacking]) for pi in (bodies(), robot().inertia_prior))
    seen = joints(log_of(quiet), {"true": theta, "maker": maker})
    # What the known friction lacks in load and heat is left: a few tenths of a newton metre, of loads of tens.
    assert np.all(seen.by_joint("true") < 0.02 * seen.by_joint("maker"))
    assert seen.measured.shape == seen.models["true"].shape == (len(seen.t), 6)
    e = seen.measured - seen.models["true"]
    assert seen.as_printed("true") == pytest.approx((e**2 / np.abs(seen.measured)).sum())
