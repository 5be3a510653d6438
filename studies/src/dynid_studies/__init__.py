"""Studies: the experiments of papers, run from their own numbers; one file a paper.

A study is a module with a `PAPER` and a function `study(dose, page)` that writes its results to the page: text, tables,
figures and results, each printed number beside ours. A new one is one more line here.
"""

from __future__ import annotations

STUDIES: dict[str, str] = {
    "zollo2014": "dynid_studies.zollo2014",
    "chavez2012": "dynid_studies.chavez2012",
    "gaz2019": "dynid_studies.gaz2019",
    "nini2024": "dynid_studies.nini2024",
    "madsen2020": "dynid_studies.madsen2020",
}
