"""Labels that Telemetry Aware Scheduling left on nodes, and how they become ours: by changing whose they are, not what they say.

TAS wrote by JSON patch, so its labels belong to a manager that never lets go of them: server-side apply would share them
with it, also under force as long as the value is the same, and leaving them out later would leave them on the node. What
moves is the entry in `managedFields`, so no label changes on the way.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from evaluator.model.node_labels import FIELD_MANAGER, PREFIX
from evaluator.policy.types import VIOLATING

Object = Mapping[str, Any]


def adoptable(node: Object, policies: Collection[str]) -> frozenset[str]:
    """The label keys of a node that TAS's contract gives to policies of these names, and that we should get.

    Not those that somebody else applied: whoever uses server-side apply says that a field is theirs.
    """
    meta = node["metadata"]
    named = named_by(meta.get("labels") or {}, policies)
    applied, written = set[str](), set[str]()
    for entry in meta.get("managedFields") or ():
        if entry.get("operation") == "Update":
            written.update(_keys(entry))
        elif not _is_ours(entry):
            applied.update(_keys(entry))
    return (named & written).difference(applied)


def unowned(node: Object, policies: Collection[str]) -> dict[str, str]:
    """The labels that TAS's contract gives to these policies, on a node that says of nothing whose it is; else none.

    They have to be applied first: the API server then notes that everything there belongs to some writer of before.
    Were ours the only entry, our next apply would take every label off that has no owner.
    """
    labels = node["metadata"].get("labels") or {}
    if node["metadata"].get("managedFields"):
        return {}
    return {key: labels[key] for key in named_by(labels, policies)}


def named_by(labels: Mapping[str, str], policies: Collection[str]) -> frozenset[str]:
    """The keys among labels that TAS's contract gives to policies of these names, whoever set them."""
    return frozenset(key for key, value in labels.items() if _of_tas(key, value, policies))


def adopted(node: Object, keys: Collection[str], *, at: str) -> list[dict[str, Any]]:
    """The node's `managedFields` with these label keys ours alone, at the time `at` (RFC 3339)."""
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


def _of_tas(key: str, value: str, policies: Collection[str]) -> bool:
    """`<policy>=violating`, and everything below the prefix that labeling rules of a policy have."""
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
    """Take keys out of an entry, and what holds nothing any more with them."""
    fields = entry.get("fieldsV1") or {}
    meta = fields.get("f:metadata", {})
    labels = meta.get("f:labels", {})
    for key in keys:
        labels.pop(f"f:{key}", None)
    if "f:labels" in meta and not labels:
        del meta["f:labels"]
    if "f:metadata" in fields and not meta:
        del fields["f:metadata"]
