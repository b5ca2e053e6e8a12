"""`plimsoll check-rules`: validates rule files and prints every error with its line and column."""

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.rules import options as rule_options
from agent.rules.files import LARGEST
from agent.rules.groups import file, ranges
from agent.rules.groups.file import Context, RuleError, RuleFileError
from collectors.interface.refusal import CollectorConfigError
from collectors.shared import steadyfile
from plimsoll import flags, strictyaml
from plimsoll.commandline import Parser

PROGRAM = "plimsoll check-rules"
_ABOUT = """
Checks files with recording rules as the agent reads them (--rules.file), and prints every error with its line and column. Nothing is
evaluated. Notes name rules whose ranges hold fewer than two samples.
"""
_EXAMPLES = """
examples:
  plimsoll check-rules rules.yaml
      rules.yaml: 2 groups, 14 rules
  plimsoll check-rules '/etc/plimsoll/rules/*.yaml'
      all files that a pattern matches, as in --rules.file
  plimsoll check-rules deploy/rules
      all *.yaml and *.yml files of a folder

An error looks like this; an expression that the agent does not support is one too, although Prometheus evaluates it:
  rules.yaml: line 8, column 11: group "a", rule "b": unclosed left parenthesis

exit status: 0 if all files are valid; 1 if one is not, or cannot be read; 2 for a wrong flag.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The agent's flags that matter here."""

    interval: float = rule_options.interval()
    ranges: str = rule_options.ranges()


def main(argv: Sequence[str]) -> int:
    """Check the files and print the findings. Returns the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES, usage=f"{PROGRAM} FILE...")
    command.add_argument("files", metavar="FILE", nargs="+", help="a rule file, a glob or a folder")
    flags.add_options(command, Options)
    namespace = command.parse_args(argv)
    options = flags.from_namespace(Options, command, namespace, env={})
    failed = False
    for pattern in namespace.files:
        paths = list(_matches(pattern))
        if not paths:
            sys.stderr.write(f"{pattern}: no rule file matches\n")
            failed = True
        for path in paths:
            failed |= not _check(path, options)
    return int(failed)


def _matches(pattern: str) -> Iterator[str]:
    if os.path.isdir(pattern):  # noqa: PTH112 (a pattern may follow)
        yield from sorted(
            path
            for suffix in ("yaml", "yml")
            for path in glob.glob(f"{glob.escape(pattern)}/*.{suffix}")  # noqa: PTH207 (as --rules.file)
        )
    elif glob.has_magic(pattern):
        yield from sorted(glob.glob(pattern.replace("[^", "[!")))  # noqa: PTH207 (as --rules.file)
    else:
        yield pattern


def _check(path: str, options: Options) -> bool:
    """Print a file's errors and notes, or its number of groups and rules if there are no errors. Returns whether it is valid."""
    try:
        text = steadyfile.read(path, limit=LARGEST)[1].decode()
        rule_file = file.read(strictyaml.load(text), Context(strictyaml.Finder(text).where))
    except UnicodeDecodeError as error:
        return _refuse(path, f"byte {error.start}: not UTF-8")
    except (CollectorConfigError, RuleFileError, strictyaml.MalformedError) as error:
        return _refuse(path, str(error))
    for wrong in rule_file.errors:
        _refuse(path, _spelled(wrong))
    for note in rule_file.notes:
        sys.stdout.write(f"{path}: note: {note}\n")
    interval, closed = round(1000 * options.interval), options.ranges == "closed"
    for group, rule, text in ranges.short(rule_file.groups, interval, closed=closed):
        sys.stdout.write(f'{path}: note: group "{group}", rule "{rule}": {text}\n')
    if not rule_file.errors:
        rules = sum(len(group.rules) for group in rule_file.groups)
        sys.stdout.write(f"{path}: {len(rule_file.groups)} groups, {rules} rules\n")
    return not rule_file.errors


def _refuse(path: str, text: str) -> bool:
    sys.stderr.write(f"{path}: {text}\n")
    return False


def _spelled(error: RuleError) -> str:
    where, _, text = (
        error.text.partition(": ") if error.text.startswith("line ") else ("", "", error.text)
    )
    rule = f', rule "{error.rule}"' if error.rule else ""
    return f'{where + ": " if where else ""}group "{error.group}"{rule}: {text}'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
