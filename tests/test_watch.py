"""dynid watch: streams that grow, options, what is refused, the page over time, thinning without loss."""

from __future__ import annotations

import io
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.base import InputError, UnfitDataError, UsageError
from dynid.estimate import Forgetting, rows_alike_of
from dynid.fleet import Followed, StreamRows, Watcher, WatchSettings, precision_of, rtde, watch_lines
from dynid.fleet.page import trajectory_html
from dynid.fleet.stream import RowStream, Thinner
from dynid.fleet.watch import ResidualTrail
from dynid.robot import RobotModel, load_example, load_robot
from dynid.rows import ElasticRows, PowerRows, TorqueRows
from dynid.signals import Samples
from dynid.terms import Coulomb, Offset, RigidBody, Viscous
from dynid.testing import random_robot, smooth_samples
from dynid.trajectories import FourierTrajectory
from tests.command_line import Run

TERMS = RigidBody() + Viscous() + Coulomb(0.02) + Offset()


def table(robot: RobotModel, seconds: float = 6.0, noise: float = 0.01) -> np.ndarray:
    """Time, positions and torques, a row a millisecond."""
    motion = smooth_samples(robot, round(1000 * seconds), seed=1)
    theta = np.append(robot.inertia_prior.ravel(), np.repeat([0.5, 0.4, 0.1], robot.n))
    tau = TERMS.torque(robot, motion, theta)
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    return np.column_stack([motion.t, motion.q, tau])


def text_of(robot: RobotModel, rows: np.ndarray) -> str:
    names = ["t", *(f"{kind}_{joint}" for kind in ("q", "tau") for joint in robot.joint_names)]
    out = io.StringIO()
    np.savetxt(out, rows, delimiter=",", header=",".join(names), comments="", fmt="%.12g")
    return out.getvalue()


@pytest.fixture(scope="module")
def text(robot_file: Path) -> str:
    robot = load_robot(robot_file)
    return text_of(robot, table(robot))


def last_time(out: str) -> float:
    return float(re.findall(r"t = ([\d.]+) s:", out)[-1])


