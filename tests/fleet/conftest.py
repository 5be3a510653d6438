"""A small fleet: two logs of a two-joint arm that many rows of a catalogue name, and the run of its type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.log import read_log
from dynid.robot import load_robot
from dynid.signals import Preparation
from dynid.verbs import save
from tests.command_line import make_log


@pytest.fixture(scope="session")
def arm_run(robot_file: Path, train_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder whose model the fleet's logs share."""
    robot = load_robot(robot_file)
    settings = Settings(terms=DEFAULT_TERMS, preparation=Preparation(cutoff=10.0))
    folder = tmp_path_factory.mktemp("fleet") / "arm"
    save(identify(robot, read_log(train_log, robot), settings, threads=1), folder)
    return folder


@pytest.fixture(scope="session")
def two_logs(robot_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a.parquet and b.parquet."""
    folder = tmp_path_factory.mktemp("logs")
    for seed, name in enumerate("ab", start=5):
        make_log(robot_file, folder / f"{name}.parquet", seed, 12.0)
    return folder


def catalogue(path: Path, rows: Sequence[tuple[object, ...]]) -> Path:
    """Writes a catalogue as CSV."""
    lines = ["type,serial,time,path", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def many(two_logs: Path, count: int) -> list[tuple[object, ...]]:
    """Rows of two robots, a log a day."""
    return [
        ("arm", f"s{i % 2}", f"2026-01-{i // 2 + 1:02d}T08:00:00Z", two_logs / f"{'ab'[i % 3 % 2]}.parquet")
        for i in range(count)
    ]
