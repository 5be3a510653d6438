"""Linkages: bars, rods, cylinders and tables keep their lengths, and their derivatives are those of the map."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import DynidError, Float, UnfitDataError, UsageError
from dynid.robot import (
    Drive,
    FourBar,
    Linkage,
    RobotModel,
    RodEntry,
    Table,
    load_robot,
    robot_from_dict,
    robot_to_dict,
    rods_of,
)

BARS = FourBar(1.1, 0.25, 1.08, 0.3, 1.5)
# Closes between 0.6 and 2.5 rad only, as a knee does.
KNEE = FourBar(0.21, 0.034, 0.212, 0.04, 3.05, at=-1.55)

LEG = """convention = "placements"
[[joint]]
name = "knee"
axis = [0.0, 1.0, 0.0]
lower = -1.0
upper = 1.5
inertial = { mass = 2.0, com = [0.0, 0.01, -0.15], inertia = { xx = 0.02, yy = 0.02, zz = 0.003 } }
[[joint]]
name = "pitch"
xyz = [0.0, 0.0, -0.3]
axis = [0.0, 1.0, 0.0]
lower = -0.7
upper = 0.5
[[joint]]
name = "roll"
xyz = [0.0, 0.0, -0.01]
axis = [1.0, 0.0, 0.0]
lower = -0.25
upper = 0.25
inertial = { mass = 1.0, com = [0.03, 0.0, -0.03], inertia = { xx = 0.001, yy = 0.004, zz = 0.004 } }
"""
RODS = """
[[drive.rod]]
motor = "pitch"
crank = { link = "knee_link", xyz = [-0.01, 0.03, -0.09], axis = [0.0, 1.0, 0.0], arm = [-0.04, 0.005, 0.003] }
end = { link = "roll_link", xyz = [-0.05, 0.03, 0.02] }
[[drive.rod]]
motor = "roll"
crank = { link = "knee_link", xyz = [-0.01, -0.03, -0.15], axis = [0.0, 1.0, 0.0], arm = [-0.04, -0.005, 0.003] }
end = { link = "roll_link", xyz = [-0.05, -0.03, 0.02] }
"""
CYLINDER = """
[[drive.rod]]
motor = "knee"
anchor = { link = "base", xyz = [0.2, 0.0, 0.05] }
end = { link = "knee_link", xyz = [0.05, 0.01, -0.1] }
"""


def robot_of(text: str, folder: Path) -> RobotModel:
    """Robot of a file's text."""
    (folder / "leg.toml").write_text(text)
    return load_robot(folder / "leg.toml")


def _ankle() -> Linkage:
    # In the module, since parameters of tests need it.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        linkage = robot_of(LEG + RODS, Path(folder)).drive.linkages[1]
    assert linkage is not None
    return linkage


ANKLE = _ankle()
SWEEP = np.linspace(0.0, 1.0, 41)
LOOKUP = Table(
    tuple((-2.3 + 1.6 * SWEEP).tolist()), tuple(KNEE.closed((-2.3 + 1.6 * SWEEP)[:, None])[0][:, 0].tolist())
)


def positions(linkage: Linkage, low: float, high: float) -> Float:
    """Positions (200, k) at which a linkage closes."""
    return linkage.within_reach(np.random.default_rng(1).uniform(low, high, (200, linkage.size)))


KINDS = pytest.mark.parametrize(
    ("linkage", "low", "high"),
    [
        (BARS, -0.6, 0.6),
        (replace(BARS, crossed=True), -0.6, 0.6),
        (KNEE, -2.45, -0.65),
        (ANKLE, -0.25, 0.25),
        (LOOKUP, -2.25, -0.75),
    ],
)


