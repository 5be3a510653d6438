"""What other programs can hold of an identified model: bodies, rotors and joint friction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, fields, replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place, RefusedError, UsageError
from dynid.base.records import dataclass
from dynid.dynamics import Dynamics
from dynid.estimate.physical import BORDER, body_fault
from dynid.exporters.expression import motor_faults, motors_of
from dynid.factor.base import random_states, structural_base
from dynid.kernel import inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.result import Identification
from dynid.spatial.algebra import placement, rotation_about
from dynid.spatial.inertia import is_physical
from dynid.terms.curve import FrictionCurve
from dynid.terms.exports import (
    JointSpring,
    LeftOut,
    Memory,
    Mixed,
    MotionBasis,
    Of,
    OnJoint,
    ZeroShift,
    smooth_sign,
    spring_text,
)
from dynid.terms.forms import exported_parts
from dynid.terms.gravity_tilt import Lean
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Terms

# Names of strangers in generated files: identifiers from an allow-list, originals in escaped comments only.

_LONGEST = 40
_PLAIN = re.compile(r"[A-Za-z0-9 _.:,()+=-]")


def c_identifier(name: str) -> str:
    """A C identifier made of a name: letters and digits, lower case, everything else one underscore."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()[:_LONGEST].strip("_")
    if not text:
        return "robot"
    return text if text[0].isalpha() else f"robot_{text}"


def c_comment(name: str) -> str:
    """A name that can stand in a C comment: all but plain characters written as escapes."""
    shown = name[:120]
    text = "".join(c if _PLAIN.fullmatch(c) else f"\\u{ord(c):04x}" for c in shown)
    return text + ("..." if len(name) > len(shown) else "")


def xml_name(name: str) -> str:
    """A name without characters that XML cannot hold; quotes and brackets are left to the writer's escapes."""
    return "".join(c if c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF else "_" for c in name)


def unique(names: list[str]) -> list[str]:
    """The names with a number behind those that occur before."""
    seen: set[str] = set()
    result = []
    for name in names:
        fresh, number = name, 2
        while fresh in seen:
            fresh, number = f"{name}_{number}", number + 1
        seen.add(fresh)
        result.append(fresh)
    return result


# The straight lines closest to friction curves, for formats that hold no more.

# Speeds at which a curve is compared with straight lines, over the greatest one.
_SPEEDS = np.linspace(-1.0, 1.0, 201)
# An offset that is so small against the friction is rounding.
_DUST = 1e-9


def straight(speed: Float, torque: Float, width: float) -> tuple[float, float, float, float]:
    """Viscous and Coulomb friction >= 0 and an offset closest to torques (T,) at speeds (T,), and the r.m.s. left."""
    from scipy.optimize import nnls

    A = np.column_stack([speed, smooth_sign(speed, width), np.ones_like(speed), -np.ones_like(speed)])
    (viscous, coulomb, up, down), left = nnls(A, torque)
    offset = float(up - down)
    if abs(offset) < _DUST * float(np.abs(torque).max(initial=0.0)):
        offset = 0.0
    return float(viscous), float(coulomb), offset, float(left / np.sqrt(len(speed)))


def speeds_up_to(peak: float) -> Float:
    """Speeds on both sides of rest up to the greatest one."""
    return _SPEEDS * peak


# Share of the offsets below which what is left of them beside springs is rounding.
_MODEL_DUST = 1e-12
MEMORY = "the memory of presliding friction"
# Of the sign of straightened friction where the model has none, rad/s or m/s.
_WIDTH = 0.02
# The same of a joint that is never as fast, as a share of its greatest speed.
_SLOW_WIDTH = 0.1
# Halvings of the share that parts on fixed joints keep, and what of the greatest possible share they are given.
_HALVINGS, _SPARE = 40, 0.9


