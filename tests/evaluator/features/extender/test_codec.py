"""The scheduler extender's JSON: keys in any case, rejections with a sentence, nodes returned byte for byte."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core import protocol
from evaluator.core.model.node_index import NodeIndex, NodeScores
from evaluator.core.protocol import BadRequestError
from tests.alone import alone

POD = {"metadata": {"name": "web", "namespace": "ns", "labels": {"telemetry-policy": "demo"}}}
NODES = {"metadata": {}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}


def decode(value):
    return protocol.decode(value if isinstance(value, bytes) else json.dumps(value).encode())


def whole(reply):
    """Return the body of a reply and check its announced length."""
    body = b"".join(reply.parts)
    assert len(body) == reply.size
    return body


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_request_by_node_names_is_decoded(buffer):
    body = json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}).encode()
    args = protocol.decode(buffer(body))
    assert (args.namespace, args.pod, args.labels) == ("ns", "web", {"telemetry-policy": "demo"})
    assert (list(args.names), args.nodes) == (["a", "b"], None)


def test_request_with_whole_nodes_is_decoded():
    args = decode({"Pod": POD, "Nodes": NODES, "NodeNames": None})
    assert list(args.names) == ["a", "b"]
    assert [json.loads(bytes(node)) for node in args.nodes] == NODES["items"]


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase, str.capitalize])
@pytest.mark.parametrize("nodes", [{"NodeNames": ["a", "b"]}, {"Nodes": NODES}])
def test_keys_are_case_insensitive(spell, nodes):
    args = decode({spell(key): value for key, value in {"Pod": POD, **nodes}.items()})
    assert (args.pod, list(args.names)) == ("web", ["a", "b"])


@pytest.mark.parametrize(
    "body",
    [
        {"Pod": POD, "nodenames": ["a", "b"]},
        {"Pod": POD, "nodes": NODES, "NodeNames": None},
        {"pod": POD, "NodeNames": ["a", "b"]},
        {"Pod": POD, "Nodes": None, "nodeNames": ["a", "b"]},
    ],
)
def test_duplicate_keys_in_several_cases_are_decoded(body):
    args = decode(body)
    assert (args.pod, list(args.names)) == ("web", ["a", "b"])


def test_unknown_keys_are_ignored():
    args = decode({"Pod": POD, "NodeNames": [], "Whatever": {"deep": [1]}})
    assert (args.pod, list(args.names)) == ("web", [])


def test_empty_node_list_stays_a_list():
    assert decode({"Pod": POD, "Nodes": {"metadata": {}, "items": None}}).nodes == []
    assert decode({"Pod": POD, "Nodes": {}}).nodes == []


@pytest.mark.parametrize("metadata", [{}, {"labels": None}, {"name": "web"}])
def test_pod_without_labels_is_valid(metadata):
    assert decode({"Pod": {"metadata": metadata}, "NodeNames": ["a"]}).labels == {}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not ExtenderArgs"),
        (b" ", "not ExtenderArgs"),
        (b"{", "not ExtenderArgs"),
        (b"[]", "not ExtenderArgs"),
        (b"null", "not ExtenderArgs"),
        (b"5", "not ExtenderArgs"),
        (b'"text"', "not ExtenderArgs"),
        (b"\x00\x01\x02\xff", "not ExtenderArgs"),
        (b"\x1f\x8b\x08\x00", "not ExtenderArgs"),
        (b"\xef\xbb\xbf{}", "not ExtenderArgs"),
        (b'{"Pod":{},"NodeNames":["a"]}x', "not ExtenderArgs"),
        (b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":["a"]}', "not (ExtenderArgs|JSON)"),
        (b'{"Pod":' + b"[" * 100_000, "not (ExtenderArgs|JSON)"),
        (b"[" * 100_000, "not (ExtenderArgs|JSON)"),
        ({}, "no Pod in it"),
        ({"NodeNames": ["a"]}, "no Pod in it"),
        ({"Pod": None, "NodeNames": ["a"]}, "no Pod in it"),
        ({"Pod": [], "NodeNames": ["a"]}, "no Pod in it"),
        ({"Pod": "web", "NodeNames": ["a"]}, "no Pod in it"),
        ({"Pod": POD}, "neither Nodes nor NodeNames"),
        ({"Pod": POD, "Nodes": None, "NodeNames": None}, "neither Nodes nor NodeNames"),
        ({"Pod": POD, "NodeNames": "a"}, "not ExtenderArgs"),
        ({"Pod": POD, "NodeNames": {"a": 1}}, "not ExtenderArgs"),
        ({"Pod": POD, "NodeNames": ["a", None]}, "not ExtenderArgs"),
        ({"Pod": POD, "NodeNames": ["a", 5]}, "not ExtenderArgs"),
        ({"Pod": POD, "NodeNames": ["a", ""]}, "a node without a name"),
        ({"Pod": POD, "Nodes": []}, "not ExtenderArgs"),
        ({"Pod": POD, "Nodes": {"items": {}}}, "not ExtenderArgs"),
        ({"Pod": POD, "Nodes": {"items": [None]}}, "not ExtenderArgs"),
        ({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": 5}}]}}, "not ExtenderArgs"),
        ({"Pod": POD, "Nodes": {"items": [{}]}}, "missing required field `metadata`"),
        ({"Pod": POD, "Nodes": {"items": [{"metadata": {}}]}}, "missing required field `name`"),
        ({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": ""}}]}}, "a node without a name"),
        ({"Pod": {"metadata": {"labels": {"a": 1}}}, "NodeNames": ["a"]}, "not ExtenderArgs"),
        ({"Pod": {"metadata": []}, "NodeNames": ["a"]}, "not ExtenderArgs"),
    ],
)
def test_invalid_request_is_rejected_with_a_sentence(body, says):
    with pytest.raises(BadRequestError, match=says) as refused:
        decode(body)
    assert len(str(refused.value)) < 300


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_rejected(body):
    with pytest.raises(BadRequestError):
        protocol.decode(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "items", "name", "labels", "namespace"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(["Pod", "pod", "Nodes", "nodes", "NodeNames", "nodenames", "x"]),
        json_values,
        max_size=4,
    )
)
def test_any_json_is_decoded_or_rejected(value):
    body = json.dumps(value).encode()
    try:
        args = protocol.decode(body)
    except BadRequestError:
        return
    assert all(args.names)


@given(st.data())
def test_truncated_request_is_rejected(data):
    body = json.dumps({"Pod": POD, "Nodes": NODES, "NodeNames": None}).encode()
    with pytest.raises(BadRequestError):
        protocol.decode(body[: data.draw(st.integers(0, len(body) - 1))])


STRANGE_NODES = [
    b'{"metadata":{"name":"a"},"x":1.0000000000000000001}',
    b'{ "metadata" : {"name":"b"} , "big":123456789012345678901234567890 }',
    b'{"metadata":{"name":"c","uid":"\\u00e9\\ud83d\\ude00","labels":{"z":"1","a":"2"}}}',
    '{"metadata":{"name":"d","annotations":{"é":"ü\\/\\t"}}}'.encode(),
    b'{"a":1,"a":2,"metadata":{"name":"e"},"n":-0,"e":1E+2,"\xc3\xa9":[]}',
    b'{"status":{},"metadata":{"name":"f"},"unknownField":[{"deep":null}]}',
]


def test_passing_nodes_are_returned_byte_for_byte():
    body = (
        b'{"Nodes":{"metadata":{},"items":[\n'
        + b" ,\n".join(STRANGE_NODES)
        + b']},"Pod":{"metadata":{}},"NodeNames":null}'
    )
    args = protocol.decode(body)
    reply = whole(protocol.encode_filter(args, {"b": "because", "e": "so"}))
    left = [STRANGE_NODES[i] for i in (0, 2, 3, 5)]
    assert reply == (
        b'{"Nodes":{"metadata":{},"items":['
        + b",".join(left)
        + b']},"NodeNames":["a","c","d","f"],"FailedNodes":{"b":"because","e":"so"},'
        b'"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def test_request_by_names_gets_no_node_objects():
    args = decode({"Pod": POD, "NodeNames": ["a", "b"]})
    assert json.loads(whole(protocol.encode_filter(args, {"a": "x"}))) == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {"a": "x"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_reply_has_empty_lists_if_no_node_fits():
    args = decode({"Pod": POD, "Nodes": NODES})
    reply = json.loads(whole(protocol.encode_filter(args, {"a": "x", "b": "x"})))
    assert (reply["Nodes"]["items"], reply["NodeNames"]) == ([], [])


def scores(names, positions, values):
    return NodeScores(NodeIndex(names), np.array(positions, np.intp), np.array(values, np.intp))


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 10)), unique_by=lambda one: one[0]))
def test_priorities_are_encoded(pairs):
    names, values = [name for name, _ in pairs], [score for _, score in pairs]
    body = protocol.encode_priorities(scores(["more", *names], range(1, len(names) + 1), values))
    assert json.loads(body) == [{"Host": name, "Score": score} for name, score in pairs]


POD_ONLY = b'{"metadata":{"name":"x"}}'


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"Pod":%b,"Nodes":{"items":[%b1]}}' % (POD_ONLY, b"1," * 5_000_000), "object"),
        (b'{"Pod":%b,"Nodes":{"items":[%b{}]}}' % (POD_ONLY, b"{}," * 3_000_000), "metadata"),
        (b'{"Pod":%b,"NodeNames":[%b"a"]}' % (POD_ONLY, b'"a",' * 2_000_000), "more than 100000"),
        (b'{"Pod":%b,"NodeNames":["%b"]}' % (POD_ONLY, b"a" * 30_000_000), "more than 100000"),
        (b'{"Pod":{"metadata":{"labels":{%b"":""}}}}' % (b'"a":"b",' * 1_000_000), "neither"),
        (b'{"Pod":{"labels":{%b"":""}},"NodeNames":[]}' % (b'"a":"b",' * 1_000_000), "4194304"),
        (b'{%b"pod":1}' % (b'"a":1,' * 2_000_000), "no Pod"),
        (
            b'{"Pod":%b,"Nodes":{"items":[%b{}]}}'
            % (POD_ONLY, b'{"metadata":{"name":"a"}},' * 800_000),
            "100000 nodes",
        ),
        (
            b'{"Pod":%b,"Nodes":{"items":[{"metadata":{"name":"\xf0\x9f\x98\x80%b"}}]}}'
            % (POD_ONLY, b"a" * 20_000_000),
            "253 characters",
        ),
        (
            b'{"Pod":{"metadata":{"labels":{%b"":""}}},"NodeNames":[]}'
            % b",".join([*(b'"%d":""' % n for n in range(300_000)), b""]),
            "labels",
        ),
    ],
    ids=[
        "numbers",
        "empty nodes",
        "names",
        "one name",
        "no nodes",
        "labels",
        "keys",
        "nodes",
        "node name",
        "pod labels",
    ],
)
def test_body_of_empty_values_takes_no_more_memory_than_itself(body, sentence):
    """Otherwise one request could exhaust memory: a list of two-letter names takes thirteen times its text."""
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match=sentence):
            protocol.decode(memoryview(body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(body)


@alone
def test_reply_with_small_nodes_holds_no_more_memory_than_its_request():
    """A slice takes 80 bytes and these nodes have 25; a slow client keeps the reply in memory."""
    items = b",".join([b'{"metadata":{"name":"a"}}'] * 50_000)
    body = b'{"Pod":%b,"Nodes":{"items":[%b]}}' % (POD_ONLY, items)
    tracemalloc.start()
    try:
        reply = protocol.encode_filter(protocol.decode(body), {})
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reply.size > len(items)
    assert held < 1.5 * len(body)


def test_nodes_are_counted_anew_for_each_request():
    nodes = {"items": [{"metadata": {"name": "a"}}] * (protocol.MOST_NODES - 1)}
    for _ in range(3):
        assert len(decode({"Pod": POD, "Nodes": nodes}).names) == protocol.MOST_NODES - 1


@pytest.mark.parametrize("letter", ["a", r"\u0061"])
def test_node_name_has_up_to_253_characters_escaped_or_not(letter):
    body = '{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"%s"}}]}}' % (253 * letter)
    assert decode(body.encode()).names == ["a" * 253]


def test_as_many_nodes_as_the_limit_are_accepted():
    names = [f"node-{i:06d}" for i in range(protocol.MOST_NODES)]
    assert list(decode({"Pod": POD, "NodeNames": names}).names) == names
    with pytest.raises(BadRequestError, match="more than 100000 nodes"):
        decode({"Pod": POD, "NodeNames": [*names, "one-more"]})
    nodes = {"items": [{"metadata": {"name": name}} for name in [*names, "one-more"]]}
    with pytest.raises(BadRequestError, match="more than 100000 nodes"):
        decode({"Pod": POD, "Nodes": nodes})