def test_standard_input(run: Run, robot_file: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    found = run("watch", robot_file, "-", "--every", 1)
    assert found.code == 0, found.err
    assert len(re.findall(r"^t = ", found.out, flags=re.MULTILINE)) >= 5
    assert last_time(found.out) == pytest.approx(6.0, abs=0.02)


def test_a_file_that_grows_is_followed(run: Run, robot_file: Path, text: str, tmp_path: Path) -> None:
    lines = text.splitlines(keepends=True)
    log = tmp_path / "growing.csv"
    log.write_text("".join(lines[:1500]) + lines[1500][:7])

    def grow() -> None:
        rest = lines[1500][7:] + "".join(lines[1501:])
        for first in range(0, len(rest), 60_000):
            time.sleep(0.1)
            with log.open("a", encoding="utf-8") as file:
                file.write(rest[first : first + 60_000])

    writer = threading.Thread(target=grow)
    writer.start()
    found = run("watch", robot_file, log, "--every", 1, "--wait", 1.5)
    writer.join()
    assert found.code == 0, found.err
    assert last_time(found.out) == pytest.approx(6.0, abs=0.02)


def test_files_that_are_no_text_are_refused(run: Run, robot_file: Path, text: str, tmp_path: Path) -> None:
    for head in (b"", text[:4000].encode()):
        log = tmp_path / "log.csv"
        log.write_bytes(head + b"\x89MCAP\xff\xfe\n" * 50)
        found = run("watch", robot_file, log, "--wait", 0)
        assert found.code == 3
        assert "log.csv: found bytes that are not UTF-8 text" in found.err
        assert "dynid identify" in found.err


def test_rows_that_come_twice_are_refused_by_their_number(
    run: Run, robot_file: Path, text: str, tmp_path: Path
) -> None:
    lines = text.splitlines(keepends=True)
    log = tmp_path / "twice.csv"
    log.write_text("".join([*lines[:2001], lines[2000], *lines[2001:]]))
    found = run("watch", robot_file, log, "--wait", 0)
    assert found.code == 4
    assert "row 2000" in found.err
    assert "does not rise" in found.err
    lines[3001] = re.sub(r"[^,]*\n", "\n", lines[3001])  # the last torque of this row is empty
    log.write_text("".join(lines))
    found = run("watch", robot_file, log, "--wait", 0)
    assert found.code == 4
    assert "row 3000" in found.err
    assert "no torque" in found.err


def test_the_page_over_time(run: Run, robot_file: Path, text: str, tmp_path: Path) -> None:
    log = tmp_path / "stream.csv"
    log.write_text(text)
    found = run("watch", robot_file, log, "--wait", 0, "--reset", 3, "--out", tmp_path / "track.csv")
    assert found.code == 0, found.err
    assert "track.html" in found.out
    page = (tmp_path / "track.html").read_text(encoding="utf-8")
    for heading in ("Parameters over time", "Eigenvalues of P", "Values at the end", "Links", "Joints"):
        assert heading in page
    assert "Recursive least squares" in page
    track = np.genfromtxt(tmp_path / "track.csv", delimiter=",", names=True)
    greatest = track["eigenvalue_greatest"]
    # The covariance starts anew every 3 s of motion, and falls in between.
    assert (np.diff(greatest) > 0).sum() >= 1
    (tmp_path / "track.csv").unlink()
    assert run("watch", robot_file, log, "--wait", 0, "--out", tmp_path / "track.csv").code == 7
    assert run("watch", robot_file, log, "--wait", 0, "--out", tmp_path / "new.html").code == 2


def test_figures_hold_every_parameter_and_eigenvalue(robot_file: Path) -> None:
    robot = load_robot(robot_file)
    watcher = Watcher(robot, WatchSettings(TERMS))
    rows = table(robot)
    watcher.feed(rows[:, 0], rows[:, 1:3], rows[:, 3:])
    watcher.finish()
    columns = TERMS.columns(robot)
    page = trajectory_html(
        Followed(robot, columns, watcher.base, watcher.trajectory, "method", watcher.seconds)
    )
    embedded = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, flags=re.DOTALL)
    assert embedded is not None
    figures = list(json.loads(embedded[1])["figures"].values())
    names = {trace["name"] for figure in figures for trace in figure["data"] if trace.get("name")}
    leading = {columns[k].name for k in watcher.base.independent}
    assert leading <= names
    assert {"greatest", "least"} <= names
    b = len(watcher.names)
    assert len(figures[-1]["data"]) == b
    bands = [t for figure in figures[:-1] for t in figure["data"] if t.get("fill") == "tonexty"]
    assert len(bands) == b


def test_rows_that_need_accelerations_are_refused(
    run: Run, robot_file: Path, text: str, tmp_path: Path
) -> None:
    for rows in (TorqueRows(), PowerRows(), ElasticRows()):
        with pytest.raises(UsageError, match=r"watch-rows.*momentum"):
            WatchSettings(rows=rows)
    config, log = tmp_path / "torque.toml", tmp_path / "s.csv"
    config.write_text('[model]\nrows = "torque"\n')
    log.write_text(text)
    found = run("watch", robot_file, log, "--config", config, "--wait", 0)
    assert found.code == 2
    assert "watch-rows" in found.err


def test_thinned_rows_keep_the_integral_of_torque() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(400) / 1000.0
    tau, q = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    for every in (2, 3, 7):
        thinner, kept = Thinner(every, 2), StreamRows.none(2)
        for first in range(0, 400, 31):
            part = slice(first, first + 31)
            kept = kept.then(thinner.take(StreamRows(t[part], q[part], tau[part])))
        assert np.ptp(np.diff(kept.t)) < 1e-12
        index = np.round(kept.t * 1000).astype(int)
        np.testing.assert_array_equal(kept.q, q[index])
        # Half a step beyond both ends is what the first and last mean reach over.
        weight = np.convolve(np.ones(len(index)), [1.0])
        spread = np.zeros(400)
        for i, w in zip(index, weight, strict=True):
            spread[i - every + 1 : i + every] += w * (1 - np.abs(np.arange(1 - every, every)) / every)
        np.testing.assert_allclose(spread[index[0] : index[-1] + 1], 1.0, atol=1e-12)
        np.testing.assert_allclose(kept.tau.sum(axis=0) * every, spread @ tau, atol=1e-9)


