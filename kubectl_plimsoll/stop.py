"""`kubectl plimsoll stop` and `resume`: entries of the ConfigMap plimsoll-stop, which the evaluator watches."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kubectl_plimsoll.evaluator import Evaluator, UnreachableError, well_formed
from plimsoll.text import counted, printable

ALL = "all"
_LONGEST_KEY = 253
"""Characters of a key of a ConfigMap."""


class StopError(Exception):
    """Nothing was changed; the message says why."""


def stop(given: argparse.Namespace, service: Evaluator) -> str:
    """Stop policies, all without names; return what was done. Raises StopError and UnreachableError."""
    policies = _policies(given, service)
    for policy in policies:
        _check(policy, service)
    if given.release and not given.yes:
        _confirm(_opened(policies, service))
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    mode = "release" if given.release else "freeze"
    entry = json.dumps(
        {"mode": mode, "by": service.user(), "at": now, "reason": given.reason or ""}
    )
    data: dict[str, str | None] = {_key(policy): entry for policy in policies}
    if not policies:  # an entry of one policy would count before that of all
        data = {**dict.fromkeys(service.stops()), ALL: entry}
    service.write_stops(data)
    how = "only observed" if given.release else "frozen: what stands stays, and nothing new is done"
    return f"{_named(policies)} {how}; to end it: kubectl plimsoll resume{_words(policies)}"


def resume(given: argparse.Namespace, service: Evaluator) -> str:
    """End the stop of policies, or all stops without names; return what was done. Raises StopError and UnreachableError."""
    policies, stops = _policies(given, service), service.stops()
    if not policies:
        service.write_stops(dict.fromkeys(stops))
        return "nothing is stopped any more"
    missing = [policy for policy in policies if _key(policy) not in stops]
    if missing:
        hint = ": all policies are: resume without a name" if ALL in stops else ""
        raise StopError(f"{', '.join(missing)} has no stop of its own{hint}")
    service.write_stops({_key(policy): None for policy in policies})
    still = "; the stop of all policies still holds" if ALL in stops else ""
    return f"{_named(policies)} not stopped any more{still}"


def _policies(given: argparse.Namespace, service: Evaluator) -> list[str]:
    """Return the policies that the words name, as namespace/name."""
    names = given.words[1:]
    if any(name.count("/") > 1 or not all(name.split("/")) for name in names):
        raise StopError(f"{given.words[0]} takes names of policies: web or shop/web")
    namespace = given.namespace or (service.current_namespace() if names else "")
    return [name if "/" in name else f"{namespace}/{name}" for name in names]


def _key(policy: str) -> str:
    return policy.replace("/", ".")


def _check(policy: str, service: Evaluator) -> None:
    """Check that a policy exists; a typo would stop nothing. Raises StopError."""
    if len(_key(policy)) > _LONGEST_KEY:
        raise StopError(f"the name {policy} is too long for an entry: stop all policies")
    try:
        service.check_policy(policy)
    except UnreachableError as error:
        if "NotFound" in str(error) or "not found" in str(error):
            raise StopError(f"no policy {policy}") from error


def _opened(policies: Sequence[str], service: Evaluator) -> str:
    """Return how many nodes releasing policies opens, as a phrase."""
    try:
        with well_formed():
            return counted(_violating(policies, service), "node")
    except UnreachableError:
        return "an unknown number of nodes (the evaluator does not answer)"


def _violating(policies: Sequence[str], service: Evaluator) -> int:
    """Return how many nodes violate some of the policies that are enforced, all without names. Raises UnreachableError."""
    modes = {one["policy"]: one["enforcement"] for one in service.get()["policies"]}
    nodes: Mapping[str, Mapping[str, Mapping[str, object]]]
    nodes = service.get(query={"nodes": ""})["nodes"]
    enforced = {policy for policy, mode in modes.items() if mode == "enforce"}
    chosen = enforced & set(policies) if policies else enforced
    return sum(bool(chosen & node["violates"].keys()) for node in nodes.values())


def _confirm(opened: str) -> None:
    """Ask before nodes are opened. Raises StopError without a yes."""
    text = f"this takes taints, labels and conditions off, and opens {opened} to new pods"
    if not sys.stdin.isatty():
        raise StopError(f"{text}: add --yes")
    sys.stderr.write(f"{text}. Continue? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise StopError("nothing was changed")


def _named(policies: Sequence[str]) -> str:
    verb = "is" if len(policies) == 1 else "are"
    return printable(f"{', '.join(policies) or 'all policies'} {verb}")


def _words(policies: Sequence[str]) -> str:
    return printable("".join(f" {policy}" for policy in policies))
