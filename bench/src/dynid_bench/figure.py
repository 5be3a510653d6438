"""Bars of the torque error on the made sets, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from dynid_bench.methods import METHODS
from dynid_bench.run import Row

COLOURS = ("#0072b2", "#8a939c", "#d98200", "#009e73", "#a05195", "#c44601")
WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 720.0, 130.0, 40.0, 9.0, 10.0, 34.0  # points
WORST = 0.3  # methods with larger errors than this on average are named and not drawn
LONGEST = 0.15  # error at which bars end; their numbers go on


def errors_svg(rows: Sequence[Row], about: Mapping[str, Mapping[str, Any]]) -> str:
    """Draw the error in motion of each method, by set and kind of held-out motion; sets of development are left out."""
    sets = [name for name in about if not about[name]["developed_on"]]
    errors: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        for region, score in row.get("torque", {}).items():
            if row["set"] in sets and score["moving"] is not None:
                errors.setdefault(row["method"], {})[row["set"], region] = score["moving"]
    means = {method: sum(values.values()) / len(values) for method, values in errors.items()}
    early = {method: METHODS[method].ended_early.partition(":")[0] for method in errors if method in METHODS}
    drawn = [method for method in errors if means[method] <= WORST and not early.get(method)]
    left_out = [method for method in errors if method not in drawn]
    groups = [(name, region) for name in sets for region in about[name]["regions"]]
    largest = max((errors[m].get(group, 0.0) for m in drawn for group in groups), default=1.0)
    scale = (WIDTH - LEFT - RIGHT) / min(largest, LONGEST)
    parts, y, last = list[str](), TOP, ""
    for name, region in groups:
        if name != last:
            parts.append(_label(6, y + 11, name.replace("_", " "), bold=True))
            y, last = y + 18, name
        parts.append(_label(LEFT - 6, y + 0.5 * BAR * len(drawn) + 4, region, anchor="end"))
        for i, method in enumerate(drawn):
            error = errors[method].get((name, region))
            if error is None:
                continue
            colour, length = COLOURS[i % len(COLOURS)], scale * min(error, LONGEST)
            parts.append(
                f'<rect x="{LEFT}" y="{y + i * BAR:.1f}" width="{length:.1f}" height="{BAR - 1}" '
                f'fill="{colour}"/>'
            )
            parts.append(_label(LEFT + length + 3, y + i * BAR + BAR - 1.5, f"{100 * error:.2g}", size=8))
        y += BAR * len(drawn) + GAP
    x = LEFT
    for i, method in enumerate(drawn):
        parts.append(f'<rect x="{x}" y="9" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>')
        parts.append(_label(x + 14, 18, method))
        x += 28 + 7 * len(method)
    ends = f"; bars end at {100 * LONGEST:.0f} %" if largest > LONGEST else ""
    parts.append(_label(LEFT, y + 10, f"torque error on held-out motion, %{ends}"))
    if left_out:
        texts = (
            f"{method} ({early.get(method) or f'{100 * means[method]:.0f} % on average'})"
            for method in left_out
        )
        parts.append(_label(LEFT, y + 25, "not drawn:"))
        y += 25
        for text in texts:
            y += 14
            parts.append(_label(LEFT + 12, y, text))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {y + 20:.0f}" '
        'font-family="Helvetica, Arial, sans-serif">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _label(x: float, y: float, text: str, anchor: str = "start", bold: bool = False, size: int = 11) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight} fill="#1f2933">'
        f"{escape(text)}</text>"
    )
