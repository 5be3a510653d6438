"""A quadruped with unknown contact forces, simulated by MuJoCo: errors of dynid, and coverage of its intervals.

    python benchmarks/contacts.py [--experiments 2] [--scale 0] [--shorter 1] [--workers 0] [--part 1/1] [--out FILE]

Each experiment simulates a Go2 that hangs on a rope (16 s), stands and sways (20 s) and steps (26 s), with its own
motion and noise: a MEMS IMU with biases, encoders of 15 bits, and torque noise of 0.1 N m. Contacts are MuJoCo's. The
model is scored on the exact torque of a trot (6 s) that was not fitted. --scale: standard deviation of a relative error
of each torque sensor, which no interval covers; the prototype beside the errors had 0.01. --shorter: divides all times.
An interval counts for each base parameter; those of links and of friction and rotors are counted apart.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache, partial
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import mujoco
import numpy as np

from dynid.base import Float
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.robot import RobotModel, load_robot, with_floating_base
from dynid.rows import Contact, FloatingRows, floating_samples
from dynid.rows.floating import placements
from dynid.signals import Samples
from dynid.spatial import to_com
from dynid.terms import DEFAULT_TERMS, Coulomb, Of, Terms

FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
# s: step of the simulation and of the log.
STEP, SAMPLE = 0.0005, 0.001
# Friction and rotors of the simulated joints: N m s/rad, N m, kg m^2; rad/s within which dry friction reverses.
VISCOUS, COULOMB, ROTOR, BEND = 0.12, 0.35, 0.011, 0.05
# N m/rad, N m s/rad: controller of the joints.    N m: greatest torque.
STIFFNESS, DAMPING, STRONGEST = 160.0, 4.0, 45.0
RADIUS = 0.022
HOOK = (0.03, 0.02, 0.06)
SECONDS = {"rope": 16.0, "stance": 20.0, "step": 26.0, "trot": 6.0}
# Errors of the prototype on a rope, standing and stepping, %: plain weighted least squares, torque scales off by 1 %.
PROTOTYPE = {"mass": 0.36, "base moment": 3.27, "rotors": 3.0, "trot": 1.15}
MAPPING: dict[str, Any] = {
    "time": {"column": "t", "unit": "s"},
    "trajectory": "kind",
    "position": {"columns": "q_{joint}", "unit": "rad"},
    "effort": {"columns": "tau_{joint}", "unit": "N m"},
    "imu": {
        "link": "imu",
        "gyro": "w_{axis}",
        "acceleration": "a_{axis}",
        "unit": {"gyro": "rad/s", "acceleration": "m/s^2"},
    },
    "contact": {
        "feet": list(FEET),
        "columns": "c_{foot}",
        "hold": {"rope": {"link": "base", "point": HOOK, "trajectories": ["rope"]}},
    },
}


@lru_cache(maxsize=1)
def robots() -> tuple[RobotModel, RobotModel]:
    """The robot of the file, and with a floating base."""
    files = distribution("example-robot-data").files or []
    path = next(file for file in files if str(file).endswith("robots/go2_description/urdf/go2.urdf"))
    robot = load_robot(Path(str(path.locate())))
    return robot, with_floating_base(robot)


def numbers(values: object) -> str:
    """Numbers of an attribute."""
    return " ".join(f"{float(value):.17g}" for value in np.ravel(np.asarray(values)))


def placed(frame: Float) -> str:
    """Attributes of a place."""
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(frame[:3, :3]).ravel())
    return f'pos="{numbers(frame[:3, 3])}" quat="{numbers(quaternion)}"'


def mjcf(hung: bool) -> str:
    """MJCF of the floating robot with balls as feet, on the ground or on a rope."""
    robot = robots()[1]
    feet = dict(robot.link_frame(foot) for foot in FEET)

    def body(i: int) -> str:
        m, centre, inertia = to_com(robot.inertia_prior[i])
        full = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        frame = np.eye(4) if i == 5 else robot.T_parent_joint[i]
        text = f'<body {placed(frame)}><inertial pos="{numbers(centre)}" mass="{m:.17g}" '
        text += f'fullinertia="{numbers(full)}"/>'
        if i == 5:
            imu = robot.link_frame("imu")[1]
            text += f'<freejoint/><site name="imu" {placed(imu)}/><site name="hook" pos="{numbers(HOOK)}"/>'
        else:
            axis, name = numbers(robot.axis[i]), robot.tree_joint_names[i]
            text += f'<joint name="{name}" axis="{axis}" damping="{VISCOUS}" armature="{ROTOR}"/>'
        if i in feet:
            text += (
                f'<geom name="{i}" size="{RADIUS}" pos="{numbers(feet[i][:3, 3])}" mass="0" friction="0.9"/>'
            )
        return text + "".join(body(k) for k in range(robot.n_bodies) if robot.parent[k] == i) + "</body>"

    motors = "".join(f'<motor joint="{name}"/>' for name in robot.driven)
    rope = (
        '<tendon><spatial stiffness="4000" damping="40" springlength="0 0.5"><site site="ceiling"/>'
        '<site site="hook"/></spatial></tendon>'
    )
    return f"""<mujoco><compiler autolimits="true" inertiafromgeom="false"/>
