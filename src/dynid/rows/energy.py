"""Energy rows: work done on the robot is energy stored and lost; one equation per sample, without acceleration."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.momentum import CausalFilter, Hold, begin, check_filter, require_finite
from dynid.rows.rows import Equations
from dynid.rows.torque import TorqueRows
from dynid.signals.samples import Samples
from dynid.terms.term import Terms, joint_indices


@dataclass(frozen=True)
class EnergyRows:
    """Energy balance int dq'tau dt = (h - h(0) + int dq' Y_friction dt) theta; one group.

    h theta is kinetic and potential energy. The work of a step is torque times the step of the position, tau_{k-1} .
    (q_k - q_{k-1}) if torque is constant, which is exact for any motion within the step, and the mean of both torques
    if it is linear. Friction on a joint at rest does no work, so stiction cannot bias these rows. Integrals restart
    with each window of the log.

    Parameters
    ----------
    hold : {"linear", "zero"}
        "zero" if torque is constant between samples.
    joints : tuple of str
        Joints with two encoders, set by the log. Motors then work along their own position, int dtheta' tau, and
        springs store K (theta - q)^2 / 2.

    Raises
    ------
    UsageError
        For another hold.
    UnfitDataError
        If a signal is missing.

    References
    ----------
    Chavez-Olivares et al. 2012, eqs 16 and 17, minus h(0).

    """

    hold: Hold = "linear"
    joints: tuple[str, ...] = ()
    name: str = "energy"

    def __post_init__(self) -> None:
        if self.hold not in ("linear", "zero"):
            raise UsageError("rows-hold", found=f"hold = '{self.hold}'", expected="'linear' or 'zero'")

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """One group, the whole robot."""
        return ("energy",)

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """-1: all joints together."""
        return (-1,)

    def two_encoders(self, robot: RobotModel) -> tuple[int, ...]:
        """Indices of the joints with two encoders."""
        return joint_indices(robot, self.joints) if self.joints else ()

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel: one line per wanted parameter, work of the torque last."""
        return energy_balance(robot, terms, samples, wanted, self.hold, self.name)


def energy_balance(
    robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, hold: Hold, scheme: str
) -> Equations:
    """Equations of EnergyRows, zero before the first usable sample.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    samples : Samples
        Samples.
    wanted : ndarray of bool, shape (p,)
        Columns to write.
    hold : {"linear", "zero"}
        Torque between samples.
    scheme : str
        Name of the row scheme for messages.

    Returns
    -------
    Equations
        Equations.

    """
    require_finite(samples, scheme)
    columns = np.flatnonzero(wanted)
    stored, working = terms.energy_form(robot, samples, wanted)
    known_stored, known_working = terms.known_energy(robot, samples)
    start = begin(samples)
    panel = np.zeros((len(columns) + 1, len(samples)))
    panel[:-1] = stored
    panel[-1] = -known_stored
    panel -= panel[:, start : start + 1]
    step = np.diff(samples.q[start:], axis=0).T
    for j in range(robot.n):
        place = np.searchsorted(columns, working.columns[j])
        panel[place, start:] += work(working.values[j][:, start:], step[j], "linear")
        panel[-1:, start:] += work(samples.tau[None, start:, j], step[j], hold)
        panel[-1:, start:] -= work(known_working[None, start:, j], step[j], "linear")
    if samples.theta is not None:
        _add_deflections(panel[:, start:], robot, terms, samples.part(start, len(samples)), wanted, hold)
    panel[:, :start] = 0.0
    return Equations((columns,), (panel,))


def _add_deflections(
    panel: Float, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool, hold: Hold
) -> None:
    # Work of motor torque along theta - q; the rest of it is along q.
    columns = np.flatnonzero(wanted)
    lines = terms.motor_work(robot, samples, wanted)
    known = terms.of_motors.known_energy(robot, samples)[1]
    step = np.diff(samples.motor.q - samples.q, axis=0).T
    for j in range(robot.n):
        panel[np.searchsorted(columns, lines.columns[j])] += work(lines.values[j], step[j], "linear")
        panel[-1:] += work(samples.tau[None, :, j], step[j], hold)
        panel[-1:] -= work(known[None, :, j], step[j], "linear")


