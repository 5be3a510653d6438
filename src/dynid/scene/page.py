"""Scenes as HTML: a whole document or a part of one; offline, with a strict security policy."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.pages import own_text, page_policy, script_json
from dynid.base.records import dataclass
from dynid.scene.scene import Scene
from dynid.scene.still import still_png

ASSETS = Path(__file__).parent / "assets"
# Steps of a position in the bounding box of a surface, 16 bits: 0.01 mm in a link of 0.6 m.
_STEPS = 65535
STILL = (640, 370)  # pixels of the picture for print: 100 dpi on a page, some 60 kB
_GRID = 8  # grid lines on each side of the centre
_HINT = "Drag or arrow keys: turn. Wheel or + and -: zoom. Shift: move. Home: reset"
_TURN = np.pi  # rad: range of the slider of a joint without limits, to each side


@dataclass(frozen=True)
class Fragment:
    """A scene as a part of a page.

    Parameters
    ----------
    html : str
        Element of the scene; a page may have several.
    script, style : str
        Once per page; the page's policy must contain the hash of the script (`page_policy`).

    """

    html: str
    script: str
    style: str


def scene_page(scene: Scene, title: str = "", below: Fragment | None = None) -> str:
    """Render a scene as a whole HTML document: robot, motion with controls, and sliders for the joints.

    The document needs no network, no WebGL and no other file.

    Parameters
    ----------
    scene : Scene
        The scene.
    title : str
        Title; "" = name of the robot.
    below : Fragment, optional
        Part below the scene, for example the recorded signals.

    Returns
    -------
    str

    """
    title = title or scene.robot.name or "robot"
    part = scene_fragment(scene, label=title, full=True)
    return document(title, (part,) if below is None else (part, below))


def document(title: str, parts: Sequence[Fragment], before: str = "") -> str:
    """Render parts as a whole HTML document without references to other files; before: markup above them."""
    scripts = [part.script for part in parts]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(page_policy(scripts))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="dynid">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{"".join(part.style for part in parts)}{own_text(ASSETS / "page.css")}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{before}{chr(10).join(part.html for part in parts)}
{chr(10).join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def scene_fragment(scene: Scene, label: str = "", full: bool = False, follows: str = "") -> Fragment:
    """Render a scene as a part of a page.

    Parameters
    ----------
    scene : Scene
        The scene.
    label : str
        Text for screen readers.
    full : bool
        Whether the scene fills the page: the motion starts at once, and the wheel zooms without a click.
    follows : str
        Value of the attribute data-follows, by which figures find the scene. The scene sends the event "scene-time"
        with detail.t, s, and accepts "scene-seek".

    Returns
    -------
    Fragment

    """
    still = base64.b64encode(still_png(scene, *STILL)).decode("ascii")
    label = escape(label or f"{scene.robot.name or 'robot'} in 3-D", quote=True)
    legend = "".join(
        f'<li><i style="background:{entry.value}"></i>{escape(entry.meaning)}</li>' for entry in scene.legend
    )
    html = f"""<div class="scene" data-follows="{escape(follows, quote=True)}">
