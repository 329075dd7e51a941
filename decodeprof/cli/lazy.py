"""Which module holds a command? Only the one that is called is imported, so help comes at once."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click

from decodeprof import __version__
from decodeprof.errors import UsageError


class LazyGroup(click.Group):
    """A group whose commands are `decodeprof.cli.<name>.command`, imported when looked up."""

    def __init__(self, *, commands_help: Mapping[str, str], **settings: Any) -> None:
        super().__init__(
            params=[
                click.Option(
                    ["--version"],
                    is_flag=True,
                    expose_value=False,
                    is_eager=True,
                    callback=_print_version,
                    help="Print the version and leave.",
                )
            ],
            invoke_without_command=True,
            callback=_help_without_command,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            **settings,
        )
        self._commands_help = dict(commands_help)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names, in the order in which they are shown."""
        return list(self._commands_help)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Import the command's module; None for a name that is no command."""
        if cmd_name not in self._commands_help:
            return None
        module = f"decodeprof.cli.{cmd_name.replace('-', '_')}"
        command: click.Command = importlib.import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was called, or say which are near."""
        name = args[0]
        if name not in self._commands_help and not name.startswith("-"):
            near = difflib.get_close_matches(name, self._commands_help, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "`decodeprof --help` lists them"
            raise UsageError(f"no command is called `{name}`", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._commands_help.items()))


@click.pass_context
def _help_without_command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"decodeprof {__version__}")
        ctx.exit()
