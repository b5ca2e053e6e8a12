"""Command-line parser of all programs: compact --help, and errors of one sentence."""

import argparse
from typing import Any, NoReturn

from plimsoll import VERSION


class Parser(argparse.ArgumentParser):
    """An argument parser without flags; `plimsoll.flags.add_options` adds those of a settings class.

    `about`: what the program does. `examples`: example commands.
    """

    def __init__(self, prog: str, *, about: str, examples: str = "", **more: Any) -> None:
        super().__init__(
            prog=prog,
            description=about,
            epilog=examples,
            formatter_class=lambda prog: _Formatter(prog, max_help_position=34, width=110),
            allow_abbrev=False,
            add_help=False,
            **more,
        )
        self.add_argument("-h", "--help", "-help", action="help", help="show this message and exit")

    def with_version(self) -> "Parser":
        """Add --version; returns itself."""
        version = f"{self.prog} {VERSION}"
        self.add_argument(
            "--version", "-version", action="version", version=version, help="show it and exit"
        )
        return self

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and one sentence, without the usage that argparse prints above it."""
        self.exit(2, f"{self.prog}: {message} (--help explains the flags)\n")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return each flag once, without its one-dash form."""
        if action.nargs == "?" and action.const == "true":
            return f"--[no-]{action.option_strings[0].removeprefix('--')}"
        if len(action.option_strings) > 1 and action.metavar is not None:
            return f"{action.option_strings[0]}={action.metavar}"
        return super()._format_action_invocation(action)