@dataclass(frozen=True, eq=False)
class ExportModel(Dynamics):
    """The dynamics of an identified robot, and what writing them down takes beside it.

    peak: (n,) greatest speeds of the log, rad/s or m/s.
    reach: (n, 2) least and greatest positions of the log, rad or m; nan = unknown.
    zeros: (n,) rad or m, by which the joints stand further than their logged positions; the robot's frames hold it.
    """

    peak: Float = field(default_factory=lambda: np.zeros(0))
    zeros: Float = field(default_factory=lambda: np.zeros(0))
    reach: Float = field(default_factory=lambda: np.zeros((0, 2)))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, usual in (("peak", 1.0), ("zeros", 0.0)):
            given = getattr(self, name) if len(getattr(self, name)) else np.full(self.robot.n, usual)
            object.__setattr__(self, name, locked(given, (self.robot.n,), name))
        reach = self.reach if len(self.reach) else np.full((self.robot.n, 2), np.nan)
        object.__setattr__(self, "reach", locked(reach, (self.robot.n, 2), "reach"))

    @staticmethod
    def of_run(run: Identification, parameters: Float | None = None) -> ExportModel:
        """The model of a run with its full parameters, or with others, (p,)."""
        theta = run.estimate.parameters if parameters is None else parameters
        return ExportModel.of_terms(run.robot, run.terms, theta).on(run)

    def on(self, run: Identification) -> ExportModel:
        """The model, knowing the motion of a run's log."""
        return replace(self, peak=peak_speeds(run), reach=reached_positions(run))

    @staticmethod
    def of_terms(robot: RobotModel, terms: Terms, theta: Float) -> ExportModel:
        """The model of terms with parameters theta (p,); raises UsageError without the term of rigid bodies."""
        columns = terms.columns(robot)
        if not any(column.of is Of.BODY for column in columns):
            raise UsageError(
                "no-rigid-body", found="a model without the term rigid_body", expected="inertial parameters"
            )
        values = {basis: np.zeros(robot.n) for basis in MotionBasis}
        width, most, distance = np.zeros(robot.n), np.zeros(robot.n), np.zeros(robot.n)
        curves: list[FrictionCurve] = []
        mixed: list[Mixed] = []
        springs: list[JointSpring] = []
        tilt: Lean | None = None
        missing: list[str] = []
        zeros = np.zeros(robot.n)
        for term, own in terms.with_values(robot, theta):
            pieces = exported_parts(term, robot, own)
            if pieces is None:
                missing.append(term.name)
            for piece in pieces or ():
                if isinstance(piece, OnJoint):
                    values[piece.basis][piece.joint] += piece.value
                    # Of several the greatest says over which speeds the sign changes.
                    if piece.basis is MotionBasis.SIGN and abs(piece.value) >= most[piece.joint]:
                        width[piece.joint], most[piece.joint] = piece.width, abs(piece.value)
                elif isinstance(piece, Memory):
                    distance[piece.joint] = piece.distance
                elif isinstance(piece, FrictionCurve):
                    curves.append(piece)
                elif isinstance(piece, Mixed):
                    mixed.append(piece)
                elif isinstance(piece, JointSpring):
                    springs.append(piece)
                elif isinstance(piece, Lean):
                    tilt = piece
                elif isinstance(piece, ZeroShift):
                    zeros = zeros + piece.positions
                elif isinstance(piece, LeftOut):
                    missing.append(piece.what)
        model = ExportModel(
            robot=turned_zeros(robot, zeros),
            inertia=np.array(
                [value for c, value in zip(columns, theta, strict=True) if c.of is Of.BODY]
            ).reshape(robot.n_bodies, 10),
            rotor=values[MotionBasis.ACCELERATION],
            viscous=values[MotionBasis.SPEED],
            coulomb=values[MotionBasis.SIGN],
            offset=values[MotionBasis.ONE],
            width=width,
            left_out=tuple(dict.fromkeys(missing)),
            curves=tuple(curves),
            distance=distance,
            mixed=tuple(mixed),
            tilt=tilt,
            zeros=zeros,
            springs=tuple(springs),
        )
        return model.with_settled_springs()

    def with_settled_springs(self) -> ExportModel:
        """The model with constant torque of joints that springs span in the springs' preload, as far as it goes.

        A log tells the sum of a spring's preload and its joint's offset alone, however the estimate divides it. Springs
        without stiffness are a constant torque, and offset where they span one joint.
        """
        offset = np.array(self.offset)
        kept = []
        for one in self.springs:
            if one.stiffness == 0.0 and len(one.joints) == 1:
                offset += one.preload * one.weights
            elif one.stiffness or one.preload:
                kept.append(one)
        stiff = [i for i, one in enumerate(kept) if one.stiffness]
        if stiff and offset.any():
            W = np.column_stack([kept[i].weights for i in stiff])
            taken = np.linalg.lstsq(W, offset, rcond=None)[0]
            for i, more in zip(stiff, taken, strict=True):
                kept[i] = replace(kept[i], preload=kept[i].preload + float(more))
            rest = offset - W @ taken
            dust = W.any(axis=1) & (np.abs(rest) <= _MODEL_DUST * np.abs(offset).max())
            offset = np.where(dust, 0.0, rest)
        return replace(self, offset=offset, springs=tuple(kept))

    def springs_of_joints(self) -> tuple[Float, Float]:
        """Stiffness and position without torque, (n,) each, of springs that span one joint; 0 where there is none."""
        k, c = np.zeros(self.robot.n), np.zeros(self.robot.n)
        for one in self.springs:
            if len(one.joints) == 1:
                k += one.stiffness * one.weights**2
                c += one.preload * one.weights
        return k, np.divide(-c, k, out=np.zeros_like(c), where=k != 0)

    @property
    def dynamics(self) -> Dynamics:
        """The dynamics alone."""
        return Dynamics(**{one.name: getattr(self, one.name) for one in fields(Dynamics)})

    @property
    def described(self) -> RobotModel:
        """The robot as its description says, without the zeros."""
        return turned_zeros(self.robot, -self.zeros)

    def straightened(self, diagnostics: Diagnostics) -> ExportModel:
        """The model with viscous and Coulomb friction and an offset in place of its curves, as close as they come.

        Joint by joint over the speeds of the log; how much torque that costs is a warning.
        """
        bent = sorted({curve.joint for curve in self.curves})
        if not bent:
            return self
        viscous, coulomb, offset, width = (
            np.array(part) for part in (self.viscous, self.coulomb, self.offset, self.width)
        )
        named = []
        for j in bent:
            peak = float(self.peak[j])
            width[j] = width[j] or (_WIDTH if peak >= _WIDTH else _SLOW_WIDTH * peak)
            dq = np.zeros((len(speed := speeds_up_to(float(self.peak[j]))), self.robot.n))
            dq[:, j] = speed
            viscous[j], coulomb[j], offset[j], left = straight(speed, self._own_friction(dq)[:, j], width[j])
            named.append(f"'{self.robot.joint_names[j]}' {left:.2g}")
        diagnostics.warn(
            "export-straightened",
            "friction curves are exported as the closest viscous and Coulomb friction, off by (r.m.s., N m or N): "
            + ", ".join(named),
        )
        plain = replace(self, viscous=viscous, coulomb=coulomb, offset=offset, width=width, curves=())
        return plain.with_settled_springs()

    def unphysical(self) -> tuple[str, ...]:
        """What no real robot has, one sentence each: eigenvalues of bodies, negative friction and rotors."""
        found = [
            body_fault(name, pi)
            for name, pi in zip(self.robot.body_names, self.inertia, strict=True)
            if not is_physical(pi, BORDER)
        ]
        for what in ("rotor", "viscous", "coulomb"):
            label = "rotor inertia" if what == "rotor" else f"{what} friction"
            found += [
                f"joint '{self.robot.joint_names[j]}': {label} {value:.4g}"
                for j, value in enumerate(getattr(self, what))
                if value < 0
            ]
        found += [f"spring of {spring_text(self.robot, one)}" for one in self.springs if one.stiffness < 0]
        return (*found, *motor_faults(motors_of(self.mixed)[0]))


