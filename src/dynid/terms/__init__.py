"""Terms: the physical effects whose parameters are estimated; they add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.terms.catalogue import CATALOGUE as CATALOGUE
    from dynid.terms.catalogue import DEFAULT_TERMS as DEFAULT_TERMS
    from dynid.terms.catalogue import proposals as proposals
    from dynid.terms.catalogue import terms_from_spec as terms_from_spec
    from dynid.terms.catalogue import terms_to_spec as terms_to_spec
    from dynid.terms.catalogue import with_described as with_described
    from dynid.terms.channel import ChannelTorque as ChannelTorque
    from dynid.terms.channel import RotorCompensation as RotorCompensation
    from dynid.terms.curve import Coefficient as Coefficient
    from dynid.terms.curve import CurveTerm as CurveTerm
    from dynid.terms.curve import FrictionChoice as FrictionChoice
    from dynid.terms.curve import FrictionCurve as FrictionCurve
    from dynid.terms.curve import Shape as Shape
    from dynid.terms.curve import followed as followed
    from dynid.terms.curve import range_of as range_of
    from dynid.terms.curve import rival_of as rival_of
    from dynid.terms.curve import shape_table as shape_table
    from dynid.terms.curve import starts as starts
    from dynid.terms.curve import with_shape_table as with_shape_table
    from dynid.terms.drift import Drift as Drift
    from dynid.terms.elastic import Compliance as Compliance
    from dynid.terms.elastic import JointDamping as JointDamping
    from dynid.terms.elastic import LinkCoulomb as LinkCoulomb
    from dynid.terms.elastic import LinkOffset as LinkOffset
    from dynid.terms.elastic import LinkViscous as LinkViscous
    from dynid.terms.elastic import SpringTerm as SpringTerm
    from dynid.terms.elastic import Stiffness as Stiffness
    from dynid.terms.exports import Dry as Dry
    from dynid.terms.exports import Extent as Extent
    from dynid.terms.exports import FrictionForm as FrictionForm
    from dynid.terms.exports import JointMotion as JointMotion
    from dynid.terms.exports import Kind as Kind
    from dynid.terms.exports import LeftOut as LeftOut
    from dynid.terms.exports import LogFacts as LogFacts
    from dynid.terms.exports import Mixed as Mixed
    from dynid.terms.exports import MotionBasis as MotionBasis
    from dynid.terms.exports import Of as Of
    from dynid.terms.exports import OnJoint as OnJoint
    from dynid.terms.exports import Question as Question
    from dynid.terms.exports import Reads as Reads
    from dynid.terms.exports import Role as Role
    from dynid.terms.exports import Scale as Scale
    from dynid.terms.exports import Side as Side
    from dynid.terms.exports import Symbol as Symbol
    from dynid.terms.exports import Traits as Traits
    from dynid.terms.exports import ZeroShift as ZeroShift
    from dynid.terms.exports import mixed_torque as mixed_torque
    from dynid.terms.exports import smooth_sign as smooth_sign
    from dynid.terms.exports import spring_torque as spring_torque
    from dynid.terms.forms import alive_columns as alive_columns
    from dynid.terms.forms import channels_of as channels_of
    from dynid.terms.forms import exported_parts as exported_parts
    from dynid.terms.forms import has_open_choice as has_open_choice
    from dynid.terms.forms import known_torque as known_torque
    from dynid.terms.forms import load_slope as load_slope
    from dynid.terms.forms import motor_regressor as motor_regressor
    from dynid.terms.forms import torque_of as torque_of
    from dynid.terms.forms import without_memory as without_memory
    from dynid.terms.friction import HALF as HALF
    from dynid.terms.friction import WIDTH as WIDTH
    from dynid.terms.friction import Coulomb as Coulomb
    from dynid.terms.friction import Offset as Offset
    from dynid.terms.friction import Viscous as Viscous
    from dynid.terms.friction import direction as direction
    from dynid.terms.friction import dry_friction as dry_friction
    from dynid.terms.friction_curves import AsymmetricCoulomb as AsymmetricCoulomb
    from dynid.terms.friction_curves import LoadFriction as LoadFriction
    from dynid.terms.friction_curves import PolynomialFriction as PolynomialFriction
    from dynid.terms.friction_curves import TemperatureViscous as TemperatureViscous
    from dynid.terms.friction_shapes import PositionFriction as PositionFriction
    from dynid.terms.friction_shapes import Presliding as Presliding
    from dynid.terms.friction_shapes import Sigmoid as Sigmoid
    from dynid.terms.friction_shapes import SmoothCoulomb as SmoothCoulomb
    from dynid.terms.friction_shapes import Stribeck as Stribeck
    from dynid.terms.friction_shapes import ZolloFriction as ZolloFriction
    from dynid.terms.gain import DriveGain as DriveGain
    from dynid.terms.gain import GainError as GainError
    from dynid.terms.gravity_tilt import GravityTilt as GravityTilt
    from dynid.terms.gravity_tilt import Lean as Lean
    from dynid.terms.nominal import Nominal as Nominal
    from dynid.terms.payload import HeldLoad as HeldLoad
    from dynid.terms.payload import KnownPayload as KnownPayload
    from dynid.terms.position_waves import PositionWaves as PositionWaves
    from dynid.terms.residual_tests import ALARM as ALARM
    from dynid.terms.residual_tests import FRICTION_FORM as FRICTION_FORM
    from dynid.terms.residual_tests import BodyParameters as BodyParameters
    from dynid.terms.residual_tests import Declared as Declared
    from dynid.terms.residual_tests import Feature as Feature
    from dynid.terms.residual_tests import FeatureGroup as FeatureGroup
    from dynid.terms.residual_tests import FittedEffect as FittedEffect
    from dynid.terms.residual_tests import Hypothesis as Hypothesis
    from dynid.terms.residual_tests import TermWords as TermWords
    from dynid.terms.residual_tests import moves_throughout as moves_throughout
    from dynid.terms.rigid_body import RigidBody as RigidBody
    from dynid.terms.rigid_body import torque_slopes as torque_slopes
    from dynid.terms.rotor import RotorInertia as RotorInertia
    from dynid.terms.rotor import SpinningRotor as SpinningRotor
    from dynid.terms.spring import FunctionTorque as FunctionTorque
    from dynid.terms.spring import GasSpring as GasSpring
    from dynid.terms.spring import Lever as Lever
    from dynid.terms.spring import Points as Points
    from dynid.terms.spring import Spring as Spring
    from dynid.terms.spring import TorsionSpring as TorsionSpring
    from dynid.terms.spring import Triangle as Triangle
    from dynid.terms.spring import described_springs as described_springs
    from dynid.terms.spring import register_function as register_function
    from dynid.terms.term import Column as Column
    from dynid.terms.term import JointTerm as JointTerm
    from dynid.terms.term import Selection as Selection
    from dynid.terms.term import Term as Term
    from dynid.terms.term import Terms as Terms
    from dynid.terms.term import empty_panels as empty_panels
    from dynid.terms.term import joint_indices as joint_indices
    from dynid.terms.term import narrowed as narrowed
    from dynid.terms.term import sharpened as sharpened
    from dynid.terms.term import states as states
    from dynid.terms.torque_delay import LATE_TORQUE as LATE_TORQUE
    from dynid.terms.torque_delay import TorqueDelay as TorqueDelay
    from dynid.terms.torque_delay import find_long_lag as find_long_lag
    from dynid.terms.transmission import JointCoupling as JointCoupling
    from dynid.terms.transmission import MotorInertia as MotorInertia
    from dynid.terms.transmission import OnMotor as OnMotor
    from dynid.terms.transmission import placed_at as placed_at

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "catalogue": "CATALOGUE DEFAULT_TERMS proposals terms_from_spec terms_to_spec with_described",
        "channel": "ChannelTorque RotorCompensation",
        "curve": (
            "Coefficient CurveTerm FrictionChoice FrictionCurve Shape followed range_of rival_of "
            "shape_table starts with_shape_table"
        ),
        "drift": "Drift",
        "elastic": "Compliance JointDamping LinkCoulomb LinkOffset LinkViscous SpringTerm Stiffness",
        "exports": (
            "Dry Extent FrictionForm JointMotion Kind LeftOut LogFacts Mixed MotionBasis Of OnJoint "
            "Question Reads Role Scale Side Symbol Traits ZeroShift mixed_torque smooth_sign "
            "spring_torque"
        ),
        "forms": (
            "alive_columns channels_of exported_parts has_open_choice known_torque load_slope "
            "motor_regressor torque_of without_memory"
        ),
        "friction": "Coulomb HALF Offset Viscous WIDTH direction dry_friction",
        "friction_curves": ("AsymmetricCoulomb LoadFriction PolynomialFriction TemperatureViscous"),
        "friction_shapes": "PositionFriction Presliding Sigmoid SmoothCoulomb Stribeck ZolloFriction",
        "gain": "DriveGain GainError",
        "gravity_tilt": "GravityTilt Lean",
        "nominal": "Nominal",
        "payload": "HeldLoad KnownPayload",
        "position_waves": "PositionWaves",
        "residual_tests": (
            "ALARM BodyParameters Declared FRICTION_FORM Feature FeatureGroup FittedEffect Hypothesis "
            "TermWords moves_throughout"
        ),
        "rigid_body": "RigidBody torque_slopes",
        "rotor": "RotorInertia SpinningRotor",
        "spring": (
            "FunctionTorque GasSpring Lever Points Spring TorsionSpring Triangle described_springs "
            "register_function"
        ),
        "term": "Column JointTerm Selection Term Terms empty_panels joint_indices narrowed sharpened states",
        "torque_delay": "LATE_TORQUE TorqueDelay find_long_lag",
        "transmission": "JointCoupling MotorInertia OnMotor placed_at",
    },
)
