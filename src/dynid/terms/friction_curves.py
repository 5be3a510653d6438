"""Friction beyond viscous and Coulomb: sides, powers, temperature, load, saturation."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples, poses_at_rest
from dynid.terms.channel import channel
from dynid.terms.curve import Coefficient, CurveTerm, Shape, ShapeValue, c_texts
from dynid.terms.exports import (
    Dry,
    Extent,
    FrictionForm,
    LeftOut,
    LogFacts,
    MotionBasis,
    OnJoint,
    Part,
    Symbol,
    c_number,
    c_sign,
    panels_of,
)
from dynid.terms.forms import exported_parts, load_slope, needs_bodies, with_bodies, within_extent
from dynid.terms.friction import check_width, direction, direction_sides
from dynid.terms.residual_tests import FRICTION_FORM, Feature, Remains, TermWords
from dynid.terms.term import Proposal, by_joint, joint_indices, proposal_by_joint

# Number of random poses over which the load is averaged for exports: the mean is within about 5 %.
POSES = 200


def _unequal_sides(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Dry or viscous friction that differs between the directions."""
    speed = remains.motion.dq[:, joint] / remains.top_speed(joint)
    title = "Friction that differs between the two directions"
    return tuple(
        remains.friction(joint, np.abs(column), lambda _: title, "Try coulomb_sides")
        for column in (remains.step(joint), speed)
    )


@dataclass(frozen=True)
class AsymmetricCoulomb(CurveTerm):
    """Coulomb friction per direction: tau_j = fcp_j max(s, 0) + fcn_j min(s, 0), s = sign or tanh(dq / width).

    Equal sides are Coulomb friction, and unequal sides act like an offset: leave `coulomb` and `offset` out.

    Attributes
    ----------
    width : float, rad/s (m/s)
        Width of the smoothed sign s; 0 = no smoothing.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    width: float = 0.02
    joints: tuple[str, ...] = ()
    name: str = "coulomb_sides"
    traits = replace(CurveTerm.traits, dry=Dry.STEP, either_side=True)
    form = FrictionForm("sides", ("coulomb", "offset"), both_ways=True)
    words = TermWords(
        symbols=(
            Symbol("fcp", "f", "c+", "Coulomb friction, forward"),
            Symbol("fcn", "f", "c−", "Coulomb friction, backward"),
        ),
        group=FRICTION_FORM,
        features=_unequal_sides,
    )
    coefficients = (Coefficient("fcp", "N m", "N", 0.0), Coefficient("fcn", "N m", "N", 0.0))

    def __post_init__(self) -> None:
        check_width(self.width)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Positive and negative part of the smoothed sign."""
        return np.stack(direction_sides(samples, self.width, joint))


