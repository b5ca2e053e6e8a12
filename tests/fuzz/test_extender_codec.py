"""Random spellings of extender requests are decoded as by the standard library, and no node is changed."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core import protocol
from tests.examples import examples

names = st.one_of(
    st.sampled_from(["node-a", "node-b", "é", 'q"\\', "a/b\n"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
metas = st.fixed_dictionaries(
    {}, optional={"name": texts, "namespace": texts, "labels": st.none() | st.dictionaries(texts, texts, max_size=3), "annotations": values}
)  # fmt: skip
pods = st.fixed_dictionaries({"metadata": metas}, optional={"spec": values, "status": values})


@st.composite
def spelled(draw, value):
    """JSON of a value in a random valid spelling."""
    return json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 0, 2])),
        separators=draw(st.sampled_from([None, (",", ":"), (" ,\t", "\r\n:\n")])),
    )


@st.composite
def nodes(draw):
    """A node's name, and its exact text in the request."""
    name, rest = (
        draw(names),
        draw(st.dictionaries(texts.filter(lambda k: k != "metadata"), values, max_size=3)),
    )
    node = {
        **rest,
        "metadata": {"name": name, "labels": draw(st.dictionaries(texts, texts, max_size=2))},
    }
    return name, draw(spelled(node))


@st.composite
def questions(draw):
    """A pod, names, the nodes' texts (None: only names), and the request body."""
    pod, whole = draw(pods), draw(st.booleans())
    known = draw(st.lists(nodes(), max_size=5))
    asked = [name for name, _ in known]
    listed = (
        '{"metadata":{},"items":[' + ",".join(text for _, text in known) + "]}" if whole else "null"
    )
    fields = [
        ("Pod", draw(spelled(pod))),
        ("Nodes", listed),
        ("NodeNames", "null" if whole else draw(spelled(asked))),
        ("Other", draw(spelled(draw(values)))),
    ]
    spell = draw(st.sampled_from([str, str.lower, str.upper]))
    told = ",".join(f'"{spell(key)}" : {text}' for key, text in draw(st.permutations(fields)))
    return pod, asked, [text for _, text in known] if whole else None, f"{{{told}}}".encode()


@settings(max_examples=examples(25))
@given(questions(), st.randoms(use_true_random=False))
def test_random_request_is_decoded_and_passing_nodes_are_returned_unchanged(question, rng):
    pod, asked, sent, body = question
    args = protocol.decode(body)
    meta = pod["metadata"]
    assert (args.pod, args.namespace) == (meta.get("name", ""), meta.get("namespace", ""))
    assert args.labels == (meta.get("labels") or {})
    assert list(args.names) == asked
    failed = {name: "why" for name in asked if rng.random() < 0.5}
    reply = protocol.encode_filter(args, failed)
    answer = b"".join(reply.parts)
    assert reply.size == len(answer)
    found = json.loads(answer)
    assert found["NodeNames"] == [name for name in asked if name not in failed]
    assert found["FailedNodes"] == failed
    if sent is None:
        assert found["Nodes"] is None
    else:
        passing = [text for name, text in zip(asked, sent, strict=True) if name not in failed]
        assert b'"items":[' + ",".join(passing).encode() + b"]" in answer
        assert len(found["Nodes"]["items"]) == len(passing)
