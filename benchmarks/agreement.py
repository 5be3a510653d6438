"""Do repeated runs of one robot agree? Base parameters of real logs, pair by pair, and what dynid says of each case.

    python benchmarks/agreement.py [--data FOLDER] [--write PAGE] [--figure docs/images/agreement.svg]

PAGE is docs/is-my-model-good.md.

Every run is made twice: by weighted least squares with the default terms, offsets included, at the cut-off that is
known for the log (that of benchmarks/real.py), and by the default settings, which choose model and cut-off. The
figure shows the first case: differences of two runs over their standard deviation, by dynid's intervals and by
those of the textbook, which take residuals as independent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from pages import parser_of, written
from real import ROBOTS

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.estimate.least_squares import WLS
from dynid.identification.experiment import Experiment, open_log
from dynid.identification.pipeline import identify
from dynid.identification.schema import SelectionEntry
from dynid.identification.settings import DEFAULT_TERMS, Settings
from dynid.robot.load import load_robot
from dynid.run.agreement import Agreement, agreement
from dynid.run.result import Identification
from dynid.run.shared_parameters import Fit, Shared
from dynid.signals.settings import Preparation


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
    places = [data / case.folder, ROBOTS]
    robot_file, mapping = (
        next(p / n for p in places if (p / n).is_file()) for n in (case.robot, case.mapping)
    )
    experiment = Experiment.read(mapping)
    robot = experiment.with_drives(load_robot(robot_file))
    plain = Settings(terms=DEFAULT_TERMS, estimator=WLS(), preparation=Preparation(cutoff=case.cutoff))
    found = []
    for one in case.recordings:
        chosen = one if isinstance(one, str) else SelectionEntry(part=one)
        diagnostics = Diagnostics()
        log = open_log(experiment, [data / case.folder / "data.parquet"], robot, [chosen], diagnostics)
        settings = Settings() if default else plain
        found.append((str(one).split("-")[-1], identify(robot, log, settings, diagnostics=diagnostics)))
    return found


def row(case: Case, default: bool, found: Agreement) -> str:
    """A line of the table."""
    settings = "default" if default else f"wls, {case.cutoff:g} Hz"
    tests = [f"{test.p_value:.2g}" if test else "-" for test in (found.together, found.halves)]
    cells = (
        case.title, settings, str(found.compared), f"{100 * found.share:.1f} %", f"{100 * found.textbook:.1f} %",
        f"{found.rms_z:.2f}", *tests, f"{found.cause}: {found.reason}" if found.changes else str(found.cause),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


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


# Pixels: size of the picture, of the panels, and between them.
WIDTH, HEIGHT, LEFT, TOP, PANEL, TALL, GAP = 880, 380, 62, 78, 384, 236, 34
SPAN = 12.0
INK, FAINT, BAND, OURS, THEIRS = "#1f2933", "#6b7785", "#e3f1e6", "#1a7f4b", "#c2410c"


def figure(runs: Sequence[tuple[str, Identification]], found: Agreement) -> str:
    """SVG: differences between runs by parameter, in standard deviations, beside the band that 95 % should lie in."""
    place, ours, textbook = z_scores(runs)
    count = int(place.max()) + 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 28, f"Do recordings of one robot give the same parameters? UR10e, {len(runs)} motions, "
             f"{found.compared} comparisons", 16, weight="bold"),
        text(LEFT, 47, "Difference of two recordings over its standard deviation, by base parameter", 13, FAINT),
    ]  # fmt: skip
    for k, (z, title, share, color) in enumerate(
        (
            (ours, "dynid", found.share, OURS),
            (textbook, "textbook: residuals taken as independent", found.textbook, THEIRS),
        )
    ):
        x0 = LEFT + k * (PANEL + GAP)
        parts += panel(x0, place, z, count, color)
        parts.append(text(x0, TOP - 8, f"{title}: {100 * share:.0f} % agree", 14, color, weight="bold"))
    middle = TOP + TALL / 2
    parts.append(
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle" font-size="13" fill="{INK}">'
        "standard deviations</text>"
    )
    parts.append(
        text(LEFT, HEIGHT - 12, "Green band: where 95 % of the differences belong if the robot did not change. "
             f"Dots beyond \u00b1{SPAN:g} stand at the edge.", 12, FAINT)
    )  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(x0: float, place: Float, z: Float, count: int, color: str) -> list[str]:
    """One pair of axes with its dots."""

    def height(value: float) -> float:
        return TOP + TALL / 2 * (1.0 - float(np.clip(value, -SPAN, SPAN)) / SPAN)

    parts = [
        f'<rect x="{x0}" y="{height(1.96):.1f}" width="{PANEL}" height="{height(-1.96) - height(1.96):.1f}" '
        f'fill="{BAND}"/>'
    ]
    for level in (-10, -5, 0, 5, 10):
        y = height(level)
        parts.append(
            f'<line x1="{x0}" x2="{x0 + PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d5dbe1" stroke-width="0.7"/>'
        )
        if x0 == LEFT:
            parts.append(text(x0 - 8, y + 4, f"{level}".replace("-", "\u2212"), 12, FAINT, "end"))
    for where, value in zip(place, z, strict=True):
        x = x0 + PANEL * (where + 0.5) / count
        parts.append(
            f'<circle cx="{x:.1f}" cy="{height(value):.1f}" r="2.4" fill="{color}" fill-opacity="0.55"/>'
        )
    parts.append(
        f'<rect x="{x0}" y="{TOP}" width="{PANEL}" height="{TALL}" fill="none" stroke="#9aa5b1" stroke-width="0.8"/>'
    )
    for number in (1, *range(10, count + 1, 10)):
        x = x0 + PANEL * (number - 0.5) / count
        parts.append(text(x, TOP + TALL + 16, str(number), 12, FAINT, "middle"))
    parts.append(text(x0 + PANEL / 2, TOP + TALL + 34, "base parameter", 13, INK, "middle"))
    return parts


def text(
    x: float, y: float, words: str, size: int, color: str = INK, anchor: str = "start", weight: str = "normal"
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{words}</text>'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the cases, prints the table, writes it and the figure."""
    parser = parser_of(__doc__)
    parser.add_argument("--figure", type=Path, help="SVG file of the first case")
    options = parser.parse_args(arguments)
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for k, case in enumerate(CASES):
        if not (options.data / case.folder).is_dir():
            print(f"{case.title}: no folder '{options.data / case.folder}': set DYNID_DATA", file=sys.stderr)
            continue
        for automatic in (False, True):
            runs = runs_of(case, options.data, automatic)
            found = agreement(runs)
            lines.append(row(case, automatic, found))
            print(lines[-1], file=sys.stderr, flush=True)
            if options.figure and k == 0 and not automatic:
                options.figure.write_text(figure(runs, found), encoding="utf-8")
    table = "\n".join(lines)
    print(table)
    if options.write:
        options.write.write_text(written(options.write.read_text(), "agreement.py", table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
