"""Study of Gaz et al. 2019: a Panda's model revealed, and bodies that could have it."""

from __future__ import annotations

import numpy as np

from dynid.report.figures import row_of
from dynid_studies.outline import outline
from dynid_studies.panda import arm
from dynid_studies.panda_bodies import add_bodies
from dynid_studies.panda_friction import add_validation
from dynid_studies.panda_log import add_log
from dynid_studies.panda_reveal import add_coefficients
from dynid_studies.panda_torques import add_torques
from dynid_studies.panda_two_links import add_two_links
from dynid_studies.study import Dose, Paper, StudyPage

PAPER = Paper(
    name="gaz2019",
    title="The Franka Emika Panda: dynamic coefficients and feasible parameters",
    source="Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca 2019, IEEE Robot. Autom. Lett. 4(4)",
    summary="The controller's model revealed from its mass matrices and gravity torques, and bodies retrieved from the "
    "43 coefficients: by penalties and many starts, or by one convex program.",
)
PLACES = (
    ("Figure 1, with its table", "The arm", "drawn from the same modified DH parameters"),
    ("Figure 2", "none", "a diagram of the controller's signals, without a number"),
    ("1010 configurations, rank 43, condition number, misfit", "Reverse engineering", "section VI"),
    (
        "Table III of the supplement",
        "Reverse engineering; The real robot",
        "both of its columns of coefficients",
    ),
    ("Algorithm 1, its constraints", "Bodies from coefficients", "beside the convex program: cost, time"),
    ("Feasible parameters of the supplement", "Bodies from coefficients", "masses, condition (16) by link"),
    ("Example 2R of the supplement", "The example of two links", ""),
    ("Table I", "Table I, figures 3 to 5", "with the travel that follows"),
    ("Figures 3, 4, 5", "Table I, figures 3 to 5; The real robot", "simulated motion (31), and a real log"),
)
DH = (
    ("1", 0.0, "0", "d1 = 0.333", "q1"),
    ("2", 0.0, "−π/2", "0", "q2"),
    ("3", 0.0, "π/2", "d3 = 0.316", "q3"),
    ("4", 0.0825, "π/2", "0", "q4"),
    ("5", -0.0825, "−π/2", "d5 = 0.384", "q5"),
    ("6", 0.0, "π/2", "0", "q6"),
    ("7", 0.088, "π/2", "0", "q7"),
    ("8", 0.0, "0", "df = 0.107", "0"),
)


def study(dose: Dose, page: StudyPage) -> None:
    """Coefficients, bodies, friction and validation, two forms of the torque, and the real robot."""
    _arm(page)
    add_coefficients(page, dose.file("panda_gaz", "good_confs_1010.parquet"))
    best = add_bodies(page, dose)
    add_two_links(page)
    add_validation(page, best)
    add_torques(page, best)
    add_log(page, dose.file("panda_gaz", "data.parquet"), best)


def _arm(page: StudyPage) -> None:
    page.section("The arm, and where each table and figure stands")
    page.table("Tables and figures of the paper", ("in the paper", "section here", ""), PLACES)
    robot = arm()
    ready = np.array([0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4])
    poses = ((np.zeros(7), "all angles zero"), (ready, "ready to work"))
    page.figure(
        "figure1",
        "Figure 1 in kind: modified Denavit-Hartenberg frames from the side; axes across the page are points",
        row_of([outline(robot, q, tip=(0.0, 0.0, 0.107), aspect=0.82, title=name) for q, name in poses], 460),
    )
    page.table("Denavit-Hartenberg parameters, modified convention", ("i", "a, m", "α, rad", "d, m", "θ"), DH)
