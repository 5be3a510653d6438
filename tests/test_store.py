"""Run folders: everything comes back, damage is reported, and nothing half-written stays."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import (
    Diagnostics,
    DynidError,
    Finding,
    InputError,
    Place,
    RefusedError,
    ResourceError,
    read_table,
    write_table,
)
from dynid.estimate import Known, Origin, Residuals, Sums, full_verdicts
from dynid.identification import DEFAULT_TERMS, Settings, identify, training_log
from dynid.log import read_log
from dynid.run import Identification, check_output, load, scores_from_dict, scores_to_dict, store
from dynid.signals import Preparation
from dynid.testing import random_robot, simulated_log
from dynid.verbs import (
    comparison_lines,
    difference_lines,
    identification_lines,
    overview_lines,
    save,
    write_scores,
)
from tests.command_line import RUN_FILES, Run


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    robot = random_robot(21, 2, 0.0)
    folder = tmp_path_factory.mktemp("logs")
    columns = DEFAULT_TERMS.columns(robot)
    theta = np.array([c.prior if np.isfinite(c.prior) else 0.5 for c in columns])
    logs = [
        read_log(
            simulated_log(folder / f"{i}.parquet", robot, DEFAULT_TERMS, theta, seconds=10.0, seed=i), robot
        )
        for i in (1, 2)
    ]
    diagnostics = Diagnostics()
    diagnostics.warn(
        "made-up", "a warning with a place", Place(file="a.csv", row=3, time=0.5, joint="joint1")
    )
    truth = {column.name: float(value) for column, value in zip(columns, theta, strict=True)}
    return identify(
        robot,
        logs[0],
        Settings(terms=DEFAULT_TERMS, preparation=Preparation(cutoff=6.0)),
        validation=logs[1],
        truth=truth,
        threads=1,
        diagnostics=diagnostics,
    )


@pytest.fixture(scope="module")
def folder(result: Identification, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    assert save(result, path) == path / "report.html"
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def same(a: object, b: object, path: str = "") -> None:
    """Equality in every field, through dataclasses, mappings and arrays; nan equals nan."""
    if isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b, err_msg=path)
    elif isinstance(a, dict) or hasattr(a, "keys"):
        assert set(a) == set(b), path  # type: ignore[call-overload]  # plain data
        for key in a:  # type: ignore[attr-defined]  # plain data
            same(a[key], b[key], f"{path}[{key!r}]")  # type: ignore[index]  # plain data
    elif isinstance(a, list | tuple):
        assert isinstance(b, list | tuple), path
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}[{i}]")
    elif hasattr(a, "__dataclass_fields__"):
        assert type(a) is type(b), path
        for name in a.__dataclass_fields__:
            same(getattr(a, name), getattr(b, name), f"{path}.{name}")
    elif isinstance(a, float) and np.isnan(a):
        assert isinstance(b, float), path
        assert np.isnan(b), path
    else:
        assert a == b, path


def test_everything_comes_back(result: Identification, folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == RUN_FILES
    assert [path.name for path in folder.parent.iterdir()] == ["run"]
    same(result, load(folder))


def test_saving_again_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    save(load(folder), tmp_path / "again")
    assert (tmp_path / "again" / "model.json").read_bytes() == (folder / "model.json").read_bytes()
    first, again = (json.loads((path / "run.json").read_text()) for path in (folder, tmp_path / "again"))
    assert again == first | {"folders": first["folders"] | {"run": str((tmp_path / "again").resolve())}}


def test_a_run_finds_its_files_from_any_folder_and_moved_with_them(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    shutil.copy(robot_file, project / "arm.toml")
    shutil.copy(train_log, project / "log.parquet")
    # A file of the same name where the run is read is another file.
    shutil.copy(robot_file, elsewhere / "arm.toml")
    monkeypatch.chdir(project)
    done = run("identify", "arm.toml", "log.parquet", "--out", "runs/first")
    assert done.code == 0, done.err
    # A run that names its files by absolute paths may move with them as well.
    done = run("identify", project / "arm.toml", project / "log.parquet", "--out", "runs/absolute")
    assert done.code == 0, done.err

    def files(run_folder: Path) -> tuple[object, ...]:
        loaded = load(run_folder)
        assert training_log(loaded, Diagnostics()) is not None
        assert len(loaded.provenance["logs"]) == 1  # type: ignore[arg-type]  # plain data
        (log,) = loaded.provenance["logs"]  # type: ignore[misc]  # plain data
        assert loaded.files["logs"] == [log]
        assert loaded.files["robot"] == loaded.robot.source
        return loaded.robot.source, log

    # Read where it was written, everything stays as it was named.
    assert files(project / "runs" / "first") == ("arm.toml", "log.parquet")
    monkeypatch.chdir(elsewhere)
    for name in ("first", "absolute"):
        assert files(project / "runs" / name) == (str(project / "arm.toml"), str(project / "log.parquet"))
    # A run folder that moves alone finds them where they were.
    (project / "runs" / "first").rename(elsewhere / "alone")
    assert files(elsewhere / "alone") == (str(project / "arm.toml"), str(project / "log.parquet"))
    (elsewhere / "alone").rename(project / "runs" / "first")
    moved = tmp_path / "moved"
    project.rename(moved)
    for name in ("first", "absolute"):
        assert files(moved / "runs" / name) == (str(moved / "arm.toml"), str(moved / "log.parquet"))
    (moved / "arm.toml").unlink()
    assert load(moved / "runs" / "first").robot.source == str(project / "arm.toml")


def test_the_files_can_be_read_without_dynid(result: Identification, folder: Path) -> None:
    model = json.loads((folder / "model.json").read_text())
    assert model["parameters"]["m1"]["unit"] == "kg"
    assert model["estimate"]["value"] == result.estimate.value.tolist()
    table = read_table(folder / "parameters.parquet")
    rank, p = result.estimate.base.rank, len(result.estimate.columns)
    assert table["kind"] == ["base"] * rank + ["full"] * p
    np.testing.assert_array_equal(table["value"][:rank], result.estimate.value)
    half = result.estimate.half_width()
    np.testing.assert_allclose(table["upper95"][:rank] - table["lower95"][:rank], 2 * half, rtol=1e-12)
    known = [v.known for v in full_verdicts(result.estimate, result.factors)]
    assert table["known"][rank:] == [str(one or "") for one in known]
    assert set(table["known"][:rank]) <= {str(one) for one in Known}
    residuals = read_table(folder / "residuals.parquet")
    assert set(residuals["set"]) == {0, 1}


def test_scores_without_meaning_survive() -> None:
    scores = Sums.of_arrays(np.zeros((5, 2)), np.ones((5, 2))).scores(Origin.HELD_OUT_LOG, ["a", "b"], ["t"])
    text = json.dumps(scores_to_dict(scores), allow_nan=False)
    back = scores_from_dict(json.loads(text))
    assert np.isnan(back.relative).all()
    assert np.isnan(back.total_relative)
    np.testing.assert_array_equal(back.rms, [1.0, 1.0])


def test_runs_without_residuals_survive(result: Identification, tmp_path: Path) -> None:
    bare = replace(
        result,
        training=replace(result.training, residuals=None),
        validations=tuple(replace(v, residuals=None) for v in result.validations),
    )
    store.write_residuals(bare, tmp_path / "r.parquet")
    assert store.read_residuals(tmp_path / "r.parquet", bare.robot, {}) == {}


# Refusals


def test_an_existing_folder_is_refused(result: Identification, copy: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(RefusedError, match="exists already"):
        save(result, copy)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_only_runs_are_replaced_by_force(result: Identification, copy: Path, tmp_path: Path) -> None:
    (copy / "report.html").write_text("old")
    save(result, copy, force=True)
    assert (copy / "report.html").read_text() != "old"
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    for foreign in ({}, {"run.json": "{}"}, {"manifest.json": '{"manifest_version": 3, "name": "add-on"}'}):
        for name, text in foreign.items():
            (precious / name).write_text(text)
        with pytest.raises(RefusedError, match="not a run folder"):
            save(result, precious, force=True)
        assert (precious / "thesis.tex").read_text() == "years of work"
    assert len(list(precious.iterdir())) == 3


@pytest.mark.parametrize("listed", [True, False])
def test_force_replaces_the_files_of_the_run_and_nothing_else(
    listed: bool, result: Identification, copy: Path
) -> None:
    if not listed:  # as runs were written before they had a list
        (copy / "manifest.json").unlink()
    (copy / "thesis.txt").write_text("years of work")
    (copy / "logs").mkdir()
    (copy / "logs" / "train.parquet").write_text("mine")
    (copy / "report.html").write_text("old")
    assert check_output(copy, force=True) == ("logs/", "thesis.txt")
    save(result, copy, force=True)
    assert (copy / "thesis.txt").read_text() == "years of work"
    assert (copy / "logs" / "train.parquet").read_text() == "mine"
    assert {path.name for path in copy.iterdir()} == RUN_FILES | {"thesis.txt", "logs"}
    manifest = json.loads((copy / "manifest.json").read_text())
    assert manifest["kind"] == "run"
    assert manifest["files"] == sorted(RUN_FILES - {"manifest.json"})
    assert manifest["sha256"] == {
        name: hashlib.sha256((copy / name).read_bytes()).hexdigest() for name in manifest["files"]
    }
    same(result, load(copy))


def test_an_output_that_holds_an_input_is_refused(copy: Path) -> None:
    for inside in (copy, copy / "logs" / "a.csv"):
        with pytest.raises(RefusedError, match="contains the input"):
            check_output(copy, (inside,), force=True)
    check_output(copy.parent / "new" / "deep", (copy / "a.csv",))


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot-write"):
        check_output(tmp_path / "file" / "run")


# Atomic writing


@pytest.mark.parametrize("step", ["_write_json", "write_parameters", "write_residuals", "write_factors"])
def test_a_failing_write_leaves_nothing(
    step: str, result: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, step, full)
    with pytest.raises(ResourceError, match="No space left on device"):
        save(result, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_another_kind_leaves_nothing_either(
    result: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(store, "write_factors", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        save(result, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_replacement_keeps_the_old_run(
    result: Identification, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "model.json" and ".partial" in str(self.parent):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(ResourceError, match="Input/output error"):
        save(result, copy, force=True)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


# Damage


def test_what_is_no_run_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="not-a-run"):
            load(path)


UNREAD = {"links.parquet", "parameters.parquet", "report.html", "manifest.json"}


@pytest.mark.parametrize("name", sorted(RUN_FILES - UNREAD))
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbage"])
def test_damaged_files_are_reported(name: str, damage: str, copy: Path) -> None:
    path = copy / name
    if damage == "missing":
        path.unlink()
    else:
        whole = path.read_bytes()
        path.write_bytes(
            {"empty": b"", "cut": whole[: len(whole) // 2], "garbage": b"\xff\x00" * 500}[damage]
        )
    with pytest.raises(InputError) as error:
        load(copy)
    assert str(copy) in str(error.value)


@pytest.mark.parametrize(
    ("name", "where", "value"),
    [
        ("run.json", ("format",), 99),
        ("run.json", ("verdict",), None),
        ("run.json", ("scores",), []),
        ("run.json", ("scores", 0, "rms"), [1.0]),
        ("run.json", ("scores", 0, "origin"), "guess"),
        ("run.json", ("residuals",), []),
        ("run.json", ("diagnostics",), [1]),
        ("model.json", ("robot", "parent"), [0, 0]),
        ("model.json", ("robot", "axis"), "z"),
        ("model.json", ("terms",), ["rigid_bdy"]),
        ("model.json", ("terms",), ["rigid_body"]),
        ("model.json", ("estimate", "value"), [1.0]),
        ("model.json", ("estimate", "base", "B"), [[1.0, 2.0], [3.0]]),
        ("model.json", ("estimate", "base", "scale", 0), 1e308),
        ("model.json", ("estimate", "weights", 0), 1e308),
        ("model.json", ("estimate", "value", 0), None),
        ("model.json", ("structural",), {}),
    ],
)
def test_wrong_content_is_reported(
    name: str, where: tuple[str | int, ...], value: object, copy: Path
) -> None:
    data = json.loads((copy / name).read_text())
    inner = data
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    (copy / name).write_text(json.dumps(data))
    with pytest.raises(InputError) as error:
        load(copy)
    assert str(copy) in str(error.value)


def test_factors_of_another_model_are_reported(copy: Path) -> None:
    table = read_table(copy / "factors.parquet")
    table["columns"] = [[c + 1000 for c in columns] for columns in table["columns"]]
    write_table(copy / "factors.parquet", table)
    with pytest.raises(InputError, match="damaged-run"):
        load(copy)


@pytest.mark.parametrize("size", [float("nan"), float("inf"), 1e100])
@pytest.mark.parametrize("column", ["R", "sums", "abs"])
def test_factors_of_no_size_are_reported(column: str, size: float, copy: Path) -> None:
    table = read_table(copy / "factors.parquet")
    if column == "abs":
        table[column][0] = size
    else:
        table[column][0][0] = size
    write_table(copy / "factors.parquet", table)
    with pytest.raises(InputError, match="damaged-run"):
        load(copy)


@pytest.mark.parametrize(("column", "size"), [("t", float("nan")), ("measured", 1e40), ("q", -float("inf"))])
def test_residuals_of_no_size_are_reported(column: str, size: float, copy: Path) -> None:
    table = read_table(copy / "residuals.parquet")
    name = next(one for one in table if one == column or one.startswith(f"{column}_"))
    table[name][3] = size
    write_table(copy / "residuals.parquet", table)
    with pytest.raises(InputError, match="damaged-run"):
        load(copy)


# Text


def test_summaries(result: Identification) -> None:
    lines = identification_lines(result)
    assert lines[0].startswith(result.verdict.level.upper())
    assert sum("torque error" in line for line in lines) == 2
    table = comparison_lines([("one", result), ("other", result)])
    assert any(line.startswith("joint1") for line in table)
    assert difference_lines([("one", result), ("other", result)]) == [
        "base parameters that differ beyond their 95 % intervals: 0"
    ]


def test_the_overview_fits_a_terminal_and_has_every_joint_once(result: Identification) -> None:
    """Verdict, uses, error and mass per joint, and the worst findings, each with the command that explains it."""
    added = [
        Finding(
            "warning", f"kind{k}", "a first clause; and more", Place(joint=f"joint{j}"), title=f"Log: kind{k}"
        )
        for k in range(4)
        for j in (1, 2)
    ]
    doubt = Finding("doubt", "torque-sign", "turned", title="Doubt: torque-sign")
    problem = Finding("problem", "large-error", "of all", title="Torque error of 30 %")
    lines = overview_lines(
        replace(result, verdict=replace(result.verdict, findings=(*added, doubt, problem)))
    )
    assert len(lines) <= 24  # with the place of the report, 25
    scores = result.validations[0].scores
    for j, joint in enumerate(scores.joint_names):
        (line,) = [line for line in lines if line.startswith(f"  {joint} ")]
        assert f"{100 * scores.relative[j]:.3g} %" in line
    assert [line.split() for line in lines[-4:-1]] == [
        ["x", "Torque", "error", "of", "30", "%", "dynid", "explain", "large-error"],
        *(f"! joint1, joint2: a first clause dynid explain kind{k}".split() for k in range(2)),
    ]
    assert lines[-1].strip() == "and 2 more: see the report, or -v"
    assert max(map(len, lines[-4:])) <= 100


def test_many_findings_of_a_kind_are_one_line_of_a_summary(result: Identification) -> None:
    same = [
        Finding("warning", "inertia-not-psd", f"link {k}", title="Log: inertia-not-psd") for k in range(4)
    ]
    other = Finding("warning", "payload", "0.9 kg", title="Log: payload")
    for count, lines in ((2, 2), (4, 1)):
        verdict = replace(result.verdict, findings=(*same[:count], other))
        said = "\n".join(identification_lines(replace(result, verdict=verdict)))
        assert said.count("Log: inertia-not-psd") == lines
        assert said.count("Log: payload") == 1
    assert "3 more of this kind" in said
    ripple = [
        Finding("warning", "gear-ripple", f"{k} waves", title=f"joint{k}: torque ripple of the gear")
        for k in range(1, 5)
    ]
    verdict = replace(result.verdict, findings=(ripple[0], other, *ripple[1:]))
    said = [line for line in identification_lines(replace(result, verdict=verdict)) if "ripple" in line]
    assert [line.split(" (")[0] for line in said[:1]] == [" ! joint1: torque ripple of the gear. 1 waves"]
    assert said[0].endswith("(3 more of this kind on joint2, joint3, joint4: see the report.)")
    apart = replace(result.verdict, findings=(same[0], other, same[1]))
    lines = [line for line in identification_lines(replace(result, verdict=apart)) if "Log: " in line]
    assert [line.split("Log: ")[1].split(".")[0] for line in lines] == [
        "inertia-not-psd",
        "payload",
        "inertia-not-psd",
    ]


def test_scores_are_written_once(result: Identification, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    write_scores(path, result.training.scores)
    same(result.training.scores, scores_from_dict(json.loads(path.read_text())))
    with pytest.raises(RefusedError):
        write_scores(path, result.training.scores)
    write_scores(tmp_path / "new" / "folder.json", result.training.scores)
    assert (tmp_path / "new" / "folder.json").read_bytes() == path.read_bytes()
    with pytest.raises(ResourceError):
        write_scores(path / "folder.json", result.training.scores)
    assert {p.name for p in tmp_path.iterdir()} == {"scores.json", "new"}


def test_residuals_are_checked(result: Identification) -> None:
    one = result.training.residuals
    assert isinstance(one, Residuals)
    with pytest.raises(DynidError, match="array-shape"):
        replace(one, q=one.q[:, :1])
