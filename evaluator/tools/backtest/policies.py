"""Reads the policies to replay from manifests."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import Policy
from evaluator.core.readings.node_conditions import PREFIX
from evaluator.features.registry import VOCABULARY
from evaluator.tools.check import manifests
from plimsoll.files import userfile
from plimsoll.strictyaml import MalformedError
from plimsoll.text import SentenceError


class PoliciesError(SentenceError):
    """The policies cannot be replayed."""


def read(names: Sequence[str], *, any_metric: bool = False) -> list[Policy]:
    """Return the policies of files and folders; `-` is standard input. Raises PoliciesError.

    `any_metric`: also those with metrics that are not recorded.
    """
    by_key: dict[Any, Policy] = {}
    for name in names:
        for obj in _objects(name):
            policy = parse(obj, vocabulary=VOCABULARY)
            if policy.key in by_key:
                raise PoliciesError(f"{name}: policy {policy.key} appears twice")
            by_key[policy.key] = policy
    if not by_key:
        raise PoliciesError(f"{', '.join(names)}: no TASPolicy found")
    for policy in by_key.values():
        _check(policy, any_metric=any_metric)
    return [*by_key.values()]


def _check(policy: Policy, *, any_metric: bool) -> None:
    """Refuse policies of which nothing, or not everything, can be replayed."""
    if not policy.metrics:
        why = policy.problems[0] if policy.problems else "it has no rules"
        raise PoliciesError(f"policy {policy.key}: {why}")
    live = sorted(
        metric
        for metric in policy.base_metrics
        if metric.startswith(PREFIX) or metric in policy.derived_metrics
    )
    if live and not any_metric:
        raise PoliciesError(
            f"policy {policy.key}: {', '.join(live)}: node conditions and derived metrics are not recorded, so they cannot "
            "be replayed; remove these rules from a copy of the policy"
        )


def _objects(name: str) -> Iterator[Mapping[str, Any]]:
    files = [*manifests.files_in(name)] if name != "-" and Path(name).is_dir() else [name]
    for file in files:
        try:
            text = userfile.read_text(file)
            for obj in manifests.objects(text):
                if isinstance(obj, Mapping) and obj.get("kind") == manifests.KIND:
                    meta = obj.get("metadata")
                    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str):
                        raise PoliciesError(f"{file}: a policy without a name")
                    yield {**obj, "metadata": {**meta, "generation": 0, "uid": ""}}
        except UnicodeDecodeError as error:
            raise PoliciesError(f"{file}: not a text file") from error
        except OSError as error:
            raise PoliciesError(f"{file}: cannot be read: {error.strerror}") from error
        except MalformedError as error:
            raise PoliciesError(f"{file}: invalid YAML: {error}") from error
