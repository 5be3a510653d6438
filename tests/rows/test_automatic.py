"""Rows chosen from the log: what is measured, what is chosen, and what the choice brings."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from dynid_studies.rotradi import TERMS as ROTRADI_TERMS
from dynid_studies.rotradi import THETA, arm, exciting, full, measured, phases, truth

import dynid
from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import DEFAULT_TERMS, Experiment, Settings, default_estimator, identify, open_log
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_robot
from dynid.rows import (
    AutomaticRows,
    ElasticMomentumRows,
    ElasticRows,
    FilteredPowerRows,
    MomentumRows,
    RowsChoice,
    TorqueRows,
    automatic,
    choose_rows,
    rows_from_spec,
)
from dynid.rows.automatic import acceleration_noise, held_torque
from dynid.signals import Preparation, Samples
from dynid.signals.prepare import prepare
from dynid.terms import Coulomb, RigidBody, RotorInertia, Stiffness, Terms, Viscous
from dynid.testing import random_robot
from dynid.trajectories import FourierTrajectory
from tests.command_line import Run
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")

BODIES = RigidBody() + RotorInertia()
RATE, SECONDS = 1000.0, 31.0
LOOSE = Preparation(cutoff=200.0, state_cutoff=200.0)
GOOD = Preparation(cutoff=20.0, state_cutoff=50.0)


def chosen(
    robot: RobotModel,
    log: Log,
    preparation: Preparation,
    terms: Terms = DEFAULT_TERMS,
    commanded: bool | None = None,
) -> RowsChoice:
    prepared = prepare(log, preparation, Diagnostics())
    return choose_rows(AutomaticRows(commanded), robot, terms, prepared, Diagnostics())


class Ur5e:
    """Madsen's arm with rigid joints: noise that good filters turn into their 1.9 to 2.4 % at ten times its size."""

    def __init__(self) -> None:
        self.robot = load_robot(ROBOTS / "ur5e.toml")
        rng = np.random.default_rng(0)
        sine, cosine = rng.normal(0, 0.35, (2, 6, 5))
        centre = np.array([0, -1.2, 1.0, -0.8, 0.7, 0])
        self.t = np.arange(0, SECONDS, 1 / RATE)
        motion = FourierTrajectory(centre, sine, cosine, 0.1, SECONDS, 1.5)
        q, dq, ddq = motion.motion(self.t)
        self.motion = Samples.from_motion(q, dq, ddq, rate=RATE)
        self.terms = BODIES + Viscous() + Coulomb(0.02)
        rotors = self.robot.drive.reflected_rotor_inertia
        friction = [12, 12, 10, 3, 3, 3.0, 8, 8, 6, 2, 2, 2.0]
        self.theta = np.concatenate([self.robot.inertia_prior.ravel(), rotors, friction])
        self.tau = self.terms.torque(self.robot, self.motion, self.theta)

    def log(self, folder: Path, noise: float) -> Log:
        rng = np.random.default_rng(1)
        q = self.motion.q + 5e-6 * noise * rng.normal(size=self.tau.shape)
        tau = self.tau + noise * np.array([0.75, 0.75, 0.5, 0.15, 0.15, 0.15]) * rng.normal(
            size=self.tau.shape
        )
        path = folder / f"noise{noise:g}.parquet"
        return read_log(
            write_log(path, self.t, canonical_columns(self.robot.joint_names, q, tau=tau)), self.robot
        )

    def missed(self, log: Log, settings: Settings) -> float:
        """Error of the torque of bodies and rotors on the true motion, root mean square over the joints, %."""
        wanted = replace(settings, terms=self.terms)
        # The estimate is looked at: with a log to validate on no blocks are held out.
        run = identify(self.robot, log, wanted, validation=log, diagnostics=Diagnostics(), threads=1)
        rigid = np.arange(len(self.theta)) < 66
        true, found = (
            self.terms.torque(self.robot, self.motion, np.where(rigid, theta, 0.0))
            for theta in (self.theta, run.estimate.full_vector)
        )
        share = ((found - true) ** 2).sum(axis=0) / (true**2).sum(axis=0)
        return float(100 * np.sqrt(share.mean()))


@pytest.fixture(scope="module")
def ur5e() -> Ur5e:
    return Ur5e()


