"""Counterbalances that are no linear springs: gas over a piston, and any function of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import InputError, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.spring import check_label
from dynid.terms.spring_lever import Lever, lever_panels
from dynid.terms.term import Column, Term

# The gas law is not followed below this share of the volume at rest: no seal would hold.
LEAST_VOLUME = 0.01


@dataclass(frozen=True)
class GasSpring(Term):
    """A gas or hydro-pneumatic counterbalance: tau_j = s F dl/dq_j.

        F = A p,    p = p0 (V0 / V)^n,    V = V0 - (l - l0) A

    The cylinder pulls its ends together, and drawing it out compresses the gas. One that pushes them apart has
    F = -A p and V = V0 + (l - l0) A. V counts as at least V0 / 100.
    For an isothermal charge p0 V0 = m R T. The gain s (prior 1) takes up what filling and temperature change.

    geometry: where it is mounted.    rest_length: l0, m, at which the gas has volume and pressure p0 below.
    area: A of the piston, m^2 (less that of the rod if it pulls).    volume: V0, m^3.    pressure: p0, Pa, above
    the ambient one.    exponent: n, 1 = isothermal, 1.4 = adiabatic air or nitrogen.
    pushes: whether it pushes.    free: whether s is estimated, else 1.    label: the parameter is s_LABEL.

    Raises UsageError for numbers that are not positive.
    """

    geometry: Lever
    rest_length: float
    area: float
    volume: float
    pressure: float
    exponent: float = 1.0
    pushes: bool = False
    free: bool = True
    label: str = "gas"
    name: str = "gas_spring"
    passive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_label(self.label)
        for key in ("rest_length", "area", "volume", "pressure", "exponent"):
            if not (np.isfinite(getattr(self, key)) and getattr(self, key) > 0):
                raise UsageError(
                    "gas-spring", found=f"{key} = {getattr(self, key)}", expected="a number > 0, SI"
                )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The gain, if it is estimated."""
        return _gain(self.label, self.name, self.geometry.joints(robot)) if self.free else ()

    def balances(self, robot: RobotModel) -> Bool:
        """The joints that it is mounted over."""
        return np.isin(np.arange(robot.n), self.geometry.joints(robot))

    def force(self, length: Float) -> Float:
        """F of lengths (T,) in m, N; positive pulls."""
        sign = -1.0 if self.pushes else 1.0
        volume = self.volume - sign * (length - self.rest_length) * self.area
        volume = np.maximum(volume, LEAST_VOLUME * self.volume)
        return np.asarray(sign * self.area * self.pressure * (self.volume / volume) ** self.exponent)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The whole torque, at s = 1."""
        lines = self._torque(robot, samples)[None] if self.free else np.zeros((0, *samples.q.shape))
        return lever_panels(robot, self.geometry.joints(robot), lines, tuple(wanted))

    def known_torque(self, robot: RobotModel, samples: Samples) -> Float | None:
        """The whole torque when the gain is not estimated."""
        return None if self.free else self._torque(robot, samples)

    def _torque(self, robot: RobotModel, samples: Samples) -> Float:
        length, slopes = self.geometry.length(robot, samples.q)
        return np.asarray(self.force(length)[:, None] * slopes)


TorqueFunction = Callable[[Float], Float]
FUNCTIONS: dict[str, TorqueFunction] = {}


def register_function(name: str, function: TorqueFunction) -> None:
    """Makes a function known by a name to FunctionTorque, in experiments and when a run folder is read.

    function: lengths (T,) in m to forces (T,) in N, or positions (T, n) to joint torques (T, n), of gain 1.
    """
    FUNCTIONS[name] = function


@dataclass(frozen=True)
class FunctionTorque(Term):
    """Torque of a function of one's own, times a gain: tau_j = s f(l) dl/dq_j, or tau = s f(q) without a geometry.

    function: name that it was registered by (`register_function`); no code is ever read from a file.
    geometry: where the spring is mounted whose force f(l) is; None = f gives joint torque from positions.
    free: whether s is estimated (prior 1), else 1.    label: the parameter is s_LABEL.

    Raises InputError for a name that is not registered, UnfitDataError for results that are not finite.
    """

    function: str
    geometry: Lever | None = None
    free: bool = True
    label: str = "function"
    name: str = "function"
    passive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_label(self.label)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The gain, if it is estimated."""
        return _gain(self.label, self.name, self._joints(robot)) if self.free else ()

    def balances(self, robot: RobotModel) -> Bool:
        """The joints that it acts on."""
        return np.isin(np.arange(robot.n), self._joints(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The whole torque, at s = 1."""
        lines = self._torque(robot, samples)[None] if self.free else np.zeros((0, *samples.q.shape))
        return lever_panels(robot, self._joints(robot), lines, tuple(wanted))

    def known_torque(self, robot: RobotModel, samples: Samples) -> Float | None:
        """The whole torque when the gain is not estimated."""
        return None if self.free else self._torque(robot, samples)

    def _joints(self, robot: RobotModel) -> Int:
        return np.arange(robot.n) if self.geometry is None else self.geometry.joints(robot)

    def _torque(self, robot: RobotModel, samples: Samples) -> Float:
        if self.function not in FUNCTIONS:
            raise InputError(
                "unknown-function",
                found=f"function '{self.function}'",
                expected="one of " + (", ".join(sorted(FUNCTIONS)) or "those registered: none is"),
                do="register it in Python: dynid.terms.register_function(name, function)",
            )
        evaluate = FUNCTIONS[self.function]
        if self.geometry is None:
            return self._checked(evaluate(np.array(samples.q)), samples.q.shape)
        length, slopes = self.geometry.length(robot, samples.q)
        return np.asarray(self._checked(evaluate(length), length.shape)[:, None] * slopes)

    def _checked(self, values: Float, shape: tuple[int, ...]) -> Float:
        found = np.asarray(values, dtype=np.float64)
        if found.shape != shape or not np.isfinite(found).all():
            raise UnfitDataError(
                "function-result",
                found=f"function '{self.function}' gave shape {found.shape}"
                + ("" if np.isfinite(found).all() else " with numbers that are not finite"),
                expected=f"finite numbers of shape {shape}",
            )
        return found


def _gain(label: str, term: str, joints: Int) -> tuple[Column, ...]:
    return (Column(f"s_{label}", "1", term, int(joints[-1]), prior=1.0, lower=0.0),)
