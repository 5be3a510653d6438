"""Studies that repeat the experiments of papers with their own numbers.

A study is a module with a `PAPER` and a function `study(dose, page)`, which writes text, tables, figures and results to
the page: each printed number next to the computed one. To add a study, add its module to `STUDIES`.
"""

from __future__ import annotations

STUDIES: dict[str, str] = {
    "zollo2014": "dynid_studies.zollo2014",
    "chavez2012": "dynid_studies.chavez2012",
    "gaz2019": "dynid_studies.gaz2019",
    "nini2024": "dynid_studies.nini2024",
    "madsen2020": "dynid_studies.madsen2020",
}
