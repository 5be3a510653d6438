"""Conversion of a result to the plain data of run.json and model.json, and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, finite_or_none, of_size
from dynid.base.diagnostics import Diagnostics, ExpectedError, Finding, Use, Verdict
from dynid.base.errors import InputError, Place
from dynid.base.records import plain
from dynid.choose.search import Choice, FormScore, ShapeEstimate
from dynid.choose.selection import selection_to_dict
from dynid.diagnosis.finding import finding_to_dict
from dynid.estimate.estimator import Estimate, Status
from dynid.estimate.scores import MotionRange, Origin, Scores
from dynid.factor.base import BaseMap
from dynid.robot.serial import robot_to_dict
from dynid.run.result import Identification
from dynid.terms.catalogue import terms_to_spec
from dynid.terms.exports import Column

# Conversion of run folders and experiment files of earlier versions.

# Version of run.json and model.json.
FORMAT = 3
Files = tuple[dict[str, Any], dict[str, Any]]


def to_present(run: dict[str, Any], model: dict[str, Any], place: Place) -> Files:
    """Convert run.json and model.json of any earlier format to the present one.

    `run`, `model`: contents of run.json and model.json; `place`: the run folder, for error messages. Raises InputError
    for a newer format, or data without a format.
    """
    while (current := _format(run, model, place)) < FORMAT:
        try:
            run, model = _STEPS[current](run, model)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                "damaged-run",
                found=f"an incomplete or damaged run folder ({type(error).__name__}: {error})",
                expected=f"a complete run of format {current}",
                do="run dynid identify again",
                place=place,
            ) from error
        run, model = run | {"format": current + 1}, model | {"format": current + 1}
    return run, model


def _format(run: Mapping[str, Any], model: Mapping[str, Any], place: Place) -> int:
    stored = run.get("format")
    written_by = run.get("provenance", {})
    version = written_by.get("dynid", "?") if isinstance(written_by, Mapping) else "?"
    known = isinstance(stored, int) and not isinstance(stored, bool) and stored >= 1
    if not known or model.get("format") != stored:
        raise InputError(
            "run-format",
            found=f"run.json of format {stored!r} and model.json of format {model.get('format')!r}",
            expected=f"the same format in both, 1 to {FORMAT}",
            do="run dynid identify again",
            place=place,
        )
    if int(str(stored)) > FORMAT:
        raise InputError(
            "run-format",
            found=f"a run of format {stored}, written by dynid {version}",
            expected=f"format 1 to {FORMAT}",
            do="update dynid: pip install --upgrade dynid",
            place=place,
        )
    return int(str(stored))


def _from_1(run: dict[str, Any], model: dict[str, Any]) -> Files:
    # Format 1: method 'feasible' used the Euclidean distance with strength 1 by default; plug-ins were not stored;
    # scores did not record which samples they left out.
    recipe = dict(run.get("recipe", {}))
    experiment = dict(recipe.get("experiment", {}))
    if "estimate" in experiment:
        recipe["experiment"] = experiment | {
            "estimate": dict(experiment["estimate"]) | _former_defaults(experiment["estimate"])
        }
    provenance = dict(run.get("provenance", {}))
    added: dict[str, Any] = {"left_out": {}, "all_samples": None, "motion": None, "beyond": {}}
    scores = [added | dict(entry) for entry in run.get("scores", ())]
    return run | {"recipe": recipe, "provenance": {"plugins": []} | provenance, "scores": scores}, model


def _from_2(run: dict[str, Any], model: dict[str, Any]) -> Files:
    # Format 2: the experiment was stored among the files of the command; early runs had other keys.
    renamed = {"symptoms": "residual_findings", "nuisance": "measurement_effects", "worth": "ablations"}
    run = {renamed.get(key, key): value for key, value in run.items()}
    if isinstance(chosen := run.get("selection"), Mapping):
        run["selection"] = {renamed.get(key, key): value for key, value in chosen.items()}
    files = dict(run.pop("recipe", {}))
    return {"format": 2, "experiment": files.pop("experiment", {}), "files": files} | run, model


def _former_defaults(estimate: Mapping[str, Any]) -> dict[str, Any]:
    # Defaults of that version for keys that the file does not set.
    of_feasible = {"prior": "euclidean", "strength": 1.0}
    around = {"prior": "euclidean"}
    meant = (
        of_feasible if estimate.get("method") == "feasible" else around if estimate.get("feasible") else {}
    )
    return {key: value for key, value in meant.items() if key not in estimate}


def _lines_of(estimate: Mapping[str, Any]) -> list[str]:
    """Lines to add to the table [estimate]."""
    return [f"{key} = {json.dumps(value)}" for key, value in _former_defaults(estimate).items()]


_STEPS: Mapping[int, Callable[[dict[str, Any], dict[str, Any]], Files]] = {1: _from_1, 2: _from_2}


def experiment_text(path: Path) -> str:
    """Text of an experiment file of format 1, converted to the present format.

    Raises InputError for a file that is not TOML.
    """
    from dynid.base.toml import read_toml  # here, because loading a run needs no TOML checks

    data, lines = read_toml(path)
    text = path.read_text(encoding="utf-8-sig")
    estimate = data.get("estimate")
    if not isinstance(estimate, Mapping) or not _former_defaults(estimate):
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
    written[number:number] = [f"{indent}{dotted}{added}\n" for added in _lines_of(estimate)]
    return "".join(written)


_SCORE_ARRAYS = ("rms", "relative", "r2", "nmse", "mse", "sde", "torque_rms", "count")


def scores_to_dict(scores: Scores) -> dict[str, Any]:
    """Convert scores to plain data."""
    whole, motion = scores.all_samples, scores.motion
    return {
        "origin": str(scores.origin),
        "joints": list(scores.joint_names),
        "trajectories": list(scores.trajectories),
        **_figures(scores),
        "left_out": plain(scores.left_out),
        "all_samples": None if whole is None else _figures(whole),
        "motion": None if motion is None else plain(vars(motion)),
        "beyond": plain(scores.beyond),
        "worse": list(scores.worse),
        "at_rest": list(scores.at_rest),
        "moved_once": list(scores.moved_once),
        "kept_at_rest": plain(scores.kept_at_rest),
        "exported": scores.exported,
    }


def _figures(scores: Scores) -> dict[str, Any]:
    return {
        "total_relative": finite_or_none(scores.total_relative),
        "total_nmse": finite_or_none(scores.total_nmse),
    } | {name: plain(getattr(scores, name)) for name in _SCORE_ARRAYS}


def scores_from_dict(data: Mapping[str, Any]) -> Scores:
    """Read scores from plain data."""
    whole, motion, kept = data["all_samples"], data["motion"], data.get("kept_at_rest")
    return replace(
        _scores(data, data),
        left_out={reason: float(share) for reason, share in data["left_out"].items()},
        all_samples=None if whole is None else _scores(data, whole),
        motion=None if motion is None else MotionRange(**{name: _array(motion[name]) for name in motion}),
        beyond={quantity: _array(shares) for quantity, shares in data["beyond"].items()},
        worse=tuple(data.get("worse", ())),
        at_rest=tuple(data.get("at_rest", ())),
        moved_once=tuple(data.get("moved_once", ())),
        kept_at_rest=None if kept is None else _array(kept),
        exported=data.get("exported"),
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


def run_to_dict(identification: Identification) -> dict[str, Any]:
    """Contents of run.json."""
    every = (identification.training, *identification.validations)
    return {
        "format": FORMAT,
        "experiment": identification.experiment,
        "files": identification.files,
        "provenance": identification.provenance,
        "verdict": {
            "level": identification.verdict.level,
            "headline": identification.verdict.headline,
            "findings": verdict_findings(identification.verdict),
            "accepted": list(identification.verdict.accepted),
            "uses": [vars(use) for use in identification.verdict.uses],
            "expected": [vars(motion) for motion in identification.verdict.expected],
        },
        "scores": [scores_to_dict(v.scores) for v in every],
        "residuals": {
            str(i): {"rate": v.residuals.rate, "trajectories": list(v.residuals.trajectories)}
            for i, v in enumerate(every)
            if v.residuals is not None
        },
        "preparation": identification.preparation,
        "log": identification.log_summary,
        "diagnostics": [
            {"severity": str(d.level), "id": d.code, "text": d.text, "place": vars(d.place)}
            | ({"accepted": True} if d.accepted else {})
            for d in identification.diagnostics
        ],
        "truth": identification.truth,
        "choices": [
            {
                "joint": choice.joint,
                "subject": choice.subject,
                "chosen": choice.chosen,
                "candidates": [vars(candidate) for candidate in choice.candidates],
            }
            for choice in identification.choices
        ],
        "selection": selection_to_dict(identification.selection),
        "residual_findings": [finding_to_dict(finding) for finding in identification.residual_findings],
    }


def verdict_findings(verdict: Verdict) -> list[dict[str, str]]:
    """Findings of a verdict as plain data."""
    names = ("level", "title", "text", "advice", "code")
    return [{name: str(getattr(finding, name)) for name in names} for finding in verdict.findings]


def verdict_from_dict(data: Mapping[str, Any]) -> Verdict:
    """Read the verdict of a run from plain data."""
    findings = tuple(Finding(**{"code": "", **entry}) for entry in data["findings"])
    uses = tuple(Use(**entry) for entry in data.get("uses", ()))
    expected = tuple(ExpectedError(**entry) for entry in data.get("expected", ()))
    accepted = tuple(data.get("accepted", ()))
    return Verdict(data["level"], data["headline"], findings, accepted, uses, expected)


def diagnostics_from_list(data: list[Mapping[str, Any]]) -> Diagnostics:
    """Read diagnostics from plain data."""
    return Diagnostics(
        [
            Finding(d["severity"], d["id"], d["text"], Place(**d["place"]), bool(d.get("accepted", False)))
            for d in data
        ]
    )


def model_to_dict(identification: Identification) -> dict[str, Any]:
    """Contents of model.json."""
    estimate = identification.estimate
    return {
        "format": FORMAT,
        "robot": robot_to_dict(identification.robot),
        "terms": terms_to_spec(identification.terms),
        "parameters": {
            column.name: {"value": float(value), "unit": column.unit, "category": str(category)}
            for column, value, category in zip(
                estimate.columns, estimate.parameters, estimate.base.categories(), strict=True
            )
        },
        "structural": _base(identification.structural),
        "shapes": [vars(shape) for shape in identification.shapes],
        "estimate": {
            "method": estimate.method,
            "names": list(estimate.names),
            "units": list(estimate.units),
            "value": plain(estimate.value),
            "std": plain(estimate.std),
            "covariance": plain(estimate.covariance),
            "textbook_covariance": plain(estimate.textbook_covariance),
            "degrees_of_freedom": estimate.degrees_of_freedom,
            "sigma": plain(estimate.sigma),
            "weights": plain(estimate.weights),
            "groups": list(estimate.group_names),
            "parameters": plain(estimate.parameters),
            "block_leverage": plain(estimate.block_leverage),
            "prior_share": plain(estimate.prior_share),
            "prior_strength": estimate.prior_strength,
            "consistent": plain(estimate.consistent),
            **({"link_widths": plain(estimate.link_widths)} if len(estimate.link_widths) else {}),
            "count": estimate.count,
            "status": vars(estimate.status),
            "base": _base(estimate.base),
        },
    }


def shape_from_dict(data: Mapping[str, Any]) -> ShapeEstimate:
    """Read a nonlinear parameter from plain data."""
    std = math.nan if data["std"] is None else float(data["std"])
    return ShapeEstimate(**{**data, "std": std})


def choice_from_dict(data: Mapping[str, Any]) -> Choice:
    """Read a choice between forms of friction from plain data."""
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
        "B": plain(base.B),
        "singular_values": plain(base.singular_values),
        "gap": base.gap,
        "scale": plain(base.scale),
    }


def base_from_dict(data: Mapping[str, Any], columns: tuple[Column, ...]) -> BaseMap:
    """Read the base parameters of columns from plain data."""
    return BaseMap(
        names=tuple(column.name for column in columns),
        independent=np.array(data["independent"], dtype=np.int64),
        B=_known(data["B"], "B"),
        singular_values=_array(data["singular_values"]),
        gap=math.inf if data["gap"] is None else float(data["gap"]),
        scale=_known(data["scale"], "scale"),
    )


def estimate_from_dict(data: Mapping[str, Any], columns: tuple[Column, ...]) -> Estimate:
    """Read the estimate of columns from plain data."""
    return Estimate(
        method=data["method"],
        columns=columns,
        base=base_from_dict(data["base"], columns),
        group_names=tuple(data["groups"]),
        value=_known(data["value"], "value"),
        covariance=_array(data["covariance"]),
        textbook_covariance=_array(data["textbook_covariance"]),
        degrees_of_freedom=float(data["degrees_of_freedom"]),
        sigma=_array(data["sigma"]),
        weights=_known(data["weights"], "weights", 2),
        parameters=_known(data["parameters"], "parameters"),
        block_leverage=_array(data["block_leverage"]),
        prior_share=_array(data["prior_share"]),
        prior_strength=float(data.get("prior_strength", 1.0)),
        consistent=_array(data.get("consistent", [])),
        link_widths=_array(data.get("link_widths", [])).reshape(-1, 4),
        count=int(data["count"]),
        status=Status(**data["status"]),
    )


def _known(values: Any, name: str, power: int = 1) -> Float:
    return of_size(_array(values), name, power=power)


def _array(values: Any) -> Float:
    return np.array(values, dtype=np.float64)
