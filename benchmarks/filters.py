"""Kalman filters over logs of real robots: with what each ends, an answer or a coded message.

    python benchmarks/filters.py [--methods ukf,cdkf] [--data FOLDER] [--rows rows.jsonl] [--write docs/estimators.md]

On every log and mapping of benchmarks/real.py, experiment files of experts left out, by what a user would type:

    dynid identify ROBOT LOG --config MAPPING --estimator ukf --out RUN

Scores are ||tau - tau_hat|| / ||tau|| over all joints on held-out motion. Processor time and memory are those of the
command. Rows are kept in --rows, and the same command goes on where it stopped. Ends with 1 where a command wrote a
traceback, left a file after a refusal, or ended with a code that it has no message for.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.pages import parser_of, written
from benchmarks.real import EXPERT, Case, Row, cases, figure, measured, pair, read_run, with_mapping


def run(case: Case, method: str, scratch: Path, timeout: float) -> dict[str, Any]:
    """With what the command ends."""
    used = with_mapping(case, scratch)
    files = [str(used.robot), str(used.log), "--config", str(used.mapping)]
    folder = scratch / "run"
    code, errors, spent = measured(["identify", *files, "--estimator", method, "--out", str(folder)], timeout)
    named = re.search(r"error\[([^\]]+)\]", errors)
    row = Row(case.name)
    if code == 0:
        read_run(row, json.loads((folder / "run.json").read_text()))
    else:
        row.verdict = f"refused: `{named[1]}`" if named else "no result"
    clean = "Traceback" not in errors and (code == 0 or (named is not None and not folder.exists()))
    return {
        "name": case.name,
        "method": method,
        "exit": code,
        "outcome": row.verdict,
        "missed": row.ours,
        "clean": clean,
        **spent,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    head = (
        "log, robot, mapping",
        "method",
        "exit",
        "ends with",
        "missed, %: moving / all",
        "processor, s",
        "memory, MB",
    )
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = (
            f"`{row['name']}`",
            f"`{row['method']}`",
            str(row["exit"]),
            row["outcome"] if row["clean"] else f"{row['outcome']}, not cleanly",
            pair(row["missed"]),
            figure(row["seconds"]),
            f"{row['megabytes']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is left, prints the table, and writes it to the named page."""
    parser = parser_of(__doc__)
    parser.add_argument("--methods", default="ukf,cdkf")
    parser.add_argument("--rows", type=Path, default=Path("filters.jsonl"), help="file that keeps the rows")
    parser.add_argument("--timeout", type=float, default=3600.0, help="s, of one command")
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        parser.error(f"no folder '{options.data}': set DYNID_DATA or give --data")
    kept = options.rows.read_text().splitlines() if options.rows.exists() else []
    known = {(row["name"], row["method"]): row for row in map(json.loads, kept)}
    wanted = [
        (case, method)
        for case in cases(options.data)
        if case.note != EXPERT
        for method in options.methods.split(",")
    ]
    for case, method in wanted:
        if (case.name, method) not in known:
            with tempfile.TemporaryDirectory() as scratch:
                row = run(case, method, Path(scratch), options.timeout)
            known[case.name, method] = row
            with options.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, file=sys.stderr, flush=True)
    rows = [known[case.name, method] for case, method in wanted]
    print(table(rows))
    if options.write:
        options.write.write_text(written(options.write.read_text(), "filters.py", table(rows)))
    return int(not all(row["clean"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
