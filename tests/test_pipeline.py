"""The whole way on small simulated robots whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, SolverError
from dynid.estimate import OLS, WLS, Estimate, FeasibleFit, Origin, Ridge
from dynid.feasible import least_eigenvalues
from dynid.identification import DEFAULT_TERMS, Settings, default_estimator, identify, settings_to_experiment
from dynid.log import Channel, Log, Selection, read_log, write_log
from dynid.robot import RobotModel, lock_joints
from dynid.run import Identification, Validation, judge, load, scores_from_dict, scores_to_dict, validate
from dynid.signals import Preparation
from dynid.terms import ChannelTorque, Offset, RigidBody, Terms, Viscous
from dynid.testing import random_robot, simulated_log, smooth_samples
from dynid.verbs import describe_base, save, score_lines

ROBOT = random_robot(21, 3, 0.0)
SETTINGS = Settings(terms=DEFAULT_TERMS, preparation=Preparation(cutoff=8.0))


def truth(robot: RobotModel, terms: Terms = DEFAULT_TERMS) -> Float:
    typical = {"rotor_inertia": 0.2, "viscous": 0.8, "coulomb": 1.5, "offset": -0.4}
    return np.array([typical.get(c.term, c.prior) for c in terms.columns(robot)])


def imprecise(robot: RobotModel) -> RobotModel:
    return replace(robot, inertia_prior=1.3 * robot.inertia_prior)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Log]:
    folder = tmp_path_factory.mktemp("logs")
    theta = truth(ROBOT)
    first, second = (
        simulated_log(folder / f"{name}.parquet", ROBOT, DEFAULT_TERMS, theta, seconds=seconds, seed=seed)
        for name, seconds, seed in (("train", 30.0, 1), ("test", 12.0, 2))
    )
    return read_log(first, ROBOT), read_log(second, ROBOT)


@pytest.fixture(scope="module")
def result(logs: tuple[Log, Log]) -> Identification:
    return identify(imprecise(ROBOT), logs[0], SETTINGS, validation=logs[1], threads=1)


def test_the_truth_is_recovered(result: Identification) -> None:
    estimate = result.estimate
    wanted = estimate.base.reduce(truth(ROBOT))
    error = np.abs(estimate.value - wanted)
    assert estimate.base.rank == result.structural.rank
    assert estimate.status.ok
    # Filters and differentiation leave a small bias besides the noise.
    assert (error <= 3 * estimate.half_width() + 0.01 * np.abs(wanted).max()).all()
    samples = smooth_samples(ROBOT, 2000, seed=9, rate=200.0)
    exact = DEFAULT_TERMS.torque(ROBOT, samples, truth(ROBOT))
    for theta in (estimate.full_vector, estimate.parameters):
        found = DEFAULT_TERMS.torque(ROBOT, samples, theta)
        assert np.linalg.norm(found - exact) < 0.02 * np.linalg.norm(exact)


def test_full_parameters_are_real_bodies(result: Identification) -> None:
    base, theta = result.estimate.base, result.estimate.parameters
    np.testing.assert_allclose(base.reduce(theta), result.estimate.value, rtol=1e-8, atol=1e-10)
    assert (least_eigenvalues(result.estimate.columns, theta) > 0).all()
    bounds = np.array([c.lower for c in result.estimate.columns])
    assert (theta >= bounds - 1e-9).all()
    assert result.estimate.status.ok


def test_full_parameters_without_constraints_are_those_nearest_to_the_description(
    logs: tuple[Log, Log], result: Identification
) -> None:
    settings = replace(SETTINGS, estimator=WLS())
    free = identify(imprecise(ROBOT), logs[0], settings, validation=logs[1], threads=1).estimate
    np.testing.assert_allclose(free.base.reduce(free.parameters), free.value, rtol=1e-8, atol=1e-10)
    prior = [c.prior for c in free.columns]
    for j, category in enumerate(free.base.categories()):
        if str(category) == "not identifiable" and np.isfinite(prior[j]):
            assert free.parameters[j] == pytest.approx(prior[j], rel=1e-12)  # rounding of the linear algebra
    # Clean data leave little to the constraints: a small part of an interval.
    moved = np.abs(result.estimate.value - free.value)
    assert np.median(moved / free.half_width()) < 0.5


def test_constraints_without_a_solution_stop_the_run(
    logs: tuple[Log, Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*anything: object) -> Estimate:
        raise SolverError("not-solved", found="no progress", expected="an optimum")

    constrained = replace(SETTINGS, estimator=FeasibleFit())
    for step in ("solution", "fit"):
        with monkeypatch.context() as patch:
            patch.setattr(FeasibleFit, step, refuse)
            with pytest.raises(SolverError):
                identify(ROBOT, logs[0], constrained, threads=1)


def test_scores_are_good_and_named(result: Identification) -> None:
    (held_out,) = result.validations
    assert held_out.scores.origin is Origin.HELD_OUT_LOG
    assert held_out.scores.trajectories == ("test",)
    assert result.training.scores.origin is Origin.TRAINING
    assert (held_out.scores.r2 > 0.99).all()
    assert result.verdict.level == "good"
    assert held_out.residuals is not None
    e = held_out.residuals.error
    np.testing.assert_allclose(held_out.scores.rms, np.sqrt(np.mean(e**2, axis=0)), rtol=1e-9)


def test_bodies_that_exports_hold_are_scored_beside_an_estimate_without_constraints(
    logs: tuple[Log, Log], result: Identification
) -> None:
    assert result.validations[0].scores.exported is None
    exported = 1.1 * result.estimate.parameters
    beside = replace(result, estimate=replace(result.estimate, consistent=exported))
    alone = replace(
        result.estimate, parameters=exported, value=np.asarray(result.estimate.base.reduce(exported))
    )
    scores = validate(beside, logs[1], threads=1).scores
    expected = validate(replace(result, estimate=alone), logs[1], threads=1).scores
    assert scores.exported == pytest.approx(expected.total_relative, rel=1e-9)
    np.testing.assert_array_equal(scores.relative, result.validations[0].scores.relative)
    again = scores_from_dict(scores_to_dict(scores))
    assert again.exported == scores.exported
    (line,) = (one for one in score_lines(again) if "exports" in one)
    assert f"error {100 * expected.total_relative:.3g} %" in line
    verdict = judge(
        beside.estimate,
        result.structural,
        result.training,
        (Validation(scores),),
        Diagnostics(),
        faults=("one",),
    )
    assert f"{100 * expected.total_relative:.2g} % for the exported model" in verdict.headline
    (finding,) = (one for one in verdict.findings if one.code == "not-exportable")
    assert f"torque error on held-out log: {100 * expected.total_relative:.3g} %" in finding.text


def test_threads_do_not_change_a_byte(logs: tuple[Log, Log], result: Identification) -> None:
    other = identify(imprecise(ROBOT), logs[0], SETTINGS, validation=logs[1], threads=4)
    for name in ("value", "covariance", "parameters", "sigma", "block_leverage"):
        one, four = (np.asarray(getattr(r.estimate, name)) for r in (result, other))
        assert one.tobytes() == four.tobytes(), name
    assert result.training.residuals is not None
    assert other.training.residuals is not None
    assert result.training.residuals.predicted.tobytes() == other.training.residuals.predicted.tobytes()


def test_without_a_second_log_blocks_are_held_out(logs: tuple[Log, Log]) -> None:
    reported: dict[str, float] = {}

    def progress(stage: str, seconds: float) -> None:
        reported[stage] = reported.get(stage, 0.0) + seconds

    found = identify(ROBOT, logs[1], SETTINGS, threads=1, progress=progress)
    (held_out,) = found.validations
    assert held_out.scores.origin is Origin.HELD_OUT_BLOCKS
    assert (held_out.scores.r2 > 0.98).all()
    assert set(reported) == {"reading", "equations", "residuals"}
    assert all(seconds == pytest.approx(12.0, rel=0.2) for seconds in reported.values())


def test_a_log_that_was_fitted_is_never_called_validation(
    logs: tuple[Log, Log], result: Identification
) -> None:
    diagnostics = Diagnostics()
    again = validate(result, logs[0], diagnostics)
    assert again.scores.origin is Origin.TRAINING
    assert [d.identifier for d in diagnostics.warnings] == ["training-is-validation"]
    np.testing.assert_allclose(again.scores.rms, result.training.scores.rms, rtol=1e-9)
    assert validate(result, logs[1]).scores.origin is Origin.HELD_OUT_LOG
    found = identify(ROBOT, logs[1], SETTINGS, validation=logs[1], threads=1)
    assert found.validations[0].scores.origin is Origin.TRAINING
    assert found.verdict.level == "usable"


def test_parts_of_a_trajectory_count_as_seen_only_where_they_overlap(logs: tuple[Log, Log]) -> None:
    path = logs[0].tables[0].path
    first, rest, middle = (
        read_log(path, ROBOT, select=[Selection(part=part)]) for part in ((0, 0.6), (0.6, 1.0), (0.5, 0.9))
    )
    found = identify(ROBOT, first, SETTINGS, validation=rest, threads=1)
    assert found.validations[0].scores.origin is Origin.HELD_OUT_LOG
    assert validate(found, middle).scores.origin is Origin.TRAINING


def test_a_copy_of_the_training_log_is_recognised(
    logs: tuple[Log, Log], result: Identification, tmp_path: Path
) -> None:
    copy = tmp_path / "renamed.parquet"
    copy.write_bytes(logs[0].tables[0].path.read_bytes())
    assert validate(result, read_log(copy, ROBOT)).scores.origin is Origin.TRAINING


@pytest.mark.parametrize(("seed", "mimic"), [(31, False), (33, True)])
def test_branched_trees_and_mimic_joints(seed: int, mimic: bool, tmp_path: Path) -> None:
    robot = random_robot(seed, 4, 0.6, mimic=mimic)
    theta = truth(robot)
    log = read_log(simulated_log(tmp_path / "a.csv", robot, DEFAULT_TERMS, theta, seconds=25.0), robot)
    found = identify(imprecise(robot), log, SETTINGS, threads=1)
    samples = smooth_samples(robot, 1000, seed=5, rate=200.0)
    exact = DEFAULT_TERMS.torque(robot, samples, theta)
    predicted = DEFAULT_TERMS.torque(robot, samples, found.estimate.full_vector)
    assert np.linalg.norm(predicted - exact) < 0.03 * np.linalg.norm(exact)


def test_other_estimators_go_the_same_way(logs: tuple[Log, Log], result: Identification) -> None:
    for estimator in (OLS(), Ridge(1e-3)):
        found = identify(
            ROBOT, logs[0], replace(SETTINGS, estimator=estimator), validation=logs[1], threads=1
        )
        assert found.estimate.method == estimator.name
        assert (
            found.validations[0].scores.relative < 1.5 * result.validations[0].scores.relative + 0.01
        ).all()


def test_a_channel_in_the_log_can_be_a_term(tmp_path: Path) -> None:
    terms = RigidBody() + Viscous() + Offset() + ChannelTorque("spring", "joint2")
    samples = smooth_samples(ROBOT, 5000, seed=3, rate=200.0)
    spring = 4.0 * np.sin(2.0 * samples.q[:, 0])
    samples = replace(samples, extra={"spring": spring})
    theta = np.append(truth(ROBOT, RigidBody() + Viscous() + Offset()), 0.7)
    tau = terms.torque(ROBOT, samples, theta)
    columns = {f"q_joint{j + 1}": samples.q[:, j] for j in range(3)}
    columns |= {f"tau_joint{j + 1}": tau[:, j] for j in range(3)}
    log = read_log(
        write_log(tmp_path / "a.parquet", samples.t, columns | {"spring": spring}), ROBOT, extra=["spring"]
    )
    assert log.mapping.extra["spring"] == Channel("spring", "1", 1.0)
    found = identify(ROBOT, log, replace(SETTINGS, terms=terms, estimator=WLS()), threads=1)
    index = [c.name for c in found.estimate.columns].index("s_spring")
    assert found.estimate.parameters[index] == pytest.approx(0.7, abs=0.01)


def resting_log(folder: Path, braked: bool = False) -> Log:
    """The last joint stands still: a servo holds it, or its brake holds all of the load but for what noise shows."""
    samples = smooth_samples(ROBOT, 4000, seed=4, rate=200.0)
    still = np.array(samples.q)
    still[:, 2] = 0.3
    moving = np.array([True, True, False])
    frozen = type(samples).from_motion(still, samples.dq * moving, samples.ddq * moving, rate=200.0)
    tau = DEFAULT_TERMS.torque(ROBOT, frozen, truth(ROBOT))
    noise = 0.01 * np.random.default_rng(0).normal(size=len(tau))
    tau[:, 2] = noise + (0.4 if braked else tau[:, 2])
    columns = {f"q_joint{j + 1}": still[:, j] for j in range(3)}
    columns |= {f"tau_joint{j + 1}": tau[:, j] for j in range(3)}
    return read_log(write_log(folder / f"{braked}.parquet", samples.t, columns), ROBOT)


def test_a_joint_at_rest_is_not_judged(tmp_path: Path) -> None:
    log, braked = resting_log(tmp_path), resting_log(tmp_path, braked=True)
    found = identify(ROBOT, log, SETTINGS, threads=1, validation=braked)
    held_out, again = found.validations[0].scores, validate(found, log, threads=1).scores
    assert held_out.at_rest == found.training.scores.at_rest == again.at_rest == ("joint3",)
    assert held_out.r2[2] < 0.0
    assert "joint3" not in held_out.useless
    by_code = {one.code: one for one in found.verdict.findings}
    assert by_code["joint-not-judged"].title.startswith("joint3")
    assert not {"useless-joint", "poor-joint"} & set(by_code)
    # Nothing is known of its friction: motion that moves it may be missed by any share.
    assert found.verdict.level not in ("good", "poor")
    save(found, tmp_path / "run")
    assert load(tmp_path / "run").validations[0].scores.at_rest == ("joint3",)


def test_a_joint_that_is_held_for_good_does_not_cap_the_verdict(tmp_path: Path) -> None:
    """What the warning of a joint at rest advises ends it, and its cap of the verdict."""
    log = resting_log(tmp_path)
    held = lock_joints(ROBOT, {"joint3": 0.3}).robot
    # Its efforts have no noise.
    accepting = replace(SETTINGS, accept=("modelled-effort",))
    found = identify(held, read_log(tmp_path / "False.parquet", held), accepting, threads=1)
    assert "joint-at-rest" not in [d.identifier for d in found.diagnostics.warnings]
    assert found.verdict.level == "good"
    assert identify(ROBOT, log, accepting, threads=1).verdict.level == "usable"


def test_a_joint_at_rest_loses_its_friction(tmp_path: Path) -> None:
    found = identify(ROBOT, resting_log(tmp_path), SETTINGS, threads=1)
    assert "joint-at-rest" in [d.identifier for d in found.diagnostics.warnings]
    assert found.estimate.base.rank < found.structural.rank
    kept = {found.estimate.columns[i].name for i in found.estimate.base.independent}
    assert not kept & {"fv3", "fc3", "Ia3"}
    assert any("not excited" in f.title for f in found.verdict.findings)


def test_a_reversed_torque_sign_is_doubted(tmp_path: Path) -> None:
    samples = smooth_samples(ROBOT, 4000, seed=4, rate=200.0)
    tau = np.array(DEFAULT_TERMS.torque(ROBOT, samples, truth(ROBOT)))
    tau[:, 1] *= -1.0
    columns = {f"q_joint{j + 1}": samples.q[:, j] for j in range(3)}
    columns |= {f"tau_joint{j + 1}": tau[:, j] for j in range(3)}
    log = read_log(write_log(tmp_path / "a.parquet", samples.t, columns), ROBOT)
    found = identify(ROBOT, log, SETTINGS, threads=1)
    assert "joint2" in {one.place.joint for one in found.diagnostics.doubts}
    assert found.verdict.level in ("doubtful", "poor")
    assert "joint2" in found.verdict.headline


def test_the_stored_experiment_says_what_was_done(result: Identification) -> None:
    experiment = settings_to_experiment(SETTINGS.resolved())
    assert result.experiment == experiment
    estimator = default_estimator()
    assert experiment["estimate"]["method"] == estimator.name
    for width in ("mass", "centre", "inertia", "guessed_mass", "guessed_centre", "guessed_inertia"):
        assert experiment["estimate"][width] == getattr(estimator, width)
    assert experiment["prepare"]["cutoff"] == 8.0
    assert result.provenance["seed"] == 0


def test_what_could_be_identified_is_reported_in_words() -> None:
    lines = describe_base(ROBOT)
    assert lines[0].startswith("base parameters: ")
    assert " of 30 parameters (rigid_body)" in lines[0]
    assert any(line.startswith("not identifiable (") for line in lines)
    assert lines[-1] == "  3: body3 (moved by joint 'joint3')"
    assert describe_base(ROBOT) == lines
    assert " of 42 parameters" in describe_base(ROBOT, terms=DEFAULT_TERMS)[0]