@c_texts.register(AsymmetricCoulomb)
def _(term: AsymmetricCoulomb, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Positive and negative part of the smoothed sign."""
    s = c_sign(speed, term.width)
    return f"fmax({s}, 0.0)", f"fmin({s}, 0.0)"


def _bend(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Nonlinear friction at high speed."""
    x = remains.motion.dq[:, joint] / remains.top_speed(joint)
    title, advice = "Nonlinear friction at high speed", "Try polynomial or sigmoid"
    return (remains.friction(joint, x * np.abs(x), lambda _: title, advice),)


@dataclass(frozen=True)
class PolynomialFriction(CurveTerm):
    """Powers of velocity with its sign: tau_j = sum_k f_jk |dq_j|^(k-1) dq_j, for the given powers k.

    Beyond the maximum speed of the training log it continues in proportion to velocity, with limit_j^(k-1) dq_j in
    place of |dq_j|^(k-1) dq_j, since a cubic cannot be extrapolated.

    Attributes
    ----------
    powers : tuple of int
        Powers from 2 to 5; the parameter of power 3 is called fvvv.
    joints : tuple of str
        Joints on which it acts; () = all.
    limit : tuple of float, rad/s (m/s)
        Maximum speed of every joint of the robot; () = that of the log.

    """

    powers: tuple[int, ...] = (3,)
    joints: tuple[str, ...] = ()
    limit: tuple[float, ...] = ()
    name: str = "polynomial"
    traits = replace(CurveTerm.traits, either_side=True)
    form = FrictionForm("cubic")
    words = TermWords(
        symbols=(
            Symbol("fvv", "f", "vv", "friction with the square of velocity"),
            Symbol("fvvv", "f", "vvv", "friction with the cube of velocity"),
        ),
        group=FRICTION_FORM,
        features=_bend,
    )

    def __post_init__(self) -> None:
        if (
            not self.powers
            or any(k not in (2, 3, 4, 5) for k in self.powers)
            or len(set(self.powers)) < len(self.powers)
        ):
            raise UsageError(
                "powers", found=f"powers = {list(self.powers)}", expected="some of 2, 3, 4, 5, each once"
            )
        if not all(speed >= 0 for speed in self.limit):
            raise UsageError("speed-limit", found=f"limit = {list(self.limit)}", expected="speeds >= 0")

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """One coefficient per power."""
        return tuple(Coefficient("f" + "v" * k, f"N m s^{k}/rad^{k}", f"N s^{k}/m^{k}") for k in self.powers)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The powers with the sign of velocity, linear beyond the limit."""
        v = samples.dq[:, joint]
        size = np.minimum(np.abs(v), self._limit(robot, joint))
        return np.stack([size ** (k - 1) * v for k in self.powers])

    def _limit(self, robot: RobotModel, joint: int) -> float:
        if len(self.limit) not in (0, robot.n):
            raise UsageError(
                "speed-limit",
                found=f"{len(self.limit)} speeds in limit",
                expected=f"{robot.n}, one per joint",
            )
        return self.limit[joint] if self.limit else float("inf")


@c_texts.register(PolynomialFriction)
def _(term: PolynomialFriction, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Products of the velocity."""
    size = f"fabs({speed})"
    if term.limit:
        size = f"fmin({size}, {c_number(term.limit[joint])})"
    return tuple(" * ".join([size] * (k - 1) + [speed]) for k in term.powers)


@within_extent.register(PolynomialFriction)
def _(term: PolynomialFriction, robot: RobotModel, extent: Extent) -> PolynomialFriction:
    """The term with the maximum speeds of the log as its limit, unless a limit is given."""
    return term if term.limit else replace(term, limit=tuple(float(x) for x in extent.peak))


def _by_temperature(kind: type[TemperatureViscous], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """On the joints whose drives warmed up, about their mean temperature."""
    warm = [
        (joint, moved.warmth)
        for joint, moved in zip(robot.joint_names, log.motion, strict=False)  # no motion is known of no log
        if moved.warmth is not None
    ]
    if not warm:
        return ()
    mean = round(float(np.mean([degrees for _, degrees in warm])), 1)
    term = kind(reference=mean, joints=tuple(joint for joint, _ in warm))
    return (proposal_by_joint(robot, term, "temperature", "with temperature"),)


@dataclass(frozen=True)
class TemperatureViscous(CurveTerm):
    """Change of viscous friction with temperature: tau_j = fvt_j (T - reference) dq_j, in addition to `viscous`.

    Without temperatures in a log it is 0.

    Attributes
    ----------
    channel_names : tuple of str
        Extra log channels with temperatures in degC: one for all joints, or one for each joint on which it acts;
        () = the temperatures of the joints, `[log.temperature]`.
    reference : float, degC
        Temperature at which `viscous` is valid.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    channel_names: tuple[str, ...] = ()
    reference: float = 25.0
    joints: tuple[str, ...] = ()
    name: str = "temperature_viscous"
    selection = replace(CurveTerm.selection, proposed=_by_temperature)
    words = TermWords(symbols=(Symbol("fvt", "f", "vT", "change of viscous friction with temperature"),))
    coefficients = (Coefficient("fvt", "N m s/(rad K)", "N s/(m K)"),)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Velocity times the difference from the reference temperature."""
        acting = self.joints or robot.joint_names
        if len(self.channel_names) not in (0, 1, len(acting)):
            raise UsageError(
                "temperature-channel",
                found=f"{len(self.channel_names)} temperature channels",
                expected=f"none, one, or one for each of {len(acting)} joints",
            )
        ordered = [name for name in robot.joint_names if name in acting]
        place = ordered.index(robot.joint_names[joint]) if len(self.channel_names) > 1 else 0
        if self.channel_names:
            temperature = channel(samples, self.channel_names[place])
        elif samples.temperature is not None:
            temperature = samples.temperature[:, joint]
        else:
            temperature = np.full(len(samples), self.reference)
        return (samples.dq[:, joint] * (temperature - self.reference))[None, :]


@dataclass(frozen=True)
class LoadFriction(CurveTerm):
    """Friction in proportion to the load of the gear: tau_j = fl_j |tau_load_j| s(dq_j), in addition to `coulomb`.

    The load is the torque of rigid links with known parameters. So the term is linear, and does not contain the
    measured torque, whose noise would correlate with the residual. fl has no unit.

    Attributes
    ----------
    load : {"prior", "estimate"}
        Links: those of the robot file (or `inertia`), or those of a first fit without this term.
    inertia : tuple of float
        Ten numbers per link about its joint frame; () = according to `load`.
    width : float, rad/s (m/s)
        Width of the smoothed sign s; 0 = no smoothing.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    load: Literal["prior", "estimate"] = "prior"
    inertia: tuple[float, ...] = ()
    width: float = 0.02
    joints: tuple[str, ...] = ()
    name: str = "load_friction"
    traits = replace(CurveTerm.traits, dry=Dry.LOAD)
    selection = replace(
        CurveTerm.selection,
        proposed=by_joint(
            "load-dependent", make=lambda log: LoadFriction("estimate", log.inertia) if log.inertia else None
        ),
    )
    words = TermWords(symbols=(Symbol("fl", "f", "l", "friction with the load"),))
    coefficients = (Coefficient("fl", "1", "1", 0.0),)

    def __post_init__(self) -> None:
        check_width(self.width)
        if (
            self.load not in ("prior", "estimate")
            or len(self.inertia) % 10
            or not np.isfinite(self.inertia).all()
        ):
            raise UsageError(
                "load-friction",
                found=f"load = '{self.load}' with {len(self.inertia)} numbers in inertia",
                expected="load 'prior' or 'estimate', and ten finite numbers per link or none",
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Absolute load times the smoothed sign; raises UnfitDataError if the links are unknown."""
        load = self._load(robot, samples)[:, joint]
        return (np.abs(load) * direction(samples, self.width, joint))[None, :]

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """One line per wanted joint; the load of all joints is computed once."""
        load = np.abs(self._load(robot, samples)) if wanted.any() else samples.dq
        acting = [(i, j) for i, j in enumerate(joint_indices(robot, self.joints)) if wanted[i]]
        lines = {j: ([i], (load[:, j] * direction(samples, self.width, j))[None, :]) for i, j in acting}
        return panels_of(robot, samples, lines)

    def _load(self, robot: RobotModel, samples: Samples) -> Float:
        # Torque (T, n) of the links.
        inertia = np.array(self.inertia).reshape(-1, 10) if self.inertia else robot.inertia_prior
        if inertia.shape != (robot.n_bodies, 10) or not np.isfinite(inertia).all():
            raise UnfitDataError(
                "load-unknown",
                found="no inertial parameters for the load of load_friction",
                expected=f"ten numbers for each of {robot.n_bodies} links",
                do="set load = 'estimate', or give them in the robot file or as inertia = [...]",
            )
        q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
        return np.asarray(inverse_dynamics(robot.tree, inertia, q, dq, ddq) @ robot.projection)


@needs_bodies.register(LoadFriction)
def _(term: LoadFriction) -> bool:
    """Whether the load is that of links still to be estimated."""
    return term.load == "estimate" and not term.inertia


@with_bodies.register(LoadFriction)
def _(term: LoadFriction, inertia: tuple[float, ...]) -> LoadFriction:
    """The term with the load of these links."""
    return replace(term, inertia=inertia) if needs_bodies(term) else term


@load_slope.register(LoadFriction)
def _(term: LoadFriction, robot: RobotModel, samples: Samples, theta: Float) -> Float:
    """The slope fl s(dq) sign(tau_load)."""
    share = np.zeros(robot.n)
    share[list(joint_indices(robot, term.joints))] = theta
    return np.asarray(share * direction(samples, term.width) * np.sign(term._load(robot, samples)))


@exported_parts.register(LoadFriction)
def _(term: LoadFriction, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Coulomb friction under the mean gravity load over random poses; its change with the load is left out."""
    bounds = (np.maximum(robot.limits.lower, -np.pi), np.minimum(robot.limits.upper, np.pi))
    poses = np.random.default_rng(0).uniform(*bounds, (POSES, robot.n))
    rest = poses_at_rest(poses)
    mean = np.abs(term._load(robot, rest)).mean(axis=0)
    acting = joint_indices(robot, term.joints)
    on = (
        OnJoint(j, float(share * mean[j]), MotionBasis.SIGN, term.width)
        for j, share in zip(acting, theta, strict=True)
    )
    return (*on, LeftOut(f"the load of {term.name} except its mean over poses"))


# Viscous friction that saturates: shear thinning of grease, hydrodynamic lubrication.

# Share of the usual top speed: the velocity at which friction is halved in the feature that finds it in residuals.
BENDS = 0.3


def _flattening(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Viscous friction that is less steep at high speed."""
    x = remains.motion.dq[:, joint] / remains.top_speed(joint)
    title, advice = "Viscous friction that saturates at high speed", "Try saturating_viscous"
    return (remains.friction(joint, x / (1.0 + np.abs(x) / BENDS), lambda _: title, advice),)


@dataclass(frozen=True)
class SaturatingViscous(CurveTerm):
    """Viscous friction that saturates: tau_j = fvs_j dq_j / (1 + |dq_j| / velocity_j), in place of `viscous`.

    fvs is the slope at zero velocity, and fvs velocity the limit of friction at high speed.

    Attributes
    ----------
    velocity : float, tuple of float or None, rad/s (m/s)
        Velocity at which friction is half of fvs dq, for all joints or per joint; None = estimated.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    velocity: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "saturating_viscous"
    words = TermWords(
        symbols=(Symbol("fvs", "f", "v,s", "viscous friction at low speed, saturating"),),
        group=FRICTION_FORM,
        features=_flattening,
    )
    coefficients = (Coefficient("fvs", "N m s/rad", "N s/m", 0.0),)
    # From a hundredth of the peak velocity (nearly a step) to ten times the peak velocity (nearly a straight line).
    shapes = (Shape("velocity", "rad/s", "m/s", 0.5, bounds=lambda _, at: (1e-2 * at.peak, 10.0 * at.peak)),)
    form = FrictionForm("saturating", ("viscous",), (0.2, 0.4, 0.6, 0.8))

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Hyperbola."""
        v = samples.dq[:, joint]
        return np.asarray(v / (1.0 + np.abs(v) / shape[0]))[None, :]


@c_texts.register(SaturatingViscous)
def _(term: SaturatingViscous, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Hyperbola."""
    return (f"({speed} / (1.0 + fabs({speed}) / {c_number(shape[0])}))",)
