"""The command line: `kubectl plimsoll status | policies | nodes [NODE] | explain KIND NAME | history [KIND NAME] | top | ack NODE PROBLEM`."""

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from kubectl_plimsoll import history, pods, stop, views
from kubectl_plimsoll.evaluator import Evaluator, Page, UnreachableError, well_formed
from kubectl_plimsoll.history import HistoryPages
from kubectl_plimsoll.table import Style
from plimsoll.commandline import Parser
from plimsoll.text import printable

_PROBLEM = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,57}[A-Za-z0-9])?", re.ASCII)
"""A condition type that fits into the name of an annotation."""
TURNED_AWAY, UNKNOWN = 1, 2
"""Exit statuses: Plimsoll turns the pod away; there is no answer."""

COMMANDS = (
    "status",
    "policies",
    "nodes",
    "explain",
    "history",
    "top",
    "ack",
    "forget",
    "stop",
    "resume",
)
KINDS = ("pod", "node", "policy", "gang")
_WITH_HISTORY = ("policy", "node", "pod")
_KIND_NAMES = {
    **{kind: kind for kind in KINDS},
    "po": "pod",
    "pods": "pod",
    "no": "node",
    "nodes": "node",
    "gangs": "gang",
    **dict.fromkeys(("policies", "tas", "taspolicy", "taspolicies"), "policy"),
}
"""What kubectl's users write for each kind."""
KUBECTL_FLAGS = ("kubeconfig", "context", "cluster", "user", "as", "request-timeout")
"""Flags that are passed on to kubectl."""

_ABOUT = """
Shows policies, nodes, pods and gangs as Plimsoll's evaluator sees them, through the API server and with your own rights.

commands:
  status                    whether the evaluator is ready, and how many policies are violated
  policies                  policies of the namespace (-A: of all)
  nodes [NODE]              which policies each node violates, or one node with its readings
  explain pod NAME          (or pod/NAME, as for the other kinds) why a pod waits, and whether Plimsoll is the cause
  explain node NAME         each policy and reading of a node
  explain policy NAME       each rule with the nodes that violate it
  explain gang NAME         the state of a gang, and the reason
  history [KIND NAME]       what changed, when and why: of a policy, node or pod, or of all; -w: as it happens
  ack node/NAME PROBLEM     end a problem of a node, such as KernelDeadlock, with your name and the time
  forget node NAME          deletes the scores of a node (plimsoll.io/memory), with your own right to patch nodes
  stop [POLICY...]          freeze policies, or all: nothing new is done, what stands stays; --release: only observe
  resume [POLICY...]        end the stop of policies, or all stops
  top                       nodes that violate policies, and those that changed most; -w: again every two seconds
"""
_EXAMPLES = """
exit status: 0; 1 if Plimsoll turns the explained pod away; 2 if there is no answer.

examples:
  kubectl plimsoll status
  kubectl plimsoll explain pod web-7d4b9 -n shop
  kubectl plimsoll policies -A -o wide
  kubectl plimsoll history node worker-3 --since 30m
"""


class UsageError(Exception):
    """The arguments are no command; the message says why."""


View = Callable[[Page, Style, bool], Iterable[str]]


