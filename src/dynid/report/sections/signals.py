"""Preparation of the signals, and the evidence for the cutoff frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.report.figures import CYCLE, DASHES, GREY, INK, Axis, Panel, line, row_of, time_line
from dynid.report.section import Page, render
from dynid.report.text import label, number, tables
from dynid.run.result import Identification

_FREQUENCY_KEYS = ("frequency", "frequencies", "frequency_hz")
_PER_ROW = 3


class SignalsSection:
    """Filters, rates and cutoff frequencies, with spectra."""

    anchor = "signals"
    title = "Signals"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Spectra with the cutoff frequencies marked, and the other settings as tables."""
        spectra: list[tuple[str, Float, Float]] = []
        preparation = {key: value for key, value in identification.preparation.items() if key != "rows"}
        rest = _without_spectra(preparation, spectra)
        chosen = cut_offs(preparation)
        plots = []
        for first in range(0, len(spectra), _PER_ROW):
            group = spectra[first : first + _PER_ROW]
            panels = [_panel(name, f, values, chosen) for name, f, values in group]
            plots.append(
                page.figure(row_of(panels, 300), "spectra of " + ", ".join(name for name, _, _ in group))
            )
        return render(
            "signals.html.jinja",
            {
                "plots": plots,
                "sentences": sentences(preparation),
                "legend": [
                    (name, CYCLE[i % len(CYCLE)], DASHES[(i // len(CYCLE)) % len(DASHES)])
                    for i, name in enumerate(identification.robot.joint_names)
                ],
                "tables": tables(rest) if rest else "",
                "rows": identification.preparation.get("rows"),
                "noise": _noise(identification.preparation.get("rows")),
            },
        )


def sentences(preparation: Mapping[str, Any]) -> list[str]:
    """How the signals were prepared, in words; empty for a run without a record of it."""
    settings: Mapping[str, Any] = preparation.get("settings") or {}
    source, samples, equations = (
        preparation.get(f"{name}_rate_hz") for name in ("source", "sample", "equation")
    )
    lines: list[str] = []
    if source and samples:
        reduced = f", reduced to {number(samples)} Hz after filtering" if samples < source else ""
        fitted = f"; equations are fitted at {number(equations)} Hz" if equations else ""
        lines.append(f"The log has {number(source)} samples per second{reduced}{fitted}.")
    if isinstance(settings.get("cutoff"), float):
        reason = (preparation.get("evidence") or {}).get("reason", "")
        lines.append(
            "Both sides of the equations, and measured and predicted torque, are low-passed at "
            f"{number(settings['cutoff'])} Hz (Butterworth of order {settings['order']}, forward and backward)"
            f"{f', {reason}' if reason else ''}."
        )
    if (positions := _span(settings.get("state_cutoff"))) is not None:
        lines.append(f"Positions are low-passed at {positions} Hz before they are differentiated.")
    crossover = settings.get("crossover")
    if settings.get("velocity") == "differentiate":
        lines.append("Velocities are derivatives of the positions.")
    elif settings.get("velocity") == "measured":
        below = _span(crossover)
        lines.append(
            "Velocities are those of the log"
            + ("." if below in (None, "0") else f", below {below} Hz derivatives of the positions.")
        )
    for name, text in (
        ("shortest", "Segments shorter than {} s are left out."),
        ("trim", "{} s are left out at both ends of each segment."),
        ("rest", "Samples are left out while all joints are slower than {} rad/s (m/s)."),
        ("gate", "Equations of a joint slower than {} rad/s (m/s) are left out."),
    ):
        value = settings.get(name)
        if isinstance(value, int | float) and value > 0:
            lines.append(text.format(number(value)))
    return lines


def _span(values: object) -> str | None:
    """One number or "least to largest" of several; None without numbers."""
    numbers = [values] if isinstance(values, int | float) else values
    if (
        not isinstance(numbers, list | tuple)
        or not all(isinstance(x, int | float) for x in numbers)
        or not numbers
    ):
        return None
    low, high = number(min(numbers)), number(max(numbers))
    return low if low == high else f"{low} to {high}"


def cut_offs(data: Mapping[str, object]) -> dict[str, float]:
    """Cutoff frequencies anywhere in plain data, or under "chosen", in Hz."""
    frequencies: dict[str, float] = {}

    def visit(value: object, name: str, named: bool) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                here = str(key).lower().replace("-", "").replace("_", "")
                visit(item, str(key), named or "cutoff" in here or here == "chosen")
        elif named and isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            frequencies.setdefault(name, float(value))

    visit(data, "", False)
    distinct = {value: name for name, value in reversed(frequencies.items()) if value > 0}
    return {name: value for value, name in reversed(distinct.items())}


def _noise(rows: object) -> list[tuple[str, float]]:
    """Joints with the share of noise in the power of their acceleration, if the equations were chosen by it."""
    if not isinstance(rows, Mapping):
        return []
    evidence = rows["evidence"].get("acceleration")
    if evidence is None:
        return []
    return [(j, x) for j, x in zip(evidence["joints"], evidence["share"], strict=True) if x is not None]


def _without_spectra(data: Mapping[str, Any], spectra: list[tuple[str, Float, Float]]) -> dict[str, Any]:
    frequency = next((_vector(data[key]) for key in _FREQUENCY_KEYS if key in data), None)
    rest: dict[str, Any] = {}
    for key, value in data.items():
        lines = (
            _lines(value, len(frequency)) if frequency is not None and key not in _FREQUENCY_KEYS else None
        )
        if frequency is not None and lines is not None:
            spectra.append((label(key), frequency, lines))
        elif isinstance(value, Mapping):
            inner = _without_spectra(value, spectra)
            if inner:
                rest[key] = inner
        elif frequency is None or key not in _FREQUENCY_KEYS:
            rest[key] = value
    return rest


def _vector(value: object) -> Float | None:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return array if array.ndim == 1 and len(array) > 1 else None


def _lines(value: object, length: int) -> Float | None:
    """Spectra (n_joints, length) from either orientation; None for other values."""
    if isinstance(value, Mapping):
        try:
            value = list(value.values())
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            return None
    else:
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            return None
    if array.ndim == 1 and array.shape == (length,):
        return array[None, :]
    if array.ndim != 2 or length not in array.shape:
        return None
    return array if array.shape[1] == length else array.T


def _panel(name: str, frequency: Float, values: Float, chosen: Mapping[str, float]) -> Panel:
    shown = frequency > 0
    x = frequency[shown]
    traces = tuple(
        line(x, np.where(row[shown] > 0, row[shown], np.nan), f"joint {i + 1}", CYCLE[i % len(CYCLE)], 1.1,
             DASHES[(i // len(CYCLE)) % len(DASHES)])
        for i, row in enumerate(values)
    )  # fmt: skip
    top = float(np.nanmax(values[:, shown], initial=1e-30))
    inside = [value for value in chosen.values() if x.size and x[0] <= value <= x[-1]]
    return Panel(
        traces=traces,
        x=Axis("frequency, Hz", log=True, span=(float(x[0]), float(x[-1]))),
        y=Axis("power density", log=True, span=(max(top, 1e-30) * 1e-10, max(top, 1e-30) * 3)),
        shapes=tuple(time_line(value, INK if i == 0 else GREY, "dash") for i, value in enumerate(inside)),
        title=name,
    )
