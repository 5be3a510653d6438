"""The equations of Zollo et al. 2014: misprints, mass matrix, friction, and how many parameters are identifiable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base import Float, UsageError
from dynid.factor import structural_base
from dynid.rows import ElasticRows
from dynid.signals import Samples
from dynid.simulation import Coupling, Elasticity, Plant
from dynid.spatial import pseudo_inertia, transformed
from dynid_studies.study import StudyPage, at_least, at_most, near, reported
from dynid_studies.zollo_arms import FRICTION, SIMPLIFIED, TERMS, Arm, Stribeck, planar, puma
from dynid_studies.zollo_pipeline import equations

# Equation, correct form, and printed form or its consequence.
MISPRINTS = (
    ("1", "the elastic energy is 1/2 K (q - theta)^2", "without the 1/2 K would come out halved, against (6)"),
    ("2 and on", "friction, B and C act on (dq, dtheta), (ddq, ddtheta); g is the slope of U_g over (q, theta)",
     "bars over q lost"),
    ("4", "1/2 before the first sum", "without it C dq is wrong, and dB/dt - 2 C is not skew"),
    ("8", "J_P where J_D stands; signs as printed", "J_D"),
    ("10", "r_a1 to r_an", "r_a0 to r_an"),
    ("22, B.16, B.20", "zeros(n, 14 n); the first row of B.16 has H^(1)", "zeros(n, 2 n); H^(n) twice"),
    ("23", "fourth block Y_HY1, zeros(n, 3 n) in the top row", "a block and the zeros are missing"),
    ("24", "superscript j", "superscript i"),
    ("25", "frames' rates follow from S(J_O,k)", "not the rates of the frames; 46 % wrong in the median"),
    ("35", "W depends on accelerations too; 7 measurements are necessary, not sufficient", "(q, dq), w >= 7"),
    ("41", "A has 14 n - m columns less one for each column of zeros", "14 n - m columns"),
    ("43", "the first exponent holds the velocity", "the position; then friction can drive the motion"),
    ("43", "the second exponent is -1 / (f6 |dtheta|)", "-1 / f6 |dtheta|, which reads as another function"),
    ("A.14, A.18, A.19, B.1", "i over p, a transpose, a sum, dq over (q, theta)", "missing"),
    ("normalised mean error", "mean of signed errors", "'error', where signs cancel"),
    ("Table 2", "ratios in decibels", "without a unit"),
    ("62 parameters", "60 for the upright PUMA", "62, with the planar arm's gravity across z0"),
    ("Tables 4 to 6", "pi_13, pi_33, pi_55 to pi_57, pi_72", "see the tables"),
)  # fmt: skip


def check_model(page: StudyPage, arm: Arm) -> None:
    """Write the section on misprints and on the numbers of the model."""
    page.section("The model, and what is misprinted in it")
    page.text(
        """Link and motor of each joint have one equation each, coupled by a spring. Most of the paper's equations are
        correct with the missing bars over `q`; these are not. Tests of dynid show that 1, 4, 25 and 43 are wrong as
        printed; the others follow from the derivation. The equations as dynid has them agree with a Lagrangian
        differentiated by complex steps."""
    )
    page.table("Misprints", ("equation", "right is", "as printed"), MISPRINTS)
    _coriolis(page, arm)
    postures = np.random.default_rng(1).uniform(-3, 3, (40, arm.robot.n))
    least = float(np.linalg.eigvalsh(mass_matrices(arm, postures)).min())
    without = planar(with_rotor=False)
    indefinite = float(np.linalg.eigvalsh(mass_matrices(without, postures)).min())
    refused = ""
    try:
        Plant(
            without.robot,
            without.bodies,
            elasticity=Elasticity(arm.stiffness, np.zeros(2)),
            coupling=Coupling.FULL,
        )
    except UsageError as error:
        refused = error.found
    eigenvalue = min(_least_pseudo_inertia(body) for body in _paper_frames(arm))
    page.text(
        f"""The inertia I_1 = 13.8167 includes the whole rotor that link 1 carries. Without it the mass matrix is
        indefinite; dynid refuses to simulate that arm ("{refused}")."""
    )
    speed = np.concatenate([-np.geomspace(10, 1e-4, 2000), np.geomspace(1e-4, 10, 2000)])
    friction = Stribeck(FRICTION).torque(np.stack([speed, speed], axis=1), np.zeros((4000, 0)))
    page.results(
        "The model",
        reported(
            "inertia_with_rotor", "least eigenvalue of B(q) with the rotor in I_1", least, unit="kg m^2"
        ),
        at_most(
            "inertia_without_rotor", "least eigenvalue of B(q) without it", indefinite, -0.3, unit="kg m^2"
        ),
        near(
            "pseudo_inertia",
            "least pseudo-inertia eigenvalue of the planar bodies",
            eigenvalue,
            -6.28,
            0.01,
            unit="kg m^2",
            explanation="The planar arm's data are numbers for the equations, not physically consistent bodies: no "
            "ground truth for feasible fits.",
        ),
        at_most(
            "dissipation",
            "greatest power that friction (43) gives to the motion",
            float((-friction * speed[:, None]).max()),
            0.0,
            unit="W",
            explanation="Only with exp(-1/(f6 |dtheta|)) and the velocity in the first exponent does (43) dissipate.",
        ),
    )


def _coriolis(page: StudyPage, arm: Arm) -> None:
    """Compare C of eq. 4, with and without its 1/2, with dynid's equations at zero acceleration."""
    n, step = arm.robot.n, 1e-4
    rng = np.random.default_rng(2)
    q, v = rng.uniform(-3, 3, (40, n)), rng.normal(size=(40, 2 * n))
    zero = np.zeros((40, n))
    still = replace(Samples.from_motion(q, v[:, :n], zero), theta=q, dtheta=v[:, n:], ddtheta=zero)
    lossless = replace(arm, coulomb=np.zeros(n), viscous=np.zeros(n))
    wanted = equations(replace(arm.robot, gravity=np.zeros(3)), TERMS, still)[0] @ lossless.theta
    H = np.stack(
        [(mass_matrices(arm, q + e) - mass_matrices(arm, q - e)) / (2 * step) for e in step * np.eye(n)]
    )
    rate = np.einsum("bk,kbij->bij", v[:, :n], H)
    rows = np.zeros((40, 2 * n, 2 * n))
    rows[:, :n] = np.einsum("bj,kbji->bki", v, H)
    asym = 0.5 * (rows - rows.transpose(0, 2, 1))

    def errors(C: Float) -> tuple[Float, float]:
        product = np.einsum("bij,bj->bi", C, v)
        N = rate - 2 * C
        skew = float(np.abs(N + N.transpose(0, 2, 1)).max() / np.abs(N).max())
        return np.linalg.norm(product - wanted, axis=1) / np.linalg.norm(wanted, axis=1), skew

    (right, skew), (printed, lost) = errors(0.5 * rate - asym), errors(rate - asym)
    page.results(
        "Equation (4) with its 1/2 and as printed, planar arm in 40 random states",
        at_most("coriolis", "with 1/2: relative error of C dq, greatest", float(right.max()), 1e-8),
        at_most("coriolis_skew", "with 1/2: dB/dt - 2 C, what is not skew of it", skew, 1e-12),
        at_least(
            "coriolis_printed", "as printed: relative error of C dq, median", float(np.median(printed)), 0.3
        ),
        at_least("coriolis_printed_skew", "as printed: dB/dt - 2 C, what is not skew of it", lost, 0.1),
    )


