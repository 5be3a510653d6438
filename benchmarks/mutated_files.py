"""Files that something has damaged: every one must end with a result or one message, and leave nothing behind.

    python benchmarks/mutated_files.py [--files 5000] [--first 0] [--workers 2] [--part 1/1] [--out FILE]

Robot descriptions (URDF, MJCF, TOML), experiments, logs (CSV, Parquet, ROS 1 and 2 bags, MCAP) and run folders of a
two-joint arm are mutated with a seed: bytes flipped, cut, doubled; numbers replaced by extreme ones; values of JSON and
TOML replaced by other types. Descriptions go through `inspect` and every other one through `identify`, logs through
`check`, run folders through `report` and `export`. Counted as failures: exit code 1 (a mistake in dynid), a traceback,
a warning of a library, anything left beside the input, over 2 GB of memory or 30 s of processor. One line of JSON a
file goes to FILE, from which an interrupted campaign goes on. Prints the processor time; 1 = a file failed.
KEEP_MUTATED=FOLDER keeps the files that failed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np

from benchmarks.isolated import files_in, import_for, isolated

SEED = 20261123
EXTREME = (
    "1e308", "-1e308", "1e-308", "nan", "inf", "-1", "0", "", "1,5", "1e400", "9" * 400, "x", "1_0", "true",
)  # fmt: skip
OTHER_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, float("nan"), "", "x" * 300, [], {}, [[]], [None], {"a": 1},
)  # fmt: skip
NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")


def mutated_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with one to three random faults."""
    for _ in range(rng.integers(1, 4)):
        size = len(data)
        if size == 0:
            return data
        at, length = int(rng.integers(size)), int(rng.integers(1, max(2, min(200, size))))
        match rng.integers(6):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[at + length :]
            case 2:
                data = data[:at] + data[at : at + length] + data[at:]
            case 3:
                data = data[:at] + rng.bytes(1) + data[at + 1 :]
            case 4:
                data = data[:at] + bytes(length) + data[at + length :]
            case _:
                data = data[:at] + rng.bytes(length) + data[at + length :]
    return data


def mutated_text(data: bytes, rng: np.random.Generator) -> bytes:
    """Text with one to three random faults: numbers that are extreme, lines and spans that are gone, doubled, moved."""
    for _ in range(rng.integers(1, 4)):
        lines = data.split(b"\n")
        at = int(rng.integers(len(lines)))
        match rng.integers(6):
            case 0 | 1 | 2:
                numbers = list(NUMBER.finditer(data))
                if numbers:
                    number = numbers[rng.integers(len(numbers))]
                    data = data[: number.start()] + str(rng.choice(EXTREME)).encode() + data[number.end() :]
            case 3:
                data = b"\n".join(lines[:at] + lines[at + 1 :])
            case 4:
                other = int(rng.integers(len(lines)))
                lines[at], lines[other] = lines[other], lines[at]
                data = b"\n".join(lines)
            case _:
                data = mutated_bytes(data, rng)
    return data


def mutated_json(data: bytes, rng: np.random.Generator) -> bytes:
    """JSON of which one to three values are of another type, extreme, or gone."""
    tree = json.loads(data)
    for _ in range(rng.integers(1, 4)):
        holder, key = _somewhere(tree, rng)
        if holder is None:
            continue
        if rng.integers(4) == 0:
            del holder[key]
        else:
            holder[key] = deepcopy(OTHER_VALUES[rng.integers(len(OTHER_VALUES))])
    return json.dumps(tree).encode()


