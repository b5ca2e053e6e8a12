"""The scheduler extender's JSON, decoded as far as needed and no further, so that nothing of a node is ever lost.

Types: k8s.io/kube-scheduler/extender/v1 (ExtenderArgs, ExtenderFilterResult, HostPriorityList). Go writes its keys with
capitals and reads them in any case, so a request is understood in any case and a reply is written as Go writes it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from plimsoll.sentences import SentenceError


class BadRequestError(SentenceError, ValueError):
    """A body that is no ExtenderArgs; the text is for whoever configured the scheduler."""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _NodeMeta(msgspec.Struct, gc=False):
    name: str = ""


class _Node(msgspec.Struct, gc=False):
    metadata: _NodeMeta = msgspec.field(default_factory=_NodeMeta)


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


class _Args(msgspec.Struct):
    """ExtenderArgs as kube-scheduler spells it; Raw cannot be optional, hence the default of a JSON null."""

    Pod: Raw = Raw(b"null")
    Nodes: _NodeList | None = None
    NodeNames: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Args:
    """One question: a pod, and the nodes it may go to, by name and (if the scheduler sent them) as they came.

    `nodes` are slices of the request's own bytes, in the order of `names`; they pin its buffer, so drop them with it.
    """

    namespace: str
    pod: str
    labels: Mapping[str, str]
    names: Sequence[str]
    nodes: Sequence[Raw] | None


_decode_args = msgspec.json.Decoder(_Args).decode
_decode_any_case = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_pod = msgspec.json.Decoder(_Object).decode
_decode_nodes = msgspec.json.Decoder(_NodeList | None).decode
_decode_node = msgspec.json.Decoder(_Node).decode
_encode = msgspec.json.Encoder().encode


def decode(body: bytes | bytearray | memoryview) -> Args:
    """Read ExtenderArgs. Raises BadRequestError for anything else."""
    try:
        args = _decode_args(body)
        if _is_null(args.Pod) or (args.Nodes is None and args.NodeNames is None):
            args = _args_in_any_case(body)
        if not bytes(args.Pod).startswith(b"{"):
            raise BadRequestError("no Pod in it")
        pod = _decode_pod(args.Pod).metadata
        nodes = None if args.Nodes is None else args.Nodes.items or []
        names = args.NodeNames if nodes is None else [_decode_node(n).metadata.name for n in nodes]
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"not ExtenderArgs: {error}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"not JSON: {error}") from error
    if names is None:
        raise BadRequestError("neither Nodes nor NodeNames in it")
    if not all(names):
        raise BadRequestError("a node without a name in it")
    return Args(pod.namespace, pod.name, pod.labels or {}, names, nodes)


def _is_null(raw: Raw) -> bool:
    return len(raw) == 4 and bytes(raw) == b"null"


def _args_in_any_case(body: bytes | bytearray | memoryview) -> _Args:
    given = _decode_any_case(body).items()
    fields = {key.lower(): value for key, value in given if not _is_null(value)}
    null = Raw(b"null")
    names = msgspec.json.decode(fields.get("nodenames", null), type=list[str] | None)
    return _Args(fields.get("pod", null), _decode_nodes(fields.get("nodes", null)), names)


@dataclass(frozen=True, slots=True)
class Reply:
    """A body of `size` bytes, in parts that are made while they are sent: no second copy of many nodes is ever held."""

    size: int
    parts: Iterable[bytes]


def encode_filter(args: Args, failed: Mapping[str, str]) -> Reply:
    """ExtenderFilterResult: all nodes of the question but those that failed, with each one's reason.

    In full-object mode the passing nodes go back byte for byte as they came.
    """
    rest = {
        "NodeNames": [name for name in args.names if name not in failed] if failed else args.names,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    if args.nodes is None:
        body = _encode({"Nodes": None, **rest})
        return Reply(len(body), (body,))
    pairs = zip(args.names, args.nodes, strict=True)
    items = [node for name, node in pairs if name not in failed]
    end = b"]}," + _encode(rest)[1:]
    commas = max(0, len(items) - 1)
    size = len(_BEFORE_ITEMS) + sum(map(len, items)) + commas + len(end)
    return Reply(size, _around(items, end))


_BEFORE_ITEMS = b'{"Nodes":{"metadata":{},"items":['
_AT_ONCE = 32
"""Nodes that are joined to one part: some 400 KB."""


def _around(items: Sequence[Raw], end: bytes) -> Iterator[bytes]:
    yield _BEFORE_ITEMS
    for begin in range(0, len(items), _AT_ONCE):
        yield b"," * (begin > 0) + b",".join(items[begin : begin + _AT_ONCE])
    yield end


class HostPriority(msgspec.Struct, gc=False):
    """One node's score, 0..10."""

    Host: str
    Score: int


def encode_priorities(scores: Iterable[tuple[str, int]]) -> bytes:
    """HostPriorityList."""
    return _encode([HostPriority(host, score) for host, score in scores])


def encode_error(sentence: str) -> bytes:
    """An answer that is no answer: kube-scheduler shows the text and retries the pod by back-off."""
    return _encode({"Error": sentence})
