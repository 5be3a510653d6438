"""Identified logs as data: real robots' and the demo's."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.tables import read_table
from dynid.kernel import backend
from tests.baseline.records import Ended, command, differences, keys_of, store, stored, text_differences

# Of a parameter's half width of the 95 % interval, its size, or a share of the greatest of its unit: whichever is most.
TOLERANCE = 1e-6
# Share of the greatest parameter of a unit below which a value without an interval is rounding of zero.
ROUNDING = 1e-6
# Intervals and scores are products of longer sums than values are.
WIDTH_TOLERANCE, SCORE_TOLERANCE = 1e-5, 1e-6
# Row of benchmarks/real.py that runs by default: its model is chosen, and both kernels choose the same.
SHORT = "tx40_lirmm robot.toml mapping.toml"
FAST = "demo --fast"
DEMOS = {FAST: ("--fast",), "demo": ()}
# Share by which a full parameter may differ from the base parameter that is it and nothing else.
AS_BASE, SAME = "as the base parameter", 1e-9
# Of coefficients in formulas, which have four digits: a tie is rounded up or down by the last bit.
COEFFICIENT = 1e-3
KEYS = ("keys of --json", "keys of run.json", "keys of model.json")


def real_rows(data: Path) -> Iterator[str]:
    """Names of the benchmark's rows that the data folder has."""
    from benchmarks.real import cases

    yield from (case.name for case in cases(data))


def real_row(name: str, data: Path, folder: Path) -> dict[str, Any]:
    """What `dynid identify` says of one row of the benchmark; run and files are written to the folder."""
    from benchmarks.real import cases, with_mapping

    case = with_mapping(next(case for case in cases(data) if case.name == name), folder)
    run = folder / "run"
    words = ("identify", case.robot, case.log, "--config", case.mapping, "--out", run, "--json")
    return record(command(*words), run)


def demo(name: str, folder: Path) -> dict[str, Any]:
    """What `dynid demo` says and writes; the run folder is written to folder/run."""
    run = folder / "run"
    return record(command("demo", *DEMOS[name], "--out", run, "--json"), run)


def record(ended: Ended, run: Path) -> dict[str, Any]:
    """A command that made a run, as data."""
    printed = ended.json
    made: dict[str, Any] = {"exit code": ended.code, "errors": [one["code"] for one in printed["errors"]]}
    if ended.code:
        return made | {KEYS[0]: keys_of(printed)}
    written = json.loads((run / "run.json").read_text(encoding="utf-8"))
    model = json.loads((run / "model.json").read_text(encoding="utf-8"))
    verdict, preparation = written["verdict"], written["preparation"]
    made |= {
        "verdict": verdict["level"],
        "findings": sorted({one["code"] for one in verdict["findings"]}),
        "residual findings": sorted({one["identifier"] for one in written.get("residual_findings", [])}),
        "diagnostics": sorted({f"{one['severity']} {one['code']}" for one in printed["diagnostics"]}),
        "terms": [one["term"] for one in model["terms"]],
        "method": model["estimate"]["method"],
        "rows": preparation["rows"]["name"],
        "cutoff": preparation["settings"]["cutoff"],
        "files": sorted(path.name for path in run.iterdir()),
        "scores": [[one["origin"], one["total_relative"], *one["relative"]] for one in written["scores"]],
        "parameters": parameters(run),
    }
    return made | dict(zip(KEYS, map(keys_of, (printed, written, model)), strict=True))


def parameters(run: Path) -> list[list[Any]]:
    """A parameter each, in order: kind and formula or name, unit, verdict, value, half width of the 95 % interval.

    No interval: four entries. A full parameter that is a base parameter by itself: its name and AS_BASE.
    """
    table = read_table(run / "parameters.parquet")
    half = 0.5 * (np.asarray(table["upper95"]) - np.asarray(table["lower95"]))
    rows: list[list[Any]] = []
    base: dict[str, float] = {}
    for i, kind in enumerate(table["kind"]):
        text = str(table["formula" if kind == "base" else "name"][i])
        value, width = float(table["value"][i]), float(half[i])
        row = [
            f"{kind} {text}",
            str(table["unit"][i]),
            str(table["verdict"][i]),
            value if np.isfinite(value) else None,
        ]
        row += [float(f"{width:.7g}")] if np.isfinite(width) else []
        if kind == "base":
            base[text] = value
        elif abs(value - base.get(text, np.inf)) <= SAME * abs(value):
            row = [row[0], AS_BASE]  # said above
        rows.append(row)
    return rows


