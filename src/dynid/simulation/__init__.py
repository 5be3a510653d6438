"""Simulation of exactly known robots: their motion, their controllers and the sensors that record it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.simulation.control import ComputedTorque as ComputedTorque
    from dynid.simulation.control import Controller as Controller
    from dynid.simulation.control import GravityPD as GravityPD
    from dynid.simulation.control import Tabulated as Tabulated
    from dynid.simulation.control import TorqueTable as TorqueTable
    from dynid.simulation.control import pd_gains as pd_gains
    from dynid.simulation.forward import ForwardModel as ForwardModel
    from dynid.simulation.forward import Hold as Hold
    from dynid.simulation.forward import stick_slip as stick_slip
    from dynid.simulation.integrate import Adaptive as Adaptive
    from dynid.simulation.integrate import FixedStep as FixedStep
    from dynid.simulation.integrate import Implicit as Implicit
    from dynid.simulation.integrate import Integrator as Integrator
    from dynid.simulation.integrate import check_budget as check_budget
    from dynid.simulation.integrate import check_times as check_times
    from dynid.simulation.integrate import steps_between as steps_between
    from dynid.simulation.loop import Feedback as Feedback
    from dynid.simulation.loop import Output as Output
    from dynid.simulation.loop import Stretches as Stretches
    from dynid.simulation.loop import extra_of as extra_of
    from dynid.simulation.loop import measured_coordinates as measured_coordinates
    from dynid.simulation.loop import measured_motion as measured_motion
    from dynid.simulation.loop import refined as refined
    from dynid.simulation.loop import run as run
    from dynid.simulation.loop import sensitivity as sensitivity
    from dynid.simulation.mechanism import Mechanism as Mechanism
    from dynid.simulation.motion import SimulatedMotion as SimulatedMotion
    from dynid.simulation.motion import fastest_mode as fastest_mode
    from dynid.simulation.motion import follow as follow
    from dynid.simulation.motion import inverse as inverse
    from dynid.simulation.motion import is_stiff as is_stiff
    from dynid.simulation.motion import recorded as recorded
    from dynid.simulation.motion import rigid_torque as rigid_torque
    from dynid.simulation.motion import sample_times as sample_times
    from dynid.simulation.motion import simulate as simulate
    from dynid.simulation.open_loop import OpenLoop as OpenLoop
    from dynid.simulation.open_loop import first_stretch as first_stretch
    from dynid.simulation.plant import SMOOTHING as SMOOTHING
    from dynid.simulation.plant import Coupling as Coupling
    from dynid.simulation.plant import Dahl as Dahl
    from dynid.simulation.plant import Elasticity as Elasticity
    from dynid.simulation.plant import Friction as Friction
    from dynid.simulation.plant import FunctionLoad as FunctionLoad
    from dynid.simulation.plant import Load as Load
    from dynid.simulation.plant import LuGre as LuGre
    from dynid.simulation.plant import Plant as Plant
    from dynid.simulation.plant import SmoothFriction as SmoothFriction
    from dynid.simulation.plant import State as State
    from dynid.simulation.sensors import Chain as Chain
    from dynid.simulation.sensors import Dropout as Dropout
    from dynid.simulation.sensors import Encoder as Encoder
    from dynid.simulation.sensors import Gain as Gain
    from dynid.simulation.sensors import Latency as Latency
    from dynid.simulation.sensors import Noise as Noise
    from dynid.simulation.sensors import NoiseRatio as NoiseRatio
    from dynid.simulation.sensors import Ripple as Ripple
    from dynid.simulation.sensors import Sensor as Sensor
    from dynid.simulation.sensors import TorqueSensor as TorqueSensor
    from dynid.simulation.sensors import warming as warming
    from dynid.simulation.servo_loop import DrivenLoad as DrivenLoad
    from dynid.simulation.servo_loop import ServoLoop as ServoLoop
    from dynid.simulation.servo_loop import servo_run as servo_run

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "control": "ComputedTorque Controller GravityPD Tabulated TorqueTable pd_gains",
        "forward": "ForwardModel Hold stick_slip",
        "integrate": "Adaptive FixedStep Implicit Integrator check_budget check_times steps_between",
        "loop": (
            "Feedback Output Stretches extra_of measured_coordinates measured_motion refined run sensitivity"
        ),
        "mechanism": "Mechanism",
        "motion": (
            "SimulatedMotion fastest_mode follow inverse is_stiff recorded rigid_torque sample_times simulate"
        ),
        "open_loop": "OpenLoop first_stretch",
        "plant": (
            "Coupling Dahl Elasticity Friction FunctionLoad Load LuGre Plant SMOOTHING SmoothFriction State"
        ),
        "sensors": "Chain Dropout Encoder Gain Latency Noise NoiseRatio Ripple Sensor TorqueSensor warming",
        "servo_loop": "DrivenLoad ServoLoop servo_run",
    },
    moved={"dynid.lab": "OpenLoop Rig SensorFile Setup build_plant read_setup"},
)
