"""What physics says against a log caps the verdict; where its code is accepted it warns, and the verdict says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import CLAIMS, Claim, Diagnostics, Float, Place, UsageError
from dynid.estimate import WLS
from dynid.identification import Settings
from dynid.kernel import inverse_dynamics
from dynid.log import canonical_columns, write_log
from dynid.robot import RobotModel, load_robot
from dynid.run import load
from tests.command_line import ROBOT, Run

# The arm of the other tests on a vertical axis, whose torque shows how the base leans.
WAIST = """
[[joint]]
name = "waist"
type = "revolute"
inertial = { mass = 2.0, com = [0.0, 0.05, 0.1], inertia = { xx = 0.02, yy = 0.02, zz = 0.01 } }
"""
RATE = 200.0
# Claims stand on the log and on the fit without constraints; consistent bodies, for which a faulty log's fit looks ten
# times as long, are added by `test_a_mended_log_is_good_and_an_accepted_one_says_so`.
PLAIN = ("--no-auto", "--estimator", "wls")
WITHOUT_CONSTRAINTS = '[model]\nautomatic = false\n[estimate]\nmethod = "wls"\n'
TIME = np.arange(0.0, 20.0, 1.0 / RATE)


@pytest.fixture(scope="module")
def robot_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description of a three-joint arm."""
    path = tmp_path_factory.mktemp("robot") / "three.toml"
    path.write_text(ROBOT.replace("[[joint]]", WAIST + "\n[[joint]]", 1))
    return path


@pytest.fixture(scope="module")
def train_log(robot_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with nothing wrong."""
    return spoilt_log(robot_file, tmp_path_factory.mktemp("log") / "train.parquet", torque, seed=2)


def motion(seed: int, late: float = 0.0) -> tuple[Float, Float, Float]:
    """q, dq, ddq (T, 3) on a sum of sines, of so many seconds before."""
    rng = np.random.default_rng(seed)
    t = TIME[:, None] - late
    q, dq, ddq = (np.zeros((len(TIME), 3)) for _ in range(3))
    for f in (0.21, 0.37, 0.53):
        a, phase, w = rng.uniform(0.2, 0.5, 3), rng.uniform(0, 6, 3), 2 * np.pi * f
        q += a * np.sin(w * t + phase)
        dq += w * a * np.cos(w * t + phase)
        ddq -= w * w * a * np.sin(w * t + phase)
    return q, dq, ddq


def torque(robot: RobotModel, seed: int, late: float = 0.0, viscous: float = 0.5) -> Float:
    q, dq, ddq = motion(seed, late)
    rigid = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    noise = np.random.default_rng(seed).normal(0, 0.02, q.shape)
    return np.asarray(rigid + viscous * dq + 0.4 * np.tanh(dq / 0.02) + noise)


def tilted(robot: RobotModel, seed: int) -> Float:
    lean = np.deg2rad(5.0)
    return torque(replace(robot, gravity=9.81 * np.array([np.sin(lean), 0.0, -np.cos(lean)])), seed)


def frozen(robot: RobotModel, seed: int) -> Float:
    """The last joint's effort stands still for a fifth of the log."""
    tau = torque(robot, seed)
    start, end = 2 * len(tau) // 5, 3 * len(tau) // 5
    tau[start:end, 2] = tau[start, 2]
    return tau


FAULTS: dict[Claim, Callable[[RobotModel, int], Float]] = {
    "tilted-base": tilted,
    "negative-friction": lambda robot, seed: torque(robot, seed) * [-1.0, 1.0, 1.0],
    "torque-sign": lambda robot, seed: torque(robot, seed) * [1.0, 1.0, -1.0],
    "joint-order": lambda robot, seed: torque(robot, seed)[:, [0, 2, 1]],
    "torque-lag": lambda robot, seed: torque(robot, seed, late=0.05),
    "gravity-compensated": lambda robot, seed: torque(replace(robot, gravity=np.zeros(3)), seed),
    "constant-effort": frozen,
    "unit-suspicion": lambda robot, seed: 1000.0 * torque(robot, seed),
}


# One of the base, one of a joint's wiring, and one of the effort channel.
ACCEPTED = {"tilted-base", "torque-sign", "constant-effort"}


def spoilt_log(
    robot_file: Path, path: Path, fault: Callable[[RobotModel, int], Float], seed: int = 1
) -> Path:
    robot = load_robot(robot_file)
    columns = canonical_columns(robot.joint_names, motion(seed)[0], tau=fault(robot, seed))
    return write_log(path, TIME, columns)


def doubts_in(text: str) -> list[str]:
    """Codes of the doubts that were printed, each of which ends with how to go on."""
    found = re.findall(r"^doubt\[([a-z-]+)\] .*; or accept it: --accept ([a-z-]+)$", text, re.M)
    assert all(code == way for code, way in found)
    assert len(found) == text.count("doubt[")
    return list(dict.fromkeys(code for code, _ in found))


@pytest.mark.parametrize("code", CLAIMS)
def test_every_claim_is_a_doubt_or_a_warning_at_one_place(code: Claim) -> None:
    place = Place(joint="elbow")
    sink = Diagnostics()
    sink.claim(code, found="this", expected="that", do="mend it", place=place)
    assert [str(one) for one in sink.doubts] == [
        f"doubt[{code}] joint 'elbow': this; expected that; mend it; or accept it: --accept {code}"
    ]
    assert not sink.warnings
    assert not sink.accepted
    sink = Diagnostics()
    sink.accept([code])
    sink.claim(code, found="this", expected="that", do="mend it", place=place)
    assert [str(one) for one in sink.warnings] == [
        f"warning[{code}] joint 'elbow': this; expected that; mend it; accepted by you"
    ]
    assert not sink.doubts
    assert sink.accepted == (code,)
    sink.require_found([code])


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=[] if code in ACCEPTED else [pytest.mark.slow]) for code in FAULTS]
)
def test_a_doubt_caps_the_verdict_until_it_is_accepted(
    code: Claim, run: Run, robot_file: Path, tmp_path: Path
) -> None:
    log = spoilt_log(robot_file, tmp_path / "log.parquet", FAULTS[code])
    call = ("identify", robot_file, log, *PLAIN, "--out", tmp_path / "run", "--verbose")
    done = run(*call)
    assert done.code == 0, done.err
    doubts = doubts_in(done.err)
    assert code in doubts
    first = done.out.splitlines()[0]
    assert first.startswith(("DOUBTFUL: ", "POOR: "))
    assert f" {doubts[0]}: " in first
    assert f"--accept {doubts[0]}" in first
    assert all(one in first for one in doubts)
    stored = load(tmp_path / "run")
    assert stored.verdict.level in ("doubtful", "poor")
    assert {one.identifier for one in stored.diagnostics.doubts} == set(doubts)
    assert (tmp_path / "run" / "report.html").is_file()
    # Each code lifts its own cap, and nothing else.
    for count in range(1, len(doubts) + 1):
        accepted = doubts[:count]
        done = run(*call, "--force", *(word for one in accepted for word in ("--accept", one)))
        assert done.code == 0, done.err
        assert doubts_in(done.err) == doubts[count:]
        first = done.out.splitlines()[0]
        level = first.split(" ", 1)[0].lower()
        assert first.startswith(f"{level.upper()} (accepted by you: {', '.join(accepted)}): ")
        assert count == len(doubts) or level in ("doubtful", "poor")
    assert level != "doubtful"
    assert f"warning[{code}]" in done.err
    data = json.loads((tmp_path / "run" / "run.json").read_text())
    assert data["experiment"]["accept"] == doubts
    assert {one["id"] for one in data["diagnostics"] if one.get("accepted")} == set(doubts)
    assert data["verdict"]["accepted"] == doubts
    assert load(tmp_path / "run").verdict.accepted == tuple(doubts)


