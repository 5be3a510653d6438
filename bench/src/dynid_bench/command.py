"""The command `dynid bench`, which runs methods on data sets and writes the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import say

ACTIONS = ("run", "report", "sets", "methods")


def command(
    action: Annotated[
        str,
        typer.Argument(help="run, report, sets (lists them) or methods.", metavar="run|report|sets|methods"),
    ],
    robots: Annotated[
        str, typer.Option("--robots", help="Sets, separated by commas, or files of recipes. Default: all.")
    ] = "",
    methods: Annotated[
        str, typer.Option("--methods", help="Methods, separated by commas, or adapter files. Default: all.")
    ] = "",
    made: Annotated[bool, typer.Option("--made", help="The made sets alone, which need no data.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Made sets of 40 % of their length.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Draws the made sets.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="Folder for rows and pages.")] = Path("dynid-bench"),
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of fetched logs. Default: DYNID_DATA.")
    ] = None,
    envs: Annotated[
        Path | None,
        typer.Option("--envs", help="Folder of environments by method. Default: DYNID_BENCH_ENVS."),
    ] = None,
    limit: Annotated[float, typer.Option("--limit", help="Seconds for a method on a set.")] = 900.0,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals/--no-intervals", help="Identify separate recordings as well, where there are some."
        ),
    ] = True,
    again: Annotated[bool, typer.Option("--again", help="Repeat rows that the folder has.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="report: also write the Markdown page there.")
    ] = None,
) -> None:
    """Run methods of several projects on the same logs, and write a page of their scores."""
    from dynid.base import UsageError
    from dynid_bench.data import data_folder, names_of_sets, no_data, read_recipe, recipes
    from dynid_bench.made import MADE, TITLES
    from dynid_bench.methods import METHODS, environments_folder, method_named
    from dynid_bench.run import run_campaign
    from dynid_bench.wrench import pose_recipes, read_pose_recipe, run_poses

    if action == "run":
        named = [name for name in robots.split(",") if name]
        sets = named or (list(MADE) if made or data_folder(data) is None else names_of_sets())
        if named and made:
            raise UsageError("bench-options", found="--robots and --made", expected="one of them")
        if not named and not made and data_folder(data) is None:
            say("no folder of fetched logs: the made sets alone", err=True)
        chosen = [method_named(name) for name in methods.split(",") if name] or list(METHODS.values())
        folder = data_folder(data)
        posed = [name for name in pose_recipes() if name in named or (not named and not made and folder)]
        if posed:
            if folder is None:
                raise no_data()
            run_poses(posed, [method.name for method in chosen], folder, out, again, say)
        run_campaign(
            [name for name in sets if name not in posed], chosen, out, folder, environments_folder(envs),
            seed=seed, quick=quick, limit=limit, again=again,
            intervals=intervals, announce=say,
        )  # fmt: skip
    elif action == "report":
        _report(out, page)
    elif action == "sets":
        for name in MADE:
            say(f"{name}: {TITLES[name]}\n    simulated by MuJoCo, nothing to fetch")
        for name, path in recipes().items():
            recipe = read_recipe(path)
            say(f"{name}: {recipe.title}\n    {recipe.source}; licence: {recipe.licence}")
        for name, path in pose_recipes().items():
            posed_recipe = read_pose_recipe(path)
            say(f"{name}: {posed_recipe.title}\n    {posed_recipe.source}; licence: {posed_recipe.licence}")
    elif action == "methods":
        for name, method in METHODS.items():
            packages = (
                f"pip install {' '.join(method.packages)}" if method.packages else "the environment of dynid"
            )
            say(f"{name}: {method.title} ({method.not_run or packages})")
    else:
        raise UsageError("bench-action", found=f"'{action}'", expected=f"one of {', '.join(ACTIONS)}")


def _report(out: Path, page: Path | None) -> None:
    import json

    from dynid.base import InputError, Place
    from dynid_bench.figure import errors_svg
    from dynid_bench.report import FIGURE, html, markdown
    from dynid_bench.run import ABOUT, ROWS, read_rows
    from dynid_bench.wrench import read_pose_rows

    rows = read_rows(out)
    if not rows:
        raise InputError(
            "bench-rows",
            found="no rows",
            expected=f"{ROWS} of 'dynid bench run'",
            place=Place(file=str(out)),
        )
    about = json.loads((out / ABOUT).read_text(encoding="utf-8"))
    posed = read_pose_rows(out)
    text = markdown(rows, about, posed)
    figure = errors_svg(rows, about)
    written = {
        out / "benchmark.md": text,
        out / "benchmark.html": html(rows, about, figure, posed),
        out / FIGURE: figure,
    }
    if page is not None:
        written |= {page: text, page.parent / FIGURE: figure}
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        say(f"written: {path}")
