"""kube-scheduler's JSON of the preempt verb: which nodes remain candidates for preemption.

Before kube-scheduler deletes pods of lower priority, it sends the victims of each candidate node. A node that the answer
leaves out is no candidate. Types: k8s.io/kube-scheduler/extender/v1 (ExtenderPreemptionArgs, ExtenderPreemptionResult).
"""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from evaluator.core import protocol
from evaluator.core.protocol import Args, BadRequestError, Body, Counter

MOST_VICTIMS = 200_000
"""Pods in one request. kube-scheduler sends a tenth of the nodes by default, and only the pods that must leave."""
_LONGEST_UID_JSON = 6 * protocol.LONGEST_UID + 2  # \u0061
_SPAN = protocol.MOST_POD_BYTES
"""Bytes without a quote in them that no request has."""
_QUOTE = re.compile(rb'(?<!\\)(?:\\\\)*"')
"""The begin or end of a string."""

_victims = Counter(MOST_VICTIMS, "victims")


def _count(uid: Raw) -> None:
    # Decoded, it can take 5 times its JSON.
    if len(uid) > _LONGEST_UID_JSON:
        raise ValueError(f"a UID of more than {protocol.LONGEST_UID} characters in it")
    _victims.add()


class _MetaPod(msgspec.Struct, gc=False):
    UID: Raw

    def __post_init__(self) -> None:
        _count(self.UID)


class _VictimMeta(msgspec.Struct, gc=False):
    uid: Raw

    def __post_init__(self) -> None:
        _count(self.uid)


class _WholePod(msgspec.Struct, gc=False):
    metadata: _VictimMeta


_Pod = TypeVar("_Pod", _MetaPod, _WholePod)


class _NodeVictims(msgspec.Struct, Generic[_Pod], gc=False):
    """Victims or MetaVictims; counted, since an empty one takes many times the memory of its JSON."""

    Pods: list[_Pod] | None = None
    NumPDBViolations: int = 0

    def __post_init__(self) -> None:
        protocol.node_counter.add()


class _PreemptionArgs(msgspec.Struct):
    Pod: Raw = protocol.NULL
    NodeNameToVictims: dict[str, _NodeVictims[_WholePod]] | None = None
    NodeNameToMetaVictims: dict[str, _NodeVictims[_MetaPod]] | None = None


class Victims(NamedTuple):
    """What preemption on one node deletes: the UIDs of pods, and how many PodDisruptionBudgets this violates."""

    uids: Sequence[str]
    pdb_violations: int


class PreemptionArgs(NamedTuple):
    """One request: the pod with the candidate nodes, as for filter, and the victims of each."""

    args: Args
    victims: Mapping[str, Victims]


_FIELDS = ("Pod", "NodeNameToVictims", "NodeNameToMetaVictims")
_decode_args = msgspec.json.Decoder(_PreemptionArgs).decode
_decode_uid = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def decode(body: Body) -> PreemptionArgs:
    """Return the decoded ExtenderPreemptionArgs. Raises BadRequestError for any other body, before using much more memory
    than the body.
    """
    _check_spans(body)
    try:
        args = _decoded(body)
        if protocol.is_null(args.Pod) or _is_without_victims(args):
            args = _decoded(protocol.as_go_spells_it(body, _FIELDS))
        pod = protocol.pod_meta(args.Pod)
        labels = protocol.pod_labels(pod)
        victims = _victims_by_node(args)
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"not ExtenderPreemptionArgs: {error}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"not JSON: {error}") from error
    uid = pod.uid[: protocol.LONGEST_UID]
    names = list(victims)
    if not all(names):
        raise BadRequestError("a node without a name in it")
    return PreemptionArgs(
        Args(pod.namespace, pod.name, labels, names, None, args.Pod, uid), victims
    )


def encode(victims: Mapping[str, Victims], without: Container[str]) -> bytes:
    """Return ExtenderPreemptionResult: the candidates of the request `without` the refused ones."""
    kept = {
        name: {
            "Pods": [{"UID": uid} for uid in one.uids],
            "NumPDBViolations": one.pdb_violations,
        }
        for name, one in victims.items()
        if name not in without
    }
    return _encode({"NodeNameToMetaVictims": kept})


def _decoded(body: Body) -> _PreemptionArgs:
    protocol.node_counter.restart()
    _victims.restart()
    return _decode_args(body)


def _is_without_victims(args: _PreemptionArgs) -> bool:
    return args.NodeNameToVictims is None and args.NodeNameToMetaVictims is None


def _victims_by_node(args: _PreemptionArgs) -> Mapping[str, Victims]:
    """Return the victims by node; kube-scheduler sets one of the two fields.

    Raises BadRequestError if there is none, MsgspecError for a UID that is not a string.
    """
    if (meta := args.NodeNameToMetaVictims) is not None:
        return {
            name: Victims([_decode_uid(pod.UID) for pod in one.Pods or ()], one.NumPDBViolations)
            for name, one in meta.items()
        }
    if (whole := args.NodeNameToVictims) is None:
        raise BadRequestError("neither NodeNameToVictims nor NodeNameToMetaVictims in it")
    return {
        name: Victims(
            [_decode_uid(pod.metadata.uid) for pod in one.Pods or ()], one.NumPDBViolations
        )
        for name, one in whole.items()
    }


def _check_spans(body: Body) -> None:
    """Raise BadRequestError for a string that no object has: a name of a node is decoded before its length can be checked."""
    for begin in range(0, len(body) - _SPAN, _SPAN):
        if not _QUOTE.search(body, begin, begin + _SPAN):
            raise BadRequestError(f"a value of more than {_SPAN} bytes in it")
