"""The calibration of Madsen et al. 2020: rotors and known friction off the current, the rest by least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from dynid import Log, Settings, identify
from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.factor import stack, structural_base
from dynid.rows import TorqueRows
from dynid.run import Identification
from dynid.signals import Preparation, Samples
from dynid.terms import RigidBody, RotorCompensation, Terms
from dynid_studies.madsen_arm import (
    BODIES,
    DISCREPANCY,
    FV,
    SIGNS,
    Run,
    bodies,
    known,
    link_error,
    log_of,
    measured,
    robot,
)
from dynid_studies.madsen_figures import friction_figure, motion_figure, residual_figure
from dynid_studies.study import StudyPage, at_least, at_most, reported

CHAIN = Preparation(cutoff=20.0, state_cutoff=50.0)
COMPENSATED = RigidBody() + known() + DISCREPANCY
# Rotors taken off, friction estimated whole: what is done where joints count as rigid.
PLAIN = RigidBody() + RotorCompensation() + DISCREPANCY
PLAIN_NAME, LINK_NAME, LOAD_NAME = (
    "no compensation of friction, WLS",
    "compensation from the link encoder, WLS",
    "rotor compensation, friction loaded with tau - B ddtheta, WLS",
)
WEIGHTS = ("OLS", "WLS, 1/sigma as printed", "WLS, 1/sigma^2")


@dataclass(frozen=True, eq=False)
class Fit:
    """A calibration: parameters (60,) of the bodies, and its own error (22), N m."""

    pi: Float
    own: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """The paper's calibration, that of rigid joints beside it, and the log of both."""

    rotor: Identification
    rigid: Identification
    log: Log


def add_calibration(page: StudyPage, realisations: int) -> Calibration:
    """The section; realisations: motions and errors of the known friction over which kinds of weights are compared."""
    page.section("The calibration: rotors and friction compensated (figure 6, Table 4)")
    run = measured()
    both, links = (log_of(run, both=encoders) for encoders in (True, False))
    rotor, rigid = identified(both, COMPENSATED), identified(links, PLAIN)
    exact = identified(both, RigidBody() + known(error=0.0) + DISCREPANCY)
    fits = {
        "no compensation of friction, OLS": weighted(rigid, np.ones(6)),
        PLAIN_NAME: _fit(rigid),
        LINK_NAME: _fit(identified(links, COMPENSATED)),
        LOAD_NAME: _fit(identified(both, RigidBody() + known(loaded_by="motor") + DISCREPANCY)),
    }
    for name, weights in _weights(rotor).items():
        fits[f"rotor compensation, {name}"] = weighted(rotor, weights)
    fits["rotor compensation, friction known exactly, WLS"] = _fit(exact)
    page.text(
        """Torque at the links is current less rotor B ddtheta less friction, which depends on velocity, temperature
        and the load. Its coefficients are known to 7 %; the difference is estimated as viscous and Coulomb friction
        together with the links. The load of the friction is the torque at the link, not the remaining current: both
        are solved for together, which the paper does not do. Filters as printed: Butterworth of order 4, 50 Hz,
        without phase, central differences, parallel filter of 20 Hz, every twentieth sample."""
    )
    page.figure("figure6", "Figure 6: the motion that was fitted", motion_figure(run.motion))
    page.results(
        "Its excitation",
        reported("condition", "condition number of the regressor, columns of unit length", _condition(run, scaled=True),
                 66.0, explanation="The paper prints cond(W) = 66 and does not say how W is scaled, so the two cannot "
                 "be compared. Another motion, too: five random harmonics of 0.1 Hz a joint, nothing optimised."),
        reported("condition_raw", "the same, columns in SI units", _condition(run, scaled=False), 66.0),
    )  # fmt: skip
    errors = _table(page, run, rotor, fits)
    _reached(page, rotor, fits, errors)
    discrepancy = _discrepancy(rotor)
    page.figure(
        "friction",
        "Friction of joint 1 in velocity, load and temperature",
        friction_figure(*discrepancy[:, 0]),
    )
    if rotor.training.residuals is not None and rigid.training.residuals is not None:
        page.figure(
            "residuals",
            "What is left of the torque at every joint",
            residual_figure(rigid.training.residuals, rotor.training.residuals),
        )
    _add_weights(page, exact, run, realisations)
    return Calibration(rotor, rigid, both)


def identified(log: Log, terms: Terms) -> Identification:
    """Weighted least squares with the paper's filters."""
    settings = Settings(terms=terms, rows=TorqueRows(), estimator=WLS(), preparation=CHAIN)
    return identify(robot(), log, settings, diagnostics=Diagnostics())


def weighted(run: Identification, weights: Float) -> Fit:
    """The same factors with other weights of the joints (6,), and the error that is left with them."""
    factors, base = run.factors.select(run.estimate.base.mask), run.estimate.base
    R = stack(factors.total, base.independent, weights)
    theta = np.zeros(len(run.estimate.columns))
    theta[base.independent] = solve_triangular(R[: base.rank, : base.rank], R[: base.rank, base.rank])
    # Targets of factors lack the torque that is known, which (22) counts.
    size = run.training.scores.mse / run.training.scores.nmse
    left = np.array([factor.residual_square(theta) / factor.count for factor in factors.total])
    return Fit(np.asarray(theta[:60]), float((left / size).sum()))


def _weights(run: Identification) -> dict[str, Float]:
    sigma = run.estimate.sigma
    return dict(zip(WEIGHTS, (np.ones(6), 1 / sigma, 1 / sigma**2), strict=True))