@KINDS
def test_derivatives_are_those_of_the_map(linkage: Linkage, low: float, high: float) -> None:
    q, h = positions(linkage, low, high), 1e-5
    _, D, H = linkage.evaluate(q)
    for j, step in enumerate(h * np.eye(linkage.size)):
        ahead, behind = linkage.evaluate(q + step), linkage.evaluate(q - step)
        np.testing.assert_allclose(D[:, :, j], (ahead[0] - behind[0]) / (2 * h), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(H[:, :, :, j], (ahead[1] - behind[1]) / (2 * h), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(H, H.transpose(0, 1, 3, 2), atol=1e-12)


@KINDS
def test_the_inverse_leads_back(linkage: Linkage, low: float, high: float) -> None:
    q = positions(linkage, low, high)
    np.testing.assert_allclose(linkage.inverse(linkage.evaluate(q)[0]), q, atol=1e-10)


def test_a_parallelogram_keeps_angles() -> None:
    q = np.linspace(-1.0, 1.0, 41)[:, None]
    phi, first, second = FourBar(1.1, 0.25, 1.1, 0.25, 1.3).evaluate(q)
    np.testing.assert_allclose(phi, q, atol=1e-14)
    np.testing.assert_allclose(first, 1.0, atol=1e-12)
    np.testing.assert_allclose(second, 0.0, atol=1e-11)


@pytest.mark.parametrize("bars", [BARS, replace(BARS, crossed=True), KNEE])
def test_bars_keep_their_lengths(bars: FourBar) -> None:
    q = np.linspace(bars.at - 0.6, bars.at + 0.6, 31)
    a = bars.evaluate(q[:, None])[0][:, 0] - bars.at + float(bars.crank_angle(bars.reference)[0])
    b = q + bars.zero
    x = bars.ground + bars.rocker * np.cos(b) - bars.crank * np.cos(a)
    y = bars.rocker * np.sin(b) - bars.crank * np.sin(a)
    np.testing.assert_allclose(np.hypot(x, y), bars.coupler, rtol=1e-13)


def test_rods_keep_their_lengths(tmp_path: Path) -> None:
    import pinocchio

    robot = robot_of(LEG + RODS, tmp_path)
    q = np.random.default_rng(0).uniform(-0.25, 0.25, (20, 2))
    phi = ANKLE.evaluate(q)[0]
    assert np.abs(phi).max() > 0.1
    for (pitch, roll), cranks in zip(q, phi, strict=True):
        foot = pinocchio.SE3(_turn([0, 1, 0], pitch), np.array([0, 0, -0.3]))
        foot = foot * pinocchio.SE3(_turn([1, 0, 0], roll), np.array([0, 0, -0.01]))
        for a, sign, height in zip(cranks, (1.0, -1.0), (-0.09, -0.15), strict=True):
            tip = np.array([-0.01, 0.03 * sign, height]) + _turn([0, 1, 0], a) @ [-0.04, 0.005 * sign, 0.003]
            length = np.linalg.norm(foot.act(np.array([-0.05, 0.03 * sign, 0.02])) - tip)
            at_zero = np.array([-0.05, 0.03 * sign, -0.29]) - [-0.05, 0.035 * sign, height + 0.003]
            assert abs(length - np.linalg.norm(at_zero)) < 1e-12
    assert robot.drive.coupled
    assert robot.drive.moves.tolist() == [[True, False, False], [False, True, True], [False, True, True]]


def _turn(axis: list[int], angle: float) -> Float:
    import pinocchio

    return np.asarray(pinocchio.exp3(np.array(axis, dtype=float) * angle))


def test_a_cylinder_has_the_distance_of_its_points(tmp_path: Path) -> None:
    robot = robot_of(LEG + CYLINDER, tmp_path)
    q = np.linspace(-1.0, 1.5, 20)
    end = np.array([0.05 * np.cos(q) - 0.1 * np.sin(q), 0.01 + 0 * q, -0.05 * np.sin(q) - 0.1 * np.cos(q)])
    length = np.linalg.norm(end.T - [0.2, 0.0, 0.05], axis=1)
    whole = np.zeros((20, 3))
    whole[:, 0] = q
    np.testing.assert_allclose(robot.drive.motor_position(whole)[:, 0], length, atol=1e-14)
    assert robot.drive.sliding.tolist() == [True, False, False]


def test_linkages_come_back_from_plain_data(tmp_path: Path) -> None:
    robot = robot_of(LEG + RODS + CYLINDER, tmp_path)
    again = robot_from_dict(json.loads(json.dumps(robot_to_dict(robot))))
    assert again.drive.linkages == robot.drive.linkages
    assert again.drive.linkages[1] is again.drive.linkages[2]
    drive = Drive(np.eye(1), *np.full((3, 1), np.nan), linkages=(LOOKUP,))
    one_joint = replace(robot, drive=replace(robot.drive, linkages=(LOOKUP, None, None)))
    assert drive.linkages == (LOOKUP,)
    assert robot_from_dict(json.loads(json.dumps(robot_to_dict(one_joint)))).drive.linkages[0] == LOOKUP


def test_older_run_folders_have_bars_without_a_kind() -> None:
    from dynid.robot.serial import _linkages_from_list

    numbers = {"ground": 1.1, "crank": 0.25, "coupler": 1.08, "rocker": 0.3, "zero": 1.5, "crossed": False}
    assert _linkages_from_list([None, numbers]) == (None, BARS)


def test_what_does_not_close_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnfitDataError, match="does not close at q = -1"):
        BARS.evaluate(np.array([[0.0], [-1.0]]))
    with pytest.raises(UsageError, match="four lengths > 0"):
        FourBar(1.0, -0.2, 1.0, 0.2)
    with pytest.raises(UsageError, match="collinear"):
        FourBar(1.0, 0.2, 1.0, 0.2, zero=0.0)
    with pytest.raises(UsageError, match="only rise or only fall"):
        Table((0.0, 1.0, 2.0, 3.0), (0.0, 1.0, 0.5, 2.0))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('link = "roll_link"', 'link = "feet"', "unknown link 'feet'"),
        ('motor = "roll"', 'motor = "knee"', "one rod per joint"),
        ('motor = "roll"', 'motor = "ankle"', "unknown motor 'ankle'"),
        ("end = {", "length = 0.1\nend = {", "does not close"),
        ("upper = 0.5", "upper = 3.0", "does not close|without a lever"),
        ("lower = -0.7\n", "", "without limits"),
        ("crank = {", 'anchor = { link = "base", xyz = [0.0, 0.0, 0.0] }\ncrank = {', "crank and anchor"),
    ],
)
def test_rods_that_cannot_be_are_refused_with_their_line(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(DynidError, match=says) as caught:
        robot_of((LEG + RODS).replace(old, new), tmp_path)
    assert "leg.toml:" in str(caught.value)


def test_a_knee_closes_within_its_limits_only(tmp_path: Path) -> None:
    text = LEG.replace("lower = -1.0", "lower = -2.5").replace("upper = 1.5", "upper = -0.6")
    bars = "linkage = { ground = 0.21, crank = 0.034, coupler = 0.212, rocker = 0.04, zero = 3.05 }"
    robot = robot_of(text.replace("upper = -0.6", f"upper = -0.6\ndrive.{bars}"), tmp_path)
    assert robot.drive.linkages == (KNEE, None, None)
    with pytest.raises(DynidError, match="does not close"):
        robot_of(LEG.replace("upper = 1.5", f"upper = 1.5\ndrive.{bars}"), tmp_path)


def test_rods_of_python(tmp_path: Path) -> None:
    robot = robot_of(LEG, tmp_path)
    entry = RodEntry("knee", "base", (0.2, 0.0, 0.05), "knee_link", (0.05, 0.01, -0.1))
    assert rods_of(robot, [entry])[0] == robot_of(LEG + CYLINDER, tmp_path).drive.linkages[0]
