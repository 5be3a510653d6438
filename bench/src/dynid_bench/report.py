"""The rows of a campaign as Markdown and as one HTML page without scripts or network."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

from markupsafe import Markup, escape

from dynid_bench.dataset import REGIONS
from dynid_bench.methods import METHODS
from dynid_bench.run import Row
from dynid_bench.wrench import METHODS as POSE_METHODS
from dynid_bench.wrench import pose_recipes, read_pose_recipe

REFERENCE, OURS = "least-squares", "dynid"
DASH = "-"
TITLE = "Benchmark"
FIGURE = "images/benchmark.svg"
CAPTION = "Torque error on held-out motion of the made sets"
INTRO = """\
Methods of several projects on the same logs, by one command. Each gets the same training motion and the robot file,
runs the authors' own package in an environment of its own, and predicts the torque of motion that it has not seen.
Splits and scores were fixed in a commit before dynid ran on them. After quick runs one score and one adapter
changed: exported links may miss the border of those that can exist by a millionth, and dynid's adapter took joint
torque for motor torque and ignored the estimated delay of commands. Losses stay in the tables."""
COMMANDS = """\
dynid bench run --made --out results
dynid bench report --out results"""
HOW = """\
These lines run the two made sets, which need no data, and write `results/benchmark.md` and `results/benchmark.html`.
Logs of real robots are fetched into a folder that `DYNID_DATA` names; environments of the methods are folders below
`DYNID_BENCH_ENVS`. The README of `bench/` says how, and how to add a log or a method."""
SCORES = (
    "**torque error**: `norm(tau - tau_hat) / norm(tau)` over all joints of held-out motion, both filtered alike at "
    "the set's cutoff frequency, on samples in motion (a joint faster than 0.02 rad/s or m/s) / on all samples. "
    "`same` is new motion of the same kind, `repeated` the training motion once more, `moves` moves from pose to pose.",
    "**replay**: r.m.s. position error after 0.2 s under measured torque from a measured state, by the exported model "
    "in MuJoCo; a URDF has no rotor inertia. **export**: whether MuJoCo reads the exported links, which it refuses "
    "if they cannot exist.",
    "**inertia**: error of the joint-space inertia matrix, scaled by its true diagonal; made sets only.",
    "**payload**: estimated mass with half its 95 % interval, and the true one.",
    "**agree**: share of pairs of estimates from separate recordings of the robot whose difference lies within their "
    "95 % intervals (95 % if these are right), and the median half width as a share of the value. Parameters are the "
    "method's own: compare the width only beside the share.",
    "**processor**: time of all processes on one core, with exports and payloads. **lines**: what a user of the "
    "package writes for identification and prediction.",
)


NOT_SCORED = (
    "`icub_standing` (humanoid on its feet): its log has no joint torque, without which no method here can be scored. "
    "`dynid identify` with the configuration of [floating bases](floating-base.md) says: `error[no-effort] found no "
    "column of effort, such as tau_l_hip_pitch; expected torque or current of every joint`.",
)
POSE_SCORES = (
    "r.m.s. error of an axis on held-out poses, and the estimated mass: least and greatest of the folds, and the "
    "median half of the method's own 95 % interval. The true mass is not known."
)


@dataclass(frozen=True)
class Table:
    """A table of text cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, lists, code and tables."""

    title: str
    blocks: Sequence[str | Sequence[str] | Table]
    code: str = ""


@dataclass(frozen=True)
class Column:
    """A score of a set: name, value of a row (smaller is better; None = none) and its text."""

    name: str
    value: Callable[[Row], float | None]
    text: Callable[[Row], str]


def columns_of(about: Mapping[str, Any], rows: Sequence[Row]) -> list[Column]:
    """Columns of a set that some row has."""
    columns = [
        Column(f"{region}, %", _value(region), _text(region))
        for region in REGIONS
        if region in about["regions"]
    ]
    columns += [
        Column(
            "replay, mrad",
            lambda row: _finite(row.get("replay")),
            lambda row: _number(row.get("replay"), 1e3),
        ),
        Column(
            "inertia, %",
            lambda row: _finite(row.get("inertia")),
            lambda row: _number(row.get("inertia"), 1e2),
        ),
        Column("payload, kg", _payload_error, _payload_text),
        Column("agree (width), %", _disagreement, _agreement_text),
        Column("processor, s", lambda row: row.get("seconds") if "torque" in row else None, _seconds),
    ]
    return [column for column in columns if any(column.value(row) is not None for row in rows)]


def error_of(row: Row) -> float | None:
    """Geometric mean of the torque errors in motion over the regions of a set."""
    errors = [score["moving"] for score in row.get("torque", {}).values() if score["moving"]]
    return math.exp(sum(map(math.log, errors)) / len(errors)) if errors else None


def sections_of(
    rows: Sequence[Row], about: Mapping[str, Mapping[str, Any]], posed: Sequence[Row] = ()
) -> list[Section]:
    """The page.    posed : rows of sets of poses."""
    sets = [name for name in about if any(row["set"] == name for row in rows)]
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    methods += sorted({row["method"] for row in rows} - set(methods))
    cells = {(row["set"], row["method"]): row for row in rows}
    return [
        Section("Run it", [HOW], COMMANDS),
        _summary(sets, methods, cells, about),
        Section("Scores", [list(SCORES)]),
        Section("Logs without a score", [list(NOT_SCORED)]),
        *(
            _set_section(about[name], [cells[name, m] for m in methods if (name, m) in cells])
            for name in sets
        ),
        *(
            _pose_section(path, [row for row in posed if row["set"] == name])
            for name, path in pose_recipes().items()
            if any(row["set"] == name for row in posed)
        ),
        _not_first(sets, cells, about),
        _methods_section(methods, rows),
    ]


def _summary(
    sets: Sequence[str],
    methods: Sequence[str],
    cells: Mapping[tuple[str, str], Row],
    about: Mapping[str, Mapping[str, Any]],
) -> Section:
    shown = [m for m in methods if any("torque" in cells.get((name, m), {}) for name in sets)]
    table_rows = []
    for name in sets:
        errors = {m: error_of(cells[name, m]) if (name, m) in cells else None for m in shown}
        best = min((error for error in errors.values() if error is not None), default=None)
        texts = [_bold(_number(error, 1e2), error == best) if error else DASH for error in errors.values()]
        table_rows.append([f"`{name}`" + ("*" if about[name]["developed_on"] else ""), *texts])
    for title, chosen in (
        ("composite, made sets", [name for name in sets if not about[name]["developed_on"]]),
        ("composite, fetched sets*", [name for name in sets if about[name]["developed_on"]]),
    ):
        if chosen:
            ratios = [_ratio([(cells.get((n, m)), cells.get((n, REFERENCE))) for n in chosen]) for m in shown]
            table_rows.append([title, *(_number(ratio, 1.0) for ratio in ratios)])
    return Section(
        "Torque error, all sets",
        [
            "Torque error in motion, %, as the geometric mean over the kinds of held-out motion of a set. The "
            "composite is the geometric mean of the ratio to least squares over the sets that both answered; its "
            "parts are below. "
            "Sets with * were used in the development of dynid ([which](real-logs.md#which-logs-dynid-was-tuned-on)): "
            "they say nothing of new robots. Made sets are drawn from a seed that dynid was not developed on.",
            Table(["set", *shown], table_rows),
        ],
    )


def _ratio(pairs: Sequence[tuple[Row | None, Row | None]]) -> float | None:
    logs = []
    for row, reference in pairs:
        ours, theirs = (error_of(item) if item is not None else None for item in (row, reference))
        if ours and theirs:
            logs.append(math.log(ours / theirs))
    return math.exp(sum(logs) / len(logs)) if logs else None


def _set_section(about: Mapping[str, Any], rows: Sequence[Row]) -> Section:
    columns = columns_of(about, rows)
    best = {
        column.name: min((v for row in rows if (v := column.value(row)) is not None), default=None)
        for column in columns
    }
    lines = []
    for row in rows:
        if row["message"]:
            continue
        texts = [
            _bold(c.text(row), c.value(row) is not None and c.value(row) == best[c.name]) for c in columns
        ]
        lines.append([row["method"], *texts, _export_text(row)])
    seconds = ", ".join(f"{name} {length:.0f} s" for name, length in about["seconds"].items())
    described = (
        f"{about['title']}. {about['source']}; licence: {about['licence']}. {about['reason']} "
        f"Motion: {seconds}; cutoff frequency {about['cutoff']:g} Hz."
    )
    if about["developed_on"]:
        described += " dynid was developed on this set."
    failed = [f"{row['method']}: {row['message']}" for row in rows if row["message"]]
    blocks: list[str | Sequence[str] | Table] = [described]
    if lines:
        blocks.append(Table(["method", *(column.name for column in columns), "export"], lines))
    if failed:
        blocks.append(failed)
    return Section(about["name"], blocks)


def _pose_section(path: Path, rows: Sequence[Row]) -> Section:
    recipe = read_pose_recipe(path)
    described = f"{recipe.title}. {recipe.source}; licence: {recipe.licence}. {recipe.reason}"
    if recipe.developed_on:
        described += " dynid was developed on this set."
    scored = [row for row in rows if not row["message"]]
    names = list(scored[0]["splits"]) if scored else []
    columns = [(split, key) for split in names for key in ("force", "moment")]
    best = {column: min(row["splits"][column[0]][column[1]] for row in scored) for column in columns}
    lines = []
    for row in scored:
        cells = []
        for split in names:
            found = row["splits"][split]
            for key in ("force", "moment"):
                cells.append(_bold(_number(found[key], 1e3), found[key] == best[split, key]))
            masses, halves = zip(*found["masses"], strict=True)
            cells.append(f"{min(masses):.4g} to {max(masses):.4g} (+- {_number(median(halves), 1.0)})")
        lines.append([row["method"], POSE_METHODS[row["method"]][1], *cells, f"{row['seconds']:.3g}"])
    units = ("force, mN", "moment, mN m", "mass, kg")
    head = [
        "method",
        "what it is",
        *(f"{split}: {unit}" for split in names for unit in units),
        "processor, s",
    ]
    failed = [f"{row['method']}: {row['message']}" for row in rows if row["message"]]
    return Section(recipe.name, [described, POSE_SCORES, Table(head, lines), *([failed] if failed else [])])


def reasons() -> dict[str, dict[str, str]]:
    """Why dynid is not first, by set and column."""
    text = files("dynid_bench").joinpath("reasons.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _not_first(
    sets: Sequence[str], cells: Mapping[tuple[str, str], Row], about: Mapping[str, Mapping[str, Any]]
) -> Section:
    known, lines = reasons(), []
    for name in sets:
        rows = [row for (s, _), row in cells.items() if s == name]
        ours = cells.get((name, OURS))
        if ours is None:
            continue
        for column in columns_of(about[name], rows):
            values = {row["method"]: v for row in rows if (v := column.value(row)) is not None}
            value = values.get(OURS)
            first = min(values, key=lambda method: values[method])
            if value is not None and value <= values[first]:
                continue
            reason = known.get(name, {}).get(column.name) or known.get("all", {}).get(
                column.name, "not explained yet"
            )
            lines.append([f"`{name}`", column.name, first, reason])
    table = Table(["set", "column", "first", "why"], lines)
    return Section("Where dynid is not first", [table] if lines else ["It is first in every column."])


def _methods_section(methods: Sequence[str], rows: Sequence[Row]) -> Section:
    lines = []
    for name in methods:
        method_rows = [row for row in rows if row["method"] == name]
        answered = [row for row in method_rows if not row["message"]]
        last = (answered or method_rows)[-1]
        count = METHODS[name].lines if name in METHODS else last["lines"]
        title = last["title"]
        if name in METHODS and METHODS[name].ended_early:
            title += f", {METHODS[name].ended_early}"
        packages = ", ".join(f"{package} {version}" for package, version in last["packages"].items()) or DASH
        state = f"{len(answered)} of {len(method_rows)} sets" if answered else last["message"]
        settings = " / ".join(dict.fromkeys(row["settings"] for row in answered if row["settings"])) or DASH
        lines.append([name, title, packages, settings, str(count), state])
    head = ["method", "what it is", "versions", "settings", "lines", "answered"]
    return Section("Methods", [Table(head, lines)])


def _value(region: str) -> Callable[[Row], float | None]:
    return lambda row: row.get("torque", {}).get(region, {}).get("moving")


def _text(region: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        score = row.get("torque", {}).get(region)
        if score is None or score["moving"] is None:
            return DASH
        moving, whole = (_number(score[key], 1e2) for key in ("moving", "all"))
        return moving if moving == whole else f"{moving} / {whole}"

    return text


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None, scale: float) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    scaled = scale * value
    return f"{scaled:.3g}" if abs(scaled) < 1000 else f"{scaled:.0f}"


def _seconds(row: Row) -> str:
    return f"{row['seconds']:.3g}"


def _payload_error(row: Row) -> float | None:
    return abs(row["payload"][0] - row["payload"][2]) if "payload" in row else None


def _payload_text(row: Row) -> str:
    if "payload" not in row:
        return DASH
    mass, half, true = row["payload"]
    return f"{mass:.3g} +- {half:.2g} (true {true:.3g})"


def _disagreement(row: Row) -> float | None:
    # Too few agreeing pairs are as wrong as intervals that are too wide are useless: distance from 95 %.
    share = row.get("intervals", [math.nan])[0]
    return abs(share - 0.95) if math.isfinite(share) else None


def _agreement_text(row: Row) -> str:
    if "intervals" not in row or not math.isfinite(row["intervals"][0]):
        return DASH
    share, width, _ = row["intervals"]
    return f"{100 * share:.0f} ({_number(width, 1e2)})"


def _export_text(row: Row) -> str:
    return str(row.get("export", DASH))


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best and text != DASH else text


def markdown(rows: Sequence[Row], about: Mapping[str, Mapping[str, Any]], posed: Sequence[Row] = ()) -> str:
    """The page as Markdown."""
    parts = [f"# {TITLE}", "<!-- written by `dynid bench report` -->", INTRO, f"![{CAPTION}]({FIGURE})"]
    for section in sections_of(rows, about, posed):
        parts.append(f"## {section.title}")
        if section.code:
            parts.append(f"```console\n{section.code}\n```")
        for block in section.blocks:
            if isinstance(block, Table):
                parts.append(_table_markdown(block))
            elif isinstance(block, str):
                parts.append(block)
            else:
                parts.append("\n".join(f"- {item}" for item in block))
    return "\n\n".join(parts) + "\n"


def _table_markdown(table: Table) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


STYLE = Markup("""\
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 80rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { border-bottom: 1px solid #d5dbe1; padding: .35rem .6rem; text-align: left; vertical-align: top }
pre { background: #f3f5f7; padding: .8rem; overflow-x: auto }
a { color: #0072b2 }""")
_PAGE = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{}</title>\n<style>\n{}\n</style></head>\n'
    "<body><h1>{}</h1>\n{}\n</body></html>\n"
)


def html(
    rows: Sequence[Row],
    about: Mapping[str, Mapping[str, Any]],
    figure: str = "",
    posed: Sequence[Row] = (),
) -> str:
    """The page as HTML; names in the data are escaped.    figure: SVG of this package."""
    parts = [Markup("<p>{}</p>").format(INTRO), Markup(figure)]  # noqa: S704 - its texts are escaped
    for section in sections_of(rows, about, posed):
        parts.append(Markup("<h2>{}</h2>").format(section.title))
        if section.code:
            parts.append(Markup("<pre>{}</pre>").format(section.code))
        for block in section.blocks:
            if isinstance(block, Table):
                parts.append(_table_html(block))
            elif isinstance(block, str):
                parts.append(Markup("<p>{}</p>").format(_inline(block)))
            else:
                items = Markup("").join(Markup("<li>{}</li>").format(_inline(item)) for item in block)
                parts.append(Markup("<ul>{}</ul>").format(items))
    return str(_PAGE.format(TITLE, STYLE, TITLE, Markup("\n").join(parts)))


def _table_html(table: Table) -> Markup:
    def line(cells: Sequence[str], tag: str) -> Markup:
        cell = Markup(f"<{tag}>{{}}</{tag}>")  # noqa: S704 - td or th
        return Markup("<tr>{}</tr>").format(Markup("").join(cell.format(_inline(text)) for text in cells))

    body = Markup("\n").join(line(row, "td") for row in table.rows)
    return Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(line(table.head, "th"), body)


def _inline(text: str) -> Markup:
    # `code`, **bold** and [links](to pages of the documentation), which are not part of a single page.
    safe = str(escape(text))
    safe = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", safe)
    safe = re.sub(r"`(.+?)`", r"<code>\1</code>", safe)
    return Markup(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", safe))  # noqa: S704 - escaped above
