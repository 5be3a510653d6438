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
    typer.Option("--plugin", help="Python module or file with your own terms, rows, ...; may be repeated."),
]
# Characters of the first sentence of a command; none is cut.
WIDEST = 400
# Functions that typer makes commands of; dynid's own are registered in cli.main.
COMMANDS: Registry[Callable[..., None]] = Registry("command", "dynid.commands", {})


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --plugin to a command; its modules are imported before the command runs."""

    def call(given: Values, plugins: Values) -> None:
        load_plugins(plugins[PLUGIN] or ())
        command(**given)

    return with_options(command, {PLUGIN: (PluginOption, None)}, call)


def load_named(names: list[str] | None) -> list[str] | None:
    """Import modules given by --plugin before the name of the command, which may come from them."""
    load_plugins(names or ())
    return names


class WithPlugins(TyperGroup):
    """Commands of dynid, of named plug-ins, and of installed packages (imported only when called)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments before the name of the command."""
        read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and release its output folders at the end.

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
        known = super().get_command(ctx, cmd_name)
        if known is not None or cmd_name not in COMMANDS:
            return known
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(cmd_name, cls=PlainCommand)(with_output(cmd_name, COMMANDS[cmd_name]))
        return typer.main.get_command(app)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        return [*super().list_commands(ctx), *COMMANDS.names()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by purpose; those of installed packages only by name, so that nothing is imported."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None:
                group = getattr(command, "rich_help_panel", None) or "Commands"
                groups.setdefault(group, []).append((name, command.get_short_help_str(limit=WIDEST)))
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
        expected=f"{key} in a plan file"
        if key
        else "no such option: the shapes of the robot are always used",
        do="'dynid schema motion --template motion.toml' writes one; then --plan motion.toml" if key else "",
    )
