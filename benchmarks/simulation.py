"""Simulation against MuJoCo and pinocchio in one run: a rigid arm of 7 joints under a PD, classical Runge-Kutta steps.

    python benchmarks/simulation.py [--robot arm7] [--step 0.002] [--steps 500] [--batch 256] [--threads 2]
    python benchmarks/simulation.py --stiff [--only xarm7 allegro] [--duration 20] [--repeats 3]

One robot: steps a second of one run, MuJoCo and dynid in compiled loops, pinocchio's articulated bodies in a loop in
Python. Batch: runs side by side on several threads, mujoco.rollout against dynid. Models are built before. The least of
several times counts, in wall time and in processor time of all threads; on a machine with other work the latter says
more. Beside each stands the greatest difference of a joint's position at the end from a run of the same program at a
tenth of the step.

--stiff: arms with light wrists and dry friction, a hand and legs along random motions under a PD with gravity
compensation; friction as in their files, or 0.1 N m s/rad and 0.1 N m where these have none. dynid's steps of adaptive
length against MuJoCo's implicitfast at 0.5 ms, with damping and friction loss. The error of each is the greatest
difference of a joint's position over the first 2 s from the same program at a hundredth of the step or tolerance.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import parser, pinocchio_model

import mujoco
import mujoco.rollout
import numpy as np
import pinocchio as pin

from dynid.base import Diagnostics, Float
from dynid.kernel import backend
from dynid.kernel.multibody import Control, adaptive_rollout, rollout
from dynid.lab import export_mjcf
from dynid.robot import Reading, RobotModel, load_example, read_robot
from dynid.simulation import GravityPD, Plant, SmoothFriction, pd_gains
from dynid.trajectories import FourierTrajectory

BANDWIDTH = 0.7  # Hz, of the PD: the arm still moves at the end
ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
# Robots of example-robot-data with light links: arms, a hand, legs.
STIFF = {
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "z1": "z1_description/urdf/z1.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "allegro": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "legs": "bolt_description/robots/bolt.urdf",
}
STIFF_BANDWIDTH, STIFF_STEP, RATE = 3.0, 5e-4, 1000.0  # Hz of the PD, s of MuJoCo's steps, Hz of the samples
COMPARED = 2.0  # s, over which errors are compared: MuJoCo takes 400,000 steps for it
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS


def gains(robot: RobotModel) -> tuple[Float, Float]:
    """Kp and kd (n,)."""
    return pd_gains(Plant(robot), BANDWIDTH)


def mujoco_model(robot: RobotModel, step: float) -> mujoco.MjModel:
    """The arm with position actuators."""
    drives = "".join(
        f'<position joint="{name}" kp="{kp!r}" kv="{kd!r}"/>'
        for name, kp, kd in zip(robot.joint_names, *(gain.tolist() for gain in gains(robot)), strict=True)
    )
    text = export_mjcf(Plant(robot), step)
    return mujoco.MjModel.from_xml_string(
        text.replace("</mujoco>", f"<actuator>{drives}</actuator></mujoco>")
    )


def timed(work: Callable[[], Float], repeats: int) -> tuple[float, float, Float]:
    """Least wall and processor time, and what was found."""
    wall, cpu, result = np.inf, np.inf, np.zeros(0)
    for _ in range(repeats):
        a, b = time.perf_counter(), time.process_time()
        result = work()
        wall, cpu = min(wall, time.perf_counter() - a), min(cpu, time.process_time() - b)
    return wall, cpu, result


def by_pinocchio(
    robot: RobotModel, start: Float, goal: Float, step: float, steps: int
) -> Callable[[], Float]:
    """A run that gives final positions (n,)."""
    model, (kp, kd) = pinocchio_model(robot), gains(robot)
    model.armature = np.diag(Plant(robot).reflected).copy()
    data = model.createData()

    def a(q: Float, v: Float) -> Float:
        return np.array(pin.aba(model, data, q, v, kp * (goal - q) - kd * v))

    def run() -> Float:
        q, v = start, np.zeros(robot.n)
        for _ in range(steps):
            a1 = a(q, v)
            v2 = v + 0.5 * step * a1
            a2 = a(q + 0.5 * step * v, v2)
            v3 = v + 0.5 * step * a2
            a3 = a(q + 0.5 * step * v2, v3)
            v4 = v + step * a3
            a4 = a(q + step * v3, v4)
            q, v = q + step / 6 * (v + 2 * (v2 + v3) + v4), v + step / 6 * (a1 + 2 * (a2 + a3) + a4)
        return q

    return run


def by_mujoco(robot: RobotModel, start: Float, goal: Float, step: float, steps: int) -> Callable[[], Float]:
    """A run that gives final positions (n,)."""
    model = mujoco_model(robot, step)
    data = mujoco.MjData(model)

    def run() -> Float:
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.ctrl[:] = start, goal
        mujoco.mj_step(model, data, steps)
        return np.array(data.qpos)

    return run


def by_rollout(
    robot: RobotModel, start: Float, goal: Float, step: float, steps: int, threads: int
) -> Callable[[], Float]:
    """Runs that give final positions (B, n)."""
    model = mujoco_model(robot, step)
    data = [mujoco.MjData(model) for _ in range(threads)]
    first = np.zeros((len(start), mujoco.mj_stateSize(model, STATE)))
    first[:, 1 : 1 + robot.n] = start
    control = np.tile(goal, (len(start), steps, 1))
    runner = mujoco.rollout.Rollout(nthread=threads)

    def run() -> Float:
        states, _ = runner.rollout(model, data, first, control)
        return np.array(states[:, -1, 1 : 1 + robot.n])

    return run


def by_dynid(
    robot: RobotModel, start: Float, goal: Float, step: float, steps: int, threads: int
) -> Callable[[], Float]:
    """Runs that give final positions (B, n)."""
    system = Plant(robot).multibody
    if system is None or system.native() is None:
        raise SystemExit("dynid was built without its native kernel")
    kp, kd = gains(robot)
    control = Control(robot.n, kp, kd, q=np.tile(goal, (2 * steps + 1, 1)))
    first = np.concatenate([start, np.zeros_like(start)], axis=1)
    return lambda: np.array(rollout(system, first, steps + 1, step, 1, control, threads=threads).x[:, -1])


def stiff_robot(name: str) -> tuple[RobotModel, SmoothFriction]:
    """A robot of example-robot-data and its friction."""
    folder = next(path for path in map(Path, sys.path) if (path / ROBOTS).is_dir()) / ROBOTS
    robot = read_robot(str(folder / STIFF[name]), Reading(), Diagnostics())
    friction = SmoothFriction.of(robot)
    rubs = friction.viscous + friction.coulomb > 0
    return robot, friction if rubs.any() else SmoothFriction(np.full(robot.n, 0.1), np.full(robot.n, 0.1))


def stiff_mujoco(
    robot: RobotModel, friction: SmoothFriction, controller: GravityPD, step: float, seconds: float
) -> Callable[[], Float]:
    """A run that gives positions (samples, n)."""
    text = export_mjcf(Plant(robot), step).replace('integrator="RK4"', 'integrator="implicitfast"')
    text = text.replace("<body ", '<body gravcomp="1" ')
    for name, d, c in zip(robot.joint_names, friction.viscous, friction.coulomb, strict=True):
        joint = f'<joint name="{name}"'
        text = text.replace(joint, f'{joint} damping="{float(d)!r}" frictionloss="{float(c)!r}"')
    kp, kd = controller.kp, controller.kd
    drives = "".join(
        f'<general joint="{name}" gainprm="1" biastype="affine" biasprm="0 {-p!r} {-d!r}"/>'
        for name, p, d in zip(robot.joint_names, kp.tolist(), kd.tolist(), strict=True)
    )
    model = mujoco.MjModel.from_xml_string(
        text.replace("</mujoco>", f"<actuator>{drives}</actuator></mujoco>")
    )
    data, count = mujoco.MjData(model), round(seconds / step)
    q, dq, _ = controller.reference.motion(np.arange(count) * step)
    inputs, every = kp * q + kd * dq, round(1.0 / RATE / step)

    def run() -> Float:
        mujoco.mj_resetData(model, data)
        data.qpos[:] = q[0]
        path = [q[0]]
        for k in range(count):
            data.ctrl[:] = inputs[k]
            mujoco.mj_step(model, data)
            if (k + 1) % every == 0:
                path.append(np.array(data.qpos))
        return np.array(path)

    return run


def stiff_dynid(
    plant: Plant, controller: GravityPD, tolerance: float, count: int, seconds: float
) -> Callable[[], Float]:
    """A run that gives positions (samples, n)."""
    samples, system = round(seconds * RATE) + 1, plant.multibody
    if system is None:
        raise SystemExit("a robot that the compiled steps cannot handle")
    start = plant.at_rest(controller.reference.motion(np.zeros(1))[0])

    def run() -> Float:
        table = controller.table(np.arange(4 * count * (samples - 1) + 1) / (4 * count * RATE))
        assert table is not None
        return adaptive_rollout(system, start, samples, 1.0 / RATE, count, table, tolerance).x[0]

    return run


def stiff(names: list[str], seconds: float, repeats: int) -> None:
    """Prints a table of stiff robots."""
    print(f"{seconds:g} s under a PD of {STIFF_BANDWIDTH:g} Hz, samples at {RATE:g} Hz, {backend()}")
    print(f"{'':<12}{'dynid, CPU s':>14}{'error, rad':>14}{'MuJoCo, CPU s':>16}{'error, rad':>14}")
    for name in names:
        robot, friction = stiff_robot(name)
        plant = Plant(robot, friction=friction)
        motion = FourierTrajectory.random(robot, seconds, 6, 0, 0.1, min(2.0, 0.25 * seconds))
        controller = GravityPD(plant, motion, *pd_gains(plant, STIFF_BANDWIDTH))
        compared = min(COMPARED, seconds)
        _, cpu, _ = timed(stiff_dynid(plant, controller, 1e-5, 1, seconds), repeats)
        error = np.abs(
            stiff_dynid(plant, controller, 1e-5, 1, compared)()
            - stiff_dynid(plant, controller, 1e-7, 10, compared)()
        ).max()
        line = f"{name:<12}{cpu:>14.2f}{error:>14.1e}"
        if not robot.has_mimic:
            _, other, _ = timed(stiff_mujoco(robot, friction, controller, STIFF_STEP, seconds), repeats)
            difference = np.abs(
                stiff_mujoco(robot, friction, controller, STIFF_STEP, compared)()
                - stiff_mujoco(robot, friction, controller, STIFF_STEP / 100, compared)()
            ).max()
            line += f"{other:>16.2f}{difference:>14.1e}"
        print(line, flush=True)


def main() -> None:
    """Prints a table."""
    o = parser(
        __doc__,
        robot="arm7",
        step=2e-3,
        steps=500,
        batch=256,
        threads=2,
        repeats=5,
        stiff=False,
        only=list(STIFF),
        duration=20.0,
    ).parse_args()
    if o.stiff:
        stiff(o.only, o.duration, o.repeats)
        return
    robot = load_example(o.robot)
    rng = np.random.default_rng(0)
    many, goal = rng.uniform(-0.8, 0.8, (o.batch, robot.n)), rng.uniform(-0.5, 0.5, robot.n)
    first = many[:1]
    sides: dict[str, tuple[int, Callable[[float, int], Callable[[], Float]]]] = {
        "pinocchio, one robot": (1, lambda h, k: by_pinocchio(robot, first[0], goal, h, k)),
        "MuJoCo, one robot": (1, lambda h, k: by_mujoco(robot, first[0], goal, h, k)),
        "dynid, one robot": (1, lambda h, k: by_dynid(robot, first, goal, h, k, 1)),
        "mujoco.rollout, batch": (o.batch, lambda h, k: by_rollout(robot, many, goal, h, k, o.threads)),
        "dynid, batch": (o.batch, lambda h, k: by_dynid(robot, many, goal, h, k, o.threads)),
    }
    print(f"{robot.name}, {robot.n} joints, step {o.step} s, {o.steps} steps, {backend()}")
    print(f"{'':<24}{'steps/s (wall)':>16}{'steps/s (CPU)':>16}{'error, rad':>14}")
    ends = {}
    for side, (runs, made) in sides.items():
        wall, cpu, ends[side] = timed(made(o.step, o.steps), o.repeats)
        error = float(np.abs(ends[side] - made(o.step / 10, 10 * o.steps)()).max())
        count = runs * o.steps
        print(f"{side:<24}{count / wall:>16,.0f}{count / cpu:>16,.0f}{error:>14.1e}", flush=True)
    apart = float(np.abs(ends["dynid, batch"] - ends["mujoco.rollout, batch"]).max())
    print(f"dynid and MuJoCo end {apart:.1e} rad apart, batches of {o.batch} on {o.threads} threads")


if __name__ == "__main__":
    main()
