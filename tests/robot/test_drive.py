"""Drives: maps between motors and joints, linkages, couplings in robot files, and what is refused with evidence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynid.base import DynidError, InputError, UsageError
from dynid.lab import read_setup
from dynid.log import Channel, ChannelMap, read_log, write_log
from dynid.robot import Drive, Linkage, RobotModel, load_robot, robot_from_dict, robot_to_dict
from dynid.terms import JointDamping, Stiffness
from tests.robot.test_linkages import ANKLE, BARS
from tests.robot_files import ROBOTS

N = np.array([[5.0, 0, 0], [0, -8.0, 0], [0, 4.0, 9.0]])
NAN = np.full(3, np.nan)
FILE = ROBOTS / "painting_arm.toml"
THREE = (
    'convention = "placements"\n[[joint]]\nname = "a"\ndrive.gear_ratio = 5\nlower = -0.6\nupper = 0.6\n'
    '[[joint]]\nname = "b"\ndrive.gear_ratio = -8\nlower = -0.6\nupper = 0.6\n'
    '[[joint]]\nname = "c"\ndrive.gear_ratio = 9\n'
)
LINKAGE = "drive.linkage = { ground = 1.1, crank = 0.25, coupler = 1.08, rocker = 0.3, zero = 1.5 }\n"


def read(text: str, tmp_path: Path) -> RobotModel:
    (tmp_path / "robot.toml").write_text(text)
    return load_robot(tmp_path / "robot.toml")


@pytest.mark.parametrize("linkages", [(), (None, BARS, None), (None, ANKLE, ANKLE)])
def test_maps_there_and_back(linkages: tuple[Linkage | None, ...]) -> None:
    drive = Drive(N, NAN, NAN, NAN, linkages=linkages)
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = 0.5 * rng.uniform(-1, 1, (4, 40, 3))
    theta, dtheta, ddtheta = drive.motor_motion(q, dq, ddq)
    actuators, rates = np.linalg.solve(N, theta.T).T, np.linalg.solve(N, dtheta.T).T
    back = drive.through_linkages(actuators, rates)
    np.testing.assert_allclose(back[0], q, atol=1e-12)
    np.testing.assert_allclose(back[1], dq, atol=1e-12)
    np.testing.assert_allclose(drive.motor_torque(q, drive.joint_torque(q, tau)), tau, atol=1e-13)
    power = (drive.joint_torque(q, tau) * dq).sum(axis=1)
    np.testing.assert_allclose(power, (tau * dtheta).sum(axis=1), atol=1e-13)
    h = 1e-4
    after, before = (drive.motor_position(q + s * h * dq + 0.5 * h**2 * ddq) for s in (1, -1))
    np.testing.assert_allclose((after - before) / (2 * h), dtheta, atol=1e-6)
    np.testing.assert_allclose((after - 2 * theta + before) / h**2, ddtheta, atol=1e-5)
    J = drive.jacobian(q)
    np.testing.assert_allclose(
        np.einsum("tmn,tn->tm", np.broadcast_to(J, (40, 3, 3)), dq), dtheta, atol=1e-13
    )
    assert drive.coupled


@pytest.mark.parametrize(
    ("matrix", "evidence"),
    [
        (np.diag([5.0, 0.0, 9.0]), "motor 2 moves nothing"),
        (
            np.array([[5.0, 0, 0], [0, 100, 100], [0, 200, 200]]),
            r"theta_2 \S*theta_3 = 0|theta_2 .* theta_3 = 0",
        ),
        (np.array([[5.0, 0, 0], [0, 1e9, 1e9], [0, 1e9, 1e9 + 1e-3]]), "theta_3 = 0"),
        (np.diag([5.0, np.inf, 9.0]), "not finite"),
    ],
)
def test_a_singular_transmission_names_the_motors(matrix: np.ndarray, evidence: str) -> None:
    with pytest.raises(InputError, match=evidence) as caught:
        Drive(matrix, NAN, NAN, NAN)
    assert caught.value.identifier == "singular-transmission"


def test_couplings_fill_the_matrix(tmp_path: Path) -> None:
    robot = load_robot(FILE)
    wanted = np.diag([125.0, 150, 150, 80, 80, 60])
    wanted[2, 1], wanted[4, 3] = 150.0, 80.0
    np.testing.assert_array_equal(robot.drive.transmission, wanted)
    text = THREE + '[[drive.coupling]]\nmotor = "c"\njoint = "b"\nfactor = -1.0\n'
    assert read(text, tmp_path).drive.transmission.tolist() == [[5, 0, 0], [0, -8, 0], [0, -9, 9]]


def test_a_linkage_in_a_file_and_in_a_run_folder(tmp_path: Path) -> None:
    robot = read(THREE.replace("drive.gear_ratio = -8\n", "drive.gear_ratio = -8\n" + LINKAGE), tmp_path)
    assert robot.drive.linkages == (None, BARS, None)
    again = robot_from_dict(robot_to_dict(robot))
    assert again.drive.linkages == robot.drive.linkages
    plain = robot_to_dict(read(THREE, tmp_path))
    assert robot_from_dict(plain).drive.linkages == ()


@pytest.mark.parametrize(
    ("text", "identifier", "says"),
    [
        (THREE.replace("= 5\n", f"= {1 / 125}\n"), "gear-ratio-side", "125 times as fast .* write 125"),
        (THREE.replace("= 9\n", "= 9\n" + LINKAGE), "linkage-limits", "'c'"),
        (
            THREE.replace("= 5\n", "= 5\n" + LINKAGE).replace("-0.6", "-1.5"),
            "linkage-apart",
            "does not close",
        ),
        (THREE + '[[drive.coupling]]\nmotor = "c"\njoint = "x"\n', "unknown-joint", "'x'"),
        (
            THREE + '[[drive.coupling]]\nmotor = "c"\njoint = "c"\n',
            "self-coupling",
            "motor 'c' coupled with its own joint",
        ),
        (
            THREE
            + '[[drive.coupling]]\nmotor = "c"\njoint = "b"\n[[drive.coupling]]\nmotor = "b"\njoint = "c"\n',
            "singular-transmission",
            "theta_2",
        ),
        (THREE + '[[joint]]\nname = "d"\nfollows = { x = 1.0 }\n', "follows", "follows 'x'"),
        (THREE + '[[joint]]\nname = "d"\nfollows = {}\n', "follows", "follows nothing"),
        (
            THREE + '[[joint]]\nname = "d"\nfollows = { a = 1.0 }\nupper = 1.0\n',
            "not-here",
            "upper of joint 'd'",
        ),
        (
            THREE + '[[joint]]\nname = "d"\nfollows = { a = 1.0 }\ndrive.gear_ratio = 3\n',
            "driven-follower",
            "joint 'd'",
        ),
    ],
)
def test_nonsense_in_files_is_refused_with_its_line(
    text: str, identifier: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(DynidError, match=says) as caught:
        read(text, tmp_path)
    assert caught.value.identifier == identifier
    assert "robot.toml:" in str(caught.value)


def test_joints_that_follow_are_bodies(tmp_path: Path) -> None:
    text = (
        THREE + '[[joint]]\nname = "d"\nparent = "a"\nfollows = { b = 1.0, c = -0.5 }\nfollows_offset = 0.2\n'
    )
    robot = read('angle_unit = "rad"\n' + text, tmp_path)
    assert robot.joint_names == ("a", "b", "c")
    assert robot.tree_joint_names == ("a", "b", "c", "d")
    assert robot.projection[3].tolist() == [0, 1, -0.5]
    assert robot.projection_offset.tolist() == [0, 0, 0, 0.2]


@pytest.mark.parametrize("bars", [False, True])
def test_motor_side_logs_come_to_the_joints(bars: bool, tmp_path: Path) -> None:
    text = THREE.replace("drive.gear_ratio = -8\n", "drive.gear_ratio = -8\n" + (LINKAGE if bars else ""))
    robot = read(text + '[[drive.coupling]]\nmotor = "c"\njoint = "b"\n', tmp_path)
    rng = np.random.default_rng(0)
    q, dq, tau = 0.5 * rng.uniform(-1, 1, (3, 30, 3))
    theta, dtheta, _ = robot.drive.motor_motion(q, dq, dq)
    columns = {f"p{j}": theta[:, i] for i, j in enumerate("abc")}
    columns |= {f"v{j}": dtheta[:, i] for i, j in enumerate("abc")}
    columns |= {f"e{j}": tau[:, i] for i, j in enumerate("abc")}
    path = write_log(tmp_path / "log.parquet", np.arange(30) * 0.01, columns)

    def group(prefix: str, unit: str) -> dict[str, Channel]:
        return {j: Channel(prefix + j, unit, 1.0) for j in "abc"}

    mapping = ChannelMap(
        Channel("t", "s", 1.0),
        group("p", "rad"),
        group("v", "rad/s"),
        group("e", "N m"),
        effort_side="motor",
        position_side="motor",
    )
    log = read_log(path, robot, mapping)
    chunk = log.read(log.trajectories[0])
    assert chunk.dq is not None
    assert chunk.tau is not None
    np.testing.assert_allclose(chunk.q, q, atol=1e-11)
    np.testing.assert_allclose(chunk.dq, dq, atol=1e-10)
    np.testing.assert_allclose(chunk.tau, robot.drive.joint_torque(q, tau), atol=1e-10)


def test_stiffness_and_damping_of_the_transmission(tmp_path: Path) -> None:
    text = THREE.replace(
        "drive.gear_ratio = 9\n", "drive = { gear_ratio = 9, stiffness = 2e4, damping = 3.0 }\n"
    )
    robot = read(text, tmp_path)
    np.testing.assert_array_equal(robot.drive.stiffness, [np.nan, np.nan, 2e4])
    np.testing.assert_array_equal(robot.drive.damping, [np.nan, np.nan, 3.0])
    plain = json.loads(json.dumps(robot_to_dict(robot)))
    np.testing.assert_array_equal(robot_from_dict(plain).drive.stiffness, robot.drive.stiffness)
    priors = {c.name: c.prior for c in (Stiffness() + JointDamping()).columns(robot)}
    assert (priors["K3"], priors["D3"]) == (2e4, 3.0)
    assert np.isnan([priors["K1"], priors["D2"]]).all()
    for wrong in ("stiffness = 0.0", "stiffness = -2e4", "damping = -1.0"):
        with pytest.raises(DynidError, match=wrong.split(" ")[0]):
            read(
                THREE.replace("drive.gear_ratio = 9\n", f"drive = {{ gear_ratio = 9, {wrong} }}\n"), tmp_path
            )
    with pytest.raises(DynidError, match="negative-stiffness"):
        Drive(np.eye(1), np.ones(1), np.ones(1), np.ones(1), stiffness=np.array([-1.0]))
    with pytest.raises(UsageError, match="no stiffness for a, b"):
        read_setup(robot, "pd")
