"""Command-line parser of all programs: compact --help, errors of one sentence, a man page and scripts for shells.

`--help-man` and `--completion-script-bash|zsh` are kingpin's, as node_exporter has them.
"""

import argparse
import itertools
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from plimsoll import VERSION

_DEPTH = 10
"""Argument files that may name one another."""


class Parser(argparse.ArgumentParser):
    """An argument parser without flags; `plimsoll.flags.add_options` adds those of a settings class.

    `about`: what the program does. `examples`: example commands. `commands`: names of subcommands that are parsed elsewhere.
    `reads_files`: an argument `@FILE` stands for the lines of a file, as in node_exporter.
    """

    def __init__(
        self,
        prog: str,
        *,
        about: str,
        examples: str = "",
        commands: Iterable[str] = (),
        reads_files: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(
            prog=prog,
            description=about,
            epilog=examples,
            formatter_class=lambda prog: _Formatter(prog, max_help_position=28, width=80),
            allow_abbrev=False,
            add_help=False,
            **more,
        )
        self.commands = tuple(commands)
        self._reads_files = reads_files
        self.add_argument("-h", "--help", "-help", action="help", help="show this message and exit")
        for flag, text in _TEXTS.items():
            self.add_argument(flag, action=_Print, const=text, help=argparse.SUPPRESS)

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

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does; a switch takes no value but that after `=`."""
        given = list(sys.argv[1:] if args is None else args)
        if self._reads_files:
            given = self._expanded(given)
        switches = {
            name for action in self._actions if _is_switch(action) for name in action.option_strings
        }
        end = given.index("--") if "--" in given else len(given)
        written = [f"{one}=true" if one in switches else one for one in given[:end]]
        return super().parse_known_args([*written, *given[end:]], namespace)

    def _expanded(self, given: Sequence[str], depth: int = _DEPTH) -> list[str]:
        """Replace each `@FILE` by the lines of the file; empty lines and those that begin with `#` are left out."""
        found: list[str] = []
        for position, argument in enumerate(given):
            if argument == "--":
                return [*found, *given[position:]]
            if not argument.startswith("@") or len(argument) == 1:
                found.append(argument)
                continue
            if not depth:
                self.error(f"{argument}: argument files name one another more than {_DEPTH} deep")
            try:
                with open(argument[1:], encoding="utf-8") as file:  # noqa: PTH123 (a name as given)
                    lines = file.read().splitlines()
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "not UTF-8"
                self.error(f"{argument}: the file of arguments cannot be read: {why}")
            found += self._expanded(
                [line for line in lines if line and not line.startswith("#")], depth - 1
            )
        return found


class _Print(argparse.Action):
    """Prints a text about the parser and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, const: Any, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, const=const, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        sys.stdout.write(self.const(parser))
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return text with its paragraphs filled to the width; indented lines stay as they are."""
        lines: list[str] = []
        for indented, group in itertools.groupby(text.strip("\n").splitlines(), _stays):
            found = list(group)
            lines += found if indented else _wrapped(" ".join(found), width)
        return "\n".join(f"{indent}{line}" for line in lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(" ".join(text.split()), width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return each flag once, without its one-dash form."""
        if _is_switch(action):
            return f"--[no-]{action.option_strings[0].removeprefix('--')}"
        if len(action.option_strings) > 1 and action.metavar is not None:
            return f"{action.option_strings[0]}={action.metavar}"
        return super()._format_action_invocation(action)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text; names of flags stay in one piece."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _stays(line: str) -> bool:
    """Return whether a line of a help text stays as it is: it is indented, or empty."""
    return not line or line.startswith(" ")


def _is_switch(action: argparse.Action) -> bool:
    return action.nargs == "?" and action.const == "true"


def _shown(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Yield the flags of --help with their longest names, those of subcommands too."""
    seen: set[str] = set()
    for one in (parser, *_subcommands(parser).values()):
        for action in one._actions:  # noqa: SLF001
            name = max(action.option_strings, key=len, default="")
            if name.startswith("--") and action.help != argparse.SUPPRESS and name not in seen:
                seen.add(name)
                yield name, action


def _subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _file(parser: Parser) -> str:
    """Return the name of the program's file: that of a plugin, and not kubectl, whose own completion stays."""
    return parser.prog.replace(" ", "-")


def _words(parser: Parser) -> list[str]:
    """Return the words that a shell completes: commands, flags, and switches turned off."""
    found = [*parser.commands, *_subcommands(parser)]
    for name, action in _shown(parser):
        takes_value = action.nargs != 0 and not _is_switch(action)
        found.append(f"{name}=" if takes_value else name)
        if _is_switch(action):
            found.append(f"--no-{name.removeprefix('--')}")
    return found


def _bash(parser: Parser) -> str:
    """Return a script for bash; a flag that takes a value is completed up to `=`."""
    function = re.sub(r"\W", "_", f"_{parser.prog}")
    words = shlex.quote(" ".join(_words(parser)))
    return (
        f"{function}() {{\n"
        '    local line="${COMP_LINE:0:COMP_POINT}"\n'
        '    local word="${line##* }"\n'
        f'    COMPREPLY=($(compgen -W {words} -- "$word"))\n'
        "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null\n"
        '    case "$word" in *=*|[^-]*) [[ -z ${COMPREPLY[0]-} ]] && COMPREPLY=($(compgen -f -- "${word#*=}"));; esac\n'
        "    return 0\n"
        "}\n"
        f"complete -o default -F {function} {_file(parser)}\n"
    )


def _zsh(parser: Parser) -> str:
    """Return a script for zsh, which runs that for bash."""
    return f"#compdef {_file(parser)}\nautoload -U bashcompinit && bashcompinit\n{_bash(parser)}"


def _fish(parser: Parser) -> str:
    """Return a script for fish."""
    lines = [
        f"complete -c {_file(parser)} -n __fish_use_subcommand -a {shlex.quote(command)}"
        for command in (*parser.commands, *_subcommands(parser))
    ]
    for name, action in _shown(parser):
        about = _fish_quoted(" ".join((action.help or "").replace("%%", "%").split()))
        value = "" if action.nargs == 0 or _is_switch(action) else " -r"
        lines.append(f"complete -c {_file(parser)} -l {name[2:]}{value} -d {about}")
        if _is_switch(action):
            lines.append(f"complete -c {_file(parser)} -l no-{name[2:]} -d {about}")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _man(parser: Parser) -> str:
    """Return the manual page, for `man -l -`."""
    lines = [
        f'.TH {_roff(parser.prog)} 1 "" "{_roff(f"{parser.prog} {VERSION}")}"',
        ".SH NAME",
        _roff(parser.prog),
        ".SH DESCRIPTION",
        *_paragraphs(parser.description or ""),
        ".SH OPTIONS",
    ]
    for name, action in _shown(parser):
        flag = f"--[no-]{name[2:]}" if _is_switch(action) else name
        value = f"={action.metavar}" if action.metavar and not _is_switch(action) else ""
        about = _roff((action.help or "").replace("%%", "%"))
        lines += [".TP", f"\\fB{_roff(flag)}\\fR{_roff(value)}", about]
    lines += [".SH EXAMPLES", ".nf", *map(_roff, (parser.epilog or "").strip().splitlines()), ".fi"]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        yield from (".PP", _roff(" ".join(paragraph.split())))


def _roff(text: str) -> str:
    r"""Return text as roff reads it: `\` and `-` escaped, and no line that begins a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _help(parser: Parser) -> str:
    return parser.format_help()


_TEXTS: Mapping[str, Callable[[Parser], str]] = {
    "--help-long": _help,
    "--help-man": _man,
    "--completion-script-bash": _bash,
    "--completion-script-zsh": _zsh,
    "--completion-script-fish": _fish,
}