def test_thinning_hardly_costs_accuracy() -> None:
    """White torque noise of 5 %: the estimate from every second row is as good as that from all."""
    robot = random_robot(1, 2, 0.0)
    rows = table(robot, 20.0, noise=0.05)
    errors = []
    for every in (1, 2):
        watcher = Watcher(robot, WatchSettings(TERMS))
        watcher._every = lambda step, every=every: every  # type: ignore[method-assign, misc]  # in place of the clock
        watcher.feed(rows[:, 0], rows[:, 1:3], rows[:, 3:])
        watcher.finish()
        theta = np.append(robot.inertia_prior.ravel(), np.repeat([0.5, 0.4, 0.1], 2))
        errors.append(float(np.sqrt(np.mean((watcher.estimate.value - watcher.base.reduce(theta)) ** 2))))
    assert errors[1] < 1.2 * errors[0]


def test_intervals_know_of_the_rows_filter() -> None:
    """Over many runs errors are as large as the standard deviations say, although rows are filtered."""
    robot = random_robot(1, 2, 0.0)
    theta = np.append(robot.inertia_prior.ravel(), np.repeat([0.5, 0.4, 0.1], 2))
    motion = smooth_samples(robot, 12_000, seed=1)
    clean = TERMS.torque(robot, motion, theta)
    ratios = []
    for seed in range(5):
        tau = clean + 0.02 * clean.std(axis=0) * np.random.default_rng(seed).normal(size=clean.shape)
        watcher = Watcher(robot, WatchSettings(TERMS))
        watcher.feed(motion.t, motion.q, tau, motion.dq)
        watcher.finish()
        track = watcher.trajectory
        ratios.append((track.value[-1] - watcher.base.reduce(theta)) / track.std[-1])
    size = float(np.sqrt(np.mean(np.square(ratios))))
    assert 0.5 < size < 1.6
    assert watcher.white > 20  # as many equations in a row say the same
    assert watcher.correlated == ()


def test_intervals_know_of_noise_that_stays_alike_for_long() -> None:
    """Slow motion among noise with a memory of half a second: errors are as large as the deviations say."""
    robot = random_robot(1, 2, 0.0)
    theta = np.append(robot.inertia_prior.ravel(), np.repeat([0.5, 0.4, 0.1], 2))
    sine, cosine = np.random.default_rng(1).normal(0.0, 0.8, (2, 2, 4))
    motion = FourierTrajectory(np.zeros(2), sine, cosine, 0.04, 40.0, 2.0)
    t = np.arange(0.0, 40.0, 0.004)
    q, dq, ddq = motion.motion(t)
    clean = TERMS.torque(robot, Samples.from_motion(q, dq, ddq), theta)
    kept = np.exp(-0.004 / 0.5)
    ratios, white = [], []
    for seed in range(3):
        drawn = np.random.default_rng(seed).normal(size=clean.shape)
        noise = lfilter([np.sqrt(1.0 - kept**2)], [1.0, -kept], drawn, axis=0)
        watcher = Watcher(robot, WatchSettings(TERMS))
        watcher.feed(t, q, clean + 0.02 * clean.std(axis=0) * noise, dq)
        watcher.finish()
        assert watcher.correlated == robot.joint_names
        track = watcher.trajectory
        ratios.append((track.value[-1] - watcher.base.reduce(theta)) / track.std[-1])
        white.append(ratios[-1] * np.sqrt((watcher.alike / watcher.white).mean()))
    assert 0.5 < np.sqrt(np.mean(np.square(ratios))) < 1.6
    assert np.sqrt(np.mean(np.square(white))) > 1.6


