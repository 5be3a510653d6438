"""Which estimator for a UR5e: plain and momentum rows, weights, feasible bodies and priors, by noise and filters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dynid import Log
from dynid.base import DynidError, Float
from dynid.estimate import DIDIM, IRLS, IV, OLS, WLS, FeasibleFit, LogSource, regression_of
from dynid.factor import Assembly, Blocking, structural_base
from dynid.feasible import UNLIMITED
from dynid.rows import MomentumRows, Rows, TorqueRows
from dynid.run import block_seconds
from dynid.signals import MotionNoise, Preparation, Samples
from dynid.signals.prepare import prepare
from dynid.simulation import sample_times
from dynid.terms import Coulomb, RigidBody, RotorInertia, Terms, Viscous
from dynid_studies.madsen_arm import (
    DISCREPANCY,
    ENCODER_NOISE,
    FC,
    FV,
    QUIET,
    RATE,
    SECONDS,
    TORQUE_NOISE,
    WIDTH,
    known,
    link_error,
    log_of,
    measured,
    robot,
    trajectory,
)
from dynid_studies.study import StudyPage, at_most, reported

TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(WIDTH)
GOOD = Preparation(cutoff=20.0, state_cutoff=50.0)
LOOSE = Preparation(cutoff=200.0, state_cutoff=200.0)
OVER = Preparation(cutoff=2.5, state_cutoff=2.5)
MOMENTUM = MomentumRows(cutoff=20.0 / (2 * np.pi), degree=2)
METHODS: dict[str, tuple[Rows, Any]] = {
    "OLS": (TorqueRows(), OLS()),
    "WLS": (TorqueRows(), WLS()),
    "Huber": (TorqueRows(), IRLS()),
    "feasible bodies": (TorqueRows(), FeasibleFit(strength=1e-3, prior="euclidean", density=UNLIMITED)),
    "feasible, entropic prior": (TorqueRows(), FeasibleFit(strength="held-out", prior="entropic")),
    "momentum rows, WLS": (MOMENTUM, WLS()),
    "momentum rows, entropic prior": (MOMENTUM, FeasibleFit(strength="held-out", prior="entropic")),
}
SLOW: dict[str, tuple[Rows, Any]] = {"IV": (TorqueRows(), IV()), "DIDIM": (TorqueRows(), DIDIM())}

COMPENSATED: dict[str, Rows] = {
    "plain rows": TorqueRows(),
    "momentum, degree 1": replace(MOMENTUM, degree=1),
    "momentum, degree 2": MOMENTUM,
}


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

    def log(self, noise: float) -> Log:
        """What is measured, with noise of a size."""
        rng, m = np.random.default_rng(1), self.motion
        q = m.q + noise * ENCODER_NOISE * rng.normal(size=m.q.shape)
        tau = m.tau + QUIET * noise * TORQUE_NOISE * rng.normal(size=m.q.shape)
        return Log.from_arrays(robot(), m.t, q, tau)

    def missed(self, theta: Float) -> float:
        """Error of the torque of bodies and rotors, a share of it, root mean square over the joints."""
        rigid = np.arange(len(theta)) < 66
        true, estimated = (
            TERMS.torque(robot(), self.motion, np.where(rigid, x, 0.0)) for x in (self.theta, theta)
        )
        return float(np.sqrt((((estimated - true) ** 2).sum(axis=0) / (true**2).sum(axis=0)).mean()))


def compare_estimators(page: StudyPage, full: bool) -> None:
    """The section: errors by method, noise and filters."""
    page.section("Which estimator")
    rigid = Rigid.made()
    cases = {"x1, good": (1.0, GOOD), "x10, loose": (10.0, LOOSE)}
    if full:
        further = {"x1, loose": (1.0, LOOSE), "x10, good": (10.0, GOOD), "x10, loose": (10.0, LOOSE)}
        cases = {"x1, good": (1.0, GOOD)} | further | {"x10, over": (10.0, OVER)}
    methods = METHODS | SLOW if full else METHODS
    errors: dict[str, dict[str, float]] = {name: {} for name in methods}
    logs = {noise: rigid.log(noise) for noise in (1.0, 10.0)}
    for case, (noise, chain) in cases.items():
        for name, (rows, estimator) in methods.items():
            errors[name][case] = _missed(rigid, logs[noise], rows, estimator, chain)
    prior = np.concatenate([robot().inertia_prior.ravel(), rigid.theta[60:]])
    page.text(
        f"""The arm with rigid joints, with friction estimated together with the links, at the usual encoder noise with
        half of the torque noise, and at ten times both; filters good (50 and 20 Hz), loose (200 Hz, no parallel
        filter){" and too tight (2.5 Hz)" if full else ""}. The maker's model alone has an error of
        {100 * rigid.missed(prior):.3g} %. Torque rows depend on the parallel filter; without it only momentum rows
        work. A dash marks a refused fit."""
    )
    page.table(
        "Error of the torque of bodies and rotors, %",
        ("", *cases),
        [
            (name, *(100 * errors[name][case] if np.isfinite(errors[name][case]) else None for case in cases))
            for name in methods
        ],
        name="estimators",
    )
    momentum, entropic = (errors[f"momentum rows, {way}"]["x10, loose"] for way in ("WLS", "entropic prior"))
    page.results(
        "Estimators",
        at_most("wls_good", "WLS, usual noise, good filters", errors["WLS"]["x1, good"], 0.015),
        at_most("momentum_loose", "momentum rows, tenfold noise, loose filters", momentum, 0.03),
        reported("wls_loose", "WLS there", errors["WLS"]["x10, loose"]),
        at_most("entropic_loose", "momentum rows and entropic prior there", entropic, 0.03),
    )


def compare_compensated(page: StudyPage, full: bool) -> None:
    """The section: tenfold noise and loose filters on the arm with gears, rotors and friction compensated."""
    page.section("The same on the arm with gears and two encoders")
    cases = {f"motion {i + 1}, x10": (seed, QUIET) for i, seed in enumerate((0, 10, 20) if full else (0,))}
    if full:
        cases |= {f"motion {i + 1}, x20": (seed, 2 * QUIET) for i, seed in enumerate((0, 10, 20))}
    columns = [(name, filters) for name in COMPENSATED for filters in ("good", "loose")]
    errors_by_case = {case: _compensated(seed, current) for case, (seed, current) in cases.items()}
    page.text(
        """The same calibration (friction 7 % wrong) with ten times the noise of the previous table: 7.5 N m of the
        current at the large joints, 1.5 N m at the wrist, 50 microradians of both encoders. Compensation
        differentiates the motors' angles twice and feeds |tau| to the friction; with filters of 200 Hz both are mostly
        noise, which makes torque rows fail and which momentum rows average out."""
    )
    page.table(
        "Link torque after rotor compensation, %",
        ("", *(f"{name}, {filters}" for name, filters in columns)),
        [(case, *(100 * errors[column] for column in columns)) for case, errors in errors_by_case.items()],
        note="x20: the current's noise doubled, ten times that of the calibration; on motion 1 even good filters then "
        "miss 3 %." if full else "",
        name="compensated",
    )  # fmt: skip
    usual = [errors for case, errors in errors_by_case.items() if case.endswith("x10")]
    best, plain = ("momentum, degree 2", "loose"), ("plain rows", "loose")
    page.results(
        "Compensated arm, tenfold noise, loose filters",
        at_most("compensated_loose", "momentum rows of degree 2, worst motion", max(e[best] for e in usual), 0.03),
        reported("compensated_wls_loose", "plain rows there, best motion", min(e[plain] for e in usual)),
        at_most("compensated_floor", "momentum rows there over plain rows with good filters, worst motion",
                max(e[best] / e["plain rows", "good"] for e in usual), 2.0),
    )  # fmt: skip


def _compensated(seed: int, current: float) -> dict[tuple[str, str], float]:
    # Errors of the link torque by rows and filters.
    run, terms = measured(seed, 10.0, current=current), RigidBody() + known() + DISCREPANCY
    log = log_of(run)
    return {
        (name, filters): link_error(run.motion, _fitted(log, rows, WLS(), chain, terms)[:60])
        for name, rows in COMPENSATED.items()
        for filters, chain in (("good", GOOD), ("loose", LOOSE))
    }


def _missed(rigid: Rigid, log: Log, rows: Rows, estimator: Any, chain: Preparation) -> float:
    try:
        return rigid.missed(_fitted(log, rows, estimator, chain))
    except DynidError:
        return float("nan")


def _fitted(log: Log, rows: Rows, estimator: Any, chain: Preparation, terms: Terms = TERMS) -> Float:
    # Equations and estimator alone: `identify` would go on to refuse what the worst of these fits leave over.
    arm = robot()
    prepared = prepare(log, chain)
    structural = structural_base(arm, terms, rows)
    assembly = Assembly(
        arm, terms, rows, structural.mask, prepared.parallel_filter(), Blocking(block_seconds(prepared))
    )
    factors = assembly.factors(prepared)
    source = LogSource(assembly, prepared, 1, partial(MotionNoise.of, prepared))
    return np.asarray(estimator.fit(regression_of(arm, terms, structural, factors, source)).full_vector)
