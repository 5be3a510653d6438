"""Plans beside what was recorded: text of every family, the simulator, tracking error, delay, missing parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, InputError, UnfitDataError, UsageError
from dynid.excitation import track_any, union_missing
from dynid.excitation.tracking import track
from dynid.log import write_log
from dynid.robot import load_example
from dynid.trajectories import (
    BasisTrajectory,
    FourierBasis,
    FourierTrajectory,
    SmoothMoves,
    SplineBasis,
    Together,
    TorqueSinusoids,
    Trajectory,
    from_json,
    joints_of,
    parts_of,
    read_motion,
    to_json,
)
from tests.command_line import Run

ROBOT = load_example("arm7")
RNG = np.random.default_rng(0)
PAIR = Together((FourierBasis(6.0, 2, 0.4, 1.5), SplineBasis(5.0, 9)))
NAMES = ("a", "b")


def drawn(basis: FourierBasis | SplineBasis | Together, n: int = 2) -> BasisTrajectory:
    return BasisTrajectory(basis, np.random.default_rng(basis.size).normal(0.0, 0.4, (basis.size, n)))


MOTIONS: dict[str, Trajectory] = {
    "fourier": drawn(FourierBasis(8.0, 3, 0.25, 1.5)),
    "spline": drawn(SplineBasis(8.0, 12)),
    "knots": drawn(SplineBasis(8.0, 0, (1.0, 2.0, 3.5, 4.0, 5.0, 6.5, 7.0))),
    "moves": SmoothMoves(RNG.normal(size=(4, 2)), np.ones(3), np.full(3, 0.6), np.full(3, 0.2)),
    "together": drawn(PAIR),
}


@pytest.mark.parametrize("name", MOTIONS)
def test_text_gives_the_motion_back(name: str) -> None:
    motion = MOTIONS[name]
    same = from_json(to_json(motion))
    assert to_json(same) == to_json(motion)
    assert same.duration == motion.duration
    t = np.linspace(-1.0, motion.duration + 1.0, 501)
    for a, b in zip(motion.motion(t), same.motion(t), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize(
    "text", ["", "3", "[]", "{}", '{"kind": "spline", "format": 1}', '{"kind": "waltz", "format": 1}',
             '{"kind": "moves", "format": 2}', '{"kind": "chain", "format": 1, "parts": []}',
             '{"kind": "spline", "format": 1, "duration": 8, "pieces": 12, "breaks": [], "coefficients": [[1, NaN]]}']
)  # fmt: skip
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="trajectory-json"):
        from_json(text)


def test_a_family_without_text_is_named() -> None:
    one = np.ones((2, 1))
    with pytest.raises(UsageError, match="TorqueSinusoids"):
        to_json(TorqueSinusoids(np.ones(2), one, one, one))  # type: ignore[arg-type]  # wrong on purpose


def test_motions_together_are_their_parts_in_a_row() -> None:
    whole = MOTIONS["together"]
    assert isinstance(whole, BasisTrajectory)
    parts = parts_of(whole)
    assert [part.duration for part in parts] == [6.0, 5.0]
    t = np.linspace(0.0, 11.0, 400)
    for values, (first, second) in zip(
        whole.motion(t), zip(parts[0].motion(t), parts[1].motion(t - 6.0), strict=True), strict=True
    ):
        np.testing.assert_allclose(values, np.where((t < 6.0)[:, None], first, second), atol=1e-12)
    B = PAIR.values(t)
    h = 1e-5
    inside = (np.abs(t - 6.0) > h) & (t > h) & (t < 11.0 - h)
    ahead, behind = PAIR.values(t + h), PAIR.values(t - h)
    for order in range(3):
        slope = (ahead[order] - behind[order])[inside] / (2 * h)
        np.testing.assert_allclose(slope, B[order + 1][inside], atol=1e-4 * np.abs(B[order + 1]).max())


def test_parts_that_do_not_meet_are_refused() -> None:
    one = FourierTrajectory.random(ROBOT, 10.0, 3, 0)
    other = FourierTrajectory.random(ROBOT, 10.0, 3, 1)
    with pytest.raises(InputError, match="does not start where"):
        from_json(
            json.dumps(
                {"kind": "chain", "format": 1, "parts": [json.loads(to_json(x)) for x in (one, other)]}
            )
        )
    with pytest.raises(UsageError, match="no motion"):
        Together(())


def followed(motion: Trajectory, start: float, late: Float, offset: Float, t: Float) -> Float:
    return np.stack([motion.motion(t - start - d)[0][:, j] + offset[j] for j, d in enumerate(late)], axis=1)


@pytest.mark.parametrize("name", ["fourier", "spline", "moves"])
def test_start_delay_and_offset_are_found(name: str) -> None:
    motion = MOTIONS[name]
    t = np.arange(100.0, 100.0 + motion.duration + 7.0, 0.004)
    late, offset = np.array([0.003, -0.004]), np.array([0.001, -0.002])
    noise = np.random.default_rng(1).normal(0.0, 1e-5, (len(t), 2))
    found = track(motion, NAMES, t, followed(motion, 103.2, late, offset, t) + noise)
    np.testing.assert_allclose(found.start + found.delay, 103.2 + late, atol=2e-4)
    np.testing.assert_allclose(found.offset, offset, atol=2e-5)
    assert found.missing.shape == (0, 2)
    exact = track(motion, NAMES, t, followed(motion, 103.2, np.zeros(2), np.zeros(2), t))
    assert exact.start == pytest.approx(103.2, abs=1e-6)
    assert exact.worst.max() < 1e-6


def test_what_is_missing_is_named() -> None:
    motion = MOTIONS["fourier"]
    t = np.arange(0.0, 10.0, 0.01)
    kept = ((t > 1.5) & (t < 4.0)) | ((t > 4.6) & (t < 7.3))
    q = followed(motion, 0.5, np.zeros(2), np.zeros(2), t)
    found = track(motion, NAMES, t[kept], q[kept])
    np.testing.assert_allclose(found.missing, [[0.0, 1.01], [3.49, 4.11], [6.79, 8.0]], atol=0.02)
    late = (t > 3.0) & (t < 9.0)
    other = track(motion, NAMES, t[late], q[late])
    np.testing.assert_allclose(union_missing([found, other]), [[0.0, 1.01]], atol=0.02)
    assert union_missing([]).shape == (0, 2)


def test_one_of_several_motions_is_found_in_its_place() -> None:
    whole = MOTIONS["together"]
    t = np.arange(0.0, 5.0, 0.005)
    found = track(whole, NAMES, t, parts_of(whole)[1].motion(t)[0])
    assert found.start == pytest.approx(-6.0, abs=1e-6)
    np.testing.assert_allclose(found.missing, [[0.0, 6.0]], atol=0.02)


def test_one_of_several_motions_with_rest_around_it_is_recognised_in_the_whole() -> None:
    whole = MOTIONS["together"]
    t = np.arange(0.0, 16.0, 0.005)
    for part, (motion, start) in enumerate(zip(parts_of(whole), (0.0, 6.0), strict=True), start=1):
        found = track_any(whole, NAMES, t, motion.motion(t - 4.0)[0])
        assert found.part == part
        assert found.start == pytest.approx(4.0, abs=1e-6)
        assert found.worst.max() < 1e-6
        assert np.diff(found.missing).sum() == pytest.approx(11.0 - motion.duration, abs=0.1)
        assert (found.worst_at >= start).all()
    cut = t < 6.5
    found = track_any(whole, NAMES, t[cut], parts_of(whole)[1].motion(t[cut] - 4.0)[0])
    np.testing.assert_allclose(found.missing, [[0.0, 6.0], [8.5, 11.0]], atol=0.02)
    cut = t < 7.5
    found = track_any(whole, NAMES, t[cut], parts_of(whole)[0].motion(t[cut] - 3.0)[0])
    assert found.worst.max() < 1e-6
    found = track_any(whole, NAMES, t, whole.motion(t - 2.0)[0])
    assert (found.part, found.missing.shape) == (0, (0, 2))
    with pytest.raises(UnfitDataError, match="plan-not-found"):
        track_any(whole, NAMES, t, drawn(SplineBasis(16.0, 30)).motion(t)[0])


def test_another_motion_is_refused() -> None:
    t = np.arange(0.0, 12.0, 0.01)
    with pytest.raises(UnfitDataError, match="plan-not-found"):
        track(MOTIONS["fourier"], NAMES, t, drawn(SplineBasis(12.0, 20)).motion(t)[0])
    with pytest.raises(UnfitDataError, match="plan-not-found"):
        track(MOTIONS["fourier"], NAMES, t, np.tile(MOTIONS["fourier"].motion(np.zeros(1))[0], (len(t), 1)))
    with pytest.raises(UnfitDataError, match="usable rows"):
        track(MOTIONS["fourier"], NAMES, t, np.full((len(t), 2), np.nan))


def plan_folder(folder: Path, motion: Trajectory, joints: tuple[str, ...]) -> Path:
    folder.mkdir()
    (folder / "trajectory.json").write_text(to_json(motion))
    (folder / "plan.json").write_text(json.dumps({"joints": list(joints)}))
    return folder


def test_the_simulator_follows_splines_and_the_check_finds_them(
    run: Run, robot_file: Path, tmp_path: Path
) -> None:
    names = ("shoulder", "elbow")
    plan = plan_folder(tmp_path / "traj", drawn(SplineBasis(8.0, 12)), names)
    log = tmp_path / "log.parquet"
    assert run("simulate", robot_file, "--trajectory", plan, "--out", log).code == 0
    done = run("check", robot_file, log, "--plan", plan)
    assert done.code == 0, done.err
    assert "the plan starts at 0.000 s" in done.out
    assert "share of the plan in the log: 100.0 %" in done.out
    other = plan_folder(tmp_path / "other", drawn(SplineBasis(8.0, 13)), names)
    done = run("check", robot_file, log, "--plan", other)
    assert (done.code, "plan-not-found" in done.err) == (4, True), done.err
    for joints, motion in ((("elbow", "shoulder"), drawn(SplineBasis(8.0, 12))), (names, MOTIONS["fourier"])):
        wrong = plan_folder(tmp_path / joints[0], motion, joints)
        done = run("check", robot_file, log, "--plan", wrong)
        assert done.code in (2, 4), done.err
    done = run("check", robot_file, log, "--plan", tmp_path / "nothing")
    assert (done.code, "no such file" in done.err) == (3, True), done.err


def test_the_check_warns_of_loose_late_and_lost(run: Run, robot_file: Path, tmp_path: Path) -> None:
    motion = drawn(FourierBasis(10.0, 3, 0.2, 1.5))
    plan = plan_folder(tmp_path / "traj", motion, ("shoulder", "elbow"))
    t = np.arange(0.0, 9.0, 0.005)
    q = followed(motion, 0.0, np.array([0.05, -0.05]), np.zeros(2), t)
    tau = 1.0 + np.cos(q) * 5.0 + RNG.normal(0, 0.01, q.shape)
    columns = {f"q_{j}": q[:, i] for i, j in enumerate(("shoulder", "elbow"))}
    columns |= {f"tau_{j}": tau[:, i] for i, j in enumerate(("shoulder", "elbow"))}
    log = write_log(tmp_path / "log.parquet", t, columns)
    done = run("check", robot_file, log, "--plan", plan)
    for word in ("plan-delay", "plan-incomplete", "plan-tracking"):
        assert word in done.err, (done.code, done.out, done.err)
    assert "missing: 9." in done.out or "missing: 8.9" in done.out


def test_a_plan_folder_must_be_whole(tmp_path: Path) -> None:
    folder = plan_folder(tmp_path / "traj", MOTIONS["moves"], NAMES)
    assert read_motion(folder).joints == NAMES
    assert joints_of(read_motion(folder / "trajectory.json").trajectory) == 2
    (folder / "plan.json").write_text("{}")
    with pytest.raises(InputError, match="plan-json"):
        read_motion(folder)
    (folder / "plan.json").write_text('{"joints": ["one"]}')
    with pytest.raises(InputError, match="1 joint names"):
        read_motion(folder)
    (folder / "trajectory.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_motion(folder)
