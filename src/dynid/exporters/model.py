"""The part of an identified model that other programs can represent: links, rotors and joint friction."""

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

# Names from robot files in generated files: identifiers from an allow-list, originals only in escaped comments.

# Characters of an identifier, so that names made from it stay readable.
_LONGEST = 40
_PLAIN = re.compile(r"[A-Za-z0-9 _.:,()+=-]")


def c_identifier(name: str) -> str:
    """C identifier made from a name: lower-case letters and digits, one underscore for everything else."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()[:_LONGEST].strip("_")
    if not text:
        return "robot"
    return text if text[0].isalpha() else f"robot_{text}"


def c_comment(name: str) -> str:
    """A name that is safe in a C comment: all but plain characters are escaped."""
    shown = name[:120]
    text = "".join(c if _PLAIN.fullmatch(c) else f"\\u{ord(c):04x}" for c in shown)
    return text + ("..." if len(name) > len(shown) else "")


def xml_name(name: str) -> str:
    """Replace characters that XML cannot contain; quotes and brackets are escaped by the writers.

    Parameters
    ----------
    name : str
        Name from a robot file.

    Returns
    -------
    str
        The name with "_" for such characters.

    """
    return "".join(c if c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF else "_" for c in name)


def unique(names: list[str]) -> list[str]:
    """Number repeated names.

    Parameters
    ----------
    names : list of str
        Names, possibly repeated.

    Returns
    -------
    list of str
        The names, with _2, _3, ... appended to repetitions.

    """
    seen: set[str] = set()
    result = []
    for name in names:
        fresh, number = name, 2
        while fresh in seen:
            fresh, number = f"{name}_{number}", number + 1
        seen.add(fresh)
        result.append(fresh)
    return result


# Viscous and Coulomb friction closest to friction curves, for formats without curves.

# Speeds of the comparison, relative to the highest one.
_SPEEDS = np.linspace(-1.0, 1.0, 201)
# Offset relative to friction below which it is rounding.
_DUST = 1e-9


def straight(speed: Float, torque: Float, width: float) -> tuple[float, float, float, float]:
    """Viscous friction, Coulomb friction and offset closest to a friction curve.

    `speed` (n_samples,) in rad/s or m/s; `torque` (n_samples,) in N m or N: friction at these speeds; `width` in rad/s
    or m/s: width over which the sign of Coulomb friction is smoothed. Result: viscous friction >= 0, Coulomb friction
    >= 0, offset, and r.m.s. error.
    """
    from scipy.optimize import nnls

    A = np.column_stack([speed, smooth_sign(speed, width), np.ones_like(speed), -np.ones_like(speed)])
    (viscous, coulomb, up, down), left = nnls(A, torque)
    offset = float(up - down)
    if abs(offset) < _DUST * float(np.abs(torque).max(initial=0.0)):
        offset = 0.0
    return float(viscous), float(coulomb), offset, float(left / np.sqrt(len(speed)))


def speeds_up_to(peak: float) -> Float:
    """Speeds on both sides of rest, up to the highest one."""
    return _SPEEDS * peak


# Rest of the offsets, relative to them, below which it is rounding.
_MODEL_DUST = 1e-12
MEMORY = "the memory of presliding friction"
# rad/s or m/s: width of the sign of straightened friction if the model has none.
_WIDTH = 0.02
# The same for joints slower than that, relative to their highest speed.
_SLOW_WIDTH = 0.1
# Bisection steps for the share of inertia that fixed parts keep, and safety factor on it: at the limit itself the
# remainder would be singular.
_HALVINGS, _SPARE = 40, 0.9


@dataclass(frozen=True, eq=False)
class ExportModel(Dynamics):
    """The dynamics of an identified robot, with the data that exporters need in addition.

    Parameters
    ----------
    peak : ndarray, shape (n_joints,), rad/s or m/s
        Highest speeds in the log; 1 if unknown.
    zeros : ndarray, shape (n_joints,), rad or m
        Zero offsets: joint positions are these plus the logged positions. The robot's frames contain them.
    reach : ndarray, shape (n_joints, 2), rad or m
        Lowest and highest positions in the log; nan if unknown.

    Notes
    -----
    Further parameters are those of `Dynamics`.

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
        """The model of a run, with its full parameters or with others, shape (n_parameters,)."""
        theta = run.estimate.parameters if parameters is None else parameters
        return ExportModel.of_terms(run.robot, run.terms, theta).on(run)

    def on(self, run: Identification) -> ExportModel:
        """The model with speeds and positions of a run's log."""
        return replace(self, peak=peak_speeds(run), reach=reached_positions(run))

    @staticmethod
    def of_terms(robot: RobotModel, terms: Terms, theta: Float) -> ExportModel:
        """The model of terms with parameters theta.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        terms : Terms
            Terms, with that of rigid bodies among them.
        theta : ndarray, shape (n_parameters,)
            Parameters.

        Returns
        -------
        ExportModel
            The model.

        Raises
        ------
        UsageError
            Without the term of rigid bodies.

        """
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
        for term, coefficients in terms.with_values(robot, theta):
            pieces = exported_parts(term, robot, coefficients)
            if pieces is None:
                missing.append(term.name)
            for piece in pieces or ():
                if isinstance(piece, OnJoint):
                    values[piece.basis][piece.joint] += piece.value
                    # Of several Coulomb terms the largest determines the width of the sign.
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
            robot=with_zero_offsets(robot, zeros),
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
        """The model with constant torque moved into the preload of springs on the same joints, as far as possible.

        A log determines only the sum of a spring's preload and the joint's offset. Springs without stiffness are a
        constant torque: an offset if they span one joint.
        """
        offset = np.array(self.offset)
        kept = []
        for spring in self.springs:
            if spring.stiffness == 0.0 and len(spring.joints) == 1:
                offset += spring.preload * spring.weights
            elif spring.stiffness or spring.preload:
                kept.append(spring)
        stiff = [i for i, spring in enumerate(kept) if spring.stiffness]
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
        """Stiffness and rest position, shape (n_joints,) each, of springs that span one joint; 0 for joints without."""
        k, c = np.zeros(self.robot.n), np.zeros(self.robot.n)
        for spring in self.springs:
            if len(spring.joints) == 1:
                k += spring.stiffness * spring.weights**2
                c += spring.preload * spring.weights
        return k, np.divide(-c, k, out=np.zeros_like(c), where=k != 0)

    @property
    def dynamics(self) -> Dynamics:
        """Only the dynamics."""
        return Dynamics(**{item.name: getattr(self, item.name) for item in fields(Dynamics)})

    @property
    def described(self) -> RobotModel:
        """The robot as in its file, without zero offsets."""
        return with_zero_offsets(self.robot, -self.zeros)

    def straightened(self, diagnostics: Diagnostics) -> ExportModel:
        """The model with friction curves replaced by the closest viscous and Coulomb friction and offset.

        The fit covers the speeds of the log, joint by joint. A warning gives the r.m.s. torque error.
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
            "friction curves are exported as the closest viscous and Coulomb friction; r.m.s. error, N m or N: "
            + ", ".join(named),
        )
        plain = replace(self, viscous=viscous, coulomb=coulomb, offset=offset, width=width, curves=())
        return plain.with_settled_springs()

    def unphysical(self) -> tuple[str, ...]:
        """Sentences on what no real robot has: negative eigenvalues of links, negative friction or rotor inertia."""
        faults = [
            body_fault(name, pi)
            for name, pi in zip(self.robot.body_names, self.inertia, strict=True)
            if not is_physical(pi, BORDER)
        ]
        for quantity in ("rotor", "viscous", "coulomb"):
            label = "rotor inertia" if quantity == "rotor" else f"{quantity} friction"
            faults += [
                f"joint '{self.robot.joint_names[j]}': {label} {value:.4g}"
                for j, value in enumerate(getattr(self, quantity))
                if value < 0
            ]
        faults += [
            f"spring of {spring_text(self.robot, spring)}" for spring in self.springs if spring.stiffness < 0
        ]
        return (*faults, *motor_faults(motors_of(self.mixed)[0]))


def kept_share(whole: Float, fixed: Float) -> float:
    """Share of the inertia (10,) of fixed parts that leaves a physically consistent remainder; 1 if all of it does.

    A small enough share of a consistent part always leaves one.
    """
    if not fixed.any() or is_physical(whole - fixed, BORDER) or not is_physical(whole, BORDER):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        low, high = (share, high) if is_physical(whole - share * fixed) else (low, share)
    return _SPARE * low


def scaled_inertia_text(name: str, share: float, fixed: Float, whole: Float) -> str:
    """Sentence about fixed parts whose inertias were scaled down.

    `name`: link that carries the parts; `share`: share of their inertia that is kept; `fixed`, `whole` (10,): inertial
    parameters of the parts, and of the link with all parts.
    """
    text = (
        f"links fixed to '{name}' ({fixed[0]:.3g} kg in the file) do not fit into the identified total "
        f"({whole[0]:.3g} kg): they are written with {100 * share:.2g} % of their inertia"
    )
    if fixed[0] >= whole[0]:
        return f"{text}. Probably the robot did not carry all of them in the log"
    # A log seldom determines centre and shape of a last link, so this is no evidence against the parts.
    return f"{text}, '{name}' with the rest. Their sum is as identified"


def followed_joint(robot: RobotModel, i: int, kind: str) -> tuple[int, float]:
    """Find the joint that a joint of the tree follows, for formats in which it can follow only one.

    `i`: joint of the tree that follows others; `kind`: name of the format, for the message. Result: independent joint,
    and factor on its motion. Raises RefusedError if the joint follows several.
    """
    followed = np.flatnonzero(robot.projection[i]).tolist()
    if len(followed) > 1:
        names = ", ".join(f"'{robot.joint_names[j]}'" for j in followed)
        raise RefusedError(
            "export-follows",
            found=f"a joint that follows several joints ({names})",
            expected=f"one joint, since <mimic> in {kind} names only one",
            do="export MJCF, C or JSON instead",
            place=Place(joint=robot.tree_joint_names[i]),
        )
    # A joint that follows none is fixed: any joint times 0.
    j = followed[0] if followed else 0
    return j, float(robot.projection[i, j])


def with_zero_offsets(robot: RobotModel, zeros: Float) -> RobotModel:
    """The robot with joint zeros shifted by offsets (n,), rad or m: the same positions then mean other poses."""
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
    """Highest speed of each joint in the log of a run.

    Parameters
    ----------
    run : Identification
        The run.

    Returns
    -------
    ndarray, shape (n_joints,), rad/s or m/s
        Speeds; 1 if unknown.

    """
    residuals = run.training.residuals
    if residuals is not None and len(residuals.t):
        peak = np.abs(residuals.dq).max(axis=0)
        return np.where(peak > 0, peak, 1.0)
    joints: Any = run.log_summary.get("joints", ())
    peaks = {joint["name"]: joint.get("peak_velocity") or 1.0 for joint in joints}
    return np.array([float(peaks.get(name, 1.0)) for name in run.robot.joint_names])


def reached_positions(run: Identification) -> Float:
    """Lowest and highest position of each joint in the log of a run, shape (n_joints, 2), rad or m; nan if unknown."""
    residuals = run.training.residuals
    if residuals is not None and len(residuals.t):
        return np.column_stack([residuals.q.min(axis=0), residuals.q.max(axis=0)])
    joints: Any = run.log_summary.get("joints", ())
    known = {joint["name"]: (joint["lower"], joint["upper"]) for joint in joints}
    return np.array([known.get(name, (np.nan, np.nan)) for name in run.robot.joint_names], dtype=np.float64)


def beyond_robot_file(model: ExportModel, rotor: bool) -> list[str]:
    """Effects that robot files cannot represent; rotor: whether inertias of rotors and motors are among them."""
    missing = ["rotor inertia"] if rotor and model.rotor.any() else []
    return [*missing, *beyond_joints(model, not rotor), *(["offset"] if model.offset.any() else [])]


def beyond_joints(model: ExportModel, motors: bool = False) -> list[str]:
    """Effects that a file with viscous and Coulomb friction per joint cannot represent.

    Parameters
    ----------
    model : ExportModel
        The model.
    motors : bool
        Whether the file can represent inertia and friction of motors that move several joints.

    Returns
    -------
    list of str
        Names: memory of friction, coupled drives, tilt of the base.

    """
    effects = [MEMORY] if model.distance.any() else []
    effects += dict.fromkeys(part.term for part in (motors_of(model.mixed)[1] if motors else model.mixed))
    return effects if model.tilt is None else [*effects, model.tilt.term.name]


def exportable_springs(model: ExportModel, several: bool) -> list[JointSpring]:
    """Springs that a robot file can represent.

    several: whether springs over several joints are among them. Springs without stiffness are a constant torque, which
    no robot file can represent.
    """
    return [spring for spring in model.springs if spring.stiffness and (several or len(spring.joints) == 1)]


def note_left_out(
    model: ExportModel,
    kind: str,
    further: Sequence[str],
    diagnostics: Diagnostics,
    exported_springs: Sequence[JointSpring] = (),
) -> None:
    """Warn about effects that a file format cannot represent.

    `kind`: name of the format; `further`: effects in addition to `model.left_out`; `diagnostics`: receives the
    warnings.
    """
    _note_springs(model, kind, exported_springs, diagnostics)
    missing = [*model.left_out, *further]
    if missing:
        diagnostics.warn(
            "export-left-out", f"{kind} cannot represent {', '.join(missing)}: the exported model omits it"
        )


def _note_springs(
    model: ExportModel, kind: str, exported_springs: Sequence[JointSpring], diagnostics: Diagnostics
) -> None:
    kept = {id(spring) for spring in exported_springs}
    lost = [spring for spring in model.springs if id(spring) not in kept]
    if not lost:
        return
    named = "; ".join(
        spring_text(model.robot, spring) + _spring_torque_text(model, spring) for spring in lost
    )
    single = all(spring.stiffness and len(spring.joints) == 1 for spring in lost)
    others = (
        "MJCF, SDF and C" if single else "MJCF and C" if all(spring.stiffness for spring in lost) else "C"
    )
    diagnostics.warn(
        "export-left-out",
        f"{kind} cannot represent {'this spring' if len(lost) == 1 else 'these springs'}: {named}. The exported model "
        f"omits {'it' if len(lost) == 1 else 'them'}; {others} can represent {'it' if len(lost) == 1 else 'them'}",
    )


def _spring_torque_text(model: ExportModel, spring: JointSpring) -> str:
    """Largest torque of a spring on the log's motion, in words; "" if unknown."""
    ends = model.reach * spring.weights[:, None]
    ends = ends[list(spring.joints)]
    if not np.isfinite(ends).all():
        return ""
    a = np.array([ends.min(axis=1).sum(), ends.max(axis=1).sum()])
    force = float(np.abs(spring.stiffness * a + spring.preload).max() * np.abs(spring.weights).max())
    unit = "N" if all(model.robot.prismatic[j] for j in spring.joints) else "N m"
    return f", up to {force:.3g} {unit} on the log's motion"


# Base parameters instead of all ten of every link: the same torque from fewer numbers.

# Relative torque error above which the full parameters are kept.
_EXACT = 1e-12


def reduced(model: ExportModel) -> tuple[Float, Float]:
    """Inertia (nb, 10) and rotors (n,) with the same torque for every motion and as many zeros as possible.

    They are no physically consistent links. Where regrouping would cost digits, the model's own parameters are
    returned.
    """
    robot = model.robot
    base = structural_base(robot, RigidBody() + RotorInertia(), TorqueRows())
    theta = np.concatenate([model.inertia.ravel(), model.rotor])
    few = np.zeros(len(theta))
    few[base.independent] = base.reduce(theta)
    split = 10 * robot.n_bodies
    samples = random_states(robot, 64, 1)
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    wanted, computed = (
        inverse_dynamics(robot.tree, parameters[:split], *motion) @ robot.projection
        + parameters[split:] * samples.ddq
        for parameters in (theta, few)
    )
    if np.abs(computed - wanted).max() > _EXACT * np.abs(wanted).max():
        return model.inertia, model.rotor
    return few[:split].reshape(-1, 10), few[split:]
