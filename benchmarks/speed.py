"""Processor time of single rooms, each beside a peer in the same run.

    python benchmarks/speed.py kernel [--samples 20000] [--repeats 7]
    python benchmarks/speed.py watch [--seconds 60] [--memory 10] [--excited] [--filter ekf]
    python benchmarks/speed.py bags [--messages 60000] [--joints 7] [--peak]
    python benchmarks/speed.py feasible [--data FOLDER]
    python benchmarks/speed.py gradient [--repeats 60]

kernel: factors of base and friction columns of a 7-joint arm beside the loop that users of pinocchio write
(computeJointTorqueRegressor for each sample into a block, base and friction columns, then NumPy's Gram matrix). The
last line is what an identification runs on every sample: known torque, regressor and friction columns, the parallel
filter over all of them, every third sample into the factors of its block.
watch: online estimation of a 7-joint arm at 1 kHz, rows fed in pieces of 0.1 s as a controller would send them; how
many times faster than real time. --filter: a Kalman filter on noisy rows, from 10 s on, with its consistency and error.
bags: joint states read from bags beside messages decoded one by one, s: of rosbags' AnyReader that decodes message by
message into the same arrays (the peer), of the raw iteration alone, of the first look through the bag, of a reading
after it, whose numbers are kept, and of one of a bag too long for that; ratio of the peer to look and reading together,
and to the latter. --peak: also the growth of the peak of memory while a bag of MCAP and one of four times its length
are streamed.
feasible: retrieval of the Panda's feasible parameters from its published coefficients (panda_gaz/reference.json).
gradient: one gradient of the log determinant of a UR5e's excitation, 200 points, and its reverse sweep alone.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import DATA, least, parser, pinocchio_model

import numpy as np

from dynid import kernel
from dynid.base import Float
from dynid.identification import DEFAULT_TERMS
from dynid.robot import RobotModel, load_example
from dynid.terms import Coulomb, Offset, RigidBody, Terms, Viscous

BLOCK = 1000  # samples whose rows the pinocchio loop stacks
STORAGES = ("run.bag", "run_mcap", "run_db3")


# --- kernel -----------------------------------------------------------------------------------------------------------


def pinocchio_gram(model: Any, mask: Float, q: Float, dq: Float, ddq: Float, tau: Float) -> Float:
    """X'X of base columns, fv, fc, fo and torque, rows of all joints."""
    import pinocchio as pin

    data, n, columns = model.createData(), model.nv, np.flatnonzero(mask)
    width = len(columns) + 3 * n + 1
    total = np.zeros((width, width))
    for start in range(0, len(q), BLOCK):
        part = range(start, min(start + BLOCK, len(q)))
        W = np.zeros((len(part) * n, width))
        for row, k in enumerate(part):
            Y = pin.computeJointTorqueRegressor(model, data, q[k], dq[k], ddq[k])
            W[row * n : (row + 1) * n, : len(columns)] = Y[:, columns]
            W[row * n : (row + 1) * n, -1] = tau[k]
        steps = np.arange(len(part))[:, None] * n + np.arange(n)
        for term, values in enumerate((dq, np.sign(dq), np.ones_like(dq))):
            W[steps, len(columns) + term * n + np.arange(n)] = values[part.start : part.stop]
        total += W.T @ W
    return total


def dynid_factors(
    robot: RobotModel, mask: Float, q: Float, dq: Float, ddq: Float, tau: Float, method: str
) -> list[Float]:
    """The same by dynid: one matrix a joint."""
    extra = [np.stack([dq[:, j], np.sign(dq[:, j]), np.ones(len(q))]) for j in range(robot.n)]
    return kernel.factor_torque(robot.tree, q, dq, ddq, tau, extra, mask, method)


