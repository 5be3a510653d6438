"""A real robot with two encoders: stiffness of the gears of a KUKA KR300 from its public log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import pi
from pathlib import Path
from typing import Any

import numpy as np

from dynid import identify
from dynid.base import Diagnostics
from dynid.identification import Experiment, open_log
from dynid.robot import load_example
from dynid_studies.study import Result, StudyPage, at_most, reported

COUNTERBALANCE = {
    "term": "gas_spring",
    "geometry": {"joint": "j2", "anchor": 0.8, "crank": 0.2, "angle": 1.6580627893946132},
    "rest_length": 0.6,
    "area": 1.6689710972195777e-3,
    "volume": 9.6e-4,
    "pressure": 1.62848966e7,
    "label": "counterbalance",
}
EXPERIMENT: dict[str, Any] = {
    "log": {
        "time": {"column": "t", "unit": "s"},
        "trajectory": "traj",
        "position": {
            "columns": {"j1": "qs1", "j2": "qs2", "j3": "qs3", "j4": "qm4", "j5": "qm5", "j6": "qm6"},
            "unit": "rad",
            "offset": {"j2": -pi / 2, "j3": pi / 2},
        },
        "motor_position": {"columns": {"j1": "qm1", "j2": "qm2", "j3": "qm3"}, "unit": "rad"},
        "effort": {"columns": "tau_m{number}", "unit": "N m", "side": "motor"},
    },
    "data": {"train": [{"trajectory": "*", "window": [1.8, 8.2]}]},
    "prepare": {"cutoff": 8.0},
    "model": {
        "rows": "elastic",
        "terms": [
            "rigid_body",
            "rotor_inertia",
            "viscous",
            {"term": "coulomb", "width": 0.01},
            "offset",
            COUNTERBALANCE,
            "stiffness",
            "link_viscous",
            {"term": "link_coulomb", "width": 0.01},
            "link_offset",
        ],
    },
    "estimate": {"method": "ridge", "strength": 1.0},
}
# Errors that held-out blocks have to stay below, by joint.
HELD_OUT = (0.075, 0.05, 0.04, 0.21, 0.05, 0.13)


def add_real(page: StudyPage, log: Path | None) -> None:
    """Write the section, or a note if the log is not available."""
    page.section("A real robot with two encoders: KUKA KR300")
    if log is None:
        page.text(
            """The public log of a KR300 with encoders on motors and links of axes 1 to 3 is not available. If
            `DYNID_DATA` names its folder, this section estimates the stiffness of its gears."""
        )
        return
    robot, diagnostics = load_example("kr300_rptu"), Diagnostics()
    experiment = Experiment.from_dict(EXPERIMENT)
    data = open_log(experiment, [log], robot, experiment.data.train, diagnostics)
    run = identify(robot, data, experiment.settings(), diagnostics=diagnostics)
    stiffness: Any = run.log_summary["stiffness"]
    page.text(
        """Three motions of 10 s; axes 1 to 3 have encoders on both sides of the gear, all six motors have theirs.
        Stiffness is estimated together with the links, friction on both sides and the counterbalance, and compared
        with the range that deflection and torque allow. Hysteresis of the gear makes this range wide where gravity
        does not load the joint."""
    )
    page.table(
        "Stiffness, MN m/rad",
        ("axis", "middle", "from", "to", "torque explained by deflection, %"),
        [
            (
                str(row["joint"]),
                row["value"] / 1e6,
                row["lower"] / 1e6,
                row["upper"] / 1e6,
                100 * row["explained"],
            )
            for row in stiffness
        ],
    )
    errors = run.validations[0].scores.relative
    page.results(
        "Stiffness and held-out blocks",
        *(replace(_stiffness(row), least=3.0, most=9.0) for row in stiffness),
        *(
            at_most(f"kr300_error_{name}", f"{name}: relative error of the torque", float(error), bound)
            for name, error, bound in zip(robot.joint_names, np.asarray(errors), HELD_OUT, strict=True)
        ),
    )


def _stiffness(row: Mapping[str, Any]) -> Result:
    joint = row["joint"]
    return reported(
        f"kr300_stiffness_{joint}", f"{joint}: stiffness", float(row["value"]) / 1e6, unit="MN m/rad"
    )
