"""Motions of all families as JSON text and back, without loss of digits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.errors import DynidError, InputError, Place, UsageError
from dynid.base.files import read_bytes
from dynid.base.records import dataclass
from dynid.trajectories.basis import BasisTrajectory, Chain, FourierBasis, SplineBasis, Together
from dynid.trajectories.moves import SmoothMoves
from dynid.trajectories.torque_sines import TorqueMotion, TorqueSinusoids
from dynid.trajectories.trajectory import FourierTrajectory, Trajectory

# Version of the JSON form.
FORMAT = 1
# Bytes: far above the text of any motion.
LARGEST_BYTES = 16 << 20
_MOVES = ("poses", "cruise", "ramp", "hold")
_SINES, _TABLE = ("offset", "amplitude", "frequency", "phase"), ("q", "dq", "ddq")


def to_json(trajectory: Trajectory) -> str:
    """Convert a motion to JSON text.

    Parameters
    ----------
    trajectory : Trajectory
        The motion.

    Returns
    -------
    str

    Raises
    ------
    UsageError
        For a family without a JSON form.

    """
    return json.dumps(_to_data(trajectory), indent=1)


def from_json(text: str) -> Trajectory:
    """Convert JSON text to a motion.

    Parameters
    ----------
    text : str
        Text from `to_json`.

    Returns
    -------
    Trajectory

    Raises
    ------
    InputError
        If the text is not a motion.

    """
    try:
        data: Any = json.loads(text)
        return _from_data(data)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, DynidError) as error:
        raise InputError(
            "trajectory-json",
            found=f"text that is not a trajectory ({type(error).__name__}: {error})",
            expected='kind = "fourier", "spline", "moves", "torque-sines" or "chain", format = 1, and its numbers',
        ) from error


def joints_of(trajectory: Trajectory) -> int:
    """Return the number of joints of a motion.

    Parameters
    ----------
    trajectory : Trajectory
        The motion.

    Returns
    -------
    int

    """
    return int(trajectory.motion(np.zeros(1))[0].shape[1])


def parts_of(trajectory: Trajectory) -> tuple[Trajectory, ...]:
    """Split a motion into the motions that were designed together.

    Parameters
    ----------
    trajectory : Trajectory
        The motion.

    Returns
    -------
    tuple of Trajectory
        The motion itself if it was designed alone.

    """
    plain = simplest(trajectory)
    return plain.parts if isinstance(plain, Chain) else (plain,)


def simplest(trajectory: Trajectory) -> Trajectory:
    """Return the same motion in the simplest form, without the basis of its design."""
    if isinstance(trajectory, BasisTrajectory):
        basis, X = trajectory.basis, trajectory.X
        if isinstance(basis, FourierBasis):
            N = basis.harmonics
            sine, cosine = X[1 : N + 1].T, X[N + 1 :].T
            return FourierTrajectory(X[0], sine, cosine, basis.frequency, basis.duration, basis.ramp)
        if isinstance(basis, Together):
            parts = (BasisTrajectory(part, basis.own(k, X)) for k, part in enumerate(basis.parts))
            return Chain(tuple(simplest(part) for part in parts))
    return trajectory


@dataclass(frozen=True, eq=False)
class PlannedMotion:
    """A motion from a file; joints: their names in the order of the motion, () if the file has none."""

    trajectory: Trajectory
    joints: tuple[str, ...] = ()


def read_motion(path: str | Path) -> PlannedMotion:
    """Read a motion from a JSON file, or from a folder of `dynid excite`.

    Parameters
    ----------
    path : str or Path
        File or folder.

    Returns
    -------
    PlannedMotion

    Raises
    ------
    InputError
        With the file, if it is not a motion.
    ResourceError
        If it cannot be read.

    """
    path = Path(path)
    folder = path.is_dir()
    trajectory = from_file(path / "trajectory.json" if folder else path)
    joints: tuple[str, ...] = ()
    if folder:
        try:
            joints = tuple(str(name) for name in json.loads(_read_text(path / "plan.json"))["joints"])
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(
                "plan-json",
                found=f"a plan.json without joints ({type(error).__name__})",
                expected="a folder that dynid excite wrote",
                place=Place(file=str(path)),
            ) from error
        if len(joints) != joints_of(trajectory):
            raise InputError(
                "plan-json",
                found=f"{len(joints)} joint names for a motion of {joints_of(trajectory)} joints",
                expected="a folder that dynid excite wrote",
                place=Place(file=str(path)),
            )
    return PlannedMotion(trajectory, joints)


def from_file(path: str | Path) -> Trajectory:
    """Read a motion from a JSON file; errors name the file."""
    text = _read_text(Path(path))
    try:
        return from_json(text)
    except InputError as error:
        raise InputError(
            error.identifier, found=error.found, expected=error.expected, place=Place(file=str(path))
        ) from error


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, "a motion that dynid excite wrote (JSON)", LARGEST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "trajectory-json",
            found="bytes that are not UTF-8",
            expected="JSON text",
            place=Place(file=str(path)),
        ) from error


def _to_data(trajectory: Trajectory) -> dict[str, Any]:
    plain = simplest(trajectory)
    if isinstance(plain, FourierTrajectory):
        return dict(json.loads(plain.to_json()))
    if isinstance(plain, SmoothMoves):
        return {"kind": "moves", "format": FORMAT} | {name: getattr(plain, name).tolist() for name in _MOVES}
    if isinstance(plain, TorqueMotion):
        sines = {name: getattr(plain.sines, name).tolist() for name in _SINES} | {"ramp": plain.sines.ramp}
        table = {name: getattr(plain, name).tolist() for name in _TABLE} | {"step": plain.step}
        return {"kind": "torque-sines", "format": FORMAT} | sines | table
    if isinstance(plain, Chain):
        return {"kind": "chain", "format": FORMAT, "parts": [_to_data(part) for part in plain.parts]}
    if isinstance(plain, BasisTrajectory) and isinstance(plain.basis, SplineBasis):
        basis = plain.basis
        numbers = {"duration": basis.duration, "pieces": basis.pieces, "breaks": list(basis.breaks)}
        return {"kind": "spline", "format": FORMAT} | numbers | {"coefficients": plain.X.tolist()}
    raise UsageError(
        "trajectory-family",
        found=f"a motion of type {type(trajectory).__name__}",
        expected="a Fourier series, a spline, moves, torque sinusoids, or several of them",
    )


def _from_data(data: Any) -> Trajectory:
    kind = data["kind"]
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r}")
    if kind == "fourier":
        return FourierTrajectory.from_json(json.dumps(data))
    if kind == "moves":
        return SmoothMoves(*(_array(data[name]) for name in _MOVES))
    if kind == "torque-sines":
        offset, amplitude, frequency, phase = (_array(data[name]) for name in _SINES)
        q, dq, ddq = (_array(data[name]) for name in _TABLE)
        sines = TorqueSinusoids(offset, amplitude, frequency, phase, float(data["ramp"]))
        return TorqueMotion(sines, float(data["step"]), q, dq, ddq)
    if kind == "chain":
        return Chain(tuple(_from_data(part) for part in data["parts"]))
    if kind == "spline":
        breaks = tuple(float(x) for x in data["breaks"])
        basis = SplineBasis(float(data["duration"]), int(data["pieces"]), breaks)
        return BasisTrajectory(basis, _finite(data["coefficients"]))
    raise ValueError(f"kind {kind!r}")


def _array(values: Any) -> Any:
    return np.array(values, dtype=np.float64)


def _finite(values: Any) -> Any:
    array = _array(values)
    if not np.isfinite(array).all():
        raise ValueError("a coefficient that is not finite")
    return array


# Slower motions: the same path in more time.


def slowed(trajectory: Trajectory, share: float) -> Trajectory:
    """Slow down a motion to q(share t): velocities are multiplied by share, accelerations by share^2.

    Parameters
    ----------
    trajectory : Trajectory
        The motion.
    share : float
        Share of its speed, 0 < share <= 1.

    Returns
    -------
    Trajectory

    Raises
    ------
    UsageError
        For another share, and for commanded torque, which would move the arm differently.

    """
    if not 0 < share <= 1:
        raise UsageError("stage", found=f"a share of {share} of the speed", expected="above 0 and at most 1")
    plain = simplest(trajectory)
    if share == 1:
        return plain
    if isinstance(plain, FourierTrajectory):
        return replace(
            plain,
            frequency=plain.frequency * share,
            duration=plain.duration / share,
            ramp=plain.ramp / share,
        )
    if isinstance(plain, SmoothMoves):
        return SmoothMoves(plain.poses, plain.cruise / share, plain.ramp / share, plain.hold)
    if isinstance(plain, BasisTrajectory) and isinstance(plain.basis, SplineBasis):
        basis = plain.basis
        breaks = tuple(x / share for x in basis.breaks)
        return BasisTrajectory(SplineBasis(basis.duration / share, basis.pieces, breaks), plain.X)
    if isinstance(plain, Chain):
        return Chain(tuple(slowed(part, share) for part in plain.parts))
    kind = "commanded torque" if isinstance(plain, TorqueMotion) else type(plain).__name__
    raise UsageError("stage", found=f"{kind} at {share:g} of its speed", expected="a motion of positions")
