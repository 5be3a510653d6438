"""Zollo et al. 2014 surpassed on its own plant: friction by variable projection, equations without accelerations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.rows import ElasticMomentumRows
from dynid.run import Identification
from dynid.signals import Preparation, Samples
from dynid.terms import Coulomb, RigidBody, SpinningRotor, Stiffness, Terms, Viscous, ZolloFriction
from tests.elastic_arms import STRIBECK, Arm, Motion, planar, recorded, stribeck

pytestmark = pytest.mark.usefixtures("unexamined")

TERMS = RigidBody() + SpinningRotor() + Viscous() + Coulomb(width=0.01) + Stiffness()
ORDER = [*range(22), 24, 25, 22, 23, 26, 27]  # of Arm.theta in that of TERMS
COUNT = 2 * np.pi / 1250000


@pytest.fixture(scope="module")
def arm() -> Arm:
    return planar()


def logged(arm: Arm, motion: Motion, folder: Path, noise: float = 0.0) -> Log:
    """The motion as the encoders see it, with white noise of a standard deviation in rad."""
    rng = np.random.default_rng(0)
    q, theta = (
        np.round((x + noise * rng.standard_normal(x.shape)) / COUNT) * COUNT for x in (motion.q, motion.theta)
    )
    columns = canonical_columns(arm.robot.joint_names, q, tau=motion.u, theta=theta)
    return read_log(write_log(folder / f"{noise}.parquet", motion.t, columns), arm.robot)


def identified(arm: Arm, log: Log, terms: Terms, cutoff: float, chain: Preparation) -> Identification:
    # Blocks too few to compare forms of friction on: that is not what is tested.
    rows = ElasticMomentumRows(cutoff=cutoff)
    # The paper's estimates know nothing beforehand.
    settings = Settings(terms=terms, rows=rows, preparation=chain, block_seconds=1.0, estimator=WLS())
    return identify(arm.robot, log, settings, diagnostics=Diagnostics())


def errors(arm: Arm, found: Identification, friction: dict[str, float]) -> dict[str, float]:
    """Relative errors of the 14 base parameters by name, zero for those that are zero."""
    base = found.estimate.base
    truth = base.B[:, :28] @ arm.theta()[ORDER]
    wanted = {
        name: friction.get(name, value) for name, value in zip(found.estimate.names, truth, strict=True)
    }
    return {
        name: abs(value - wanted[name]) / abs(wanted[name]) if abs(wanted[name]) > 1e-9 else 0.0
        for name, value in zip(found.estimate.names, found.estimate.value.tolist(), strict=True)
        if not name.startswith("fz")
    }


def dynamic(errors: dict[str, float]) -> np.ndarray:
    return np.array([error for name, error in errors.items() if not name.startswith("f")])


def test_stribeck_friction_by_variable_projection(arm: Arm, tmp_path: Path) -> None:
    log = logged(arm, recorded(rough=True), tmp_path)
    chain = Preparation(cutoff=50.0, state_cutoff=150.0, trim=0.2, rest=0.0)
    found = identified(arm, log, TERMS + ZolloFriction(width=0.01), 10.0, chain)
    true = {f"fv{j + 1}": f[0] for j, f in enumerate(STRIBECK)} | {
        f"fc{j + 1}": f[1] for j, f in enumerate(STRIBECK)
    }
    missed = errors(arm, found, true)
    assert len(missed) == 14
    assert sum(missed.values()) / 14 < 0.014  # the paper's method: 0.127
    assert dynamic(missed).mean() < 1e-5
    # f2 to f6 hang together; the friction that they make up is known better than each.
    speed = np.linspace(0.02, 3.0, 80)
    still = Samples.from_motion(np.zeros((80, 2)), np.stack([speed, speed], axis=1), np.zeros((80, 2)))
    names = [c.name for c in found.estimate.columns]
    theta = np.where([name.startswith("f") for name in names], found.estimate.full_vector, 0.0)
    wanted = np.array([[stribeck(j, v, 0.0) for j in range(2)] for v in speed])
    assert np.abs(found.terms.torque(arm.robot, still, theta) / wanted - 1).max() < 0.015


@pytest.mark.parametrize(("noise", "bound"), [(1e-4, 6e-4), (1e-3, 6e-3), (3e-3, 1.9e-2)])
def test_noisy_encoders_without_accelerations(arm: Arm, tmp_path: Path, noise: float, bound: float) -> None:
    log = logged(arm, recorded(), tmp_path, noise)
    chain = Preparation(cutoff=20.0, state_cutoff=20.0, trim=0.2)
    found = identified(arm, log, TERMS, 3.0, chain)
    assert dynamic(errors(arm, found, {})).mean() < bound