def kept_share(whole: Float, fixed: Float) -> float:
    """By how much the inertia (10,) of what is fixed to a body has to be scaled down to leave a possible rest; 1 = not.

    A part of a possible body is one that leaves a possible rest when it is small enough.
    """
    if not fixed.any() or is_physical(whole - fixed, BORDER) or not is_physical(whole, BORDER):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        low, high = (share, high) if is_physical(whole - share * fixed) else (low, share)
    return _SPARE * low


def shared_text(name: str, share: float, fixed: Float, whole: Float) -> str:
    """What a file says of parts whose inertias were scaled down."""
    said = (
        f"what is fixed to '{name}' weighs {fixed[0]:.3g} kg in the description, of {whole[0]:.3g} kg identified in "
        f"all, and leaves no possible rest: it is written with {100 * share:.2g} % of its inertia"
    )
    if fixed[0] >= whole[0]:
        return f"{said}. Likely the robot did not carry it while the log was recorded, or not all of it"
    # Centre and shape of a last body are seldom seen in full, so that this says nothing of the parts.
    return f"{said}, and '{name}' with the rest: both together are as identified"


def mimicked(robot: RobotModel, i: int, kind: str) -> tuple[int, float]:
    """Find the joint that a joint of the tree follows, for formats where it can follow one alone.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    i : int
        Joint of the tree that follows others.
    kind : str
        Name of the format, for the message.

    Returns
    -------
    tuple of int and float
        Independent joint, and by how much its motion is multiplied.

    Raises
    ------
    RefusedError
        If the joint follows several.

    """
    followed = np.flatnonzero(robot.projection[i]).tolist()
    if len(followed) > 1:
        names = ", ".join(f"'{robot.joint_names[j]}'" for j in followed)
        raise RefusedError(
            "export-follows",
            found=f"a joint that follows {names} together",
            expected=f"one joint: <mimic> in {kind} has no place for more",
            do="export MJCF, C or JSON, which have",
            place=Place(joint=robot.tree_joint_names[i]),
        )
    # What follows none stands still: any joint times 0.
    j = followed[0] if followed else 0
    return j, float(robot.projection[i, j])


