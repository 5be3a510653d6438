"""Masses and inertias that were filled in for want of better are no description."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dynid import Result, simulate
from dynid.base import Diagnostics
from dynid.identification import identify
from dynid.kernel import inverse_dynamics
from dynid.log import Log
from dynid.robot import RobotModel, load_robot
from dynid.testing import Plant, Unmodelled, plant, record
from dynid.testing.plants import described_as

BALL, ROD = (0.02, 0.02, 0.02), (0.02, 0.02, 0.001)


def urdf(bodies: Sequence[tuple[float, tuple[float, float, float]] | None]) -> str:
    """A chain with a base, a link each of a mass and principal inertias; None = neither."""
    text = '<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    text += "</inertial></link>"
    for k, body in enumerate(bodies):
        inside, before = "", f"l{k - 1}" if k else "base"
        if body is not None:
            mass, (x, y, z) = body
            inside = (
                f'<inertial><origin xyz="0 0 {0.1 * k}"/><mass value="{mass}"/>'
                f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/></inertial>'
            )
        text += (
            f'<link name="l{k}">{inside}</link><joint name="j{k}" type="continuous"><axis xyz="0 1 0"/>'
            f'<parent link="{before}"/><child link="l{k}"/><origin xyz="0 0 0.3"/></joint>'
        )
    return f'<robot name="chain">{text}</robot>'


def mjcf(bodies: Sequence[tuple[float, tuple[float, float, float]]], shape: bool) -> str:
    """The same chain, inertias written down or those of balls."""
    text = ""
    for k, (mass, moments) in reversed(list(enumerate(bodies))):
        x, y, z = moments
        own = f'<inertial pos="0 0 0.1" mass="{mass}" diaginertia="{x} {y} {z}"/>'
        own = f'<geom size="0.05" mass="{mass}"/>' if shape else own
        text = f'<body name="l{k}" pos="0 0 0.3"><joint name="j{k}" axis="0 1 0"/>{own}{text}</body>'
    return f"<mujoco><worldbody>{text}</worldbody></mujoco>"


def read(text: str, path: Path) -> tuple[RobotModel, list[str]]:
    said = Diagnostics()
    path.write_text(text)
    robot = load_robot(path, diagnostics=said)
    return robot, [one.identifier for one in said if one.identifier != "limit-missing"]


@pytest.mark.parametrize(
    ("bodies", "known"),
    [
        ([(1.0, BALL)] * 4, [False] * 4),
        ([(1.0, BALL)] * 3 + [(0.4, ROD)], [False, False, False, True]),
        ([(1.0, BALL), (0.4, ROD), (1.0, BALL), (0.5, ROD), (1.0, BALL)], [False, True, False, True, False]),
        # Equal links that somebody drew, links that happen to be balls, too few, and less than half.
        ([(1.0, ROD)] * 4, [True] * 4),
        ([(1.0, BALL), (1.1, BALL), (1.2, BALL)], [True] * 3),
        ([(1.0, BALL)] * 2 + [(0.4, ROD)], [True] * 3),
        ([(1.0, BALL)] * 3 + [(0.1 + 0.1 * k, ROD) for k in range(4)], [True] * 7),
        # Frames with a trace of mass.
        ([(1e-3, (1e-6, 1e-6, 1e-6))] * 3 + [(0.4, ROD), (0.5, ROD)], [True] * 5),
    ],
)
def test_links_alike_in_every_direction_are_not_known(
    tmp_path: Path,
    bodies: list[tuple[float, tuple[float, float, float]]],
    known: list[bool],
) -> None:
    for text, path in ((urdf(bodies), tmp_path / "a.urdf"), (mjcf(bodies, False), tmp_path / "a.xml")):
        robot, said = read(text, path)
        assert np.isfinite(robot.inertia_prior).all(axis=1).tolist() == known
        assert said == ([] if all(known) else ["inertial-placeholder"])


@pytest.mark.parametrize("fixed", [(0.4, ROD), (1.0, BALL)])
def test_a_body_is_unknown_where_a_part_of_it_was_filled_in(
    tmp_path: Path, fixed: tuple[float, tuple[float, float, float]]
) -> None:
    """A tip that is fixed to the last link: known on a link that is not, or not known on one that is."""
    last = (0.5, ROD) if fixed[1] is BALL else (1.0, BALL)
    bodies = [(1.0, BALL)] * 3 + [last]
    mass, (x, y, z) = fixed
    tip = (
        f'<link name="tip"><inertial><mass value="{mass}"/><inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" '
        'iyz="0"/></inertial></link><joint name="fix" type="fixed"><parent link="l3"/><child link="tip"/></joint>'
    )
    inside = f'<body name="tip"><inertial pos="0 0 0" mass="{mass}" diaginertia="{x} {y} {z}"/></body>'
    texts = {
        "a.urdf": urdf(bodies).replace("</robot>", f"{tip}</robot>"),
        "a.xml": mjcf(bodies, False).replace("</body>", f"{inside}</body>", 1),
    }
    for name, text in texts.items():
        robot, said = read(text, tmp_path / name)
        assert robot.n == 4
        assert np.isnan(robot.inertia_prior).all()
        assert said == ["inertial-placeholder"]


def test_balls_that_were_drawn_are_known(tmp_path: Path) -> None:
    robot, said = read(mjcf([(1.0, BALL)] * 4, True), tmp_path / "a.xml")
    assert np.isfinite(robot.inertia_prior).all()
    assert said == []


def test_links_without_an_inertia_beside_them_are_named_by_themselves(tmp_path: Path) -> None:
    robot, said = read(urdf([(1.0, BALL)] * 3 + [None]), tmp_path / "a.urdf")
    assert np.isnan(robot.inertia_prior).all()
    assert sorted(said) == ["inertial-missing", "inertial-placeholder"]


def log_of(one: Plant, seed: int, seconds: float) -> Log:
    effects = Unmodelled(cable=0.01, torque_step=0.003)
    made = record(one, np.random.default_rng(seed), effects, seconds, machine=np.random.default_rng(9))
    return Log.from_arrays(one.described, made.t, made.q, made.tau, made.dq)


def test_a_log_is_not_doubted_for_masses_that_nobody_knows(tmp_path: Path) -> None:
    one = plant("z1", np.random.default_rng(2))
    described_as("z1", "placeholders", np.random.default_rng(0), tmp_path / "z1.urdf")
    said = Diagnostics()
    robot = load_robot(tmp_path / "z1.urdf", diagnostics=said)
    log, unseen = log_of(one, 3, 16.0), log_of(one, 4, 8.0)
    # With a log to validate on no blocks are held out.
    found = identify(robot, log, validation=unseen, threads=1, diagnostics=said)
    assert not said.doubts
    assert found.verdict.level in ("good", "usable")
    assert "inertial-placeholder" in {one.identifier for one in said.warnings}
    assert found.validations[0].scores.total_relative < 0.03
    # Fixed links that were filled in are no part of what is exported.
    q, dq, ddq = np.random.default_rng(4).uniform(-1.0, 1.0, (3, 20, robot.n))
    theta = found.estimate.parameters[: 10 * robot.n_bodies]
    wanted = inverse_dynamics(robot.tree, theta.reshape(-1, 10), q, dq, ddq)
    for target in (tmp_path / "exported.urdf", tmp_path / "exported.xml"):
        Result.of(found).export(target, source=tmp_path / "z1.urdf" if target.suffix == ".urdf" else None)
        again = Diagnostics()
        exported = load_robot(target, diagnostics=again)
        assert "inertial-placeholder" not in {one.identifier for one in again}
        torque = inverse_dynamics(exported.tree, exported.inertia_prior, q, dq, ddq)
        np.testing.assert_allclose(torque, wanted, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize("suffix", ["urdf", "xml"])
def test_fixed_parts_that_were_filled_in_are_no_part_of_an_export(tmp_path: Path, suffix: str) -> None:
    """However many they are: the exported file is read as it was meant."""
    number, count = 2, 4
    fixed = {
        "urdf": "".join(
            f'<link name="f{k}"><inertial><mass value="1"/><inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" '
            f'iyz="0"/></inertial></link><joint name="fix{k}" type="fixed"><parent link="l1"/><child link="f{k}"/>'
            '<origin xyz="0.1 0 0"/></joint>'
            for k in range(count)
        ),
        "xml": "".join(
            f'<body name="f{k}" pos="0.1 0 0"><inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/></body>'
            for k in range(count)
        ),
    }[suffix]
    path = tmp_path / f"filled.{suffix}"
    if suffix == "urdf":
        text = urdf([(1.0, BALL)] * number).replace("</robot>", f"{fixed}</robot>")
    else:
        text = mjcf([(1.0, BALL)] * number, False).replace("</body>", f"{fixed}</body>", 1)
    robot, _ = read(text, path)
    true, _ = read(urdf([(0.8 + 0.1 * k, ROD) for k in range(number)]), tmp_path / "true.urdf")
    log = simulate(true, seconds=15.0, seed=1)
    raw = log.read(log.trajectories[0])
    found = Result.of(identify(robot, Log.from_arrays(robot, raw.t, raw.q, raw.tau), threads=1))
    target = tmp_path / f"exported.{suffix}"
    found.export(target, source=path)
    exported, said = read(target.read_text(), target)
    assert said == []
    q, dq, ddq = np.random.default_rng(4).uniform(-1.0, 1.0, (3, 20, number))
    theta = found.estimate.parameters[: 10 * number].reshape(-1, 10)
    wanted = inverse_dynamics(robot.tree, theta, q, dq, ddq)
    torque = inverse_dynamics(exported.tree, exported.inertia_prior, q, dq, ddq)
    np.testing.assert_allclose(torque, wanted, atol=1e-8 * np.abs(wanted).max())
