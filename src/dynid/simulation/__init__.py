"""A small laboratory: robots that are known exactly, their motion, and the sensors that watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.simulation.control import GravityPD, Tabulated, pd_gains
    from dynid.simulation.drivetrain import Coupling, Elasticity
    from dynid.simulation.effects import Friction, SmoothFriction
    from dynid.simulation.forward import ForwardModel
    from dynid.simulation.friction import Dahl, LuGre
    from dynid.simulation.integrate import FixedStep
    from dynid.simulation.motion import SimulatedMotion, follow, sample_times, simulate
    from dynid.simulation.open_loop import OpenLoop
    from dynid.simulation.plant import Plant, State
    from dynid.simulation.rig import Rig, SensorFile
    from dynid.simulation.setup import Setup, build_plant, read_setup
    from dynid.simulation.stick import stick_slip

__all__ = [
    "Coupling",
    "Dahl",
    "Elasticity",
    "FixedStep",
    "ForwardModel",
    "Friction",
    "GravityPD",
    "LuGre",
    "OpenLoop",
    "Plant",
    "Rig",
    "SensorFile",
    "Setup",
    "SimulatedMotion",
    "SmoothFriction",
    "State",
    "Tabulated",
    "build_plant",
    "follow",
    "pd_gains",
    "read_setup",
    "sample_times",
    "simulate",
    "stick_slip",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "stick": "stick_slip",
        "open_loop": "OpenLoop",
        "integrate": "FixedStep",
        "forward": "ForwardModel",
        "control": "GravityPD Tabulated pd_gains",
        "drivetrain": "Coupling Elasticity",
        "effects": "Friction SmoothFriction",
        "friction": "Dahl LuGre",
        "motion": "SimulatedMotion follow sample_times simulate",
        "plant": "Plant State",
        "rig": "Rig SensorFile",
        "setup": "Setup build_plant read_setup",
    },
)