def parser() -> Parser:
    """Return the parser of all flags."""
    made = Parser(
        "kubectl plimsoll",
        about=_ABOUT,
        examples=_EXAMPLES,
        usage="kubectl plimsoll COMMAND [flags]",
    )
    made.with_version()
    made.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    made.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="namespace of pods, policies and gangs; by default the context's",
    )
    made.add_argument(
        "-A", "--all-namespaces", action="store_true", help="policies of all namespaces"
    )
    made.add_argument(
        "-o",
        "--output",
        choices=("json", "yaml", "wide"),
        metavar="FORMAT",
        help="json, yaml (the evaluator's whole answer) or wide",
    )
    made.add_argument(
        "--evaluator-namespace",
        default=os.environ.get("PLIMSOLL_NAMESPACE", "plimsoll"),
        metavar="NAMESPACE",
        help="namespace of the evaluator's Service (default plimsoll, or $PLIMSOLL_NAMESPACE)",
    )
    made.add_argument(
        "--evaluator-service",
        default="plimsoll-evaluator",
        metavar="NAME",
        help="name of that Service (default plimsoll-evaluator)",
    )
    made.add_argument(
        "--evaluator-port",
        default="ops",
        metavar="PORT",
        help="name or number of its port for /explain (default ops)",
    )
    made.add_argument(
        "--since", metavar="TIME", help="history and top: 30m, or 2026-11-20T09:15:04Z (top: 1h)"
    )
    made.add_argument("--kind", metavar="KINDS", help="history: such as violated,evicted")
    made.add_argument(
        "-w", "--watch", action="store_true", help="history and top: until interrupted"
    )
    made.add_argument("--reason", metavar="TEXT", help="stop: why, for everyone to read")
    made.add_argument(
        "--release", action="store_true", help="stop: only observe, which opens nodes to new pods"
    )
    made.add_argument("--yes", action="store_true", help="stop --release: do not ask")
    for flag in KUBECTL_FLAGS:
        made.add_argument(f"--{flag}", metavar="VALUE", help="passed on to kubectl")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    made = parser()
    given = made.parse_intermixed_args(argv)
    service = evaluator(given)
    try:
        if given.watch:
            return _watch(given, service)
        if given.words[:1] == ["ack"]:
            sys.stdout.write(f"{_acknowledge(given.words[1:], service)}\n")
            return 0
        if given.words[:1] == ["forget"]:
            return _forget(given, service)
        if given.words[:1] in (["stop"], ["resume"]):
            return _stop(given, service)
        page, view = _page(given, service)
        text = _text(page, view, given.output)
    except UsageError as error:
        made.error(str(error))
    except UnreachableError as error:
        sys.stderr.write(f"kubectl plimsoll: {printable(str(error))}\n")
        return UNKNOWN
    sys.stdout.write(text)
    if view is pods.pod:
        turned_away = page.get("turnedAwayByPlimsoll")
        return UNKNOWN if turned_away is None else TURNED_AWAY if turned_away else 0
    return UNKNOWN if view is views.status and page.get("waitingFor") else 0


def evaluator(given: argparse.Namespace) -> Evaluator:
    """Return the evaluator that the flags name."""
    passed = [(flag, getattr(given, flag.replace("-", "_"))) for flag in KUBECTL_FLAGS]
    kubectl = ["kubectl", *(f"--{flag}={value}" for flag, value in passed if value)]
    return Evaluator(
        kubectl, given.evaluator_namespace, given.evaluator_service, given.evaluator_port
    )


def _page(given: argparse.Namespace, service: Evaluator) -> tuple[Page, View]:
    """Return the page that a command shows, and its view. Raises UnreachableError and UsageError."""
    match given.words:
        case ["status"]:
            return service.get(), views.status
        case ["policies"]:
            return _policies(given, service), views.policies
        case ["nodes"]:
            return service.get(query={"nodes": ""}), views.nodes
        case ["nodes", name]:
            return service.get(query={"node": name}), views.node
        case ["explain", *named]:
            kind, name = _kind_and_name(named)
            if kind and name:
                return _explained(kind, name, given, service)
            mistake = f"explain takes one of {', '.join(KINDS)} and a name, not {' '.join(named) or 'nothing'}"
        case ["history", *named]:
            pages = HistoryPages(service, given)
            return pages.get(*pages.path(*_of_history(named))), history.history
        case ["top"]:
            return HistoryPages(service, given).top(), history.top
        case _:
            mistake = f"{' '.join(given.words) or 'no command'}: commands are {', '.join(COMMANDS)}"
    raise UsageError(mistake)


def _kind_and_name(words: Sequence[str]) -> tuple[str, str]:
    """Return the kind and name that `KIND/NAME` or `KIND NAME` names; an empty kind if it is neither."""
    match words:
        case [written] if "/" in written:
            written_kind, _, name = written.partition("/")
        case [written_kind, name]:
            pass
        case _:
            return "", ""
    return _KIND_NAMES.get(written_kind, ""), name


def _acknowledge(words: Sequence[str], service: Evaluator) -> str:
    """Acknowledge a problem of a node; return what was done. Raises UnreachableError and UsageError."""
    *named, problem = words or [""]
    kind, name = _kind_and_name(named)
    if kind != "node" or not name or _PROBLEM.fullmatch(problem) is None:
        raise UsageError("ack takes a node and a problem: ack node/worker-3 KernelDeadlock")
    service.acknowledge(name, problem)
    return f"{problem} of node {name} acknowledged; it begins anew with the next line in the log"


