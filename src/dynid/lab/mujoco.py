"""MuJoCo as an independent simulator: the same robot written as MJCF, integrated by MuJoCo's own Runge-Kutta scheme.

MuJoCo computes masses, Coriolis forces, gravity and elastic joints (as tendons between motor and joint). It gets drive
torque, friction and loads at every stage of its scheme, so that it differs from dynid's own simulation with the same
step by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.base import Float, InputError, UsageError, dataclass
from dynid.kernel.multibody import diverged
from dynid.robot import load_mujoco
from dynid.simulation import Controller, Coupling, Plant, SimulatedMotion, State, check_times, recorded
from dynid.spatial import from_com, to_mjcf
from dynid.trajectories import Trajectory

# kg, and ratio of transverse to axial inertia: MuJoCo requires a mass for a rotor body. It lies on the rotor's axis, so
# that only the inertia about the axis matters.
_SPECK, _ACROSS = 1e-9, 0.51
# kg m^2: least inertia of a rotor body, since MuJoCo requires one; the armature has the rest.
_SPECK_INERTIA = 1e-9


def export_mjcf(plant: Plant, step: float = 1e-3) -> str:
    """The robot as MJCF text: links, joints, rotors (as armature, or as bodies if joints are elastic) and springs.

    Drive torque, friction and loads are not part of it.
    Raises UsageError for what MuJoCo cannot represent exactly: joints that follow others, linkages of bars, and rigid
    joints with full rotor coupling or coupled transmissions.
    """
    _check(plant)
    gravity = _numbers(plant.robot.gravity)
    lines = [
        f"<mujoco model={quoteattr(plant.robot.name or 'robot')}>",
        '<compiler angle="radian"/>',
        f'<option timestep="{step!r}" integrator="RK4" gravity="{gravity}"><flag contact="disable"/></option>',
        "<worldbody>",
        *_bodies(plant, -1),
        "</worldbody>",
        *_tendons(plant),
        "</mujoco>",
    ]
    return "\n".join(lines) + "\n"


def _check(plant: Plant) -> None:
    robot, rigid = plant.robot, plant.elasticity is None
    problem = (
        "joints that follow others"
        if robot.has_mimic
        else "a linkage of bars"
        if robot.drive.linkages
        else "full rotor coupling with rigid joints"
        if rigid and plant.coupling is Coupling.FULL
        else "coupled transmissions with rigid joints"
        if rigid and robot.drive.coupled
        else ""
    )
    if problem:
        raise UsageError(
            "mujoco-export",
            found=problem,
            expected="a robot that MuJoCo represents without soft constraints",
            do="use dynid's own simulator",
        )


def motor_name(joint: str) -> str:
    """Name of the joint that represents a motor."""
    return f"motor of {joint}"


def _bodies(plant: Plant, parent: int) -> Iterator[str]:
    robot = plant.robot
    for i in np.flatnonzero(robot.parent == parent):
        T, name = robot.T_parent_joint[i], robot.tree_joint_names[i]
        kind = "slide" if robot.tree.prismatic[i] else "hinge"
        armature = float(plant.reflected[i, i]) if plant.elasticity is None else 0.0
        mass, com, inertia = to_mjcf(_body_without_rotors(plant, int(i)))
        yield f'<body name={quoteattr(robot.body_names[i])} pos="{_numbers(T[:3, 3])}" quat="{_quaternion(T)}">'
        yield f'<joint name={quoteattr(name)} type="{kind}" axis="{_numbers(robot.axis[i])}" armature="{armature!r}"/>'
        yield f'<inertial mass="{mass!r}" pos="{_numbers(com)}" fullinertia="{_numbers(inertia)}"/>'
        yield from _bodies(plant, int(i))
        yield from _rotors(plant, int(i))
        yield "</body>"
    if parent < 0:
        yield from _rotors(plant, -1)


def _rotors_on(plant: Plant, body: int) -> list[int]:
    # Motors whose rotors are bodies on this one. Rotors that only spin are all placed on the base.
    if plant.elasticity is None:
        return []
    if plant.coupling is Coupling.SIMPLIFIED:
        return list(range(plant.n)) if body < 0 else []
    return [int(i) for i in np.flatnonzero(plant.carriers.carrier == body)]


def _rotors(plant: Plant, body: int) -> Iterator[str]:
    for i in _rotors_on(plant, body):
        spins = plant.coupling is Coupling.SIMPLIFIED
        name = motor_name(plant.robot.joint_names[i])
        axis = np.array([0.0, 0.0, 1.0]) if spins else plant.carriers.axis[i]
        spin_inertia = min(_SPECK_INERTIA, 0.5 * float(plant.rotors[i]))
        armature = float(plant.rotors[i]) - spin_inertia if spins else 0.0
        matrix = spin_inertia * np.eye(3) if spins else _disc(plant, i)
        mass, com, inertia = to_mjcf(from_com(_SPECK, np.zeros(3), matrix))
        yield f"<body name={quoteattr(name)}>"
        yield f'<joint name={quoteattr(name)} type="hinge" axis="{_numbers(axis)}" armature="{armature!r}"/>'
        yield f'<inertial mass="{mass!r}" pos="{_numbers(com)}" fullinertia="{_numbers(inertia)}"/>'
        yield "</body>"


def _disc(plant: Plant, i: int) -> Float:
    z = plant.carriers.axis[i]
    along = np.outer(z, z)
    return np.asarray(plant.rotors[i] * (along + _ACROSS * (np.eye(3) - along)))


def _body_without_rotors(plant: Plant, body: int) -> Float:
    # Parameters of a body without rotors that are separate bodies.
    pi = np.array(plant.bodies[body])
    for i in _rotors_on(plant, body):
        pi -= from_com(_SPECK, np.zeros(3), _disc(plant, i))
    return pi


def _tendons(plant: Plant) -> Iterator[str]:
    if plant.elasticity is None:
        return
    back = np.linalg.inv(plant.robot.drive.transmission)
    names = plant.robot.joint_names
    yield "<tendon>"
    for j, name in enumerate(names):
        K, D = float(plant.elasticity.stiffness[j]), float(plant.elasticity.damping[j])
        yield f'<fixed name={quoteattr(name)} stiffness="{K!r}" damping="{D!r}" springlength="0">'
        yield f'<joint joint={quoteattr(name)} coef="-1"/>'
        for i in np.flatnonzero(back[j]):
            yield f'<joint joint={quoteattr(motor_name(names[i]))} coef="{float(back[j, i])!r}"/>'
        yield "</fixed>"
    yield "</tendon>"


def _numbers(values: Float) -> str:
    return " ".join(repr(float(x)) for x in values)


def _quaternion(T: Float) -> str:
    # Eigenvector of Bar-Itzhack's matrix, which is accurate for every rotation.
    R = T[:3, :3]
    Q = np.array(
        [
            [R[0, 0] - R[1, 1] - R[2, 2], 0, 0, 0],
            [R[1, 0] + R[0, 1], R[1, 1] - R[0, 0] - R[2, 2], 0, 0],
            [R[2, 0] + R[0, 2], R[2, 1] + R[1, 2], R[2, 2] - R[0, 0] - R[1, 1], 0],
            [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], np.trace(R)],
        ]
    )
    x, y, z, w = np.linalg.eigh(Q)[1][:, -1]
    return _numbers(np.array([w, x, y, z]))


@dataclass(frozen=True, eq=False)
class MujocoSimulator:
    """A robot simulated by MuJoCo.

    plant: the robot.    step: s, longest integration step; samples are hit exactly.
    """

    plant: Plant
    step: float = 5e-4

    def simulate(self, controller: Controller, start: Float, t: Float) -> SimulatedMotion:
        """Simulate the motion under a controller, as dynid.simulation.motion.simulate.

        Parameters
        ----------
        controller : Controller
            The controller.
        start : ndarray, shape (n_states,)
            State at the first time.
        t : ndarray, shape (n_samples,), s
            Uniform times.

        Returns
        -------
        SimulatedMotion
            The motion.

        Raises
        ------
        UsageError
            For friction with internal states.
        SolverError
            If the motion diverges.

        """
        check_times(t)
        if self.plant.friction_states:
            raise UsageError(
                "mujoco-friction",
                found="friction with internal states (Dahl, LuGre)",
                expected="smooth friction, or none",
            )
        dt = float(t[-1] - t[0]) / (len(t) - 1)
        count = max(1, math.ceil(dt / self.step * (1 - 1e-9)))
        lab = _Compiled(self.plant, dt / count)
        Y, u, ddx = np.zeros((len(t), self.plant.states)), np.zeros((len(t), self.plant.n)), []
        with lab.driven(controller):
            lab.put(start, float(t[0]))
            for i in range(len(t)):
                lab.mujoco.mj_forward(lab.model, lab.data)
                Y[i], u[i] = lab.vector()[0], lab.u
                ddx.append(lab.coordinates(lab.data.qacc))
                if not (np.isfinite(Y[i]).all() and np.isfinite(ddx[-1]).all()):
                    raise diverged(float(t[max(i - 1, 0)]))
                for _ in range(count if i + 1 < len(t) else 0):
                    lab.mujoco.mj_step(lab.model, lab.data)
        return recorded(self.plant, t, Y, u, np.array(ddx))

    def follow(self, trajectory: Trajectory, t: Float) -> SimulatedMotion:
        """Motion of rigid joints exactly along a trajectory, with torque from MuJoCo's inverse dynamics.

        Raises UsageError for elastic joints.
        """
        if self.plant.elasticity is not None or self.plant.friction_states:
            raise UsageError(
                "ideal-motion",
                found="elastic joints, or friction with internal states (Dahl, LuGre)",
                expected="rigid joints with smooth friction",
                do="choose a controller",
            )
        lab = _Compiled(self.plant, self.step)
        q, dq, ddq = trajectory.motion(t)
        Y = self.plant.vector(State(q, dq, q, dq))
        u = self.plant.friction_torque(Y) + self.plant.load_torque(q, dq)
        for i in range(len(t)):
            lab.put(Y[i], float(t[i]))
            lab.data.qacc[lab.speeds] = ddq[i]
            lab.mujoco.mj_inverse(lab.model, lab.data)
            u[i] += lab.data.qfrc_inverse[lab.speeds]
        return recorded(self.plant, t, Y, u, ddq)


class _Compiled:
    def __init__(self, plant: Plant, step: float) -> None:
        self.plant, self.mujoco = plant, load_mujoco()
        try:
            self.model = self.mujoco.MjModel.from_xml_string(export_mjcf(plant, step))
        except (ValueError, RuntimeError, self.mujoco.FatalError) as error:
            raise InputError(
                "mjcf",
                found=f"a robot that MuJoCo rejects: {' '.join(str(error).split())}",
                expected="physically consistent links: positive masses, inertias within the triangle inequality",
            ) from error
        self.data = self.mujoco.MjData(self.model)
        names = list(plant.robot.joint_names)
        if plant.elasticity is not None:
            names += [motor_name(name) for name in plant.robot.joint_names]
        joints = [self.mujoco.mj_name2id(self.model, self.mujoco.mjtObj.mjOBJ_JOINT, name) for name in names]
        self.places = np.array(self.model.jnt_qposadr[joints])
        self.speeds = np.array(self.model.jnt_dofadr[joints])
        self.u = np.zeros(plant.n)
        # MuJoCo has motor angles, dynid's states are these angles reflected to the joints.
        N = plant.robot.drive.transmission
        self.forward, self.back = N, np.linalg.inv(N)

    def coordinates(self, values: Float) -> Float:
        """Joint and reflected motor values of a vector over MuJoCo's degrees of freedom."""
        x, n = np.array(values[self.speeds]), self.plant.n
        if self.plant.elasticity is not None:
            x[n:] = self.back @ x[n:]
        return x

    def put(self, y: Float, t: float) -> None:
        """Set the state."""
        n, s = self.plant.n, self.plant.size
        x, v = np.array(y[:s]), np.array(y[s : 2 * s])
        if self.plant.elasticity is not None:
            x[n:], v[n:] = self.forward @ x[n:], self.forward @ v[n:]
        self.data.time = t
        self.data.qpos[self.places], self.data.qvel[self.speeds] = x, v

    def vector(self) -> Float:
        """The state vector (1, states)."""
        places, n = np.array(self.data.qpos[self.places]), self.plant.n
        if self.plant.elasticity is not None:
            places[n:] = self.back @ places[n:]
        return np.concatenate([places, self.coordinates(self.data.qvel)])[None]

    @contextmanager
    def driven(self, controller: Controller) -> Iterator[None]:
        """Provide MuJoCo with drive torque, friction and loads at every stage of its scheme."""
        plant, n = self.plant, self.plant.n

        def push(_model: Any, data: Any) -> None:
            y = self.vector()
            state = plant.state(y)
            self.u = controller.torque(np.array([data.time]), state)[0]
            drive = self.u - plant.friction_torque(y)[0]
            links = -plant.load_torque(state.q, state.dq)[0]
            if plant.elasticity is None:
                data.qfrc_applied[self.speeds] = drive + links
            else:
                data.qfrc_applied[self.speeds[:n]] = links
                data.qfrc_applied[self.speeds[n:]] = self.back.T @ drive

        self.mujoco.set_mjcb_control(push)
        try:
            yield
        finally:
            self.mujoco.set_mjcb_control(None)
