"""Which estimator for a UR5e: plain and momentum rows, weights, feasible bodies and priors, by noise and filters."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dynid.arrays import Float
from dynid.errors import DynidError
from dynid.estimate import DIDIM, IRLS, IV, OLS, WLS, FeasibleFit
from dynid.estimate.estimator import Regression
from dynid.estimate.prior import parameter_spread
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.data_base import data_base, influence
from dynid.log.read import Log, read_log
from dynid.log.write import canonical_columns, write_log
from dynid.rows import MomentumRows, Rows, TorqueRows
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.simulate.motion import sample_times
from dynid.studies.madsen_arm import (
    ENCODER_NOISE,
    FC,
    FV,
    RATE,
    SECONDS,
    TORQUE_NOISE,
    WIDTH,
    robot,
    trajectory,
)
from dynid.studies.study import StudyPage, at_most, told
from dynid.terms import Coulomb, RigidBody, RotorInertia, Viscous
from dynid.validation import block_seconds

TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(WIDTH)
GOOD = Preparation(cutoff=20.0, state_cutoff=50.0)
LOOSE = Preparation(cutoff=200.0, state_cutoff=200.0)
OVER = Preparation(cutoff=2.5, state_cutoff=2.5)
MOMENTUM = MomentumRows(cutoff=20.0 / (2 * np.pi), degree=2)
METHODS: dict[str, tuple[Rows, Any]] = {
    "OLS": (TorqueRows(), OLS()),
    "WLS": (TorqueRows(), WLS()),
    "Huber": (TorqueRows(), IRLS()),
    "feasible bodies": (TorqueRows(), FeasibleFit(strength=1e-3)),
    "feasible, entropic prior": (TorqueRows(), FeasibleFit(strength=1.0, prior="entropic")),
    "momentum rows, WLS": (MOMENTUM, WLS()),
    "momentum rows, entropic prior": (MOMENTUM, FeasibleFit(strength=1.0, prior="entropic")),
}
SLOW: dict[str, tuple[Rows, Any]] = {"IV": (TorqueRows(), IV()), "DIDIM": (TorqueRows(), DIDIM())}


@dataclass(frozen=True, eq=False)
class Rigid:
    """The arm with rigid joints, its bodies a few per cent off the maker's: motion, torque and true parameters."""

    motion: Samples
    theta: Float

    @staticmethod
    def made() -> Rigid:
        """Along the calibration's motion."""
        arm = robot()
        q, dq, ddq = trajectory(0).motion(sample_times(SECONDS - 1 / RATE, RATE))
        factor = 1 + 0.06 * np.random.default_rng(7).normal(size=(6, 1))
        rotors = arm.drive.reflected_rotor_inertia
        theta = np.concatenate([(factor * arm.inertia_prior).ravel(), rotors, FV, FC])
        plain = Samples.from_motion(q, dq, ddq, rate=RATE)
        return Rigid(Samples.from_motion(q, dq, ddq, TERMS.torque(arm, plain, theta), RATE), theta)

    def log(self, path: Path, noise: float) -> Log:
        """What is measured, with noise of a size."""
        rng, m, arm = np.random.default_rng(1), self.motion, robot()
        q = m.q + noise * ENCODER_NOISE * rng.normal(size=m.q.shape)
        tau = m.tau + 0.5 * noise * TORQUE_NOISE * rng.normal(size=m.q.shape)
        return read_log(write_log(path, m.t, canonical_columns(arm.joint_names, q, tau=tau)), arm)

    def missed(self, theta: Float) -> float:
        """Error of the torque of bodies and rotors, a share of it, root mean square over the joints."""
        rigid = np.arange(len(theta)) < 66
        true, found = (
            TERMS.torque(robot(), self.motion, np.where(rigid, x, 0.0)) for x in (self.theta, theta)
        )
        return float(np.sqrt((((found - true) ** 2).sum(axis=0) / (true**2).sum(axis=0)).mean()))


def compare_estimators(page: StudyPage, full: bool) -> None:
    """The section: errors by method, noise and filters."""
    page.section("Which estimator")
    rigid = Rigid.made()
    cases = {"x1, good": (1.0, GOOD), "x10, good": (10.0, GOOD), "x10, loose": (10.0, LOOSE)}
    if full:
        cases |= {"x1, loose": (1.0, LOOSE), "x10, over": (10.0, OVER)}
    methods = METHODS | SLOW if full else METHODS
    found: dict[str, dict[str, float]] = {name: {} for name in methods}
    with tempfile.TemporaryDirectory() as scratch:
        logs = {noise: rigid.log(Path(scratch) / f"{noise:g}.parquet", noise) for noise in (1.0, 10.0)}
        for case, (noise, chain) in cases.items():
            for name, (rows, estimator) in methods.items():
                found[name][case] = _missed(rigid, logs[noise], rows, estimator, chain)
    prior = np.concatenate([robot().inertia_prior.ravel(), rigid.theta[60:]])
    page.text(
        f"""The arm with rigid joints, friction sought beside the bodies, at the usual noise and at ten times that;
        filters good (50 and 20 Hz), loose (200 Hz, no parallel filter){" and too tight (2.5 Hz)" if full else ""}. The
        maker's model alone misses {100 * rigid.missed(prior):.3g} %. The parallel filter is the main safeguard of plain
        rows; without it momentum rows are what is left. A dash stands for a fit that is refused."""
    )
    page.table(
        "Error of the torque of bodies and rotors, %",
        ("", *cases),
        [
            (name, *(100 * found[name][case] if np.isfinite(found[name][case]) else None for case in cases))
            for name in methods
        ],
    )
    momentum, entropic = (found[f"momentum rows, {way}"]["x10, loose"] for way in ("WLS", "entropic prior"))
    page.results(
        "Estimators",
        at_most("wls_good", "WLS, usual noise, good filters", found["WLS"]["x1, good"], 0.015),
        at_most("momentum_loose", "momentum rows, tenfold noise, loose filters", momentum, 0.03),
        told("wls_loose", "WLS there", found["WLS"]["x10, loose"]),
        at_most("entropic_loose", "momentum rows and entropic prior there", entropic, 0.03),
    )


def _missed(rigid: Rigid, log: Log, rows: Rows, estimator: Any, chain: Preparation) -> float:
    try:
        return rigid.missed(_fitted(log, rows, estimator, chain))
    except DynidError:
        return float("nan")


def _fitted(log: Log, rows: Rows, estimator: Any, chain: Preparation) -> Float:
    # Equations and estimator alone: `identify` would go on to refuse what the worst of these fits leave over.
    arm = robot()
    prepared = prepare(log, chain)
    structural = structural_base(arm, TERMS, rows)
    assembly = Assembly(
        arm, TERMS, rows, structural.mask, prepared.parallel_filter(), block_seconds(prepared)
    )
    factors = assembly.factors(prepared)
    base, columns = data_base(structural, factors), TERMS.columns(arm)
    spread = parameter_spread(arm, columns, influence(factors))
    source = LogSource(assembly, prepared, 1, partial(MotionNoise.of, prepared))
    regression = Regression(columns, base, factors.select(base.mask), spread, source=source)
    return np.asarray(estimator.fit(regression).full_vector)
