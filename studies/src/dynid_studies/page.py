"""A study as an HTML page without network access, and as Markdown with separate figures."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from dynid.report.html import Chapter, page_html
from dynid.report.section import Page
from dynid.report.text import interval, number, percent, plain_number
from dynid_studies.study import Block, Cell, Drawing, Result, Study, Table, Text
from dynid_studies.svg import legend_of


def study_html(study: Study) -> str:
    """Return the page as HTML; it needs no network, and equal studies give equal bytes."""
    page = Page()
    chapters = [Chapter("summary", "Summary", _summary(study))]
    for i, section in enumerate(study.sections):
        body = Markup("").join(_block(block, page) for block in section.blocks)
        chapters.append(Chapter(f"section-{i + 1}", section.title, body))
    paper = study.paper
    return page_html(f"{paper.name}: study", f"Study: {paper.source}", paper.title, chapters, page)


def study_markdown(study: Study) -> str:
    """Return the study as Markdown that refers to figures NAME.svg in the same folder."""
    paper = study.paper
    parts = [
        f"# {paper.title}",
        f"{paper.source.rstrip('.')}. {paper.summary}",
        _dose(study),
        f"{study.count}.",
    ]
    if study.missed:
        parts.append("Out of bounds:")
        parts.append(
            "\n".join(f"- {r.what}: {_value(r.ours, r.unit)}, bound {_bound(r)}" for r in study.missed)
        )
    if differing(study):
        parts.append("Where this differs from print:")
        parts.append("\n".join(f"- {r.what}: {r.explanation}" for r in differing(study)))
    for section in study.sections:
        parts.append(f"## {section.title}")
        parts += [_block_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def differing(study: Study) -> tuple[Result, ...]:
    """Return the results with an explanation."""
    return tuple(result for result in study.results if result.explanation)


def cell_text(cell: Cell, digits: int = 3) -> str:
    """Return the text of a table cell."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return str(cell).replace("-", "−")
    return number(cell, digits) if isinstance(cell, float) else cell


def _summary(study: Study) -> Markup:
    head = Markup("<p class='intro'>{}</p><p>{}</p><p class='counts'>{} {}</p>").format(
        study.paper.summary, _inline(_dose(study)), _chip(not study.missed), f"{study.count}."
    )
    missed = [(r.what, f"{_value(r.ours, r.unit)}, bound {_bound(r)}") for r in study.missed]
    explained = [(r.what, r.explanation) for r in differing(study)]
    return head + _findings("Out of bounds", missed) + _findings("Where this differs from print", explained)


def _findings(title: str, items_shown: Sequence[tuple[str, str]]) -> Markup:
    if not items_shown:
        return Markup("")
    items = Markup("").join(
        Markup("<li><span><strong>{}</strong>{}</span></li>").format(description, _inline(text))
        for description, text in items_shown
    )
    return Markup("<h3>{}</h3><ul class='findings'>{}</ul>").format(title, items)


def _dose(study: Study) -> str:
    return "Run in full." if study.full else "Run in its quick form; `dynid study --full` runs everything."


def _chip(ok: bool) -> Markup:
    return Markup('<span class="chip {}">{}</span>').format(
        "good" if ok else "warning", "as expected" if ok else "differs"
    )


def _block(block: Block, page: Page) -> Markup:
    if isinstance(block, Text):
        return Markup("").join(Markup("<p>{}</p>").format(_inline(p)) for p in _paragraphs(block.text))
    if isinstance(block, Table):
        rows = _cells(block)
        return _table(block.caption, block.head, rows, _right(block), block.note)
    if isinstance(block, Drawing):
        label = _plain(block.caption)
        return Markup("<h3>{}</h3>{}{}").format(
            _inline(block.caption), _legend(block), page.figure(block.figure, label)
        )
    head, right, cells = _results(block.results)
    rows = [[*row, _chip(r.ok) if r.is_bounded else ""] for row, r in zip(cells, block.results, strict=True)]
    return _table(block.caption, (*head, ""), rows, right, "")


def _table(
    caption: str, head: tuple[str, ...], rows: list[list[str]], right: tuple[int, ...], note: str
) -> Markup:
    def line(cell: Markup, cells: Sequence[str]) -> Markup:
        formatted = (
            cell.format(
                "num" if i in right else "", content if isinstance(content, Markup) else _inline(content)
            )
            for i, content in enumerate(cells)
        )
        return Markup("<tr>{}</tr>").format(Markup("").join(formatted))

    td, th = Markup('<td class="{}">{}</td>'), Markup('<th class="{}">{}</th>')
    body = Markup("").join(line(td, row) for row in rows)
    html = Markup(
        '<h3>{}</h3><div class="scroll"><table class="data"><thead>{}</thead><tbody>{}</tbody></table></div>'
    ).format(_inline(caption), line(th, head), body)
    return html + Markup('<p class="note">{}</p>').format(_inline(note)) if note else html


