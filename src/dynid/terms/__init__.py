"""Terms: the physical effects whose parameters are estimated; they add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.terms.catalogue import (
        CATALOGUE,
        DEFAULT_TERMS,
        proposals,
        terms_from_spec,
        terms_to_spec,
        with_described,
    )
    from dynid.terms.channel import ChannelTorque, RotorCompensation
    from dynid.terms.curve import Coefficient, CurveTerm, FrictionChoice, Shape
    from dynid.terms.drift import Drift
    from dynid.terms.elastic import (
        Compliance,
        JointDamping,
        LinkCoulomb,
        LinkOffset,
        LinkViscous,
        SpringTerm,
        Stiffness,
    )
    from dynid.terms.exports import (
        Dry,
        Extent,
        FrictionForm,
        JointMotion,
        Kind,
        LeftOut,
        LogFacts,
        Mixed,
        MotionBasis,
        Of,
        OnJoint,
        Question,
        Reads,
        Role,
        Scale,
        Side,
        Symbol,
        Traits,
        ZeroShift,
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
    from dynid.terms.gain import DriveGain, GainError
    from dynid.terms.gravity_tilt import GravityTilt, Lean
    from dynid.terms.nominal import Nominal
    from dynid.terms.payload import HeldLoad, KnownPayload
    from dynid.terms.position_waves import PositionWaves
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
    from dynid.terms.torque_delay import TorqueDelay
    from dynid.terms.transmission import JointCoupling, MotorInertia, OnMotor, placed_at

__all__ = [
    "CATALOGUE",
    "DEFAULT_TERMS",
    "AsymmetricCoulomb",
    "ChannelTorque",
    "Coefficient",
    "Column",
    "Compliance",
    "Coulomb",
    "CurveTerm",
    "Drift",
    "DriveGain",
    "Dry",
    "Extent",
    "FrictionChoice",
    "FrictionForm",
    "FunctionTorque",
    "GainError",
    "GasSpring",
    "GravityTilt",
    "HeldLoad",
    "JointCoupling",
    "JointDamping",
    "JointMotion",
    "JointTerm",
    "Kind",
    "KnownPayload",
    "Lean",
    "LeftOut",
    "Lever",
    "LinkCoulomb",
    "LinkOffset",
    "LinkViscous",
    "LoadFriction",
    "LogFacts",
    "Mixed",
    "MotionBasis",
    "MotorInertia",
    "Nominal",
    "Of",
    "Offset",
    "OnJoint",
    "OnMotor",
    "Points",
    "PolynomialFriction",
    "PositionFriction",
    "PositionWaves",
    "Presliding",
    "Question",
    "Reads",
    "RigidBody",
    "Role",
    "RotorCompensation",
    "RotorInertia",
    "Scale",
    "Selection",
    "Shape",
    "Side",
    "Sigmoid",
    "SmoothCoulomb",
    "SpinningRotor",
    "Spring",
    "SpringTerm",
    "Stiffness",
    "Stribeck",
    "Symbol",
    "TemperatureViscous",
    "Term",
    "TermWords",
    "Terms",
    "TorqueDelay",
    "TorsionSpring",
    "Traits",
    "Triangle",
    "Viscous",
    "ZeroShift",
    "ZolloFriction",
    "described_springs",
    "empty_panels",
    "joint_indices",
    "mixed_torque",
    "placed_at",
    "proposals",
    "register_function",
    "smooth_sign",
    "spring_torque",
    "terms_from_spec",
    "terms_to_spec",
    "torque_slopes",
    "with_described",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "catalogue": "CATALOGUE DEFAULT_TERMS proposals terms_from_spec terms_to_spec with_described",
        "channel": "ChannelTorque RotorCompensation",
        "curve": "Coefficient CurveTerm FrictionChoice Shape",
        "drift": "Drift",
        "elastic": "Compliance JointDamping LinkCoulomb LinkOffset LinkViscous SpringTerm Stiffness",
        "exports": (
            "Dry Extent FrictionForm JointMotion Kind LeftOut LogFacts Mixed MotionBasis Of OnJoint "
            "Question Reads Role Scale Side Symbol Traits ZeroShift mixed_torque smooth_sign "
            "spring_torque"
        ),
        "friction": "Coulomb Offset Viscous",
        "friction_curves": ("AsymmetricCoulomb LoadFriction PolynomialFriction TemperatureViscous"),
        "friction_shapes": "PositionFriction Presliding Sigmoid SmoothCoulomb Stribeck ZolloFriction",
        "gain": "DriveGain GainError",
        "gravity_tilt": "GravityTilt Lean",
        "nominal": "Nominal",
        "payload": "HeldLoad KnownPayload",
        "position_waves": "PositionWaves",
        "residual_tests": "TermWords",
        "rigid_body": "RigidBody torque_slopes",
        "rotor": "RotorInertia SpinningRotor",
        "spring": (
            "FunctionTorque GasSpring Lever Points Spring TorsionSpring Triangle described_springs "
            "register_function"
        ),
        "term": "Column JointTerm Selection Term Terms empty_panels joint_indices",
        "torque_delay": "TorqueDelay",
        "transmission": "JointCoupling MotorInertia OnMotor placed_at",
    },
)