def _forget(given: argparse.Namespace, service: Evaluator) -> int:
    """Delete the scores of a node. Raises UnreachableError and UsageError."""
    kind, name = _kind_and_name(given.words[1:])
    if kind != "node" or not name or given.output:
        raise UsageError("forget takes node NAME, and no -o")
    sys.stdout.write(printable(service.forget(name)) + "\n")
    return 0


def _stop(given: argparse.Namespace, service: Evaluator) -> int:
    """Stop policies, or end stops. Raises UnreachableError and UsageError."""
    if given.output:
        raise UsageError(f"{given.words[0]} takes no -o")
    act = stop.stop if given.words[0] == "stop" else stop.resume
    try:
        sys.stdout.write(f"{act(given, service)}\n")
    except stop.StopError as error:
        raise UsageError(str(error)) from error
    return 0


def _of_history(named: Sequence[str]) -> tuple[str, str]:
    """Return the kind and name of the object whose history is requested; empty for all. Raises UsageError."""
    if not named:
        return "", ""
    kind, name = _kind_and_name(named)
    if kind not in _WITH_HISTORY or not name:
        kinds = ", ".join(_WITH_HISTORY)
        raise UsageError(f"history takes one of {kinds} and a name, not {' '.join(named)}")
    return kind, name


def _watch(given: argparse.Namespace, service: Evaluator) -> int:
    """Show history or top until interrupted. Raises UnreachableError and UsageError."""
    pages = HistoryPages(service, given)
    screen = sys.stdout.isatty() and not given.output

    def show(view: View, page: Page) -> None:
        again = history.CLEAR if screen and view is history.top else ""
        sys.stdout.write(again + _text(page, view, given.output))
        sys.stdout.flush()

    try:
        with contextlib.suppress(KeyboardInterrupt):
            match given.words:
                case ["history", *named]:
                    path, query = pages.path(*_of_history(named))
                    history.watch_history(pages, path, query, partial(show, history.history))
                case ["top"]:
                    history.watch_top(pages, partial(show, history.top))
                case _:
                    raise UsageError("--watch is for history and top")
    except BrokenPipeError:  # as in `| head`; the interpreter must not flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _policies(given: argparse.Namespace, service: Evaluator) -> Page:
    page = service.get()
    if not given.all_namespaces:
        of = f"{given.namespace or service.current_namespace()}/"
        with well_formed():
            page["policies"] = [
                policy for policy in page["policies"] if policy["policy"].startswith(of)
            ]
    return page


def _explained(
    kind: str, name: str, given: argparse.Namespace, service: Evaluator
) -> tuple[Page, View]:
    if kind == "node":
        return service.get(query={"node": name}), views.node
    named = _named(name, given, service)
    if kind == "policy":
        return service.get(named), views.policy
    return service.get(query={kind: named}), pods.pod if kind == "pod" else pods.gang


def _named(name: str, given: argparse.Namespace, service: Evaluator) -> str:
    """Return namespace/name; the namespace may be in the name."""
    return name if "/" in name else f"{given.namespace or service.current_namespace()}/{name}"


def _text(page: Page, view: View, output: str | None) -> str:
    if output == "json":
        return json.dumps(page, indent=2) + "\n"
    if output == "yaml":
        return _yaml(page)
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    style = Style(coloured)
    with well_formed():
        shown = _printable(page)
        lines = [*views.notices(shown, style), *view(shown, style, output == "wide")]
    return "".join(f"{line}\n" for line in lines)


def _yaml(page: Any) -> str:
    try:
        import yaml  # only this output needs it
    except ModuleNotFoundError:
        raise UsageError(
            "-o yaml needs the package PyYAML (pip install pyyaml); -o json does not"
        ) from None
    text = str(yaml.safe_dump(page, sort_keys=False, allow_unicode=True))
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return str(yaml.safe_dump(page, sort_keys=False))  # escapes what may control a terminal


def _printable(value: Any) -> Any:
    """Return a page whose texts and keys cannot control a terminal; views may print any of them."""
    if isinstance(value, dict):
        return {printable(key): _printable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [*map(_printable, value)]
    return printable(value) if isinstance(value, str) else value
