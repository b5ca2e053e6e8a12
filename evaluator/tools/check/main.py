"""Checks manifests of policies and of pods without a cluster, and prints what each rule means."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evaluator.core.catalog import shipped
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy import parse
from evaluator.core.policy.annotations import understand
from evaluator.core.policy.types import Policy
from evaluator.core.policy.vocabulary import PUBLIC
from evaluator.features.registry import VOCABULARY
from evaluator.tools.check import manifests, metrics
from evaluator.tools.check.advice import Workload, advice, workload, workload_warnings
from evaluator.tools.check.live import NOTHING_KNOWN, LiveError, ask
from evaluator.tools.check.produced import Produced
from evaluator.tools.check.report import Findings, as_json, as_text, describe
from evaluator.tools.configure_scheduler.configuration import ConfigurationError, without_preempt
from plimsoll.commandline import Parser
from plimsoll.files import userfile
from plimsoll.strictyaml import MalformedError
from plimsoll.text import one_line

_NO_OBJECT = "a document is not a Kubernetes object"
_NOTHING = "no TASPolicy found, and no pod that names one"
PROGRAM = "plimsoll check"
_ABOUT = """
Checks TASPolicy manifests without a cluster, and prints what each rule means. Errors are parts that the API server would
reject or the evaluator would ignore; warnings are valid parts that are probably not intended. Pods, Deployments, StatefulSets,
DaemonSets, Jobs and CronJobs are checked for the policy that they name. Metrics are compared with those that Plimsoll ships and
with given files of recording rules and of log monitors. Of kube-scheduler's configurations, entries
without preemptVerb are warnings. Other kinds of objects are skipped, and in folders also files without Kubernetes objects.
"""
_EXAMPLES = """
exit status: 0 without errors, 1 with errors (with --strict also with warnings), 2 for invalid arguments.

example:
  plimsoll check deploy/health-metric-demo
  kubectl get taspolicies,deployments -A -o yaml | plimsoll check --strict -
"""


class Checked(NamedTuple):
    """The findings in an object, and the object if it is a policy or a workload."""

    findings: Findings
    policy: Policy | None = None
    workload: Workload | None = None
    recorded: frozenset[str] = frozenset()
    """The series that a file of recording rules records."""
    monitored: frozenset[str] = frozenset()
    """The types of the conditions of log monitors."""


def main(argv: Sequence[str]) -> int:
    """Check the files in the arguments; return the exit status."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES)
    command.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a manifest, or a folder of *.yaml, *.yml and *.json; - is standard input",
    )
    command.add_argument(
        "--output", "-o", choices=("text", "json"), default="text", help="format of the report"
    )
    command.add_argument("--strict", action="store_true", help="exit 1 also if there are warnings")
    command.add_argument(
        "--live",
        metavar="URL",
        help="operations port of a running evaluator: also report which nodes have the metrics now, such as http://localhost:8080",
    )
    given = command.parse_args(argv)
    checked = [checked_object for name in given.files for checked_object in _check_named(name)]
    try:
        _compare(checked, given.live)
    except LiveError as error:
        command.error(str(error))
    findings = [
        checked_object.findings
        for checked_object in checked
        if checked_object.findings.kind or checked_object.findings.errors
    ]
    if not findings:
        findings = [Findings(", ".join(given.files), [_NOTHING])]
    sys.stdout.write(as_json(findings) if given.output == "json" else as_text(findings))
    failed = any(
        checked_object.errors or (given.strict and checked_object.warnings)
        for checked_object in findings
    )
    return 1 if failed else 0


def _compare(checked: Sequence[Checked], live_url: str | None) -> None:
    """Compare workloads with policies, and the metrics of policies with those that exist. Raises LiveError."""
    policies = {
        checked_object.policy.key: checked_object.policy
        for checked_object in checked
        if checked_object.policy
    }
    recorded = frozenset[str]().union(*(checked_object.recorded for checked_object in checked))
    monitored = frozenset[str]().union(*(checked_object.monitored for checked_object in checked))
    used = sorted(frozenset[str]().union(*(policy.base_metrics for policy in policies.values())))
    live = ask(live_url, used) if live_url else NOTHING_KNOWN
    known = frozenset(metric for metric in used if live.metric(metric).read)
    produced = Produced(policies.values(), monitored, recorded)
    for checked_object in checked:
        findings = checked_object.findings
        if policy := checked_object.policy:
            absent = [m for m in sorted(policy.base_metrics) if not live.metric(m).exists]
            never = dict(produced.errors(absent))
            findings.errors += [*VOCABULARY.never_computed(absent, policies), *never.values()]
            settled = known | never.keys()
            findings.warnings += _unshared(policy, policies)
            findings.warnings += live.warnings(policy)
            findings.warnings += metrics.warnings(policy, shipped(), recorded, settled)
            findings.meanings += metrics.not_shipped(policy, shipped(), recorded, settled)
            findings.meanings += live.notes(policy) if live_url else ()
        if checked_object.workload:
            findings.warnings += workload_warnings(checked_object.workload, policies)