def mass_matrices(arm: Arm, q: Float) -> Float:
    """B(q) (T, 2n, 2n) in postures (T, n): the equations of unit accelerations, without gravity."""
    n = arm.robot.n
    robot, zero = replace(arm.robot, gravity=np.zeros(3)), np.zeros_like(q)
    columns = []
    for unit in np.eye(2 * n):
        plain = Samples.from_motion(q, zero, zero + unit[:n])
        samples = replace(plain, theta=q, dtheta=zero, ddtheta=zero + unit[n:])
        columns.append(equations(robot, TERMS, samples)[0] @ arm.theta)
    B = np.stack(columns, axis=2)
    return np.asarray(0.5 * (B + B.transpose(0, 2, 1)))


def _paper_frames(arm: Arm) -> list[Float]:
    back = np.eye(4)
    back[0, 3] = -0.5
    return [transformed(body, back) for body in arm.bodies]


def _least_pseudo_inertia(body: Float) -> float:
    return float(np.linalg.eigvalsh(pseudo_inertia(body)).min())


def check_ranks(page: StudyPage, arm: Arm) -> None:
    """Ranks of both arms, with either kind of coupling."""
    page.section("How many parameters are identifiable")
    robot = puma().robot
    results = []
    for coupling, terms in (("full", TERMS), ("simplified", SIMPLIFIED)):
        base_rank = structural_base(arm.robot, terms, ElasticRows()).rank
        results.append(near(f"rank_planar_{coupling}", f"planar arm, {coupling} coupling", base_rank, 14, 0))
        for name, gravity, right in (
            ("upright", (0.0, 0.0, -9.81), 60),
            ("sideways", (0.0, -9.81, 0.0), 62),
            ("weightless", (0.0, 0.0, 0.0), 58),
        ):
            turned = replace(robot, gravity=np.array(gravity))
            rank = structural_base(turned, terms, ElasticRows()).rank
            results.append(
                near(
                    f"rank_puma_{name}_{coupling}",
                    f"PUMA {name}, {coupling} coupling",
                    rank,
                    62,
                    0,
                    right=right,
                )
            )
    page.text(
        """Ranks on columns of unit length, from random states. The printed 62 of the PUMA belongs to gravity across
        z0, (0, -9.81, 0): that of the planar example. An upright PUMA has 60, one without gravity 58, for full
        coupling and Spong's simplification alike. Without scaling of the columns the numerical rank is one too
        small."""
    )
    page.results("Ranks", *results)