def row_differences(now: dict[str, Any], name: str) -> list[str]:
    """Where a row differs from the stored one."""
    before, usual = stored(f"rows/{file_name(name)}"), stored("keys_of_runs")
    for kind in KEYS:
        if kind in before:
            before[kind] = sorted(set(usual[kind]) ^ set(before[kind]))
    lines = parameter_differences(now.pop("parameters", []), before.pop("parameters", []))
    lines += score_differences(now.pop("scores", []), before.pop("scores", []))
    cutoff, cutoff_before = (one.pop("cutoff", 0.0) for one in (now, before))
    if abs(cutoff - cutoff_before) > 1e-9 * cutoff_before:
        lines.append(f"cutoff: now {cutoff}, was {cutoff_before}")
    return lines + differences(now, before, name)


def parameter_differences(now: Sequence[list[Any]], before: Sequence[list[Any]]) -> list[str]:
    """Names, units and verdicts in their order; values beside their intervals."""
    texts = [[" | ".join(row[:3]) for row in rows] for rows in (now, before)]
    if len(texts[0]) != len(texts[1]):
        return differences(texts[0], texts[1], "parameters")
    if lines := text_differences("\n".join(texts[0]), "\n".join(texts[1]), COEFFICIENT, 0.0):
        return lines
    valued = [row for row in before if row[1] != AS_BASE]
    greatest: dict[str, float] = {}
    for row in valued:
        greatest[row[1]] = max(greatest.get(row[1], 0.0), abs(row[3] or 0.0))
    for row, row_before in zip([row for row in now if row[1] != AS_BASE], valued, strict=True):
        (value, *half), (value_before, *half_before), name = row[3:], row_before[3:], row[0]
        if None in (value, value_before) or len(half) != len(half_before):
            lines += [] if row == row_before else [f"{name}: now {row[3:]}, was {row_before[3:]}"]
            continue
        scale = max(*half_before, abs(value_before), ROUNDING * greatest[row[1]])
        if abs(value - value_before) > TOLERANCE * scale:
            lines.append(f"{name}: now {value}, was {value_before}")
        if half and abs(half[0] - half_before[0]) > WIDTH_TOLERANCE * half_before[0]:
            lines.append(f"{name}: interval now +- {half[0]}, was +- {half_before[0]}")
    return lines


def full_values(rows: Sequence[list[Any]]) -> list[float]:
    """Values of the full parameters, in order."""
    base = {row[0].removeprefix("base "): row[3] for row in rows if row[0].startswith("base ")}
    full = [row for row in rows if row[0].startswith("full ")]
    return [base[row[0].removeprefix("full ")] if row[1] == AS_BASE else row[3] for row in full]


def score_differences(now: Sequence[list[Any]], before: Sequence[list[Any]]) -> list[str]:
    """Relative errors of torque, whole and by joint."""
    if [row[0] for row in now] != [row[0] for row in before] or list(map(len, now)) != list(map(len, before)):
        return [f"scores: now {now}, was {before}"]
    return [
        f"score {name}: now {values}, was {values_before}"
        for (name, *values), (_, *values_before) in zip(now, before, strict=True)
        if not np.allclose(
            np.array(values, float), np.array(values_before, float), SCORE_TOLERANCE, 0, equal_nan=True
        )
    ]


def file_name(row: str) -> str:
    """Name of the file of a row, without its ending."""
    return "".join(c if c.isalnum() or c == "." else "_" for c in row.replace(".toml", "")).strip("_")


def names() -> list[str]:
    """Stored rows of real robots."""
    return list(stored("rows/names"))


def write(data: Path) -> None:
    """Runs the demo and every row of the benchmark, and stores them."""
    real = list(real_rows(data))
    rows: dict[str, dict[str, Any]] = {}
    for name in (*DEMOS, *real):
        with tempfile.TemporaryDirectory() as scratch:
            rows[name] = demo(name, Path(scratch)) if name in DEMOS else real_row(name, data, Path(scratch))
    # Keys of more than half of the rows; of a row those are stored that only one of both has.
    usual = {
        kind: sorted(key for key, count in count_of(rows.values(), kind).items() if 2 * count > len(rows))
        for kind in KEYS
    }
    for name, row in rows.items():
        for kind in KEYS:
            if kind in row:
                row[kind] = sorted(set(row[kind]) ^ set(usual[kind]))
        store(f"rows/{file_name(name)}", row, packed=name not in (FAST, SHORT))
    store("rows/names", real)
    store("keys_of_runs", usual)
    store("kernel", backend())


def count_of(rows: Iterable[dict[str, Any]], kind: str) -> Counter[str]:
    """In how many rows each key is."""
    return Counter(key for row in rows for key in row.get(kind, ()))
