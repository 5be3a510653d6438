"""Plug-ins on the command line: modules named by --plugin, and commands of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dynid.base.registry import Registry, load_plugins
from dynid.cli.common import PlainCommand, Values, read_plainly, release_outputs, with_options, with_output

PLUGIN = "plugin"
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", help="Module, or Python file, with terms, rows, ... of one's own; may be repeated."
    ),
]
# Letters of a command's first sentence: none is cut.
WIDEST = 400
# Functions that typer makes commands of; dynid's own are registered in cli.main.
COMMANDS: Registry[Callable[..., None]] = Registry("command", "dynid.commands", {})


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option --plugin, whose modules are imported before it runs."""

    def call(given: Values, plugins: Values) -> None:
        load_plugins(plugins[PLUGIN] or ())
        command(**given)

    return with_options(command, {PLUGIN: (PluginOption, None)}, call)


def load_named(names: list[str] | None) -> list[str] | None:
    """Imports what --plugin before the command's name says, so that a command may come from it."""
    load_plugins(names or ())
    return names


class WithPlugins(TyperGroup):
    """dynid's commands, then those of named plug-ins and of installed packages, which are imported when called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments before the command's name."""
        read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; the outputs that it claimed are free again when it ends.

        Raises UsageError with the key of a plan file for an option that dynid excite no longer has.
        """
        try:
            return super().invoke(ctx)
        except Exception as error:
            # click's NoSuchOption, whichever package holds it.
            if ctx.invoked_subcommand == "excite" and (option := getattr(error, "option_name", "")):
                _refuse_removed(option)
            raise
        finally:
            release_outputs()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, or None."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in COMMANDS:
            return own
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(cmd_name, cls=PlainCommand)(with_output(cmd_name, COMMANDS[cmd_name]))
        return typer.main.get_command(app)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        return [*super().list_commands(ctx), *COMMANDS.names()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands by what they are for; those of installed packages by name alone: nothing is imported."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in super().list_commands(ctx):
            one = super().get_command(ctx, name)
            if one is not None:
                group = getattr(one, "rich_help_panel", None) or "Commands"
                groups.setdefault(group, []).append((name, one.get_short_help_str(limit=WIDEST)))
        if names := COMMANDS.names():
            groups["Plug-ins"] = [(name, "") for name in names]
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows)


def _refuse_removed(option: str) -> None:
    from dynid.base.errors import UsageError
    from dynid.excitation.settings import REMOVED_OPTIONS

    if option not in REMOVED_OPTIONS:
        return
    key = REMOVED_OPTIONS[option]
    raise UsageError(
        "removed-option",
        found=option,
        expected=f"{key} in a plan file" if key else "it left out: the robot's own shapes are always used",
        do="'dynid schema motion --template motion.toml' writes one; then --plan motion.toml" if key else "",
    )