def work(torque: Float, step: Float, hold: Hold) -> Float:
    """Work of torque along the steps of a position, zero at the first sample.

    Parameters
    ----------
    torque : ndarray, shape (L, T)
        Lines of torque.
    step : ndarray, shape (T - 1,)
        Steps of the position.
    hold : {"linear", "zero"}
        Torque between samples.

    Returns
    -------
    ndarray, shape (L, T)
        Work.

    """
    force = torque[:, :-1] if hold == "zero" else 0.5 * (torque[:, :-1] + torque[:, 1:])
    return np.concatenate([np.zeros((len(torque), 1)), np.cumsum(force * step, axis=1)], axis=1)


# Power rows: the energy balance per second, plain or filtered.


@dataclass(frozen=True)
class PowerRows:
    """Power balance dq'tau = dq'Y theta, one equation per sample, summed over the joints; accelerations are needed.

    Parameters
    ----------
    joints : tuple of str
        Joints with two encoders, set by the log; the torque of their motors counts with the velocity of the motors.

    Raises
    ------
    UnfitDataError
        If a signal is missing.

    References
    ----------
    Chavez-Olivares et al. 2012, eqs 18 and 19, the least accurate of their schemes.

    """

    joints: tuple[str, ...] = ()
    name: str = "power"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """One group, the whole robot."""
        return ("power",)

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """-1: all joints together."""
        return (-1,)

    def two_encoders(self, robot: RobotModel) -> tuple[int, ...]:
        """Indices of the joints with two encoders."""
        return joint_indices(robot, self.joints) if self.joints else ()

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel: the joints' panels times their velocities, summed."""
        require_finite(samples, self.name, ("q", "dq", "ddq", "tau"))
        joints = TorqueRows().equations(robot, terms, samples, wanted)
        columns = np.flatnonzero(wanted)
        panel = np.zeros((len(columns) + 1, len(samples)))
        for j, (indices, lines) in enumerate(zip(joints.columns, joints.panels, strict=True)):
            place = np.append(np.searchsorted(columns, indices), len(columns))
            panel[place] += lines * samples.dq[:, j]
        if samples.theta is not None:
            known = samples.tau - terms.known_motor_torque(robot, samples)
            motors = terms.motor_regressor(robot, samples, wanted, known)
            apart = samples.motor.dq - samples.dq
            for j, (indices, lines) in enumerate(zip(motors.columns, motors.values, strict=True)):
                panel[np.append(np.searchsorted(columns, indices), len(columns))] += lines * apart[:, j]
        return Equations((columns,), (panel,))


@dataclass(frozen=True)
class FilteredPowerRows:
    """Filtered power balance f2[dq'tau] = (f1[h - h(0)] + f2[dq'Y_friction]) theta, without acceleration.

    It is computed as f1 of the energy balance, in which the work of each step is exact: f2[x] = f1[integral of x].

    Parameters
    ----------
    cutoff : float, Hz
        Cutoff frequency of f2.
    degree : {1, 2}
        Relative degree of f2.
    hold : {"linear", "zero"}
        "zero" if torque is constant between samples.
    joints : tuple of str
        Joints with two encoders, as in `EnergyRows`.

    Raises
    ------
    UsageError
        For options out of range.
    UnfitDataError
        If a signal is missing.

    References
    ----------
    Chavez-Olivares et al. 2012, eqs 20 and 21.

    """

    cutoff: float = option(5.0, "cutoff frequency of the equation filter", unit="Hz", above=0)
    degree: int = option(1, "relative degree of that filter", least=1, most=2)
    hold: Hold = "linear"
    joints: tuple[str, ...] = ()
    name: str = "filtered_power"

    def __post_init__(self) -> None:
        check_filter(self.cutoff, self.degree, self.hold)

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """One group, the whole robot."""
        return ("filtered_power",)

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """-1: all joints together."""
        return (-1,)

    def two_encoders(self, robot: RobotModel) -> tuple[int, ...]:
        """Indices of the joints with two encoders."""
        return joint_indices(robot, self.joints) if self.joints else ()

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel: f1 of the energy balance."""
        energy = energy_balance(robot, terms, samples, wanted, self.hold, self.name)
        start = begin(samples)
        panel = np.zeros_like(energy.panels[0])
        panel[:, start:] = CausalFilter(self.cutoff, self.degree, samples.rate).high(
            energy.panels[0][:, start:]
        )
        return Equations(energy.columns, (panel,))
