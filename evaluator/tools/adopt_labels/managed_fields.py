"""Label ownership in a node's `managedFields`, and how labels of Telemetry Aware Scheduling (TAS) move to Plimsoll.

TAS wrote labels by JSON patch, so its field manager owns them for good: server-side apply, even with force, only shares
ownership of an unchanged value, and a later apply without the label would not delete it. Moving the entry in
`managedFields` changes the owner and no label.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from evaluator.core.model.node_labels import FIELD_MANAGER, PREFIX
from evaluator.core.policy.types import VIOLATING

Object = Mapping[str, Any]


def candidates(node: Object, policies: Collection[str]) -> dict[str, str]:
    """The labels to take over: those of TAS for policies of these names that Plimsoll does not own alone.

    Labels that another manager set by server-side apply are left out: that manager declares them as its own. A node
    without `managedFields` has no owners recorded; all its labels of TAS are candidates.
    """
    meta = node["metadata"]
    labels = meta.get("labels") or {}
    named = {key for key, value in labels.items() if _is_tas_label(key, value, policies)}
    entries = meta.get("managedFields") or ()
    if entries:
        applied, written = set[str](), set[str]()
        for entry in entries:
            if entry.get("operation") == "Update":
                written.update(_keys(entry))
            elif not _is_ours(entry):
                applied.update(_keys(entry))
        named = (named & written) - applied
    return {key: labels[key] for key in sorted(named)}


def adopted(node: Object, keys: Collection[str], *, at: str) -> list[dict[str, Any]]:
    """The node's `managedFields` with Plimsoll as the only owner of these label keys since `at` (RFC 3339)."""
    entries = copy.deepcopy(list(node["metadata"].get("managedFields") or ()))
    for entry in entries:
        if entry.get("operation") == "Update":
            _remove(entry, keys)
    kept = [entry for entry in entries if entry.get("fieldsV1")]
    ours = next((entry for entry in kept if _is_ours(entry)), None)
    if ours is None:
        ours = {
            "manager": FIELD_MANAGER,
            "operation": "Apply",
            "apiVersion": "v1",
            "time": at,
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }
        kept.append(ours)
    labels = ours["fieldsV1"].setdefault("f:metadata", {}).setdefault("f:labels", {})
    labels.update({f"f:{key}": {} for key in keys})
    return kept


def _is_tas_label(key: str, value: str, policies: Collection[str]) -> bool:
    """`<policy>=violating`, and all keys under the prefix of a policy's labeling rules."""
    if key in policies:
        return value == VIOLATING
    policy, separator, _name = key.removeprefix(PREFIX).rpartition("/")
    return key.startswith(PREFIX) and bool(separator) and policy in policies


def _is_ours(entry: Object) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
        FIELD_MANAGER,
        "Apply",
        "",
    )


def _keys(entry: Object) -> Iterator[str]:
    fields = (entry.get("fieldsV1") or {}).get("f:metadata", {}).get("f:labels", {})
    return (field[2:] for field in fields if field.startswith("f:"))


def _remove(entry: dict[str, Any], keys: Collection[str]) -> None:
    """Remove keys from an entry, and the parents that become empty."""
    fields = entry.get("fieldsV1") or {}
    meta = fields.get("f:metadata", {})
    labels = meta.get("f:labels", {})
    for key in keys:
        labels.pop(f"f:{key}", None)
    if "f:labels" in meta and not labels:
        del meta["f:labels"]
    if "f:metadata" in fields and not meta:
        del fields["f:metadata"]