def test_noise_of_accelerations_is_measured(ur5e: Ur5e, tmp_path: Path) -> None:
    for noise in (1.0, 10.0):
        log = ur5e.log(tmp_path, noise)
        prepared = prepare(log, LOOSE, Diagnostics())
        found = acceleration_noise(prepared, tuple(prepared.windows()))
        errors, signals = zip(*(errors_of(samples, ur5e) for samples in prepared), strict=True)
        wrong, power = np.sum(errors, axis=0), np.sum(signals, axis=0)
        # The parallel filter, which the samples have not passed, takes a part of the noise.
        white = wrong / (wrong + power)
        assert (found.share < 1.1 * white).all()
        assert (found.share > 0.4 * white).all()
        np.testing.assert_allclose(found.signal, np.sqrt(power / len(ur5e.t)), rtol=0.1)


def errors_of(samples: Samples, ur5e: Ur5e) -> tuple[Float, Float]:
    truth = np.stack([np.interp(samples.t, ur5e.t, x) for x in ur5e.motion.ddq.T], axis=1)
    return ((samples.ddq - truth) ** 2).sum(axis=0), (truth**2).sum(axis=0)


def test_a_joint_whose_equation_is_left_out_decides_nothing(ur5e: Ur5e, tmp_path: Path) -> None:
    names = ur5e.robot.joint_names
    q = ur5e.motion.q + np.eye(6)[4] * np.random.default_rng(2).normal(0, 2e-3, ur5e.tau.shape)
    columns = canonical_columns(names, q, tau=ur5e.tau)
    whole = write_log(tmp_path / "whole.parquet", ur5e.t, columns)
    assert isinstance(chosen(ur5e.robot, read_log(whole, ur5e.robot), GOOD).rows, MomentumRows)

    without = {name: values for name, values in columns.items() if name != f"tau_{names[4]}"}
    said = Diagnostics()
    log = read_log(write_log(tmp_path / "without.parquet", ur5e.t, without), ur5e.robot)
    assert log.unmeasured == (names[4],)
    choice = choose_rows(AutomaticRows(), ur5e.robot, DEFAULT_TERMS, prepare(log, GOOD, said), said)
    assert isinstance(choice.rows, TorqueRows)
    assert names[4] not in choice.reason
    assert "noisy-accelerations" not in [one.identifier for one in said]


def test_tenfold_noise_behind_a_loose_filter(ur5e: Ur5e, tmp_path: Path) -> None:
    log = ur5e.log(tmp_path, 10.0)
    choice = chosen(ur5e.robot, log, LOOSE)
    assert isinstance(choice.rows, MomentumRows)
    assert (choice.rows.degree, choice.rows.hold) == (2, "linear")
    assert 2.0 <= choice.rows.cutoff <= 5.0  # Madsen's 20 rad/s are 3.2 Hz
    assert "too noisy" in choice.reason
    sink = Diagnostics()
    choose_rows(AutomaticRows(), ur5e.robot, DEFAULT_TERMS, prepare(log, LOOSE, Diagnostics()), sink)
    assert [d.identifier for d in sink.warnings] == ["states-low-passed"]
    assert choice.trusted
    assert choice.state_cutoff is not None
    assert 5.0 <= choice.state_cutoff <= 20.0
    smoothed = ur5e.missed(log, Settings(preparation=LOOSE))
    named = ur5e.missed(log, Settings(rows=choice.rows, preparation=LOOSE))
    assert smoothed < 3.0  # the acceptance figure, which momentum rows alone reach
    assert named < 3.0
    assert smoothed < named
    # Consistent bodies would be given up on such rows, after a long search: without them from the start.
    assert ur5e.missed(log, Settings(rows=TorqueRows(), preparation=LOOSE, estimator=WLS())) > 30.0


@pytest.mark.parametrize(("noise", "preparation"), [(1.0, GOOD), (10.0, GOOD), (10.0, Preparation())])
def test_good_filters_leave_accelerations_to_trust(
    noise: float, preparation: Preparation, ur5e: Ur5e, tmp_path: Path
) -> None:
    choice = chosen(ur5e.robot, ur5e.log(tmp_path, noise), preparation)
    assert isinstance(choice.rows, TorqueRows)
    assert "accurate enough" in choice.reason


