"""Algorithm 1 as printed: its box, its rules, and its cost beside that of the convex program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputErrors, SolverError, UsageError
from dynid.estimate import FeasibleFit
from dynid.factor import structural_base
from dynid.feasible import UNLIMITED
from dynid.papers import (
    Annealing,
    Bodies,
    Box,
    Coefficients,
    Rule,
    default_box,
    feasible_by_penalty,
    feasible_from_coefficients,
    read_box,
)
from dynid.papers.annealing import _Task
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.spatial import is_physical
from dynid.terms import RigidBody, Terms
from tests.command_line import Run
from tests.export.models import model_of
from tests.robot_files import ROBOTS
from tests.test_retrieve import table

RIGID = Terms((RigidBody(),))
TWO = """
name = "two"
convention = "placements"
[[joint]]
name = "a"
type = "revolute"
inertial = { mass = 3.0, com = [0.1, 0.02, 0.1], inertia = { xx = 0.02, yy = 0.03, zz = 0.03 } }
[[joint]]
name = "b"
type = "revolute"
xyz = [0.3, 0.0, 0.1]
rpy = [0.0, 1.5707963267948966, 0.0]
inertial = { mass = 1.0, com = [0.05, 0.02, 0.1], inertia = { xx = 0.004, yy = 0.01, zz = 0.01 } }
"""
FEW = Annealing(runs=2, rounds=3, evaluations=60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "two.toml").write_text(TWO)
    return tmp_path / "two.toml"


def coefficients(path: Path, noise: float) -> Coefficients:
    """Base parameters of the description, twice with other errors, so that the best cost is not zero."""
    robot = load_robot(path)
    base = structural_base(robot, RIGID, TorqueRows())
    value = np.tile(base.reduce(model_of(robot).inertia.ravel()), 2)
    value = value + noise * np.random.default_rng(0).normal(size=len(value))
    return Coefficients(base.formulas() * 2, np.tile(base.B, (2, 1)), value, np.ones(len(value)))


def test_its_cost_is_the_convex_program_s_or_a_little_more(path: Path) -> None:
    robot, given = load_robot(path), coefficients(path, 0.05)
    fit = FeasibleFit(strength=1e-9, total_mass=(3.5, 5.0), density=UNLIMITED)
    least = feasible_from_coefficients(robot, given, fit=fit).cost
    found = feasible_by_penalty(robot, given, fit=fit, how=FEW)
    # Nothing costs less than the program's optimum; the print's own answer for a Panda costs 3.5 times as much.
    assert least * (1 - 1e-4) <= found.cost <= 3.5 * least
    assert all(is_physical(pi) for pi in found.found.parameters.reshape(-1, 10))
    assert 3.5 - 1e-6 <= found.found.parameters[::10].sum() <= 5.0 + 1e-6


def test_any_rule_holds_and_the_box_is_kept(path: Path) -> None:
    robot, given = load_robot(path), coefficients(path, 0.01)
    columns = RIGID.columns(robot)
    box = default_box(robot, columns, (0.0, 6.0))

    def light_or_heavy(bodies: Bodies) -> float:
        return float(max(0.4 - bodies.mass[1], bodies.mass[1] - 2.0))

    rule = Rule("light or heavy", light_or_heavy)
    found = feasible_by_penalty(robot, given, rules=[rule], box=box, how=FEW).found
    mass = found.parameters[::10]
    assert mass[1] <= 0.4 + 1e-6 or mass[1] >= 2.0 - 1e-6
    centre = found.parameters.reshape(-1, 10)[:, 1:4] / mass[:, None]
    bounds = box.lower.reshape(-1, 10)[:, 1:4], box.upper.reshape(-1, 10)[:, 1:4]
    assert ((centre >= bounds[0] - 1e-12) & (centre <= bounds[1] + 1e-12)).all()
    again = feasible_by_penalty(robot, given, rules=[rule], box=box, how=FEW).found
    np.testing.assert_array_equal(again.parameters, found.parameters)
    never = [Rule("light", lambda b: 1.0 - b.mass[0]), Rule("heavy", lambda b: b.mass[0] - 2.0)]
    with pytest.raises(SolverError, match=r"light by|heavy by"):
        feasible_by_penalty(
            robot, given, rules=never, box=box, how=Annealing(runs=1, rounds=2, evaluations=0)
        )


def test_gradients_of_cost_and_rules_are_those_of_differences(path: Path) -> None:
    robot, given = load_robot(path), coefficients(path, 0.0)
    columns = RIGID.columns(robot)
    box = default_box(robot, columns, (0.0, 6.0))
    rule = Rule("sum", lambda b: float(b.mass.sum() * b.centre[1, 2] - 1.0))
    task = _Task(given.C, given.value, columns, box, (rule,), (), FEW)
    p = task._p(np.random.default_rng(1).uniform(size=20))
    step = 1e-6 * task.width
    ahead, behind = (np.array([task.phi(p + s * d)[0] for d in np.diag(step)]) for s in (1, -1))
    np.testing.assert_allclose(task.phi(p)[1], (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)
    ahead, behind = (np.array([task.rules(p + s * d) for d in np.diag(step)]) for s in (1, -1))
    np.testing.assert_allclose(task._slopes(p), (ahead - behind).T / 2e-6, rtol=1e-4, atol=1e-5)


def test_boxes_from_files(path: Path, tmp_path: Path) -> None:
    robot = load_robot(path)
    columns = RIGID.columns(robot)
    default = default_box(robot, columns)
    assert default.upper[0] == pytest.approx(4.0)  # the description's total mass
    (tmp_path / "box.csv").write_text("name,least,most\nm2,0.5,1.5\nIczz1,0,0.2\n")
    box = read_box(tmp_path / "box.csv", default, columns)
    assert (box.lower[10], box.upper[10], box.upper[9]) == (0.5, 1.5, 0.2)
    (tmp_path / "box.csv").write_text("name,least,most\nm9,0,1\nm1,2,1\nm1,0,inf\n")
    with pytest.raises(InputErrors) as stopped:
        read_box(tmp_path / "box.csv", default, columns)
    assert all(f"box.csv:{line}" in str(stopped.value) for line in (2, 3, 4))
    with pytest.raises(UsageError, match="infinite or crossed"):
        Box(np.zeros(2), np.array([1.0, -1.0]))


def test_a_start_is_drawn_from_the_whole_box(path: Path) -> None:
    robot = load_robot(path)
    columns = RIGID.columns(robot)
    none = Annealing(runs=1, rounds=1, evaluations=0, seed=3)
    box = default_box(robot, columns, (0.0, 6.0))
    # Without an equation the first round has nothing to improve, so the end is the start.
    task = _Task(np.zeros((1, 20)), np.zeros(1), columns, box, (), (), none)
    ends = np.array([(task.run(k) - box.lower) / task.width for k in range(300)])[:, [0, 1, 11, 15]]
    assert np.abs(ends.mean(axis=0) - 0.5).max() < 0.06
    assert np.abs(ends.std(axis=0) - 12**-0.5).max() < 0.03


def test_the_command(run: Run, path: Path, tmp_path: Path) -> None:
    robot = load_robot(path)
    base = structural_base(robot, RIGID, TorqueRows())
    file = table(tmp_path / "c.csv", list(base.formulas()), base.reduce(model_of(robot).inertia.ravel()))
    (tmp_path / "my_rules.py").write_text(
        "from dynid.feasible import RULES\nRULES.register('light', lambda bodies: 0.5 - bodies.mass[1])\n"
    )
    plugin, out = tmp_path / "my_rules.py", tmp_path / "bodies.csv"
    method = ("--method", "penalty", "--runs", "1", "--total-mass", "1", "5")
    done = run("retrieve", path, file, *method, "--rule", "light", "--plugin", plugin, "--out", out)
    assert done.code == 0, done.err
    assert "best of 1 run" in done.out
    mass = {line.split(",")[0]: float(line.split(",")[2]) for line in out.read_text().splitlines()[1:]}
    assert mass["m2"] <= 0.5 + 1e-6
    unknown = run("retrieve", path, file, *method, "--rule", "heavy", "--plugin", plugin)
    assert unknown.code == 2
    assert "rule 'heavy'" in unknown.err
    assert run("retrieve", path, file, "--rule", "light", "--plugin", plugin).code == 2
    assert run("retrieve", ROBOTS / "puma560.toml", file, "--method", "guess").code == 2
