"""Criteria for chosen quantities: predicted torque, payloads; what an earlier run counts for."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.base import Float, UnfitDataError, UsageError
from dynid.estimate import Residuals, rows_a_sample
from dynid.excitation import (
    Bounds,
    Criterion,
    MotionLimits,
    Task,
    design_motion,
    information_of,
    prior_theta,
    shrinkage,
)
from dynid.excitation.design import loaded, payload_information, prediction_focus
from dynid.kernel import inverse_dynamics
from dynid.robot import load_example
from dynid.signals import Samples
from dynid.terms import RigidBody, Terms, Viscous
from dynid.trajectories import FourierBasis, Together, parts_of
from tests.command_line import SHORT_SEARCH, Run, planned

ROBOT = load_example("arm7")
INFORMATION = information_of(ROBOT, RigidBody() + Viscous())
RNG = np.random.default_rng(0)


def motion(seed: int, T: int = 200) -> tuple[Float, Float, Float]:
    q, dq, ddq = np.random.default_rng(seed).normal(size=(3, T, ROBOT.n))
    return q, dq, ddq


def test_the_focus_on_torque_is_the_mean_variance_of_predicted_torque() -> None:
    recorded, predicted = motion(1), [motion(2, 60), motion(3, 60)]
    R = INFORMATION.triangle(*recorded)
    P = np.linalg.inv(R.T @ R)
    C = prediction_focus(INFORMATION, predicted)
    base, total = INFORMATION.base, 0.0
    for one in predicted:
        panels = INFORMATION.terms.torque_regressor(ROBOT, Samples.from_motion(*one))
        Y = panels.dense(len(base.names))[:, :, base.independent] / INFORMATION.noise[None, :, None]
        total += float(np.einsum("tjb,bc,tjc->", Y, P, Y)) / (2 * 60 * ROBOT.n)
    assert float(np.trace(C @ P @ C.T)) == pytest.approx(total, rel=1e-10)
    focused = replace(INFORMATION, focus=C)
    assert focused.value(*recorded) == pytest.approx(np.log(total), rel=1e-10)
    with pytest.raises(UsageError, match="no motion"):
        prediction_focus(INFORMATION, [])


def test_a_payload_has_the_columns_of_the_last_body() -> None:
    load = payload_information(INFORMATION)
    assert [load.base.names[i] for i in load.base.independent] == list(load.base.names[60:70])
    assert not load.base.B[:, :60].any()
    with pytest.raises(UnfitDataError, match="without the payload"):
        payload_information(replace(INFORMATION, recorded=np.eye(INFORMATION.base.rank)))
    friction = information_of(ROBOT, Terms((Viscous(),)))
    with pytest.raises(UnfitDataError, match="rigid"):
        payload_information(friction)


def test_what_cannot_be_determined_of_a_payload_is_one_combination() -> None:
    # One vertical axis: of a load on it torque knows only the inertia about that axis.
    single = replace(
        ROBOT,
        body_names=ROBOT.body_names[:1], tree_joint_names=ROBOT.tree_joint_names[:1],
        joint_names=ROBOT.joint_names[:1], parent=ROBOT.parent[:1], joint_types=ROBOT.joint_types[:1],
        T_parent_joint=ROBOT.T_parent_joint[:1], axis=np.array([[0.0, 0.0, 1.0]]),
        inertia_prior=ROBOT.inertia_prior[:1], merged=ROBOT.merged[:1],
        limits=type(ROBOT.limits).none(1), drive=type(ROBOT.drive).direct(1),
        projection=np.eye(1), projection_offset=np.zeros(1), friction_prior=np.zeros((1, 2)),
        spring_prior=ROBOT.spring_prior[:1],
    )  # fmt: skip
    load = payload_information(information_of(single, RigidBody() + Viscous()))
    assert load.base.formulas() == ("Izz1",)


def test_a_point_mass_adds_its_torque() -> None:
    theta = prior_theta(ROBOT, INFORMATION.terms)
    assert theta is not None
    centre = np.array([0.1, -0.05, 0.2])
    more = loaded(ROBOT, INFORMATION.terms, theta, 2.0, centre)
    q, dq, ddq = motion(4, 20)
    inertia = np.zeros((7, 10))
    x = centre
    inertia[6] = 2.0 * np.array(
        [
            1.0,
            *x,
            x @ x - x[0] ** 2,
            -x[0] * x[1],
            x @ x - x[1] ** 2,
            -x[0] * x[2],
            -x[1] * x[2],
            x @ x - x[2] ** 2,
        ]
    )
    samples = Samples.from_motion(q, dq, ddq)
    added = INFORMATION.terms.torque(ROBOT, samples, more) - INFORMATION.terms.torque(ROBOT, samples, theta)
    np.testing.assert_allclose(added, inverse_dynamics(ROBOT.tree, inertia, q, dq, ddq), atol=1e-9)
    with pytest.raises(UsageError, match="payload"):
        loaded(ROBOT, INFORMATION.terms, theta, -1.0, centre)


def residuals(rho: float, seed: int, T: int = 200_000) -> Residuals:
    error = np.random.default_rng(seed).normal(size=(T, 2))
    error[:, 0] = lfilter([np.sqrt(1 - rho**2)], [1.0, -rho], error[:, 0])
    zero = np.zeros((T, 2))
    return Residuals(
        ("a",), ("one", "two"), np.arange(T) * 0.01, np.zeros(T, dtype=np.int64), np.arange(T) // 50_000,
        error, zero, zero, zero, 100.0,
    )  # fmt: skip


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_correlated_residuals_count_for_fewer_rows(rho: float) -> None:
    found = rows_a_sample(residuals(rho, 1))
    assert found[0] == pytest.approx((1 + rho) / (1 - rho), rel=0.15)
    assert found[1] == pytest.approx(1.0, abs=0.15)


def test_intervals_shrink_as_the_information_says() -> None:
    R = INFORMATION.triangle(*motion(5, 300)) * np.sqrt(300)
    record = replace(INFORMATION, recorded=R, rate=100.0)
    again = shrinkage(record, motion(5, 300), 3.0)
    np.testing.assert_allclose(again, np.sqrt(0.5), rtol=1e-6)
    assert (shrinkage(record, motion(6, 300), 3.0) < 1.0).all()
    # What the record did not determine at all has no width to compare with.
    blind = np.array(R)
    blind[:, -1] = 0.0
    share = shrinkage(replace(record, recorded=blind), motion(6, 300), 3.0)
    assert share[-1] == 0.0
    assert (share[:-1] > 0).all()
    with pytest.raises(UsageError, match="no earlier log"):
        shrinkage(INFORMATION, motion(6, 300), 3.0)


def test_no_stretch_long_enough_counts_every_row() -> None:
    np.testing.assert_array_equal(rows_a_sample(residuals(0.5, 1, 5)), np.ones(2))


def test_motions_designed_together_beat_the_same_motion_twice() -> None:
    basis = FourierBasis(8.0, 2, 0.25, 1.5)
    bounds = Bounds(MotionLimits.of(ROBOT))
    information = replace(INFORMATION, criterion=Criterion.LOGDET)
    one = design_motion(Task(basis, information, bounds), 1, 12, candidates=12)
    both = design_motion(Task(Together((basis, basis)), information, bounds), 1, 24, candidates=12)
    assert both.tightest.margin >= 0
    assert both.value < one.value - 2.0
    first, second = parts_of(both.trajectory)
    assert first.duration == second.duration == 8.0
    assert np.abs(first.motion(np.array([4.0]))[0] - second.motion(np.array([4.0]))[0]).max() > 0.1


def test_a_run_is_continued_where_it_is_weakest(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    assert run("identify", robot_file, train_log, "--rows", "torque", "--out", tmp_path / "run").code == 0
    bounded = {"limits.velocity": 2.0, "limits.lower": -1.5, "limits.upper": 1.5, "limits.torque": 60.0}
    few = planned(tmp_path, SHORT_SEARCH | bounded | {"search.iterations": 3})
    done = run("excite", robot_file, *few, "--after", tmp_path / "run", "--out", tmp_path / "next")
    assert done.code == 0, done.err
    assert "expected width of the run" in done.out
    alone = run("excite", robot_file, *few, "--out", tmp_path / "alone")
    figure = [float(text.out.split("log determinant ")[1].split()[0]) for text in (done, alone)]
    assert figure[0] > figure[1]


def test_the_command_takes_quantities(run: Run, tmp_path: Path) -> None:
    arm = files("dynid") / "data" / "arm7.toml"
    few = SHORT_SEARCH | {"search.iterations": 1}
    load = few | {"motion.focus": ["payload"], "tool.payload": 2.0, "motion.motions": 2}
    done = run("excite", arm, *planned(tmp_path, load), "--out", tmp_path / "load")
    assert (done.code, "for 10 base parameters" in done.out) == (0, True), done.err
    names = {path.name for path in (tmp_path / "load").glob("*.csv")}
    assert names == {f"motion-{k}{speed}.csv" for k in (1, 2) for speed in ("-25", "-50", "")}
    for k, focus in enumerate(("torque", f"torque:{tmp_path / 'load'}")):
        own = planned(tmp_path, few | {"motion.focus": [focus]})
        done = run("excite", arm, *own, "--out", tmp_path / f"torque{k}")
        assert (done.code, "of the chosen quantities" in done.out) == (0, True), done.err
    for wrong, words in (
        ({"motion.focus": ["torque", "fv1"]}, "only 'torque'"),
        ({"motion.focus": [f"torque:{tmp_path / 'none'}"]}, "no such file"),
        ({"tool.payload": 500.0}, "torque of"),
    ):
        done = run("excite", arm, *planned(tmp_path, few | wrong), "--out", tmp_path / "wrong")
        assert (done.code in (2, 3, 4), words in done.err) == (True, True), done.err
