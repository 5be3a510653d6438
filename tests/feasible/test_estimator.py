"""The estimator `feasible`: the contract, and the Panda's log cut in half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, InputError, SolverError, UsageError
from dynid.estimate import (
    DIDIM,
    IRLS,
    OLS,
    WLS,
    Estimator,
    FeasibleFit,
    Word,
    base_verdicts,
    inertia_known,
)
from dynid.feasible import least_eigenvalues
from dynid.identification import Experiment, identify, open_log, settings_to_experiment
from dynid.log import Selection
from dynid.robot import load_robot
from dynid.run import Identification
from dynid.testing import EstimatorContract, measured_regression
from tests.command_line import Run
from tests.robot_files import ROBOTS
from tests.unexamined import not_examined


class TestFeasible(EstimatorContract):
    def estimator(self) -> Estimator:
        return FeasibleFit(strength=1e-6)


class TestFeasibleDrawn(EstimatorContract):
    biased = True

    def estimator(self) -> Estimator:
        return FeasibleFit()


def half(estimator: Estimator, log: Path, first: bool) -> Identification:
    robot = load_robot(ROBOTS / "panda_gaz.toml")
    experiment = Experiment.read(ROBOTS / "panda_gaz.experiment.toml")
    parts = ((0.0, 0.5), (0.5, 1.0))
    training, unseen = (
        open_log(experiment, [log], robot, [Selection(part=part)], Diagnostics())
        for part in (parts if first else parts[::-1])
    )
    with not_examined():
        return identify(
            robot, training, replace(experiment.settings(), estimator=estimator), validation=unseen
        )


@pytest.fixture(scope="module")
def errors(data_dir: Path) -> dict[str, float]:
    log = data_dir / "panda_gaz" / "data.parquet"
    found = {}
    for name, estimator in {
        "ols": OLS(),
        "wls": WLS(),
        "equal": FeasibleFit(weights="equal"),
        "joint": FeasibleFit(required=True),
    }.items():
        both = [half(estimator, log, first) for first in (True, False)]
        scores = [result.validations[0].scores for result in both]
        wrong = sum(float((s.mse * s.count).sum()) for s in scores)
        whole = sum(float((s.torque_rms**2 * s.count).sum()) for s in scores)
        found[name] = 100 * np.sqrt(wrong / whole)
        if name in {"equal", "joint"}:
            for result in both:
                estimate = result.estimate
                assert least_eigenvalues(estimate.columns, estimate.parameters).min() >= 9e-7
                friction = [c.lower == 0.0 and c.term != "rigid_body" for c in estimate.columns]
                assert (estimate.parameters[friction] >= -1e-9).all()
                assert "physically consistent" in estimate.status.text
    return found


def test_feasible_halves_predict_each_other_no_worse_than_least_squares(errors: dict[str, float]) -> None:
    assert errors["equal"] <= errors["ols"] <= 1.71
    assert errors["joint"] <= errors["wls"] <= 1.76
    assert errors["equal"] <= 1.689


def test_windows_that_exclude_every_solution(data_dir: Path) -> None:
    with pytest.raises(SolverError, match="total mass") as stopped:
        half(FeasibleFit(total_mass=(20.0, 10.0)), data_dir / "panda_gaz" / "data.parquet", True)
    assert stopped.value.exit_code == 5


def test_bounds_that_exclude_every_solution_on_the_command_line(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(
        '[estimate]\nmethod = "feasible"\ntotal_mass = [0, 1]\n[[estimate.limits]]\nbody = 1\nmass = [2, 3]\n'
    )
    done = run("identify", robot_file, train_log, "-c", config, "--out", tmp_path / "run")
    assert done.code == 5
    assert "mass of body 1 >= 2" in done.err
    assert "total mass <= 1" in done.err
    assert "smallest change" in done.err
    assert not (tmp_path / "run").exists()


def test_options_come_from_the_experiment_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        '[estimate]\nmethod = "feasible"\nmargin = 1e-5\nprior = "entropic"\nweights = "equal"\ntotal_mass = [16, 20]\n'
    )
    settings = Experiment.read(path).settings()
    assert settings.estimator == FeasibleFit(
        margin=1e-5, prior="entropic", weights="equal", total_mass=(16.0, 20.0)
    )
    again = Experiment.from_dict(settings_to_experiment(settings)).settings()
    assert again.estimator == settings.estimator
    assert Experiment.from_dict(settings_to_experiment(replace(settings, estimator=FeasibleFit()))).settings()


def test_real_bodies_around_another_method(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        '[estimate]\nmethod = "irls"\nloss = "tukey"\nfeasible = true\nprior = "entropic"\nstrength = 0.5\n'
    )
    settings = Experiment.read(path).settings()
    assert settings.estimator == FeasibleFit(inner=IRLS("tukey"), prior="entropic", strength=0.5)
    assert Experiment.from_dict(settings_to_experiment(settings)).settings().estimator == settings.estimator
    other = Experiment.read(path).with_method("didim").settings().estimator
    assert other == FeasibleFit(inner=DIDIM(), prior="entropic", strength=0.5)
    path.write_text('[estimate]\nmethod = "irls"\nfeasible = true\nweights = "equal"\n')
    with pytest.raises(InputError, match=r"toml:4.*estimate.weights with method 'irls'"):
        Experiment.read(path).settings()


def test_values_that_the_prior_decides_are_labelled() -> None:
    case = measured_regression(2, torque_noise=3.0, seconds=4.0)
    fits = [FeasibleFit(strength=s).fit(case.regression) for s in (1e-4, 1.0, 1e4)]
    assert (fits[0].prior_share <= fits[1].prior_share + 1e-9).all()
    assert (fits[1].prior_share <= fits[2].prior_share + 1e-9).all()
    known = inertia_known(case.regression.columns)[case.regression.base.independent]
    words = [v.word for v in base_verdicts(fits[2], case.regression.factors)]
    assert {word for word, is_known in zip(words, known, strict=True) if is_known} == {Word.PRIOR}
    words = [v.word for v in base_verdicts(fits[0], case.regression.factors)]
    assert Word.PRIOR not in words


def test_nearest_real_bodies_to_an_answer_are_those_of_the_same_equations() -> None:
    """Around weighted least squares the wrapper solves the problem of the method 'feasible' itself.

    Up to the weights: the method counts so many correlated samples as one.
    """
    case = measured_regression(4, torque_noise=0.3)
    own, around = (
        FeasibleFit(strength=1.0).fit(case.regression),
        FeasibleFit(inner=WLS()).fit(case.regression),
    )
    np.testing.assert_array_less(np.abs(own.value - around.value) / own.std, 0.1)
    assert around.status.text.startswith("wls, ")
    assert "constraint" in around.status.text


@pytest.mark.parametrize("options", [{"strength": 0.0}, {"margin": -1.0}, {"prior": "x"}, {"weights": "y"}])
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        FeasibleFit(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_limits_of_bodies_come_from_the_experiment_file_and_hold(data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        '[estimate]\nmethod = "feasible"\n[[estimate.limits]]\nbody = 7\nmass = [0.5, 1.0]\n'
        "centre_lower = [-0.05, -10.0, 0.0]\nellipsoid_semi_axes = [0.2, 0.2, 0.2]\n"
        "[[estimate.limits]]\nbody = 3\nhull = [[0.1, 0, 0], [-0.1, 0, 0], [0, 0.1, 0], [0, -0.1, 0], [0, 0, -0.2]]\n"
    )
    settings = Experiment.read(path).settings()
    assert Experiment.from_dict(settings_to_experiment(settings)).settings().estimator == settings.estimator
    found = half(settings.estimator, data_dir / "panda_gaz" / "data.parquet", True).estimate.parameters
    third, seventh = found[20:30], found[60:70]
    assert 0.5 - 1e-6 <= seventh[0] <= 1.0 + 1e-6
    assert (seventh[[1, 3]] / seventh[0] >= np.array([-0.05, 0.0]) - 1e-6).all()
    x, y, z = third[1:4] / third[0]
    assert z <= 1e-6
    assert abs(x) + abs(y) <= 0.1 * (1 + z / 0.2) + 1e-5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('method = "wls"\n[[estimate.limits]]\nbody = 1', "limits"),
        ('method = "feasible"\n[[estimate.limits]]\nbody = 0', "body"),
        ('method = "feasible"\n[[estimate.limits]]\nmass = [0, 1]', "body"),
        ('method = "wls"\ntotal_mass = [0, 1]', "total_mass"),
        ('method = "feasible"\n[[estimate.limits]]\nbody = 1\nellipsoid_semi_axes = [1, 1, 0]', "semi_axes"),
    ],
)
def test_wrong_limits_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text("[estimate]\n" + text + "\n")
    with pytest.raises(InputError, match=message):
        Experiment.read(path).settings()


def test_ur10e_feasible_on_other_trajectories(data_dir: Path) -> None:
    log = data_dir / "ur10e_innopolis" / "data.parquet"
    robot = load_robot(ROBOTS / "ur10e_innopolis.toml")
    experiment = Experiment.read(ROBOTS / "ur10e_innopolis.experiment.toml")
    training, unseen = (
        open_log(experiment, [log], robot, part, Diagnostics())
        for part in (experiment.data.train, experiment.data.validate_on)
    )
    settings = experiment.settings()
    free, held = (
        identify(robot, training, replace(settings, estimator=one), validation=unseen)
        for one in (WLS(), FeasibleFit())
    )
    missed = [one.validations[0].scores.total_relative for one in (free, held)]
    assert missed[1] <= missed[0] * 1.005
    parameters = held.estimate.parameters
    assert least_eigenvalues(held.estimate.columns, parameters).min() > 1e-5
    assert least_eigenvalues(free.estimate.columns, free.estimate.parameters).min() < 0
