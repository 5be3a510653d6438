"""The tutorials on public logs: their commands run as they stand, and print what the pages quote."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.robot import load_example
from tests.log.bags import states, write_bag

ROOT = Path(__file__).resolve().parents[2]
UR10E, PANDA = "tutorial-ur10e.md", "tutorial-ur10e.md: a Panda"
PANDA_TITLE = "## A Panda, from a bag\n"


def text_of(page: str) -> str:
    """A page's part about one robot."""
    text = (ROOT / "docs" / UR10E).read_text(encoding="utf-8")
    ur10e, panda = text.split(PANDA_TITLE)
    return panda if page == PANDA else ur10e


def commands(page: str) -> list[list[str]]:
    """Words of every command line of a page."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def printed(folder: Path, lines: list[list[str]]) -> str:
    """What commands print, their white space as single spaces."""
    said = []
    for words in lines:
        call = [sys.executable, "-c", "from dynid.cli.main import main; main()", *words[1:]]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, (words, done.stderr[-800:])
        said.append(done.stdout)
    return " ".join(" ".join(said).replace("R²", "R2").split())


def quoted(page: str) -> list[str]:
    """Lines that the indented blocks of a page quote, cut at what they leave out; those with figures."""
    lines = re.findall(r"^    (.*\d.*)$", text_of(page), re.MULTILINE)
    pieces = [" ".join(piece.split()) for line in lines for piece in line.split("[...]")]
    return [piece for piece in pieces if piece and not piece.startswith("ros2 ")]


@pytest.fixture
def ur10e(data_dir: Path, tmp_path: Path) -> Path:
    """A folder with the UR10e's description and log."""
    folder = data_dir / "ur10e_innopolis"
    if not folder.is_dir():
        pytest.skip("no ur10e_innopolis")
    for name in ("robot.urdf", "data.parquet"):
        shutil.copy(folder / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def panda(data_dir: Path, tmp_path: Path) -> Path:
    """A folder with the Panda's description, and its log as a bag."""
    if not (data_dir / "panda_gaz").is_dir():
        pytest.skip("no panda_gaz")
    shutil.copy(ROOT / "src" / "dynid" / "data" / "panda.toml", tmp_path / "panda.toml")
    table = pq.read_table(data_dir / "panda_gaz" / "data.parquet")
    q, dq, tau = (
        np.stack([table[f"{kind}{j}"].to_numpy() for j in range(1, 8)], axis=1) for kind in ("q", "dq", "tau")
    )
    names = load_example("panda").joint_names
    write_bag(tmp_path / "panda_mcap", states(table["t"].to_numpy(), names, q, dq, tau))
    return tmp_path


def test_the_ur10e_is_identified_as_its_tutorial_says(ur10e: Path) -> None:
    init, identify, *_ = commands(UR10E)
    said = printed(ur10e, [init, identify])
    assert ": 1.8 %, 3.4 % including samples left out" in said
    assert "GOOD" in said
    assert "link masses: no (the log determines 0 of 6)" in said


@pytest.mark.slow
def test_the_whole_tutorial_of_the_ur10e_runs(ur10e: Path) -> None:
    said = printed(ur10e, commands(UR10E))
    assert [piece for piece in quoted(UR10E) if piece not in said] == []


@pytest.mark.slow
def test_the_whole_tutorial_of_the_panda_runs(panda: Path) -> None:
    said = printed(panda, commands(PANDA))
    assert [piece for piece in quoted(PANDA) if piece not in said] == []