<div class="scene-view"><img class="scene-still" alt="{label}" src="data:image/png;base64,{still}"><canvas tabindex="0" role="img" aria-label="{label}. {_HINT}."></canvas></div>
<p class="scene-said" aria-live="polite"></p>
<div class="scene-bar" hidden><button type="button" class="timed" data-act="play">Play</button><input class="timed" type="range" min="0" max="1" value="0" step="any" aria-label="time"><output class="timed">0.00 s</output><select class="timed" aria-label="speed"><option value="0.25">0.25 x</option><option value="0.5">0.5 x</option><option value="1" selected>1 x</option><option value="2">2 x</option><option value="5">5 x</option></select><button type="button" data-act="front">Front</button><button type="button" data-act="side">Side</button><button type="button" data-act="top">Top</button><button type="button" data-act="reset">Reset</button></div>
{f'<ul class="scene-legend">{legend}</ul>' if legend else ""}
<details class="scene-joints"><summary>Joints</summary><div class="scene-sliders"></div></details>
<p class="scene-note">{escape(scene.shapes)}</p>
<script type="application/json" class="scene-data">{script_json(_data(scene, full))}</script>
</div>"""  # noqa: E501  (markup)
    return Fragment(html, own_text(ASSETS / "scene.js"), own_text(ASSETS / "scene.css"))


def _data(scene: Scene, full: bool) -> dict[str, Any]:
    robot = scene.robot
    centre, radius = scene.extent
    surfaces = [item for item in scene.surfaces if len(item.triangles)]
    parts, packed = [], []
    for item in surfaces:
        low = item.vertices.min(axis=0)
        step = np.ptp(item.vertices, axis=0) / _STEPS
        packed.append(((item.vertices - low) / np.where(step > 0, step, 1.0)).round().astype("<u2"))
        parts.append(
            {
                "body": item.body,
                "link": scene.owner(item),
                "v": len(item.vertices),
                "t": len(item.triangles),
                "low": _rounded(low),
                "step": [float(f"{x:.8g}") for x in step],
            }
        )
    lower, upper = _ranges(scene)
    return {
        "full": full,
        "hint": _HINT + ".",
        "joints": [
            {"name": name, "slides": slides, "lower": float(low), "upper": float(high)}
            for name, slides, low, high in zip(robot.joint_names, robot.prismatic, lower, upper, strict=True)
        ],
        "links": [
            {"name": name, "colour": item.colour.value, "said": item.said}
            for name, item in zip(scene.names, scene.palette, strict=True)
        ],
        "tree": {
            "parent": robot.parent.tolist(),
            "prismatic": robot.tree.prismatic.tolist(),
            "axis": robot.axis.tolist(),
            "placement": [[*T[:3, :3].ravel().tolist(), *T[:3, 3].tolist()] for T in robot.T_parent_joint],
            "projection": robot.projection.tolist(),
            "offset": robot.projection_offset.tolist(),
        },
        "home": scene.home.tolist(),
        "motion": _motion(scene),
        "up": scene.up.tolist(),
        "centre": _rounded(centre),
        "radius": float(f"{radius:.5g}"),
        "outermost": [_rounded(point) for point in scene.outermost],
        "grid": [_rounded(line) for line in _grid(scene)],
        "lines": [_rounded(line) for line in scene.lines],
        "parts": parts,
        "vertices": _base64(np.concatenate(packed)) if packed else "",
        "triangles": _base64(np.concatenate([item.triangles.astype("<u2") for item in surfaces]))
        if packed
        else "",
    }


def _motion(scene: Scene) -> dict[str, Any] | None:
    if not len(scene.times):
        return None
    return {"step": float(scene.times[1] - scene.times[0]), "q": _base64(scene.q.astype("<f4"))}


def _ranges(scene: Scene) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    limits, seen = scene.robot.limits, np.vstack([scene.q, scene.home[None]])
    low = np.where(np.isfinite(limits.lower), limits.lower, scene.home - _TURN)
    high = np.where(np.isfinite(limits.upper), limits.upper, scene.home + _TURN)
    return np.minimum(low, seen.min(axis=0)), np.maximum(high, seen.max(axis=0))


def _grid(scene: Scene) -> npt.NDArray[np.float64]:
    # A square grid on the ground, as wide as the robot reaches, with a round spacing.
    _, radius = scene.extent
    wide = 10.0 ** np.floor(np.log10(radius / 4.0))
    wide *= next(f for f in (1.0, 2.0, 5.0, 10.0) if f * wide * _GRID >= 1.3 * radius)
    up = scene.up
    x = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
    x /= np.linalg.norm(x)
    y, half, ground = np.cross(up, x), _GRID * wide, scene.floor * up
    lines = []
    for k in range(-_GRID, _GRID + 1):
        lines += [
            np.concatenate([ground + k * wide * x - half * y, ground + k * wide * x + half * y]),
            np.concatenate([ground + k * wide * y - half * x, ground + k * wide * y + half * x]),
        ]
    return np.array(lines)


def _rounded(values: npt.ArrayLike) -> list[float]:
    return [round(float(x), 6) for x in np.asarray(values)]


def _base64(values: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
