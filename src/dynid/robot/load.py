"""Read a robot file of any format as a RobotModel, and lock joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.robot.drive import Drive
from dynid.robot.formats import read_robot_file
from dynid.robot.linkage import Table
from dynid.robot.model import FLOATING_JOINTS, JointType, Limits, RobotModel, path_to_base
from dynid.robot.options import Reading
from dynid.spatial.algebra import placement, rotation_about
from dynid.spatial.inertia import transformed

# A floating base: six massless joints between the world and the base link, at whose frame they are.

# Along x, y and z, then about z, y and x of the base link.
_FLOATING_AXES = np.eye(3)[[0, 1, 2, 2, 1, 0]]


def with_floating_base(robot: RobotModel) -> RobotModel:
    """Put six massless joints between the world and the base link, which becomes the sixth body.

    Their efforts are the forces along x, y and z and, where all six positions are zero, the moments about z, y and x
    that act on the robot from outside at the frame of the base link, in its axes.

    Parameters
    ----------
    robot : RobotModel
        A robot with a fixed base; one that floats is returned as it is.

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        If the base is part of the world, or a joint has one of the names FLOATING_JOINTS.

    """
    if robot.floats:
        return robot
    place = Place(file=robot.source or None)
    taken = [name for name in FLOATING_JOINTS if name in (*robot.tree_joint_names, *robot.body_names)]
    if not robot.base_links or taken:
        raise InputError(
            "no-floating-base",
            found=f"a joint or link named '{taken[0]}'" if taken else "a base that is part of the world",
            expected="another name"
            if taken
            else "a base link that can move: a root link, or a body with a free joint",
            place=place,
        )
    n, frame = robot.n, robot.base_frame
    to_base = _inverse(frame)
    parent, placed = np.array(robot.parent), np.array(robot.T_parent_joint)
    on_base = parent < 0
    placed[on_base] = to_base @ placed[on_base]
    before = np.tile(np.eye(4), (6, 1, 1))
    before[0] = frame
    limits, drive = robot.limits, robot.drive
    wide, unknown = np.full(6, np.inf), np.full(6, np.nan)
    transmission, projection = np.eye(n + 6), np.zeros((robot.n_bodies + 6, n + 6))
    transmission[6:, 6:] = drive.transmission
    projection[:6, :6], projection[6:, 6:] = np.eye(6), robot.projection
    frames: dict[str, tuple[int, Float]] = {}
    for name in (*robot.body_names, *robot.frames):
        body, at = robot.link_frame(name)
        frames[name] = (body + 6, at) if body >= 0 else (5, to_base @ at)
    base = robot.base_links[0]
    return replace(
        robot,
        body_names=(*FLOATING_JOINTS[:5], base, *robot.body_names),
        tree_joint_names=(*FLOATING_JOINTS, *robot.tree_joint_names),
        joint_names=(*FLOATING_JOINTS, *robot.joint_names),
        parent=np.concatenate([np.arange(6) - 1, np.where(on_base, 5, parent + 6)]),
        joint_types=(*[JointType.PRISMATIC] * 3, *[JointType.CONTINUOUS] * 3, *robot.joint_types),
        T_parent_joint=np.concatenate([before, placed]),
        axis=np.concatenate([_FLOATING_AXES, robot.axis]),
        inertia_prior=np.concatenate([np.zeros((5, 10)), robot.base_prior[None], robot.inertia_prior]),
        limits=Limits(
            np.append(-wide, limits.lower),
            np.append(wide, limits.upper),
            np.append(wide, limits.velocity),
            np.append(wide, limits.effort),
        ),
        drive=replace(
            drive,
            transmission=transmission,
            rotor_inertia=np.append(np.zeros(6), drive.rotor_inertia),
            torque_constant=np.append(unknown, drive.torque_constant),
            drive_gain=np.append(unknown, drive.drive_gain),
            linkages=(*[None] * 6, *drive.linkages) if drive.linkages else (),
            stiffness=np.append(unknown, drive.stiffness),
            damping=np.append(unknown, drive.damping),
            servo=None,
        ),
        projection=projection,
        projection_offset=np.append(np.zeros(6), robot.projection_offset),
        friction_prior=np.concatenate([np.zeros((6, 2)), robot.friction_prior]),
        spring_prior=np.concatenate([np.full((6, 2), np.nan), robot.spring_prior]),
        merged=(*((name,) for name in FLOATING_JOINTS[:5]), robot.base_links, *robot.merged),
        frames=frames,
        base_links=(),
        base_prior=np.full(10, np.nan),
    )


def with_fixed_base(robot: RobotModel) -> RobotModel:
    """Remove the six massless joints of a floating base: the robot of its logs, which have no columns for them.

    Parameters
    ----------
    robot : RobotModel
        A robot of `with_floating_base`; another one is returned as it is.

    Returns
    -------
    RobotModel

    """
    if not robot.floats:
        return robot
    frame, limits, drive = robot.T_parent_joint[0], robot.limits, robot.drive
    parent, placed = robot.parent[6:] - 6, np.array(robot.T_parent_joint[6:])
    placed[parent < 0] = frame @ placed[parent < 0]
    frames = {
        name: (body - 6, at) if body >= 6 else (-1, frame @ np.asarray(at))
        for name, (body, at) in robot.frames.items()
    }
    return replace(
        robot,
        body_names=robot.body_names[6:],
        tree_joint_names=robot.tree_joint_names[6:],
        joint_names=robot.joint_names[6:],
        parent=np.maximum(parent, -1),
        joint_types=robot.joint_types[6:],
        T_parent_joint=placed,
        axis=robot.axis[6:],
        inertia_prior=robot.inertia_prior[6:],
        limits=Limits(limits.lower[6:], limits.upper[6:], limits.velocity[6:], limits.effort[6:]),
        drive=replace(drive, servo=None).of(range(6, robot.n)),
        projection=robot.projection[6:, 6:],
        projection_offset=robot.projection_offset[6:],
        friction_prior=robot.friction_prior[6:],
        spring_prior=robot.spring_prior[6:],
        merged=robot.merged[6:],
        frames=frames,
        base_links=robot.merged[5],
        base_prior=robot.inertia_prior[5],
    )


def _inverse(frame: Float) -> Float:
    return np.asarray(np.linalg.inv(frame))


# Locked joints: a robot with fewer coordinates, and where its links went.

# Names per message.
_LISTED = 12


@dataclass(frozen=True, eq=False)
class Locked:
    """A robot with some joints locked.

    Parameters
    ----------
    robot : RobotModel
        The reduced robot.
    carrier : ndarray, shape (nb,)
        For each body of the whole robot, the body of the reduced one that it belongs to; -1 = the base.
    frames : ndarray, shape (nb, 4, 4)
        Its joint frame in the joint frame of the carrier.

    """

    robot: RobotModel
    carrier: Int
    frames: Float


def lock_joints(robot: RobotModel, values: Mapping[str, float]) -> Locked:
    """Lock joints of a robot; their links become part of the links that carry them.

    Mimic joints of a locked joint are locked with it. A link of unknown mass adds nothing to the prior of its carrier.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    values : mapping of str to float, rad (m)
        Position of each locked joint.

    Returns
    -------
    Locked

    Raises
    ------
    InputError
        For unknown joints, mimic joints, joints whose motor also moves other joints, and if no joint would be left.

    """
    free = [j for j, name in enumerate(robot.joint_names) if name not in values]
    locked_joints = [j for j, name in enumerate(robot.joint_names) if name in values]
    _check(robot, values, free)
    q = np.array([values[robot.joint_names[j]] for j in locked_joints])
    offset = robot.projection_offset + robot.projection[:, locked_joints] @ q
    projection = robot.projection[:, free]
    moves = (projection != 0).any(axis=1).tolist()
    carrier, frames = np.full(robot.n_bodies, -1), np.zeros((robot.n_bodies, 4, 4))
    kept: list[int] = []
    placed: list[Float] = []
    priors: list[Float] = []
    merged: list[list[str]] = []
    base = robot.base_prior
    for i in range(robot.n_bodies):
        parent = int(robot.parent[i])
        on = -1 if parent < 0 else int(carrier[parent])
        here = robot.T_parent_joint[i] if parent < 0 else frames[parent] @ robot.T_parent_joint[i]
        if moves[i]:
            carrier[i], frames[i] = len(kept), np.eye(4)
            kept.append(i)
            placed.append(here)
            priors.append(np.array(robot.inertia_prior[i]))
            merged.append(list(robot.merged[i]))
            continue
        carrier[i], frames[i] = on, here @ _joint_motion(robot, i, float(offset[i]))
        known = bool(np.isfinite(robot.inertia_prior[i]).all())
        if on >= 0:
            merged[on] += robot.merged[i]
            if known:
                priors[on] = priors[on] + transformed(robot.inertia_prior[i], frames[i])
        elif known and robot.base_links:
            base = base + transformed(robot.inertia_prior[i], _inverse(robot.base_frame) @ frames[i])
    limits = robot.limits
    reduced = replace(
        robot,
        body_names=tuple(robot.body_names[i] for i in kept),
        tree_joint_names=tuple(robot.tree_joint_names[i] for i in kept),
        joint_names=tuple(robot.joint_names[j] for j in free),
        parent=np.array(
            [carrier[robot.parent[i]] if robot.parent[i] >= 0 else -1 for i in kept], dtype=np.int64
        ),
        joint_types=tuple(robot.joint_types[i] for i in kept),
        T_parent_joint=np.array(placed),
        axis=robot.axis[kept],
        inertia_prior=np.array(priors),
        limits=Limits(limits.lower[free], limits.upper[free], limits.velocity[free], limits.effort[free]),
        drive=_reduced_drive(robot, free, locked_joints),
        projection=projection[kept],
        projection_offset=offset[kept],
        friction_prior=robot.friction_prior[free],
        spring_prior=robot.spring_prior[free],
        merged=tuple(map(tuple, merged)),
        frames=_frames_on(robot, carrier, frames),
        base_prior=base,
        locked={
            **robot.locked,
            **dict(zip([robot.joint_names[j] for j in locked_joints], q.tolist(), strict=True)),
        },
    )
    return Locked(reduced, carrier, frames)


def with_followers(
    robot: RobotModel, followers: Mapping[str, tuple[Mapping[str, float], float]]
) -> RobotModel:
    """Robot in which some joints follow others without a motor of their own, as bars of a parallelogram make them.

    Parameters
    ----------
    robot : RobotModel
        The robot, in which they are independent joints.
    followers : mapping of str to tuple
        By joint, factor of each independent joint in its position, and its position where those are at 0, rad (m).

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        If a joint follows no other one, or joints that are not independent, or its motor moves other joints.

    """
    names = robot.joint_names
    free = [j for j, name in enumerate(names) if name not in followers]
    leaders = [names[j] for j in free]
    # q = S q_free + shift; joints of the tree that followed one of these joints go on to do so.
    S, shift = np.zeros((robot.n, len(free))), np.zeros(robot.n)
    S[free, np.arange(len(free))] = 1.0
    for name, (factors, offset) in followers.items():
        strange = [leader for leader in factors if leader not in leaders]
        if strange or not factors:
            raise InputError(
                "follows",
                found=f"joint '{name}' follows " + (f"'{strange[0]}'" if strange else "nothing"),
                expected="one of " + ", ".join(leaders),
                place=Place(file=robot.source or None),
            )
        j = names.index(name)
        shift[j] = offset
        for leader, factor in factors.items():
            S[j, leaders.index(leader)] = factor
    limits = robot.limits
    return replace(
        robot,
        joint_names=tuple(leaders),
        limits=Limits(limits.lower[free], limits.upper[free], limits.velocity[free], limits.effort[free]),
        drive=_reduced_drive(robot, free, [j for j in range(robot.n) if j not in free]),
        projection=robot.projection @ S,
        projection_offset=robot.projection_offset + robot.projection @ shift,
        friction_prior=robot.friction_prior[free],
        spring_prior=robot.spring_prior[free],
    )


def with_tables(robot: RobotModel, tables: Mapping[str, Table]) -> RobotModel:
    """Robot with tabulated linkages of some joints, whose limits are within their tables."""
    if not tables:
        return robot
    linkages = list(robot.drive.linkages or [None] * robot.n)
    lower, upper = np.array(robot.limits.lower), np.array(robot.limits.upper)
    for joint, table in tables.items():
        j = robot.joint_names.index(joint)
        linkages[j] = table
        lower[j], upper[j] = max(lower[j], table.position[0]), min(upper[j], table.position[-1])
    return replace(
        robot,
        limits=replace(robot.limits, lower=lower, upper=upper),
        drive=replace(robot.drive, linkages=tuple(linkages)),
    )


def _frames_on(robot: RobotModel, carrier: Int, placed: Float) -> dict[str, tuple[int, Float]]:
    """Frames of links on the bodies that carry them when joints are locked."""
    named = {name: robot.link_frame(name) for names in (robot.body_names, robot.frames) for name in names}
    return {
        name: (int(carrier[body]), placed[body] @ frame) if body >= 0 else (body, frame)
        for name, (body, frame) in named.items()
    }


def own_motors(robot: RobotModel) -> Bool:
    """Mask (n,) of joints that can be locked alone: their motors move no other joint, and no other motor moves them."""
    others = robot.drive.moves & ~np.eye(robot.n, dtype=np.bool_)
    return np.asarray(~(others.any(axis=0) | others.any(axis=1)))


def rest_position(robot: RobotModel, joint: str) -> float:
    """Default position of a locked joint, rad (m): zero, or the limit closest to zero."""
    j = robot.joint_names.index(joint)
    return float(np.clip(0.0, robot.limits.lower[j], robot.limits.upper[j]))


def joints_outside_chain(robot: RobotModel, tip: str) -> list[str]:
    """Names of the joints that do not move the chain from the base to a link.

    Raises InputError if the link is not part of a moving body.
    """
    body = next((i for i, links in enumerate(robot.merged) if tip in (*links, robot.body_names[i])), None)
    if body is None:
        names = list(dict.fromkeys([*robot.body_names, *(link for links in robot.merged for link in links)]))
        raise InputError(
            "unknown-link",
            found=f"tip '{tip}', which is not a moving link",
            expected=f"one of {_listed(names)}",
            do=_nearest(tip, names),
            place=Place(file=robot.source or None),
        )
    moves = (robot.projection[path_to_base(robot, body)] != 0).any(axis=0).tolist()
    return [name for name, joint_moves in zip(robot.joint_names, moves, strict=True) if not joint_moves]


def with_reading(robot: RobotModel, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """Apply the options of a reading to a robot: gravity, locked joints and tip.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    reading : Reading
        Joints outside the chain from the base to its tip are locked.
    diagnostics : Diagnostics
        Receives a note on locked joints.

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        For an unknown joint or link.

    """
    if reading.gravity is not None:
        robot = replace(robot, gravity=np.array(reading.gravity))
    robot = replace(robot, reading=reading)
    values = {name: value for name, value in reading.lock.items() if name not in robot.locked}
    outside = (
        []
        if reading.tip is None
        else [joint for joint in joints_outside_chain(robot, reading.tip) if joint not in values]
    )
    return locked(robot, values | {name: rest_position(robot, name) for name in outside}, "", diagnostics)


def locked(
    robot: RobotModel, values: Mapping[str, float], reason: str, diagnostics: Diagnostics
) -> RobotModel:
    """Lock joints and report it.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    values : mapping of str to float, rad (m)
        Position of each locked joint.
    reason : str
        Why dynid locks them, which makes the report a warning; "" = the user asked for it, a note.
    diagnostics : Diagnostics
        Receives the report.

    Returns
    -------
    RobotModel

    """
    if not values:
        return robot
    result = lock_joints(robot, values)
    places = [f"'{name}' at {value:g}" for name, value in values.items()]
    text = (
        f"joint{'s' if len(places) > 1 else ''} {_listed(places)} {'are' if len(places) > 1 else 'is'} locked"
    )
    dropped = [name for name, on in zip(robot.body_names, result.carrier, strict=True) if on < 0]
    if dropped:
        text += f"; {_listed(dropped)} {'is' if len(dropped) == 1 else 'are'} fixed to the base and not in the model"
    unknown = [
        name
        for i, name in enumerate(robot.body_names)
        if result.carrier[i] >= 0
        and name not in result.robot.body_names
        and not np.isfinite(robot.inertia_prior[i]).all()
    ]
    if unknown:
        text += f"; the unknown mass of {_listed(unknown)} is not in the priors"
    place = Place(file=robot.source or None)
    if reason:
        diagnostics.warn("joint-held", f"{reason}: {text}; --lock JOINT=VALUE locks them elsewhere", place)
    else:
        diagnostics.note("joint-held", text, place)
    return result.robot


def _check(robot: RobotModel, values: Mapping[str, float], free: Sequence[int]) -> None:
    place = Place(file=robot.source or None)
    for name in values:
        if name in robot.joint_names:
            continue
        follows = name in robot.tree_joint_names
        raise InputError(
            "unknown-joint",
            found=f"lock of joint '{name}'" + (", which follows another joint" if follows else ""),
            expected="one of " + _listed(list(robot.joint_names)),
            do="lock the joint that it follows" if follows else _nearest(name, list(robot.joint_names)),
            place=place,
        )
    if not free:
        raise InputError(
            "no-joints", found="every joint locked", expected="at least one moving joint", place=place
        )


def _joint_motion(robot: RobotModel, i: int, q: float) -> Float:
    if robot.joint_types[i] is JointType.PRISMATIC:
        return placement(np.eye(3), q * robot.axis[i])
    return placement(rotation_about(robot.axis[i], q), np.zeros(3))


def _reduced_drive(robot: RobotModel, free: list[int], locked_joints: list[int]) -> Drive:
    moves = robot.drive.moves
    if moves[np.ix_(free, locked_joints)].any() or moves[np.ix_(locked_joints, free)].any():
        names = ", ".join(f"'{robot.joint_names[j]}'" for j in locked_joints)
        raise InputError(
            "coupled-lock",
            found=f"locked joints ({names}) whose motors also move other joints",
            expected="joints with separate motors",
            do="lock all joints of a coupling, or none",
            place=Place(file=robot.source or None),
        )
    return robot.drive.of(free)


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean '{near[0]}'?" if near else ""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


# Robot files of any format, recognised by their content.

# kg and m: larger numbers are in other units, or wrong.
LARGEST_MASS = 1e9
LARGEST_LENGTH = 1e6


def load_robot(
    path: str | Path,
    *,
    root: str | None = None,
    tip: str | None = None,
    lock: Mapping[str, float] | None = None,
    gravity: tuple[float, float, float] | None = None,
    packages: str | Path | Sequence[str | Path] = (),
    xacro: Mapping[str, str | bool | int | float] | bool | None = None,
    diagnostics: Diagnostics | None = None,
) -> RobotModel:
    """Read a robot from URDF, xacro, MJCF, SDF, USD or dynid TOML.

    Parameters
    ----------
    path : str or Path
        The robot file.
    root : str, optional
        Fixed base link, for files with several trees.
    tip : str, optional
        Last link of the chain from the base; joints outside the chain are locked.
    lock : mapping of str to float, rad (m), optional
        Locked joints and their positions.
    gravity : tuple of float, m/s^2, optional
        In the base frame, instead of the file's (URDF: 9.81 along -z).
    packages : str, Path or sequence, optional
        Folders with the packages of "package://" names, see `find_package`.
    xacro : mapping or bool, optional
        Arguments of a xacro file. With arguments or True, a file that is not named `.xacro` is expanded, too.
    diagnostics : Diagnostics, optional
        Receives warnings.

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        With file and line, if the file cannot be understood.
    RefusedError
        For XML entities, paths outside the folder, xacro in a file that is not named `.xacro`, and robots over the
        size budget.
    UsageError
        For numbers that are not finite.
    ResourceError
        For a missing package.

    """
    folders = (packages,) if isinstance(packages, str | Path) else tuple(packages)
    reading = Reading(
        root=root,
        tip=tip,
        lock=lock or {},
        gravity=gravity,
        packages=tuple(str(folder) for folder in folders),
        xacro=xacro or {},
    )
    return read_robot(path, reading, diagnostics)


def read_robot(path: str | Path, reading: Reading, diagnostics: Diagnostics | None = None) -> RobotModel:
    """Read a robot file.

    Parameters
    ----------
    path : str or Path
        The robot file.
    reading : Reading
        Options of reading.
    diagnostics : Diagnostics, optional
        Receives warnings.

    Returns
    -------
    RobotModel

    Raises
    ------
    DynidError
        As `load_robot`.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    # Products of absurd numbers may overflow; `_check_size` reports them.
    with np.errstate(over="ignore", invalid="ignore"):
        robot = read_robot_file(Path(path), reading, sink)
        _check_size(robot, Path(path))
    return with_reading(robot, reading, sink)


