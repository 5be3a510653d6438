"""A run is a folder: run.json, model.json, report.html, and parameters, residuals and factors as Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, finite_or_none
from dynid.base.atomic_write import (
    FolderKind,
    check_place,
    edited_files,
    recover,
    staged_files,
    staged_folder,
)
from dynid.base.diagnostics import Diagnostic, Diagnostics, Severity
from dynid.base.errors import DynidError, InputError, Place, ResourceError
from dynid.base.findings import Finding, Verdict
from dynid.base.registry import Need, refuse_missing
from dynid.choose.serial import selection_from_dict, selection_to_dict
from dynid.choose.shapes import Choice, FormScore, ShapeEstimate
from dynid.diagnosis.finding import finding_from_dict, finding_to_dict
from dynid.estimate.estimator import Estimate, Status
from dynid.estimate.scores import MotionRange, Origin, Scores
from dynid.factor.base import BaseMap
from dynid.robot.serial import robot_from_dict, robot_to_dict
from dynid.run.migrate import FORMAT, to_present
from dynid.run.result import Identification, Validation
from dynid.run.tables import (
    read_factors,
    read_residuals,
    write_factors,
    write_links,
    write_parameters,
    write_residuals,
)
from dynid.terms.catalogue import names_in_spec, terms_from_spec, terms_to_spec
from dynid.terms.term import Column

_RUN_FILES = (
    "run.json",
    "model.json",
    "links.parquet",
    "parameters.parquet",
    "residuals.parquet",
    "factors.parquet",
    "report.html",
)
REPLAY_FILE = "replay.json"
_DEMO_FILES = ("robot.toml", "logs/train.parquet", "logs/validate.parquet")
_edited: list[Path] = []
_SCORE_ARRAYS = ("rms", "relative", "r2", "nmse", "mse", "sde", "torque_rms", "count")


def check_output(folder: str | Path, inputs: tuple[Path, ...] = (), force: bool = False) -> tuple[str, ...]:
    """Refuses an output folder before anything is computed; returns the names of what stays in one to be replaced.

    Raises RefusedError if it exists (unless `force` and it is a run folder) or holds an input;
    ResourceError if its parent cannot be written.
    """
    return check_place(Path(folder), inputs, force, RUN)


def staged_run(folder: str | Path, force: bool = False) -> AbstractContextManager[Path]:
    """A folder for a run and what goes with it, to be written in a `with` block; appears as a whole or not at all.

    Raises RefusedError if the folder exists, ResourceError if writing fails.
    """
    check_output(folder, force=force)
    return staged_folder(Path(folder), RUN, force)


def write_tables(identification: Identification, folder: Path) -> None:
    """Writes the files of a run, all but the report, into a folder that is there."""
    _write_json(folder / "run.json", _run(identification))
    _write_json(folder / "model.json", _model(identification))
    write_links(identification, folder)
    write_parameters(identification, folder)
    write_residuals(identification, folder / "residuals.parquet")
    write_factors(identification, folder / "factors.parquet")


def _files_of_unlisted_run(folder: Path) -> list[str] | None:
    try:
        run = _read_json(folder / "run.json")
    except DynidError:
        return None
    if not isinstance(run.get("format"), int):
        return None
    names = [*_RUN_FILES]
    provenance = run.get("provenance")
    logs = provenance.get("logs") if isinstance(provenance, dict) else None
    if isinstance(logs, dict) and any(Path(log).resolve().parent == folder / "logs" for log in logs):
        # Only the demo's logs lie in the folder of its run.
        names += _DEMO_FILES
    return names


RUN = FolderKind("run", _files_of_unlisted_run)


def load(folder: str | Path) -> Identification:
    """Reads a run folder back.

    Raises InputError if it is not one or is damaged, or if a plug-in is missing that its model needs; ResourceError if
    it cannot be read. Nothing is imported because a run names it: a plug-in is found where it is installed or was
    named by the user.
    """
    folder = Path(folder)
    recover(folder)
    place = Place(file=str(folder))
    edited = [name for name in edited_files(folder, RUN) if name != "report.html"]
    if edited:
        _edited.append(folder)
    run, model = to_present(_read_json(folder / "run.json"), _read_json(folder / "model.json"), place)
    _require_plugins(run, model, place)
    try:
        robot = robot_from_dict(model["robot"])
        terms = terms_from_spec(model["terms"])
        columns = terms.columns(robot)
        scores = [scores_from_dict(entry) for entry in run["scores"]]
        residuals = read_residuals(folder / "residuals.parquet", robot, run["residuals"])
        validations = [Validation(s, residuals.get(i)) for i, s in enumerate(scores)]
        diagnostics = _read_diagnostics(run["diagnostics"])
        for name in edited:
            diagnostics.warn(
                "edited-run",
                f"{name} of the run folder is not what dynid wrote: what is shown may not be what was identified",
                Place(file=str(folder / name)),
            )
        return Identification(
            experiment=dict(run["experiment"]),
            files=dict(run["files"]),
            robot=robot,
            terms=terms,
            structural=_read_base(model["structural"], columns),
            estimate=_read_estimate(model["estimate"], columns),
            factors=read_factors(folder / "factors.parquet", len(columns)),
            training=validations[0],
            validations=tuple(validations[1:]),
            verdict=_read_verdict(run["verdict"]),
            diagnostics=diagnostics,
            preparation=run["preparation"],
            log_summary=run["log"],
            provenance=run["provenance"],
            truth=run["truth"],
            shapes=tuple(_read_shape(entry) for entry in model["shapes"]),
            choices=tuple(_read_choice(entry) for entry in run["choices"]),
            selection=selection_from_dict(run["selection"]),
            residual_findings=tuple(finding_from_dict(entry) for entry in run.get("residual_findings", [])),
            replayed=_read_replay(folder, run),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OSError, DynidError) as error:
        raise InputError(
            "damaged-run",
            found=f"a run folder that misses or garbles something ({type(error).__name__}: {error})",
            expected=f"a complete run of format {FORMAT}",
            do="run dynid identify again",
            place=place,
        ) from error


def keep_replay(folder: str | Path, replay: Mapping[str, Any]) -> Identification:
    """Writes errors of a replayed log beside a stored run, replay.json, and reads the run with them.

    replay: plain data, see docs/run-folder.md.    Raises ResourceError if it cannot be written.
    """
    path = Path(folder) / REPLAY_FILE
    run = _read_json(path.parent / "run.json")
    with staged_files(path) as (scratch,):
        scratch.write_bytes(_json({"run": _stamp(run), **_clean(replay)}))
    return load(folder)


def _read_replay(folder: Path, run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    # That of another run, which was here before, says nothing of this one.
    path = folder / REPLAY_FILE
    if not path.is_file():
        return None
    try:
        found = _read_json(path)
    except DynidError:
        return None
    known = found.get("run") == _stamp(run) and isinstance(found.get("rows"), list)
    return {key: value for key, value in found.items() if key != "run"} if known else None


def _stamp(run: Mapping[str, Any]) -> str:
    return str(run.get("provenance", {}).get("finished", ""))


def edited_runs() -> tuple[Path, ...]:
    """The run folders read by this process that someone has changed since dynid wrote them."""
    return tuple(_edited)


def migrated_files(folder: Path) -> dict[Path, bytes]:
    """The files of a run folder that are another in the present format, with what they then hold; {} for none.

    Raises InputError if it is no run folder, or of a newer version.
    """
    run, model = _read_json(folder / "run.json"), _read_json(folder / "model.json")
    present = to_present(run, model, Place(file=str(folder)))
    old = (run, model)
    names = ("run.json", "model.json")
    return {
        folder / name: _json(new)
        for name, new, before in zip(names, present, old, strict=True)
        if new != before
    }


def _require_plugins(run: Mapping[str, Any], model: Mapping[str, Any], place: Place) -> None:
    try:
        needs = [Need(**entry) for entry in run["provenance"].get("plugins", ())]
        names = names_in_spec(model["terms"])
    except (LookupError, TypeError, AttributeError):
        return  # damaged, as will be said
    known = {need.name: need for need in needs if need.kind == "term"}
    refuse_missing([known.get(name, Need("term", name)) for name in names], place)


def scores_to_dict(scores: Scores) -> dict[str, Any]:
    """Plain data of scores."""
    whole, motion = scores.all_samples, scores.motion
    return {
        "origin": str(scores.origin),
        "joints": list(scores.joint_names),
        "trajectories": list(scores.trajectories),
        **_figures(scores),
        "left_out": _clean(scores.left_out),
        "all_samples": None if whole is None else _figures(whole),
        "motion": None if motion is None else _clean(vars(motion)),
        "beyond": _clean(scores.beyond),
    }


def _figures(scores: Scores) -> dict[str, Any]:
    return {
        "total_relative": finite_or_none(scores.total_relative),
        "total_nmse": finite_or_none(scores.total_nmse),
    } | {name: _clean(getattr(scores, name)) for name in _SCORE_ARRAYS}


def scores_from_dict(data: Mapping[str, Any]) -> Scores:
    """Scores from plain data."""
    whole, motion = data["all_samples"], data["motion"]
    return replace(
        _scores(data, data),
        left_out={reason: float(share) for reason, share in data["left_out"].items()},
        all_samples=None if whole is None else _scores(data, whole),
        motion=None if motion is None else MotionRange(**{name: _array(motion[name]) for name in motion}),
        beyond={quantity: _array(shares) for quantity, shares in data["beyond"].items()},
    )


def _scores(data: Mapping[str, Any], figures: Mapping[str, Any]) -> Scores:
    arrays = {name: _array(figures[name]) for name in _SCORE_ARRAYS}
    total = figures["total_relative"]
    return Scores(
        Origin(data["origin"]),
        tuple(data["joints"]),
        tuple(data["trajectories"]),
        total_relative=math.nan if total is None else float(total),
        rms=arrays["rms"],
        relative=arrays["relative"],
        r2=arrays["r2"],
        nmse=arrays["nmse"],
        mse=arrays["mse"],
        sde=arrays["sde"],
        torque_rms=arrays["torque_rms"],
        count=arrays["count"],
    )


def _run(one: Identification) -> dict[str, Any]:
    every = (one.training, *one.validations)
    return {
        "format": FORMAT,
        "experiment": one.experiment,
        "files": one.files,
        "provenance": one.provenance,
        "verdict": {
            "level": one.verdict.level,
            "headline": one.verdict.headline,
            "findings": [vars(finding) for finding in one.verdict.findings],
            "accepted": list(one.verdict.accepted),
        },
        "scores": [scores_to_dict(v.scores) for v in every],
        "residuals": {
            str(i): {"rate": v.residuals.rate, "trajectories": list(v.residuals.trajectories)}
            for i, v in enumerate(every)
            if v.residuals is not None
        },
        "preparation": one.preparation,
        "log": one.log_summary,
        "diagnostics": [
            {"severity": str(d.severity), "id": d.identifier, "text": d.text, "place": vars(d.place)}
            | ({"accepted": True} if d.accepted else {})
            for d in one.diagnostics
        ],
        "truth": one.truth,
        "choices": [
            {
                "joint": choice.joint,
                "subject": choice.subject,
                "chosen": choice.chosen,
                "candidates": [vars(candidate) for candidate in choice.candidates],
            }
            for choice in one.choices
        ],
        "selection": selection_to_dict(one.selection),
        "residual_findings": [finding_to_dict(finding) for finding in one.residual_findings],
    }


def _read_verdict(data: Mapping[str, Any]) -> Verdict:
    findings = tuple(Finding(**entry) for entry in data["findings"])
    return Verdict(data["level"], data["headline"], findings, tuple(data.get("accepted", ())))


def _read_diagnostics(data: list[Mapping[str, Any]]) -> Diagnostics:
    return Diagnostics(
        [
            Diagnostic(
                Severity(d["severity"]),
                d["id"],
                d["text"],
                Place(**d["place"]),
                bool(d.get("accepted", False)),
            )
            for d in data
        ]
    )


def _model(one: Identification) -> dict[str, Any]:
    estimate = one.estimate
    return {
        "format": FORMAT,
        "robot": robot_to_dict(one.robot),
        "terms": terms_to_spec(one.terms),
        "parameters": {
            column.name: {"value": float(value), "unit": column.unit, "category": str(category)}
            for column, value, category in zip(
                estimate.columns, estimate.parameters, estimate.base.categories(), strict=True
            )
        },
        "structural": _base(one.structural),
        "shapes": [vars(shape) for shape in one.shapes],
        "estimate": {
            "method": estimate.method,
            "names": list(estimate.names),
            "units": list(estimate.units),
            "value": _clean(estimate.value),
            "std": _clean(estimate.std),
            "covariance": _clean(estimate.covariance),
            "textbook_covariance": _clean(estimate.textbook_covariance),
            "degrees_of_freedom": estimate.degrees_of_freedom,
            "sigma": _clean(estimate.sigma),
            "weights": _clean(estimate.weights),
            "groups": list(estimate.group_names),
            "parameters": _clean(estimate.parameters),
            "block_leverage": _clean(estimate.block_leverage),
            "prior_share": _clean(estimate.prior_share),
            "prior_strength": estimate.prior_strength,
            "consistent": _clean(estimate.consistent),
            "count": estimate.count,
            "status": vars(estimate.status),
            "base": _base(estimate.base),
        },
    }


def _read_shape(data: Mapping[str, Any]) -> ShapeEstimate:
    std = math.nan if data["std"] is None else float(data["std"])
    return ShapeEstimate(**{**data, "std": std})


def _read_choice(data: Mapping[str, Any]) -> Choice:
    candidates = tuple(
        FormScore(**{**entry, "relative": math.nan if entry["relative"] is None else entry["relative"]})
        for entry in data["candidates"]
    )
    return Choice(data["joint"], data["subject"], candidates, data["chosen"])


def _base(base: BaseMap) -> dict[str, Any]:
    return {
        "rank": base.rank,
        "condition": base.condition,
        "independent": base.independent.tolist(),
        "B": _clean(base.B),
        "singular_values": _clean(base.singular_values),
        "gap": base.gap,
        "scale": _clean(base.scale),
    }


def _read_base(data: Mapping[str, Any], columns: tuple[Column, ...]) -> BaseMap:
    return BaseMap(
        names=tuple(column.name for column in columns),
        independent=np.array(data["independent"], dtype=np.int64),
        B=_array(data["B"]),
        singular_values=_array(data["singular_values"]),
        gap=math.inf if data["gap"] is None else float(data["gap"]),
        scale=_array(data["scale"]),
    )


def _read_estimate(data: Mapping[str, Any], columns: tuple[Column, ...]) -> Estimate:
    return Estimate(
        method=data["method"],
        columns=columns,
        base=_read_base(data["base"], columns),
        group_names=tuple(data["groups"]),
        value=_array(data["value"]),
        covariance=_array(data["covariance"]),
        textbook_covariance=_array(data["textbook_covariance"]),
        degrees_of_freedom=float(data["degrees_of_freedom"]),
        sigma=_array(data["sigma"]),
        weights=_array(data["weights"]),
        parameters=_array(data["parameters"]),
        block_leverage=_array(data["block_leverage"]),
        prior_share=_array(data["prior_share"]),
        prior_strength=float(data.get("prior_strength", 1.0)),
        consistent=_array(data.get("consistent", [])),
        count=int(data["count"]),
        status=Status(**data["status"]),
    )


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_bytes(_json(data))


def _json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(_clean(data), indent=1, allow_nan=False) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any]:
    place = Place(file=str(path))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            "not-a-run", found="no such file", expected="a run folder of dynid identify", place=place
        ) from error
    except OSError as error:
        raise ResourceError(
            "file-unreadable", found=f"'{error.strerror or error}'", expected="a run folder", place=place
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            "not-a-run", found=f"damaged JSON ({error})", expected="a run folder", place=place
        ) from error
    if not isinstance(data, dict):
        raise InputError("not-a-run", found="JSON without keys", expected="a run folder", place=place)
    return data


def _clean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _clean(value.tolist())
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, np.generic):
        return _clean(value.item())
    if isinstance(value, float):
        return finite_or_none(value)
    if isinstance(value, Path):
        return str(value)
    return value


def _array(values: Any) -> Float:
    return np.array(values, dtype=np.float64)
