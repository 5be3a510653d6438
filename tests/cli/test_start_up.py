"""What small commands load: installed packages by name, since a clock says little on a shared machine."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

# The parser of the command line, and what it loads; Windows' colours; hooks of the test tools.
PARSER = {"typer", "annotated_doc", "typing_extensions"}
PARSER |= {"shellingham", "colorama", "rich", "pygments", "markdown_it", "mdurl"}
# What checks TOML files that are written by hand.
CHECKS = {"pydantic", "pydantic_core", "annotated_types", "typing_inspection"}
TOOLS = {"_distutils_hack", "cmeel_pth", "pytest_cov", "coverage", "sitecustomize"}
# The package under test: beside the others where it was installed, in its sources where it was not.
TESTED = {"dynid"}
ARROW = {"pyarrow", "cloudpickle"}
# What keeps two processes from writing one output.
LOCK = {"filelock"}
PROGRAM = """
import sys
import dynid.cli.main
sys.argv = ["dynid", *sys.argv[1:]]
try:
    dynid.cli.main.main()
except SystemExit as leaving:
    assert not leaving.code, leaving.code
places = {name.partition(".")[0]: getattr(module, "__file__", None) for name, module in sys.modules.items()}
print("LOADED", *(name for name, place in places.items() if "-packages" in (place or "")))
"""


def loaded(*arguments: object) -> set[str]:
    """Installed packages that a command loads, without the tools that Python starts with."""
    command = [sys.executable, "-c", PROGRAM, *(str(one) for one in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED")[2].split()) - TOOLS - TESTED


@pytest.fixture(scope="module")
def run_folder(robot_file: Path, train_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("started") / "run"
    loaded("identify", robot_file, train_log, "--no-auto", "--out", folder)
    return folder


def test_help_loads_the_parser_alone() -> None:
    assert loaded("--help") <= PARSER


def test_version_adds_numpy() -> None:
    assert loaded("--version") <= PARSER | {"numpy"}


def test_a_robot_is_shown_without_scipy() -> None:
    robot = files("dynid.data") / "arm7.toml"
    assert loaded("inspect", robot) <= PARSER | CHECKS | {"numpy"}


def test_the_library_is_loaded_without_scipy() -> None:
    code = "import sys, dynid; dynid.identify; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_runs_are_compared_without_scipy_and_pandas(run_folder: Path) -> None:
    assert loaded("compare", run_folder, run_folder) <= PARSER | ARROW | {"numpy"}


def test_a_run_is_exported_without_scipy(run_folder: Path, tmp_path: Path) -> None:
    given = ("export", run_folder, "--format", "c", "--to", tmp_path / "model.c")
    assert loaded(*given) <= PARSER | CHECKS | ARROW | LOCK | {"numpy"}


def test_a_report_loads_no_signal_processing_and_no_data_frames(run_folder: Path) -> None:
    heavy = {"pandas", "polars", "plotly", "mujoco", "matplotlib"} | CHECKS
    assert not loaded("report", run_folder) & heavy


@pytest.mark.parametrize(
    "model", ["", '[model]\nterms = ["rigid_body", "viscous", "coulomb_tanh", "stribeck"]']
)
def test_an_identification_loads_no_signal_processing(
    model: str, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    code = PROGRAM + 'print("BELOW", *(name for name in sys.modules if name.startswith("scipy.")))'
    config = tmp_path / "experiment.toml"
    config.write_text(model)
    given = [robot_file, train_log, "--config", config, "--no-auto", "--out", tmp_path / "run"]
    command = [sys.executable, "-c", code, "identify", *(str(one) for one in given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    below = {name.split(".")[1] for name in done.stdout.rpartition("BELOW")[2].split()}
    assert not below & {"signal", "stats", "interpolate", "integrate", "optimize"}
    assert "pandas" not in done.stdout.rpartition("LOADED")[2].split()
