"""Checks policy manifests without a cluster, and prints what each rule means."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.cli.check import documents, schema
from evaluator.cli.check.advice import advice
from evaluator.cli.check.describe import describe
from evaluator.policy import parse
from plimsoll.commandline import Parser
from plimsoll.strictyaml import MalformedError
from plimsoll.text import counted, one_line

_MANIFESTS = (".yaml", ".yml", ".json")
"""File name suffixes that `kubectl apply --filename FOLDER` reads."""
_NO_OBJECT = "a document is not a Kubernetes object"
PROGRAM = "plimsoll-evaluator check"
_ABOUT = """
Checks TASPolicy manifests without a cluster, and prints what each rule means. Errors are parts that the API server would
reject or the evaluator would ignore; warnings are valid parts that are probably not intended. Other kinds of objects are
skipped, and in folders also files without Kubernetes objects.
"""
_EXAMPLES = """
exit status: 0 without errors, 1 with errors, 2 for invalid arguments.

example:
  plimsoll-evaluator check deploy/health-metric-demo
  kubectl get taspolicies -A -o yaml | plimsoll-evaluator check -
"""


@dataclass(slots=True)
class Findings:
    """Findings in one object, or in a file as a whole."""

    title: str
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    meanings: list[str] = field(default_factory=list)
    is_policy: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        yield one_line(self.title)
        yield from (f"  {line}" for line in self.meanings)
        yield from (f"  error: {one_line(line)}" for line in self.errors)
        yield from (f"  warning: {one_line(line)}" for line in self.warnings)


def main(argv: Sequence[str]) -> int:
    """Check the files in the arguments; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a manifest, or a folder of *.yaml, *.yml and *.json; - is standard input",
    )
    names = command.parse_args(argv).files
    found = [one for name in names for one in _check_named(name)]
    if not any(one.is_policy or one.errors for one in found):
        found = [Findings(", ".join(names), ["no TASPolicy found"])]
    for one in found:
        sys.stdout.writelines(f"{line}\n" for line in one.lines())
    policies = sum(one.is_policy for one in found)
    errors, warnings = (
        sum(len(getattr(one, kind)) for one in found) for kind in ("errors", "warnings")
    )
    sys.stdout.write(
        f"{counted(policies, 'policy', 'policies')}, {counted(errors, 'error')}, {counted(warnings, 'warning')}\n"
    )
    return 1 if errors else 0


def _check_named(name: str) -> Iterator[Findings]:
    if not Path(name).is_dir():
        yield from check_file(name)
        return
    for file in manifests(name):
        # The file was not named explicitly: rules and dashboards may be stored beside manifests.
        yield from (one for one in check_file(file) if one.errors != [_NO_OBJECT])


def manifests(root: str) -> Iterator[str]:
    """Yield the manifests in a folder and its subfolders, sorted by name; symbolic links to folders are not followed."""
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        yield from (str(Path(folder, file)) for file in sorted(files) if file.endswith(_MANIFESTS))


def check_file(name: str) -> list[Findings]:
    """Return the findings in a file, or why it cannot be read."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return [Findings(name, ["not a text file"])]
    except OSError as error:
        return [Findings(name, [f"cannot be read: {error.strerror}"])]
    return check_text("standard input" if name == "-" else name, text)


def check_text(name: str, text: str) -> list[Findings]:
    """Return the findings in a text; objects before a syntax error are checked."""
    found: list[Findings] = []
    try:
        for obj in documents.objects(text):
            if not isinstance(obj, Mapping) or not obj.get("kind"):
                found.append(Findings(name, [_NO_OBJECT]))
            elif obj["kind"] == schema.KIND:
                found.append(_check(name, obj))
            elif str(obj.get("apiVersion")).startswith(schema.GROUP):
                kind = f"unknown kind {obj['kind']!r} in {schema.GROUP}: the only kind is {schema.KIND}"
                found.append(Findings(name, [kind]))
    except MalformedError as error:
        found.append(Findings(name, [f"invalid YAML: {error}"]))
    return found


def _check(name: str, obj: Mapping[str, object]) -> Findings:
    schema_errors = list(schema.flaws(obj))
    meta = obj.get("metadata")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str):
        return Findings(f"{name}: a policy without a name", schema_errors, is_policy=True)
    policy = parse.parse({**obj, "metadata": {**meta, "generation": 0, "uid": ""}})
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    # Both checks report an invalid duration: once is enough.
    other_problems = [problem for problem in policy.problems if "not a duration" not in problem]
    return Findings(
        f"{name}: policy {where}{meta['name']}",
        [*schema_errors, *(other_problems if schema_errors else policy.problems)],
        list(advice(policy, obj)),
        list(describe(policy)),
        is_policy=True,
    )
