"""The demo: the whole way once, on a robot whose truth is known."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, RefusedError
from dynid.kernel import backend
from dynid.log import read_log
from dynid.robot import load_example, load_robot
from dynid.verbs import demo

TABLES = {"links.parquet", "parameters.parquet", "residuals.parquet", "factors.parquet"}
FILES = {"run.json", "model.json", "report.html", "robot.toml", "logs"} | TABLES


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[demo.DemoResult, dict[str, float]]:
    reported: dict[str, float] = {}

    def progress(stage: str, seconds: float) -> None:
        reported[stage] = reported.get(stage, 0.0) + seconds

    return demo.run_demo(tmp_path_factory.mktemp("demo") / "run", fast=True, progress=progress), reported


@pytest.mark.parametrize("command", ["identify", "report", pytest.param("compare", marks=pytest.mark.slow)])
def test_commands_load_nothing_heavy(
    finished: tuple[demo.DemoResult, dict[str, float]], command: str, tmp_path: Path
) -> None:
    """SciPy and pandas take half a second to load, which is as long as a command that reads a run may take."""
    if not backend().startswith("native"):
        pytest.skip("the NumPy kernel factors and filters with SciPy")
    run = tmp_path / "finished"
    shutil.copytree(finished[0].folder, run)
    words = {
        "identify": [run / "robot.toml", run / "logs" / "train.parquet", "--out", tmp_path / "run"],
        "report": [run],
        "compare": [run, run],
    }[command]
    code = """if True:
        import sys
        from dynid.cli.main import main
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        loaded = {"scipy", "pandas", "matplotlib", "polars"} & set(sys.modules)
        sys.exit(f"loaded: {loaded}" if loaded else 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, command, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_run_folder_is_complete_and_alone(finished: tuple[demo.DemoResult, dict[str, float]]) -> None:
    result, _ = finished
    assert {path.name for path in result.folder.iterdir()} >= FILES
    assert {path.name for path in (result.folder / "logs").iterdir()} == {"train.parquet", "validate.parquet"}
    assert [path.name for path in result.folder.parent.iterdir()] == ["run"]
    run = (result.folder / "run.json").read_text()
    assert str(result.folder / "logs" / "train.parquet") in json.loads(run)["provenance"]["logs"]
    for path in ("run.json", "model.json", "report.html"):
        assert f".run.{os.getpid()}." not in (result.folder / path).read_text(), path


def test_the_model_predicts_the_second_motion(finished: tuple[demo.DemoResult, dict[str, float]]) -> None:
    result, _ = finished
    assert (result.held_out < 0.05).all()


def test_the_model_is_far_closer_to_the_truth_than_the_description(
    finished: tuple[demo.DemoResult, dict[str, float]],
) -> None:
    result, _ = finished
    assert (result.prior_error > 0.02).all()
    assert (result.model_error < 0.03).all()
    assert result.model_error.mean() < 0.15 * result.prior_error.mean()


def test_intervals_hold_the_truth(finished: tuple[demo.DemoResult, dict[str, float]]) -> None:
    result, _ = finished
    rigid, rotors, friction = 43, 7 - 2, 3 * 7
    assert result.base_count == rigid + rotors + friction
    assert result.covered >= 0.8 * result.base_count


def test_the_text_ends_with_the_report(finished: tuple[demo.DemoResult, dict[str, float]]) -> None:
    result, reported = finished
    assert result.report.is_file()
    assert result.text().splitlines()[-1].endswith(str(result.report))
    assert (demo.NUMPY_HINT in result.text()) == (result.kernel == "numpy")
    assert reported["simulation"] == pytest.approx(sum(demo.FAST_SECONDS))


def test_the_logs_open_with_the_description_beside_them(
    finished: tuple[demo.DemoResult, dict[str, float]],
) -> None:
    result, _ = finished
    robot = load_robot(result.folder / "robot.toml")
    log = read_log(result.folder / "logs" / "train.parquet", robot)
    assert log.duration == pytest.approx(demo.FAST_SECONDS[0])
    chunk = log.read(log.trajectories[0])
    assert chunk.tau is not None
    assert (np.abs(chunk.tau) < robot.limits.effort).all()


def test_an_existing_folder_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(RefusedError):
        demo.run_demo(tmp_path, fast=True)
    with pytest.raises(RefusedError):
        demo.run_demo(tmp_path, fast=True, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(stage: str, seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path / "run", fast=True, progress=interrupted)
    assert not list(tmp_path.iterdir())


def test_the_description_is_20_to_30_percent_off_and_still_physical(tmp_path: Path) -> None:
    truth = load_example("arm7")
    path = tmp_path / "robot.toml"
    for seed in range(3):
        path.write_text(demo._Lab.prepare(seed, (4.0, 4.0)).description)
        believed = load_robot(path)
        for wrong, right in (
            (believed.inertia_prior[:, 0], truth.inertia_prior[:, 0]),
            (believed.drive.rotor_inertia, truth.drive.rotor_inertia),
            (believed.friction_prior, truth.friction_prior),
        ):
            assert_between(np.abs(wrong / right - 1.0), *demo.PRIOR_ERROR)
        np.testing.assert_array_equal(believed.T_parent_joint, truth.T_parent_joint)
        np.testing.assert_array_equal(believed.limits.effort, truth.limits.effort)


def assert_between(values: Float, low: float, high: float) -> None:
    assert (values > low - 1e-4).all()
    assert (values < high + 1e-4).all()
