"""A scene: surfaces of a robot, its motion, and colours by link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel.bodies import Bodies
from dynid.recording import Trajectory
from dynid.robot.model import RobotModel
from dynid.robot.shapes import Geometry
from dynid.scene.surface import Shapes, Surface, shapes_of, simplified

if TYPE_CHECKING:  # scenes of results are made without the readers of logs
    from dynid.log.read import Log

# Bytes of vertices and triangles: 400 kB as text in a page, where three bytes take four characters.
MOST_BYTES = 300_000
# Hz and frames: interpolation between 30 frames per second looks smooth; long recordings get fewer.
FRAME_RATE, MOST_FRAMES = 30.0, 3000
_PLAIN = ("#8fa3b5", "#6f879d")
_FIXED = "#9aa1a8"
_IN_THE_WAY = "#c9915f"
# Poses of a motion from which the extent of the picture is computed, and directions in which outermost points lie:
# 14 degrees apart, so that less than 1 % of the extent is missed.
_POSES, _DIRECTIONS = 60, 200


@dataclass(frozen=True)
class Colour:
    """A colour and its meaning.

    Parameters
    ----------
    value : str
        "#rrggbb".
    meaning : str
        Text of the legend; "" = not in the legend.

    """

    value: str
    meaning: str


@dataclass(frozen=True)
class LinkColour:
    """Colour of a link, and the text shown when the pointer is on the link.

    Parameters
    ----------
    colour : Colour
    said : str
        The text.

    """

    colour: Colour
    said: str = ""


_OBSTACLE = LinkColour(Colour(_IN_THE_WAY, "obstacle"))


@dataclass(frozen=True, eq=False)
class Scene:
    """A robot to draw, with its motion.

    Parameters
    ----------
    robot : RobotModel
    surfaces : tuple of Surface
        Triangles of the bodies.
    shapes : str
        What the surfaces are, in a sentence or two.
    times : ndarray, shape (F,), s
        Uniform grid; F = 0 without motion.
    q : ndarray, shape (F, n), rad (m)
        Positions at these times.
    home : ndarray, shape (n,), rad (m)
        Position without motion.
    colours : mapping of str to LinkColour
        By name of the body, "base" for the base.
    lines : ndarray, shape (L, 6), m
        End points of lines in the base frame: bounds of the room.
    floor : float, m
        Height of the grid.

    """

    robot: RobotModel
    surfaces: tuple[Surface, ...]
    shapes: str
    times: Float
    q: Float
    home: Float
    colours: Mapping[str, LinkColour] = field(default_factory=dict)
    lines: Float = field(default_factory=lambda: np.zeros((0, 6)))
    floor: float = 0.0

    def __post_init__(self) -> None:
        n = self.robot.n
        for name, shape in (
            ("times", (None,)),
            ("q", (len(self.times), n)),
            ("home", (n,)),
            ("lines", (None, 6)),
        ):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    @cached_property
    def up(self) -> Float:
        """Unit vector against gravity in the base frame; z without gravity."""
        g = self.robot.gravity
        size = float(np.linalg.norm(g))
        return np.array([0.0, 0.0, 1.0]) if size == 0.0 else np.asarray(-g / size)

    def placements(self, q: Float) -> tuple[Float, Float]:
        """Rotations (T, nb + 1, 3, 3) and origins (T, nb + 1, 3) of the base and all bodies at positions q (T, n)."""
        x = self.robot.tree_motion(q, q, q)[0]
        R, p = Bodies(self.robot.tree, np.zeros((self.robot.n_bodies, 10))).placements(x)
        T = len(q)
        return (
            np.concatenate([np.broadcast_to(np.eye(3), (T, 1, 3, 3)), R], axis=1),
            np.concatenate([np.zeros((T, 1, 3)), p], axis=1),
        )

    @cached_property
    def extent(self) -> tuple[Float, float]:
        """Centre (3,) and radius, m, of a ball around the robot over its motion."""
        return self.ball(self._poses)

    @property
    def _poses(self) -> Float:
        return self.q[:: max(1, len(self.q) // _POSES)] if len(self.q) else self.home[None]

    @cached_property
    def outermost(self) -> Float:
        """Points (k, 3) of the robot over its motion that lie outermost in some direction: a camera sees all within."""
        # Piece by piece, since a table of all points and directions would take a gigabyte.
        pieces = np.array_split(self._points(self._poses), _POSES)
        return _outermost(np.concatenate([_outermost(piece) for piece in pieces if len(piece)]))

    def ball(self, q: Float) -> tuple[Float, float]:
        """Centre (3,) and radius, m, of a ball around the robot, without obstacles, at positions q (T, n)."""
        points = self._points(q)
        centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
        return centre, max(float(np.linalg.norm(points - centre, axis=1).max()), 1e-3)

    def _points(self, q: Float) -> Float:
        R, p = self.placements(q)
        return np.concatenate(
            [
                (
                    _outermost(surface.vertices) @ R[:, surface.body + 1].swapaxes(1, 2)
                    + p[:, surface.body + 1, None]
                ).reshape(-1, 3)
                for surface in self.surfaces
                if len(surface.vertices) and surface.kind != "obstacle"
            ]
        )

    @property
    def palette(self) -> tuple[LinkColour, ...]:
        """Colours of the base, of each body, and of obstacles if there are any."""
        plain = [LinkColour(Colour(_FIXED, ""))]
        plain += [LinkColour(Colour(_PLAIN[i % 2], "")) for i in range(self.robot.n_bodies)]
        colours = [self.colours.get(name, usual) for name, usual in zip(self.names, plain, strict=False)]
        return (*colours, *([_OBSTACLE] if self._blocked else []))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the base, bodies and obstacles, in the order of the palette."""
        return ("base", *self.robot.body_names, *(["obstacle"] if self._blocked else []))

    def owner(self, surface: Surface) -> int:
        """Index of a surface's colour in the palette."""
        return self.robot.n_bodies + 1 if surface.kind == "obstacle" else surface.body + 1

    @property
    def _blocked(self) -> bool:
        return any(surface.kind == "obstacle" for surface in self.surfaces)

    @property
    def legend(self) -> tuple[Colour, ...]:
        """Colours with a meaning, each once."""
        meanings = [entry.colour for entry in (*self.colours.values(), *self.palette) if entry.colour.meaning]
        return tuple(dict.fromkeys(meanings))


