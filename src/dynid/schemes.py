"""Row schemes side by side on one log: parameters, intervals and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.diagnostics import Diagnostics
from dynid.errors import DynidError
from dynid.identification import Identification
from dynid.log.read import Log
from dynid.pipeline import identify
from dynid.robot.model import RobotModel
from dynid.rows.energy import EnergyRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.power import FilteredPowerRows, PowerRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.settings import Settings

SCHEMES: tuple[Rows, ...] = (TorqueRows(), MomentumRows(), EnergyRows(), PowerRows(), FilteredPowerRows())


@dataclass(frozen=True, eq=False)
class SchemeResult:
    """One scheme: its identification, or why there is none."""

    name: str
    identification: Identification | None
    failure: str = ""


def compare_schemes(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    validation: Log | None = None,
    threads: int | None = None,
    schemes: Sequence[Rows] = SCHEMES,
) -> tuple[SchemeResult, ...]:
    """Identifies with each scheme in turn, everything else alike; a scheme that fails is reported, not hidden."""
    chosen = settings or Settings()
    found = []
    for rows in schemes:
        try:
            result = identify(
                robot,
                log,
                replace(chosen, rows=rows),
                validation=validation,
                threads=threads,
                diagnostics=Diagnostics(),
            )
            found.append(SchemeResult(rows.name, result))
        except DynidError as error:
            found.append(SchemeResult(rows.name, None, str(error)))
    return tuple(found)


def scheme_lines(results: Sequence[SchemeResult]) -> list[str]:
    """A table of schemes: errors of torque, base parameters and how well they are known; then the parameters."""
    lines = [f"{'rows':<16}{'held-out':>10}{'training':>10}{'base':>6}{'condition':>11}{'median std':>12}"]
    for one in results:
        if one.identification is None:
            lines.append(f"{one.name:<16}{one.failure}")
            continue
        run = one.identification
        held_out = run.validations[0].scores.total_relative if run.validations else np.nan
        lines.append(
            f"{one.name:<16}{100 * held_out:>8.2f} %{100 * run.training.scores.total_relative:>8.2f} %"
            f"{run.estimate.base.rank:>6}{run.estimate.base.condition:>11.3g}"
            f"{100 * float(np.median(run.estimate.relative_std)):>10.2g} %"
        )
    return lines + _parameter_lines([one for one in results if one.identification is not None])


def _parameter_lines(results: Sequence[SchemeResult]) -> list[str]:
    tables = []
    for one in results:
        if one.identification is not None:
            e = one.identification.estimate
            tables.append(dict(zip(e.names, zip(e.value, e.half_width(), strict=True), strict=True)))
    names = dict.fromkeys(name for table in tables for name in table)
    lines = ["", "".join(f"{one.name:<24}" for one in results) + "base parameter"]
    for name in names:
        cells = [f"{t[name][0]:.4g} +- {t[name][1]:.2g}" if name in t else "-" for t in tables]
        lines.append("".join(f"{cell:<24}" for cell in cells) + name)
    return lines