def test_advice_is_not_what_was_done_already(
    ur5e: Ur5e, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "TRUSTED_SHARE", 0.0)  # as if no filter helped
    log, springs = ur5e.log(tmp_path, 10.0), DEFAULT_TERMS + Stiffness()
    for preparation, wanted, unwanted in (
        (Preparation(), "log velocities", "auto"),
        (LOOSE, "set cutoff and state_cutoff to auto", "log velocities"),
        (replace(LOOSE, state_cutoff="auto"), "set cutoff to auto", "state_cutoff"),
    ):
        sink = Diagnostics()
        prepared = prepare(log, preparation, Diagnostics())
        choice = choose_rows(AutomaticRows(), ur5e.robot, springs, prepared, sink)
        assert not choice.trusted
        (text,) = [d.text for d in sink.warnings if d.identifier == "noisy-accelerations"]
        assert wanted in text
        assert unwanted not in text


def test_plain_noise_behind_a_loose_filter_is_too_much(ur5e: Ur5e, tmp_path: Path) -> None:
    log = ur5e.log(tmp_path, 1.0)
    assert isinstance(chosen(ur5e.robot, log, LOOSE).rows, MomentumRows)
    automatic, torque = (
        ur5e.missed(log, Settings(rows=rows, preparation=LOOSE, estimator=WLS()))
        for rows in (AutomaticRows(), TorqueRows())
    )
    assert automatic < 0.3 * torque


@lru_cache(maxsize=1)
def one_run() -> Samples:
    return measured(truth(exciting(phases(seed=0))))


def rotradi(folder: Path, held: bool) -> Log:
    run, robot = one_run(), arm()
    before = np.vstack([run.tau[:1], run.tau[:-1]])
    # Seen at the middle of two steps, the same torque is linear from row to row to second order.
    tau = run.tau if held else 0.5 * (run.tau + before)
    return read_log(
        write_log(folder / "r.parquet", run.t, canonical_columns(robot.joint_names, run.q, tau=tau)), robot
    )


def test_held_torque_and_joints_that_stick(tmp_path: Path) -> None:
    robot, log = arm(), rotradi(tmp_path, held=True)
    choice = chosen(robot, log, Preparation(), ROTRADI_TERMS)
    assert isinstance(choice.rows, FilteredPowerRows)
    assert choice.rows.hold == "zero"
    assert "constant between rows" in choice.reason
    assert "sticks" in choice.reason
    automatic, torque = (
        identify(robot, log, Settings(terms=ROTRADI_TERMS, rows=rows, estimator=WLS())).estimate
        for rows in (AutomaticRows(), TorqueRows())
    )
    true = automatic.base.reduce(full(THETA))
    errors = [float(np.median(np.abs(e.value - true) / np.abs(true))) for e in (automatic, torque)]
    assert errors[0] < 0.0015  # the acceptance figure of filtered power
    assert errors[1] > 10 * errors[0]
    # The published inertias belong to no links that can exist: the default keeps links that can, and tells their cost.
    sink = Diagnostics()
    real = identify(robot, log, Settings(terms=ROTRADI_TERMS), diagnostics=sink).estimate
    assert real.method == default_estimator().name
    assert "consistency-costs" in {item.identifier for item in sink.warnings}


def test_sampled_torque_is_not_taken_for_held(tmp_path: Path) -> None:
    robot, log = arm(), rotradi(tmp_path, held=False)
    choice = chosen(robot, log, Preparation(), ROTRADI_TERMS)
    assert isinstance(choice.rows, TorqueRows)
    assert choice.evidence["torque"]["gain"] < 1
    declared = chosen(robot, log, Preparation(), ROTRADI_TERMS, commanded=True)
    assert isinstance(declared.rows, FilteredPowerRows)
    assert rows_from_spec({"rows": "auto", "commanded": True}) == AutomaticRows(commanded=True)


