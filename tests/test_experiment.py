"""Experiment files: what they say, what they may not say, and that a stored run repeats itself."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dynid.base import Diagnostics, DynidError, InputError
from dynid.estimate import OLS, WLS, FeasibleFit, Ridge
from dynid.identification import (
    DEFAULT_TERMS,
    Experiment,
    Settings,
    json_schema,
    named_files,
    open_log,
    settings_to_experiment,
)
from dynid.log import Selection
from dynid.signals import Preparation
from dynid.terms import ChannelTorque, Coulomb, RigidBody
from dynid.testing import random_robot, simulated_log

ROBOT = random_robot(21, 2, 0.0)


def read(folder: Path, text: str) -> Experiment:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return Experiment.read(path)


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    assert Experiment.read(None).settings() == read(tmp_path, "").settings() == Settings()


def test_the_log_chooses_the_model_where_none_is_given(tmp_path: Path) -> None:
    assert not read(tmp_path, '[model]\nterms = ["rigid_body"]').settings().chooses_model
    assert read(tmp_path, '[model]\nterms = ["rigid_body"]\nautomatic = true').settings().chooses_model
    assert read(tmp_path, "[model]\nautomatic = false").settings() == Settings(automatic=False)
    assert not read(tmp_path, '[estimate]\nmethod = "didim"').settings().chooses_model


def test_defaults_and_names_agree_with_the_settings(tmp_path: Path) -> None:
    assert {f.name for f in fields(Preparation)} == set(
        json_schema()["$defs"]["PrepareSection"]["properties"]
    )
    assert read(tmp_path, "[prepare]").settings().preparation == Preparation()


def test_everything_can_be_said(tmp_path: Path) -> None:
    experiment = read(
        tmp_path,
        """
        [data]
        train = ["a*", { trajectory = "b", window = [1.0, 2.0] }]
        validate = [{ trajectory = "b", part = [0.5, 1.0] }]
        [prepare]
        cutoff = 5.0
        rest = 0
        velocity = "measured"
        [model]
        terms = ["rigid_body", { term = "coulomb", width = 0.05 }]
        [estimate]
        method = "ridge"
        strength = 2.5
        rounds = 7
        folds = 4
        seed = 3
        block_seconds = 0.7
        """,
    )
    settings = experiment.settings()
    assert settings.terms == RigidBody() + Coulomb(0.05)
    assert settings.estimator == Ridge(2.5, rounds=7)
    assert settings.preparation == Preparation(cutoff=5.0, rest=0.0, velocity="measured")
    assert (settings.folds, settings.seed, settings.block_seconds) == (4, 3, 0.7)
    assert experiment.data.train == ["a*", Selection("b", window=(1.0, 2.0))]
    assert experiment.data.validate_on == [Selection("b", part=(0.5, 1.0))]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings().resolved(),
        Settings(estimator=FeasibleFit(required=True)),
        Settings(
            estimator=OLS(), preparation=Preparation(cutoff=3.0, rate=100.0, gap=0.5, gate=0.1), folds=7
        ),
        Settings(
            terms=RigidBody() + ChannelTorque("u", "joint1", free=False),
            estimator=Ridge(0.1, rounds=3, tolerance=1e-6),
            seed=4,
            block_seconds=1.5,
        ),
        Settings(terms=DEFAULT_TERMS, estimator=WLS(rounds=3)),
    ],
)
def test_a_stored_experiment_gives_the_settings_back(settings: Settings) -> None:
    assert Experiment.from_dict(settings_to_experiment(settings)).settings() == settings


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[estimate]\n\nfold = 3", 3, "did you mean 'folds'"),
        ("[prepare]\ncutoff = -1.0", 2, "cutoff"),
        ("[prepare]\ncutoff = 'high'", 2, "cutoff"),
        ("[data]\ntrain = [{ trajectory = 'a', part = [0.0, 1.5] }]", 2, "part"),
        ("[estimat]\n", 1, "did you mean 'estimate'"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, line: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert words in str(error.value)
    assert error.value.place.line == line
    assert error.value.place.file == str(tmp_path / "experiment.toml")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[estimate]\nmethod = 'wlss'", 2, "did you mean 'wls'"),
        ("[estimate]\nmethod = 'ols'\nstrength = 1.0", 3, "estimate.strength with method 'ols'"),
        ("[estimate]\nmethod = 'wls'\nstrength = 1.0", 3, "method 'wls'"),
        ("[estimate]\nrounds = 3", 2, "method 'map'"),
        ("[estimate]\nstrength = 1.0\nrounds = 3", 3, "method 'feasible'"),
        ("[model]\nterms = ['rigid_bdy']", 2, "did you mean 'rigid_body'"),
        ("[model]\nterms = [{ term = 'coulomb', width = -1.0 }]", 2, "width"),
    ],
)
def test_options_that_do_not_fit_are_named_with_their_line(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    experiment = read(tmp_path, text)
    with pytest.raises(DynidError) as error:
        experiment.settings()
    assert words in str(error.value)
    assert error.value.place.line == line


def test_logs_are_opened_with_the_selection(tmp_path: Path) -> None:
    path = simulated_log(tmp_path / "walk.parquet", ROBOT, DEFAULT_TERMS, _ones(), seconds=4.0)
    log = open_log(Experiment.read(None), [path], ROBOT, [Selection(part=(0.0, 0.5))], Diagnostics())
    assert log.duration == pytest.approx(2.0, abs=0.02)
    with pytest.raises(InputError, match="no trajectory 'run'"):
        open_log(Experiment.read(None), [path], ROBOT, ["run"], Diagnostics())


def test_a_channel_that_the_log_lacks_is_said_before_reading(tmp_path: Path) -> None:
    path = simulated_log(tmp_path / "walk.parquet", ROBOT, DEFAULT_TERMS, _ones(), seconds=4.0)
    experiment = read(
        tmp_path,
        '[model]\nterms = ["rigid_body", { term = "channel", channel_name = "u", joint = "joint1" }]',
    )
    with pytest.raises(InputError, match="no extra channel 'u'"):
        open_log(experiment, [path], ROBOT, [], Diagnostics())


def test_a_run_keeps_the_experiment_and_names_the_files(tmp_path: Path) -> None:
    experiment = read(tmp_path, "[estimate]\nseed = 3")
    stored = experiment.to_dict()
    assert stored == {"estimate": {"seed": 3}}
    assert Experiment.from_dict(stored).settings() == Settings(seed=3)
    files = named_files(Path("arm.urdf"), [Path("a.csv")], config=experiment.file)
    assert files == {"robot": "arm.urdf", "logs": ["a.csv"], "validate": [], "config": experiment.file}


def _ones():  # type: ignore[no-untyped-def]  # fixtures
    import numpy as np

    return np.ones(len(DEFAULT_TERMS.columns(ROBOT)))