def _unshared(policy: Policy, policies: Mapping[PolicyKey, Policy]) -> Iterator[str]:
    """Yield a warning for each metric about a policy of another namespace that is not public. `policies`: those checked."""
    for metric, key, row in VOCABULARY.unshared(policy, policies):
        if key in policies:
            yield (
                f"{metric}: policy {key} has no annotation {row.public}: {PUBLIC}: only policies that are older than the rule "
                "about public scores read it"
            )


def _check_named(name: str) -> Iterator[Checked]:
    if not Path(name).is_dir():
        yield from check_file(name)
        return
    for file in manifests.files_in(name):
        # The file was not named explicitly: rules and dashboards may be stored beside manifests.
        yield from (
            checked for checked in check_file(file) if checked.findings.errors != [_NO_OBJECT]
        )


def check_file(name: str) -> list[Checked]:
    """Return the objects of a file and the findings in them, or why it cannot be read."""
    try:
        text = userfile.read_text(name)
    except UnicodeDecodeError:
        return [Checked(Findings(name, ["not a text file"]))]
    except OSError as error:
        return [Checked(Findings(name, [f"cannot be read: {error.strerror}"]))]
    return check_text("standard input" if name == "-" else name, text)


def check_text(name: str, text: str) -> list[Checked]:
    """Return the objects of a text and the findings in them; objects before a syntax error are checked."""
    checked: list[Checked] = []
    try:
        for obj in manifests.objects(text):
            if names := manifests.recorded(obj):
                checked.append(Checked(Findings(name), recorded=names))
            elif types := manifests.monitored(obj):
                checked.append(Checked(Findings(name), monitored=types))
            elif not isinstance(obj, Mapping) or not obj.get("kind"):
                checked.append(Checked(Findings(name, [_NO_OBJECT])))
            elif obj["kind"] == manifests.KIND:
                checked.append(_check_policy(name, obj))
            elif str(obj.get("apiVersion")).startswith(manifests.GROUP):
                kind = f"unknown kind {obj['kind']!r} in {manifests.GROUP}: the only kind is {manifests.KIND}"
                checked.append(Checked(Findings(name, [kind])))
            elif (pods := workload(obj)) and pods.concerns_policies:
                checked.append(_check_workload(name, obj, pods))
            else:
                checked += [_check_scheduler(name, obj, one) for one in manifests.scheduler(obj)]
    except MalformedError as error:
        checked.append(Checked(Findings(name, [f"invalid YAML: {error}"])))
    return checked


def _check_policy(name: str, obj: Mapping[str, object]) -> Checked:
    schema_errors = list(manifests.flaws(obj))
    meta = obj.get("metadata")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str):
        return Checked(Findings(name, schema_errors, kind=manifests.KIND))
    policy = parse.parse(
        {**obj, "metadata": {**meta, "generation": 0, "uid": ""}}, vocabulary=VOCABULARY
    )
    unknown = understand(meta, parse.declared_annotations(VOCABULARY))
    # Both checks report an invalid duration: once is enough.
    other_problems = [problem for problem in policy.problems if "not a duration" not in problem]
    findings = Findings(
        name,
        [*schema_errors, *(other_problems if schema_errors else policy.problems)],
        [*unknown.warnings, *advice(policy, obj)],
        list(describe(policy)),
        manifests.KIND,
        str(meta.get("namespace") or ""),
        meta["name"],
    )
    return Checked(findings, policy)


def _check_scheduler(name: str, obj: Mapping[str, Any], found: Mapping[str, Any]) -> Checked:
    meta = obj["metadata"] if isinstance(obj.get("metadata"), Mapping) else {}
    findings = Findings(
        name,
        kind=manifests.SCHEDULER,
        namespace=str(meta.get("namespace") or ""),
        name=str(meta.get("name") or ""),
    )
    try:
        lacking = without_preempt(found)
        findings.warnings += (f"{one}: run plimsoll configure-scheduler again" for one in lacking)
    except ConfigurationError as error:
        findings.errors.append(str(error))
    return Checked(findings)


def _check_workload(name: str, obj: Mapping[str, Any], pods: Workload) -> Checked:
    meta = obj["metadata"] if isinstance(obj.get("metadata"), Mapping) else {}
    findings = Findings(
        name,
        [pods.error] if pods.error else [],
        meanings=[f"its pods use policy {one_line(pods.policy)}"] if pods.policy else [],
        kind=str(obj["kind"]),
        namespace=pods.namespace,
        name=str(meta.get("name") or meta.get("generateName") or ""),
    )
    return Checked(findings, workload=pods)