def test_a_joint_weighs_by_its_own_noise() -> None:
    """A noisy shoulder does not spoil a quiet wrist: the estimate is that of weights by the true deviations."""
    robot = random_robot(1, 2, 0.0)
    theta = np.append(robot.inertia_prior.ravel(), np.repeat([0.5, 0.4, 0.1], 2))
    motion = smooth_samples(robot, 12_000, seed=1)
    noise = np.array([1.0, 0.02]) * np.random.default_rng(0).normal(size=(12_000, 2))
    tau = TERMS.torque(robot, motion, theta) + noise
    watcher = Watcher(robot, WatchSettings(TERMS))
    watcher.feed(motion.t, motion.q, tau, motion.dq)
    watcher.finish()
    assert watcher.spread[0] / watcher.spread[1] == pytest.approx(50.0, rel=0.15)
    estimate, found = watcher.estimate, []
    for weights in ([1.0, 2500.0], [1.0, 1.0]):
        estimate.reweigh(weights)
        found.append(np.abs(estimate.value - watcher.base.reduce(theta)) / watcher.trajectory.std[-1])
    assert np.sqrt((found[0] ** 2).mean()) < 2.0
    assert np.sqrt((found[1] ** 2).mean()) > 2.0 * np.sqrt((found[0] ** 2).mean())


def test_residuals_are_kept_in_unbroken_stretches() -> None:
    rng = np.random.default_rng(0)
    series = [lfilter([1.0], [1.0, -0.98], rng.normal(size=(4000, 2)), axis=0) for _ in range(2)]
    trail = ResidualTrail()
    for start, one in zip((0, 4010), series, strict=True):
        for first in range(0, 4000, 130):
            part = one[first : first + 130]
            trail.add(start + first + np.arange(len(part)), part, 5, 1000.0)
    np.testing.assert_allclose(trail.alike(), 5 * rows_alike_of([one[::5] for one in series]))


@pytest.mark.parametrize("forgetting", [Forgetting(memory=2.0), Forgetting(memory=2.0, direction="excited")])
def test_forgetting_follows_a_load_that_changes(forgetting: Forgetting) -> None:
    robot = random_robot(1, 2, 0.0)
    motion = smooth_samples(robot, 24_000, seed=1)
    before = np.append(robot.inertia_prior.ravel(), np.repeat([0.5, 0.4, 0.1], 2))
    after = np.array(before)
    after[-6:-4] = 2.0
    torque = [TERMS.torque(robot, motion, theta) for theta in (before, after)]
    tau = np.where((motion.t < 12.0)[:, None], *torque)
    watchers = [Watcher(robot, WatchSettings(TERMS, forgetting=one)) for one in (Forgetting(), forgetting)]
    for watcher in watchers:
        watcher.feed(motion.t, motion.q, tau, motion.dq)
        watcher.finish()
    viscous = [i for i, name in enumerate(watchers[0].names) if name.startswith("fv")]
    constant, forgetful = (watcher.estimate.value[viscous] for watcher in watchers)
    assert np.abs(forgetful - 2.0).max() < 0.1
    assert np.abs(constant - 2.0).max() > 0.3


def test_lines_are_taken_as_they_come() -> None:
    robot = random_robot(1, 2, 0.0)
    lines = text_of(robot, table(robot, 3.0)).splitlines()

    def slowly() -> Iterator[str]:
        yield from lines

    values = []
    for at_once in (1, 512, 10_000):
        watcher = Watcher(robot, WatchSettings(TERMS))
        times = list(watch_lines(watcher, slowly(), at_once=at_once))
        assert times[-1] == pytest.approx(3.0, abs=0.02)
        values.append(watcher.estimate.value)
    for other in values[1:]:
        np.testing.assert_allclose(values[0], other, rtol=1e-6, atol=1e-9)


def test_a_row_stream_names_rows_over_all_pieces() -> None:
    stream = RowStream(random_robot(1, 2, 0.0))
    t = np.arange(30) / 100.0
    two = np.zeros((30, 2))
    stream.take(StreamRows(t[:20], two[:20], two[:20]))
    broken = np.array(two[20:])
    broken[4, 1] = np.nan
    with pytest.raises(UnfitDataError, match=r"row 24.*no velocity"):
        stream.take(StreamRows(t[20:], two[20:], two[20:], broken))
    with pytest.raises(UsageError, match="watch-shape"):
        stream.take(StreamRows(t[20:], two[20:], two[:3]))
    (first, apart) = stream.take(StreamRows(np.append(t[20:25], 1.0), two[:6], two[:6]))
    assert (first[0], apart[0]) == (False, True)
    assert (len(first[1]), len(apart[1])) == (5, 1)


