"""Simulation of exactly known robots: their motion, their controllers and the sensors that record it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.simulation.control import (
        ComputedTorque,
        Controller,
        GravityPD,
        Tabulated,
        TorqueTable,
        pd_gains,
    )
    from dynid.simulation.forward import ForwardModel, Hold, stick_slip
    from dynid.simulation.integrate import (
        Adaptive,
        FixedStep,
        Integrator,
        check_budget,
        check_times,
        steps_between,
    )
    from dynid.simulation.loop import extra_of, measured_coordinates, measured_motion
    from dynid.simulation.mechanism import Mechanism
    from dynid.simulation.motion import (
        SimulatedMotion,
        fastest_mode,
        follow,
        inverse,
        recorded,
        rigid_torque,
        sample_times,
        simulate,
    )
    from dynid.simulation.open_loop import OpenLoop
    from dynid.simulation.plant import (
        SMOOTHING,
        Coupling,
        Dahl,
        Elasticity,
        Friction,
        FunctionLoad,
        Load,
        LuGre,
        Plant,
        SmoothFriction,
        State,
    )
    from dynid.simulation.sensors import (
        Chain,
        Dropout,
        Encoder,
        Gain,
        Latency,
        Noise,
        NoiseRatio,
        Ripple,
        Sensor,
        TorqueSensor,
        warming,
    )
    from dynid.simulation.servo_loop import DrivenLoad, ServoLoop, servo_run

__all__ = [
    "SMOOTHING",
    "Adaptive",
    "Chain",
    "ComputedTorque",
    "Controller",
    "Coupling",
    "Dahl",
    "DrivenLoad",
    "Dropout",
    "Elasticity",
    "Encoder",
    "FixedStep",
    "ForwardModel",
    "Friction",
    "FunctionLoad",
    "Gain",
    "GravityPD",
    "Hold",
    "Integrator",
    "Latency",
    "Load",
    "LuGre",
    "Mechanism",
    "Noise",
    "NoiseRatio",
    "OpenLoop",
    "Plant",
    "Ripple",
    "Sensor",
    "ServoLoop",
    "SimulatedMotion",
    "SmoothFriction",
    "State",
    "Tabulated",
    "TorqueSensor",
    "TorqueTable",
    "check_budget",
    "check_times",
    "extra_of",
    "fastest_mode",
    "follow",
    "inverse",
    "measured_coordinates",
    "measured_motion",
    "pd_gains",
    "recorded",
    "rigid_torque",
    "sample_times",
    "servo_run",
    "simulate",
    "steps_between",
    "stick_slip",
    "warming",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "control": "ComputedTorque Controller GravityPD Tabulated TorqueTable pd_gains",
        "forward": "ForwardModel Hold stick_slip",
        "integrate": "Adaptive FixedStep Integrator check_budget check_times steps_between",
        "loop": "extra_of measured_coordinates measured_motion",
        "mechanism": "Mechanism",
        "motion": ("SimulatedMotion fastest_mode follow inverse recorded rigid_torque sample_times simulate"),
        "open_loop": "OpenLoop",
        "plant": (
            "Coupling Dahl Elasticity Friction FunctionLoad Load LuGre Plant SMOOTHING SmoothFriction State"
        ),
        "sensors": ("Chain Dropout Encoder Gain Latency Noise NoiseRatio Ripple Sensor TorqueSensor warming"),
        "servo_loop": "DrivenLoad ServoLoop servo_run",
    },
    moved={"dynid.lab": "OpenLoop Rig SensorFile Setup build_plant read_setup"},
)
