"""The command line: one file a command; errors become one message and the right exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from dynid.base.errors import DynidError
from dynid.cli import (
    average,
    check,
    compare,
    demo,
    excite,
    export,
    identify,
    init,
    inspect,
    limits,
    migrate,
    payload,
    replay,
    report,
    retrieve,
    reveal,
    schema,
    simulate,
    springs,
    statics,
    validate,
    watch,
)
from dynid.cli.common import say
from dynid.cli.ending import interruption, listen, say_bug, say_interrupted
from dynid.cli.plugins import WithPlugins, load_named, with_plugins

app = typer.Typer(
    name="dynid",
    cls=WithPlugins,
    help="The dynamics of a real robot, from its log: identified, verified, reported.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.command)
app.command("inspect")(inspect.command)
app.command("init")(with_plugins(init.command))
app.command("limits")(limits.command)
app.command("check")(with_plugins(check.command))
app.command("average")(average.command)
app.command("identify")(with_plugins(identify.command))
app.command("validate")(with_plugins(validate.command))
app.command("replay")(with_plugins(replay.command))
app.command("report")(with_plugins(report.command))
app.command("compare")(with_plugins(compare.command))
app.command("export")(with_plugins(export.command))
app.command("payload")(with_plugins(payload.command))
app.command("statics")(with_plugins(statics.command))
app.command("springs")(with_plugins(springs.command))
app.command("simulate")(simulate.command)
app.command("excite")(with_plugins(excite.command))
app.command("watch")(with_plugins(watch.command))
app.command("reveal")(reveal.command)
app.command("retrieve")(with_plugins(retrieve.command))
app.command("migrate")(migrate.command)
app.command("schema")(schema.command)


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and the kernel in use."),
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin", callback=load_named, help="Module that brings the command; may be repeated."
        ),
    ] = None,
) -> None:
    """The dynamics of a real robot, from its log: identified, verified, reported."""
    if version:
        from dynid.base.version import __version__
        from dynid.kernel import backend

        say(f"dynid {__version__} (kernel: {backend()})")
        raise typer.Exit


def main() -> None:
    """Runs the command line and leaves with 0, or 2 to 7, 130, 143 or 1 as the table of exit codes says."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    listen()
    try:
        code = _run()
    except Exception as error:
        # A library that is interrupted inside its own compiled code may raise an error of its own instead.
        code = 1 if interruption() else say_bug(error)
    if code and (stopped := interruption()) is not None:
        say_interrupted()
        code = stopped
    sys.exit(code)


def _run() -> int:
    try:
        app(standalone_mode=True)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except DynidError as error:
        say(str(error), err=True)
        return error.exit_code
    except MemoryError:
        say("error[memory] found no memory left; expected more; close programs or use shorter logs", err=True)
        return 6
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = f"'{str(error.filename)[:60]}...'"
            say(f"error[name-too-long] found {name}; expected a name that the file system takes", err=True)
            return 2
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE):
            raise
        say(f"error[io] {error.filename or ''}: found {error.strerror}; expected a writable disk", err=True)
        return 6
    return 0
