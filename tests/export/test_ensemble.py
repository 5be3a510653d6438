"""Spread of an ensemble's torque on motions that were not fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, UsageError
from dynid.choose import ShapeEstimate
from dynid.estimate import OLS, WLS, Estimator
from dynid.exporters import export, sample_parameters
from dynid.exporters.ensemble import held_out_error, spread_on
from dynid.exporters.mjcf import BODY_FIELDS, DOF_FIELDS
from dynid.feasible import least_eigenvalues
from dynid.identification import (
    Experiment,
    Settings,
    held_out_log,
    identify,
    named_files,
    open_log,
    settings_to_experiment,
)
from dynid.log import read_log
from dynid.papers import TLS
from dynid.robot import load_robot
from dynid.run import Identification, load, validate
from dynid.terms import Of
from dynid.verbs import save
from tests.command_line import Run
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")


@pytest.fixture(scope="module")
def folder(
    robot_file: Path, train_log: Path, other_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run that was validated on another log."""
    path = tmp_path_factory.mktemp("run") / "run"
    robot = load_robot(robot_file)
    files = named_files(robot_file, [train_log], [other_log])
    unseen = read_log(other_log, robot)
    save(
        identify(
            robot,
            read_log(train_log, robot),
            Settings(automatic=False),
            validation=unseen,
            threads=1,
            experiment={},
            files=files,
        ),
        path,
    )
    return path


@pytest.fixture(scope="module")
def stored(folder: Path) -> Identification:
    return load(folder)


def test_the_spread_is_the_standard_deviation_of_the_models_own_predictions(
    stored: Identification, other_log: Path
) -> None:
    log = read_log(other_log, stored.robot)
    drawn = spread_on(stored, sample_parameters(stored, 5, seed=3), log, threads=1)
    assert drawn.unseen is not None
    estimate = stored.estimate
    own = validate(stored, log, Diagnostics(), 1).residuals
    assert own is not None
    torque = []
    for theta in drawn.parameters:
        drawn_one = replace(estimate, value=estimate.base.reduce(theta), parameters=theta)
        model = replace(stored, estimate=drawn_one)
        other = validate(model, log, Diagnostics(), 1).residuals
        assert other is not None
        torque.append(other.predicted)
    size = np.sqrt(np.mean(own.measured**2, axis=0))
    variance = np.mean(np.var(torque, axis=0, ddof=1), axis=0)
    np.testing.assert_allclose(drawn.unseen.spread, np.sqrt(variance) / size, rtol=0.03)
    error = np.sqrt(np.mean(own.error**2, axis=0)) / size
    np.testing.assert_allclose(drawn.unseen.error, error, rtol=0.03)


def test_an_ensemble_is_as_wide_as_the_error_on_left_out_blocks(stored: Identification) -> None:
    wide = sample_parameters(stored, 60, seed=4, feasible=True)
    error = held_out_error(stored)
    size = np.sqrt([factor.target_square / factor.count for factor in stored.factors.total])
    np.testing.assert_allclose(wide.held_out, error / size)
    np.testing.assert_allclose(wide.spread, wide.held_out, rtol=0.01)
    noise = sample_parameters(stored, 60, seed=4, feasible=True, width="noise")
    # The held-out error is that of the parameters and of what no parameters explain.
    assert (noise.spread < wide.spread).all()
    assert len(noise.held_out) == 0
    columns = stored.estimate.columns
    lower = np.array([column.lower for column in columns])
    assert (wide.parameters >= lower - 1e-12).all()
    assert min(least_eigenvalues(columns, theta).min() for theta in wide.parameters) > 0
    bodies = [i for i, column in enumerate(columns) if column.of is Of.BODY]
    np.testing.assert_array_equal(wide.parameters[:, bodies], noise.parameters[:, bodies])


def test_what_coefficients_owe_to_shapes_does_not_widen_models_that_share_the_shapes(
    stored: Identification,
) -> None:
    plain = sample_parameters(stored, 40, seed=1, width="noise")
    estimate = stored.estimate
    # A curve whose shape data say nothing of: its coefficient, too, is then known to its own size alone.
    viscous = [estimate.columns[i].term for i in estimate.base.independent].index("viscous")
    owed = np.zeros_like(estimate.covariance)
    owed[viscous, viscous] = estimate.value[viscous] ** 2
    shape = ShapeEstimate("stribeck velocity", "stribeck", "j1", "rad/s", 0.1, 0.1, 0.01, 1.0, "")
    shaped = replace(
        stored, estimate=replace(estimate, covariance=estimate.covariance + owed), shapes=(shape,)
    )
    np.testing.assert_allclose(
        sample_parameters(shaped, 40, seed=1, width="noise").spread, plain.spread, rtol=0.3
    )


