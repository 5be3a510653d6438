"""What constraints on links cost is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.estimate import MAP, WLS, FeasibleFit, unconstrained
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.run import Identification
from dynid.testing.faults import recorded
from dynid.testing.machines import MACHINES


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one = recorded(MACHINES["polar"].robot, np.random.default_rng(4), seconds=9.0)
    columns = canonical_columns(one.robot.joint_names, one.q, dq=one.dq, tau=one.tau)
    return write_log(tmp_path_factory.mktemp("log") / "log.parquet", one.t, columns)


def found(log: Path, estimator: FeasibleFit) -> Identification:
    robot = MACHINES["polar"].robot
    return identify(robot, read_log(log, robot), Settings(estimator=estimator, automatic=False), threads=1)


def test_a_mass_window_that_the_log_contradicts_is_reported(log: Path) -> None:
    mass = float(MACHINES["polar"].robot.inertia_prior[:, 0].sum())
    right = found(log, FeasibleFit(total_mass=(0.5 * mass, 2.0 * mass)))
    assert right.verdict.level == "good"
    assert "constraints-cost" not in {item.identifier for item in right.diagnostics.warnings}
    wrong = found(log, FeasibleFit(total_mass=(0.1 * mass, 0.2 * mass)))
    said = {item.identifier: item.text for item in wrong.diagnostics.warnings}
    assert f"total_mass = [{0.1 * mass:.4g}, {0.2 * mass:.4g}]" in said["constraints-cost"]
    assert "raises the error of" in said["constraints-cost"]
    assert not any(f.title == "Little data" for f in wrong.verdict.findings)
    assert wrong.verdict.level != "good"
    assert wrong.estimate.method == "feasible"


def test_the_method_without_constraints() -> None:
    assert unconstrained(WLS()) == WLS()
    for constrained in (FeasibleFit(), MAP()):
        assert unconstrained(constrained) == WLS(intervals=constrained.intervals)
