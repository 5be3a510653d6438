"""A campaign: every method on every set, a row for each, kept as JSON lines."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import mujoco

from dynid.base import RefusedError
from dynid_bench import scores
from dynid_bench.data import open_set, recipe_path, write_robot
from dynid_bench.dataset import DataSet
from dynid_bench.made import MADE
from dynid_bench.methods import Method, Ran, run_method, stamp
from dynid_bench.protocol import Motion, Task

ROWS, ABOUT = "rows.jsonl", "about.json"
Row = dict[str, Any]


def rules_digest(name: str) -> str:
    """Digest of the scores and of the recipe or generator of a set: rows of other digests cannot be compared."""
    package, total = Path(str(files("dynid_bench"))), hashlib.sha256()
    split = [package / "made.py", package / "bodies.py"] if name in MADE else [recipe_path(name)]
    for file in [package / "scores.py", *split]:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def read_rows(out: Path) -> list[Row]:
    """Rows of a campaign's folder."""
    path = out / ROWS
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run_campaign(
    sets: Sequence[str],
    methods: Sequence[Method],
    out: Path,
    data: Path | None,
    environments: Path | None,
    *,
    seed: int = 0,
    quick: bool = False,
    limit: float = 900.0,
    again: bool = False,
    intervals: bool = True,
    announce: Callable[[str], object] = lambda text: None,
) -> list[Row]:
    """Run methods on sets; rows that the folder has already are not repeated.

    Parameters
    ----------
    sets : sequence of str
        Sets.
    methods : sequence of Method
        Methods.
    out : Path
        Folder for rows and descriptions.
    data, environments : Path or None
        Folders of fetched logs and of environments.
    seed : int
        Draws the made sets.
    quick : bool
        Whether made sets are shortened.
    limit : float, s
        Wall time of a method on a set.
    again : bool
        Whether rows of these sets and methods are made anew.
    intervals : bool
        Whether separate recordings are identified as well, which takes several times as long.
    announce : callable
        Gets a line for each row.

    Returns
    -------
    list of dict
        All rows of the folder.

    Raises
    ------
    RefusedError
        If the folder has rows with other splits, scores or seeds.

    """
    out.mkdir(parents=True, exist_ok=True)
    rows, about = read_rows(out), _about(out)
    names = [method.name for method in methods]
    if again:
        rows = [row for row in rows if not (row["set"] in sets and row["method"] in names)]
    for name in sets:
        rules = {"rules": rules_digest(name), "seed": seed, "quick": quick}
        if any(row[key] != rules[key] for row in rows if row["set"] == name for key in rules):
            raise RefusedError(
                "bench-rules",
                found=f"rows of {name} with another split, score or seed",
                expected="rows that can be compared",
                do=f"name another folder, or remove '{out}'",
            )
        done = {row["method"] for row in rows if row["set"] == name}
        waiting = [method for method in methods if method.name not in done]
        if not waiting:
            continue
        dataset = open_set(name, data, seed, quick)
        about[dataset.name] = dataset.about()
        for method in waiting:
            with tempfile.TemporaryDirectory() as folder:
                row = {**rules, **row_of(dataset, method, Path(folder), environments, limit, intervals)}
            rows.append(row)
            _write(out, rows, about)
            announce(line_of(row))
    return rows


