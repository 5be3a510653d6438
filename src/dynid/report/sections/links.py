"""Mass and centre of mass of every link, compared with the prior."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from dynid.report.section import Page, render
from dynid.report.text import MINUS, MISSING, interval, number, percent
from dynid.run.links import DATAS, PRIORS, Link, Value, links, total_source
from dynid.run.result import Identification

_SHAPE = {True: "inside", False: "outside", None: MISSING}


class LinksSection:
    """Links with the source of their mass: data or prior."""

    anchor = "links"
    title = "Links"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A table of links."""
        every_link, total = links(identification)
        return render(
            "links.html.jinja",
            {
                "links": [_row(link) for link in every_link],
                "total": _shown(total)
                | {"share": _share(total.data), "source": total_source(every_link, total)},
                "shapes": any(link.inside is not None for link in every_link),
                "intervals": any(
                    math.isfinite(mass.half) for mass in (total, *(link.mass for link in every_link))
                ),
                "described": any(math.isfinite(link.mass.described) for link in every_link),
                "guessed": any(link.guessed for link in every_link),
                "consistent": bool(len(identification.estimate.consistent)),
            },
        )


def _row(link: Link) -> dict[str, object]:
    return {
        "name": link.name,
        "mass": _shown(link.mass),
        "centre": _place([c.value for c in link.centre]),
        "described": _place([c.described for c in link.centre]),
        "moved": _moved(link),
        "shape": _SHAPE[link.inside],
        "share": _share(link.mass.data),
        "css": _css(link.mass),
        "source": link.source,
    }


def _css(mass: Value) -> str:
    if mass.data < PRIORS:
        return "prior"
    return "identified" if mass.data > DATAS and not mass.half >= mass.value else "weak"


def _shown(value: Value) -> dict[str, str]:
    shown, half = (
        interval(value.value, value.half) if math.isfinite(value.half) else (number(value.value, 4), "")
    )
    if value.half >= value.value:
        # Rounded to the digits of its interval, 0.53 +- 14 kg would be 1 kg, which is not the exported value.
        shown = number(value.value, 4)
    return {"value": shown, "half": half, "described": number(value.described, 4)}


def _share(data: float) -> str:
    return percent(round(data, 2), 2)


def _place(centre: Sequence[float]) -> str:
    return ", ".join(_tenths(1000.0 * c) for c in centre) if all(map(math.isfinite, centre)) else MISSING


def _moved(link: Link) -> str:
    away = math.dist([c.value for c in link.centre], [c.described for c in link.centre])
    return _tenths(1000.0 * away) if math.isfinite(away) else MISSING


def _tenths(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}".replace("-", MINUS)
