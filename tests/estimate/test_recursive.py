"""Recursive estimation: the batch solution at every time, forgetting that forgets the right things, clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError, UnfitDataError, UsageError
from dynid.estimate import Forgetting, RecursiveLeastSquares, TrajectoryRecorder
from dynid.fleet import Watcher, WatchSettings, watch_lines
from dynid.robot import RobotModel, load_robot
from dynid.rows import EnergyRows, Equations, MomentumRows
from dynid.terms import Offset, RigidBody, Viscous
from dynid.testing import random_robot, smooth_samples
from tests.command_line import Run

TERMS = RigidBody() + Viscous() + Offset()


def equations(rng: np.random.Generator, truth: np.ndarray, count: int, noise: float = 0.1) -> Equations:
    """Two groups: all columns, and all but the first."""
    b = len(truth)
    every, some = np.arange(b), np.arange(1, b)
    panels = []
    for columns in (every, some):
        X = rng.normal(0, 1, (len(columns), count))
        panels.append(np.vstack([X, truth[columns] @ X + noise * rng.normal(0, 1, count)]))
    return Equations((every, some), tuple(panels))


def test_recursive_is_batch() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 1, 6)
    start, variance, weights = rng.normal(0, 1, 6), 1e6, (1.0, 4.0)
    found = RecursiveLeastSquares(np.arange(6), start=start, variance=variance, weights=weights)
    information, right = np.eye(6) / variance, start / variance
    greatest = np.full(6, np.inf)
    for _ in range(30):
        part = equations(rng, truth, 7)
        found.update(part)
        for w, columns, panel in zip(weights, part.columns, part.panels, strict=True):
            X = np.zeros((6, 7))
            X[columns] = panel[:-1]
            information += w * X @ X.T
            right = right + w * X @ panel[-1]
        np.testing.assert_allclose(found.value, np.linalg.solve(information, right), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-6, atol=1e-12)
        eigenvalues = found.eigenvalues
        np.testing.assert_allclose(eigenvalues, 1 / np.linalg.eigvalsh(information), rtol=1e-6)
        assert (eigenvalues <= greatest * (1 + 1e-12)).all()
        greatest = eigenvalues


def test_weights_given_late_are_weights_given_first() -> None:
    rng = np.random.default_rng(8)
    truth = rng.normal(0, 1, 6)
    early = RecursiveLeastSquares(np.arange(6), variance=1e6, weights=(1.0, 9.0))
    late = RecursiveLeastSquares(np.arange(6), variance=1e6)
    parts = [equations(rng, truth, 7) for _ in range(10)]
    for part in parts:
        early.update(part)
        late.update(part)
    assert np.abs(early.value - late.value).max() > 1e-3
    late.reweigh((1.0, 9.0))
    np.testing.assert_allclose(late.root, early.root, rtol=1e-9, atol=1e-9)
    squares, counts = late.residuals
    for group in range(2):
        left = [
            part.panels[group][-1] - late.value[part.columns[group]] @ part.panels[group][:-1]
            for part in parts
        ]
        assert squares[group] == pytest.approx(float((np.concatenate(left) ** 2).sum()), rel=1e-9)
    np.testing.assert_array_equal(counts, [70, 70])


@pytest.mark.parametrize(
    "forgetting", [Forgetting(memory=20.0), Forgetting(reset=7.0), Forgetting(20.0, "excited")]
)
def test_the_noise_is_found_whatever_is_forgotten(forgetting: Forgetting) -> None:
    rng = np.random.default_rng(9)
    truth = rng.normal(0, 1, 6)
    found = RecursiveLeastSquares(np.arange(6), forgetting=forgetting)
    for _ in range(60):
        found.update(equations(rng, truth, 30, noise=0.1), 1.0)
    squares, counts = found.residuals
    np.testing.assert_allclose(squares / counts, 0.01, rtol=0.2)


def test_samples_one_by_one_are_the_textbook_recursion() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0, 1, 4)
    found = RecursiveLeastSquares(np.arange(4), variance=10.0)
    P, theta = 10.0 * np.eye(4), np.zeros(4)
    for _ in range(40):
        psi = rng.normal(0, 1, 4)
        y = psi @ truth + 0.1 * rng.normal()
        found.update(Equations((np.arange(4),), (np.append(psi, y)[:, None],)))
        gain = P @ psi / (1 + psi @ P @ psi)
        theta = theta + gain * (y - psi @ theta)
        P = P - np.outer(gain, psi @ P)
        np.testing.assert_allclose(found.value, theta, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.covariance, P, rtol=1e-8, atol=1e-12)


def test_memory_follows_a_change() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.normal(0, 1, (2, 5))
    forgetting = {"all": Forgetting(memory=5.0), "excited": Forgetting(memory=5.0, direction="excited")}
    for direction, choice in forgetting.items():
        found = RecursiveLeastSquares(np.arange(5), forgetting=choice)
        keeps = RecursiveLeastSquares(np.arange(5))
        for k in range(120):
            part = equations(rng, before if k < 60 else after, 10)
            found.update(part, 1.0)
            keeps.update(part, 1.0)
        assert np.abs(found.value - after).max() < 0.1, direction
        assert np.abs(keeps.value - after).max() > 0.2


def test_an_equation_counts_by_its_age() -> None:
    """exp(-age / memory), the start included: least squares with these weights."""
    rng = np.random.default_rng(5)
    memory, seconds, start = 3.0, 0.4, rng.normal(0, 1, 6)
    found = RecursiveLeastSquares(np.arange(6), forgetting=Forgetting(memory), start=start, variance=10.0)
    information, right = np.eye(6) / 10.0, start / 10.0
    for _ in range(20):
        part = equations(rng, rng.normal(0, 1, 6), 5)
        found.update(part, seconds)
        kept = np.exp(-seconds / memory)
        information, right = kept * information, kept * right
        for columns, panel in zip(part.columns, part.panels, strict=True):
            X = np.zeros((6, 5))
            X[columns] = panel[:-1]
            information, right = information + X @ X.T, right + X @ panel[-1]
    np.testing.assert_allclose(found.value, np.linalg.solve(information, right), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-8, atol=1e-12)


def test_forgetting_along_one_direction_takes_from_it_alone() -> None:
    """I - (1 - k) I v v' I / (v' I v) + news, v = u / diag I, as in the units in which all is known equally well."""
    rng = np.random.default_rng(6)
    memory, seconds = 2.0, 0.7
    found = RecursiveLeastSquares(np.arange(4), forgetting=Forgetting(memory, "excited"), variance=5.0)
    X = rng.normal(0, 1, (4, 30))
    every = np.arange(4)
    found.update(Equations((every,), (np.vstack([X, rng.normal(0, 1, 30)]),)))
    before = np.linalg.inv(found.covariance)
    u = rng.normal(0, 1, 4)
    news = np.outer(u, [1.0, 2.0, -1.0])
    found.update(Equations((every,), (np.vstack([news, np.zeros(3)]),)), seconds)
    kept = np.exp(-seconds / memory)
    v = u / np.diag(before)
    along = before @ v
    wanted = before - (1 - kept) * np.outer(along, along) / (v @ along) + news @ news.T
    np.testing.assert_allclose(np.linalg.inv(found.covariance), wanted, rtol=1e-8, atol=1e-8)


def test_only_excited_directions_are_forgotten() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(0, 1, 3)
    every, first = np.arange(3), np.arange(1)
    results = {}
    for direction in ("all", "excited"):
        found = RecursiveLeastSquares(every, forgetting=Forgetting(2.0, direction))
        X = rng.normal(0, 1, (3, 50))
        found.update(Equations((every,), (np.vstack([X, truth @ X]),)), 1.0)
        for _ in range(100):
            x = rng.normal(0, 1, (1, 10))
            found.update(Equations((first,), (np.vstack([x, truth[0] * x]),)), 1.0)
        results[direction] = found.eigenvalues
        np.testing.assert_allclose(found.value, truth, rtol=1e-4, atol=1e-4)
    assert results["all"][0] > 1e5  # what is not excited is lost
    assert results["excited"][0] < 1.0  # what is not excited is kept


def test_reset_keeps_values_and_opens_the_covariance() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(0, 1, 4)
    found = RecursiveLeastSquares(np.arange(4), variance=100.0, forgetting=Forgetting(reset=10.0))
    for _ in range(9):
        found.update(equations(rng, truth, 20), 1.0)
    value = found.value
    assert found.eigenvalues[0] < 0.1
    found.update(equations(rng, truth, 20), 1.0)
    np.testing.assert_allclose(found.eigenvalues, 100.0)
    assert np.abs(found.value - value).max() < 0.05


def test_bad_settings() -> None:
    for wrong in (
        lambda: Forgetting(memory=0.0),
        lambda: Forgetting(direction="some"),  # type: ignore[arg-type]  # wrong on purpose
        lambda: RecursiveLeastSquares(np.arange(3), variance=0.0),
        lambda: RecursiveLeastSquares(np.arange(1, 3)).update(
            Equations((np.arange(1),), (np.zeros((2, 4)),))
        ),
        lambda: TrajectoryRecorder(("a",)).trajectory,
    ):
        with pytest.raises(UsageError):
            wrong()


def streamed(robot: RobotModel, seconds: float = 12.0) -> tuple[np.ndarray, ...]:
    motion = smooth_samples(robot, round(seconds * 1000), seed=1)
    theta = np.random.default_rng(0).normal(0, 1, len(TERMS.columns(robot)))
    return motion.t, motion.q, TERMS.torque(robot, motion, theta), motion.dq, theta


@pytest.mark.parametrize("rows", [MomentumRows(), EnergyRows()])
def test_a_stream_finds_the_base_parameters(rows: MomentumRows | EnergyRows) -> None:
    robot = random_robot(1, 3, 0.0)
    t, q, tau, dq, theta = streamed(robot)
    watcher = Watcher(robot, WatchSettings(TERMS, rows))
    for first in range(0, len(t), 37):
        part = slice(first, first + 37)
        watcher.feed(t[part], q[part], tau[part], dq[part])
    watcher.finish()
    track = watcher.trajectory
    beta = watcher.base.reduce(theta)
    assert np.abs(track.value[-1] - beta).max() < 5e-3 * np.abs(beta).max()
    assert (np.diff(track.eigenvalues, axis=0) <= 1e-9 * track.eigenvalues[:-1]).all()
    assert track.std[-1].max() < track.std[0].max()


@pytest.mark.parametrize("every", [1, 5])
def test_how_rows_arrive_does_not_matter(every: int) -> None:
    robot = random_robot(1, 2, 0.0)
    t, q, tau = (values[::every] for values in streamed(robot, 5.0)[:3])
    values = []
    for size in (1, 100, 257, len(t)):
        watcher = Watcher(robot, WatchSettings(TERMS))
        for first in range(0, len(t), size):
            part = slice(first, first + size)
            watcher.feed(t[part], q[part], tau[part])
        watcher.finish()
        values.append(watcher.estimate.value)
    for other in values[1:]:
        np.testing.assert_allclose(values[0], other, rtol=1e-6, atol=1e-9)


def test_a_gap_starts_the_filters_anew() -> None:
    robot = random_robot(1, 2, 0.0)
    t, q, tau, dq, theta = streamed(robot, 20.0)
    kept = (t < 8.0) | (t > 11.0)
    watcher = Watcher(robot, WatchSettings(TERMS))
    watcher.feed(t[kept], q[kept], tau[kept], dq[kept])
    watcher.finish()
    beta = watcher.base.reduce(theta)
    assert np.abs(watcher.estimate.value - beta).max() < 5e-3 * np.abs(beta).max()


def test_streams_that_are_refused() -> None:
    robot = random_robot(1, 2, 0.0)
    t, q, tau, dq, _ = streamed(robot, 1.0)
    watcher = Watcher(robot, WatchSettings(TERMS))
    watcher.feed(t[:100], q[:100], tau[:100], dq[:100])
    with pytest.raises(UnfitDataError, match=r"row 100.*does not rise"):
        watcher.feed(t[50:60], q[50:60], tau[50:60], dq[50:60])
    broken = np.array(tau[100:200])
    broken[3, 1] = np.nan
    with pytest.raises(UnfitDataError, match=r"row 103.*no torque"):
        watcher.feed(t[100:200], q[100:200], broken, dq[100:200])
    swapped = np.array(t[100:110])
    swapped[[4, 5]] = swapped[[5, 4]]
    with pytest.raises(UnfitDataError, match=r"row 105.*does not rise"):
        watcher.feed(swapped, q[100:110], tau[100:110])
    with pytest.raises(InputError, match="tau_joint2"):
        list(watch_lines(Watcher(robot), ["t,q_joint1,q_joint2,tau_joint1\n"]))
    header = "t,q_joint1,q_joint2,tau_joint1,tau_joint2\n"
    with pytest.raises(InputError, match=r"stream:2|:2|line 2"):
        list(watch_lines(Watcher(robot), [header, "0.0,1,2,x,4\n"]))
    with pytest.raises(InputError, match="5 numbers"):
        list(watch_lines(Watcher(robot), [header, "0.0,1,2\n"]))


def test_watch_on_the_command_line(run: Run, robot_file: Path, tmp_path: Path) -> None:
    robot = load_robot(robot_file)
    t, q, tau, _, _ = streamed(robot, 6.0)
    table = np.column_stack([t, q, tau])
    names = ["t", *(f"{kind}_{joint}" for kind in ("q", "tau") for joint in robot.joint_names)]
    log = tmp_path / "stream.csv"
    np.savetxt(log, table, delimiter=",", header=",".join(names), comments="", fmt="%.12g")
    found = run("watch", robot_file, log, "--wait", 0, "--every", 2, "--out", tmp_path / "track.csv")
    assert found.code == 0, found.err
    assert "base parameters within 5 %" in found.out
    assert (tmp_path / "track.csv").read_text().startswith('"t","value ')
    again = run("watch", robot_file, log, "--wait", 0, "--out", tmp_path / "track.csv")
    assert again.code == 7
    np.savetxt(log, table[::-1], delimiter=",", header=",".join(names), comments="", fmt="%.12g")
    wrong = run("watch", robot_file, log, "--wait", 0)
    assert wrong.code == 4
    assert "does not rise" in wrong.err
    assert run("watch", robot_file, tmp_path / "none.csv").code == 3
