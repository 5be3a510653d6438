"""The agreement of runs as lines for the terminal, and its pooled parameters as data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dynid.base.errors import UnfitDataError, UsageError
from dynid.run.agreement import ALPHA, Agreement, Runs, SharedParameter, agreement

# Parameters that are listed where runs differ.
_LISTED = 12


def agreement_or_reason(runs: Runs) -> tuple[Agreement | None, str]:
    """The agreement of runs; None and why where their parameters cannot be compared: other joints, hardly any data."""
    try:
        return agreement(runs), ""
    except (UsageError, UnfitDataError) as error:
        return None, f"agreement not tested: found {error.found}, expected {error.expected}"


def agreement_lines(found: Agreement) -> list[str]:
    """The answer, the pairs, what differs and by how much."""
    if not found.compared:
        return [f"agreement: {found.reason}"]
    lines = [
        f"agreement of {len(found.names)} runs: {100 * found.share:.1f} % of {found.compared} comparisons of base "
        f"parameters agree at 95 % (with textbook intervals {100 * found.textbook:.1f} %); r.m.s. z {found.rms_z:.2f}"
    ]
    if len(found.pairs) > 1:
        width = max(len(name) for name in found.names)
        lines += [
            f"  {pair.first:<{width}}  {pair.second:<{width}}  {pair.agree:>4} of {pair.compared:<4} "
            f"r.m.s. z {pair.rms_z:.2f}"
            for pair in found.pairs
            if pair.compared
        ]
    if found.together is not None:
        lines.append(
            f"all together: their differences are {found.together.ratio:.2f} times what the noise within them makes "
            f"(p = {found.together.p_value:.2g}; below {ALPHA:g} they disagree)"
        )
    if found.halves is not None:
        lines.append(f"halves of each run: {found.halves.ratio:.2f} times (p = {found.halves.p_value:.2g})")
    lines.append(f"{str(found.cause).upper()}: {found.reason}")
    moved = [
        f"{name} {100 * share:.2g} %"
        for name, share in zip(found.group_names, found.torque, strict=True)
        if share > 0
    ]
    if found.together is not None and found.together.p_value < ALPHA:
        lines.append(f"torque that the runs differ by, beyond chance: {', '.join(moved)}")
        lines += [f"  {change.what} would explain {100 * change.share:.3g} %" for change in found.changes]
    apart = sorted((one for one in found.parameters if not one.agrees), key=lambda one: one.p_value)
    pooled = sum(math.isfinite(one.pooled) for one in found.parameters)
    lines.append(
        f"base parameters: {len(found.parameters) - len(apart)} agree ({pooled} of them pooled), {len(apart)} do not"
    )
    lines += [f"  {_difference(found, one)}" for one in apart[:_LISTED]]
    lines += [f"  ... and {len(apart) - _LISTED} more"] if len(apart) > _LISTED else []
    return lines + [f"note: {note}" for note in found.notes]


def _difference(found: Agreement, one: SharedParameter) -> str:
    i, j = (found.names.index(name) for name in one.apart)
    gap = one.values[j] - one.values[i]
    torque = f", {100 * one.torque:.2g} % of {one.moves}'s torque" if math.isfinite(one.torque) else ""
    return (
        f"{one.formula}: {one.values[i]:.4g} in {one.apart[0]}, {gap:+.3g} {one.unit} in {one.apart[1]} "
        f"(z = {one.z:.1f}{torque})"
    )


def agreement_data(found: Agreement) -> dict[str, Any]:
    """Everything as plain data: figures, cause, and every base parameter by run and pooled; null = not known."""
    return {
        "runs": list(found.names),
        "comparisons": found.compared,
        "agree": _number(found.share),
        "agree_textbook": _number(found.textbook),
        "rms_z": _number(found.rms_z),
        "p_value": None if found.together is None else found.together.p_value,
        "cause": str(found.cause),
        "reason": found.reason,
        "notes": list(found.notes),
        "changes": [
            {"what": change.what, "explains": change.share, "p_value": change.p_value}
            for change in found.changes
        ],
        "pairs": [
            {
                "runs": [pair.first, pair.second],
                "comparisons": pair.compared,
                "agree": pair.agree,
                "rms_z": _number(pair.rms_z),
            }
            for pair in found.pairs
        ],
        "parameters": [
            {
                "formula": one.formula,
                "unit": one.unit,
                "agree": one.agrees,
                "pooled": _number(one.pooled),
                "half_width95": _number(one.half),
                "z": _number(one.z),
                "p_value": one.p_value,
                "runs": {
                    name: {"value": _number(value), "std": _number(std)}
                    for name, value, std in zip(found.names, one.values, one.std, strict=True)
                    if np.isfinite(value)
                },
            }
            for one in found.parameters
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
