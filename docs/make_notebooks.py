"""Writes the pages that are one Python program as notebooks, from the same text.

python docs/make_notebooks.py: rewrites docs/notebooks.    A test holds them in step; the pages' programs run in tests.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGES = ("tutorial-servo", "tutorial-friction", "tutorial-fleet", "python", "model", "domain-randomisation")
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def notebook(page: str, text: str) -> str:
    """A page as a notebook of format 4.5: its Python blocks as cells, what stands between them as text."""
    cells = []
    for place, part in enumerate(BLOCK.split(text)):
        kind, body = ("code", part) if place % 2 else ("markdown", re.sub(r"\]\((?!https:)", "](../", part))
        if body.strip():
            cells.append(cell(kind, body.strip("\n"), f"{page}-{place}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1) + "\n"


def cell(kind: str, body: str, name: str) -> dict[str, object]:
    """One cell, its identifier made from its place."""
    lines = body.splitlines(keepends=True)
    made: dict[str, object] = {"cell_type": kind, "id": hashlib.sha256(name.encode()).hexdigest()[:8]}
    made |= {"metadata": {}, "source": lines}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def main() -> None:
    """Rewrites the notebooks."""
    (DOCS / "notebooks").mkdir(exist_ok=True)
    for page in PAGES:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        (DOCS / "notebooks" / f"{page}.ipynb").write_text(notebook(page, text), encoding="utf-8")


if __name__ == "__main__":
    main()
