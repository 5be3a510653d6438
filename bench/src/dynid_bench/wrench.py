"""Sets of a second kind: the wrench of a wrist sensor at poses with a load, without joints and without motion.

Splits and scores were fixed before a method ran; a change of this file or of a recipe makes the rows stale.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from dynid.base import Float, Int, RefusedError, Strict, read_toml, validate
from dynid_bench.adapters import poses
from dynid_bench.methods import stamp
from dynid_bench.protocol import installed

ROWS = "poses.jsonl"
COLUMNS = ("qx", "qy", "qz", "qw", "fx", "fy", "fz", "tx", "ty", "tz")
FORCE, MOMENT = slice(0, 3), slice(3, 6)
METHODS: Mapping[str, tuple[Callable[[Path, str, Float, Float], poses.Load], str, Sequence[str]]] = {
    "dynid": (poses.by_dynid, "dynid payload --poses", ("dynid",)),
    "least-squares": (poses.by_least_squares, "mass, first moment and constant biases, NumPy", ("numpy",)),
}


class PoseRecipe(Strict):
    """A table of poses that the user fetches.

    frame : axes of the wrench's components, as its source says.    folds : number of parts of each split.
    """

    name: str
    title: str
    source: str
    licence: str
    developed_on: bool
    table: str
    frame: str
    folds: int
    reason: str
    files: dict[str, str]


def pose_recipes() -> dict[str, Path]:
    """Recipes of this kind that come with the package, by name."""
    folder = Path(str(files("dynid_bench"))) / "poses"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_pose_recipe(path: Path) -> PoseRecipe:
    """Read a recipe; raises InputErrors with the line of each wrong key."""
    data, lines = read_toml(path)
    return validate(PoseRecipe, data, lines, str(path))


def splits(count: int, folds: int) -> dict[str, list[Int]]:
    """Held-out poses of each fold: every n-th pose, and each stretch of the recording in turn."""
    number = np.arange(count)
    return {
        "between": [number[k::folds] for k in range(folds)],
        "stretch": list(np.array_split(number, folds)),
    }


def score(table: Path, recipe: PoseRecipe, method: str, scratch: Path) -> dict[str, Any]:
    """Errors on held-out poses and masses of the folds.

    Parameters
    ----------
    table : Path
        CSV with the columns of `COLUMNS`.
    recipe : PoseRecipe
        Split and frame.
    method : str
        Name in `METHODS`.
    scratch : Path
        Folder for the training tables.

    Returns
    -------
    dict
        By split: force (N) and moment (N m), r.m.s. error of an axis over all held-out poses; masses and half widths
        (kg) of the folds. Folds without an answer are the message.

    """
    with table.open(encoding="utf-8", newline="") as stream:
        records = list(csv.DictReader(stream))
    values = np.array([[float(record[name]) for name in COLUMNS] for record in records])
    rotation = Rotation.from_quat(values[:, :4]).as_matrix()
    result: dict[str, Any] = {}
    for split, folds in splits(len(values), recipe.folds).items():
        errors, loads = [], []
        for k, held_out in enumerate(folds):
            kept = np.setdiff1d(np.arange(len(values)), held_out)
            training = scratch / f"{split}-{k}.csv"
            np.savetxt(training, values[kept], delimiter=",", header=",".join(COLUMNS), comments="")
            # The place of a held-out pose among the training poses, for biases that drift.
            place = np.interp(held_out, kept, np.arange(len(kept), dtype=float))
            load = METHODS[method][0](training, recipe.frame, rotation[held_out], place)
            errors.append(load.wrench - values[held_out, 4:])
            loads.append((load.mass, load.half_width))
        error = np.concatenate(errors)
        result[split] = {
            "force": float(np.sqrt(np.mean(error[:, FORCE] ** 2))),
            "moment": float(np.sqrt(np.mean(error[:, MOMENT] ** 2))),
            "masses": [list(pair) for pair in loads],
        }
    return result


def read_pose_rows(out: Path) -> list[dict[str, Any]]:
    """Rows of a campaign's folder; none if it has no such sets."""
    path = out / ROWS
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run_poses(
    names: Sequence[str],
    methods: Sequence[str],
    data: Path,
    out: Path,
    again: bool,
    say: Callable[[str], object],
) -> None:
    """Score methods on sets of poses, and keep a row for each.

    Raises
    ------
    InputError
        For a file that is missing or is not the recipe's.
    RefusedError
        If the folder has rows with another split or score.

    """
    from dynid_bench.data import check_file

    rows = read_pose_rows(out)
    for name in names:
        path = pose_recipes()[name]
        recipe = read_pose_recipe(path)
        digest = hashlib.sha256(Path(__file__).read_bytes() + path.read_bytes()).hexdigest()[:16]
        if again:
            rows = [row for row in rows if row["set"] != name or row["method"] not in methods]
        if any(row["rules"] != digest for row in rows if row["set"] == name):
            raise RefusedError(
                "bench-rules",
                found=f"rows of {name} with another split or score",
                expected="rows that can be compared",
                do=f"name another folder, or remove '{out / ROWS}'",
            )
        for file, known in recipe.files.items():
            check_file(data / name / file, known, recipe.source)
        done = {row["method"] for row in rows if row["set"] == name}
        for method in (method for method in METHODS if method in methods and method not in done):
            row: dict[str, Any] = {
                "rules": digest,
                "set": name,
                "method": method,
                "date": stamp(),
                "message": "",
            }
            row["packages"] = {package: installed(package) for package in METHODS[method][2]}
            before = os.times()
            try:
                with tempfile.TemporaryDirectory() as folder:
                    row["splits"] = score(data / name / recipe.table, recipe, method, Path(folder))
            except Exception as error:
                row["message"] = f"{type(error).__name__}: {error}"[:300]
            after = os.times()
            row["seconds"] = round(after.user + after.system - before.user - before.system, 1)
            rows.append(row)
            out.mkdir(parents=True, exist_ok=True)
            (out / ROWS).write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")
            say(f"{name}, {method}: {row['message'] or 'scored'}; {row['seconds']:g} s")
