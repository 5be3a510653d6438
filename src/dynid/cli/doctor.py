"""dynid doctor: check the installation."""

from __future__ import annotations

from typing import Annotated

import typer

from dynid.cli.common import say, set_results


def command(
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Identify a simulated arm, which takes some seconds.")
    ] = True,
) -> None:
    """Check versions, kernel, packages and extras, and try an identification; exit code 6 if something is broken."""
    from dynid.base.errors import ResourceError
    from dynid.verbs.selftest import examine

    checks = examine(trial)
    set_results(lambda: {"checks": checks})
    for check in checks:
        say(str(check))
    broken = [check.name for check in checks if check.works is False]
    if broken:
        raise ResourceError(
            "broken-installation", found=", ".join(broken), expected="every check marked + or -"
        )
    say("this installation works")
