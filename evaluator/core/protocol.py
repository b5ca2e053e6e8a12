"""kube-scheduler's extender protocol: decodes and encodes its JSON; nodes are passed through byte for byte.

Types: k8s.io/kube-scheduler/extender/v1 (ExtenderArgs, ExtenderFilterResult, HostPriorityList). Go writes keys
capitalized and reads them in any case: requests are accepted in any case, replies are written as Go writes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import msgspec
import numpy as np
from msgspec import Raw

from evaluator.core.model import pod_spec_view, requests
from evaluator.core.model.names import UNREADABLE
from evaluator.core.model.node_index import NodeScores
from evaluator.core.model.pod_spec_view import PodSpecView
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import NOTHING, ResourceVector
from evaluator.core.policy.decide import Decision, Decisions
from plimsoll.text import SentenceError

Body = bytes | bytearray | memoryview

MOST_NODES = 100_000
"""Nodes in one request. Kubernetes supports 5,000; some clusters have 65,000."""
MOST_POD_BYTES = 4 << 20
"""etcd limits objects to 1.5 MiB."""
_MOST_LABEL_BYTES = 256 << 10
"""Bytes of a pod's labels: decoded, short ones take 25 times the memory of their JSON."""
_MOST_OBJECTS = 100_000
"""JSON objects in a pod; a large pod with many field managers has a few thousand."""
_MOST_CONTAINERS = 1_000
"""Adding up the requests of more containers would delay other requests."""
_LONGEST_NAME = 253
LONGEST_UID = 128
_LONGEST_NAME_JSON = 256  # with its quotes and comma
_LONGEST_NAME_ESCAPED = 6 * _LONGEST_NAME + 2  # \u0061
_LARGEST_IN_ANY_CASE = 1 << 20
_LONG_NAME = f"a node name of more than {_LONGEST_NAME} characters in it"
NULL = Raw(b"null")


class BadRequestError(SentenceError, ValueError):
    """A body that is not ExtenderArgs; the message is for the operator of the scheduler."""


class PodMeta(msgspec.Struct):
    """The read metadata of a request's pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Raw = NULL


class _Object(msgspec.Struct):
    metadata: PodMeta = msgspec.field(default_factory=PodMeta)


class Counter:
    """Counts objects of the request being decoded; `decode()` restarts it.

    msgspec checks the length of a list only after decoding it, when the memory is already used. Decoding is
    synchronous, on the event loop's thread, so one counter is enough.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self.restart()

    def restart(self) -> None:
        """Reset the count for a new request."""
        self._numbers = count(1)

    def add(self) -> None:
        """Count one object. Raises ValueError for the first one above the limit."""
        if next(self._numbers) > self._most:
            raise ValueError(f"more than {self._most} {self._what} in it")


node_counter = Counter(MOST_NODES, "nodes")


class _NodeMeta(msgspec.Struct, gc=False):
    """A node's metadata. The name is decoded after a length check: decoded, it can take 5 times its JSON."""

    name: Raw

    def __post_init__(self) -> None:
        if len(self.name) > _LONGEST_NAME_ESCAPED:
            raise ValueError(_LONG_NAME)
        node_counter.add()


class _Node(msgspec.Struct, gc=False):
    metadata: _NodeMeta


class _NamedNodes(msgspec.Struct):
    items: list[_Node] | None = None


class _Args(msgspec.Struct):
    """ExtenderArgs as kube-scheduler spells it; Raw cannot be optional, hence the default of a JSON null."""

    Pod: Raw = NULL
    Nodes: _NamedNodes | None = None
    NodeNames: Raw = NULL


class _NodeSlices(msgspec.Struct):
    items: list[Raw] | None = None


class _ArgsInSlices(msgspec.Struct):
    """The nodes as undecoded slices."""

    Nodes: _NodeSlices | None = None