def _check_size(robot: RobotModel, path: Path) -> None:
    mass, moment = robot.inertia_prior[:, :1], robot.inertia_prior[:, 1:4]
    for values, largest, unit, names in (
        (mass, LARGEST_MASS, "kg", robot.body_names),
        (
            np.where(mass > 0, moment / np.where(mass > 0, mass, 1.0), moment),
            LARGEST_LENGTH,
            "m from its joint to its centre of mass",
            robot.body_names,
        ),
        (robot.inertia_prior[:, 4:], LARGEST_MASS * LARGEST_LENGTH**2, "kg m^2", robot.body_names),
        (robot.T_parent_joint[:, :3, 3], LARGEST_LENGTH, "m from its parent", robot.body_names),
    ):
        size = np.abs(values).reshape(len(values), -1).max(axis=1, initial=0.0)
        if (over := np.flatnonzero(size > largest)).size:
            link = names[int(over[0])]
            raise InputError(
                "no-size",
                found=f"link '{link}' with {size[over[0]]:.3g} {unit}",
                expected=f"at most {largest:g} {unit.split()[0]}",
                do="check the unit: SI is kg and m",
                place=Place(file=str(path)),
            )


def load_example(name: str) -> RobotModel:
    """Load an example robot of the package.

    Parameters
    ----------
    name : str
        Name of the example.

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        For an unknown name; the message lists the names.

    """
    shipped = {file.name.removesuffix(".toml"): file for file in files("dynid.data").iterdir()}
    shipped = {key: file for key, file in shipped.items() if file.name.endswith(".toml")}
    if name not in shipped:
        raise InputError(
            "no-example", found=f"unknown example '{name}'", expected="one of " + ", ".join(sorted(shipped))
        )
    with as_file(shipped[name]) as path:
        return replace(load_robot(path), source=f"example {name}")
