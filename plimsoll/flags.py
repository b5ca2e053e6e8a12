"""Settings as dataclasses: flags, environment, defaults, --help and docs are derived from their fields.

A field made with `option()` is one flag. Both flag styles of the programs that Plimsoll replaces work: Go's `-flag=value`
with one dash or two, and kingpin's `--no-flag`.
"""

import argparse
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from typing import Any, TypeVar

from plimsoll.durations import duration as duration
from plimsoll.durations import format_duration as format_duration
from plimsoll.sizes import format_size
from plimsoll.sizes import size as size
from plimsoll.sizes import size_or_zero as size_or_zero

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """Name and help of a setting; its type is the field's."""

    flag: str
    help: str
    env: str = ""
    metavar: str = ""
    parse: Callable[[str], Any] = str


def option(
    flag: str,
    default: Any,
    help: str,  # noqa: A002 (argparse's own word)
    *,
    env: str = "",
    metavar: str = "",
    parse: Callable[[str], Any] = str,
) -> Any:
    """Return a dataclass field that is a flag.

    A tuple as default makes the flag repeatable, a bool makes it a switch (`--x`, `--x=false`, `--no-x`), as does `boolean`
    as `parse` with None as default, which then means "not given". `parse` converts text and raises ValueError with a
    sentence for the user.
    """
    return dataclasses.field(
        default=default, metadata={"option": Option(flag, help, env, metavar, parse)}
    )


def options(settings: type[Any]) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the fields of a settings class that are flags, in order."""
    for field in dataclasses.fields(settings):
        if (declared := field.metadata.get("option")) is not None:
            yield field, declared


def port(text: str) -> int:
    """Parse a TCP port, 0 (any free one) to 65535."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise ValueError(f"not a port: {text!r} (a number from 0 to 65535)")
    return int(text)


def positive_duration(text: str) -> float:
    """Parse a duration above 0 as seconds."""
    if (seconds := duration(text)) <= 0:
        raise ValueError(f"not a duration above 0: {text!r}")
    return seconds


def count(text: str) -> int:
    """Parse an integer of 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"not a number of 1 or more: {text!r}")
    return int(text)


def count_or_zero(text: str) -> int:
    """Parse an integer from 0 to 999999999."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ValueError(f"not a number: {text[:40]!r}")
    return int(text)


def names(text: str) -> str:
    """Parse comma-separated names, none of them empty."""
    listed = [name.strip() for name in text.split(",")]
    if not all(listed):
        raise ValueError(f"an empty name in {text!r}")
    return ",".join(listed)


def boolean(text: str) -> bool:
    """Parse a boolean as Go's strconv.ParseBool does."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise ValueError(f"not a boolean: {text!r} (true or false)")


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a parser that accepts only these words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def parse_settings(
    settings: type[T],
    parser: argparse.ArgumentParser,
    *,
    argv: Sequence[str],
    env: Mapping[str, str],
    grouped: bool = False,
) -> T:
    """Return settings from flags, else the environment, else defaults. Exits with status 2 and a sentence on a mistake.

    `grouped`: whether --help has a heading for each class that declares flags.
    """
    if grouped:
        for title, declared in groups(settings):
            _add(parser.add_argument_group(title), declared)
    else:
        add_options(parser, settings)
    return from_namespace(settings, parser, parser.parse_args(argv), env=env)


def groups(settings: type[Any]) -> Iterator[tuple[str, list[tuple[Field[Any], Option]]]]:
    """Yield the flags of a settings class by the class that declares them, in the order of its bases.

    The title is the first sentence of the docstring of that class.
    """
    left = {field.name: (field, opt) for field, opt in options(settings)}
    for declaring in settings.__mro__:
        names = [name for name in inspect.get_annotations(declaring) if name in left]
        if names:
            title = (declaring.__doc__ or "").partition(".")[0]
            yield title, [left.pop(name) for name in names]


def add_options(
    parser: argparse.ArgumentParser, settings: type[Any], *, hidden: bool = False
) -> None:
    """Add the flags of a settings class to a parser, which may have several. `hidden`: omit them from --help."""
    _add(parser, options(settings), hidden=hidden)


def _add(
    parser: argparse._ActionsContainer,
    declared: Iterable[tuple[Field[Any], Option]],
    *,
    hidden: bool = False,
) -> None:
    for field, opt in declared:
        default = field.default
        names = [f"--{opt.flag}", f"-{opt.flag}"]
        described = f"{opt.help}{_default_note(default, opt)}".replace("%", "%%")
        described = argparse.SUPPRESS if hidden else described
        if isinstance(default, bool) or opt.parse is boolean:
            parser.add_argument(
                *names, dest=field.name, nargs="?", const="true", metavar="BOOL", help=described
            )
            parser.add_argument(
                f"--no-{opt.flag}",
                dest=field.name,
                action="store_const",
                const="false",
                help=argparse.SUPPRESS,
            )
        elif isinstance(default, tuple):
            parser.add_argument(
                *names, dest=field.name, action="append", metavar=opt.metavar, help=described
            )
        else:
            parser.add_argument(*names, dest=field.name, metavar=opt.metavar, help=described)


def from_namespace(
    settings: type[T],
    parser: argparse.ArgumentParser,
    namespace: argparse.Namespace,
    *,
    env: Mapping[str, str],
) -> T:
    """Return a settings object from a parser's namespace, the environment and the defaults."""
    values: dict[str, Any] = {}
    for field, opt in options(settings):
        given, source = getattr(namespace, field.name), f"--{opt.flag}"
        if given is None and opt.env and env.get(opt.env):
            given, source = env[opt.env], f"${opt.env}"
            given = [given] if isinstance(field.default, tuple) else given
        if given is None:
            continue
        try:
            values[field.name] = _convert(given, field.default, opt)
        except ValueError as error:
            parser.error(f"{source}: {error}")
    try:
        return settings(**values)
    except ValueError as error:  # of values that do not go together
        parser.error(str(error))


def _convert(given: str | list[str], default: object, opt: Option) -> Any:
    if isinstance(given, list):
        return tuple(opt.parse(item) for item in given)
    return boolean(given) if isinstance(default, bool) else opt.parse(given)


def _default_note(default: object, opt: Option) -> str:
    notes = (
        [f"default {default_text(default, opt)}"]
        if default not in ("", (), frozenset(), None, MISSING)
        else []
    )
    if opt.env:
        notes.append(f"or ${opt.env}")
    return f" ({', '.join(notes)})" if notes else ""


def default_text(default: object, opt: Option) -> str:
    """Return a default in command-line syntax; empty if there is none."""
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(str(item) for item in default)
    is_duration = opt.metavar == "DURATION" or opt.parse in (duration, positive_duration)
    if is_duration and isinstance(default, int | float):
        return format_duration(default)
    if opt.parse in (size, size_or_zero) and isinstance(default, int):
        return format_size(default)
    return str(default)