def turned_zeros(robot: RobotModel, zeros: Float) -> RobotModel:
    """The robot whose joints (n,) stand further by so much, rad or m, at the same positions."""
    if not zeros.any():
        return robot
    frames = np.array(robot.T_parent_joint)
    for i, by in enumerate(robot.projection @ zeros):
        slides = robot.tree.prismatic[i]
        along = np.zeros(3) if not slides else by * robot.axis[i]
        turn = np.eye(3) if slides else rotation_about(robot.axis[i], by)
        frames[i] = frames[i] @ placement(turn, along)
    return replace(robot, T_parent_joint=frames)


def peak_speeds(run: Identification) -> Float:
    """Greatest speed of every joint in a run's log, (n,), rad/s or m/s; 1 where it is not known."""
    residuals = run.training.residuals
    if residuals is not None and len(residuals.t):
        peak = np.abs(residuals.dq).max(axis=0)
        return np.where(peak > 0, peak, 1.0)
    joints: Any = run.log_summary.get("joints", ())
    peaks = {joint["name"]: joint.get("peak_velocity") or 1.0 for joint in joints}
    return np.array([float(peaks.get(name, 1.0)) for name in run.robot.joint_names])


def reached_positions(run: Identification) -> Float:
    """Least and greatest position of every joint in a run's log, (n, 2), rad or m; nan where they are not known."""
    residuals = run.training.residuals
    if residuals is not None and len(residuals.t):
        return np.column_stack([residuals.q.min(axis=0), residuals.q.max(axis=0)])
    joints: Any = run.log_summary.get("joints", ())
    known = {joint["name"]: (joint["lower"], joint["upper"]) for joint in joints}
    return np.array([known.get(name, (np.nan, np.nan)) for name in run.robot.joint_names], dtype=np.float64)


