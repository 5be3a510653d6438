"""Still picture of a scene, drawn without a browser: for print, and for readers without scripts."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float, Int
from dynid.scene.scene import Scene

# As in scene.js: direction of light in the camera frame (right, up, ahead); ambient share of brightness; distance of
# the camera in radii of the scene; azimuth and elevation of the camera, rad.
LIGHT = np.array([-0.4, 0.55, -0.75]) / np.linalg.norm([-0.4, 0.55, -0.75])
AMBIENT, DISTANCE, TURN, RISE = 0.34, 2.1, 0.9, 0.42
_NEAR = 0.01  # m: triangles closer to the camera are not drawn
_FINER = 2  # samples along each side of a pixel, against jagged edges
_MARGIN = 0.04  # share of the picture that stays free on each side
_COMPRESSION = 6  # zlib level: 9 takes five times as long for a picture that is 7 % smaller
_SLIVER = 1e-9  # pixels^2: twice the area below which a triangle counts as seen from its edge


def still_png(scene: Scene, width: int = 760, height: int = 440, q: Float | None = None) -> bytes:
    """Draw a PNG of the robot on a transparent background; the same scene gives the same bytes.

    Parameters
    ----------
    scene : Scene
        The scene.
    width, height : int
        Size in pixels.
    q : ndarray, shape (n,), rad (m), optional
        Position of the joints; None = at the start of the motion.

    Returns
    -------
    bytes

    """
    wide, high = _FINER * width, _FINER * height
    nearness = np.zeros(wide * high)
    # Each sample has the index of its tint, 0 = empty; `tints` has the colour and coverage of each index.
    tint = np.zeros(wide * high, dtype=np.int32)
    tints = [np.zeros((1, 4))]
    pose = (scene.home if q is None else np.asarray(q))[None]
    R, p = scene.placements(pose)
    view, eye = _camera(scene, *scene.ball(pose))
    palette = [_rgb(item.colour.value) for item in scene.palette]
    drawn = [item for item in scene.surfaces if len(item.triangles)]
    seen = [(item.vertices @ R[0, item.body + 1].T + p[0, item.body + 1] - eye) @ view.T for item in drawn]
    flat = [x[:, :2] / np.maximum(x[:, 2:], _NEAR) for x in seen]
    robot = [x for item, x in zip(drawn, flat, strict=True) if item.kind != "obstacle"] or flat
    low, top = np.concatenate(robot).min(axis=0), np.concatenate(robot).max(axis=0)
    zoom = (1.0 - 2.0 * _MARGIN) * float(np.min(np.array([wide, high]) / np.maximum(top - low, 1e-9)))
    for surface, x, xy in zip(drawn, seen, flat, strict=True):
        a, b, c = (x[surface.triangles[:, k]] for k in range(3))
        normal = np.cross(b - a, c - a)
        normal /= np.maximum(np.linalg.norm(normal, axis=1), 1e-300)[:, None]
        shade = AMBIENT + (1.0 - AMBIENT) * np.abs(normal @ LIGHT)
        across = 0.5 * np.array([wide, high]) + zoom * (xy - 0.5 * (low + top)) * [1.0, -1.0]
        screen = np.column_stack([across, 1.0 / np.maximum(x[:, 2], _NEAR)])
        colours = np.minimum(np.outer(shade, palette[scene.owner(surface)]) * (255 / 225), 255.0)
        before = (x[surface.triangles, 2] > _NEAR).all(axis=1)
        number = sum(len(known) for known in tints) + np.arange(np.count_nonzero(before))
        _fill(nearness, tint, screen[surface.triangles[before]], number, wide, high)
        tints.append(np.column_stack([colours[before], np.ones(len(number))]))
    sample = np.flatnonzero(tint)  # only covered samples, since most of the picture is empty
    row, column = np.divmod(sample, wide)
    where, colour = row // _FINER * width + column // _FINER, np.concatenate(tints)[tint[sample]]
    total = np.column_stack([np.bincount(where, item, height * width) for item in colour.T])
    pixel = np.flatnonzero(total[:, 3])
    total = total[pixel]
    rgba = np.column_stack([total[:, :3] / total[:, 3:], 255.0 * total[:, 3] / _FINER**2])
    picture = np.zeros((height * width, 4), dtype=np.uint8)
    picture[pixel] = rgba.round()
    return _png(picture.reshape(height, width, 4))


def _camera(scene: Scene, centre: Float, radius: float) -> tuple[Float, Float]:
    # View matrix with rows right, up, ahead; position of the camera.
    up = scene.up
    side = np.array([0.0, 0.0, 1.0]) if abs(up[2]) < 0.9 else np.array([1.0, 0.0, 0.0])
    e = np.cross(up, side)
    e /= np.linalg.norm(e)
    g = np.cross(e, up)
    out = np.cos(RISE) * (np.cos(TURN) * g + np.sin(TURN) * e) + np.sin(RISE) * up
    right = np.cross(-out, up)
    right /= np.linalg.norm(right)
    view = np.stack([right, np.cross(right, -out), -out])
    return view, centre + DISTANCE * radius * out


def _fill(
    nearness: Float, tint: npt.NDArray[np.int32], corners: Float, number: Int, wide: int, high: int
) -> None:
    # corners (T, 3, 3) are x, y, 1/depth; number (T,) are tints in ascending order, greater than all drawn before.
    # Triangles are split into rows, rows into spans, spans into samples.
    first = np.ceil(corners[..., 1].min(axis=1) - 0.5).clip(0, high).astype(np.int64)
    last = np.floor(corners[..., 1].max(axis=1) - 0.5).clip(-1, high - 1).astype(np.int64)
    triangle, row = _counted_up(np.maximum(last - first + 1, 0))
    row += first[triangle]
    left, right = _spans(corners[triangle], row.astype(np.float64) + 0.5)
    start = np.ceil(left - 0.5).clip(0, wide).astype(np.int64)
    count = np.maximum(np.floor(right - 0.5).clip(-1, wide - 1).astype(np.int64) - start + 1, 0)
    span, column = _counted_up(count)
    plane = _planes(corners)[triangle]
    along, before = plane[:, 0], plane[:, 0] * (start + 0.5) + plane[:, 1] * (row + 0.5) + plane[:, 2]
    z = before[span] + along[span] * column
    at = (row * wide + start)[span] + column
    # At each sample the nearest triangle remains; of equally near ones the last, since numbers ascend.
    nearer = np.flatnonzero(z > nearness[at])
    span, at, z = span[nearer], at[nearer], z[nearer]
    np.maximum.at(nearness, at, z)
    nearest = np.flatnonzero(z == nearness[at])
    tint[at[nearest]] = number[triangle[span[nearest]]]


def _counted_up(count: Int) -> tuple[Int, Int]:
    # Each index repeated `count` times (0, 0, 0, 1, 1, ...), and the running number of each (0, 1, 2, 0, 1, ...).
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)


def _spans(corners: Float, y: Float) -> tuple[Float, Float]:
    # Where a row enters and leaves a triangle: its crossings with two of the three edges.
    left, right = np.full(len(y), np.inf), np.full(len(y), -np.inf)
    for k in range(3):
        a, b = corners[:, k], corners[:, (k + 1) % 3]
        rise = b[:, 1] - a[:, 1]
        share = (y - a[:, 1]) / np.where(rise == 0.0, np.inf, rise)
        x = a[:, 0] + share * (b[:, 0] - a[:, 0])
        crossed = (rise != 0.0) & (share >= 0.0) & (share <= 1.0)
        left = np.where(crossed, np.minimum(left, x), left)
        right = np.where(crossed, np.maximum(right, x), right)
    return np.where(left <= right, left, 1.0), np.where(left <= right, right, 0.0)


def _planes(corners: Float) -> Float:
    # (T, 3) planes z = p0 x + p1 y + p2 through three corners; constant z if the corners are collinear.
    a, u, v = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = u[:, 0] * v[:, 1] - v[:, 0] * u[:, 1]
    over = np.divide(1.0, area, out=np.zeros_like(area), where=np.abs(area) > _SLIVER)
    by_x, by_y = (
        (u[:, 2] * v[:, 1] - v[:, 2] * u[:, 1]) * over,
        (v[:, 2] * u[:, 0] - u[:, 2] * v[:, 0]) * over,
    )
    return np.column_stack([by_x, by_y, a[:, 2] - by_x * a[:, 0] - by_y * a[:, 1]])


def _rgb(colour: str) -> Float:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)


def _png(picture: npt.NDArray[np.uint8]) -> bytes:
    # PNG filter "up" (difference to the row above), which compresses flat colours well.
    height, width = picture.shape[:2]
    rows = picture.reshape(height, -1)
    above = np.concatenate([np.zeros((1, rows.shape[1]), dtype=np.uint8), rows[:-1]])
    body = np.concatenate([np.full((height, 1), 2, dtype=np.uint8), rows - above], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(body.tobytes(), _COMPRESSION)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