def test_efforts_that_are_all_turned_are_one_doubt(run: Run, robot_file: Path, tmp_path: Path) -> None:
    """Friction that drives every joint, and bodies that cannot be, follow from it and have no other cause."""
    log = spoilt_log(robot_file, tmp_path / "log.parquet", lambda robot, seed: -torque(robot, seed))
    done = run("identify", robot_file, log, *PLAIN, "--out", tmp_path / "run")
    assert doubts_in(done.err) == ["torque-sign"]
    assert all(f"{joint} = -1" in done.err for joint in load_robot(robot_file).joint_names)
    assert "negative-friction" not in done.err


def test_a_mended_log_is_good_and_an_accepted_one_says_so(run: Run, robot_file: Path, tmp_path: Path) -> None:
    """The first line of a leaning robot, before and after either way on."""
    log = spoilt_log(robot_file, tmp_path / "log.parquet", tilted)
    call = ("identify", robot_file, log, "--no-auto", "--force", "--out", tmp_path / "run")
    first = run(*call).out.splitlines()[0]
    assert first.startswith("DOUBTFUL: A doubt could invalidate this model. tilted-base: a base tilted by 5")
    way = re.search(r"--gravity=([-\d.,e]+)", first)
    assert way
    assert np.linalg.norm([float(part) for part in way[1].split(",")]) == pytest.approx(9.81, rel=1e-3)
    accepted = run(*call, "--accept", "tilted-base").out
    assert re.match(r"(GOOD|USABLE) \(accepted by you: tilted-base\): ", accepted), accepted
    mended = run(*call, f"--gravity={way[1]}")
    assert mended.out.startswith("GOOD: "), mended.out
    assert not doubts_in(mended.err)
    # The same words under [robot] in the experiment file; both are kept in the run.
    values = [float(part) for part in way[1].split(",")]
    (tmp_path / "e.toml").write_text(f"[robot]\ngravity = {values}\n[model]\nautomatic = false\n")
    done = run("identify", robot_file, log, "-c", tmp_path / "e.toml", "--force", "--out", tmp_path / "run")
    assert done.out.splitlines()[0] == mended.out.splitlines()[0]
    np.testing.assert_allclose(load(tmp_path / "run").robot.gravity, values)
    assert load(tmp_path / "run").experiment["robot"] == {"gravity": values}
    assert run(*call, "--gravity=1,2").code == 2


