"""Power rows: the energy balance by the second, plain or filtered."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.energy import energy_balance
from dynid.rows.momentum_filter import (
    CausalFilter,
    Hold,
    begin,
    check_filter,
    require_finite,
)
from dynid.rows.rows import Equations
from dynid.rows.torque import TorqueRows
from dynid.signals.samples import Samples
from dynid.terms.joint_term import joint_indices
from dynid.terms.term import Terms


@dataclass(frozen=True)
class PowerRows:
    """dq'tau = dq'Y theta, one equation a sample, summed over the joints; accelerations are needed.

    joints: those with two encoders, set by the log; their motors' torque counts with the motors' velocity.
    Source: Chavez-Olivares et al. 2012 eqs 18 and 19, the poorest of their schemes.
    Raises UnfitDataError where a signal is missing.
    """

    joints: tuple[str, ...] = ()
    name: str = "power"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The robot as a whole."""
        return ("power",)

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """All joints together."""
        return (-1,)

    def two_encoders(self, robot: RobotModel) -> tuple[int, ...]:
        """Indices of the joints with two encoders."""
        return joint_indices(robot, self.joints) if self.joints else ()

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel: the joints' panels times their velocities, added up."""
        require_finite(samples, self.name, ("q", "dq", "ddq", "tau"))
        joints = TorqueRows().equations(robot, terms, samples, wanted)
        columns = np.flatnonzero(wanted)
        panel = np.zeros((len(columns) + 1, len(samples)))
        for j, (own, lines) in enumerate(zip(joints.columns, joints.panels, strict=True)):
            place = np.append(np.searchsorted(columns, own), len(columns))
            panel[place] += lines * samples.dq[:, j]
        if samples.theta is not None:
            known = samples.tau - terms.known_motor_torque(robot, samples)
            motors = terms.motor_regressor(robot, samples, wanted, known)
            apart = samples.motor.dq - samples.dq
            for j, (own, lines) in enumerate(zip(motors.columns, motors.values, strict=True)):
                panel[np.append(np.searchsorted(columns, own), len(columns))] += lines * apart[:, j]
        return Equations((columns,), (panel,))


@dataclass(frozen=True)
class FilteredPowerRows:
    """f2[dq'tau] = (f1[h - h(0)] + f2[dq'Y_friction]) theta, one equation a sample, without acceleration.

    Written as f1 of the energy balance, whose work of each step is exact: f2[x] = f1[integral of x].
    cutoff: Hz.    degree: relative degree of f2, 1 or 2.    hold: "zero" where torque is constant between samples.
    joints: as in `EnergyRows`.
    Source: Chavez-Olivares et al. 2012 eqs 20 and 21.

    Raises UsageError for options out of range, UnfitDataError where a signal is missing.
    """

    cutoff: float = option(5.0, "cut-off of the filter of the equations", unit="Hz", above=0)
    degree: int = option(1, "its relative degree", least=1, most=2)
    hold: Hold = "linear"
    joints: tuple[str, ...] = ()
    name: str = "filtered_power"

    def __post_init__(self) -> None:
        check_filter(self.cutoff, self.degree, self.hold)

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The robot as a whole."""
        return ("filtered_power",)

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """All joints together."""
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