def time_kernel(given: argparse.Namespace) -> None:
    """Microseconds a sample and ratios; repeats of all sides are interleaved."""
    from dynid.factor import Assembly, Blocking, structural_base
    from dynid.rows import TorqueRows
    from dynid.signals import ParallelFilter, Samples

    robot, samples = load_example("arm7"), given.samples
    mask = structural_base(robot, Terms((RigidBody(),)), TorqueRows()).mask
    motion = [np.random.default_rng(0).normal(size=(4, samples, robot.n))[k] for k in range(4)]
    model, few = pinocchio_model(robot), [values[:500] for values in motion]
    gram = float(sum(np.trace(square) for square in dynid_factors(robot, mask, *few, "gram")))
    assert abs(gram / np.trace(pinocchio_gram(model, mask, *few)) - 1.0) < 1e-10, "the sides differ"

    def in_numpy() -> None:
        with kernel.using("numpy"):
            dynid_factors(robot, mask, *motion, "gram")

    terms = Terms((RigidBody(), Viscous(), Coulomb(), Offset()))
    wanted = np.concatenate([mask, np.ones(3 * robot.n, dtype=np.bool_)])
    assembly = Assembly(robot, terms, TorqueRows(), wanted, ParallelFilter(100.0, 6.0, 4, 3), Blocking(60.0))
    batches = [Samples.from_motion(*motion, rate=100.0)]
    sides: dict[str, Callable[[], object]] = {
        "pinocchio loop + NumPy Gram": lambda: pinocchio_gram(model, mask, *motion),
        "dynid fused Gram": lambda: dynid_factors(robot, mask, *motion, "gram"),
        "dynid fused QR": lambda: dynid_factors(robot, mask, *motion, "qr"),
        "dynid NumPy Gram": in_numpy,
        "dynid as in identify": lambda: assembly.factors(batches),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(given.repeats):
        for name, work in sides.items():
            times[name].append(1e6 * least(work, 1) / samples)
    slow = min(times["pinocchio loop + NumPy Gram"])
    print(f"{kernel.backend()}, {samples} samples, {int(mask.sum())} base columns, one thread")
    for name, each in times.items():
        median = statistics.median(each)
        print(f"{name:<30}{min(each):>9.2f} us a sample (median {median:.2f}){slow / min(each):>8.1f} x")


# --- watch ------------------------------------------------------------------------------------------------------------


def time_watch(given: argparse.Namespace) -> None:
    """Ratio of the log's time to the computer's."""
    from dynid.estimate import Forgetting
    from dynid.fleet import Watcher, WatchSettings, watch_lines
    from dynid.testing import smooth_samples

    robot = load_example("arm7")
    motion = smooth_samples(robot, round(given.seconds * 1000), rate=1000.0)
    if given.filter:
        follow(given.filter, motion)
        return
    theta = np.random.default_rng(0).normal(0, 1, len(DEFAULT_TERMS.columns(robot)))
    tau = DEFAULT_TERMS.torque(robot, motion, theta)
    settings = WatchSettings(forgetting=Forgetting(given.memory, "excited" if given.excited else "all"))
    watcher, reader = Watcher(robot, settings), Watcher(robot, settings)

    def feed() -> None:
        for first in range(0, len(motion), 100):
            part = slice(first, first + 100)
            watcher.feed(motion.t[part], motion.q[part], tau[part], motion.dq[part])
        watcher.finish()

    seconds = least(feed, 1)
    error = np.abs(watcher.estimate.value - watcher.base.reduce(theta)).max()
    print(
        f"{kernel.backend()}: {given.seconds:.0f} s of 1 kHz in {seconds:.2f} s of one processor, "
        f"{given.seconds / seconds:.0f} x real time"
    )
    table = np.column_stack([motion.t, motion.q, tau, motion.dq])
    header = ["t", *(f"{kind}_{joint}" for kind in ("q", "tau", "dq") for joint in robot.joint_names)]
    lines = [",".join(header), *(",".join(f"{x:.9g}" for x in row) for row in table)]
    seconds = least(lambda: list(watch_lines(reader, lines)), 1)
    print(f"from lines of text: {seconds:.2f} s, {given.seconds / seconds:.0f} x real time")
    print(f"{len(watcher.names)} base parameters, greatest error {error:.2g}")


def follow(kind: Any, motion: Any) -> None:
    """Speed, consistency and error of a Kalman filter on the described arm, 2 % of torque being noise."""
    from dynid.fleet import KalmanSettings, KalmanWatcher

    robot = load_example("arm7")
    usual = {"rotor_inertia": 0.5, "viscous": 3.0, "coulomb": 2.0, "offset": 0.3}
    columns = DEFAULT_TERMS.columns(robot)
    theta = np.array([c.prior if np.isfinite(c.prior) else usual[c.term] for c in columns])
    rng = np.random.default_rng(0)
    clean = DEFAULT_TERMS.torque(robot, motion, theta)
    tau = clean + 0.02 * clean.std(axis=0) * rng.normal(size=clean.shape)
    q = motion.q + 2e-5 * rng.normal(size=clean.shape)
    watcher = KalmanWatcher(robot, KalmanSettings(kind, rate=200.0 if kind == "ekf" else 100.0))
    started, first = time.process_time(), 0.0
    for k in range(0, len(motion), 100):
        watcher.feed(motion.t[k : k + 100], q[k : k + 100], tau[k : k + 100])
        if watcher.filter is None:
            started, first = time.process_time(), float(motion.t[k + 99])
    watcher.finish()
    seconds, track = time.process_time() - started, watcher.trajectory
    error = (track.value[-1] - watcher.base.reduce(theta)) / track.std[-1]
    print(f"{kind}: {(motion.t[-1] - first) / seconds:.2f} x real time, surprise {watcher.consistency:.2f}")
    print(f"errors over standard deviations, root mean square: {np.sqrt(np.mean(error**2)):.2f}")


# --- bags -------------------------------------------------------------------------------------------------------------


def one_by_one(path: Path, decode: bool = True) -> Any:
    """Time, positions, velocities and efforts as a loop over messages gives them; else the number of messages."""
    from rosbags.highlevel import AnyReader

    stamps, numbers = [], []
    with AnyReader([path]) as reader:
        if not decode:
            return sum(1 for _ in reader.messages())
        for connection, _, raw in reader.messages():
            message = reader.deserialize(raw, connection.msgtype)
            stamps.append(message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec)
            numbers.append((message.position, message.velocity, message.effort))
    times = (np.array(stamps) - stamps[0]) * 1e-9
    return np.column_stack([times, np.array(numbers).reshape(len(times), -1)])


def time_bags(given: argparse.Namespace) -> None:
    """A line for each storage."""
    from tests.log.bags import states, write_bag

    joints = tuple(f"joint{i + 1}" for i in range(given.joints))

    def bag(path: Path, messages: int) -> Path:
        q, dq, tau = np.random.default_rng(0).normal(size=(3, messages, given.joints))
        return write_bag(path, states(np.arange(messages) / 500.0, joints, q, dq, tau))

    with tempfile.TemporaryDirectory() as folder:
        print(f"{given.messages} messages of {given.joints} joints, seconds")
        heads = ("one by one", "raw", "first look", "reading", "streamed", "x both", "x streamed")
        print(f"{'':<10}" + "".join(f"{head:>12}" for head in heads))
        for name in STORAGES:
            compare_bag(bag(Path(folder) / name, given.messages), joints)
        if given.peak:
            longer = bag(Path(folder) / "longer_mcap", 4 * given.messages)
            for path in (Path(folder) / "run_mcap", longer):
                # In a process of its own, whose peak nothing has raised before.
                subprocess.run(
                    [sys.executable, __file__, "streamed", "--bag", path, "--joints", f"{given.joints}"],
                    check=True,
                )


def compare_bag(path: Path, joints: tuple[str, ...]) -> None:
    """The line of one bag; raises AssertionError if the ways differ in a bit."""
    from dynid.log.readers import bag

    columns = ("t", *(f"{prefix}{joint}" for prefix in ("q_", "dq_", "tau_") for joint in joints))
    results: list[Any] = []

    def timed(work: Callable[[], Any]) -> float:
        return least(lambda: results.append(work()), 1, time.perf_counter)

    def read(table: Any) -> np.ndarray:
        parts = table.of_columns(columns).batches(columns, 32768)
        return np.concatenate([np.stack([part[name] for name in columns], axis=1) for part in parts])

    loop = timed(lambda: one_by_one(path))
    raw = timed(lambda: one_by_one(path, decode=False))
    look = timed(lambda: bag.BagTable(bag.survey(path)).of_joints(joints))
    reading = timed(lambda: read(results[-1]))
    kept, bag.MAX_KEPT_BYTES = bag.MAX_KEPT_BYTES, 0
    table = bag.BagTable(bag.survey(path)).of_joints(joints)
    bag.MAX_KEPT_BYTES = kept
    streaming = timed(lambda: read(table))
    np.testing.assert_array_equal(results[3][:, 1:], results[0][:, 1:])
    np.testing.assert_allclose(results[3][:, 0], results[0][:, 0], rtol=0, atol=1e-12)
    seconds = "".join(f"{value:12.2f}" for value in (loop, raw, look, reading, streaming))
    print(f"{path.name:<10}{seconds}{loop / (look + reading):12.1f}{loop / streaming:12.1f}")


def stream_bag(given: argparse.Namespace) -> None:
    """Read a bag without keeping anything, and print the growth of the peak in MB."""
    from dynid.log.readers import bag

    def peak() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

    before, bag.MAX_KEPT_BYTES = peak(), 0
    joints = tuple(f"joint{i + 1}" for i in range(given.joints))
    columns = ("t", *(f"q_{joint}" for joint in joints))
    table = bag.BagTable(bag.survey(given.bag)).of_joints(joints).of_columns(columns)
    rows = sum(len(batch["t"]) for batch in table.batches(columns, 32768))
    print(f"{rows} rows: {peak() - before:.0f} MB more than before")


# --- feasible, gradient -----------------------------------------------------------------------------------------------


def time_feasible(given: argparse.Namespace) -> None:
    """A line for each distance."""
    from dynid.feasible import Distance, PhysicalBodies, TotalMass, feasible_parameters
    from tests.feasible.panda import Panda

    panda, constraints = Panda(given.data), [PhysicalBodies(1e-6), TotalMass(16.0, 20.0)]
    known = (panda.C, panda.y, panda.columns, constraints, panda.unknown, panda.spread)
    for distance, strength in zip((Distance.EUCLIDEAN, Distance.ENTROPIC), (1e-7, 5e-8), strict=True):
        results: list[Any] = []

        def retrieve(d: Any = distance, s: float = strength, results: list[Any] = results) -> None:
            results.append(feasible_parameters(*known, s, d))

        first, *more = (least(retrieve, 1) for _ in range(7))
        result = results[-1]
        print(
            f"{distance.value:10s} phi {result.cost:.4e}  first {first:.3f} s  best {min(first, *more):.3f} s  "
            f"least eigenvalue {result.least_eigenvalue.min():.2e}  checks {result.certificate}"
        )


def time_gradient(given: argparse.Namespace) -> None:
    """Milliseconds of a gradient and of its reverse sweep."""
    from dynid.excitation import information_of
    from dynid.kernel.adjoint import pairs, torque_gradient
    from dynid.trajectories import FourierBasis

    robot, basis = load_example("ur5e"), FourierBasis(20.0, 5, 0.1)
    terms = RigidBody() + Viscous() + Coulomb() + Offset()
    information = information_of(robot, terms, np.array([1.5, 1.5, 1.5, 0.28, 0.28, 0.28]))
    values = basis.values(np.linspace(0.0, 20.0, 200))[:3]
    X = np.random.default_rng(0).normal(0.0, 0.3, (basis.size, robot.n))
    q, dq, ddq = (B @ X for B in values)
    motion = robot.tree_motion(q, dq, ddq)
    slots = np.arange(10 * len(pairs(robot.tree)[0])).reshape(-1, 10)
    weights = np.ones((slots.size, 200))

    def whole() -> None:
        _, g = information.gradient(q, dq, ddq)
        sum(B.T @ part for B, part in zip(values, g, strict=True))

    for name, work in (
        (f"gradient of log det, {X.size} coefficients, 200 points", whole),
        ("  its reverse sweep", lambda: torque_gradient(robot.tree, *motion, slots, weights)),
    ):
        print(f"{name}: {1e3 * least(work, given.repeats):.2f} ms")


PARTS = {
    "kernel": time_kernel,
    "watch": time_watch,
    "bags": time_bags,
    "streamed": stream_bag,
    "feasible": time_feasible,
    "gradient": time_gradient,
}


def main() -> None:
    """Runs the named part."""
    options = parser(
        __doc__, samples=20_000, repeats=7, seconds=60.0, memory=np.inf, excited=False, filter="", messages=60_000,
        joints=7, peak=False, bag=Path, data=DATA,
    )  # fmt: skip
    options.add_argument("part", choices=PARTS)
    given = options.parse_args()
    PARTS[given.part](given)


if __name__ == "__main__":
    main()