def test_a_claim_is_accepted_in_the_experiment_and_in_python(
    run: Run, robot_file: Path, tmp_path: Path
) -> None:
    log = spoilt_log(robot_file, tmp_path / "log.parquet", tilted)
    (tmp_path / "experiment.toml").write_text(f'accept = ["tilted-base"]\n{WITHOUT_CONSTRAINTS}')
    config = ("--config", tmp_path / "experiment.toml")
    done = run("identify", robot_file, log, *config, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    robot = dynid.load_robot(robot_file)
    plain = Settings(automatic=False, estimator=WLS())
    for settings, accept in (
        (replace(plain, accept=("tilted-base",)), ()),
        (plain, ["tilted-base"]),
    ):
        found = dynid.identify(robot, dynid.read_log(log, robot), settings, accept=accept)
        assert found.verdict.word == f"{found.verdict.level.upper()} (accepted by you: tilted-base)"
        assert found.accepted == ("tilted-base",)
    # The whole fit is looked at, or only the log: what a file accepts need not show there.
    checked = run("check", robot_file, log, "--no-fit", *config)
    assert (checked.code, "tilted-base" in checked.err) == (0, False), checked.err
    assert "no problem found in this log (checked without a fit" in checked.out
    (tmp_path / "plain.toml").write_text(WITHOUT_CONSTRAINTS)
    config = ("-c", tmp_path / "plain.toml")
    checked = run("check", robot_file, log, *config)
    assert (checked.code, doubts_in(checked.err)) == (0, ["tilted-base"])
    assert checked.out.splitlines()[-1] == "in doubt: tilted-base; verdict of the fit: DOUBTFUL"
    checked = run("check", robot_file, log, *config, "--accept", "tilted-base")
    assert (checked.code, "warning[tilted-base]" in checked.err) == (0, True), checked.err
    assert re.search(r"(GOOD|USABLE) \(accepted by you: tilted-base\)$", checked.out.splitlines()[-1])


def test_check_and_validate_accept_what_a_log_shows_by_itself(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    clean = ("identify", robot_file, train_log, *PLAIN, "--out", tmp_path / "clean")
    assert run(*clean).code == 0
    log = spoilt_log(robot_file, tmp_path / "log.parquet", FAULTS["constant-effort"])
    for call in (("check", robot_file, log, "--no-fit"), ("validate", tmp_path / "clean", log)):
        doubted = run(*call)
        assert (doubted.code, doubts_in(doubted.err)) == (0, ["constant-effort"])
        done = run(*call, "--accept", "constant-effort")
        assert (done.code, "warning[constant-effort]" in done.err) == (0, True), done.err
        assert not doubts_in(done.err)
    # A run's own codes hold for further logs too, and need not be found in them.
    call = (
        "identify",
        robot_file,
        log,
        *PLAIN,
        "--accept",
        "constant-effort",
        "--out",
        tmp_path / "run",
    )
    assert run(*call).code == 0
    assert run("validate", tmp_path / "run", log).code == 0
    assert run("validate", tmp_path / "run", train_log).code == 0


def test_a_code_that_is_not_found_is_an_error(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    lagging = spoilt_log(robot_file, tmp_path / "log.parquet", FAULTS["torque-lag"])
    for log, more, found in (
        (train_log, (), "no codes, since there are no doubts"),
        (lagging, ("--accept", "torque-lag"), "expected torque-lag"),
    ):
        call = ("identify", robot_file, log, *PLAIN, "--out", tmp_path / "run")
        done = run(*call, "--accept", "negative-stiffness", *more)
        assert done.code == 2
        assert "error[nothing-to-accept] found accept 'negative-stiffness'" in done.err
        assert found in done.err
        assert not (tmp_path / "run").exists()
    done = run("check", robot_file, train_log, "--no-fit", "--accept", "torque-sign")
    assert (done.code, "nothing-to-accept" in done.err) == (2, True)


def test_a_code_that_no_claim_has_is_an_error_at_once(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    call = ("identify", robot_file, train_log, "--out", tmp_path / "run")
    done = run(*call, "--accept", "tilted-bas")
    assert (done.code, "did you mean 'tilted-base'?" in done.err) == (2, True), done.err
    # A fault of the data itself is no claim: there is nothing that could be computed.
    (tmp_path / "experiment.toml").write_text('\naccept = ["time-backwards"]\n')
    done = run(*call, "--config", tmp_path / "experiment.toml")
    assert done.code == 3
    assert "experiment.toml:2" in done.err
    assert "'tilted-base'" in done.err
    with pytest.raises(UsageError, match="unknown-claim"):
        Settings(accept=("no-samples",))
