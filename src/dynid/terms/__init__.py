"""Terms: the physical effects whose parameters are estimated; they add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.terms.catalogue import DEFAULT_TERMS, terms_from_spec, terms_to_spec
    from dynid.terms.channel import ChannelTorque, RotorCompensation
    from dynid.terms.curve import Coefficient, CurveTerm, FrictionChoice, Shape
    from dynid.terms.elastic import Compliance, JointDamping, LinkCoulomb, LinkOffset, LinkViscous, Stiffness
    from dynid.terms.exports import (
        Dry,
        FrictionForm,
        JointMotion,
        Kind,
        Mixed,
        MotionBasis,
        Of,
        Question,
        Reads,
        Scale,
        Symbol,
        Traits,
        mixed_torque,
        smooth_sign,
        spring_torque,
    )
    from dynid.terms.friction import Coulomb, Offset, Viscous
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
    from dynid.terms.gravity_tilt import Lean
    from dynid.terms.payload import HeldLoad, KnownPayload
    from dynid.terms.residual_tests import TermWords
    from dynid.terms.rigid_body import RigidBody, torque_slopes
    from dynid.terms.rotor import RotorInertia, SpinningRotor
    from dynid.terms.spring import (
        FunctionTorque,
        GasSpring,
        Lever,
        Points,
        Spring,
        TorsionSpring,
        Triangle,
        described_springs,
        register_function,
    )
    from dynid.terms.term import Column, JointTerm, Selection, Term, Terms, empty_panels, joint_indices
    from dynid.terms.transmission import MotorInertia, OnMotor

__all__ = [
    "DEFAULT_TERMS",
    "AsymmetricCoulomb",
    "ChannelTorque",
    "Coefficient",
    "Column",
    "Compliance",
    "Coulomb",
    "CurveTerm",
    "DriveGain",
    "Dry",
    "FrictionChoice",
    "FrictionForm",
    "FunctionTorque",
    "GasSpring",
    "HeldLoad",
    "JointDamping",
    "JointMotion",
    "JointTerm",
    "Kind",
    "KnownPayload",
    "Lean",
    "Lever",
    "LinkCoulomb",
    "LinkOffset",
    "LinkViscous",
    "LoadFriction",
    "Mixed",
    "MotionBasis",
    "MotorInertia",
    "Of",
    "Offset",
    "OnMotor",
    "Points",
    "PolynomialFriction",
    "PositionFriction",
    "Presliding",
    "Question",
    "Reads",
    "RigidBody",
    "RotorCompensation",
    "RotorInertia",
    "Scale",
    "Selection",
    "Shape",
    "Sigmoid",
    "SmoothCoulomb",
    "SpinningRotor",
    "Spring",
    "Stiffness",
    "Stribeck",
    "Symbol",
    "TemperatureViscous",
    "Term",
    "TermWords",
    "Terms",
    "TorsionSpring",
    "Traits",
    "Triangle",
    "Viscous",
    "ZolloFriction",
    "described_springs",
    "empty_panels",
    "joint_indices",
    "mixed_torque",
    "register_function",
    "smooth_sign",
    "spring_torque",
    "terms_from_spec",
    "terms_to_spec",
    "torque_slopes",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "catalogue": "DEFAULT_TERMS terms_from_spec terms_to_spec",
        "channel": "ChannelTorque RotorCompensation",
        "curve": "Coefficient CurveTerm FrictionChoice Shape",
        "elastic": "Compliance JointDamping LinkCoulomb LinkOffset LinkViscous Stiffness",
        "exports": (
            "Dry FrictionForm JointMotion Kind Mixed MotionBasis Of Question Reads Scale Symbol Traits mixed_torque "
            "smooth_sign spring_torque"
        ),
        "friction": "Coulomb Offset Viscous",
        "friction_curves": "AsymmetricCoulomb LoadFriction PolynomialFriction TemperatureViscous",
        "friction_shapes": "PositionFriction Presliding Sigmoid SmoothCoulomb Stribeck ZolloFriction",
        "gain": "DriveGain",
        "gravity_tilt": "Lean",
        "payload": "HeldLoad KnownPayload",
        "residual_tests": "TermWords",
        "rigid_body": "RigidBody torque_slopes",
        "rotor": "RotorInertia SpinningRotor",
        "spring": (
            "FunctionTorque GasSpring Lever Points Spring TorsionSpring Triangle "
            "described_springs register_function"
        ),
        "term": "Column JointTerm Selection Term Terms empty_panels joint_indices",
        "transmission": "MotorInertia OnMotor",
    },
)
