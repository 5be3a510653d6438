"""A scene: bodies of a robot, its motion, colours by link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel.bodies import Bodies
from dynid.log.log import Trajectory
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.robot.shapes import Geometry
from dynid.scene.surface import Shapes, Surface, shapes_of, simplified

# As text in a page, where three bytes take four characters, vertices and triangles stay below 400 kB.
MOST_BYTES = 300_000
# A screen shows 60 pictures a second and interpolation between 30 is not seen; long recordings get fewer.
FRAME_RATE, MOST_FRAMES = 30.0, 3000
_PLAIN = ("#8fa3b5", "#6f879d")
_FIXED = "#9aa1a8"
_IN_THE_WAY = "#c9915f"
# Poses of a motion, and vertices of a surface, that decide how large the picture has to be.
_POSES, _POINTS = 60, 100


@dataclass(frozen=True)
class Colour:
    """A colour, "#rrggbb", and what it means."""

    value: str
    meaning: str


@dataclass(frozen=True)
class LinkColour:
    """A link's colour and what is said of the link when it is pointed at."""

    colour: Colour
    said: str = ""


_OBSTACLE = LinkColour(Colour(_IN_THE_WAY, "obstacle"))


@dataclass(frozen=True, eq=False)
class Scene:
    """What is drawn.

    surfaces: triangles by body.    shapes: what they are, in a sentence or two.
    times: (F,) s and q: (F, n) rad (m), on a uniform grid; F = 0 for a robot that stands.
    home: (n,) where it stands without motion.    colours: by body's name, "base" for what stands still.
    lines: (L, 6) ends of lines in the base frame, m: bounds of the room.    floor: height of the grid, m.
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
        """Against gravity, in the base frame; z where there is none."""
        g = self.robot.gravity
        size = float(np.linalg.norm(g))
        return np.array([0.0, 0.0, 1.0]) if size == 0.0 else np.asarray(-g / size)

    def placements(self, q: Float) -> tuple[Float, Float]:
        """R (T, nb + 1, 3, 3) and p (T, nb + 1, 3) of the base and all bodies; q: (T, n)."""
        x = self.robot.tree_motion(q, q, q)[0]
        R, p = Bodies(self.robot.tree, np.zeros((self.robot.n_bodies, 10))).placements(x)
        T = len(q)
        return (
            np.concatenate([np.broadcast_to(np.eye(3), (T, 1, 3, 3)), R], axis=1),
            np.concatenate([np.zeros((T, 1, 3)), p], axis=1),
        )

    @cached_property
    def extent(self) -> tuple[Float, float]:
        """Centre (3,) and radius, m, of a ball round the robot in its motion."""
        return self.ball(self.q[:: max(1, len(self.q) // _POSES)] if len(self.q) else self.home[None])

    def ball(self, q: Float) -> tuple[Float, float]:
        """Centre (3,) and radius, m, of a ball round the robot, without obstacles, at positions q (T, n)."""
        R, p = self.placements(q)
        points = np.concatenate(
            [
                (
                    _spread(surface.vertices) @ R[:, surface.body + 1].swapaxes(1, 2)
                    + p[:, surface.body + 1, None]
                ).reshape(-1, 3)
                for surface in self.surfaces
                if len(surface.vertices) and surface.kind != "obstacle"
            ]
        )
        centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
        return centre, max(float(np.linalg.norm(points - centre, axis=1).max()), 1e-3)

    @property
    def palette(self) -> tuple[LinkColour, ...]:
        """Colour of the base, of every body, and of obstacles where there are any."""
        plain = [LinkColour(Colour(_FIXED, ""))]
        plain += [LinkColour(Colour(_PLAIN[i % 2], "")) for i in range(self.robot.n_bodies)]
        colours = [self.colours.get(name, usual) for name, usual in zip(self.names, plain, strict=False)]
        return (*colours, *([_OBSTACLE] if self._blocked else []))

    @property
    def names(self) -> tuple[str, ...]:
        """What the colours of the palette belong to."""
        return ("base", *self.robot.body_names, *(["obstacle"] if self._blocked else []))

    def owner(self, surface: Surface) -> int:
        """Index of a surface's colour in the palette."""
        return self.robot.n_bodies + 1 if surface.kind == "obstacle" else surface.body + 1

    @property
    def _blocked(self) -> bool:
        return any(surface.kind == "obstacle" for surface in self.surfaces)

    @property
    def legend(self) -> tuple[Colour, ...]:
        """The colours that mean something, each once."""
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
    """The scene of a robot that stands, or moves as q (T, n) at times t (T,).

    geometry: shapes that are wanted where the description has both sorts.
    surfaces: what is drawn in place of the description's shapes, obstacles among it.
    colours: by body, "base" for the base.
    lines: (L, 6) bounds of the room.    most_bytes: of vertices and triangles, which are simplified to that.
    What a link's shapes are, and why some could not be read, is said in `Scene.shapes`; nothing there is an error.
    Raises UsageError for a motion that does not fit the robot.
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


def _spread(vertices: Float) -> Float:
    return vertices[:: max(1, len(vertices) // _POINTS)]


def _standing(robot: RobotModel) -> Float:
    # Zero where the limits allow it, else the middle between them: an arm bent as its joints allow.
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
            expected=f"finite times that grow, and positions of {robot.n} joints at each",
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
        parts.append(f"boxes, cylinders and balls of {_counted(links['solid'])}")
    if links["capsule"]:
        parts.append(
            f"capsules between the joints for {_counted(links['capsule'])} without shapes that can be read"
        )
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
    """The robot as a log moved it.

    trajectory: name of one; None = the longest.    options: as for `scene_of`.
    Raises UsageError for a name that the log does not have, or a trajectory without two complete rows.
    """
    named = {candidate.name: candidate for candidate in log.trajectories}
    if trajectory is not None and trajectory not in named:
        raise UsageError(
            "no-trajectory", found=f"trajectory '{trajectory}'", expected="one of " + ", ".join(sorted(named))
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
            expected="positions of all joints",
        )
    return scene_of(log.robot, t, q, **options)


def positions_of(log: Log, trajectory: Trajectory) -> tuple[Float, Float]:
    """Times (T,), which grow, and positions (T, n) of the complete rows, one for each of twice as many as frames."""
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
