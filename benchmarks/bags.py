"""Joint states read from bags, beside messages decoded one by one in the same run.

Usage: python benchmarks/bags.py [--messages 60000] [--joints 7] [--memory]

For each storage: seconds of rosbags' AnyReader that decodes message by message into the same arrays (the peer), of the
raw iteration alone (what no reader through rosbags can go below), of the first look through the bag, of a reading after
it, whose numbers are kept, and of one of a bag too long for that; ratio of the peer to look and reading together, and
to the latter. With --memory also the growth of the peak of
memory while a bag of MCAP and one of four times its length are streamed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from rosbags.highlevel import AnyReader

from dynid.log.readers import bag as bag_survey
from dynid.log.readers import bag as bags
from dynid.log.readers.bag import survey
from tests.log.bags import states, write_bag

STORAGES = ("run.bag", "run_mcap", "run_db3")


def names(joints: int) -> tuple[str, ...]:
    """Joints as they are called in the bags."""
    return tuple(f"joint{i + 1}" for i in range(joints))


def made(path: Path, messages: int, joints: int) -> Path:
    """A bag of random joint states at 500 Hz."""
    rng = np.random.default_rng(0)
    q, dq, tau = rng.normal(size=(3, messages, joints))
    return write_bag(path, states(np.arange(messages) / 500.0, names(joints), q, dq, tau))


def one_by_one(path: Path) -> np.ndarray:
    """Time, positions, velocities and efforts as a loop over messages gives them."""
    stamps, numbers = [], []
    with AnyReader([path]) as reader:
        for connection, _, raw in reader.messages():
            one = reader.deserialize(raw, connection.msgtype)
            stamps.append(one.header.stamp.sec * 1_000_000_000 + one.header.stamp.nanosec)
            numbers.append((one.position, one.velocity, one.effort))
    times = (np.array(stamps) - stamps[0]) * 1e-9
    return np.column_stack([times, np.array(numbers).reshape(len(times), -1)])


def raw_only(path: Path) -> int:
    """Number of messages, none of them decoded."""
    with AnyReader([path]) as reader:
        return sum(1 for _ in reader.messages())


def read(table: bags.BagTable, columns: tuple[str, ...]) -> np.ndarray:
    """All rows (T, columns)."""
    parts = [np.stack([batch[name] for name in columns], axis=1) for batch in table.batches(columns, 32768)]
    return np.concatenate(parts)


def compare(path: Path, joints: int) -> None:
    """Prints the line of one bag; raises AssertionError if the ways differ in a bit."""
    seconds = {}
    start = perf_counter()
    wanted = one_by_one(path)
    seconds["one by one"] = perf_counter() - start
    start = perf_counter()
    raw_only(path)
    seconds["raw"] = perf_counter() - start
    start = perf_counter()
    looked = bags.BagTable(survey(path)).of_joints(names(joints))
    seconds["first look"] = perf_counter() - start
    columns = ("t", *(f"{prefix}{name}" for prefix in ("q_", "dq_", "tau_") for name in names(joints)))
    table = looked.of_columns(columns)
    start = perf_counter()
    found = read(table, columns)
    seconds["reading"] = perf_counter() - start
    kept, bag_survey.MAX_KEPT_BYTES = bag_survey.MAX_KEPT_BYTES, 0
    table = bags.BagTable(survey(path)).of_joints(names(joints)).of_columns(columns)
    bag_survey.MAX_KEPT_BYTES = kept
    start = perf_counter()
    read(table, columns)
    seconds["streamed"] = perf_counter() - start
    np.testing.assert_array_equal(found[:, 1:], wanted[:, 1:])
    np.testing.assert_allclose(found[:, 0], wanted[:, 0], rtol=0, atol=1e-12)
    whole = seconds["first look"] + seconds["reading"]
    print(
        f"{path.name:<10}"
        + "".join(f"{value:12.2f}" for value in seconds.values())
        + f"{seconds['one by one'] / whole:12.1f}{seconds['one by one'] / seconds['streamed']:12.1f}"
    )


def streamed(path: Path, joints: int) -> None:
    """Reads a bag without keeping anything, and prints the growth of the peak in MB."""
    before = peak()
    bag_survey.MAX_KEPT_BYTES = 0
    table = bags.BagTable(survey(path)).of_joints(names(joints))
    columns = ("t", *(f"q_{name}" for name in names(joints)))
    rows = sum(len(batch["t"]) for batch in table.of_columns(columns).batches(columns, 32768))
    print(f"{rows} rows: {peak() - before:.0f} MB more than before")


def peak() -> float:
    """Greatest memory of this process so far, MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--joints", type=int, default=7)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--streamed", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.streamed is not None:
        streamed(arguments.streamed, arguments.joints)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(f"{arguments.messages} messages of {arguments.joints} joints, seconds")
        heads = ("one by one", "raw", "first look", "reading", "streamed", "x both", "x streamed")
        print(f"{'':<10}" + "".join(f"{head:>12}" for head in heads))
        for name in STORAGES:
            compare(made(Path(folder) / name, arguments.messages, arguments.joints), arguments.joints)
        if arguments.memory:
            longer = made(Path(folder) / "longer_mcap", 4 * arguments.messages, arguments.joints)
            for path in (Path(folder) / "run_mcap", longer):
                options = ["--streamed", str(path), "--joints", str(arguments.joints)]
                subprocess.run([sys.executable, __file__, *options], check=True)


if __name__ == "__main__":
    main()
