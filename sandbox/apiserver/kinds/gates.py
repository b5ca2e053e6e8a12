"""Scheduling gates: syntax, removal only, and allowed updates of gated pods."""

from collections.abc import Iterator
from typing import Any

from plimsoll.labels.syntax import label_key_fault
from sandbox.apiserver.errors import Cause, duplicate, forbidden_field, invalid_value
from sandbox.apiserver.storage.objects import Json, dig

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def gates(spec: Json) -> list[str]:
    """Return the names of a pod's gates, in order."""
    return [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]


def gate_faults(spec: Json, field: str) -> Iterator[Cause]:
    """Return all syntax errors of the gates of a pod or template."""
    names = gates(spec)
    for index, name in enumerate(names):
        if fault := label_key_fault(name):
            yield invalid_value(f"{field}.schedulingGates[{index}]", name, fault)
        elif name in names[:index]:
            yield duplicate(f"{field}.schedulingGates[{index}]", name)


def gate_additions(old: Json, new: Json) -> Iterator[Cause]:
    """Return an error for each gate that an update adds: gates can only be set at creation."""
    had = gates(old)
    for index, name in enumerate(gates(new)):
        if name not in had:
            why = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", why)


def widenings(old: Json, new: Json) -> Iterator[Cause]:
    """Return an error for each change that makes more nodes eligible: constraints of gated pods can only be narrowed."""
    selector = new.get("nodeSelector")
    if not (old.get("nodeSelector") or {}).items() <= (selector or {}).items():
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", selector, why)
    before, after = _terms(old), _terms(new)
    if not before:
        return
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if after is None or len(before) != len(after):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(field, after, why)
        return
    for index, (had, has) in enumerate(zip(before, after, strict=True)):
        if not _narrowed(had, has):
            why = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{field}[{index}]", has, why)


def _terms(spec: Json) -> list[Json] | None:
    terms: list[Json] | None = dig(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    return terms


def _narrowed(old: Json, new: Json) -> bool:
    """Return whether a term kept its requirements, with additions only at the end; an empty term, which matches nothing, must stay empty."""
    if not any(map(old.get, ("matchExpressions", "matchFields"))):
        return not any(map(new.get, ("matchExpressions", "matchFields")))
    return all(_begins(old, new, part) for part in ("matchExpressions", "matchFields"))


def _begins(old: Json, new: Json, part: str) -> bool:
    had: list[Any] = old.get(part) or []
    return (new.get(part) or [])[: len(had)] == had


def without_node_affinity(spec: Json) -> Json:
    """Return a spec's affinity without required node affinity, which gated pods may be given."""
    kept = {kind: terms for kind, terms in (spec.get("affinity") or {}).items() if terms}
    kept.pop("nodeAffinity", None)
    return kept
