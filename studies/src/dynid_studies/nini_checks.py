"""The model of Nini et al. 2024: transmission and springs, ranks, and what errors of the model cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base import Float
from dynid.estimate import OLS
from dynid.factor import structural_base
from dynid.robot import RobotModel
from dynid.rows import TorqueRows
from dynid.signals import Samples
from dynid.terms import Coulomb, MotorInertia, Points, RigidBody, Spring, Terms, Viscous
from dynid.verbs.statics import identify_statics, static_base
from dynid_studies.nini_arm import (
    FRICTION,
    GEOMETRY,
    MODEL,
    MOTOR_SIDE,
    SPRINGS,
    arm,
    at_rest,
    known_poses,
    motion,
    regression,
    static_grid,
    truth,
    with_torque,
)
from dynid_studies.study import StudyPage, at_most, reported


def check_model(page: StudyPage, robot: RobotModel) -> None:
    """Power on both sides of the transmission, its matrix, the springs' columns, misprints."""
    page.section("The model, and what is misprinted in it")
    drive = robot.drive
    page.text(
        """Motors turn by theta_m = N q. Power is the same on both sides, so motor torque maps to the joints with N',
        which is the paper's K_r; rotors load the joints with N' I_m N, and friction is evaluated at the motors:
        tau = N' (tau_m - I_m N ddq - F_s sign(N dq) - F_v N dq)."""
    )
    page.table(
        "Transmission N: motors by joints",
        ("", *(f"joint {j + 1}" for j in range(6))),
        [
            (f"motor {i + 1}", *(float(x) if x else None for x in row))
            for i, row in enumerate(drive.transmission)
        ],
    )
    page.table(
        "Misprints",
        ("equation", "right is"),
        [
            ("6, 7", "Tr_i = [0, (R' z0)']: transposed in print"),
            ("9", "holds at rest alone"),
            ("24 and on", "K_r I_m K_r' where K_r^2 I_m stands: the same for a diagonal K_r only"),
            ("20", "unweighted: see the static step"),
            ("27", "one index of I_m for the other"),
            ("30", "a torque, not a regressor; C_tot in 31 and 32 holds Tr already"),
            (
                "spring",
                "k (d rho sin phi) + c (d rho sin phi / l); of equal springs only the sums",
            ),
        ],
    )
    rng = np.random.default_rng(1)
    q, dq, tau = rng.normal(0, 1, (3, 50, 6))
    joint = (dq * drive.joint_torque(q, tau)).sum(axis=1)
    motor = (drive.motor_motion(q, dq, dq)[1] * tau).sum(axis=1)
    N, inertia = drive.transmission, np.diag(drive.rotor_inertia)
    right, printed = N.T @ inertia @ N, N.T @ N.T @ inertia
    poses, step = static_grid(robot, 40), 1e-5
    torque = Terms((SPRINGS,)).torque(robot, at_rest(poses), np.array([1e4, -2e3]))[:, 1]
    ahead, behind = (_energy(robot, poses + s * step * np.eye(6)[1]) for s in (1, -1))
    slope = (ahead - behind) / (2 * step)
    page.results(
        "Laws",
        at_most("power", "power at joints less power at motors, relative", _share(joint - motor, joint), 1e-12),
        at_most("rotors", "asymmetry of N' I_m N, relative", _share(right - right.T, right), 1e-12),
        reported("rotors_printed", "asymmetry of K_r^2 I_m as printed, relative", _share(printed - printed.T, right)),
        at_most("springs", "spring torque less its energy's slope, relative", _share(torque - slope, torque), 1e-7),
    )  # fmt: skip


def _share(error: Float, of: Float) -> float:
    return float(np.abs(error).max() / np.abs(of).max())


def _energy(robot: RobotModel, q: Float) -> Float:
    length, _ = GEOMETRY.length(robot, q)
    return np.asarray(0.5 * 1e4 * length**2 - 2e3 * length)


def check_ranks(page: StudyPage, robot: RobotModel) -> None:
    """How many parameters are identifiable from poses and motions, with and without couplings and springs."""
    page.section("How many parameters are identifiable")
    plain, bars, body = arm(coupled=False), arm(bars=True), Terms((RigidBody(),))
    over_two = Spring(Points(("j1_link", "j3_link"), ((0.1, 0.4, 0.1), (0.2, 0.1, 0.1))))

    def dynamic(moved: RobotModel, terms: Terms) -> int:
        return structural_base(moved, terms, TorqueRows()).rank

    cases = [
        ("static", "static, bodies", static_base(plain, body).rank, 10),
        ("static_spring", "static, with springs", static_base(plain, RigidBody() + SPRINGS).rank, 11),
        (
            "static_over",
            "static, a spring over two joints",
            static_base(plain, RigidBody() + over_two).rank,
            12,
        ),
        ("bodies", "moving, bodies", dynamic(plain, body), 36),
        ("diagonal", "bodies, rotors, friction, uncoupled", dynamic(plain, RigidBody() + MOTOR_SIDE), 52),
        ("coupled", "the same, parallelogram and bevel", dynamic(robot, RigidBody() + MOTOR_SIDE), 51),
        ("springs", "the same with springs", dynamic(robot, MODEL), 53),
        ("both", "friction at joints and motors", dynamic(robot, RigidBody() + MOTOR_SIDE + FRICTION), 55),
        ("bars", "crank and coupler as bodies", dynamic(bars, RigidBody() + MOTOR_SIDE), 54),
        ("static_bars", "static, crank and coupler as bodies", static_base(bars, body).rank, 10),
    ]
    page.text("Ranks on columns of unit length, from random states; the paper prints none.")
    page.results(
        "Ranks",
        *(
            replace(
                reported(f"rank_{key}", description, float(rank)), least=float(wanted), most=float(wanted)
            )
            for key, description, rank, wanted in cases
        ),
    )


