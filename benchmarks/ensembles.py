"""Are ensembles as wide as reality? Standard deviation of their torque beside the model's error, on motion not used.

    python benchmarks/ensembles.py [--data FOLDER] [--only NAME] [--models 48] [--write docs/domain-randomisation.md]

Every log with a held-out motion is identified by the default command; its ensemble is drawn from the run alone, whose
width rests on left-out blocks of the training data; then both are held against the motion that the run never saw.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import markdown, note, on_real_logs, publish

import numpy as np

from benchmarks.real import opened
from dynid.base import Diagnostics, Float
from dynid.exporters import Ensemble, sample_parameters
from dynid.exporters.ensemble import Width, spread_on
from dynid.feasible import least_eigenvalues
from dynid.identification import identify, open_log
from dynid.log import Log
from dynid.run import Identification, validate


@dataclass(frozen=True)
class Case:
    """Files of a log's folder, or of tests/robots."""

    folder: str
    robot: str
    mapping: str


CASES = (
    Case("ur10e_innopolis", "ur10e_innopolis.toml", "ur10e_innopolis.experiment.toml"),
    Case("panda_gaz", "panda.toml", "panda_gaz_split.experiment.toml"),
    Case("kr300_rptu", "kr300_rptu.toml", "kr300_rptu.experiment.toml"),
    Case("airbot_play", "robot.urdf", "mapping.toml"),
    Case("airbot_play", "robot.urdf", "mapping_loaded.toml"),
    Case("tx40_lirmm", "robot.toml", "mapping.toml"),
    Case("krang_lwa3", "robot.toml", "mapping.toml"),
    Case("lwr4_flobaroid", "robot_gaz.urdf", "mapping.toml"),
    Case("lwr4_flobaroid", "robot.toml", "mapping.toml"),
)
LOW, HIGH = 0.8, 1.25
# Models by the covariance alone, for comparison.
FEW = 16
HEAD = (
    "log", "error there, %", "spread over error, by joint", "joints in 0.8 ... 1.25", "all joints together",
    "covariance alone, all joints", "physically consistent",
)  # fmt: skip


def row(case: Case, data: Path, models: int) -> Sequence[str]:
    """A line of the table."""
    experiment, robot = opened(case.folder, case.robot, case.mapping, data)
    diagnostics = Diagnostics()
    log = data / case.folder / "data.parquet"
    train, unseen = (
        open_log(experiment, [log], robot, part, diagnostics)
        for part in (experiment.data.train, experiment.data.validate_on)
    )
    run = identify(robot, train, experiment.settings(), diagnostics=diagnostics)
    return row_of(case, run, unseen, models)


def row_of(case: Case, run: Identification, unseen: Log, models: int) -> Sequence[str]:
    """The line of a run."""
    drawn = [
        spread_on(run, sample_parameters(run, count, feasible=True, width=width), unseen)
        for width, count in ((Width.ERROR, models), (Width.NOISE, FEW))
    ]
    real = min(least_eigenvalues(run.estimate.columns, theta).min() for theta in drawn[0].parameters) > 0
    ratio, error = by_joint(drawn[0])
    inside = (ratio >= LOW) & (ratio <= HIGH)
    scores = validate(run, unseen).scores
    size = np.asarray(scores.torque_rms)
    return (
        f"`{case.folder} {case.robot} {case.mapping}`",
        "/".join(f"{100 * share:.3g}" for share in error),
        "/".join(f"{value:.2f}" for value in ratio),
        f"{int(inside.sum())} of {len(inside)}",
        f"{together(drawn[0], size):.2f}",
        f"{together(drawn[1], size):.2f}",
        "all" if real else "NO",
    )


def by_joint(drawn: Ensemble) -> tuple[Float, Float]:
    """(n,) spread over error on the unseen motion, and the error over the torque."""
    assert drawn.unseen is not None
    return np.asarray(drawn.unseen.spread / drawn.unseen.error), np.asarray(drawn.unseen.error)


def together(drawn: Ensemble, size: Float) -> float:
    """Spread over error of all joints' torque together; size: (n,) r.m.s. torque."""
    assert drawn.unseen is not None
    return float(np.linalg.norm(drawn.unseen.spread * size) / np.linalg.norm(drawn.unseen.error * size))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases, prints the table, and writes it."""
    given = on_real_logs(__doc__, arguments, only="", models=48)
    lines = []
    for case in CASES:
        if given.only in case.folder and not (given.data / case.folder).is_dir():
            note(f"no folder '{given.data / case.folder}': set DYNID_DATA or give --data")
        elif given.only in case.folder:
            lines.append(row(case, given.data, given.models))
            note(*lines[-1])
    publish(markdown(HEAD, lines), "ensembles.py", given.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