def _fit(run: Identification) -> Fit:
    return Fit(run.estimate.full_vector[:60], run.training.scores.total_nmse)


def _table(page: StudyPage, run: Run, rotor: Identification, fits: dict[str, Fit]) -> dict[str, float]:
    B = rotor.structural.B[:, :60]
    truth = B @ bodies().ravel()
    errors = {name: link_error(run.motion, fit.pi) for name, fit in fits.items()}
    off = {name: np.linalg.norm(B @ fit.pi - truth) / np.linalg.norm(truth) for name, fit in fits.items()}
    page.table(
        "Errors of the calibration",
        ("", "own NMSE, N m", "link torque, %", "parameters, %"),
        [(name, fit.own, 100 * errors[name], 100 * float(off[name])) for name, fit in fits.items()],
        name="calibration",
        note="Own NMSE: equation 22 on the data that were fitted, mean(e^2) / mean(|tau|) summed over joints. Link "
        "torque: against the true one, relative error of each joint, root mean square over the joints.",
    )
    return errors


def _discrepancy(rotor: Identification) -> Float:
    # Viscous and Coulomb friction that were found beside the known, (2, 6).
    value = dict(zip((c.name for c in rotor.estimate.columns), rotor.estimate.full_vector, strict=True))
    return np.array([[value[f"{kind}{j + 1}"] for j in range(6)] for kind in ("fv", "fc")])


def _reached(page: StudyPage, rotor: Identification, fits: dict[str, Fit], errors: dict[str, float]) -> None:
    best = "rotor compensation, WLS, 1/sigma^2"
    error, nmse = errors[best], fits[best].own
    lacking = _discrepancy(rotor)[0] + 0.07 * SIGNS * FV
    residual = rotor.training.residuals
    e = residual.error - residual.error.mean(axis=0) if residual is not None else np.zeros((2, 6))
    lag = float(np.median((e[1:] * e[:-1]).sum(axis=0) / (e**2).sum(axis=0)))
    narrow = float(np.median(rotor.estimate.std / rotor.estimate.textbook_std))
    page.results(
        "What the calibration reaches",
        at_most("link_error", "error of the links' torque, 1/sigma^2", error, 0.015),
        at_most("own_nmse", "NMSE over that of rigid joints", nmse / fits[PLAIN_NAME].own, 0.1),
        at_most("own_nmse_link", "NMSE over that of the link encoder's compensation", nmse / fits[LINK_NAME].own, 1.0),
        at_least("load", "friction loaded with tau - B ddtheta over the right load", errors[LOAD_NAME] / error, 2.0,
                 explanation="The load has to be solved for together with the friction; not in the paper."),
        at_most("discrepancy", "error of the viscous friction found, of its greatest",
                float(np.abs(lacking).max() / FV.max()), 0.02),
        reported("correlation", "residuals' correlation from sample to sample", lag),
        at_least("intervals", "honest over textbook standard deviation, median", narrow, 1.5,
                 explanation="Residuals are correlated, so Table 4's deviations are too small by this factor or more."),
    )  # fmt: skip


def _condition(run: Run, scaled: bool) -> float:
    m = run.motion
    samples = Samples.from_motion(m.q[::20], m.dq[::20], m.ddq[::20])
    base = structural_base(robot(), BODIES, TorqueRows())
    W = BODIES.torque_regressor(robot(), samples).dense(60)[:, :, base.independent].reshape(-1, base.rank)
    return float(np.linalg.cond(W / np.linalg.norm(W, axis=0) if scaled else W))


def _add_weights(page: StudyPage, exact: Identification, run: Run, realisations: int) -> None:
    # One realisation shows little: the friction's error decides which joint's torque is spoilt.
    plain, printed, variance = (
        link_error(run.motion, weighted(exact, w).pi) for w in _weights(exact).values()
    )
    rows = []
    for seed in range(1, realisations + 1):
        other = measured(seed)
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], 6)
        terms = RigidBody() + known(signs=signs) + DISCREPANCY
        fit = identified(log_of(other), terms)
        rows.append([link_error(other.motion, weighted(fit, w).pi) for w in _weights(fit).values()])
    middle = np.exp(np.log(np.array(rows)).mean(axis=0))
    errors = {f"motion {i + 1}, friction 7 % wrong": row for i, row in enumerate(rows)}
    errors["geometric mean of these"] = middle.tolist()
    errors["figure 6, friction known exactly"] = [plain, printed, variance]
    page.table(
        "Link torque by kind of weights, %",
        ("", *WEIGHTS),
        [(name, *(100 * error for error in row)) for name, row in errors.items()],
        name="weights",
        note="Each motion with other signs of the friction's errors.",
    )
    page.results(
        "Kinds of weights",
        at_most("weights_printed", "1/sigma over OLS, friction known exactly", printed / plain, 1.0),
        at_most("weights", "1/sigma^2 over 1/sigma, friction known exactly", variance / printed, 1.0,
                explanation="The print weighs by 1/sigma; the variance is what has to be weighed with. Where friction "
                "is 7 % wrong residuals are not noise alone, and both kinds of weights lie close together."),
        at_most("weights_printed_wrong", "1/sigma over OLS, friction 7 % wrong", float(middle[1] / middle[0]), 1.0),
        at_most("weights_wrong", "1/sigma^2 over OLS, friction 7 % wrong", float(middle[2] / middle[0]), 1.0),
        reported("weights_close", "1/sigma^2 over 1/sigma, friction 7 % wrong", float(middle[2] / middle[1]),
                 explanation="On these motions neither order is settled: the standard deviation of the mean logarithm "
                 "of the ratio over nine motions is 0.05."),
    )  # fmt: skip
