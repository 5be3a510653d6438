"""Cut-offs of positions by joint, on a plant of MuJoCo that the model does not describe."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, UsageError
from dynid.estimate import WLS
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_robot
from dynid.rows import TorqueRows
from dynid.signals import Preparation, Prepared, Samples, low_passed, zero_phase_filter
from dynid.signals.coherence import Signals
from dynid.signals.filter import second_difference
from dynid.signals.prepare import prepare
from dynid.signals.state_cutoff import LOWEST, STEPS_AN_OCTAVE, choose_state_cutoffs
from dynid.signals.state_cutoff import STATE_CUTOFF_NEGLIGIBLE as NEGLIGIBLE
from tests.signals.plant import ROBOT, Run, simulate

pytestmark = pytest.mark.usefixtures("unexamined")

NAMES, RATE, COMMON = ("a", "b", "c"), 250.0, 10.0
USED = Preparation(cutoff=COMMON, velocity="differentiate")
FINE, COARSE = 1e-5, 2.0 * np.pi / 2**11  # rad a count
ROTOR = 0.5  # kg m^2, behind each gear


@lru_cache(maxsize=4)
def run_of(fastest: float, seed: int = 0) -> Run:
    run = simulate(fastest, seed)
    return replace(run, tau=run.tau + ROTOR * run.ddq)


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("arm") / "arm.toml"
    path.write_text(ROBOT)
    return load_robot(path)


def counted(q: Float, steps: Float) -> Float:
    return np.asarray(np.round(q / steps) * steps)


def log_of(folder: Path, robot: RobotModel, q: Float, tau: Float) -> Log:
    t = np.arange(len(q)) / RATE
    columns = canonical_columns(robot.joint_names, q, tau=tau)
    return read_log(write_log(folder / "log.parquet", t, columns), robot)


def measured(fastest: float, steps: list[float], seed: int = 0) -> tuple[Run, Float, Float]:
    """Positions counted in steps and torque with one per cent of noise, at RATE."""
    run, rng = run_of(fastest, seed), np.random.default_rng(seed)
    tau = run.tau + 0.01 * np.abs(run.tau).max(axis=0) * rng.normal(size=run.tau.shape)
    return run, counted(run.q[::4], np.array(steps)), tau[::4]


def chosen(q: Float, preparation: Preparation = USED) -> Float:
    found = choose_state_cutoffs([Signals(q.T)], RATE, COMMON, preparation, NAMES)
    return found.chosen


# The choice from positions alone.


@pytest.mark.parametrize("noise", [1e-3, 3e-3, 1e-2])
@pytest.mark.parametrize("fastest", [0.5, 2.0])
def test_no_other_cut_off_gives_a_better_acceleration(fastest: float, noise: float) -> None:
    run = run_of(fastest)
    q = run.q[::4] + noise * np.random.default_rng(0).normal(size=run.q[::4].shape)
    found = chosen(q)
    parallel, inner = zero_phase_filter(COMMON, 4, RATE), slice(500, -500)
    candidates = COMMON * 2.0 ** (-np.arange(14) / STEPS_AN_OCTAVE)

    def error(joint: int, cutoff: float) -> float:
        smooth = low_passed(q.T[joint : joint + 1], [cutoff], 4, RATE)
        wrong = second_difference(smooth, RATE) - run.ddq[::4].T[joint : joint + 1]
        return float(np.sqrt(np.mean(parallel(wrong)[0, inner] ** 2)))

    for joint, own in enumerate(found):
        errors = [error(joint, float(c)) for c in candidates if c >= LOWEST]
        # A quarter of an octave more lets 2^(5/8) = 1.54 times the noise of an acceleration through.
        little = NEGLIGIBLE * float(np.mean(run.ddq[:, joint] ** 2))
        assert error(joint, float(own)) ** 2 <= max((1.54 * min(errors)) ** 2, little)


def test_joints_without_noise_keep_the_common_cut_off() -> None:
    run = run_of(2.0)
    q = run.q[::4].copy()
    q[:, 2] += 3e-3 * np.random.default_rng(0).normal(size=len(q))
    found = chosen(q)
    assert found[:2].tolist() == [COMMON, COMMON]
    assert found[2] < 0.7 * COMMON


def test_more_noise_never_raises_a_cut_off() -> None:
    run, noise = run_of(2.0), np.random.default_rng(1).normal(size=run_of(2.0).q[::4].shape)
    found = [chosen(run.q[::4] + size * noise) for size in (0.0, 1e-4, 1e-3, 1e-2)]
    assert (np.diff(found, axis=0) <= 0).all()


def test_units_do_not_matter() -> None:
    _, q, _ = measured(2.0, [FINE, COARSE, COARSE])
    np.testing.assert_array_equal(chosen(q), chosen(np.rad2deg(q) + 90.0))


def test_short_segments_are_not_used_up_by_their_ends() -> None:
    run = run_of(0.5)
    q = run.q[::4] + 1e-2 * np.random.default_rng(0).normal(size=run.q[::4].shape)
    parts = [Signals(q[a : a + 750].T) for a in range(0, len(q) - 750, 750)]  # 3 s each
    found = choose_state_cutoffs(parts, RATE, COMMON, USED, NAMES).chosen
    assert (2.0 / found <= 0.1 * 3.0 * 1.1).all()
    assert (chosen(q) < found).all()


# With torque.


def test_the_torque_of_a_coarse_joint_is_found_better(arm: RobotModel, tmp_path: Path) -> None:
    _, q, tau = measured(2.0, [FINE, FINE, COARSE])
    log = log_of(tmp_path, arm, q, tau)
    own = prepare(log, USED)
    assert own.settings.state_cutoffs(3)[:2] == (COMMON, COMMON)
    assert own.settings.state_cutoffs(3)[2] < COMMON
    unseen = run_of(2.0, 1)
    samples = Samples.from_motion(unseen.q[::20], unseen.dq[::20], unseen.ddq[::20], unseen.tau[::20])

    def missed(preparation: Preparation) -> Float:
        settings = Settings(
            automatic=False, estimator=WLS(), rows=TorqueRows(), preparation=preparation, folds=3
        )
        found = identify(arm, log, settings, diagnostics=Diagnostics(), threads=1)
        wrong = found.terms.torque(arm, samples, found.estimate.full_vector) - samples.tau
        return np.asarray(np.sqrt(np.mean(wrong**2, axis=0)))

    by_joint, common = missed(USED), missed(replace(USED, state_cutoff=COMMON))
    assert by_joint[2] < 0.9 * common[2]
    assert (by_joint[:2] < 1.02 * common[:2]).all()


def test_a_trembling_that_the_torque_knows_of_is_motion(arm: RobotModel, tmp_path: Path) -> None:
    # The same spectrum of the position twice: once it is noise, once the link moves so and its drive feels it.
    run = run_of(0.5)
    q, tau = run.q[::4].copy(), run.tau[::4].copy()
    tremble = 2e-3 * np.random.default_rng(0).normal(size=len(q))
    q[:, 2] += tremble
    felt = tau.copy()
    felt[:, 2] += ROTOR * second_difference(tremble[None], RATE)[0]

    def state(torque: Float) -> Prepared:
        return prepare(log_of(tmp_path, arm, q, torque), USED)

    assert state(tau).settings.state_cutoffs(3)[2] < COMMON
    assert state(felt).settings.state_cutoff == COMMON


def test_a_log_without_noise_is_prepared_as_ever(arm: RobotModel, tmp_path: Path) -> None:
    _, q, tau = measured(2.0, [FINE, FINE, FINE])
    log = log_of(tmp_path, arm, q, tau)
    (one,), (other,) = prepare(log, USED), prepare(log, replace(USED, state_cutoff=COMMON))
    np.testing.assert_array_equal(one.ddq, other.ddq)


@pytest.mark.parametrize("loud", [0, 2])
def test_noise_of_one_torque_asks_for_no_cut_off_of_its_own(
    loud: int, arm: RobotModel, tmp_path: Path
) -> None:
    # White noise on the left side of a regression costs the same whatever part of it a filter takes.
    run, rng, terms = run_of(2.0), np.random.default_rng(0), DEFAULT_TERMS
    theta = rng.uniform(0.5, 1.5, len(terms.columns(arm)))
    samples = Samples.from_motion(run.q[::4], run.dq[::4], run.ddq[::4], rate=RATE)
    true = terms.torque(arm, samples, theta)
    level = np.where(np.arange(3) == loud, 0.1, 0.01) * np.abs(true).max(axis=0)
    log = log_of(tmp_path, arm, run.q[::4], true + level * rng.normal(size=true.shape))
    missed, left = [], []
    for cutoff in (8.0, 32.0):
        settings = Settings(
            automatic=False,
            estimator=WLS(),
            rows=TorqueRows(),
            preparation=replace(USED, cutoff=cutoff),
            folds=3,
        )
        found = identify(arm, log, settings, diagnostics=Diagnostics(), threads=1)
        wrong = terms.torque(arm, samples, found.estimate.full_vector) - true
        missed.append(np.sqrt(np.mean(wrong[:, loud] ** 2)))
        left.append(np.sqrt(np.mean(found.training.residuals.error[:, loud] ** 2)))
    assert left[1] > 1.5 * left[0]
    assert missed[1] == pytest.approx(missed[0], rel=0.3)
    assert max(missed) < 0.3 * min(left)


# By hand.


def test_cut_offs_are_given_by_joint(arm: RobotModel, tmp_path: Path) -> None:
    _, q, tau = measured(2.0, [FINE, FINE, FINE])
    log = log_of(tmp_path, arm, q, tau)
    for given in ((COMMON, 4.0, COMMON), {"b": 4.0}):
        sink = Diagnostics()
        prepared = prepare(log, replace(USED, state_cutoff=given), sink)
        assert prepared.settings.state_cutoffs(3) == (COMMON, 4.0, COMMON)
        assert prepared.settings.trim == pytest.approx(1.0 / 4.0)
        (samples,) = prepared
        for joint, cutoff in enumerate(prepared.settings.state_cutoffs(3)):
            (alone,) = prepare(log, replace(USED, state_cutoff=cutoff))
            for name in ("q", "dq", "ddq"):
                found, wanted = getattr(samples, name)[:, joint], getattr(alone, name)[:, joint]
                # Windows of the same log overlap by what the slowest filter needs.
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    equal = prepare(log, replace(USED, state_cutoff=(4.0, 4.0, 4.0)))
    assert equal.settings == prepare(log, replace(USED, state_cutoff=4.0)).settings


@pytest.mark.parametrize(
    ("given", "identifier"),
    [((1.0, 2.0), "joint-count"), ({"d": 2.0}, "unknown-joint")],
)
def test_cut_offs_of_other_joints_are_refused(
    given: tuple[float, ...] | dict[str, float], identifier: str, arm: RobotModel, tmp_path: Path
) -> None:
    _, q, tau = measured(2.0, [FINE, FINE, FINE])
    log = log_of(tmp_path, arm, q, tau)
    with pytest.raises(UsageError) as caught:
        prepare(log, replace(USED, state_cutoff=given))
    assert caught.value.identifier == identifier
    assert "a, b, c" in str(caught.value)
