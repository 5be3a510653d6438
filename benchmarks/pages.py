"""Tables that benchmarks on real logs write into pages of the documentation."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END = "<!-- end of the table -->"


def start_of(program: str) -> str:
    """The line of a page behind which a program's table stands."""
    return f"<!-- table: written by benchmarks/{program} -->"


def written(page: str, program: str, text: str) -> str:
    """A page with its table replaced; raises ValueError if it has no place for one."""
    before, start, rest = page.partition(start_of(program))
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"no {start_of(program)} ... {END} in the page")
    return f"{before}{start}\n\n{text}\n\n{end}{after}"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark on real logs: --data and --write."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.environ.get("DYNID_DATA", str(ROOT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder with a folder a robot")
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    return parser