@pytest.mark.parametrize(("repeats", "share"), [(1, 0.0), (2, 0.5), (5, 0.8)])
def test_a_torque_that_carries_noise_and_seldom_repeats_is_measured(
    tmp_path: Path, repeats: int, share: float
) -> None:
    """Of rows in motion it is counted how many repeat all torques, whatever the positions hold."""
    robot, rng = random_robot(1, 2, 0.0), np.random.default_rng(0)
    t = np.arange(1000) / 100.0
    q = np.stack([np.sin(2.0 * t), np.cos(3.0 * t)], axis=1)
    tau = np.repeat(rng.normal(size=(1000 // repeats, 2)), repeats, axis=0)
    columns = canonical_columns(robot.joint_names, q, tau=tau)
    log = read_log(write_log(tmp_path / "noise.parquet", t, columns), robot)
    prepared = prepare(log, Preparation(cutoff=10.0), Diagnostics())
    found = held_torque(robot, prepared, tuple(prepared.windows()))
    assert found.repeated == pytest.approx(share, abs=2e-3)
    assert ("since it is noisy" in found.reason) == (repeats == 1)


def test_commanded_torque_can_be_denied(tmp_path: Path) -> None:
    choice = chosen(arm(), rotradi(tmp_path, held=True), Preparation(), ROTRADI_TERMS, commanded=False)
    assert isinstance(choice.rows, TorqueRows)


def test_springs_in_the_model_need_both_sides(ur5e: Ur5e, tmp_path: Path) -> None:
    springs = DEFAULT_TERMS + Stiffness()
    log = ur5e.log(tmp_path, 10.0)
    assert type(chosen(ur5e.robot, log, GOOD, springs).rows) is ElasticRows
    assert type(chosen(ur5e.robot, log, LOOSE, springs).rows) is ElasticMomentumRows


def test_a_second_encoder_alone_leaves_rigid_rows(ur5e: Ur5e, tmp_path: Path) -> None:
    names, q, tau = ur5e.robot.joint_names, ur5e.motion.q, ur5e.tau
    path = write_log(
        tmp_path / "both.parquet", ur5e.t, canonical_columns(names, q, tau=tau, theta=q + 1e-4 * tau)
    )
    choice = chosen(ur5e.robot, read_log(path, ur5e.robot), GOOD)
    assert isinstance(choice.rows, TorqueRows)
    assert "motor positions" in choice.reason


def test_a_short_log_is_left_to_torque_rows(ur5e: Ur5e, tmp_path: Path) -> None:
    names = ur5e.robot.joint_names
    columns = canonical_columns(names, ur5e.motion.q[::20], tau=ur5e.tau[::20])
    log = read_log(write_log(tmp_path / "slow.parquet", ur5e.t[::20], columns), ur5e.robot)
    brief = replace(log, trajectories=tuple(replace(one, row_count=60) for one in log.trajectories))
    prepared = prepare(brief, Preparation(cutoff=5.0, shortest=0.1), Diagnostics())
    choice = choose_rows(AutomaticRows(), ur5e.robot, DEFAULT_TERMS, prepared, Diagnostics())
    assert isinstance(choice.rows, TorqueRows)
    assert "too short" in choice.reason


def test_asked_for_rows_are_left_alone(ur5e: Ur5e, tmp_path: Path) -> None:
    prepared = prepare(ur5e.log(tmp_path, 10.0), LOOSE, Diagnostics())
    sink = Diagnostics()
    choice = choose_rows(TorqueRows(), ur5e.robot, DEFAULT_TERMS, prepared, sink)
    assert (choice.rows, choice.reason, len(sink)) == (TorqueRows(), "asked for", 0)


@pytest.mark.parametrize("name", ["panda_gaz", "ur10e_innopolis", "kr300_rptu"])
def test_real_logs_keep_torque_rows(name: str, data_dir: Path) -> None:
    """On these logs momentum rows miss as much or slightly more on held-out data."""
    robot = load_robot(ROBOTS / f"{name}.toml")
    experiment = Experiment.read(ROBOTS / f"{name}.experiment.toml")
    log = open_log(
        experiment, [data_dir / name / "data.parquet"], robot, experiment.data.train, Diagnostics()
    )
    for preparation in (experiment.settings().preparation, Preparation()):
        assert isinstance(chosen(robot, log, preparation, experiment.terms()).rows, TorqueRows)


def test_the_reason_is_reported(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    found = run("identify", robot_file, train_log, "--out", tmp_path / "run", "-v")
    assert found.code == 0, found.err
    assert "torque rows: accelerations are accurate enough" in found.out
    stored = dynid.load(tmp_path / "run")
    rows = stored.preparation["rows"]
    assert isinstance(rows, dict)
    assert rows["name"] == "torque"
    assert "accurate enough" in rows["reason"]
    assert any(d.identifier == "rows" and "accurate enough" in d.text for d in stored.diagnostics)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "accurate enough" in page
    assert "oise in the power of the accelerations" in page
    asked = run("identify", robot_file, train_log, "--rows", "torque", "--out", tmp_path / "asked", "-v")
    assert "torque rows: asked for" in asked.out
