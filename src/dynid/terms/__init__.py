"""Terms: the physical effects whose parameters are estimated; they add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.terms.channel import ChannelTorque
    from dynid.terms.choice import FrictionForm, JointMotion
    from dynid.terms.compensation import RotorCompensation
    from dynid.terms.curve import Coefficient, CurveTerm, Shape
    from dynid.terms.elastic import JointDamping, LinkCoulomb, LinkOffset, LinkViscous, Stiffness
    from dynid.terms.friction import Coulomb, Offset, Viscous
    from dynid.terms.friction_choice import FrictionChoice
    from dynid.terms.friction_curves import (
        AsymmetricCoulomb,
        LoadFriction,
        PolynomialFriction,
        TemperatureViscous,
    )
    from dynid.terms.friction_shapes import (
        PositionFriction,
        Presliding,
        Sigmoid,
        SmoothCoulomb,
        Stribeck,
        ZolloFriction,
    )
    from dynid.terms.gain import DriveGain
    from dynid.terms.held_load import HeldLoad
    from dynid.terms.joint_term import JointTerm
    from dynid.terms.payload import KnownPayload
    from dynid.terms.rigid_body import RigidBody
    from dynid.terms.rotor import RotorInertia
    from dynid.terms.spinning_rotor import SpinningRotor
    from dynid.terms.spring import Spring, TorsionSpring
    from dynid.terms.spring_gas import FunctionTorque, GasSpring, register_function
    from dynid.terms.spring_lever import Lever, Points, Triangle
    from dynid.terms.term import Column, Term, Terms
    from dynid.terms.transmission import MotorInertia, OnMotor

__all__ = [
    "AsymmetricCoulomb",
    "ChannelTorque",
    "Coefficient",
    "Column",
    "Coulomb",
    "CurveTerm",
    "DriveGain",
    "FrictionChoice",
    "FrictionForm",
    "FunctionTorque",
    "GasSpring",
    "HeldLoad",
    "JointDamping",
    "JointMotion",
    "JointTerm",
    "KnownPayload",
    "Lever",
    "LinkCoulomb",
    "LinkOffset",
    "LinkViscous",
    "LoadFriction",
    "MotorInertia",
    "Offset",
    "OnMotor",
    "Points",
    "PolynomialFriction",
    "PositionFriction",
    "Presliding",
    "RigidBody",
    "RotorCompensation",
    "RotorInertia",
    "Shape",
    "Sigmoid",
    "SmoothCoulomb",
    "SpinningRotor",
    "Spring",
    "Stiffness",
    "Stribeck",
    "TemperatureViscous",
    "Term",
    "Terms",
    "TorsionSpring",
    "Triangle",
    "Viscous",
    "ZolloFriction",
    "register_function",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "channel": "ChannelTorque",
        "choice": "FrictionForm JointMotion",
        "compensation": "RotorCompensation",
        "curve": "Coefficient CurveTerm Shape",
        "elastic": "JointDamping LinkCoulomb LinkOffset LinkViscous Stiffness",
        "friction": "Coulomb Offset Viscous",
        "friction_choice": "FrictionChoice",
        "friction_curves": "AsymmetricCoulomb LoadFriction PolynomialFriction TemperatureViscous",
        "friction_shapes": "PositionFriction Presliding Sigmoid SmoothCoulomb Stribeck ZolloFriction",
        "gain": "DriveGain",
        "joint_term": "JointTerm",
        "held_load": "HeldLoad",
        "payload": "KnownPayload",
        "rigid_body": "RigidBody",
        "rotor": "RotorInertia",
        "spinning_rotor": "SpinningRotor",
        "spring": "Spring TorsionSpring",
        "spring_gas": "FunctionTorque GasSpring register_function",
        "spring_lever": "Lever Points Triangle",
        "term": "Column Term Terms",
        "transmission": "MotorInertia OnMotor",
    },
)
