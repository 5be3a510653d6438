"""Kernel against pinocchio: factors of base and friction columns of a 7-joint arm, per sample and core.

    python benchmarks/kernel.py [--samples 20000] [--repeats 7]

Interleaved repeats in one process and one thread; the least processor time of each, its median and the ratio.
Pinocchio's side is the loop that its users write: computeJointTorqueRegressor for each sample into a block, base and
friction columns, then NumPy's Gram matrix. The last line is what an identification runs on every sample: known torque,
regressor and friction columns, the parallel filter over all of them, every third sample into the factors of its block.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
import pinocchio as pin

from dynid import kernel
from dynid.base.arrays import Float
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.robot import load_example
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.terms import Coulomb, Offset, RigidBody, Terms, Viscous

BLOCK = 1000


def pinocchio_model(robot: RobotModel) -> pin.Model:
    """The same arm in pinocchio."""
    model = pin.Model()
    model.gravity.linear = np.array(robot.gravity)
    parent = 0
    for i in range(robot.n):
        joint = pin.JointModelRevoluteUnaligned(np.array(robot.axis[i]))
        parent = model.addJoint(
            parent, joint, pin.SE3(np.array(robot.T_parent_joint[i])), robot.joint_names[i]
        )
        model.appendBodyToJoint(
            parent, pin.Inertia.FromDynamicParameters(np.array(robot.inertia_prior[i])), pin.SE3.Identity()
        )
    return model


def pinocchio_gram(model: pin.Model, mask: Float, q: Float, dq: Float, ddq: Float, tau: Float) -> Float:
    """X'X of base columns, fv, fc, fo and torque, rows of all joints."""
    data, n = model.createData(), model.nv
    columns = np.flatnonzero(mask)
    width = len(columns) + 3 * n + 1
    total = np.zeros((width, width))
    for start in range(0, len(q), BLOCK):
        part = range(start, min(start + BLOCK, len(q)))
        W = np.zeros((len(part) * n, width))
        for row, k in enumerate(part):
            lines = slice(row * n, (row + 1) * n)
            W[lines, : len(columns)] = pin.computeJointTorqueRegressor(model, data, q[k], dq[k], ddq[k])[
                :, columns
            ]
            W[lines, -1] = tau[k]
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


def timed(work: Callable[[], object]) -> float:
    """Processor time of one run, s: the machine may be shared."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Prints microseconds a sample and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    robot = load_example("arm7")
    mask = structural_base(robot, Terms((RigidBody(),)), TorqueRows()).mask
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = (rng.normal(size=(options.samples, robot.n)) for _ in range(4))
    model = pinocchio_model(robot)

    gram = sum_of_joints(dynid_factors(robot, mask, q[:500], dq[:500], ddq[:500], tau[:500], "gram"))
    peer = np.trace(pinocchio_gram(model, mask, q[:500], dq[:500], ddq[:500], tau[:500]))
    assert abs(gram / peer - 1.0) < 1e-10, "the two sides do not compute the same"

    sides: dict[str, Callable[[], object]] = {
        "pinocchio loop + NumPy Gram": lambda: pinocchio_gram(model, mask, q, dq, ddq, tau),
        "dynid fused Gram": lambda: dynid_factors(robot, mask, q, dq, ddq, tau, "gram"),
        "dynid fused QR": lambda: dynid_factors(robot, mask, q, dq, ddq, tau, "qr"),
    }

    def in_numpy() -> None:
        with kernel.using("numpy"):
            dynid_factors(robot, mask, q, dq, ddq, tau, "gram")

    sides["dynid NumPy Gram"] = in_numpy
    terms = Terms((RigidBody(), Viscous(), Coulomb(), Offset()))
    wanted = np.concatenate([mask, np.ones(3 * robot.n, dtype=np.bool_)])
    assembly = Assembly(robot, terms, TorqueRows(), wanted, ParallelFilter(100.0, 6.0, 4, 3), Blocking(60.0))
    batches = [Samples.from_motion(q, dq, ddq, tau, rate=100.0)]
    sides["dynid as in identify"] = lambda: assembly.factors(batches)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.repeats):
        for name, work in sides.items():
            times[name].append(timed(work))
    slow = min(times["pinocchio loop + NumPy Gram"])
    print(f"{kernel.backend()}, {options.samples} samples, {int(mask.sum())} base columns, one thread")
    for name, seconds in times.items():
        least, median = (1e6 * x / options.samples for x in (min(seconds), statistics.median(seconds)))
        print(
            f"{name:<30}{least:>9.2f} us a sample (median {median:.2f}){1e6 * slow / options.samples / least:>8.1f} x"
        )


def sum_of_joints(squares: list[Float]) -> float:
    """Trace over all joints' matrices: the same number on both sides."""
    return float(sum(np.trace(square) for square in squares))


if __name__ == "__main__":
    main()