def test_it_says_enough_once_and_designs_what_to_record_next(
    run: Run, robot_file: Path, text: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(text)
    loose = run("watch", robot_file, log, "--precision", 10, "--next", tmp_path / "none", "--wait", 0)
    assert loose.code == 0, loose.err
    assert loose.out.count("enough data: all base parameters are known to 1000 %") == 1
    assert not (tmp_path / "none").exists()
    plan = tmp_path / "motion.toml"
    plan.write_text(
        "[motion]\nseconds = 4.0\nharmonics = 2\nfrequency = 0.5\n[search]\nstarts = 1\niterations = 2\nworkers = 1\n"
        "[limits]\nvelocity = 2.0\nlower = -1.5\nupper = 1.5\n"
    )
    strict = run(
        "watch",
        robot_file,
        log,
        "--precision",
        1e-6,
        "--next",
        tmp_path / "next",
        "--plan",
        plan,
        "--wait",
        0,
    )
    assert strict.code == 0, strict.err
    assert "enough:" not in strict.out
    assert "times too wide" in strict.out
    assert "(not yet)" in strict.out
    stored = json.loads((tmp_path / "next" / "plan.json").read_text())
    assert min(margin["margin"] for margin in stored["margins"]) >= 0


def test_what_hardly_matters_need_not_be_known_to_a_share_of_itself(robot_file: Path) -> None:
    robot = load_robot(robot_file)
    watcher = Watcher(robot, WatchSettings(TERMS))
    rows = table(robot)
    n = robot.n
    watcher.feed(rows[:, 0], rows[:, 1 : 1 + n], rows[:, 1 + n :])
    track = watcher.trajectory
    found = precision_of(watcher, 0.1)
    relative = 1.96 * track.std[-1] / (0.1 * np.abs(track.value[-1]))
    size = watcher.base.scale[watcher.base.independent]
    against_torque = 1.96 * track.std[-1] * size / (0.1 * watcher.usual_torque)
    np.testing.assert_allclose(found.share, np.minimum(relative, against_torque))
    assert watcher.usual_torque == pytest.approx(np.sqrt((rows[:, 1 + n :] ** 2).mean()), rel=0.1)
    with pytest.raises(UsageError, match="precision"):
        precision_of(watcher, 0.0)


def served(rows: np.ndarray, current: np.ndarray) -> tuple[int, threading.Thread]:
    """A controller on loopback that speaks RTDE version 2 and sends rows of t, q and dq with currents."""
    server = socket.create_server(("127.0.0.1", 0))

    def package(link: socket.socket) -> tuple[int, bytes]:
        size, kind = struct.unpack(">HB", link.recv(3, socket.MSG_WAITALL))
        return kind, link.recv(size - 3, socket.MSG_WAITALL) if size > 3 else b""

    def send(link: socket.socket, kind: int, payload: bytes) -> None:
        link.sendall(struct.pack(">HB", len(payload) + 3, kind) + payload)

    def serve() -> None:
        with server, server.accept()[0] as link:
            assert package(link) == (86, struct.pack(">H", 2))
            send(link, 77, b"a message of the controller")
            send(link, 86, b"\x01")
            kind, asked = package(link)
            assert (kind, asked[8:]) == (79, b"timestamp,actual_q,actual_qd,actual_current")
            send(link, 79, b"\x01DOUBLE,VECTOR6D,VECTOR6D,VECTOR6D")
            assert package(link)[0] == 83
            send(link, 83, b"\x01")
            for row, amperes in zip(rows, current, strict=True):
                send(link, 85, b"\x01" + struct.pack(">19d", *row, *amperes))

    thread = threading.Thread(target=serve)
    thread.start()
    return int(server.getsockname()[1]), thread


def test_a_controller_is_followed_over_its_socket(run: Run, tmp_path: Path) -> None:
    robot = load_example("ur5e")
    gain = np.array([11.0, 11.0, 11.0, 8.0, 8.0, 8.0])
    motion = smooth_samples(robot, 700, seed=2)
    theta = np.append(np.nan_to_num(robot.inertia_prior).ravel(), np.repeat([0.5, 0.4, 0.1], 6))
    tau = TERMS.torque(robot, motion, theta)
    port, thread = served(np.column_stack([motion.t, motion.q, motion.dq]), tau / gain)
    config = tmp_path / "experiment.toml"
    gains = ", ".join(f"{name} = {x}" for name, x in zip(robot.joint_names, gain, strict=True))
    config.write_text(f"[robot]\ndrive_gain = {{ {gains} }}\n")
    arm = files("dynid") / "data" / "ur5e.toml"
    done = run("watch", arm, f"rtde://127.0.0.1:{port}", "--config", config, "--every", 100)
    thread.join(10)
    assert done.code == 0, done.err
    watcher = Watcher(robot, WatchSettings())
    watcher.feed(motion.t, motion.q, tau, motion.dq)
    watcher.finish()
    assert last_time(done.out) == pytest.approx(watcher.time, abs=0.011)
    silent = run("watch", arm, f"rtde://127.0.0.1:{port}", "--config", config)
    assert (silent.code, "a controller that answers" in silent.err) == (6, True), silent.err
    bare = run("watch", arm, f"rtde://127.0.0.1:{port}")
    assert (bare.code, "drive_gain under [robot]" in bare.err) == (2, True), bare.err


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([struct.pack(">HB", 2, 86)], "a package of 2 bytes"),
        ([struct.pack(">HB", 4, 86) + b"\x00"], "answer"),
        ([struct.pack(">HB", 4, 77) + b"x"] * 200_000, "answer"),
        (
            [
                struct.pack(">HB", 4, 86) + b"\x01",
                struct.pack(">HB", 37, 79) + b"\x01DOUBLE,VECTOR6D,VECTOR6D,VECTOR6D",
                struct.pack(">HB", 4, 83) + b"\x01",
                struct.pack(">HB", 12, 85) + bytes(9),
            ],
            "a sample of 9 bytes",
        ),
    ],
    ids=["short", "refused", "talks without end", "short sample"],
)
def test_a_controller_that_speaks_otherwise_is_named(
    answers: list[bytes], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rtde, "HANDSHAKE", 0.1)
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as link, suppress(OSError):
            for answer in answers:
                link.sendall(answer)
            while link.recv(4096):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    robot = load_example("ur5e")
    robot = replace(robot, drive=replace(robot.drive, drive_gain=np.ones(6)))
    with pytest.raises(InputError, match=f"rtde-protocol.*{says}"):
        list(rtde.rtde_rows(robot, f"rtde://127.0.0.1:{server.getsockname()[1]}"))
    thread.join(10)


def test_a_log_of_another_kind_is_watched_as_it_is(run: Run, robot_file: Path, train_log: Path) -> None:
    done = run("watch", robot_file, train_log, "--every", 5)
    assert done.code == 0, done.err
    assert last_time(done.out) > 15.0


@pytest.mark.parametrize(("seconds", "live"), [(1.0, True), (1e-6, True), (1.0, False)])
def test_a_filter_that_will_fall_behind_a_live_log_says_so_when_it_starts(
    seconds: float,
    live: bool,
    run: Run,
    robot_file: Path,
    text: str,
    train_log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dynid.fleet.kalman.seconds_a_step", lambda kind, model: seconds)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    log = "-" if live else str(train_log)
    outcome = run("watch", str(robot_file), log, "--filter", "ekf", "--settle", "1", "--every", "100")
    assert outcome.code == 0, outcome.err
    warns = live and seconds > 0.1
    assert ("warning[watch-load]" in outcome.err) is warns
    assert ("use --filter rls" in outcome.err) is warns
