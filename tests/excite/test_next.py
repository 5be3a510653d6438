"""What to record next: the expected shrinking of the intervals is what a simulated campaign finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.estimate import WLS
from dynid.estimate.residuals import rows_a_sample
from dynid.excitation.after import information_after
from dynid.excitation.design import Task
from dynid.excitation.limits import Bounds, MotionLimits
from dynid.excitation.plan import design_motion
from dynid.excitation.quantities import shrinkage
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import read_log
from dynid.log.write import write_log
from dynid.robot import load_example
from dynid.run.result import Identification
from dynid.simulation.rig import Rig, SensorFile
from dynid.simulation.setup import ControllerFile, PlantFile, Setup, build_plant
from dynid.terms.friction import Coulomb, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.trajectories.basis import FourierBasis
from dynid.trajectories.trajectory import FourierTrajectory, Trajectory

ROBOT = load_example("arm7")
TERMS = RigidBody() + Viscous() + Coulomb()
PLANT = build_plant(ROBOT, PlantFile.model_validate({"friction": {"viscous": 2.0, "coulomb": 3.0}}))
RIG = Rig(SensorFile.model_validate({"rate": 250.0, "position": {"noise": 2e-5}, "effort": {"noise": 1.0}}))


def recorded(motion: Trajectory, path: Path, seed: int) -> Path:
    moved = Setup(PLANT, ControllerFile(kind="ideal")).motion(motion, RIG.rate)
    t, columns = RIG.measure(ROBOT, moved, (seed, 0))
    return write_log(path, t, columns)


def found(logs: list[Path]) -> Identification:
    return identify(ROBOT, read_log(logs, ROBOT), Settings(terms=TERMS, estimator=WLS()))


def deviations(run: Identification) -> Float:
    return np.asarray(np.sqrt(np.diag(run.estimate.covariance)))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    return recorded(FourierTrajectory.random(ROBOT, 15.0, 4, 3), folder / "one.parquet", 1)


@pytest.mark.xfail(
    strict=False,
    reason="open: over three recordings and six designs, intervals came out 0.98 to 1.65 times as wide as expected",
)
def test_the_expected_intervals_are_found(first: Path, tmp_path: Path) -> None:
    run = found([first])
    assert run.training.residuals is not None
    k = rows_a_sample(run.training.residuals)
    # Filtered and decimated residuals are correlated, so that deviations that ignore it are too small by sqrt(k).
    textbook = np.sqrt(np.diag(run.estimate.textbook_covariance))
    assert np.median(deviations(run) / textbook) == pytest.approx(np.sqrt(np.median(k)), rel=0.2)

    information = information_after(ROBOT, TERMS, run.factors, run.estimate.sigma, k)
    task = Task(FourierBasis(15.0, 4, 0.15), information, Bounds(MotionLimits.of(ROBOT)))
    plan = design_motion(task, 1, 6, candidates=10)
    t = np.linspace(0.0, 15.0, 1500)
    expected = shrinkage(information, plan.trajectory.motion(t), 15.0)
    assert np.median(expected) < 0.7

    both = found([first, recorded(plan.trajectory, tmp_path / "two.parquet", 2)])
    assert both.estimate.base.formulas() == run.estimate.base.formulas()
    assert np.median(deviations(both) / deviations(run)) == pytest.approx(np.median(expected), rel=0.15)
