"""dynid springs as a user runs it: a lever on a two-joint arm."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.log import canonical_columns, write_log
from dynid.robot import load_robot
from dynid.signals import Samples
from dynid.terms import RigidBody, Spring, Triangle
from tests.command_line import Run

TRUE = Triangle("elbow", anchor=0.3, crank=0.12, angle=0.9)
SPRING = '{ term = "spring", label = "LABEL", geometry = { joint = "elbow", anchor = 0.3, crank = 0.2, angle = 0.2 } }'
RATE = 100.0


@pytest.fixture(scope="module")
def spring_log(robot_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both joints in motion, with a spring over the elbow and one percent of noise."""
    robot = load_robot(robot_file)
    t = np.arange(0.0, 30.0, 1 / RATE)[:, None]
    w = 2 * np.pi * np.array([[0.13, 0.17], [0.37, 0.29]])
    q, dq, ddq = (np.zeros((len(t), 2)) for _ in range(3))
    for a, rate in zip((1.0, 0.3), w, strict=True):
        q += a * np.sin(rate * t)
        dq += a * rate * np.cos(rate * t)
        ddq -= a * rate**2 * np.sin(rate * t)
    terms = RigidBody() + Spring(TRUE)
    theta = np.concatenate([robot.inertia_prior.ravel(), [900.0, -130.0]])
    tau = terms.torque(robot, Samples.from_motion(q, dq, ddq, rate=RATE), theta)
    tau += 0.01 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    path = tmp_path_factory.mktemp("springs") / "log.parquet"
    return write_log(path, t[:, 0], canonical_columns(robot.joint_names, q, tau=tau))


def experiment(folder: Path, *labels: str) -> Path:
    """An experiment whose model holds springs of these labels as guessed."""
    springs = [SPRING.replace("LABEL", label) for label in labels]
    path = folder / "springs.experiment.toml"
    terms = ", ".join(['"rigid_body"', *springs])
    path.write_text(f"[model]\nterms = [{terms}]\n", encoding="utf-8")
    return path


def test_a_lever_is_found_and_reported_as_a_line_of_the_experiment(
    run: Run, robot_file: Path, spring_log: Path, tmp_path: Path
) -> None:
    config = experiment(tmp_path, "balancer")
    bounds = ("--bound", "crank=0.05:0.4", "--bound", "angle=-0.5:2")
    done = run("springs", robot_file, spring_log, "-c", config, *bounds, "--starts", 2)
    assert done.code == 0, done.err
    assert "torque error" in done.out
    geometry = tomllib.loads(done.out.splitlines()[-1])["geometry"]
    assert (geometry["joint"], geometry["anchor"]) == ("elbow", TRUE.anchor)
    rows = {
        line.split()[0]: line.split() for line in done.out.splitlines() if line.startswith(("crank", "angle"))
    }
    for name, true in (("crank", TRUE.crank), ("angle", TRUE.angle)):
        assert geometry[name] == pytest.approx(float(rows[name][1]), rel=1e-4)
        assert geometry[name] == pytest.approx(true, abs=0.1 * true)
        assert abs(geometry[name] - true) < 3 * float(rows[name][2])


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        ((), ("--bound", "crank=0.1:0.2"), "0 springs with a geometry"),
        (("one", "two"), ("--bound", "crank=0.1:0.2"), "--label one or two"),
        (("one",), ("--bound", "crank=wide"), "NAME=LOW:HIGH"),
        (("one",), ("--bound", "crank=0.1:0.2", "--bound", "crank=0.1:0.3"), "two bounds of crank"),
        (("one",), ("--bound", "length=0.1:0.2"), "one of anchor, crank, angle"),
        (("one",), ("--bound", "crank=0.1:inf"), "one of anchor, crank, angle"),
        (("one", "two"), ("--label", "three", "--bound", "crank=0.1:0.2"), "label 'three'"),
    ],
)
def test_what_cannot_be_sought_is_reported(
    run: Run,
    robot_file: Path,
    spring_log: Path,
    tmp_path: Path,
    labels: tuple[str, ...],
    options: tuple[str, ...],
    says: str,
) -> None:
    done = run("springs", robot_file, spring_log, "-c", experiment(tmp_path, *labels), *options)
    assert done.code == 2
    assert says in done.err