def _about(out: Path) -> dict[str, Any]:
    path = out / ABOUT
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _write(out: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    (out / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (out / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def row_of(
    dataset: DataSet,
    method: Method,
    scratch: Path,
    environments: Path | None,
    limit: float,
    intervals: bool = True,
) -> Row:
    """Run a method on a set and score it; a method that fails gives a row with its message."""
    cases = {
        region: [scores.case_of(motion, dataset.cutoff) for motion in motions]
        for region, motions in dataset.held_out.items()
    }
    ran = _run(dataset, method, cases, scratch / "main", environments, limit, dataset.train, dataset.loaded)
    row: Row = {
        "set": dataset.name,
        "method": method.name,
        "title": method.title,
        "date": stamp(),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "message": ran.message,
        "packages": ran.packages,
        "seconds": round(ran.seconds, 1),
        "lines": method.lines,
    }
    if ran.answer is None:
        return row
    row["settings"] = ran.answer.settings
    try:
        row["torque"] = {
            region: scores.torque_errors(
                parts, [ran.answer.torque[f"{region}-{i}"] for i in range(len(parts))]
            )
            for region, parts in cases.items()
        }
    except (KeyError, ValueError) as error:
        row["message"] = f"no torque to score: {error}"
        return row
    row.update(_model_scores(dataset, ran, cases))
    if dataset.payload is not None and ran.answer.payload is not None:
        mass, half = ran.answer.payload
        row["payload"] = [mass, half, dataset.payload]
    if intervals and dataset.repeats and ran.answer.parameters:
        row["intervals"] = _intervals(dataset, method, ran, scratch, environments, limit)
    return row


def _run(
    dataset: DataSet,
    method: Method,
    cases: Mapping[str, Sequence[scores.Case]],
    folder: Path,
    environments: Path | None,
    limit: float,
    train: Sequence[Motion],
    loaded: Sequence[Motion],
) -> Ran:
    folder.mkdir(parents=True)
    robot, source = write_robot(dataset, folder)
    held_out = {
        f"{region}-{i}": case.states for region, parts in cases.items() for i, case in enumerate(parts)
    }
    prepared = [scores.case_of(motion, dataset.cutoff).training() for motion in train]
    task = Task(
        dataset.name, dataset.joints, robot, source, train, prepared, held_out, loaded, dataset.cutoff,
        dataset.gravity, dataset.has_priors, dataset.motors, dataset.servo,
    )  # fmt: skip
    return run_method(method, task, folder, environments, limit)


def _model_scores(dataset: DataSet, ran: Ran, cases: Mapping[str, Sequence[scores.Case]]) -> Row:
    # Of the file that a user would simulate, as MuJoCo reads it.
    if ran.answer is None or not ran.answer.model:
        return {"export": "none"}
    try:
        model = scores.model_file(_on_fixed_base(ran.folder / ran.answer.model))
        region = next(iter(cases))
        errors = [
            scores.replay_error(model, dataset.joints, case, motion)
            for case, motion in zip(cases[region], dataset.held_out[region], strict=True)
        ]
        result: Row = {"export": "possible", "replay": sum(errors) / len(errors)}
        if dataset.truth:
            truth = ran.folder / "truth.xml"
            truth.write_text(dataset.truth, encoding="utf-8")
            result["inertia"] = scores.inertia_error(model, scores.model_file(truth), dataset.joints)
    except (ValueError, OSError) as error:
        return {"export": f"refused by MuJoCo: {' '.join(str(error).split())}"[:200]}
    return result


def _on_fixed_base(path: Path) -> Path:
    # Logs of a hung robot have a base that does not move; its published file may still let it float.
    spec = mujoco.MjSpec.from_file(str(path))
    free = [joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if not free:
        return path
    for element in [*free, *spec.keys]:
        spec.delete(element)
    spec.compile()
    fixed = path.with_name(f"fixed-{path.name}")
    fixed.write_text(spec.to_xml(), encoding="utf-8")
    return fixed


def _intervals(
    dataset: DataSet, method: Method, first: Ran, scratch: Path, environments: Path | None, limit: float
) -> list[float]:
    # The first recording of made sets is the training motion, and identified already.
    estimates = []
    for i, recording in enumerate(dataset.repeats):
        if i == 0 and recording is dataset.train and first.answer is not None:
            estimates.append(first.answer.parameters)
            continue
        ran = _run(dataset, method, {}, scratch / f"repeat-{i}", environments, limit, recording, ())
        if ran.answer is not None:
            estimates.append(ran.answer.parameters)
    return list(scores.agreement(estimates))


def line_of(row: Row) -> str:
    """A row as it is printed."""
    if row["message"]:
        return f"{row['set']}, {row['method']}: {row['message']}"
    parts = [
        f"{region} {100 * error['moving']:.3g} %"
        for region, error in row["torque"].items()
        if error["moving"] is not None
    ]
    return f"{row['set']}, {row['method']}: torque error {', '.join(parts)}; {row['seconds']:g} s"