<option timestep="{STEP}" integrator="Euler" cone="elliptic" impratio="10" iterations="50"><flag eulerdamp="disable"/>
</option><worldbody><site name="ceiling" pos="{HOOK[0]} {HOOK[1]} 1.4"/>
<geom name="ground" type="plane" size="9 9 .1" friction="0.9"/>{body(5)}</worldbody><actuator>{motors}</actuator>
{rope if hung else ""}<sensor><gyro site="imu"/><accelerometer site="imu"/></sensor></mujoco>"""


def feet_of(q: Float) -> tuple[Float, Float]:
    """Positions (T, 4, 3) of the feet in the frame of the trunk, and their Jacobians (T, 4, 3, 3)."""
    robot = robots()[1]
    R, p = placements(robot.tree, np.hstack([np.zeros((len(q), 6)), q]))
    to_base = np.linalg.inv(robot.T_parent_joint[0])
    at, slope = np.zeros((len(q), 4, 3)), np.zeros((len(q), 4, 3, 3))
    for k, foot in enumerate(FEET):
        body, frame = robot.link_frame(foot)
        point = p[:, body] + R[:, body] @ frame[:3, 3]
        at[:, k] = point @ to_base[:3, :3].T + to_base[:3, 3]
        for j, i in enumerate(range(6 + 3 * k, 9 + 3 * k)):
            slope[:, k, :, j] = np.cross(R[:, i] @ robot.axis[i], point - p[:, i]) @ to_base[:3, :3].T
    return at, slope


def legs_to(target: Float, q: Float) -> Float:
    """Positions of the joints (T, 12) with the feet at targets (T, 4, 3) in the frame of the trunk."""
    q = q.copy()
    for _ in range(12):
        at, J = feet_of(q)
        damped = J @ J.transpose(0, 1, 3, 2) + 1e-6 * np.eye(3)
        step = J.transpose(0, 1, 3, 2) @ np.linalg.solve(damped, (target - at)[..., None])
        q += np.clip(step[..., 0], -0.2, 0.2).reshape(q.shape)
    return q


def waves(t: Float, rng: np.random.Generator, size: Float, count: int, band: tuple[float, float]) -> Float:
    """Sums of sines (T, len(size)), whose amplitudes add up to `size`."""
    f, phase = rng.uniform(*band, (len(size), count)), rng.uniform(0, 2 * np.pi, (len(size), count))
    share = rng.dirichlet(np.ones(count), len(size)) * size[:, None]
    return np.asarray(np.sum(share * np.sin(2 * np.pi * f * t[:, None, None] + phase), axis=2))


def reference(kind: str, t: Float, seed: int) -> Float:
    """Commanded positions of the joints (T, 12)."""
    rng = np.random.default_rng([seed, list(SECONDS).index(kind)])
    rest = np.tile([0.0, 0.8, -1.6], (len(t), 4))
    start = np.clip(t / 2.0, 0.0, 1.0)[:, None]
    if kind == "rope":
        return np.asarray(rest + start * waves(t, rng, np.full(12, 0.6), 4, (0.3, 2.2)))
    size = np.array([0.035, 0.03, 0.025, 0.18, 0.15, 0.2]) * (1.0 if kind == "stance" else 0.45)
    sway = start * waves(t, rng, size, 3, (0.25, 1.6))
    feet = feet_of(rest[:1])[0][0]
    turn = np.array([_rotation(angles) for angles in sway[:, 3:]])
    target = np.einsum("ki,tij->tkj", feet, turn) - np.einsum("ti,tij->tj", sway[:, :3], turn)[:, None]
    moves = t > 2.0
    if kind == "trot":
        for pair, late in (((0, 3), 0.0), ((1, 2), 0.5)):
            phase = (1.8 * t - late) % 1.0
            lift = np.where(moves & (phase < 0.42), np.sin(np.pi * phase / 0.42) ** 2, 0.0)
            target[:, pair, 2] += 0.07 * lift[:, None]
    if kind == "step":
        number, phase = (t / 2.0).astype(int), (t / 2.0) % 1.0
        for k in range(4):
            mine = moves & (number % 4 == k)
            u = np.clip((phase - 0.15) / 0.75, 0.0, 1.0)
            wave = waves(u, rng, np.array([0.08, 0.05, 0.04]), 2, (1.0, 3.0)) + np.array([0.0, 0.0, 0.1])
            target[mine, k] += (np.sin(np.pi * u) ** 2)[mine, None] * wave[mine]
            lean = np.sqrt(np.sin(np.pi * phase[mine]))[:, None] * feet[k] * [0.32, 0.45, 0.0]
            target[mine] += lean[:, None]
    return legs_to(target, rest)


def _rotation(angles: Float) -> Float:
    x, y, z = angles
    quaternion, matrix = np.zeros(4), np.zeros(9)
    mujoco.mju_euler2Quat(quaternion, np.array([z, y, x]), "zyx")
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def simulate(kind: str, seconds: float, seed: int) -> dict[str, Float]:
    """Exact signals at 1 kHz: t, q, dq, ddq, tau, gyro, acceleration, touch, up, alpha."""
    model = mujoco.MjModel.from_xml_string(mjcf(kind == "rope"))
    data = mujoco.MjData(model)
    t = np.arange(0.0, seconds, STEP)
    coarse = np.arange(0.0, seconds + 0.01, 0.002)
    commands = reference(kind, coarse, seed)
    wanted = np.array([np.interp(t, coarse, line) for line in commands.T]).T
    data.qpos[7:] = wanted[0]
    data.qpos[2] = 0.85 if kind == "rope" else RADIUS + 0.001 - feet_of(wanted[:1])[0][0, :, 2].min()
    feet = {model.geom(str(robots()[1].link_frame(foot)[0])).id: k for k, foot in enumerate(FEET)}
    lines: list[Float] = []
    for k, command in enumerate(wanted):
        mujoco.mj_step1(model, data)
        q, dq = data.qpos[7:].copy(), data.qvel[6:].copy()
        tau = np.clip(STIFFNESS * (command - q) - DAMPING * dq, -STRONGEST, STRONGEST)
        data.ctrl[:] = tau
        data.qfrc_applied[6:] = -COULOMB * np.tanh(dq / BEND)
        up = data.xmat[1].reshape(3, 3)[2].copy()
        touch = np.zeros(4)
        for contact in data.contact:
            for geom in (contact.geom1, contact.geom2):
                if geom in feet and contact.dist < 0.0:
                    touch[feet[geom]] = 1.0
        mujoco.mj_step2(model, data)
        if k % round(SAMPLE / STEP) == 0:
            # Accelerations and sensors of mj_step2 belong to the state before the step.
            lines.append(
                np.concatenate(
                    [t[k : k + 1], q, dq, data.qacc[6:], tau, data.sensordata, touch, up, data.qacc[3:6]]
                )
            )
    sizes = {
        "t": 1,
        "q": 12,
        "dq": 12,
        "ddq": 12,
        "tau": 12,
        "gyro": 3,
        "acceleration": 3,
        "touch": 4,
        "up": 3,
        "alpha": 3,
    }
    parts = np.split(np.array(lines), np.cumsum(list(sizes.values()))[:-1], axis=1)
    return dict(zip(sizes, parts, strict=True))


def columns_of(kind: str, exact: dict[str, Float], scale: Float, seed: int) -> dict[str, Any]:
    """What a robot would log."""
    rng = np.random.default_rng([seed, 7, list(SECONDS).index(kind)])
    count, counts = len(exact["t"]), 2.0 * np.pi / 2**15
    columns: dict[str, Any] = {"t": exact["t"][:, 0], "kind": np.full(count, kind)}
    for j, name in enumerate(robots()[0].joint_names):
        columns[f"q_{name}"] = np.round(exact["q"][:, j] / counts) * counts
        columns[f"tau_{name}"] = scale[j] * exact["tau"][:, j] + 0.1 * rng.normal(size=count)
    for signal, letter, noise, bias in (("gyro", "w", 0.004, 0.003), ("acceleration", "a", 0.06, 0.05)):
        for k, axis in enumerate("xyz"):
            columns[f"{letter}_{axis}"] = (
                exact[signal][:, k] + noise * rng.normal(size=count) + bias * rng.normal()
            )
    return columns | {f"c_{foot}": exact["touch"][:, k] for k, foot in enumerate(FEET)}


def exact_samples(exact: dict[str, Float]) -> Samples:
    """Samples of the floating robot without noise, every 20 ms, after the first second."""
    robot = robots()[1]
    part = {name: values[1000::20] for name, values in exact.items()}
    frame = robot.link_frame("imu")[1]
    turn, arm = frame[:3, :3], np.broadcast_to(frame[:3, 3], part["gyro"].shape)
    omega, alpha = part["gyro"] @ turn.T, part["alpha"]
    specific = part["acceleration"] @ turn.T - np.cross(alpha, arm) - np.cross(omega, np.cross(omega, arm))
    joints = Samples.from_motion(part["q"], part["dq"], part["ddq"], part["tau"])
    return floating_samples(robot, joints, omega, alpha, specific, part["up"], part["touch"] > 0.5)


def experiment(seed: int, scale: float, shorter: float) -> Row:
    """Errors in %, and intervals that hold the truth."""
    started = time.process_time()
    robot, floating = robots()
    exact = {kind: simulate(kind, seconds / shorter, seed) for kind, seconds in SECONDS.items()}
    gains = 1.0 + scale * np.random.default_rng([seed, 5]).normal(size=12)
    logs = [columns_of(kind, exact[kind], gains, seed) for kind in SECONDS if kind != "trot"]
    columns = {name: np.concatenate([log[name] for log in logs]) for name in logs[0]}
    # The friction of the model is that of the simulation, so that intervals are tested and not the form of friction.
    terms = Terms(tuple(Coulomb(width=BEND) if term.name == "coulomb" else term for term in DEFAULT_TERMS))
    result = identify(robot, Log.from_frame(columns, robot, mapping=MAPPING), settings=Settings(terms=terms))
    estimate = result.estimate
    known = {"Ia": ROTOR, "fv": VISCOUS, "fc": COULOMB, "fo": 0.0}
    truth = np.array(
        [column.prior if column.of is Of.BODY else known[column.name[:2]] for column in estimate.columns]
    )
    links = np.array([column.of is Of.BODY for column in estimate.columns])
    base = estimate.base
    half = estimate.quantile() * np.sqrt(np.diag(estimate.covariance))
    inside = np.abs(estimate.value - base.B @ truth) <= half
    of_links = (np.abs(base.B[:, links]) > 1e-9).any(axis=1)
    theta = estimate.parameters
    masses = np.array(
        [
            column.of is Of.BODY and column.name[0] == "m" and column.name[1].isdigit()
            for column in estimate.columns
        ]
    )
    rotors = np.array([column.name.startswith("Ia") for column in estimate.columns])
    contacts = tuple(
        Contact(foot, body, tuple(frame[:3, 3].tolist()), RADIUS)
        for foot in FEET
        for body, frame in [floating.link_frame(foot)]
    )
    step, trot = exact_samples(exact["step"]), exact_samples(exact["trot"])
    error = result.terms.torque(floating, step, np.where(links, theta - truth, 0.0))[:, 3:6]
    size = result.terms.torque(floating, step, np.where(links, truth, 0.0))[:, 3:6]
    rows = FloatingRows(contacts)
    missed, whole = (
        rows.projected(floating, trot, result.terms.torque(floating, trot, x)) for x in (theta - truth, truth)
    )
    return {
        "seed": seed,
        "mass": 100.0 * float(abs(theta[masses].sum() / truth[masses].sum() - 1.0)),
        "base moment": 100.0 * float(np.linalg.norm(error) / np.linalg.norm(size)),
        "rotors": 100.0 * float(np.median(np.abs(theta - truth)[rotors])) / ROTOR,
        "trot": 100.0 * float(np.linalg.norm(missed) / np.linalg.norm(whole)),
        "links": [int(inside[of_links].sum()), int(of_links.sum())],
        "joints": [int(inside[~of_links].sum()), int((~of_links).sum())],
        "mass inside": bool(
            abs((masses * 1.0)[base.independent] @ (estimate.value - base.B @ truth))
            <= mass_half(masses, estimate)
        ),
        "codes": sorted({finding.code for finding in result.diagnostics}),
        "seconds": time.process_time() - started,
    }


def mass_half(masses: Any, estimate: Any) -> float:
    """Half width of the interval of the whole mass, kg."""
    combination = masses.astype(float)[estimate.base.independent]
    return float(estimate.quantile() * np.sqrt(combination @ estimate.covariance @ combination))


def main() -> None:
    """Run the experiments and print the tables."""
    given = parser(
        __doc__, experiments=2, scale=0.0, shorter=1.0, workers=0, part="1/1", out=Path
    ).parse_args()
    jobs = {seed: seed for seed in range(1, given.experiments + 1)}
    work = partial(experiment, scale=given.scale, shorter=given.shorter)
    rows = campaign(jobs, work, lambda row: row["seed"], given, lambda row: print(row, flush=True))
    print("\n| error, % | dynid (median) | prototype |\n|---|---|---|")
    for name, before in PROTOTYPE.items():
        print(f"| {name} | {np.median([row[name] for row in rows]):.2g} | {before:.3g} |")
    for name in ("links", "joints"):
        hit, count = np.sum([row[name] for row in rows], axis=0)
        print(f"95 % intervals of {name} that hold the truth: {hit} of {count} ({100 * hit / count:.3g} %)")
    print(f"of the whole mass: {sum(row['mass inside'] for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
