"""Estimators that simulate, on logs of three real robots: they converge, and foretell unseen torque as `wls` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import CLIE, CLOE, DIDIM, IV, OE, WLS, Estimator, LogSource, Regression, regression_of
from dynid.factor import Assembly, Blocking, Factors, structural_base
from dynid.identification import Experiment, open_log
from dynid.log import Selection
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.signals.prepare import prepare
from tests.robot_files import ROBOTS

PARTS = {
    "panda_gaz": ([Selection(part=(0.0, 0.6))], [Selection(part=(0.7, 1.0))]),
    "kr300_rptu": (
        [
            Selection("A", window=(1.8, 8.2)),
            Selection("B", window=(1.8, 8.2)),
        ],
        [Selection("C", window=(1.8, 8.2))],
    ),
    "ur10e_innopolis": (
        [Selection("id/ur-20_02_12-50sec_12harm", window=(3.76, 33.0))],
        [Selection("id/ur-20_02_12-40sec_12harm", window=(5.32, 20.0))],
    ),
}


@dataclass(frozen=True)
class Case:
    """A part of a real log as equations, those of another part, and what least squares miss there."""

    regression: Regression
    unseen: Factors

    def missed(self, value: Float) -> float:
        """Share of the unseen torque that base parameters (b,) miss."""
        theta = np.zeros(len(self.regression.columns))
        theta[self.regression.base.independent] = value
        total = self.unseen.total
        return float(
            np.sqrt(sum(f.residual_square(theta) for f in total) / sum(f.target_square for f in total))
        )


@pytest.fixture(scope="module")
def case(data_dir: Path) -> Callable[[str], Case]:
    @lru_cache
    def made(name: str) -> Case:
        robot = load_robot(ROBOTS / f"{name}.toml")
        experiment = Experiment.read(ROBOTS / f"{name}.experiment.toml")
        terms, rows = experiment.terms(), TorqueRows()
        structural = structural_base(robot, terms, rows)
        found = []
        for part in PARTS[name]:
            log = open_log(experiment, [data_dir / name / "data.parquet"], robot, part, Diagnostics())
            prepared = prepare(log, experiment.settings().preparation)
            batches = list(prepared)
            seconds = sum(len(s) / s.rate for s in batches)
            assembly = Assembly(
                robot, terms, rows, structural.mask, prepared.parallel_filter(), Blocking(seconds / 12)
            )
            found.append((LogSource(assembly, batches), assembly.factors(batches)))
        (source, factors), (_, unseen) = found
        return Case(regression_of(robot, terms, structural, factors, source), unseen)

    return made


# Open-loop positions weigh slow errors of the torque most, which least squares do not.
SLOW_ERRORS = 1.4
METHODS = [
    *(("panda_gaz", method) for method in (IV(), DIDIM(), CLOE())),
    *(("kr300_rptu", method) for method in (IV(), OE())),
    ("ur10e_innopolis", CLIE()),
]
LONG = [
    ("panda_gaz", CLIE()),
    *(("kr300_rptu", method) for method in (DIDIM(), CLIE(), CLOE())),
    *(("ur10e_innopolis", method) for method in (IV(), DIDIM(), CLOE(), OE())),
]


def named(value: str | Estimator) -> str:
    return value if isinstance(value, str) else value.name


@pytest.mark.parametrize(
    ("name", "estimator"),
    [*METHODS, *(pytest.param(*one, marks=pytest.mark.slow) for one in LONG)],
    ids=named,
)
def test_they_converge_and_foretell(case: Callable[[str], Case], name: str, estimator: Estimator) -> None:
    log = case(name)
    found = estimator.fit(log.regression)
    assert found.status.ok, found.status.text
    plain = log.missed(WLS().fit(log.regression).value)
    assert log.missed(found.value) < (SLOW_ERRORS if estimator.name == "oe" else 1.1) * plain
