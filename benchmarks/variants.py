"""The logs of real robots as other people might have recorded them, by dynid's default command.

    python benchmarks/variants.py [--data FOLDER] [--only krang] [--out variants.jsonl] [--write docs/real-logs.md]

Each log of `benchmarks/real.py` that is run by default, changed in one thing: training and validation exchanged, or all
of it to fit and to hold blocks out of; its halves, where nothing is named to validate on; without its velocities; at
100 and 40 samples a second without a filter; positions in steps of 1 mrad at the joints; time stamps off by up to 15 %
of a sample. A figure is the error on unseen motion in per cent, of plain least squares at dynid's cut-off and of dynid,
then the first letter of the verdict, and the codes of doubts.

Finished variants are kept in the file given by --out, and the same command goes on where it stopped. Ends with 1 if a
command failed.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import campaign, figure, markdown, note, on_real_logs, publish

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import real

RATES = {"100 Hz": 100.0, "40 Hz": 40.0}
COARSE = 1e-3  # rad or m, at the joints
JITTER = 0.15  # of a sample
SEED = 20261123
MOTOR_SIDE = re.compile(r"^position\s*=.*side\s*=\s*\"motor\"", re.MULTILINE)
VELOCITY = re.compile(r"^velocity\s*=.*\n", re.MULTILINE)
HALF = """[data]
train = [{{ trajectory = "*", part = {} }}]
validate = [{{ trajectory = "*", part = {} }}]
"""
NAMES = ("exchanged", "first half", "second half", "all of it", "no velocity", *RATES, "coarse", "jitter")
TIMEOUT = 900.0  # s, of one command


class Variant(NamedTuple):
    """A mapping, and a log in place of the real one; None = that one."""

    name: str
    mapping: str
    log: pa.Table | None = None


def variants(case: real.Case, mapping: str) -> Iterator[Variant]:
    """What can be changed in a log with such a mapping."""
    head, _, data = mapping.partition("[data]")
    table = pq.read_table(case.log)
    t = np.array(table["t"])
    runs = trajectories(table)
    step = float(np.median(np.diff(t[runs[0]])))
    if tomllib.loads(mapping).get("data", {}).get("validate"):
        exchanged = re.sub(r"^(\[\[data\.|)(train|validate)\b", _other, data, flags=re.MULTILINE)
        yield Variant("exchanged", f"{head}[data]{exchanged}")
        yield Variant("all of it", head)
    else:
        parts = "[0.0, 0.5]", "[0.5, 1.0]"
        yield Variant("first half", head + HALF.format(*parts))
        yield Variant("second half", head + HALF.format(*reversed(parts)))
    if VELOCITY.search(head):
        yield Variant("no velocity", VELOCITY.sub("", mapping))
    for name, rate in RATES.items():
        every = round(1.0 / step / rate)
        if every > 1:
            yield Variant(name, mapping, table.take(pa.array(np.concatenate([run[::every] for run in runs]))))
    yield Variant("coarse", mapping, coarse(case, table, mapping))
    off = np.random.default_rng(SEED).uniform(-JITTER, JITTER, len(t)) * step
    yield Variant("jitter", mapping, replaced(table, "t", t + off))


def _other(key: re.Match[str]) -> str:
    return key[1] + ("validate" if key[2] == "train" else "train")


def trajectories(table: pa.Table) -> list[Any]:
    """Indices of the samples of each."""
    if "traj" not in table.column_names:
        return [np.arange(table.num_rows)]
    names = np.array(table["traj"].to_pylist())
    return np.split(np.arange(len(names)), np.flatnonzero(names[1:] != names[:-1]) + 1)


def coarse(case: real.Case, table: pa.Table, mapping: str) -> pa.Table:
    """With positions in steps, which a gear makes so many times as great on the side of the motors."""
    gears = real.load_robot(case.robot).drive.transmission if MOTOR_SIDE.search(mapping) else np.eye(1)
    step = COARSE * float(np.median(np.abs(gears[gears != 0])))
    for name in table.column_names:
        if re.fullmatch(r"qm?(\d+|_(?!ref|des).*)", name):
            table = replaced(table, name, np.round(np.array(table[name]) / step) * step)
    return table


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    """A table with other values in a column."""
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def tried(job: tuple[real.Case, Variant]) -> dict[str, Any]:
    """One variant by the command, and by plain least squares."""
    with tempfile.TemporaryDirectory() as folder:
        return _tried(*job, Path(folder))


def _tried(case: real.Case, variant: Variant, scratch: Path) -> dict[str, Any]:
    mapping, log = scratch / "mapping.toml", case.log
    mapping.write_text(variant.mapping)
    if variant.log is not None:
        log = scratch / "data.parquet"
        pq.write_table(variant.log, log)
    row = real.run(real.Case(case.folder, case.robot, log, mapping), scratch, TIMEOUT)
    file = scratch / "run" / "run.json"
    findings = json.loads(file.read_text())["verdict"]["findings"] if file.exists() else []
    doubts = sorted({item["code"] for item in findings if item["level"] == "doubt"})
    return {"case": case.name, "variant": variant.name, "doubts": doubts, **asdict(row)}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown: a line for each log, a column for each variant."""
    by_place = {(row["case"], row["variant"]): row for row in rows}
    logs = dict.fromkeys(row["case"] for row in rows)
    lines = [(f"`{log}`", *(cell(by_place.get((log, name))) for name in NAMES)) for log in logs]
    return markdown(("log, robot, mapping", *NAMES), lines)


def cell(row: dict[str, Any] | None) -> str:
    """Of one variant; a dash where a log cannot be changed so."""
    if row is None:
        return "-"
    if row["exit"]:
        return str(row["verdict"])
    plain, ours = (figure(row[key][0] if row[key] else None) for key in ("plain_alike", "ours"))
    return f"{plain} / {ours} {row['verdict'][:1]}" + "".join(f" `{code}`" for code in row["doubts"])


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """How many do as well as least squares, how many are doubted or fail, and what the slowest takes."""
    scored = [row for row in rows if row["plain_alike"] and row["ours"]]
    well = sum(row["ours"][0] <= real.WORSE * row["plain_alike"][0] for row in scored)
    doubted, failed = sum(bool(row["doubts"]) for row in rows), sum(bool(row["exit"]) for row in rows)
    slowest = max(row["processor_s"] for row in rows)
    return (
        f"{well} of {len(scored)} miss at most {real.WORSE:g} times what least squares does; {doubted} of {len(rows)} "
        f"are doubted, {failed} failed; the slowest took {slowest:.0f} s of processor time."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is not in the file yet, prints the table, and writes it to the named page."""
    given = on_real_logs(__doc__, arguments, only="", out=Path("variants.jsonl"))
    jobs = {}
    for case in real.cases(given.data):
        if case.note != real.EXPERT and given.only in case.name:
            with tempfile.TemporaryDirectory() as folder:
                mapping = real.with_mapping(case, Path(folder)).mapping
                assert mapping is not None
                text = mapping.read_text()
            jobs |= {(case.name, variant.name): (case, variant) for variant in variants(case, text)}
    rows = campaign(
        jobs,
        tried,
        lambda row: (row["case"], row["variant"]),
        given,
        lambda row: note(row["case"], row["variant"], cell(row)),
    )
    publish(f"{table(rows)}\n\n{summary(rows)}", "variants.py", given.write)
    return int(any(row["exit"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
