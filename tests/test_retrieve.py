"""Physically consistent bodies from tables of coefficients: published, revealed, and broken ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError, InputErrors, SolverError, UsageError
from dynid.estimate import FeasibleFit
from dynid.factor import structural_base
from dynid.feasible import UNLIMITED
from dynid.kernel import inverse_dynamics
from dynid.papers import Coefficients, feasible_from_coefficients, read_coefficients
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.spatial import is_physical
from dynid.terms import RigidBody, Terms
from tests.command_line import Run
from tests.export.models import model_of, states
from tests.feasible.panda import ROBOT, Panda
from tests.robot_files import ROBOTS

RIGID = Terms((RigidBody(),))


def table(path: Path, formulas: list[str], values: np.ndarray, further: str = "") -> Path:
    lines = [f"formula,value{further and ',std'}"]
    lines += [f'"{f}",{v!r}{further}' for f, v in zip(formulas, values.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def panda_formulas(panda: Panda) -> list[str]:
    """The published formulas in this robot's names, with all digits."""
    return [
        " ".join(f"{row[j]:+.17g} {panda.columns[j].name}" for j in np.flatnonzero(row)) for row in panda.C
    ]


def test_the_panda_from_a_table(data_dir: Path, tmp_path: Path) -> None:
    panda = Panda(data_dir)
    robot = load_robot(ROBOT)
    read = read_coefficients(table(tmp_path / "c.csv", panda_formulas(panda), panda.y), robot)
    np.testing.assert_allclose(read.C, panda.C, atol=2e-5)  # rounded lengths are taken exactly
    found = feasible_from_coefficients(
        robot, read, fit=FeasibleFit(strength=0.1, total_mass=(16.0, 20.0), density=UNLIMITED)
    )
    assert found.cost <= 3.73e-4
    assert found.found.least_eigenvalue.min() >= 9e-7
    assert 16 - 1e-6 <= found.found.parameters[::10].sum() <= 20 + 1e-6
    corner = feasible_from_coefficients(
        robot, read, fit=FeasibleFit(strength="l-curve", total_mass=(16.0, 20.0))
    )
    assert corner.cost < 2e-3


def test_rounded_formulas_of_the_robot_are_taken_exactly(tmp_path: Path) -> None:
    robot = load_robot(ROBOT)
    base = structural_base(robot, RIGID, TorqueRows())
    truth = model_of(robot).inertia.ravel()
    path = table(tmp_path / "c.csv", list(base.formulas()), base.reduce(truth))
    read = read_coefficients(path, robot)
    np.testing.assert_array_equal(read.C, base.B)
    found = feasible_from_coefficients(robot, read, fit=FeasibleFit(strength=1e-6))
    motion = robot.tree_motion(*states(robot))
    wanted = inverse_dynamics(robot.tree, truth, *motion)
    theirs = inverse_dynamics(robot.tree, found.found.parameters, *motion)
    np.testing.assert_allclose(theirs, wanted, atol=1e-5 * np.abs(wanted).max())
    # A factor that is not the robot's own stays as it is written.
    (other,) = read_coefficients(table(tmp_path / "d.csv", ["m7 + 0.5mcx7"], np.ones(1)), robot).C
    assert other[[60, 61]].tolist() == [1.0, 0.5]


def test_deviations_weigh(tmp_path: Path) -> None:
    robot = load_robot(ROBOT)
    C = np.zeros((2, 70))
    C[:, 60] = 1.0
    for std, nearer in (([0.001, 1.0], 2.0), ([1.0, 0.001], 3.0)):
        given = Coefficients(("m7", "m7"), C, np.array([2.0, 3.0]), np.array(std))
        assert feasible_from_coefficients(robot, given).found.parameters[60] == pytest.approx(
            nearer, abs=1e-3
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "formula and value"),
        ("formula,value\n", "no coefficient"),
        ("formula,value\nm7 + x9,1\n", "x9"),
        ("formula,value\nm7 m6,1\n", "m6"),
        ("formula,value\nm7,one\n", "one"),
        ("formula,value\nm7,inf\n", "inf"),
        ("formula,value\n,1\n", "empty"),
        ("formula,value\nm7\n", "value"),
        ('formula,value\n"m7 + __import__(""os"")",1\n', "__import__"),
        ("formula,value,std\nm7,1,nan\n", "std"),
        ("formula,value\n" + "m7+" * 100_000 + ",1\n", "field"),
    ],
)
def test_broken_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises((InputError, InputErrors), match=message):
        read_coefficients(tmp_path / "c.csv", load_robot(ROBOT))


def test_every_wrong_line_is_reported(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("formula,value\nm7,1\nm9,1\nm7,x\n")
    with pytest.raises(InputErrors) as stopped:
        read_coefficients(tmp_path / "c.csv", load_robot(ROBOT))
    assert "c.csv:3" in str(stopped.value)
    assert "c.csv:4" in str(stopped.value)


def test_windows_in_conflict_and_wishes_that_need_a_log(tmp_path: Path) -> None:
    robot = load_robot(ROBOT)
    read = read_coefficients(table(tmp_path / "c.csv", ["m7"], np.ones(1)), robot)
    with pytest.raises(SolverError, match="total mass"):
        feasible_from_coefficients(robot, read, fit=FeasibleFit(1.0, total_mass=(20.0, 10.0)))
    with pytest.raises(UsageError, match="held-out"):
        feasible_from_coefficients(robot, read, fit=FeasibleFit(strength="held-out"))


def test_the_command(run: Run, tmp_path: Path) -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    base = structural_base(robot, RIGID, TorqueRows())
    truth = model_of(robot).inertia.ravel()
    path = table(tmp_path / "c.csv", list(base.formulas()), base.reduce(truth), ",0.001")
    config = tmp_path / "experiment.toml"
    config.write_text('[estimate]\nmethod = "feasible"\nprior = "entropic"\ntotal_mass = [5, 50]\n')
    out, to = tmp_path / "b.csv", tmp_path / "b.urdf"
    puma = ROBOTS / "puma560.toml"
    done = run("retrieve", puma, path, "-c", config, "--out", out, "--to", to)
    assert done.code == 0, done.err
    assert "sum of squared misfits" in done.out
    assert len(out.read_text().splitlines()) == 61
    assert all(is_physical(pi) for pi in load_robot(to).inertia_prior)
    assert run("retrieve", puma, path, "--out", out).code == 7
    assert run("retrieve", puma, path, "--to", tmp_path / "no" / "b.urdf").code == 0
    assert run("retrieve", puma, tmp_path / "none.csv").code == 3
    config.write_text('[estimate]\nmethod = "wls"\n')
    assert run("retrieve", puma, path, "-c", config).code == 2
    config.write_text('[estimate]\nmethod = "feasible"\ntotal_mass = [50, 40]\n')
    stopped = run("retrieve", puma, path, "-c", config)
    assert stopped.code == 5
    assert "total mass" in stopped.err
