"""Going on from an earlier plan, free knots, chains of movej."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.excitation import Bounds, Format, MotionLimits, Task, design_motion, information_of
from dynid.excitation.design import drawn_knots, with_free_knots
from dynid.excitation.plan import coefficients_of
from dynid.excitation.settings import write_motion
from dynid.robot import load_example
from dynid.terms import RigidBody, Viscous
from dynid.trajectories import BasisTrajectory, FourierBasis, SmoothMoves, SplineBasis
from tests.command_line import Run, planned

ARM = files("dynid") / "data" / "arm7.toml"
ROBOT = load_example("arm7")
INFORMATION = information_of(ROBOT, RigidBody() + Viscous())
BOUNDS = Bounds(MotionLimits.of(ROBOT))
BASIS = FourierBasis(8.0, 2, 0.25, 1.5)
SPLINE = SplineBasis(8.0, 10)


@pytest.mark.parametrize("basis", [BASIS, SPLINE])
def test_a_motion_gives_its_coefficients_back(basis: FourierBasis | SplineBasis) -> None:
    X = np.random.default_rng(0).normal(0.0, 0.3, (basis.size, 7))
    np.testing.assert_allclose(coefficients_of(basis, BasisTrajectory(basis, X)), X, atol=1e-9)


def test_another_family_or_length_is_refused() -> None:
    motion = BasisTrajectory(BASIS, np.random.default_rng(0).normal(0.0, 0.3, (BASIS.size, 7)))
    for other in (SPLINE, FourierBasis(9.0, 2, 0.25, 1.5), FourierBasis(8.0, 1, 0.25, 1.5)):
        with pytest.raises(UsageError, match="same family"):
            coefficients_of(other, motion)


def test_a_search_goes_on_where_it_ended() -> None:
    task = Task(BASIS, INFORMATION, BOUNDS)
    one = design_motion(task, 1, 3, candidates=6)
    more = design_motion(task, 1, 3, candidates=6, first=np.asarray(one.trajectory.X))
    assert more.first == pytest.approx(one.value, rel=1e-9)
    assert more.value < one.value
    assert more.tightest.margin >= 0


def test_drawn_knots_leave_room_between_them() -> None:
    families = drawn_knots(SPLINE, 20, 3)
    assert families[0] == SPLINE
    assert drawn_knots(SPLINE, 20, 3) == families
    for one in families[1:]:
        steps = np.diff([0.0, *one.breaks, 8.0])
        assert len(steps) == 10
        assert steps.min() >= 0.4 * 0.8 - 1e-12
        assert steps.max() > 1.1 * steps.min()


def test_the_best_of_the_knots_is_kept() -> None:
    task = Task(SPLINE, INFORMATION, BOUNDS)
    chosen = with_free_knots(task, 2, seed=1)
    assert chosen.basis in drawn_knots(SPLINE, 2, 1)
    assert chosen.basis == with_free_knots(task, 2, seed=1).basis
    for wrong in (
        Task(BASIS, INFORMATION, BOUNDS),
        chosen if chosen.basis != SPLINE else Task(BASIS, INFORMATION, BOUNDS),
    ):
        with pytest.raises(UsageError, match="free-knots"):
            with_free_knots(wrong, 2)


def commands(text: str) -> list[tuple[list[float], float]]:
    lines = re.findall(r"movej\(\[([^\]]*)\], t=([0-9.e-]+)", text)
    return [([float(x) for x in pose.split(",")], float(seconds)) for pose, seconds in lines]


def test_straight_moves_are_a_movej_each(tmp_path: Path) -> None:
    poses = np.random.default_rng(0).normal(size=(4, 6))
    moves = SmoothMoves(poses, np.array([1.0, 0.0, 2.0]), np.full(3, 0.5), np.array([0.2, 0.0, 1.0]))
    text = write_motion(tmp_path, "abcdef", moves, Format.MOVEJ).read_text()
    found = commands(text)
    np.testing.assert_allclose([pose for pose, _ in found], poses[1:], atol=1e-9)
    np.testing.assert_allclose([seconds for _, seconds in found], [2.0, 1.0, 3.0])
    assert [float(x) for x in re.findall(r"sleep\(([0-9.]+)\)", text)] == [1.0, 0.2, 1.0]


def test_other_motions_go_through_way_points(tmp_path: Path) -> None:
    motion = BasisTrajectory(BASIS, np.random.default_rng(0).normal(0.0, 0.3, (BASIS.size, 6)))
    text = write_motion(tmp_path, "abcdef", motion, Format.MOVEJ).read_text()
    found = commands(text)
    t = np.cumsum([seconds for _, seconds in found])
    assert t[-1] == pytest.approx(8.0, abs=1e-6)
    np.testing.assert_allclose([pose for pose, _ in found], motion.motion(t)[0], atol=1e-6)
    assert text.count(", r=") == len(found) - 1
    with pytest.raises(UsageError, match="six joints"):
        write_motion(tmp_path, "abcdefg", BasisTrajectory(BASIS, np.zeros((BASIS.size, 7))), Format.MOVEJ)


def test_the_command_goes_on(tmp_path: Path, run: Run) -> None:
    short = {"motion.seconds": 8.0, "search.starts": 1, "search.iterations": 2, "search.workers": 1}
    fourier = short | {"motion.harmonics": 2, "motion.frequency": 0.25}
    assert run("excite", ARM, *planned(tmp_path, fourier), "--out", tmp_path / "one").code == 0
    first = (tmp_path / "one" / "motion.csv").read_text()
    # The folder holds its own plan file.
    done = run("excite", ARM, "--resume", tmp_path / "one", "--out", tmp_path / "two")
    assert done.code == 0, done.err
    done = run("excite", ARM, "--resume", tmp_path / "two")
    assert done.code == 0, done.err
    logdet = [json.loads((tmp_path / name / "plan.json").read_text())["logdet"] for name in ("one", "two")]
    assert logdet[1] > logdet[0]
    assert (tmp_path / "one" / "motion.csv").read_text() == first
    spline = short | {"motion.family": "spline", "motion.knots": [1.0, 2.0, 3.0, 4.0, 5.5, 6.0, 7.0]}
    done = run("excite", ARM, *planned(tmp_path, spline), "--out", tmp_path / "three")
    assert done.code == 0, done.err
    breaks = json.loads((tmp_path / "three" / "trajectory.json").read_text())["breaks"]
    assert breaks == [1, 2, 3, 4, 5.5, 6, 7]
    one = ("--resume", tmp_path / "one")
    for keys, more, code, words in (
        (fourier | {"motion.seconds": 9.0}, one, 2, "same family"),
        (fourier, ("--resume", tmp_path / "nothing"), 3, "no such file"),
        (fourier | {"motion.knots": [1.0, 2.0]}, (), 2, "motion.knots with family 'fourier'"),
        (fourier | {"motion.free_knots": 1}, (), 2, "motion.free_knots with family"),
        (spline | {"motion.free_knots": 1}, (), 2, "without motion.knots"),
        ({"motion.family": "sweep"}, one, 2, "--resume with family"),
        (fourier | {"output.formats": ["movej"]}, (), 2, "six joints"),
    ):
        done = run("excite", ARM, *planned(tmp_path, keys), *more, "--out", tmp_path / "none")
        assert (done.code, words in done.err) == (code, True), (words, done.err)
        assert not (tmp_path / "none").exists()
