"""Motion of a simulated robot: integrated under a controller, or prescribed with the torque it needs."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import torque_regressor
from dynid.kernel.multibody import diverged
from dynid.kernel.rosenbrock import SPEED_SHARE
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.control import Controller
from dynid.simulation.integrate import (
    DIFFERENCE,
    FixedStep,
    Implicit,
    Integrator,
    compiled,
    compiled_implicit,
)
from dynid.simulation.plant import Coupling, Plant, State
from dynid.terms.term import Terms
from dynid.trajectories.trajectory import Trajectory

# Decay and rotation of a mode within one step, well inside the stability region of Runge-Kutta.
DECAY_A_STEP, TURN_A_STEP = 0.5, 0.3
# s: shortest explicit step; below it implicit steps, one per sample of a log at 1 kHz, take less time. 20 s then take
# at most 80,000 explicit steps.
SHORTEST_EXPLICIT = 2.5e-4
# Eighth-order central differences: the motion is exact, so only rounding remains.
_REACH, _SPACING = 4, 2e-3
_FIRST = np.array([3.0, -32.0, 168.0, -672.0, 0.0, 672.0, -168.0, 32.0, -3.0]) / 840.0
_SECOND = np.array([-9.0, 128.0, -1008.0, 8064.0, -14350.0, 8064.0, -1008.0, 128.0, -9.0]) / 5040.0


@dataclass(frozen=True, eq=False)
class SimulatedMotion:
    """Exact motion and torque of a simulated robot, SI units.

    Attributes
    ----------
    t : ndarray, shape (T,), s
        Times.
    q, dq, ddq : ndarray, shape (T, n)
        Motion of the joints.
    theta, dtheta, ddtheta : ndarray, shape (T, n)
        Motion of the motors on the joint side (theta_m = N theta); that of the joints if these are rigid.
    tau : ndarray, shape (T, n), N m (N)
        Drive torque on the joint side, N' tau_m.
    friction : ndarray, shape (T, n), N m (N)
        Friction torque in the drives.
    load : ndarray, shape (T, n), N m (N)
        Torque that reaches the links.

    """

    t: Float
    q: Float
    dq: Float
    ddq: Float
    theta: Float
    dtheta: Float
    ddtheta: Float
    tau: Float
    friction: Float
    load: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", locked(self.t, (None,), "t"))
        shape = (len(self.t), np.shape(self.q)[1])
        for name in self.__dataclass_fields__:
            if name != "t":
                object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    @property
    def state(self) -> State:
        """Positions and velocities of joints and motors."""
        return State(self.q, self.dq, self.theta, self.dtheta)


def sample_times(duration: float, rate: float) -> Float:
    """Times 0, 1/rate, ..., duration.

    Parameters
    ----------
    duration : float, s
        Length of the motion.
    rate : float, Hz
        Sampling rate.

    Returns
    -------
    ndarray, shape (T,), s
        Times.

    Raises
    ------
    UsageError
        Unless both are positive and finite and give at least one step.

    """
    if not (rate > 0 and np.isfinite(rate) and np.isfinite(duration) and round(duration * rate) >= 1):
        raise UsageError(
            "step", found=f"duration {duration} s at {rate} Hz", expected="at least one step of finite length"
        )
    return np.arange(round(duration * rate) + 1, dtype=np.float64) / rate


def suitable_step(
    plant: Plant, y: Float, longest: float = 5e-4, controller: Controller | None = None
) -> float:
    """Step at which the fixed-step scheme resolves springs, friction and control around a state.

    An eigenvalue a + ib of the linearised motion requires a step of at most 0.5 / abs(a) and 0.3 / abs(b).

    Parameters
    ----------
    plant : Plant
        Robot.
    y : ndarray, shape (states,)
        State.
    longest : float, s
        Greatest step to return.
    controller : Controller, optional
        Controller in the loop; None = no torque.

    Returns
    -------
    float, s
        Step.

    """
    return fastest_mode(plant, y, longest, controller)[0]


def fastest_mode(
    plant: Plant, y: Float, longest: float = 5e-4, controller: Controller | None = None
) -> tuple[float, str]:
    """Step of `suitable_step`, and the joint that moves most in the mode that requires it.

    Parameters
    ----------
    plant : Plant
        Robot.
    y : ndarray, shape (states,)
        State.
    longest : float, s
        Greatest step to return.
    controller : Controller, optional
        Controller in the loop; None = no torque.

    Returns
    -------
    step : float, s
        Step.
    joint : str
        Name of the joint.

    """
    shift = 1e-6 * np.eye(plant.states)
    around = np.concatenate([y + shift, y - shift])
    u = np.zeros((len(around), plant.n))
    if controller is not None:
        u = controller.torque(np.zeros(len(around)), plant.state(around))
    rates = plant.rate(around, u)
    slopes = (rates[: plant.states] - rates[plant.states :]).T / 2e-6
    if not np.isfinite(slopes).all():
        raise diverged(0.0)
    values, vectors = np.linalg.eig(slopes)
    speeds = np.maximum(np.abs(values.real) / DECAY_A_STEP, np.abs(values.imag) / TURN_A_STEP)
    fastest = int(speeds.argmax())
    velocities = np.abs(vectors[plant.size : 2 * plant.size, fastest])
    joint = plant.robot.joint_names[int(velocities.argmax()) % plant.n]
    return min(longest, 1.0 / max(float(speeds[fastest]), 1e-9)), joint


def is_stiff(step: float) -> bool:
    """Whether a robot whose explicit steps are at most this long, in s, is integrated implicitly."""
    return step < SHORTEST_EXPLICIT


def simulate(
    plant: Plant, controller: Controller, start: Float, t: Float, integrator: Integrator | None = None
) -> SimulatedMotion:
    """Simulate a motion under a controller.

    Parameters
    ----------
    plant : Plant
        Robot.
    controller : Controller
        Controller.
    start : ndarray, shape (states,)
        Initial state, for example `plant.at_rest(q)[0]`.
    t : ndarray, shape (T,), s
        Uniform times.
    integrator : Integrator, optional
        Integration scheme; None = FixedStep with a suitable step, or Implicit for a stiff robot (`is_stiff`).

    Returns
    -------
    SimulatedMotion
        Exact motion and torque.

    Raises
    ------
    UsageError
        If the initial state has another shape.
    SolverError
        If the motion cannot be integrated.

    """
    if np.shape(start) != (plant.states,):
        raise UsageError(
            "array-shape", found=f"start of shape {np.shape(start)}", expected=f"({plant.states},)"
        )
    scheme = integrator
    if scheme is None:
        step = suitable_step(plant, np.asarray(start), controller=controller)
        scheme = Implicit() if is_stiff(step) else FixedStep(step)
    first = np.asarray(start, dtype=np.float64)
    integrated = None
    if isinstance(scheme, FixedStep):
        integrated = compiled(plant, controller, first, t, scheme)
    elif isinstance(scheme, Implicit):
        integrated = compiled_implicit(plant, controller, first, t, scheme)
    Y, fixed_input = scheme.run(_Loop(plant, controller), first, t) if integrated is None else integrated
    u = controller.torque(t, plant.state(Y)) if fixed_input is None else fixed_input
    return recorded(plant, t, Y, u, plant.acceleration(Y, u))


def recorded(plant: Plant, t: Float, Y: Float, u: Float, acceleration: Float) -> SimulatedMotion:
    """Motion of state vectors.

    Parameters
    ----------
    plant : Plant
        Robot.
    t : ndarray, shape (T,), s
        Times.
    Y : ndarray, shape (T, states)
        State vectors.
    u : ndarray, shape (T, n), N m (N)
        Drive torque.
    acceleration : ndarray, shape (T, size)
        Accelerations x''.

    Returns
    -------
    SimulatedMotion
        Exact motion and torque.

    """
    n, state = plant.n, plant.state(Y)
    return SimulatedMotion(
        t=t,
        q=state.q,
        dq=state.dq,
        ddq=acceleration[:, :n],
        theta=state.theta,
        dtheta=state.dtheta,
        ddtheta=acceleration[:, -n:],
        tau=u,
        friction=plant.friction_torque(Y),
        load=plant.transmitted_torque(state, acceleration),
    )


def follow(plant: Plant, trajectory: Trajectory, t: Float) -> SimulatedMotion:
    """Motion of joints that follow a trajectory exactly, with the drive torque it needs; nothing is integrated.

    With elastic joints the motors move as theta = q + K^-1 (torque at the links). Their derivatives are eighth-order
    differences of the exact trajectory, and are inaccurate within 8 ms of a jump of its third derivative.

    Parameters
    ----------
    plant : Plant
        Robot.
    trajectory : Trajectory
        Motion of the joints.
    t : ndarray, shape (T,), s
        Times.

    Returns
    -------
    SimulatedMotion
        Exact motion and torque.

    Raises
    ------
    UsageError
        For friction with internal states, damped elastic joints, or elastic joints with full coupling: the motion of
        their motors is the solution of a differential equation.

    """
    if plant.friction_states:
        raise UsageError(
            "ideal-motion",
            found="friction with internal states (Dahl, LuGre)",
            expected="friction without internal states",
            do="simulate with a controller",
        )
    q, dq, ddq = trajectory.motion(t)
    if plant.elasticity is None:
        state, acceleration = State(q, dq, q, dq), ddq
    else:
        state, acceleration = _behind_springs(plant, trajectory, t)
    u = plant.drive_torque(state, acceleration)
    return recorded(plant, t, plant.vector(state), u, acceleration)


def _behind_springs(plant: Plant, trajectory: Trajectory, t: Float) -> tuple[State, Float]:
    elasticity = plant.elasticity
    if elasticity is None or elasticity.damping.any() or plant.coupling is Coupling.FULL:
        raise UsageError(
            "ideal-motion",
            found="elastic joints with damping or full rotor coupling",
            expected="neither, for an exact motion",
            do="simulate with a controller",
        )
    links = Plant(plant.robot, plant.bodies, np.zeros(plant.n), loads=plant.loads)

    def motors(at: Float) -> Float:
        q, dq, ddq = trajectory.motion(at)
        load = links.transmitted_torque(State(q, dq, q, dq), ddq)
        return np.asarray(q + load / elasticity.stiffness)

    around = [motors(t + k * _SPACING) for k in range(-_REACH, _REACH + 1)]
    first = sum(c * x for c, x in zip(_FIRST, around, strict=True)) / _SPACING
    second = sum(c * x for c, x in zip(_SECOND, around, strict=True)) / _SPACING**2
    q, dq, ddq = trajectory.motion(t)
    return State(q, dq, around[_REACH], first), np.concatenate([ddq, second], axis=1)


@dataclass(frozen=True)
class _Loop:
    plant: Plant
    controller: Controller

    def control(self, t: float, y: Float) -> Float:
        return np.asarray(self.controller.torque(np.array([t]), self.plant.state(y[None]))[0])

    def rate(self, y: Float, u: Float) -> Float:
        return np.asarray(self.plant.rate(y[None], u[None])[0])

    @property
    def weights(self) -> Float:
        weights = np.ones(self.plant.states)
        weights[self.plant.size : 2 * self.plant.size] = SPEED_SHARE
        return weights

    def jacobian(self, t: float, y: Float, fixed_input: Float | None) -> Float:
        shifts = DIFFERENCE * np.eye(len(y))
        around = np.concatenate([y + shifts, y - shifts])
        if fixed_input is None:
            u = self.controller.torque(np.full(len(around), t), self.plant.state(around))
        else:
            u = np.tile(fixed_input, (len(around), 1))
        rates = self.plant.rate(around, u)
        return np.asarray((rates[: len(y)] - rates[len(y) :]).T / (2.0 * DIFFERENCE))


# Exact torque of rigid robots with rigid drives.

# Samples computed at once, to bound memory.
CHUNK = 8192


def inverse(robot: RobotModel, terms: Terms, theta: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Exact joint torque tau = Y(q, dq, ddq) theta of all terms, in chunks so that memory stays bounded.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters, in the order of `terms.columns(robot)`.
    q, dq, ddq : ndarray, shape (T, n)
        Motion.

    Returns
    -------
    ndarray, shape (T, n), N m (N)
        Torque.

    Raises
    ------
    UnfitDataError
        For a term that reads a log channel, which a motion does not have.
    UsageError
        If theta has another length or an unknown (nan) entry.

    """
    columns = terms.columns(robot)
    if np.shape(theta) != (len(columns),) or not np.isfinite(theta).all():
        bad = [c.name for c, value in zip(columns, theta, strict=False) if not np.isfinite(value)]
        raise UsageError(
            "parameters",
            found=f"{len(theta)} parameters" + (f", not finite: {', '.join(bad)}" if bad else ""),
            expected=f"{len(columns)} finite values",
        )
    tau = np.zeros_like(q)
    for first in range(0, len(q), CHUNK):
        part = slice(first, first + CHUNK)
        tau[part] = torque(robot, terms, theta, Samples.from_motion(q[part], dq[part], ddq[part]))
    return tau


def torque(robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> Float:
    """Torque tau = Y theta + known torque of all terms on samples, including terms that read channels.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters.
    samples : Samples
        Samples.

    Returns
    -------
    ndarray, shape (T, n), N m (N)
        Torque.

    """
    tau = np.array(terms.known_torque(robot, samples))
    panels = terms.torque_regressor(robot, samples)
    for joint, (indices, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
        tau[:, joint] += theta[indices] @ values
    return tau


def rigid_torque(robot: RobotModel, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Joint torque of the rigid links.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    inertia : ndarray, shape (nb, 10)
        Inertial parameters of the links.
    q, dq, ddq : ndarray, shape (T, n)
        Motion.

    Returns
    -------
    ndarray, shape (T, n), N m (N)
        Torque.

    """
    pi = np.ravel(inertia)
    panels = torque_regressor(robot.tree, *robot.tree_motion(q, dq, ddq))
    tau = np.stack(
        [pi[columns] @ values for columns, values in zip(panels.columns, panels.values, strict=True)], axis=1
    )
    return tau @ robot.projection if robot.has_mimic else tau
