"""Writes the baseline anew, after a change that users are meant to notice.

    python -m tests.baseline.write [--data FOLDER] [PART ...]

Run it in the root of a checkout, with src and studies/src on PYTHONPATH. Parts: rows (the demo and the real logs of
DYNID_DATA or --data; about a minute of processor time), exports, wrong_inputs, and those of the surface: api,
public_names, registries, command_line, files, codes, imports. Without names all of them are written. What differs is
printed and stands in `git diff`: commit it with the change that it comes from, and with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.baseline import bad_inputs, exports, rows, surface
from tests.baseline.records import STORED, differences, store, stored

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PARTS: dict[str, Callable[[], Any]] = {**surface.PARTS, "wrong_inputs": bad_inputs.ended}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the named parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DYNID_DATA", DATA)))
    options = parser.parse_args(arguments)
    every = ("rows", "exports", *PARTS)
    if unknown := set(options.parts) - set(every):
        parser.error(f"no part {', '.join(sorted(unknown))}; parts are {', '.join(every)}")
    wanted = options.parts or every
    data: Path = options.data
    if not data.is_dir() and {"rows", "exports"} & set(wanted):
        parser.error(f"no folder '{options.data}' of real logs: set DYNID_DATA or give --data")
    for name in wanted:
        if name == "rows":
            rows.write(data)
        elif name == "exports":
            with tempfile.TemporaryDirectory() as scratch:
                rows.demo("demo --fast", Path(scratch))
                exports.write(Path(scratch) / "run", data)
        else:
            made = PARTS[name]()
            before = stored(name) if (STORED / f"{name}.json").is_file() else None
            for line in differences(made, before, name):
                sys.stdout.write(f"{line}\n")
            store(name, made)
        sys.stdout.write(f"wrote {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