def check_errors(page: StudyPage, robot: RobotModel) -> None:
    """What friction on the wrong side, uncoupled rotors, ignored bars and a wrong stiffness cost without noise."""
    page.section("What errors of the model cost")
    page.text(
        """Motions without noise, fitted with each wrong model: the residual is the error of the model, root mean
        square in N m. Poses alone do not show it."""
    )
    theta = truth(robot)
    motions = [with_torque(robot, MODEL, motion(robot, 2000, seed)[1], theta) for seed in range(2)]
    joint_side = RigidBody() + MotorInertia() + Viscous() + Coulomb() + SPRINGS
    friction = _left(robot, joint_side, motions)
    rotors = RigidBody() + MotorInertia() + SPRINGS
    moved = [with_torque(robot, rotors, s, truth(robot, rotors)) for s in motions]
    uncoupled = _left(arm(coupled=False), rotors, moved)
    bars, body = arm(bars=True), Terms((RigidBody(),))
    carried = [with_torque(bars, body, s, bars.inertia_prior.ravel()) for s in motions]
    ignored = _left(robot, body, carried)
    poses = static_grid(robot, 200)
    torque = body.torque(bars, at_rest(poses), bars.inertia_prior.ravel())
    still = identify_statics(robot, known_poses(poses, torque), body).estimate.full_vector
    static = np.abs(body.torque(robot, at_rest(poses), still) - torque).max()
    made_up = stiffer(robot, theta)
    at_poses = np.abs(
        MODEL.torque(robot, at_rest(poses), made_up) - MODEL.torque(robot, at_rest(poses), theta)
    ).max()
    moving = _moving_with(robot, made_up, motions)
    page.table(
        "Error by joint, N m",
        ("", *(f"J{i + 1}" for i in range(6))),
        [
            ("friction at the joints instead of the motors", *map(float, friction)),
            ("rotors uncoupled, as in K_r^2 I_m", *map(float, uncoupled)),
            ("crank and coupler (14 + 16 kg) ignored", *map(float, ignored)),
            ("stiffness of the springs 10 % off", *map(float, moving)),
        ],
        note="With the wrong stiffness the static step makes up for it, and the dynamic one fits all else around it.",
        name="model_errors",
    )
    page.results(
        "And at rest",
        at_most("bars_at_rest", "poses with ignored bars: greatest error", float(static), 1e-10, unit="N m"),
        at_most(
            "stiffer_at_rest", "poses with the wrong stiffness: greatest error", float(at_poses), 1e-10, unit="N m"
        ),
        *(
            replace(reported(key, description, float(error), unit="N m"), least=bound)
            for key, description, error, bound in (
                ("friction_side", "friction on the wrong side, joints 2 to 5, least", friction[1:5].min(), 5.0),
                ("bars_moving", "ignored bars, joints 1 to 3, least", ignored[:3].min(), 0.5),
                ("stiffer_moving", "wrong stiffness, joint 2", moving[1], 0.3),
            )
        ),
    )  # fmt: skip


def _left(robot: RobotModel, terms: Terms, motions: Sequence[Samples]) -> Float:
    theta = OLS().fit(regression(robot, terms, TorqueRows(), motions)).full_vector
    errors = np.concatenate([terms.torque(robot, s, theta) - s.tau for s in motions])
    return np.asarray(np.sqrt((errors**2).mean(axis=0)))


def _moving_with(robot: RobotModel, fixed: Float, motions: Sequence[Samples]) -> Float:
    # Residual of the dynamic step, N m rms: inertias, rotors and friction fitted; masses, centres and springs fixed.
    columns = MODEL.columns(robot)
    first = np.array(
        [c.name[0] == "I" or c.name.startswith("fvm") or c.name.startswith("fcm") for c in columns]
    )
    kept = np.where(first, 0.0, fixed)
    panels = [MODEL.torque_regressor(robot, s, first).dense(len(columns))[:, :, first] for s in motions]
    left = [s.tau - MODEL.torque(robot, s, kept) for s in motions]
    A = np.concatenate(panels).reshape(-1, int(first.sum()))
    y = np.concatenate(left).ravel()
    size = np.maximum(np.linalg.norm(A, axis=0), 1e-12)
    solution = np.linalg.lstsq(A / size, y, rcond=1e-10)[0] / size
    return np.asarray(np.sqrt(((A @ solution - y).reshape(-1, robot.n) ** 2).mean(axis=0)))


def stiffer(robot: RobotModel, theta: Float) -> Float:
    """Parameters (p,) with springs 10 % stiffer, and gravity parameters that make up for it at rest."""
    wrong = np.array(theta)
    wrong[[column.name for column in MODEL.columns(robot)].index("k_springs")] *= 1.1
    base = static_base(robot, MODEL)
    spread = np.where(np.arange(len(wrong)) < 60, 1.0, 1e-9)
    return np.asarray(base.lift(base.reduce(theta), prior=wrong, spread=spread))
