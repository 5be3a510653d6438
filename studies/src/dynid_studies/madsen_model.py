"""The model of Madsen et al. 2020: its arm, the parameters that appear, and what becomes of them when regrouped."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np

from dynid.base import Float
from dynid.factor import structural_base
from dynid.report.figures import row_of
from dynid.rows import TorqueRows
from dynid.signals import Samples
from dynid_studies.madsen_arm import BODIES, regrouped, robot
from dynid_studies.outline import outline
from dynid_studies.study import Result, StudyPage, at_least, at_most, reported, within

# Names in the order of the paper, and their places among the ten parameters of a link.
PLACE = {"XX": 4, "XY": 5, "XZ": 7, "YY": 6, "YZ": 8, "ZZ": 9, "mX": 1, "mY": 2, "mZ": 3, "m": 0}
ALPHA = (pi / 2, 0.0, 0.0, pi / 2, -pi / 2, 0.0)
TABLE_1 = (("0", "d1"), ("a2", "0"), ("a3", "0"), ("0", "d4"), ("0", "d5"), ("0", "d6"))
BASE_COLUMNS = ("XX", "XY", "XZ", "YZ", "ZZ", "mX", "mY")
# Table 3 as printed: R marks what regrouping changes.
TABLE_3 = (
    ("-", "-", "-", "-", "ZZR1", "-", "-"),
    ("XXR2", "XY2", "XZR2", "YZ2", "ZZR2", "mXR2", "mY2"),
    ("XXR3", "XY3", "XZ3", "YZ3", "ZZR3", "mXR3", "mY3"),
    ("XXR4", "XY4", "XZ4", "YZ4", "ZZR4", "mX4", "mYR4"),
    ("XXR5", "XY5", "XZ5", "YZ5", "ZZR5", "mX5", "mYR5"),
    ("XXR6", "XY6", "XZ6", "YZ6", "ZZ6", "mX6", "mY6"),
)
MOUNTINGS = (
    ("upright", (0.0, 0.0, -9.81), 49, 36),
    ("tilted", (2.0, 0.0, -9.6), 52, 38),
    ("weightless", (0.0, 0.0, 0.0), 47, 34),
)
DIAGRAMS = (
    ("Figure 1", "what is identified and validated with what", "the sections of this page, in that order"),
    ("Figure 2", "a motor on link i - 1 moves link i", "`RotorCompensation`: B ddtheta of equation 2, no more"),
    ("Figure 3", "frames of the arm", "drawn below from the description `ur5e`"),
    ("Figure 4", "photograph of the robot and its boxes", "a simulated arm; nobody else has theirs"),
    ("Figure 5", "encoders, filters, compensation, regressor, OLS, WLS", "`prepare`, the terms, `rows`, `estimate`"),
)  # fmt: skip
SLIPS = {
    "alpha": "Equation 9 prints alpha_i; the model is wrong by so much if it is taken at its word.",
    "a": "The print squares an angle where a length belongs: a misprint for a_(i-1)^2.",
    "order": "The print shows YY_i, mZ_i and m_i on the right; only their regrouped values make it exact.",
}
VIEWS = (("xz", "from the side"), ("yz", "from the front"))
POSE = (0.4, -1.2, 1.0, -0.8, 0.9, 0.5)


def add_model(page: StudyPage) -> None:
    """Tables 1 to 3, figures 1 to 5, and equation 9 with its slips."""
    page.section("The arm and its parameters (Tables 1 to 3, figures 1 to 5)")
    page.text(
        """The paper's robot is a UR5e whose data are confidential. Here the maker's model of that type is simulated,
        so that true torques and parameters are known. Figures and Tables 4 and 5 are comparable in kind; what follows
        from the kinematics alone must agree. Figures 1, 2, 4 and 5 are diagrams and a photograph without data."""
    )
    page.table("Figures without data", ("", "shows", "here"), DIAGRAMS)
    views = [outline(robot(), np.array(POSE), plane, aspect=1.08, title=title) for plane, title in VIEWS]
    page.figure("figure3", "Figure 3: frames of the arm, z along the axes of the joints", row_of(views, 330))
    _table_1(page)
    _table_2(page)
    _table_3(page)
    _equation_9(page)


def _table_1(page: StudyPage) -> None:
    a, alpha, d = _craig()
    # Printed row i holds what Craig's convention counts to row i + 1, which ends with the last joint.
    a, alpha = np.append(a[1:], 0.0), np.append(alpha[1:], 0.0)
    page.table(
        "Table 1",
        ("i", "a_i", "alpha_i", "d_i", "a_i, ours, m", "alpha_i, ours, rad", "d_i, ours, m"),
        [
            (str(i + 1), TABLE_1[i][0], _angle(ALPHA[i]), TABLE_1[i][1], a[i], _angle(alpha[i]), d[i])
            for i in range(6)
        ],
        4,
        name="table_1",
        note="Printed left, without numbers; ours right, from the description of the maker. Equation 3 needs a and "
        "alpha of the row before: the table follows one convention, the equations the other.",
    )
    worst = float(np.abs(alpha - ALPHA).max())
    page.results(
        "Kinematics", at_most("table_1", "angle of Table 1, greatest difference", worst, 1e-9, unit="rad")
    )


def _craig() -> tuple[Float, Float, Float]:
    # a, alpha, d of the frame before: rotation about x, then a step along x and the turned z.
    T = robot().T_parent_joint
    alpha = np.arctan2(T[:, 2, 1], T[:, 2, 2])
    along = -np.sin(alpha) * T[:, 1, 3] + np.cos(alpha) * T[:, 2, 3]
    return T[:, 0, 3], alpha, along


def _angle(value: float) -> str:
    names = {0.0: "0", 0.5: "π/2", -0.5: "−π/2"}
    return names.get(round(value / pi, 9) + 0.0, f"{value:.4g}")


def _table_2(page: StudyPage) -> None:
    counts, seen = [], np.zeros((6, 10), dtype=bool)
    for name, gravity, appearing, rank in MOUNTINGS:
        base = structural_base(replace(robot(), gravity=np.array(gravity)), BODIES, TorqueRows())
        appears = (base.B != 0).any(axis=0)
        if name == "upright":
            seen = appears.reshape(6, 10)[:, list(PLACE.values())]
        counts += [
            _exactly(f"appearing_{name}", f"{name}: parameters that appear", int(appears.sum()), appearing),
            _exactly(f"rank_{name}", f"{name}: base parameters", base.rank, rank),
        ]
    printed = np.ones((6, 10), dtype=bool)
    printed[0], printed[1, -2:] = np.arange(10) == 5, False
    marks = {(True, True): "both", (True, False): "printed", (False, True): "ours", (False, False): None}
    page.table(
        "Table 2: parameters that appear in the model, upright",
        ("i", *PLACE),
        [
            (str(i + 1), *(marks[bool(p), bool(s)] for p, s in zip(printed[i], seen[i], strict=True)))
            for i in range(6)
        ],
        name="table_2",
    )
    page.results(
        "Counts",
        *counts,
        within("table_2", "entries of Table 2 that differ", float((seen != printed).sum()), 0.0, 0.0),
    )


def _table_3(page: StudyPage) -> None:
    random = np.random.default_rng(0).normal(size=(6, 10))
    changed = np.abs(regrouped(random) - random) > 1e-9
    rows, differing = [], []
    for i, names in enumerate(TABLE_3):
        ours = [
            name if name == "-" else f"{key}{'R' if changed[i, PLACE[key]] else ''}{i + 1}"
            for key, name in zip(BASE_COLUMNS, names, strict=True)
        ]
        differing += [
            (name, computed) for name, computed in zip(names, ours, strict=True) if name != computed
        ]
        rows.append((str(i + 1), *(n if n == o else f"{n} → {o}" for n, o in zip(names, ours, strict=True))))
    page.table(
        "Table 3: the 36 base parameters, upright; printed → ours where they differ",
        ("i", *BASE_COLUMNS),
        rows,
        name="table_3",
        note="XZ3 is regrouped as well: equation 9 gives it -a3 (mZR4 + d4 mR4), with cos(0) = 1. Its R is missing "
        "in Tables 3 and 4; the cost of taking the name at its word stands below.",
    )
    page.results(
        "Names of Table 3",
        replace(
            within("table_3", "names of Table 3 that differ", float(len(differing)), 1.0, 0.0),
            explanation="XZ3 has to be XZR3: the offset d4 and the masses beyond joint 4 are regrouped into it.",
        ),
        _exactly(
            "table_3_names", "base parameters listed", sum(n != "-" for row in TABLE_3 for n in row), 36
        ),
    )


def _equation_9(page: StudyPage) -> None:
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, (300, 6))
    samples = Samples.from_motion(q, rng.normal(0, 2, q.shape), rng.normal(0, 5, q.shape))
    arm, true = robot(), robot().inertia_prior
    peak = float(np.abs(BODIES.torque(arm, samples, true.ravel())).max())

    def miss(other: Float) -> float:
        return float(np.abs(BODIES.torque(arm, samples, (other - true).ravel())).max())

    page.text(
        """Equation 9 mixes conventions. With Craig's, alpha_i stands for alpha_(i-1) throughout, alpha_(i-1)^2 for
        a_(i-1)^2, and right-hand sides are to be regrouped already, from the tip to the base. In this reading it is
        exact; each slip alone causes an error of several newton metres.

        Elsewhere: (3) lacks its superscripts; (19) is to minimise ||G^1/2 (y - W gamma)||^2; (20) weighs by 1/sigma^2,
        an entry a sample, and W has b_m + 2 N columns; (22) divides sample by sample and diverges where the torque
        crosses zero: Table 5 below shows both versions."""
    )
    slips = {"alpha": "alpha_i for alpha_(i-1)", "a": "alpha^2 for a^2", "order": "right sides not regrouped"}
    unnamed = regrouped(true)
    unnamed[2, PLACE["XZ"]] = true[2, PLACE["XZ"]]
    page.results(
        "Torque of regrouped parameters less that of the bodies, greatest of 300 poses",
        at_most("regrouping", "as it should read", miss(regrouped(true)), 1e-10, unit="N m"),
        *(
            at_least(
                f"slip_{slip}",
                description,
                miss(regrouped(true, slip)),
                1.0,
                unit="N m",
                explanation=SLIPS[slip],
            )
            for slip, description in slips.items()
        ),
        at_least("slip_xz3", "XZ3 without its R", miss(unnamed), 1.0, unit="N m"),
        reported("slip_peak", "for comparison: the greatest torque itself", peak, unit="N m"),
    )


def _exactly(name: str, description: str, ours: int, wanted: int) -> Result:
    return Result(name, description, float(ours), float(wanted), float(wanted), float(wanted))
