"""A small laboratory: robots that are known exactly, their motion, and the sensors that watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.simulation.drivetrain import Coupling, Elasticity
    from dynid.simulation.effects import Friction, SmoothFriction
    from dynid.simulation.friction import Dahl, LuGre
    from dynid.simulation.motion import SimulatedMotion, follow, simulate
    from dynid.simulation.plant import Plant, State
    from dynid.simulation.rig import Rig, SensorFile
    from dynid.simulation.setup import Setup, build_plant, read_setup

__all__ = [
    "Coupling",
    "Dahl",
    "Elasticity",
    "Friction",
    "LuGre",
    "Plant",
    "Rig",
    "SensorFile",
    "Setup",
    "SimulatedMotion",
    "SmoothFriction",
    "State",
    "build_plant",
    "follow",
    "read_setup",
    "simulate",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "drivetrain": "Coupling Elasticity",
        "effects": "Friction SmoothFriction",
        "friction": "Dahl LuGre",
        "motion": "SimulatedMotion follow simulate",
        "plant": "Plant State",
        "rig": "Rig SensorFile",
        "setup": "Setup build_plant read_setup",
    },
)
