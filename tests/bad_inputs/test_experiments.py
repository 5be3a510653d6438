"""The bad-input catalogue: mappings and experiment files, exit code 3 with the line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, InputError
from dynid.identification import Experiment, open_log
from dynid.robot import RobotModel
from tests.bad_inputs.clean_logs import MAPPING, Columns, caught, expect, write_parquet

TABLES = '{ j1 = "q_j1", j2 = "q_j2", j3 = "q_j3" }'


@dataclass(frozen=True)
class TextCase:
    """A change of the experiment file and what is said about it."""

    number: int
    name: str
    old: str
    new: str
    identifier: str
    says: tuple[str, ...]


TEXTS = (
    TextCase(
        47,
        "column",
        '"q_{joint}"',
        TABLES.replace('"q_j2"', '"q_j22"'),
        "missing-column",
        ("no column 'q_j22'", "did you mean 'q_j2'?"),
    ),
    TextCase(
        47,
        "joint",
        '"q_{joint}"',
        TABLES.replace("j2 =", "jj2 ="),
        "unknown-joint",
        ("x.toml:3", "'jj2'", "j1, j2, j3", "did you mean 'j2'?"),
    ),
    TextCase(
        47,
        "joint left out",
        '"dq_{joint}"',
        '{ j1 = "dq_j1" }',
        "missing-joint",
        ("x.toml:4", "j2, j3", "velocity"),
    ),
    TextCase(47, "sign", '"N m" }', '"N m", sign = { j4 = -1 } }', "unknown-joint", ("x.toml:5", "'j4'")),
    TextCase(53, "no unit", ', unit = "rad" }', " }", "missing-key", ("x.toml:3", "log.position.unit")),
    TextCase(
        53, "odd unit", '"rad" }', '"degrees" }', "unit", ("x.toml:3", "'degrees'", "rad, deg", "write 'deg'")
    ),
    TextCase(53, "unit of another kind", '"N m" }', '"rad" }', "unit", ("x.toml:5", "'rad'", "N m", "A")),
    TextCase(53, "current without a gain", '"N m" }', '"A" }', "drive-gain", ("j1, j2, j3", "drive_gain")),
    TextCase(
        61,
        "table",
        "[log]",
        "[prepair]\n[log]",
        "unknown-key",
        ("x.toml:1", "'prepair'", "did you mean 'prepare'?"),
    ),
    TextCase(
        61,
        "key",
        "[log]",
        "[prepare]\ncutof = 8.0\n[log]",
        "unknown-key",
        ("x.toml:2", "'prepare.cutof'", "did you mean 'cutoff'?"),
    ),
    TextCase(
        61,
        "key of the mapping",
        "velocity =",
        "velocities =",
        "unknown-key",
        ("x.toml:4", "log.velocities", "did you mean 'velocity'?"),
    ),
    TextCase(
        61,
        "key of a selection",
        "[log]",
        '[[data.train]]\ntrajektory = "a"\n[log]',
        "unknown-key",
        ("x.toml:2", "did you mean 'trajectory'?"),
    ),
    TextCase(
        61,
        "key of no table near",
        "[log]",
        "[data]\ntrain = [{ time = [0.0, 4.0] }]\n[log]",
        "unknown-key",
        ("x.toml:2", "'data.train.0.time'", "expected one of trajectory, window, part; remove it"),
    ),
    TextCase(
        62,
        "negative",
        "[log]",
        "[prepare]\ncutoff = -8\n[log]",
        "wrong-value",
        ("x.toml:2", "prepare.cutoff = -8", "a number from 0.001 to 50000 (Hz) or 'auto'"),
    ),
    TextCase(
        62,
        "text",
        "[log]",
        '[prepare]\norder = "four"\n[log]',
        "wrong-value",
        ("x.toml:2", "prepare.order = 'four'", "a whole number from 1 to 8"),
    ),
    TextCase(
        62,
        "range",
        "[log]",
        "[prepare]\norder = 9\n[log]",
        "wrong-value",
        ("x.toml:2", "a whole number from 1 to 8"),
    ),
    TextCase(
        62,
        "nan",
        "[log]",
        "[prepare]\nrest = nan\n[log]",
        "wrong-value",
        ("x.toml:2", "prepare.rest = nan", "a number from 0"),
    ),
    TextCase(
        62,
        "choice",
        "[log]",
        '[estimate]\nmethod = "magic"\n[log]',
        "unknown-method",
        ("x.toml:2", "'magic'", "ols, wls"),
    ),
    TextCase(
        62,
        "share",
        "[log]",
        "[data]\ntrain = [{ part = [0.0, 1.5] }]\n[log]",
        "wrong-value",
        ("x.toml:2", "1.5", "2 numbers from 0 to 1"),
    ),
    TextCase(
        62,
        "sign",
        '"N m" }',
        '"N m", sign = { j1 = 2 } }',
        "wrong-value",
        ("x.toml:5", "log.effort.sign.j1 = 2"),
    ),
    TextCase(62, "syntax", "[log]", "[log", "toml-syntax", ("x.toml:1",)),
    TextCase(62, "twice", "[log]", "[log]\nsort = true\nsort = false", "toml-syntax", ("x.toml:3",)),
    TextCase(
        62,
        "option of another method",
        "[log]",
        '[estimate]\nmethod = "ols"\nstrength = 1.0\n[log]',
        "unknown-option",
        ("x.toml:3", "estimate.strength", "'ols'"),
    ),
    TextCase(
        62,
        "either of two kinds",
        "[log]",
        '[estimate]\nmethod = "didim"\nkp = -1\n[log]',
        "wrong-value",
        ("x.toml:3", "estimate.kp = -1", "a number at least 0"),
    ),
    TextCase(
        62,
        "option of a term",
        "[log]",
        '[model]\nterms = [{ term = "coulomb", width = "x" }]\n[log]',
        "wrong-value",
        ("x.toml:2", "width = 'x' of 'coulomb'", "number"),
    ),
    TextCase(
        62,
        "no terms",
        "[log]",
        "[model]\nterms = []\n[log]",
        "wrong-value",
        ("x.toml:2", "model.terms = []", "at least one"),
    ),
    TextCase(
        62,
        "term",
        "[log]",
        '[model]\nterms = ["rigid_bodi"]\n[log]',
        "unknown-term",
        ("x.toml:2", "rigid_body"),
    ),
)


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: f"{case.number} {case.name}")
def test_experiment_files(case: TextCase, robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    log = write_parquet(tmp_path / "log.parquet", clean)
    if case.old not in MAPPING:
        raise AssertionError(case.old)
    (tmp_path / "x.toml").write_text(MAPPING.replace(case.old, case.new, 1))

    def work() -> None:
        experiment = Experiment.read(tmp_path / "x.toml")
        experiment.settings()
        opened = open_log(experiment, [log], robot, experiment.data.train, Diagnostics())
        opened.read(opened.trajectories[0])

    expect(caught(work), InputError, case.identifier, case.says)


def test_every_fault_of_a_file_is_listed(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[prepare]\ncutof = 8\norder = 0\n[estimate]\nfolds = 1\n")
    text = str(caught(lambda: Experiment.read(tmp_path / "x.toml")))
    assert [f"x.toml:{line}" in text for line in (2, 3, 5)] == [True] * 3


def test_the_clean_mapping_is_accepted(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    log = write_parquet(tmp_path / "log.parquet", clean)
    (tmp_path / "x.toml").write_text(MAPPING)
    opened = open_log(Experiment.read(tmp_path / "x.toml"), [log], robot, ["*"], Diagnostics())
    np.testing.assert_array_equal(opened.read(opened.trajectories[0]).q[:, 2], clean["q_j3"])