def test_consistent_models_explain_the_data_where_blocks_are_fewer_than_parameters(data_dir: Path) -> None:
    """The covariance of few blocks has no inverse; what it leaves out must not be free to move."""
    experiment = Experiment.read(ROBOTS / "kr300_rptu.experiment.toml")
    robot = experiment.with_drives(load_robot(ROBOTS / "kr300_rptu.toml"))
    files = [data_dir / "kr300_rptu" / "data.parquet"]
    log = open_log(experiment, files, robot, experiment.data.train, Diagnostics())
    found = identify(robot, log, experiment.settings(), threads=1)
    estimate = found.estimate
    assert estimate.degrees_of_freedom < estimate.base.rank
    drawn = sample_parameters(found, 8, feasible=True, width="noise").parameters

    def squares(theta: Float) -> Float:
        full = np.zeros(len(theta))
        full[estimate.base.independent] = estimate.base.reduce(theta)
        return np.array([factor.residual_square(full) for factor in found.factors.total])

    # The closest consistent bodies cost 8 % at the worst joint, and what noise leaves open about as much.
    missed = np.sqrt(np.mean([squares(theta) for theta in drawn], axis=0) / squares(estimate.parameters))
    assert (missed < 1.4).all()


def test_an_ensemble_is_drawn_about_the_model_that_is_exported(stored: Identification) -> None:
    estimate = stored.estimate
    bodies = np.array([column.of is Of.BODY for column in estimate.columns])
    consistent = np.array(estimate.parameters)
    consistent[bodies] *= 1.05
    beside = replace(stored, estimate=replace(estimate, consistent=consistent))
    drawn = sample_parameters(beside, 60, seed=4, feasible=True, width="noise")
    np.testing.assert_array_equal(drawn.centre, consistent)
    away = np.abs(drawn.parameters.mean(axis=0) @ estimate.base.B.T - consistent @ estimate.base.B.T)
    assert (away < 0.5 * np.abs(estimate.value - consistent @ estimate.base.B.T) + estimate.std).all()
    as_identified = sample_parameters(beside, 3, width="noise")
    np.testing.assert_array_equal(as_identified.centre, estimate.parameters)
    # Held-out blocks are missed by as much as consistent fits miss them, which is not the estimate's error.
    assert held_out_error(beside).shape == held_out_error(beside, consistent=False).shape


def test_blocks_are_left_out_of_the_runs_own_estimator(stored: Identification) -> None:
    """Of one that a sum of blocks is enough for; weighted least squares stand in for those that see every equation."""

    def error(estimator: Estimator) -> Float:
        named = settings_to_experiment(Settings(automatic=False, estimator=estimator))
        return held_out_error(replace(stored, experiment=named))

    plain = error(WLS())
    np.testing.assert_array_equal(error(TLS()), plain)
    assert np.abs(error(OLS()) / plain - 1.0).max() > 1e-6


def test_few_models_are_the_first_draws_of_as_wide_an_ensemble(stored: Identification) -> None:
    spreads = [sample_parameters(stored, 4, seed=seed).spread for seed in range(12)]
    wanted = sample_parameters(stored, 4).held_out
    # The mean variance of twelve samples of four; six standard errors of it are 0.8.
    assert (abs(np.mean(np.square(spreads), axis=0) / wanted**2 - 1.0) < 0.8).all()


def test_a_width_that_does_not_exist_is_refused(stored: Identification) -> None:
    with pytest.raises(UsageError, match="width"):
        sample_parameters(stored, 2, width="wide")


