"""Short logs among longer ones: left out by name; one short log alone is an error that names its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, UnfitDataError
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.run import Identification
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import two_joints
from dynid.testing.faults import recorded

pytestmark = pytest.mark.usefixtures("unexamined")

MODEL = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
CODE = "too-few-rows"


def logs(folder: Path, seconds: Sequence[float]) -> Log:
    """Consecutive parts of a motion in files part0, part1 ..., of so many seconds."""
    robot = two_joints()
    whole = recorded(robot, np.random.default_rng(1), sum(seconds) + 10.0)
    files, start = [], 0.0
    for number, length in enumerate(seconds):
        part = (whole.t >= start) & (whole.t < start + length)
        columns = canonical_columns(robot.joint_names, whole.q[part], tau=whole.tau[part])
        files.append(write_log(folder / f"part{number}.parquet", whole.t[part], columns))
        start += length
    return read_log(files, robot)


def identified(log: Log) -> Identification:
    settings = Settings(terms=MODEL, automatic=False, estimator=WLS())
    return identify(log.robot, log, settings, threads=1, diagnostics=Diagnostics())


@pytest.mark.parametrize("seconds", [(12.0, 0.1, 12.0), (0.7, 12.0, 12.0)])
def test_short_logs_among_longer_ones_are_left_out_and_named(
    tmp_path: Path, seconds: Sequence[float]
) -> None:
    run = identified(logs(tmp_path, seconds))
    (finding,) = [finding for finding in run.diagnostics if finding.code == CODE]
    assert str(finding.place.file).endswith(f"part{seconds.index(min(seconds))}.parquet")
    assert f"{min(seconds) - 0.004:.3g} s" in finding.text


def test_long_logs_are_all_used(tmp_path: Path) -> None:
    run = identified(logs(tmp_path, (12.0, 2.3, 12.0)))
    assert [finding for finding in run.diagnostics if finding.code == CODE] == []


def test_a_short_log_alone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnfitDataError) as raised:
        identified(logs(tmp_path, (0.4,)))
    assert str(raised.value.place.file).endswith("part0.parquet")
