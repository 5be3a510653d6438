"""Do repeated runs of one robot agree? Base parameters of real logs, pair by pair, and what dynid says of each case.

    python benchmarks/agreement.py [--data FOLDER] [--write PAGE] [--figure docs/images/agreement.svg]

PAGE is docs/is-my-model-good.md.

Every run is made twice: by weighted least squares with the default terms, offsets included, at the cut-off that is
known for the log (that of benchmarks/real.py), and by the default settings, which choose model and cut-off. The
figure shows the first case: differences of two runs over their standard deviation, by dynid's intervals and by
those of the textbook, which take residuals as independent.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import markdown, note, on_real_logs, publish

import numpy as np
from dynid_studies.svg import figure_svg

from benchmarks.real import opened
from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import DEFAULT_TERMS, Settings, identify, open_log
from dynid.log import Selection
from dynid.report import BLUE, VERMILION, Axis, Figure, Panel, dots, row_of
from dynid.report.figures import level_band
from dynid.run import Agreement, Identification
from dynid.run.agreement import agreement
from dynid.run.shared_parameters import Fit, Shared
from dynid.signals import Preparation


@dataclass(frozen=True)
class Case:
    """Recordings of one robot: names of trajectories, or parts of the only one."""

    title: str
    folder: str
    robot: str
    mapping: str
    cutoff: float
    recordings: tuple[str | tuple[float, float], ...]


UR10E = "ur10e_innopolis"
CASES = (
    Case(
        "`ur10e_innopolis`: five motions, nine days", UR10E, f"{UR10E}.toml", f"{UR10E}.experiment.toml", 8.0,
        ("id/ur-20_02_10-30sec_12harm", "id/ur-20_02_12-40sec_12harm", "id/ur-20_02_12-50sec_12harm",
         "id/ur-20_02_19_14harm50sec", "id/ur-20_02_19_15harm50sec"),
    ),
    Case("`lwr4_flobaroid`: one motion twice", "lwr4_flobaroid", "robot.toml", "mapping.toml", 8.0, ("m1", "m2")),
    Case("`tx40_lirmm`: halves of one log", "tx40_lirmm", "robot.toml", "mapping.toml", 30.0, ((0.0, 0.5), (0.5, 1.0))),
    Case("`krang_lwa3`: train, test", "krang_lwa3", "robot.toml", "mapping.toml", 3.0, ("train", "test")),
    Case(
        "`ur10e_innopolis`: without and with 2.8 kg", UR10E, f"{UR10E}.toml", f"{UR10E}.experiment.toml", 8.0,
        ("id/ur-20_02_19_14harm50sec", "id/ur-20_02_19_14harm50secLoad"),
    ),
)  # fmt: skip
HEAD = (
    "recordings", "settings", "comparisons", "agree at 95 %", "textbook intervals", "r.m.s. z", "all together: p",
    "halves: p", "dynid says",
)  # fmt: skip


def runs_of(case: Case, data: Path, default: bool) -> list[tuple[str, Identification]]:
    """The case's runs, with default settings or by weighted least squares."""
    experiment, robot = opened(case.folder, case.robot, case.mapping, data)
    plain = Settings(terms=DEFAULT_TERMS, estimator=WLS(), preparation=Preparation(cutoff=case.cutoff))
    runs = []
    for recording in case.recordings:
        chosen = recording if isinstance(recording, str) else Selection(part=recording)
        diagnostics = Diagnostics()
        log = open_log(experiment, [data / case.folder / "data.parquet"], robot, [chosen], diagnostics)
        settings = Settings() if default else plain
        runs.append((str(recording).split("-")[-1], identify(robot, log, settings, diagnostics=diagnostics)))
    return runs


def row(case: Case, default: bool, result: Agreement) -> Sequence[str]:
    """A line of the table."""
    settings = "default" if default else f"wls, {case.cutoff:g} Hz"
    tests = [f"{test.p_value:.2g}" if test else "-" for test in (result.together, result.halves)]
    return (
        case.title, settings, str(result.compared), f"{100 * result.share:.1f} %", f"{100 * result.textbook:.1f} %",
        f"{result.rms_z:.2f}", *tests, f"{result.cause}: {result.reason}" if result.changes else str(result.cause),
    )  # fmt: skip


def z_scores(runs: Sequence[tuple[str, Identification]]) -> tuple[Float, Float, Float]:
    """(n,) number of the parameter, and differences of every pair over their std: dynid's and the textbook's."""
    fits = [Fit.of(run) for _, run in runs]
    place, ours, textbook = [], [], []
    for pair in combinations(fits, 2):
        shared = Shared.of(pair)
        gap = shared.values[0] - shared.values[1]
        place.append(np.arange(len(gap), dtype=np.float64))
        ours.append(gap / np.hypot(*shared.std))
        textbook.append(gap / np.hypot(*shared.textbook_std))
    return np.concatenate(place), np.concatenate(ours), np.concatenate(textbook)


SPAN = 12.0  # standard deviations that the figure shows


def figure(runs: Sequence[tuple[str, Identification]], result: Agreement) -> Figure:
    """Differences between runs by parameter, in standard deviations, and the band that should contain 95 % of them."""
    place, ours, textbook = z_scores(runs)
    panels = [
        Panel(
            (dots(place + 1, np.clip(z, -SPAN, SPAN), "", color),),
            Axis("base parameter", span=(0.0, float(place.max()) + 2.0)),
            Axis(
                "difference / standard deviation" if color == BLUE else "", span=(-1.05 * SPAN, 1.05 * SPAN)
            ),
            (level_band(-1.96, 1.96),),
            f"{title}: {100 * share:.0f} % agree",
        )
        for title, z, share, color in (
            ("dynid", ours, result.share, BLUE),
            ("textbook: residuals taken as independent", textbook, result.textbook, VERMILION),
        )
    ]
    return row_of(panels, 340)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases, prints the table, writes it and the figure."""
    given = on_real_logs(__doc__, arguments, figure=Path)
    lines = []
    for k, case in enumerate(CASES):
        if not (given.data / case.folder).is_dir():
            note(f"{case.title}: no folder '{given.data / case.folder}': set DYNID_DATA")
            continue
        for automatic in (False, True):
            runs = runs_of(case, given.data, automatic)
            result = agreement(runs)
            lines.append(row(case, automatic, result))
            note(*lines[-1])
            if given.figure and k == 0 and not automatic:
                given.figure.write_text(figure_svg(figure(runs, result), 880.0), encoding="utf-8")
    publish(markdown(HEAD, lines), "agreement.py", given.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