@dataclass(frozen=True, slots=True)
class Args:
    """One request: a pod, and the candidate nodes by name and, in full-object mode, as slices of the request.

    `body` is the request if it has whole nodes. It and `whole`, the pod's slice, keep the buffer alive.
    """

    namespace: str
    pod: str
    labels: Mapping[str, str]
    names: Sequence[str]
    body: Body | None
    whole: Raw = field(default_factory=Raw)
    uid: str = ""
    """Of the pod; empty in requests by hand."""

    @property
    def nodes(self) -> Sequence[Raw] | None:
        """Return the nodes as slices of the request, in the order of `names`. Decoded for each call: prioritize needs none."""
        # Slices of invalid data would take many times the memory of the body: `decode` has validated it.
        return None if self.body is None else _slices(self.body)


_decode_args = msgspec.json.Decoder(_Args).decode
_decode_any_case = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_pod = msgspec.json.Decoder(_Object).decode
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_name = msgspec.json.Decoder(str).decode
_decode_names = msgspec.json.Decoder(list[str] | None).decode
_decode_named = msgspec.json.Decoder(_NamedNodes | None).decode
_decode_slices = msgspec.json.Decoder(_ArgsInSlices).decode
_encode = msgspec.json.Encoder().encode


def decode(body: Body) -> Args:
    """Return the decoded ExtenderArgs. Raises BadRequestError for any other body, before using much more memory than the
    body.
    """
    node_counter.restart()
    try:
        args = _decode_args(body)
        if is_null(args.Pod) or (args.Nodes is None and is_null(args.NodeNames)):
            node_counter.restart()
            body = as_go_spells_it(body, ("Pod", "Nodes", "NodeNames"))
            args = _decode_args(body)
        pod = pod_meta(args.Pod)
        labels = pod_labels(pod)
        names = _names(args)
    except msgspec.MsgspecError as error:
        raise BadRequestError(f"not ExtenderArgs: {error}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"not JSON: {error}") from error
    if not all(names):
        raise BadRequestError("a node without a name in it")
    return Args(
        pod.namespace,
        pod.name,
        labels,
        names,
        None if args.Nodes is None else body,
        args.Pod,
        pod.uid[:LONGEST_UID],
    )


def pod_meta(raw: Raw) -> PodMeta:
    """Return the metadata of a request's pod. Raises BadRequestError, MsgspecError."""
    if len(raw) > MOST_POD_BYTES:
        raise BadRequestError(f"a Pod of more than {MOST_POD_BYTES} bytes in it")
    if not bytes(raw).startswith(b"{"):
        raise BadRequestError("no Pod in it")
    return _decode_pod(raw).metadata


def pod_labels(pod: PodMeta) -> Mapping[str, str]:
    """Return the labels of a request's pod. Raises BadRequestError, MsgspecError."""
    if len(pod.labels) > _MOST_LABEL_BYTES:
        raise BadRequestError(f"a Pod with more than {_MOST_LABEL_BYTES} bytes of labels in it")
    return _decode_labels(pod.labels) or {}


def _names(args: _Args) -> Sequence[str]:
    if args.Nodes is not None:
        return [_decode_name(node.metadata.name) for node in args.Nodes.items or ()]
    raw = args.NodeNames
    if len(raw) > MOST_NODES * _LONGEST_NAME_JSON or bytes(raw).count(b",") >= MOST_NODES:
        raise BadRequestError(f"more than {MOST_NODES} nodes in it")
    names: Sequence[str] | None = _decode_names(raw)
    if names is None:
        raise BadRequestError("neither Nodes nor NodeNames in it")
    return names


def _slices(body: Body) -> Sequence[Raw]:
    found = _decode_slices(body).Nodes
    return (found.items if found else None) or []


def is_null(raw: Raw) -> bool:
    """Return whether a field is null or absent."""
    return len(raw) == 4 and bytes(raw) == b"null"


def as_go_spells_it(body: Body, names: Sequence[str]) -> bytes:
    """Return a body whose keys are in any case with the fields `names` in Go's spelling: people with curl send such bodies.

    Raises BadRequestError, MsgspecError.
    """
    if len(body) > _LARGEST_IN_ANY_CASE:
        raise BadRequestError(f"no {names[0]}, or neither {' nor '.join(names[1:])} in it")
    given = _decode_any_case(body).items()
    fields = {key.lower(): value for key, value in given if not is_null(value)}
    return _encode({name: fields.get(name.lower(), NULL) for name in names})


@dataclass(frozen=True, slots=True)
class Reply:
    """A body of `size` bytes in parts that are created while sending, so that many nodes are never copied at once."""

    size: int
    parts: Iterable[bytes]


def encode_filter(args: Args, failed: Mapping[str, str]) -> Reply:
    """Return ExtenderFilterResult: all nodes of the request except the failed ones, which are listed with reasons.

    In full-object mode the passing nodes are returned byte for byte.
    """
    rest = {
        "NodeNames": [name for name in args.names if name not in failed] if failed else args.names,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    if (nodes := args.nodes) is None:
        body = _encode({"Nodes": None, **rest})
        return Reply(len(body), (body,))
    pairs = zip(args.names, nodes, strict=True)
    items = [node for name, node in pairs if name not in failed]
    end = b"]}," + _encode(rest)[1:]
    carried = sum(map(len, items))
    size = len(_BEFORE_ITEMS) + carried + max(0, len(items) - 1) + len(end)
    parts = _around(items, end)
    # A slice is an object of about 80 bytes: many small slices take more than a copy.
    return Reply(size, tuple(parts) if carried < _SMALL_NODE * len(items) else parts)


_BEFORE_ITEMS = b'{"Nodes":{"metadata":{},"items":['
_AT_ONCE = 32
"""Nodes joined into one part: about 400 KB."""
_SMALL_NODE = 256
"""Average bytes of a node below which a reply is joined at once. Real nodes have thousands."""


def _around(items: Sequence[Raw], end: bytes) -> Iterator[bytes]:
    yield _BEFORE_ITEMS
    for begin in range(0, len(items), _AT_ONCE):
        yield b"," * (begin > 0) + b",".join(items[begin : begin + _AT_ONCE])
    yield end


_SCORES = np.array([f',"Score":{score}}},{{"Host":' for score in range(11)], dtype=object)
_LAST_SCORES = tuple(f',"Score":{score}}}]' for score in range(11))
NO_PRIORITIES = b"[]"


def encode_priorities(found: NodeScores) -> bytes:
    """Return HostPriorityList with scores 0..10; joined from parts that exist, since objects for each node take longer."""
    count = len(found.positions)
    if not count:
        return NO_PRIORITIES
    parts = np.empty(2 * count + 1, dtype=object)
    parts[0] = '[{"Host":'
    parts[1::2] = found.nodes.json[found.positions]
    parts[2::2] = _SCORES[found.scores]
    parts[-1] = _LAST_SCORES[found.scores[-1]]
    return "".join(parts.tolist()).encode()


def encode_error(sentence: str) -> bytes:
    """Return an error response: kube-scheduler shows the text and retries the pod with backoff."""
    return _encode({"Error": sentence})


ForPod = Callable[[Args, Decision, Decisions], Decision]
"""Returns a policy's decision for the pod of a request."""


def requested(args: Args) -> ResourceVector:
    """Return what the pod of a request requests; what cannot be read counts as nothing."""
    try:
        return requests.effective(_decoded_pod(args)).requests
    except BadRequestError:
        return NOTHING


def pod_view(args: Args) -> PodView:
    """Return the pod with its resource requests. Raises BadRequestError for a malformed pod or request."""
    view, problems = requests.pod_view(_decoded_pod(args))
    if problems:
        raise BadRequestError(problems[0])
    return view


def _decoded_pod(args: Args) -> PodSpecView:
    """Return the pod of a request, decoded. Raises BadRequestError if it is malformed or takes too long to read."""
    if bytes(args.whole).count(b"{") > _MOST_OBJECTS:
        raise BadRequestError(f"a Pod of more than {_MOST_OBJECTS} objects in it")
    try:
        pod = pod_spec_view.decode(args.whole)
    except UNREADABLE as error:
        raise BadRequestError(f"not a Pod: {error}") from error
    if len(pod.spec.containers or ()) + len(pod.spec.init_containers or ()) > _MOST_CONTAINERS:
        raise BadRequestError(f"a Pod of more than {_MOST_CONTAINERS} containers in it")
    return pod
