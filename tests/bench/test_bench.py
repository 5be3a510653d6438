"""The benchmark: recipes, made sets, scores, rows, the page and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynid_bench import scores
from dynid_bench.bodies import write_urdf
from dynid_bench.command import command
from dynid_bench.contract import pendulum, pendulum_set
from dynid_bench.data import open_set, read_recipe, recipes
from dynid_bench.figure import errors_svg
from dynid_bench.made import MADE, Effects, Plant, Reference, made_elastic_arm, recorded
from dynid_bench.methods import METHODS, method_named
from dynid_bench.report import html, markdown
from dynid_bench.run import read_rows, row_of, run_campaign
from dynid_bench.wrench import METHODS as POSE_METHODS
from dynid_bench.wrench import pose_recipes, read_pose_recipe, read_pose_rows, score, splits
from scipy.spatial.transform import Rotation

from dynid.base import InputError, InputErrors, RefusedError, UsageError
from dynid.cli.plugins import COMMANDS
from tests.command_line import Run

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"


def rigid(plant: Plant) -> Plant:
    """The plant with viscous and dry friction and nothing else."""
    return replace(plant, stiffness=None, effects=Effects(plant.effects.viscous, plant.effects.coulomb))


# Recipes.


@pytest.mark.parametrize("path", recipes().values(), ids=recipes())
def test_recipes_are_complete(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe.name == path.stem
    assert all(len(digest) == 64 for digest in recipe.files.values())
    assert recipe.split.held_out


def test_another_file_than_the_recipes_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "krang_lwa3"
    folder.mkdir()
    with pytest.raises(InputError, match="no such file"):
        open_set("krang_lwa3", tmp_path)
    (folder / "data.parquet").write_text("another file")
    with pytest.raises(InputError, match="SHA-256"):
        open_set("krang_lwa3", tmp_path)
    with pytest.raises(UsageError, match="did you mean 'krang_lwa3'"):
        open_set("krang", tmp_path)
    with pytest.raises(UsageError, match="no folder of fetched logs"):
        open_set("krang_lwa3", None)


def test_a_recipe_with_a_wrong_key_names_its_line(tmp_path: Path) -> None:
    text = recipes()["z1_pace"].read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("cutoff = 8.0", "cutof = 8.0"))
    with pytest.raises(InputErrors, match="cutof"):
        read_recipe(path)
    path.write_text(text.replace("same = ", "sideways = "))
    with pytest.raises(InputError, match="region 'sideways'"):
        read_recipe(path)


# Made sets.


@pytest.mark.parametrize("name", MADE)
def test_made_sets_follow_from_their_seed(name: str) -> None:
    first, again, other = MADE[name](3), MADE[name](3), MADE[name](4)
    assert np.array_equal(first.scale, again.scale)
    assert not np.array_equal(first.scale, other.scale)
    masses = np.array([[body.inertial[0] for body in bodies] for bodies in (first.bodies, first.prior)])
    off = np.abs(masses[1] / masses[0] - 1.0)
    assert (off > 0.04).all()
    assert (off < 0.31).all()
    motion = recorded(first, Reference.series(first, np.random.default_rng(0)), 1.0, np.random.default_rng(0))
    assert motion.q.shape == (250, first.n)
    assert (motion.dq is None) is not first.logs_velocity


def test_effects_are_what_least_squares_misses(tmp_path: Path) -> None:
    plant = made_elastic_arm(7)
    errors = []
    for i, made in enumerate((rigid(plant), plant)):
        logs = [
            recorded(
                made, Reference.series(made, np.random.default_rng(k)), seconds, np.random.default_rng(k)
            )
            for k, seconds in ((0, 8.0), (1, 4.0))
        ]
        dataset = replace(
            pendulum_set(),
            bodies=made.prior,
            motors=np.zeros((0, made.n)),
            train=logs[:1],
            held_out={"same": logs[1:]},
        )
        row = row_of(dataset, METHODS["least-squares"], tmp_path / str(i), None, 120.0)
        errors.append(row["torque"]["same"]["moving"])
    assert errors[0] < 0.02  # the noise of the torque, and the step of friction
    assert errors[1] > 3.0 * errors[0]


def test_the_true_robot_replays_what_it_did(tmp_path: Path) -> None:
    plant = replace(rigid(made_elastic_arm(7)), counts=2.0**24)
    plant = replace(plant, effects=Effects(0.0 * plant.scale, 0.0 * plant.scale))
    motion = recorded(plant, Reference.series(plant, np.random.default_rng(1)), 3.0, np.random.default_rng(1))
    joints = [body.joint for body in plant.bodies]
    truth, prior = tmp_path / "truth.xml", write_urdf(tmp_path / "prior.urdf", plant.prior)
    truth.write_text(plant.truth())
    case = scores.case_of(motion, 8.0)
    errors = [scores.replay_error(scores.model_file(path), joints, case, motion) for path in (truth, prior)]
    assert errors[0] < 0.2 * errors[1]
    models = [scores.model_file(path) for path in (truth, prior)]
    assert scores.inertia_error(models[0], models[0], joints) == 0.0
    assert scores.inertia_error(models[1], models[0], joints) > 0.1


# Scores.


def test_torque_errors_are_shares_of_the_torque() -> None:
    case = scores.case_of(pendulum(6.0, 0.0), 8.0)
    raw = pendulum(6.0, 0.0)
    exact = np.interp(case.states.t, raw.t, raw.tau[:, 0])[:, None]
    assert scores.torque_errors([case], [exact])["all"] < 0.01
    assert scores.torque_errors([case], [0.0 * exact])["moving"] == pytest.approx(1.0)
    assert scores.torque_errors([case], [1.1 * case.tau])["all"] == pytest.approx(0.1, rel=0.05)
    with pytest.raises(ValueError, match="not finite"):
        scores.torque_errors([case], [np.nan * exact])


def test_links_that_cannot_exist_are_refused(tmp_path: Path) -> None:
    body = pendulum_set().bodies[0]
    inertia = np.array([1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.3])
    path = write_urdf(tmp_path / "robot.urdf", [replace(body, inertia=inertia)])
    with pytest.raises(ValueError, match="inertia"):
        scores.model_file(path)
    border = replace(body, inertia=np.array([1.0, 0, 0, 0, 0.1, 0, 0.1, 0, 0, 0.2 * (1 + 1e-9)]))
    scores.model_file(write_urdf(tmp_path / "robot.urdf", [border]))


def test_right_intervals_agree_in_95_of_100_pairs() -> None:
    rng = np.random.default_rng(0)
    recordings = [{f"p{i}": (5.0 + rng.normal(), 1.96) for i in range(400)} for _ in range(3)]
    share, width, pairs = scores.agreement(recordings)
    assert pairs == 1200
    assert share == pytest.approx(0.95, abs=0.02)
    assert width == pytest.approx(0.39, abs=0.03)
    narrow = [{name: (value, 0.98) for name, (value, _) in record.items()} for record in recordings]
    assert scores.agreement(narrow)[0] < 0.75


# Poses under a wrist sensor.


@pytest.mark.parametrize("method", POSE_METHODS)
def test_a_load_is_found_from_poses_in_either_axes(method: str, tmp_path: Path) -> None:
    recipe = read_pose_recipe(pose_recipes()["ati_wrist"])
    assert all(sorted(np.concatenate(folds)) == list(range(23)) for folds in splits(23, 5).values())
    rng, bias = np.random.default_rng(0), np.array([3.0, -2.0, 7.0, 0.05, -0.02, 0.01])
    turns = Rotation.random(60, rng)
    # The weight of 1.4 kg, 60 mm before the sensor, which reports the wrench of the load.
    force = 1.4 * turns.inv().apply([0.0, 0.0, -9.81])
    read = np.hstack([force, np.cross([0.0, 0.0, 0.06], force)]) + bias
    read += 1e-3 * rng.normal(size=read.shape) * [1.0, 1.0, 1.0, 0.03, 0.03, 0.03]
    for frame in ("sensor", "base"):
        shown = read if frame == "sensor" else np.hstack([turns.apply(read[:, :3]), turns.apply(read[:, 3:])])
        table = tmp_path / f"{frame}.csv"
        values = np.hstack([turns.as_quat(), shown])
        np.savetxt(table, values, delimiter=",", header="qx,qy,qz,qw,fx,fy,fz,tx,ty,tz", comments="")
        for found in score(table, recipe.model_copy(update={"frame": frame}), method, tmp_path).values():
            assert found["force"] < 0.002
            assert found["moment"] < 6e-5
            assert all(abs(mass - 1.4) < half for mass, half in found["masses"])


# The page and the command.


def test_the_made_sets_run_by_one_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS._added, "bench", command)
    monkeypatch.delenv("DYNID_DATA", raising=False)
    out = tmp_path / "out"
    words = (
        "bench",
        "run",
        "--made",
        "--quick",
        "--methods",
        "dynid,least-squares",
        "--seed",
        "5",
        "--out",
        out,
    )
    outcome = run(*words)
    assert outcome.code == 0
    assert outcome.out.count("torque error same") == 4
    rows = {(row["set"], row["method"]): row for row in read_rows(out)}
    for name in MADE:
        ours, reference = (
            np.mean([score["moving"] for score in rows[name, method]["torque"].values()])
            for method in ("dynid", "least-squares")
        )
        assert ours < reference
    assert run(*words).out == ""  # nothing is repeated
    assert run("bench", "report", "--out", out, "--page", tmp_path / "page.md").code == 0
    assert (tmp_path / "page.md").read_text() == (out / "benchmark.md").read_text()
    assert (tmp_path / "images" / "benchmark.svg").read_text() in (out / "benchmark.html").read_text()
    page = (out / "benchmark.html").read_text()
    assert "<script" not in page
    assert "made_rail_arm" in page


def test_wrong_words_are_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS._added, "bench", command)
    for words in (
        ("race",),
        ("run", "--robots", "nobody"),
        ("run", "--methods", "magic"),
        ("run", "--robots", "x", "--made"),
    ):
        assert run("bench", *words, "--out", tmp_path / "out").code == 2
    assert run("bench", "report", "--out", tmp_path / "out").code == 3
    assert "figaroh" in run("bench", "methods").out
    assert "krang_lwa3" in run("bench", "sets").out


def test_rows_of_other_seeds_are_not_mixed(tmp_path: Path) -> None:
    methods = [method_named("flobaroid")]
    run_campaign(["made_rail_arm"], methods, tmp_path, None, None, quick=True)
    with pytest.raises(RefusedError, match="another split"):
        run_campaign(["made_rail_arm"], methods, tmp_path, None, None, seed=1, quick=True)


def test_names_in_the_data_cannot_inject_html() -> None:
    about = {"a": {**pendulum_set().about(), "title": "<script>x</script>"}}
    row = {
        "set": "a",
        "method": "<b>",
        "title": "t",
        "message": "|<i>",
        "packages": {},
        "seconds": 1.0,
        "lines": 1,
    }
    page = html([row], about)
    assert "<script>" not in page
    assert "<i>" not in page
    assert "<b>:" not in page


def test_the_page_is_that_of_the_kept_rows() -> None:
    about = json.loads((RESULTS / "about.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    assert page == markdown(read_rows(RESULTS), about, read_pose_rows(RESULTS))
    figure = (ROOT / "docs" / "images" / "benchmark.svg").read_text(encoding="utf-8")
    assert figure == errors_svg(read_rows(RESULTS), about)