def test_a_file_of_samples_holds_what_as_many_mjcf_files_do(
    run: Run, folder: Path, stored: Identification, tmp_path: Path
) -> None:
    mujoco = pytest.importorskip("mujoco")
    assert run("export", folder, "--to", tmp_path / "m.xml", "--ensemble", 3, "--seed", 5).code == 0
    done = run("export", folder, "--to", tmp_path / "m.npz", "--ensemble", 3, "--seed", 5)
    assert done.code == 0
    assert "matched to the held-out error, %" in done.out
    again = run("export", folder, "--to", tmp_path / "again.npz", "--ensemble", 3, "--seed", 5)
    assert again.code == 0
    assert (tmp_path / "m.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    with np.load(tmp_path / "m.npz", allow_pickle=False) as samples:
        for k in range(3):
            model = mujoco.MjModel.from_xml_path(str(tmp_path / f"m_00{k + 1}.xml"))
            assert samples["body_names"].tolist() == [model.body(i).name for i in range(model.nbody)]
            for name in (*BODY_FIELDS, *DOF_FIELDS):
                np.testing.assert_allclose(samples[name][k], getattr(model, name), atol=1e-12)
            assert samples["dof_names"].tolist() == [model.joint(int(j)).name for j in model.dof_jntid]
    assert run("export", folder, "--to", tmp_path / "n.npz").code == 2


def test_the_runs_own_held_out_log_is_taken(stored: Identification, tmp_path: Path) -> None:
    exported = export(stored, tmp_path / "m.json", ensemble=3)
    assert exported.ensemble is not None
    assert exported.ensemble.unseen is not None
    assert exported.ensemble.unseen.trajectories == ("other",)


def test_a_held_out_log_that_changed_is_not_taken(stored: Identification) -> None:
    known = dict.fromkeys(stored.provenance["validation_logs"], "0" * 64)  # type: ignore[call-overload] # a table
    changed = replace(stored, provenance=dict(stored.provenance) | {"validation_logs": known})
    diagnostics = Diagnostics()
    assert held_out_log(changed, diagnostics) is None
    assert [item.identifier for item in diagnostics] == ["held-out-gone"]
    gone = replace(stored, files=dict(stored.files) | {"validate": ["nowhere/x.parquet"]})
    assert held_out_log(gone, diagnostics) is None
    alone = replace(stored, provenance=dict(stored.provenance) | {"validation_logs": {}})
    assert held_out_log(alone, quiet := Diagnostics()) is None
    assert len(quiet) == 0


def test_logs_of_other_joints_are_refused(stored: Identification, other_log: Path, robot_file: Path) -> None:
    robot = load_robot(robot_file)
    renamed = replace(robot, joint_names=("a", "b"), tree_joint_names=("a", "b"))
    log = replace(read_log(other_log, robot), robot=renamed)
    with pytest.raises(UsageError, match="joints"):
        spread_on(stored, sample_parameters(stored, 2), log)


def test_the_command(run: Run, folder: Path, train_log: Path, tmp_path: Path) -> None:
    done = run("export", folder, "--to", tmp_path / "e.json", "--ensemble", "2")
    assert done.code == 0
    assert "on held-out other, %" in done.out
    assert "error of the estimate there" in done.out
    again = run("export", folder, "--to", tmp_path / "f.json", "--ensemble", "2", "--validate", train_log)
    assert "on held-out train, %" in again.out
    assert run("export", folder, "--to", tmp_path / "g.json", "--validate", train_log).code == 2
    missing = tmp_path / "missing.csv"
    assert (
        run("export", folder, "--to", tmp_path / "g.json", "--ensemble", "2", "--validate", missing).code == 3
    )
    assert not (tmp_path / "g.json").exists()


def test_models_from_the_posterior_are_real_and_spread_where_only_the_prior_speaks(
    run: Run, folder: Path, stored: Identification, tmp_path: Path
) -> None:
    drawn = sample_parameters(stored, 6, seed=2, posterior=True).parameters
    assert min(least_eigenvalues(stored.estimate.columns, theta).min() for theta in drawn) > 0
    names = [column.name for column in stored.estimate.columns]
    spread = {
        name: drawn[:, names.index(name)].std() / drawn[:, names.index(name)].mean()
        for name in ("m2", "mcx2")
    }
    # The equations of a planar arm show the second body's first moment, but not its mass by itself.
    assert spread["m2"] > 5 * spread["mcx2"]
    outcome = run(
        "export", folder, "--to", tmp_path / "two.json", "--ensemble", 2, "--posterior", "--seed", 2
    )
    assert outcome.code == 0
    first = json.loads((tmp_path / "two_001.json").read_text())
    written = {one["name"]: one["value"] for one in first["parameters"]}
    two = sample_parameters(stored, 2, seed=2, posterior=True).parameters
    assert abs(written["m2"] - two[0, names.index("m2")]) < 1e-9