def scene_of(
    robot: RobotModel,
    t: npt.ArrayLike | None = None,
    q: npt.ArrayLike | None = None,
    *,
    geometry: Geometry = "visual",
    surfaces: Sequence[Surface] | None = None,
    colours: Mapping[str, LinkColour] | None = None,
    lines: npt.ArrayLike | None = None,
    floor: float = 0.0,
    most_bytes: int = MOST_BYTES,
) -> Scene:
    """Make the scene of a robot, at rest or in motion.

    `Scene.shapes` says what the shapes are and why some could not be read; unreadable shapes are not an error.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    t : array_like, shape (T,), s, optional
        Times of the motion.
    q : array_like, shape (T, n), rad (m), optional
        Positions at these times.
    geometry : {"visual", "collision"}
        Preferred shapes, if the robot file has both.
    surfaces : sequence of Surface, optional
        Drawn instead of the shapes in the robot file, obstacles included.
    colours : mapping of str to LinkColour, optional
        By name of the body, "base" for the base.
    lines : array_like, shape (L, 6), m, optional
        Bounds of the room.
    floor : float, m
        Height of the grid.
    most_bytes : int
        Size to which surfaces are simplified.

    Returns
    -------
    Scene

    Raises
    ------
    UsageError
        If the motion does not fit the robot.

    """
    shapes = shapes_of(robot, geometry) if surfaces is None else Shapes(tuple(surfaces), {})
    drawn = simplified(shapes.surfaces, most_bytes)
    times, positions = _frames(robot, t, q)
    return Scene(
        robot,
        drawn,
        _shape_summary(shapes.surfaces, drawn, shapes.unread),
        times,
        positions,
        positions[0] if len(positions) else _standing(robot),
        dict(colours or {}),
        np.zeros((0, 6)) if lines is None else np.asarray(lines, dtype=np.float64),
        floor,
    )


def _outermost(points: Float) -> Float:
    # Points (k, 3) farthest in directions at nearly equal distances on a sphere, by the golden angle.
    k = np.arange(_DIRECTIONS)
    height = 1.0 - (2.0 * k + 1.0) / _DIRECTIONS
    angle = np.pi * (3.0 - np.sqrt(5.0)) * k
    wide = np.sqrt(1.0 - height**2)
    directions = np.stack([wide * np.cos(angle), wide * np.sin(angle), height])
    return np.asarray(points[np.unique((points @ directions).argmax(axis=0))])


