"""`kubectl_complete-plimsoll`: candidates for kubectl's shell completion.

kubectl runs it with the words after `kubectl plimsoll`, the last of which is incomplete, and reads one candidate per line
and a directive: https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/#shell-completion.
"""

import contextlib
import io
import sys
from collections.abc import Iterable, Sequence

from kubectl_plimsoll.evaluator import Evaluator, UnreachableError, well_formed
from kubectl_plimsoll.main import COMMANDS, KINDS, evaluator, parser

_NO_FILES = ":4"
"""cobra's ShellCompDirectiveNoFileComp."""
_OUTPUTS = ("json", "yaml", "wide")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the candidates; never an error, which would end up on the command line."""
    words = list(sys.argv[1:] if argv is None else argv) or [""]
    completions: Iterable[str] = ()
    with contextlib.suppress(UnreachableError, SystemExit), well_formed():
        completions = sorted(filter(str.isprintable, candidates(words[:-1], words[-1])))
    for candidate in completions:
        print(candidate)  # noqa: T201 (kubectl reads it)
    print(_NO_FILES)  # noqa: T201
    return 0


def candidates(before: Sequence[str], part: str) -> list[str]:
    """Return the words that begin with `part`. Raises UnreachableError, SystemExit for invalid flags, others for odd answers."""
    if part.startswith("-"):
        flags = [flag for action in parser()._actions for flag in action.option_strings]  # noqa: SLF001
        return [flag for flag in flags if flag.startswith(part) and flag != "-help"]
    if before and before[-1] in {"-o", "--output"}:
        return [output for output in _OUTPUTS if output.startswith(part)]
    of_flag = bool(before) and before[-1] in {"-n", "--namespace"}
    with contextlib.redirect_stderr(io.StringIO()):
        words = before[:-1] if of_flag else before
        given = parser().parse_intermixed_args([*words, "--request-timeout=2s"])
    reached = evaluator(given)
    if of_flag:
        names = {policy["policy"].partition("/")[0] for policy in reached.get()["policies"]}
        return [name for name in names if name.startswith(part)]
    choices = _words(given.words, reached, given.namespace)
    return [word for word in choices if word.startswith(part)]


def _words(words: Sequence[str], reached: Evaluator, namespace: str | None) -> Iterable[str]:
    match words:
        case []:
            return COMMANDS
        case ["explain"]:
            return KINDS
        case ["stop" | "resume", *_]:
            return _in_namespace("policy", reached, namespace or reached.current_namespace())
        case ["history"]:
            return ("policy", "node", "pod")
        case ["nodes"] | ["explain" | "history" | "forget", "node"]:
            return list(reached.get(query={"nodes": ""})["nodes"])
        case ["explain", "policy" | "pod" | "gang" as kind] | ["history", "policy" | "pod" as kind]:
            return _in_namespace(kind, reached, namespace or reached.current_namespace())
        case _:
            return ()


def _in_namespace(kind: str, reached: Evaluator, namespace: str) -> Iterable[str]:
    if kind == "gang":
        names = [gang["gang"] for gang in reached.get(query={"gang": ""})["gangs"]]
    else:
        page = reached.get(namespace)
        names = [entry[kind] for entry in page["policies" if kind == "policy" else "pods"]]
    return [name for of, _, name in (full.partition("/") for full in names) if of == namespace]
