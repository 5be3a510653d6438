"""Run folders and experiment files of earlier versions, brought to the present form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place
from dynid.base.toml_file import read_toml

# Of run.json and model.json.
FORMAT = 3
Files = tuple[dict[str, Any], dict[str, Any]]


def to_present(run: dict[str, Any], model: dict[str, Any], place: Place) -> Files:
    """run.json and model.json in the present format, from any earlier one.

    Raises InputError for the format of a newer version, and for none.
    """
    while (found := _format(run, model, place)) < FORMAT:
        try:
            run, model = _STEPS[found](run, model)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                "damaged-run",
                found=f"a run folder that misses or garbles something ({type(error).__name__}: {error})",
                expected=f"a complete run of format {found}",
                do="run dynid identify again",
                place=place,
            ) from error
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
    # Method 'feasible' measured the distance from the prior by squares, with strength 1, unless said; plug-ins could
    # not be stored; scores said nothing of what they left out.
    recipe = dict(run.get("recipe", {}))
    experiment = dict(recipe.get("experiment", {}))
    if "estimate" in experiment:
        recipe["experiment"] = experiment | {
            "estimate": dict(experiment["estimate"]) | _unwritten(experiment["estimate"])
        }
    provenance = dict(run.get("provenance", {}))
    added: dict[str, Any] = {"left_out": {}, "all_samples": None, "motion": None, "beyond": {}}
    scores = [added | dict(entry) for entry in run.get("scores", ())]
    return run | {"recipe": recipe, "provenance": {"plugins": []} | provenance, "scores": scores}, model


def _from_2(run: dict[str, Any], model: dict[str, Any]) -> Files:
    # The experiment stood among the files that the command named; early runs of this format had other keys.
    renamed = {"symptoms": "residual_findings", "nuisance": "measurement_effects", "worth": "ablations"}
    run = {renamed.get(key, key): value for key, value in run.items()}
    if isinstance(chosen := run.get("selection"), Mapping):
        run["selection"] = {renamed.get(key, key): value for key, value in chosen.items()}
    files = dict(run.pop("recipe", {}))
    return {"format": 2, "experiment": files.pop("experiment", {}), "files": files} | run, model


def _unwritten(estimate: Mapping[str, Any]) -> dict[str, Any]:
    # What the method had by default then, where it was named.
    own = {"prior": "euclidean", "strength": 1.0}
    around = {"prior": "euclidean"}
    meant = own if estimate.get("method") == "feasible" else around if estimate.get("feasible") else {}
    return {key: value for key, value in meant.items() if key not in estimate}


def _lines_of(estimate: Mapping[str, Any]) -> list[str]:
    """What is to be written into a table [estimate], a line each."""
    return [f"{key} = {json.dumps(value)}" for key, value in _unwritten(estimate).items()]


_STEPS: Mapping[int, Callable[[dict[str, Any], dict[str, Any]], Files]] = {1: _from_1, 2: _from_2}


def experiment_text(path: Path) -> str:
    """The text of an experiment file that was written for run folders of format 1, as it is to be written now.

    Raises InputError for a file that is no TOML.
    """
    data, lines = read_toml(path)
    text = path.read_text(encoding="utf-8-sig")
    estimate = data.get("estimate")
    if not isinstance(estimate, Mapping) or not _unwritten(estimate):
        return text
    key = "method" if estimate.get("method") == "feasible" else "feasible"
    number = lines.get(("estimate", key))
    written = text.splitlines(keepends=True)
    if number is None or not re.match(rf"\s*(estimate\.)?{key}\s*=", written[number - 1]):
        raise InputError(
            "migrate-by-hand",
            found="[estimate] as an inline table",
            expected="a table of its own",
            do=f"add {', '.join(_lines_of(estimate))} to it by hand",
            place=Place(file=str(path), line=lines.get(("estimate",))),
        )
    line = written[number - 1]
    indent = line[: len(line) - len(line.lstrip())]
    dotted = "estimate." if line.lstrip().startswith("estimate.") else ""
    if not line.endswith("\n"):
        written[number - 1] += "\n"
    written[number:number] = [f"{indent}{dotted}{one}\n" for one in _lines_of(estimate)]
    return "".join(written)
