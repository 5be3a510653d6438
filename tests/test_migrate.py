"""Files of every version open, and are brought to the present form by one command.

tests/samples/format1 holds what the version before run folders of format 2 wrote, and so on: a robot, an experiment, a
log, a run with given terms (`run`), one whose model was chosen (`chosen`), and an exported model.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import InputError
from dynid.estimate import FeasibleFit
from dynid.exporters import read_model_json
from dynid.identification import Experiment
from dynid.run import FORMAT, experiment_text
from tests.command_line import Run

SAMPLES = Path(__file__).parent / "samples"
FORMATS = tuple(range(1, FORMAT + 1))


def samples(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The samples of a format in a folder of their own."""
    folder = tmp_path / f"format{number}"
    shutil.copytree(SAMPLES / folder.name, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Those of the first format."""
    return samples(1, tmp_path, monkeypatch)


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("name", ["run", "chosen"])
def test_a_stored_run_opens_and_serves_every_command(
    name: str, number: int, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = samples(number, tmp_path, monkeypatch)
    folder = old / name
    written = json.loads((folder / "model.json").read_text())
    assert written["format"] == number
    found = dynid.load(folder)
    assert list(found.estimate.parameters) == [entry["value"] for entry in written["parameters"].values()]
    assert [term.name for term in found.terms] == [term["term"] for term in written["terms"]]
    for words in (
        ("report", folder),
        ("validate", folder, old / "log.parquet"),
        ("compare", folder, old / "run"),
        ("export", folder, "--to", old / "again.urdf"),
    ):
        done = run(*words)
        assert done.code == 0, done.err


def test_an_old_run_is_written_anew(old: Path, run: Run) -> None:
    before = dynid.load(old / "run")
    assert run("migrate", old / "run", old / "chosen", old / "experiment.toml").code == 0
    for name in ("run.json", "model.json"):
        assert json.loads((old / "run" / name).read_text())["format"] == FORMAT
    after = dynid.load(old / "run")
    np.testing.assert_array_equal(after.estimate.parameters, before.estimate.parameters)
    assert after.experiment == before.experiment
    assert (
        after.files
        == before.files
        == {
            "robot": "robot.toml",
            "logs": ["log.parquet"],
            "validate": [],
            "config": "experiment.toml",
        }
    )
    # What ran is what is written: the prior was the Euclidean one, unnamed.
    wanted = FeasibleFit(1.0, prior="euclidean", total_mass=(1.0, 9.0))
    assert Experiment.from_dict(after.experiment).settings().estimator == wanted
    assert Experiment.read(old / "experiment.toml").settings().estimator == wanted
    assert "already" in run("migrate", old / "run").out
    assert "unchanged" in run("migrate", old / "experiment.toml").out


@pytest.mark.parametrize("number", FORMATS)
def test_a_stored_run_can_be_repeated(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = samples(number, tmp_path, monkeypatch)
    before = dynid.load(old / "run")
    robot = dynid.load_robot(old / "robot.toml")
    experiment = Experiment.from_dict(before.experiment)
    again = dynid.identify(robot, dynid.read_log(old / "log.parquet", robot), experiment.settings())
    # The equations are those of the stored run; its prior was another one, which an exact log hardly notices.
    moved = again.estimate.value - before.estimate.value
    assert (np.abs(moved) < 0.01 * np.abs(before.estimate.value).max()).all()


@pytest.mark.parametrize("number", FORMATS)
def test_stored_robot_experiment_and_model_files_open(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = samples(number, tmp_path, monkeypatch)
    assert dynid.load_robot(old / "robot.toml").joint_names == ("turn", "reach")
    assert Experiment.read(old / "experiment.toml").settings().preparation.cutoff == 5.0
    robot, terms, theta = read_model_json(old / "model.json")
    assert len(theta) == len(terms.columns(robot))


def test_a_newer_run_says_which_version_wrote_it(old: Path, run: Run) -> None:
    for name in ("run.json", "model.json"):
        data = json.loads((old / "run" / name).read_text()) | {"format": FORMAT + 1}
        if name == "run.json":
            data["provenance"]["dynid"] = "9.8"
        (old / "run" / name).write_text(json.dumps(data))
    reported = run("report", old / "run")
    assert reported.code == 3
    assert f"a run of format {FORMAT + 1}, written by dynid 9.8" in reported.err
    assert "pip install --upgrade dynid" in reported.err
    damaged = json.loads((old / "chosen" / "run.json").read_text()) | {"recipe": 3}
    (old / "chosen" / "run.json").write_text(json.dumps(damaged))
    assert "error[damaged-run]" in run("report", old / "chosen").err
    assert "error[damaged-run]" in run("migrate", old / "chosen").err
    (old / "run" / "model.json").write_text('{"format": true}')
    assert "run-format" in run("migrate", old / "run").err


def test_experiments_keep_their_text_but_for_the_prior(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    prior = 'prior = "euclidean"\n'
    for text, wanted in (
        ('[estimate]\nmethod = "wls"\n', None),
        ('[estimate]\nmethod = "feasible"\nprior = "geodesic"\nstrength = 2.0\n', None),
        (
            '[estimate]\n  method = "feasible"  # my',
            f'[estimate]\n  method = "feasible"  # my\n  {prior}  strength = 1.0\n',
        ),
        (
            'estimate.method = "feasible"\n',
            f'estimate.method = "feasible"\nestimate.{prior}estimate.strength = 1.0\n',
        ),
        (
            '[estimate]\nmethod = "irls"\nfeasible = true\n',
            f'[estimate]\nmethod = "irls"\nfeasible = true\n{prior}',
        ),
    ):
        path.write_text(text)
        assert experiment_text(path) == (wanted or text)
    path.write_text('estimate = { method = "feasible" }\n')
    with pytest.raises(InputError, match="by hand"):
        experiment_text(path)
