"""The Parquet tables of a run folder: links, parameters, residuals, factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, of_size
from dynid.base.tables import read_table, write_table
from dynid.estimate.estimator import Standing, base_verdicts, full_verdicts, how_well
from dynid.estimate.scores import Residuals
from dynid.factor.factor import Block, Factor, Factors
from dynid.robot.model import RobotModel
from dynid.run.links import Value, links, total_source
from dynid.run.result import Identification

SCORES = ("relative", "rms", "r2", "nmse", "mse", "sde", "torque_rms", "count")
_RESIDUAL_ARRAYS = ("measured", "predicted", "q", "dq")


def write_links(identification: Identification, folder: Path) -> None:
    """Write the table of links into a run folder."""
    write_table(folder / "links.parquet", link_columns(identification))


def write_parameters(identification: Identification, folder: Path) -> None:
    """Write the table of base and full parameters into a run folder."""
    write_table(folder / "parameters.parquet", parameter_columns(identification))


def parameter_columns(identification: Identification) -> dict[str, Any]:
    """Table of base parameters, full parameters and nonlinear parameters, one row each.

    Returns the columns by name; docs/run-folder.md explains them.
    """
    estimate = identification.estimate
    half = estimate.half_width()
    verdicts = base_verdicts(estimate, identification.factors)
    whole = full_verdicts(estimate, identification.factors)
    std, full, t = np.array([v.std for v in whole]), np.asarray(estimate.parameters), estimate.quantile()
    b, p = estimate.base.rank, len(estimate.columns)
    lead = [estimate.columns[i] for i in estimate.base.independent]
    nan = [math.nan] * p
    shapes = identification.shapes
    wide = np.array([estimate.quantile() * shape.std for shape in shapes])
    value = np.array([shape.value for shape in shapes])
    unknown = [math.nan] * len(shapes)
    return {
        "kind": ["base"] * b + ["full"] * p + ["shape"] * len(shapes),
        "name": [c.name for c in lead] + [c.name for c in estimate.columns] + [s.name for s in shapes],
        "formula": [*estimate.names, *(c.name for c in estimate.columns), *(s.term for s in shapes)],
        "unit": [*estimate.units, *(c.unit for c in estimate.columns), *(s.unit for s in shapes)],
        "value": [*estimate.value.tolist(), *estimate.parameters.tolist(), *value.tolist()],
        "std": [*estimate.std.tolist(), *std.tolist(), *(s.std for s in shapes)],
        "lower95": [
            *(estimate.value - half).tolist(),
            *(full - t * std).tolist(),
            *(value - wide).tolist(),
        ],
        "upper95": [
            *(estimate.value + half).tolist(),
            *(full + t * std).tolist(),
            *(value + wide).tolist(),
        ],
        "textbook_std": [*estimate.textbook_std.tolist(), *nan, *unknown],
        "prior": [math.nan] * b + [c.prior for c in estimate.columns] + unknown,
        "verdict": [
            *(str(v.word) for v in verdicts),
            *(str(v.standing) for v in whole),
            *(shape.note for shape in shapes),
        ],
        "known": [
            *(str(how_well(x, h)) for x, h in zip(estimate.value, half, strict=True)),
            *(str(v.known or "") for v in whole),
            *[""] * len(shapes),
        ],
        "combination": [
            *[""] * b,
            *("; ".join(v.combination) if v.standing is Standing.COMBINATION else "" for v in whole),
            *[""] * len(shapes),
        ],
        "prior_share": [*estimate.prior_share.tolist(), *nan, *unknown],
    } | _evidence(identification, p + len(shapes))


def link_columns(identification: Identification) -> dict[str, Any]:
    """Table of mass and centre of mass of every link with its prior, one row each, and a row of the total mass.

    Returns the columns by name; docs/run-folder.md explains them.
    """
    every_link, total = links(identification)
    rows = [(link.name, link.mass, *link.centre) for link in every_link]
    nothing = Value(math.nan, math.nan, math.nan, math.nan)
    if every_link:
        rows.append(("all links", total, nothing, nothing, nothing))
    columns: dict[str, Any] = {
        "kind": ["link"] * len(every_link) + ["total"] * bool(every_link),
        "name": [row[0] for row in rows],
    }
    for place, name in enumerate(("mass", "x", "y", "z"), start=1):
        for field, ending in (
            ("value", ""),
            ("half", "_half95"),
            ("described", "_described"),
            ("data", "_data"),
        ):
            columns[name + ending] = np.array([getattr(row[place], field) for row in rows], dtype=np.float64)
    inside = [{True: "inside", False: "outside", None: ""}[link.inside] for link in every_link]
    return columns | {
        "inside": [*inside, ""][: len(rows)],
        "said_by": [*(link.source for link in every_link), total_source(every_link, total)][: len(rows)],
    }


def score_columns(identification: Identification) -> dict[str, Any]:
    """Table of scores, one row per data set and joint.

    Returns the columns by name; docs/conventions.md explains them. Data set 0 is the fitted data.
    """
    every = [
        identification.training.scores,
        *(validation.scores for validation in identification.validations),
    ]
    columns: dict[str, Any] = {
        "set": [i for i, scores in enumerate(every) for _ in scores.joint_names],
        "data": [str(scores.origin) for scores in every for _ in scores.joint_names],
        "joint": [name for scores in every for name in scores.joint_names],
    }
    for name in SCORES:
        columns[name] = np.concatenate([getattr(scores, name) for scores in every])
    return columns


def _evidence(identification: Identification, others: int) -> dict[str, list[Any]]:
    """For each base parameter: the most informative joint and block of time, and the most influential block."""
    b = identification.estimate.base.rank
    influence = identification.influence
    blocks = identification.factors.blocks
    empty: dict[str, list[Any]] = {
        "informed_by": [""] * (b + others),
        "informed_share": [math.nan] * (b + others),
        "best_start": [math.nan] * (b + others),
        "best_end": [math.nan] * (b + others),
        "best_share": [math.nan] * (b + others),
        "hangs_on_start": [math.nan] * (b + others),
        "hangs_on_end": [math.nan] * (b + others),
        "shift_without": [math.nan] * (b + others),
    }
    if influence is None:
        return empty
    for i in range(b):
        group, best = int(np.argmax(influence.group_share[i])), int(np.argmax(influence.block_share[i]))
        worst = int(np.argmax(np.abs(influence.shift[i])))
        values = (
            identification.factors.group_names[group],
            float(influence.group_share[i, group]),
            blocks[best].start,
            blocks[best].end,
            float(influence.block_share[i, best]),
            blocks[worst].start,
            blocks[worst].end,
            float(influence.shift[i, worst]),
        )
        for column, entry in zip(empty.values(), values, strict=True):
            column[i] = entry
    return empty


def write_residuals(identification: Identification, path: Path) -> None:
    """Write measured and predicted torque of every data set that has samples."""
    sets = [
        (i, v.residuals)
        for i, v in enumerate((identification.training, *identification.validations))
        if v.residuals is not None
    ]
    whole = np.zeros(0, dtype=np.int64)
    columns: dict[str, Any] = {
        "set": np.concatenate([whole, *(np.full(len(r.t), i) for i, r in sets)]),
        "trajectory": np.concatenate([whole, *(r.trajectory for _, r in sets)]),
        "segment": np.concatenate([whole, *(r.segment for _, r in sets)]),
        "t": np.concatenate([np.zeros(0), *(r.t for _, r in sets)]),
    }
    for name in _RESIDUAL_ARRAYS:
        for j, joint in enumerate(identification.robot.joint_names):
            lines = [np.zeros(0), *(getattr(r, name)[:, j] for _, r in sets)]
            columns[f"{name}_{joint}"] = np.concatenate(lines)
    for j, joint in enumerate(identification.robot.joint_names):
        unknown = [r.std[:, j] if r.std is not None else np.full(len(r.t), np.nan) for _, r in sets]
        columns[f"std_{joint}"] = np.concatenate([np.zeros(0), *unknown])
    for j, joint in enumerate(identification.robot.joint_names):
        counted = [np.zeros(0, dtype=np.bool_), *(r.counts(j) for _, r in sets)]
        columns[f"counted_{joint}"] = np.concatenate(counted)
    write_table(path, columns)


def read_residuals(path: Path, robot: RobotModel, described: Mapping[str, Any]) -> dict[int, Residuals]:
    """Read the residuals of a run folder.

    `path`: the Parquet file; `described`: sampling rate and trajectories by number of the data set, from run.json.
    """
    table = read_table(path)
    residuals: dict[int, Residuals] = {}
    for key, entry in described.items():
        mask = table["set"] == int(key)
        motion = {
            name: of_size(
                np.column_stack([table[f"{name}_{joint}"][mask] for joint in robot.joint_names]),
                name,
                known=False,
            )
            for name in (*_RESIDUAL_ARRAYS, "std")
        }
        gates = [table[name][mask] for joint in robot.joint_names if (name := f"counted_{joint}") in table]
        counted = np.column_stack(gates) if len(gates) == robot.n else np.ones((1, robot.n), dtype=np.bool_)
        residuals[int(key)] = Residuals(
            trajectories=tuple(entry["trajectories"]),
            joint_names=robot.joint_names,
            t=of_size(table["t"][mask], "t"),
            trajectory=table["trajectory"][mask],
            segment=table["segment"][mask],
            measured=motion["measured"],
            predicted=motion["predicted"],
            q=motion["q"],
            dq=motion["dq"],
            rate=float(entry["rate"]),
            std=motion["std"] if np.isfinite(motion["std"]).any() else None,
            counted=None if counted.all() else counted,
        )
    return residuals


def write_factors(identification: Identification, path: Path) -> None:
    """Write the factors, one row per block and group of equations."""
    rows: dict[str, list[Any]] = {
        name: []
        for name in (
            "block",
            "group",
            "trajectory",
            "segment",
            "start",
            "end",
            "count",
            "columns",
            "R",
            "sums",
            "abs",
            "motion",
            "part",
            "stretches",
        )
    }
    for index, block in enumerate(identification.factors.blocks):
        for group, factor in zip(identification.factors.group_names, block.groups, strict=True):
            entry = (index, group, block.trajectory, block.segment, block.start, block.end, factor.count)
            motion = np.zeros(0) if block.motion is None else block.motion
            part = -1 if block.part is None else block.part
            arrays = (factor.columns, factor.R.ravel(), factor.sums, factor.target_abs, motion)
            stretches = np.zeros(0) if block.stretches is None else block.stretches.ravel()
            repeated = (part, stretches)
            for name, value in zip(rows, entry + arrays + repeated, strict=True):
                rows[name].append(value)
    write_table(path, rows)


def read_factors(path: Path, parameter_count: int) -> Factors:
    """Read the factors."""
    table = read_table(path)
    groups: dict[str, None] = dict.fromkeys(table["group"])
    per_block = len(groups)
    blocks = []
    for first in range(0, len(table["group"]), per_block):
        factors = []
        for i in range(first, first + per_block):
            columns = np.array(table["columns"][i], dtype=np.int64)
            w = len(columns)
            if w and not 0 <= columns.min() <= columns.max() < parameter_count:
                raise ValueError(f"factor {i} has a parameter that the model does not have")
            factors.append(
                Factor(
                    columns=columns,
                    R=_array(table["R"][i], "R").reshape(w + 1, w + 1),
                    count=int(table["count"][i]),
                    sums=_array(table["sums"][i], "sums"),
                    target_abs=float(_array(table["abs"][i], "abs")),
                )
            )
        start, end = float(table["start"][first]), float(table["end"][first])
        motion = np.array(table["motion"][first] if "motion" in table else (), dtype=np.float64)
        part = int(table["part"][first]) if "part" in table else -1
        stretches = np.array(table["stretches"][first] if "stretches" in table else (), dtype=np.float64)
        blocks.append(
            Block(
                trajectory=table["trajectory"][first],
                segment=int(table["segment"][first]),
                start=start,
                end=end,
                groups=tuple(factors),
                motion=of_size(motion, "motion") if len(motion) else None,
                part=part if part >= 0 else None,
                stretches=of_size(stretches, "stretches").reshape(-1, 2) if len(stretches) else None,
            )
        )
    return Factors(tuple(groups), parameter_count, tuple(blocks))


def _array(values: Any, name: str) -> Float:
    return of_size(np.array(values, dtype=np.float64), name)
