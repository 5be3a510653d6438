"""Results for publications: tables of parameters, and the works to cite."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dynid.base.errors import UsageError
from dynid.base.files import refuse_existing, staged_files
from dynid.base.records import dataclass
from dynid.base.registry import __version__
from dynid.base.tables import data_frame
from dynid.base.units import with_interval
from dynid.estimate.estimator import base_verdicts, how_well
from dynid.factor.base import Category
from dynid.run.links import exported_parameters, joint_values, links
from dynid.run.result import Identification
from dynid.terms.term import Column, Of

TABLES = ("base", "links", "joints")
HEAD = ("table", "joint", "link", "symbol", "value", "half_width95", "unit", "known")


@dataclass(frozen=True)
class Row:
    """A parameter of a published table.

    Attributes
    ----------
    table : str
        One of TABLES.
    joint, link : str
        The joint, and the link that it moves; "" = of none.
    symbol : str
        Name or sum of names.
    value, half_width95 : float
        In `unit`; half width of the 95 % interval, nan if the data do not determine the value.
    unit : str
    known : str
        How well the data determine it.

    """

    table: str
    joint: str
    link: str
    symbol: str
    value: float
    half_width95: float
    unit: str
    known: str


def rows(run: Identification, table: str | None = None) -> tuple[Row, ...]:
    """Rows of one of TABLES or of all; raises UsageError for another name.

    Base parameters as sums of the field's symbols; mass, centre of mass and inertia about the joint frame of every
    link as exported; friction and rotor of every joint.
    """
    if table is not None and table not in TABLES:
        raise UsageError("published-table", found=f"table '{table}'", expected=", ".join(TABLES))
    made = {"base": _base_rows, "links": _link_rows, "joints": _joint_rows}
    return tuple(row for name in TABLES if table in (None, name) for row in made[name](run))


def _place(run: Identification, column: Column) -> tuple[str, str]:
    """Joint and link of a column; "" for parameters of the whole robot."""
    robot = run.robot
    if column.of is Of.ROBOT:
        return "", ""
    if column.of is Of.BODY and 0 <= column.owner < len(robot.body_names):
        return robot.tree_joint_names[column.owner], robot.body_names[column.owner]
    return (robot.joint_names[column.owner] if 0 <= column.owner < robot.n else ""), ""


def _base_rows(run: Identification) -> Iterable[Row]:
    estimate = run.estimate
    lead = [estimate.columns[i] for i in estimate.base.independent]
    words = base_verdicts(estimate, run.factors)
    for column, name, unit, value, half, word in zip(
        lead, estimate.names, estimate.units, estimate.value, estimate.half_width(), words, strict=True
    ):
        yield Row("base", *_place(run, column), name, float(value), float(half), unit, str(word.word))


def _link_rows(run: Identification) -> Iterable[Row]:
    estimate, (every_link, _) = run.estimate, links(run)
    theta = exported_parameters(estimate)
    half = dict(zip(estimate.base.independent.tolist(), estimate.half_width().tolist(), strict=True))
    alone = [category is Category.IDENTIFIABLE for category in estimate.base.categories()]
    for link in every_link:
        joint = run.robot.tree_joint_names[link.body]
        for symbol, unit, quantity in (
            ("m", "kg", link.mass),
            *((f"c{axis}", "m", centre) for axis, centre in zip("xyz", link.centre, strict=True)),
        ):
            yield _link_row(joint, link.name, symbol, quantity.value, quantity.half, unit)
        for p, column in enumerate(estimate.columns):
            if column.of is Of.BODY and column.owner == link.body and column.name.startswith("I"):
                width = half.get(p, math.nan) if alone[p] else math.nan
                name = column.name.rstrip("0123456789")
                yield _link_row(joint, link.name, name, float(theta[p]), width, column.unit)


def _link_row(joint: str, link: str, symbol: str, value: float, half: float, unit: str) -> Row:
    known = str(how_well(value, half)) if math.isfinite(half) else "not determined by the data alone"
    return Row("links", joint, link, symbol, value, half, unit, known)


def _joint_rows(run: Identification) -> Iterable[Row]:
    for value in joint_values(run):
        column = value.column
        joint = "" if column.of is Of.ROBOT else value.joint
        yield Row("joints", joint, "", column.name, value.value, value.half, column.unit, value.known)


def table_frame(run: Identification, table: str | None = None) -> Any:
    """Rows as a data frame with columns HEAD."""
    every = rows(run, table)
    return data_frame({name: [getattr(row, name) for row in every] for name in HEAD})


def _csv(every: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in every:
        cells = [getattr(row, name) for name in HEAD]
        writer.writerow(["" if isinstance(x, float) and math.isnan(x) else x for x in cells])
    return text.getvalue().encode()


def _markdown(every: Sequence[Row]) -> bytes:
    lines = []
    for table in dict.fromkeys(row.table for row in every):
        lines += ["| joint | link | parameter | value | unit |", "|---|---|---|---:|---|"]
        lines += [
            f"| {row.joint} | {row.link} | `{row.symbol}` | {_number(row, ' ± ')} | {row.unit} |"
            for row in every
            if row.table == table
        ]
        lines.append("")
    return "\n".join(lines).encode()


_PLUS_MINUS = r" \pm "


def _latex(every: Sequence[Row]) -> bytes:
    lines = ["% needs \\usepackage{booktabs, longtable}"]
    for table in dict.fromkeys(row.table for row in every):
        lines += [
            r"\begin{longtable}{lllrl}",
            r"\toprule",
            r"Joint & Link & Parameter & Value ($\pm$ 95\,\%) & Unit \\",
            r"\midrule",
            r"\endhead",
        ]
        lines += [
            f"{_escaped(row.joint)} & {_escaped(row.link)} & ${latex_symbol(row.symbol)}$ & "
            f"${_number(row, _PLUS_MINUS)}$ & {_unit(row.unit)} \\\\"
            for row in every
            if row.table == table
        ]
        lines += [r"\bottomrule", r"\end{longtable}", ""]
    return "\n".join(lines).encode()


def _number(row: Row, between: str) -> str:
    text = with_interval(row.value, row.half_width95).replace(" +- ", between)
    if "e" not in text or "nf" in text:
        return text
    power = r" \cdot 10^{\1}" if "\\" in between else r"e\1"
    return re.sub(r"e([+-]\d+)", lambda exponent: power.replace(r"\1", str(int(exponent[1]))), text)


_ESCAPES = {
    "\\": r"\textbackslash{}", "_": r"\_", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip
# A parameter's name: letters, the link or joint that it belongs to, and what follows.
_NAME = re.compile(r"([A-Za-z]+)(\d*)((?:_\w+)?)")
# First moments of mass and the axes of inertias, velocities and forces are written as indices.
_FIRST_MOMENT, _SPLIT = re.compile(r"mc([xyz])"), re.compile(r"([IfkcK])([a-z]{1,2})")


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)


def _unit(unit: str) -> str:
    return re.sub(r"\^(\d)", r"$^\1$", unit.replace("%", r"\%").replace("_", r"\_"))


def latex_symbol(formula: str) -> str:
    """A sum of parameter names as LaTeX: Izz2 + mcx3 becomes I_{zz,2} + m_{3} c_{x,3}."""

    def symbol(name: re.Match[str]) -> str:
        letters, number, rest = name[1], name[2], name[3].replace("_", r"\_")
        if letters == "e" and not number:  # of an exponent
            return name[0]
        if moment := _FIRST_MOMENT.fullmatch(letters):
            return f"m_{{{number}}} c_{{{moment[1]},{number}}}{rest}"
        if parts := _SPLIT.fullmatch(letters):
            return f"{parts[1]}_{{{parts[2]}{',' if number else ''}{number}}}{rest}"
        base = letters if len(letters) == 1 else rf"\mathrm{{{letters}}}"
        return f"{base}_{{{number}}}{rest}" if number else f"{base}{rest}"

    text = re.sub(r"(\d)e([+-]?\d+)", lambda power: f"{power[1]} 10^{{{int(power[2])}}} ", formula)
    return _NAME.sub(symbol, text).replace("*", r"\, ")


def _workbook(every: Sequence[Row]) -> bytes:
    from dynid.formats.workbooks import workbook_of

    sheets = {
        table: [
            list(HEAD[1:]),
            *([getattr(row, name) for name in HEAD[1:]] for row in every if row.table == table),
        ]
        for table in dict.fromkeys(row.table for row in every)
    }
    return workbook_of(sheets)


WRITERS = {".csv": _csv, ".tex": _latex, ".md": _markdown, ".xlsx": _workbook}


def write_table(run: Identification, path: str | Path, table: str | None = None, force: bool = False) -> Path:
    """Write the parameters as CSV, LaTeX, Markdown or Excel, by the suffix of the path.

    Parameters
    ----------
    run : Identification
        The run.
    path : str or Path
        File to write, with a suffix of WRITERS.
    table : str, optional
        One of TABLES; None = all.
    force : bool
        Replace an existing file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    UsageError
        For another suffix or table.
    RefusedError
        If the file exists.
    ResourceError
        If it cannot be written, or without openpyxl for Excel.

    """
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise UsageError("table-suffix", found=f"'{path.name}'", expected=f"a name with {', '.join(WRITERS)}")
    if not force:
        refuse_existing(path, "choose another name, or --force to replace it")
    data = writer(rows(run, table))
    with staged_files(path) as (scratch,):
        scratch.write_bytes(data)
    return path


# Works to cite, by what a run used.

BIBTEX = {
    "dynid": ("software", {
        "author": "{The dynid developers}",
        "title": "{dynid}: dynamic models of robots, identified from logs of their motion",
        "version": __version__,
    }),
    "gautier1990direct": ("article", {
        "author": "Gautier, Maxime and Khalil, Wisama",
        "title": "Direct calculation of minimum set of inertial parameters of serial robots",
        "journal": "IEEE Transactions on Robotics and Automation", "volume": "6", "number": "3", "pages": "368--373",
        "year": "1990", "doi": "10.1109/70.56655",
    }),
    "gautier1991numerical": ("article", {
        "author": "Gautier, Maxime", "title": "Numerical calculation of the base inertial parameters of robots",
        "journal": "Journal of Robotic Systems", "volume": "8", "number": "4", "pages": "485--506", "year": "1991",
        "doi": "10.1002/rob.4620080405",
    }),
    "wensing2018linear": ("article", {
        "author": "Wensing, Patrick M. and Kim, Sangbae and Slotine, Jean-Jacques E.",
        "title": "Linear matrix inequalities for physically consistent inertial parameter identification: "
                 "a statistical perspective on the mass distribution",
        "journal": "IEEE Robotics and Automation Letters", "volume": "3", "number": "1", "pages": "60--67",
        "year": "2018", "doi": "10.1109/LRA.2017.2729659",
    }),
    "rucker2022smooth": ("article", {
        "author": "Rucker, Caleb and Wensing, Patrick M.",
        "title": "Smooth parameterization of rigid-body inertia",
        "journal": "IEEE Robotics and Automation Letters", "volume": "7", "number": "2", "pages": "2771--2778",
        "year": "2022", "doi": "10.1109/LRA.2022.3144517",
    }),
    "gautier2013new": ("article", {
        "author": "Gautier, Maxime and Janot, Alexandre and Vandanjon, Pierre-Olivier",
        "title": "A new closed-loop output error method for parameter identification of robot dynamics",
        "journal": "IEEE Transactions on Control Systems Technology", "volume": "21", "number": "2",
        "pages": "428--444", "year": "2013",
    }),
    "janot2014generic": ("article", {
        "author": "Janot, Alexandre and Vandanjon, Pierre-Olivier and Gautier, Maxime",
        "title": "A generic instrumental variable approach for industrial robot identification",
        "journal": "IEEE Transactions on Control Systems Technology", "volume": "22", "number": "1",
        "pages": "132--145", "year": "2014", "doi": "10.1109/TCST.2013.2246163",
    }),
    "bell2002bias": ("article", {
        "author": "Bell, Robert M. and McCaffrey, Daniel F.",
        "title": "Bias reduction in standard errors for linear regression with multi-stage samples",
        "journal": "Survey Methodology", "volume": "28", "number": "2", "pages": "169--181", "year": "2002",
    }),
}  # fmt: skip


def works_to_cite(run: Identification | None = None) -> tuple[str, ...]:
    """Keys of BIBTEX: dynid, and the methods that a run used; all without a run."""
    if run is None:
        return tuple(BIBTEX)
    method = run.estimate.method
    used = {
        "wensing2018linear": method in ("map", "feasible"),
        "rucker2022smooth": method == "map",
        "gautier2013new": method == "didim",
        "janot2014generic": method == "iv",
    }
    return tuple(key for key in BIBTEX if used.get(key, True))


def bibtex(keys: Iterable[str]) -> str:
    """BibTeX entries by key."""
    entries = []
    for key in keys:
        kind, fields = BIBTEX[key]
        lines = ",\n".join(f"  {name} = {{{text}}}" for name, text in fields.items())
        entries.append(f"@{kind}{{{key},\n{lines}\n}}")
    return "\n\n".join(entries) + "\n"