def _somewhere(tree: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    holder, key = None, None
    while isinstance(tree, (dict, list)) and tree:
        if holder is not None and rng.integers(5) == 0:
            break
        holder = tree
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        key = keys[rng.integers(len(keys))]
        tree = tree[key]
    return holder, key


def prepare(base: Path) -> None:
    """Sound files of every kind."""
    from tests.command_line import ROBOT, make_log

    robot = base / "arm.toml"
    robot.write_text(ROBOT)
    log = make_log(robot, base / "log.parquet", 1, seconds=10.0)
    make_log(robot, base / "log.csv", 1, seconds=10.0)
    (base / "experiment.toml").write_text(EXPERIMENT)
    for arguments in (
        ("identify", robot, log, "-c", base / "experiment.toml", "--out", base / "run"),
        ("export", base / "run", "--to", base / "arm.urdf", "--feasible"),
        ("export", base / "run", "--to", base / "arm.xml", "--feasible"),
    ):
        ended = isolated(arguments)
        if ended.code != 0:
            raise SystemExit(f"{arguments[0]} of a sound file ends with {ended.code}: {ended.text}")
    write_bags(log, base)


EXPERIMENT = """
[prepare]
cutoff = 8.0

[model]
terms = ["rigid_body", "viscous", "coulomb"]

[estimate]
method = "wls"
folds = 5
seed = 3
"""


def write_bags(log: Path, base: Path) -> None:
    """The first two seconds of the log as a ROS 1 bag, and as ROS 2 bags of both storages."""
    import pyarrow.parquet as pq

    from tests.log.bags import states, write_bag

    table = pq.read_table(log).slice(0, 400)
    joints = [name[2:] for name in table.column_names if name.startswith("q_")]
    q, tau = (np.column_stack([table[f"{signal}_{j}"].to_numpy() for j in joints]) for signal in ("q", "tau"))
    t = table["t"].to_numpy()
    messages = states(t, joints, q, np.gradient(q, t, axis=0), tau)
    write_bag(base / "log.bag", messages)
    for folder in ("two.db3", "two"):
        write_bag(base / folder, messages)
    shutil.copy(next((base / "two.db3").glob("*.db3")), base / "log.db3")
    shutil.copy(next((base / "two").glob("*.mcap")), base / "log.mcap")


FITTED = ("identify", "FILE", "BASE/log.parquet", "-c", "BASE/experiment.toml")
# What is mutated, how, and what then reads it: FILE stands for the mutated file, BASE for the sound ones.
KINDS: tuple[tuple[str, Callable[[bytes, np.random.Generator], bytes], tuple[tuple[str, ...], ...]], ...] = (
    ("arm.toml", mutated_text, (("inspect", "FILE"), FITTED)),
    ("arm.urdf", mutated_text, (("inspect", "FILE"), FITTED)),
    ("arm.xml", mutated_text, (("inspect", "FILE"), FITTED)),
    ("experiment.toml", mutated_text, (("check", "BASE/arm.toml", "BASE/log.parquet", "--no-fit",
                                        "-c", "FILE"),
                                       ("identify", "BASE/arm.toml", "BASE/log.parquet", "-c", "FILE"))),
    ("log.csv", mutated_text, (("check", "BASE/arm.toml", "FILE", "--no-fit"),)),
    ("log.parquet", mutated_bytes, (("check", "BASE/arm.toml", "FILE", "--no-fit"),)),
    ("log.bag", mutated_bytes, (("check", "BASE/arm.toml", "FILE", "--no-fit"),)),
    ("log.db3", mutated_bytes, (("check", "BASE/arm.toml", "FILE", "--no-fit"),)),
    ("log.mcap", mutated_bytes, (("check", "BASE/arm.toml", "FILE", "--no-fit"),)),
    ("run/run.json", mutated_json, (("report", "FILE"), ("export", "FILE"))),
    ("run/model.json", mutated_json, (("report", "FILE"), ("export", "FILE"))),
    ("run/parameters.parquet", mutated_bytes, (("report", "FILE"),)),
    ("run/residuals.parquet", mutated_bytes, (("report", "FILE"),)),
    ("run/factors.parquet", mutated_bytes, (("report", "FILE"), ("export", "FILE"))),
)  # fmt: skip


def command_on(target: Path, command: tuple[str, ...], base: Path, out: Path) -> list[str]:
    """Arguments of a command that reads a file, or its run folder, and may write `out`."""
    given = target.parent if target.parent.name == "run" else target
    arguments = [str(given) if word == "FILE" else word.replace("BASE", str(base)) for word in command]
    if command[0] == "identify":
        arguments += ["--out", str(out)]
    if command[0] == "export":
        arguments += ["--to", str(out.with_suffix(".urdf")), "--feasible"]
    return arguments


def case(number: int, base: Path) -> Row:
    """One mutated file, and what came of it."""
    rng = np.random.default_rng([SEED, number])
    name, mutate, commands = KINDS[number % len(KINDS)]
    command = commands[(number // len(KINDS)) % len(commands)]
    work = base / f"case-{number}"
    work.mkdir()
    target = work / Path(name).name
    if name.startswith("run/"):
        shutil.copytree(base / "run", work / "run")
        target = work / name
    target.write_bytes(mutate((base / name).read_bytes(), rng))
    before = files_in(work)
    ended = isolated(command_on(target, command, base, work / "out"))
    wrong = ended.fault((0, 2, 3, 4, 5, 6, 7), files_in(work) - before)
    if wrong:
        wrong += f": {ended.text[-1500:]}"
    kept = os.environ.get("KEEP_MUTATED")
    if wrong and kept:
        shutil.copytree(work, Path(kept) / work.name, dirs_exist_ok=True)
    shutil.rmtree(work)
    return {
        "case": number,
        "file": name,
        "command": command[0],
        "code": ended.code,
        "wrong": wrong,
        **ended.spent,
    }


def main() -> int:
    """Runs the campaign; 1 = a file failed."""
    given = parser(
        __doc__, files=5000, first=0, workers=2, part="1/1", out=Path("mutated-files.jsonl")
    ).parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def show(row: Row) -> None:
        if row["wrong"]:
            print({key: row[key] for key in ("case", "file", "command", "code", "wrong")}, flush=True)

    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        prepare(base)
        import_for(*(command_on(base / name, command, base, base / "warm") for name, _, commands in KINDS
                     for command in commands))  # fmt: skip
        results = campaign(
            {number: number for number in range(given.first, given.first + given.files)},
            lambda number: case(number, base),
            lambda row: row["case"],
            given,
            show,
            ThreadPoolExecutor,
        )
    wrong = [row for row in results if row["wrong"]]
    codes = Counter(row["code"] for row in results)
    print(
        f"{len(results)} files: {len(wrong)} failures; exit codes {dict(sorted(codes.items()))}; at most "
        f"{max(row['gb'] for row in results):.2f} GB, {max(row['seconds'] for row in results):.1f} s; "
        f"{sum(row['cpu'] for row in results):.0f} s of processor"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
