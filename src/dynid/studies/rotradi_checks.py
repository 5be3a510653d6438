"""What of Chavez-Olivares et al. 2012 can be checked without the robot: its equations and its printed sets."""

from __future__ import annotations

import numpy as np

from dynid.arrays import Float
from dynid.kernel import equations_of_motion
from dynid.signals.samples import Samples
from dynid.studies import rotradi_equations as closed
from dynid.studies.rotradi import JOINTS, NAMES, SCHEMES, TABLE_3, TERMS, arm, full, lift
from dynid.studies.rotradi_schemes import ramp_of_printed_filter
from dynid.studies.study import Cell, StudyPage, at_most, near

MISPRINTS = (
    ("(7)", "P P Ψ (...)", "P − P Ψ (...) Ψ' P: the minus is lost"),
    ("(13), (14)", "f(s) Y_f(q, q', q'')", "f(s) Y(q, q', q''), which is Y_f(q, q')"),
    ("(16), (35)", "stored energy", "less its value at the start, unless that is rest at the datum"),
    ("(26), θ₁₂", "... (rx2² + ry2²) Izz3 ...", "... (rx2² + ry2²) + Izz3 ..."),
    ("(34)", "f2 of (33) without acceleration", "f2 of −C'q' + g + friction; 20 entries"),
    ("(37)", "r_p11 to r_p21, friction behind f1", "r_fp11 to r_fp21; 16 to 21 behind f2: friction is power"),
    ("(45)", "(m3 rx3 − Ixz3)(D2 + D3 + rz3)", "m3 rx3 (D2 + D3 + rz3) − Ixz3; likewise for Iyz3"),
    ("(46)", "q' M q'", "1/2 q' M q'"),
)
TABLE_4_MEAN = {"dynamic": 448.75, "energy": 594.16, "power": 659.86, "filtered power": 439.38}


def check_equations(page: StudyPage) -> None:
    """Every closed form against the general equations."""
    page.section("The equations, entry by entry")
    page.text(
        """The arm has 21 parameters: combinations of inertias and masses, and viscous and Coulomb friction. The paper
        writes every regressor in closed form. Each entry is compared here with dynid's general equations, which know
        nothing of this arm, at 400 random states.

        Equation (34), the filtered dynamic regressor, is wrong. Filtering d(M q')/dt - C'q' + g moves the derivative
        of the momentum into the filter f1, so its f2 part must be -C'q' + g and friction alone. The printed f2 part is
        the whole regressor at q'' = 0: the product-rule term of the momentum counts twice. The f1 parts are right."""
    )
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-3, 3, (3, 400, 3))
    states = Samples.from_motion(q, dq, ddq)
    robot, to_full = arm(), lift()
    every = np.ones(len(to_full), dtype=np.bool_)
    Y = TERMS.torque_regressor(robot, states, every).dense(len(to_full)) @ to_full
    P, R = (form.dense(len(to_full)) @ to_full for form in TERMS.momentum_form(robot, states, every))
    gap = {
        "33": np.abs(Y - closed.torque_regressor(states.q, states.dq, states.ddq)),
        "34 f1": np.abs(P - closed.momentum(states.q, states.dq)),
        "34 f2": np.abs(R - closed.force_printed(states.q, states.dq)),
        "34 right": np.abs(R - closed.force(states.q, states.dq)),
    }
    wrong = np.argwhere(gap["34 f2"].max(axis=0) > 1e-12)
    page.table(
        "Entries of the printed (34) that are wrong",
        ("joint", "parameters"),
        [(joint, ", ".join(NAMES[j] for i, j in wrong if i == row)) for row, joint in enumerate(JOINTS)],
    )
    page.table("All misprints", ("equation", "printed", "right"), MISPRINTS)
    page.results(
        "Closed forms against the general equations",
        at_most("entries_33", "(33): greatest difference of the 63 entries", float(gap["33"].max()), 2e-12),
        at_most("entries_34_f1", "(34), f1 parts as printed", float(gap["34 f1"].max()), 1e-12),
        at_most("entries_34_right", "(34), f2 parts corrected", float(gap["34 right"].max()), 1e-12),
        near(
            "entries_34_wrong",
            "entries of the printed (34) that differ",
            float(len(wrong)),
            0.0,
            0.0,
            explanation="the f2 parts of (34) repeat (33) without acceleration; the product-rule term counts twice",
            right=20.0,
        ),
        near(
            "ramp",
            "printed f1 of a unit ramp",
            ramp_of_printed_filter(),
            1.0,
            5e-4,
            explanation="the zero-order-hold filter takes the momentum as held between samples; inertias come out "
            "1.1 % too small, and Tustin's rule is exact",
            right=1.0114,
        ),
    )


def check_tables(page: StudyPage) -> None:
    """Printed sets: their deviations, and whether an arm could have them."""
    page.section("Tables 3 and 4")
    page.text(
        """The identified sets themselves can be checked without the robot. Table 4 is the deviation of each set from
        that of the filtered dynamic scheme. A set that could belong to an arm has a mass matrix that is positive
        definite in every posture: only the filtered dynamic one has."""
    )
    best = TABLE_3[:, [1]]
    deviation = 100 * (TABLE_3 - best) / np.abs(best)
    rows: list[tuple[Cell, ...]] = [
        (name, *map(float, row)) for name, row in zip(NAMES, TABLE_3, strict=True)
    ]
    rows.append(("least eigenvalue, kg m²", *(_least_inertia(column) for column in TABLE_3.T)))
    page.table(
        "Table 3 as printed, and the least eigenvalue of M(q) over all postures",
        ("parameter", *SCHEMES),
        rows,
        digits=4,
    )
    page.results(
        "Table 4: mean of the absolute deviations from the filtered dynamic set, %",
        *(
            near(
                f"table4_{name.replace(' ', '_')}",
                name,
                float(np.abs(deviation[:, i]).mean()),
                mean,
                0.02,
                "%",
            )
            for i, name in enumerate(SCHEMES)
            if (mean := TABLE_4_MEAN.get(name)) is not None
        ),
    )
    definite = [name for name, column in zip(SCHEMES, TABLE_3.T, strict=True) if _least_inertia(column) > 0]
    page.results(
        "Physical consistency",
        near("definite_sets", "printed sets whose M(q) is positive definite", float(len(definite)), 1.0, 0.0),
    )


def _least_inertia(theta: Float) -> float:
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (4000, 3))
    M = equations_of_motion(arm().tree, full(theta)[:30].reshape(3, 10), q, np.zeros_like(q))[0]
    return float(np.linalg.eigvalsh(M)[:, 0].min())
