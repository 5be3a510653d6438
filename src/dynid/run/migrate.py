"""Run folders and experiment files of earlier versions, brought to the present form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynid.base.checked_toml import read_toml
from dynid.base.errors import InputError, Place

# Of run.json and model.json.
FORMAT = 2
Files = tuple[dict[str, Any], dict[str, Any]]


def to_present(run: dict[str, Any], model: dict[str, Any], place: Place) -> Files:
    """run.json and model.json in the present format, from any earlier one.

    Raises InputError for the format of a newer version, and for none.
    """
    while (found := _format(run, model, place)) < FORMAT:
        run, model = _STEPS[found](run, model)
        run, model = run | {"format": found + 1}, model | {"format": found + 1}
    return run, model


def _format(run: Mapping[str, Any], model: Mapping[str, Any], place: Place) -> int:
    found = run.get("format")
    written_by = run.get("provenance", {})
    version = written_by.get("dynid", "?") if isinstance(written_by, Mapping) else "?"
    known = isinstance(found, int) and not isinstance(found, bool) and found >= 1
    if not known or model.get("format") != found:
        raise InputError(
            "run-format",
            found=f"run.json of format {found!r} and model.json of format {model.get('format')!r}",
            expected=f"the same format in both, 1 to {FORMAT}",
            do="run dynid identify again",
            place=place,
        )
    if int(str(found)) > FORMAT:
        raise InputError(
            "run-format",
            found=f"a run of format {found}, written by dynid {version}",
            expected=f"format 1 to {FORMAT}",
            do="install that version: pip install --upgrade dynid",
            place=place,
        )
    return int(str(found))


def _from_1(run: dict[str, Any], model: dict[str, Any]) -> Files:
    # Method 'feasible' measured the distance from the prior by squares unless the prior was named; plug-ins could not
    # be stored.
    recipe = dict(run.get("recipe", {}))
    experiment = dict(recipe.get("experiment", {}))
    if "estimate" in experiment:
        recipe["experiment"] = experiment | {"estimate": _with_prior(experiment["estimate"])}
    provenance = dict(run.get("provenance", {}))
    return run | {"recipe": recipe, "provenance": {"plugins": []} | provenance}, model


def _with_prior(estimate: Mapping[str, Any]) -> dict[str, Any]:
    named = estimate.get("method") == "feasible" or bool(estimate.get("feasible"))
    return dict(estimate) | ({"prior": "euclidean"} if named and "prior" not in estimate else {})


_STEPS: Mapping[int, Callable[[dict[str, Any], dict[str, Any]], Files]] = {1: _from_1}


def experiment_text(path: Path) -> str:
    """The text of an experiment file that was written for run folders of format 1, as it is to be written now.

    Raises InputError for a file that is no TOML.
    """
    data, lines = read_toml(path)
    text = path.read_text(encoding="utf-8-sig")
    estimate = data.get("estimate")
    if not isinstance(estimate, Mapping) or _with_prior(estimate) == dict(estimate):
        return text
    key = "method" if estimate.get("method") == "feasible" else "feasible"
    number = lines.get(("estimate", key))
    written = text.splitlines(keepends=True)
    if number is None or not re.match(rf"\s*(estimate\.)?{key}\s*=", written[number - 1]):
        raise InputError(
            "migrate-by-hand",
            found="[estimate] as an inline table",
            expected="a table of its own",
            do='add prior = "euclidean" to it by hand',
            place=Place(file=str(path), line=lines.get(("estimate",))),
        )
    line = written[number - 1]
    indent = line[: len(line) - len(line.lstrip())]
    dotted = "estimate." if line.lstrip().startswith("estimate.") else ""
    if not line.endswith("\n"):
        written[number - 1] += "\n"
    written.insert(number, f'{indent}{dotted}prior = "euclidean"\n')
    return "".join(written)