def _standing(robot: RobotModel) -> Float:
    # Zero if it is within the limits, else the middle between them.
    low, high = robot.limits.lower, robot.limits.upper
    both = np.isfinite(low) & np.isfinite(high)
    middle = np.where(
        both, 0.5 * (np.where(both, low, 0.0) + np.where(both, high, 0.0)), np.clip(0.0, low, high)
    )
    inside = (low < 0.0) & (high > 0.0)
    return np.asarray(np.where(inside, 0.0, middle))


def _frames(robot: RobotModel, t: npt.ArrayLike | None, q: npt.ArrayLike | None) -> tuple[Float, Float]:
    if t is None or q is None:
        return np.zeros(0), np.zeros((0, robot.n))
    times, positions = np.asarray(t, dtype=np.float64), np.asarray(q, dtype=np.float64)
    fits = times.ndim == 1 and positions.shape == (len(times), robot.n)
    if not (
        fits and np.isfinite(times).all() and np.isfinite(positions).all() and (np.diff(times) > 0).all()
    ):
        raise UsageError(
            "scene-motion",
            found=f"times {times.shape} and positions {positions.shape}",
            expected=f"finite ascending times, and positions of {robot.n} joints at each",
        )
    if len(times) < 2:
        return np.zeros(0), np.zeros((0, robot.n))
    length = float(times[-1] - times[0])
    count = int(np.clip(np.ceil(length * FRAME_RATE) + 1, 2, MOST_FRAMES))
    grid = np.linspace(times[0], times[-1], count)
    return grid - times[0], np.stack([np.interp(grid, times, x) for x in positions.T], axis=1)


def _shape_summary(before: tuple[Surface, ...], after: tuple[Surface, ...], unread: Mapping[str, str]) -> str:
    links = {
        kind: len({surface.link for surface in before if surface.kind == kind})
        for kind in ("mesh", "solid", "capsule")
    }
    parts = []
    if links["mesh"]:
        parts.append(f"meshes of {_counted(links['mesh'])}")
    if links["solid"]:
        parts.append(f"boxes, cylinders and spheres of {_counted(links['solid'])}")
    if links["capsule"]:
        parts.append(f"capsules between the joints for {_counted(links['capsule'])} without readable shapes")
    first, then = (sum(len(surface.triangles) for surface in some) for some in (before, after))
    fewer = f", simplified from {first:,} to {then:,} triangles" if then < 0.95 * first else ""
    sentence = f"Shown: {'; '.join(parts)}{fewer}."
    if unread:
        link, why = next(iter(unread.items()))
        more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
        sentence += f" Not read: {link}{more}: {why}"
    return sentence


def _counted(links: int) -> str:
    return f"{links} link{'s' if links != 1 else ''}"


# Scenes of recorded motion.


def scene_of_log(log: Log, trajectory: str | None = None, **options: Any) -> Scene:
    """Make the scene of a robot with the motion of a log.

    Parameters
    ----------
    log : Log
        The log.
    trajectory : str, optional
        Name of a trajectory; None = the longest.
    **options
        As for `scene_of`.

    Returns
    -------
    Scene

    Raises
    ------
    UsageError
        For an unknown trajectory, or one without two complete rows.

    """
    named = {candidate.name: candidate for candidate in log.trajectories}
    if trajectory is not None and trajectory not in named:
        raise UsageError(
            "no-trajectory",
            found=f"unknown trajectory '{trajectory}'",
            expected="one of " + ", ".join(sorted(named)),
        )
    chosen = (
        max(log.trajectories, key=lambda candidate: candidate.end_time - candidate.start_time)
        if trajectory is None
        else named[trajectory]
    )
    t, q = positions_of(log, chosen)
    if len(t) < 2:
        raise UsageError(
            "no-motion",
            found=f"{len(t)} complete rows in '{chosen.name}'",
            expected="two or more rows with positions of all joints",
        )
    return scene_of(log.robot, t, q, **options)


def positions_of(log: Log, trajectory: Trajectory) -> tuple[Float, Float]:
    """Ascending times (T,) and positions (T, n) of complete rows, at most 2 FRAME_RATE per second."""
    times: list[Float] = []
    positions: list[Float] = []
    last = -np.inf
    for chunk in log.chunks(trajectory):
        complete = np.isfinite(chunk.t) & np.isfinite(chunk.q).all(axis=1)
        t, q = chunk.t[complete], chunk.q[complete]
        cell = np.floor(t * 2.0 * FRAME_RATE)
        before = np.maximum.accumulate(np.concatenate([[last], cell]))[:-1]
        fresh = cell > before
        times.append(t[fresh])
        positions.append(q[fresh])
        last = max(last, float(cell.max(initial=-np.inf)))
    return np.concatenate(times), np.concatenate(positions)