def _cells(table: Table) -> list[list[str]]:
    return [list(map(cell_text, row, table.column_digits)) for row in table.rows]


def _right(table: Table) -> tuple[int, ...]:
    # Columns of numbers are aligned to the right.
    columns = range(len(table.head))
    return tuple(
        i
        for i in columns
        if any(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in table.rows)
    )


def _results(results: Sequence[Result]) -> tuple[tuple[str, ...], tuple[int, ...], list[list[str]]]:
    # Heading, columns of numbers, and cells; without print there is nothing to deviate from.
    if all(result.printed is None for result in results):
        cells = [[r.what, _value(r.ours, r.unit), _bound(r)] for r in results]
        return ("", "recomputed", "bound"), (1,), cells
    cells = [
        [
            r.what,
            "–" if r.printed is None else _value(r.printed, r.unit),
            _value(r.ours, r.unit),
            "–" if r.deviation is None else percent(r.deviation),
            _bound(r),
        ]
        for r in results
    ]
    return ("", "printed", "recomputed", "deviation", "bound"), (1, 2, 3), cells


def _value(value: float, unit: str = "") -> str:
    whole = float(value).is_integer() and abs(value) < 1e5
    return (f"{int(value)}".replace("-", "−") if whole else number(value, 4)) + (
        f"\u00a0{unit}" if unit else ""
    )


def _bound(result: Result) -> str:
    low, high = math.isfinite(result.least), math.isfinite(result.most)
    if low and high:
        if result.least == result.most:
            return f"= {plain_number(result.least)}"
        middle, half = 0.5 * (result.least + result.most), 0.5 * (result.most - result.least)
        return " ± ".join(interval(middle, half)) if abs(middle) > half else f"0 ± {number(half, 2)}"
    if high:
        return f"≤ {plain_number(result.most)}"
    return f"≥ {plain_number(result.least)}" if low else ""


def _legend(drawing: Drawing) -> Markup:
    entries = legend_of(drawing.figure)
    if len(entries) < 2:
        return Markup("")
    keys = Markup(" ").join(
        Markup('<span class="key"><svg width="22" height="10" aria-hidden="true">{}</svg>{}</span>').format(
            _mark(colour, dash, kind), name
        )
        for name, colour, dash, kind in entries
    )
    return Markup('<p class="legend">{}</p>').format(keys)


def _mark(colour: str, dash: str, kind: str) -> Markup:
    if kind == "markers":
        return Markup('<circle cx="11" cy="5" r="3.5" fill="{}"/>').format(colour)
    dashes = {"dash": "6 3", "dot": "2 2", "dashdot": "6 2 2 2"}.get(dash, "")
    return Markup('<path d="M0 5 H22" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>').format(
        colour, 8 if kind == "bar" else 2, dashes or "none"
    )


def _block_markdown(block: Block) -> str:
    if isinstance(block, Text):
        return "\n\n".join(_paragraphs(block.text))
    if isinstance(block, Table):
        rows = _cells(block)
        table = _table_markdown(block.caption, block.head, rows, _right(block))
        return f"{table}\n\n{block.note}" if block.note else table
    if isinstance(block, Drawing):
        return f"**{block.caption}**\n\n![{_plain(block.caption)}]({block.name}.svg)"
    head, right, cells = _results(block.results)
    kept = [("yes" if r.ok else "no") if r.is_bounded else "" for r in block.results]
    rows = [[*row, mark] for row, mark in zip(cells, kept, strict=True)]
    return _table_markdown(block.caption, (*head, "kept"), rows, right)


def _table_markdown(
    caption: str, head: tuple[str, ...], rows: list[list[str]], right: tuple[int, ...]
) -> str:
    lines = [head, ["--:" if i in right else "---" for i in range(len(head))], *rows]
    return f"**{caption}**\n\n" + "\n".join(
        "| " + " | ".join(_bars(c) for c in line) + " |" for line in lines
    )


def _bars(cell: str) -> str:
    return cell.replace("|", "\\|")


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]


def _inline(text: str) -> Markup:
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup('<span class="code">{}</span>').format(part) if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def _plain(text: str) -> str:
    return text.replace("`", "")