def without(model: ExportModel, rotor: bool) -> list[str]:
    """What a robot description cannot hold of a model; rotor: whether inertias of rotors and motors are among it."""
    found = ["rotor inertia"] if rotor and model.rotor.any() else []
    return [*found, *beyond_joints(model, not rotor), *(["offset"] if model.offset.any() else [])]


def beyond_joints(model: ExportModel, motors: bool = False) -> list[str]:
    """What no joint by itself and no straight line can hold: memory, coupled drives, a tilted base.

    motors: whether inertia and friction of motors that move several joints are held.
    """
    found = [MEMORY] if model.distance.any() else []
    found += dict.fromkeys(part.term for part in (motors_of(model.mixed)[1] if motors else model.mixed))
    return found if model.tilt is None else [*found, model.tilt.term.name]


def held_springs(model: ExportModel, several: bool) -> list[JointSpring]:
    """Springs that a robot description with springs can hold.

    several: whether springs over several joints are among them. Those without stiffness are a constant torque, for
    which no description has a place.
    """
    return [one for one in model.springs if one.stiffness and (several or len(one.joints) == 1)]


def note_left_out(
    model: ExportModel,
    kind: str,
    further: Sequence[str],
    diagnostics: Diagnostics,
    held: Sequence[JointSpring] = (),
) -> None:
    """Warns of what a file format cannot hold.    held: the springs that it can."""
    _note_springs(model, kind, held, diagnostics)
    missing = [*model.left_out, *further]
    if missing:
        diagnostics.warn(
            "export-left-out", f"{kind} cannot hold {', '.join(missing)}: the exported model is without it"
        )


def _note_springs(
    model: ExportModel, kind: str, held: Sequence[JointSpring], diagnostics: Diagnostics
) -> None:
    kept = {id(one) for one in held}
    lost = [one for one in model.springs if id(one) not in kept]
    if not lost:
        return
    named = "; ".join(spring_text(model.robot, one) + _size(model, one) for one in lost)
    single = all(one.stiffness and len(one.joints) == 1 for one in lost)
    others = "MJCF, SDF and C" if single else "MJCF and C" if all(one.stiffness for one in lost) else "C"
    diagnostics.warn(
        "export-left-out",
        f"{kind} cannot hold {'this spring' if len(lost) == 1 else 'these springs'}: {named}. The exported model is "
        f"without; {others} can hold {'it' if len(lost) == 1 else 'them'}",
    )


def _size(model: ExportModel, one: JointSpring) -> str:
    """How large the torque of a spring is on the log's motion, in words; "" = not known."""
    ends = model.reach * one.weights[:, None]
    ends = ends[list(one.joints)]
    if not np.isfinite(ends).all():
        return ""
    a = np.array([ends.min(axis=1).sum(), ends.max(axis=1).sum()])
    force = float(np.abs(one.stiffness * a + one.preload).max() * np.abs(one.weights).max())
    unit = "N" if all(model.robot.prismatic[j] for j in one.joints) else "N m"
    return f", up to {force:.3g} {unit} on the log's motion"


# Fewest numbers with the same torque: base parameters in place of all ten of every body.

# Relative error of the torque above which the full parameters are kept.
_EXACT = 1e-12


def reduced(model: ExportModel) -> tuple[Float, Float]:
    """Inertia (nb, 10) and rotors (n,) with the same torque for every motion, most of them zero.

    They belong to no physically consistent bodies; where regrouping would cost digits the model's own come back.
    """
    robot = model.robot
    base = structural_base(robot, RigidBody() + RotorInertia(), TorqueRows())
    theta = np.concatenate([model.inertia.ravel(), model.rotor])
    few = np.zeros(len(theta))
    few[base.independent] = base.reduce(theta)
    split = 10 * robot.n_bodies
    samples = random_states(robot, 64, 1)
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    wanted, found = (
        inverse_dynamics(robot.tree, one[:split], *motion) @ robot.projection + one[split:] * samples.ddq
        for one in (theta, few)
    )
    if np.abs(found - wanted).max() > _EXACT * np.abs(wanted).max():
        return model.inertia, model.rotor
    return few[:split].reshape(-1, 10), few[split:]
