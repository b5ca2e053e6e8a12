"""Vector matching: pairs, result labels, and errors."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rules.promql import labels
from agent.rules.promql.operators.binary import vectors
from agent.rules.promql.operators.vector_matching import Matching
from agent.rules.promql.values import EvaluationError


def of(name, /, **pairs):
    return labels.make([*pairs.items(), ("__name__", name)])


def unnamed(**pairs):
    return labels.make(pairs.items())


def on(*names, card="one-to-one", include=()):
    return Matching(on=True, names=frozenset(names), card=card, include=include)


def ignoring(*names, card="one-to-one", include=()):
    return Matching(on=False, names=frozenset(names), card=card, include=include)


def found(op, matching, lefts, rights, return_bool=False):
    return dict(vectors(op, matching, return_bool)(lefts, rights))


ERRORS = [
    (of("errors", method="get", code="500"), 24.0),
    (of("errors", method="get", code="404"), 30.0),
    (of("errors", method="put", code="501"), 3.0),
    (of("errors", method="post", code="500"), 6.0),
]
REQUESTS = [
    (of("requests", method="get"), 600.0),
    (of("requests", method="del"), 34.0),
    (of("requests", method="post"), 120.0),
]
SERVERS = [
    (of("server", method="get", zone="a"), 2.0),
    (of("server", method="post", zone="b"), 4.0),
]


def test_all_labels_except_the_name_must_match():
    rights = [(of("n", method="get", code="500"), 48.0), (of("n", method="get"), 1.0)]
    assert found("/", Matching(), ERRORS, rights) == {unnamed(method="get", code="500"): 0.5}


@pytest.mark.parametrize(
    ("matching", "result"),
    [
        (on("method"), {unnamed(method="get"): 300.0, unnamed(method="post"): 30.0}),
        (ignoring("zone"), {unnamed(method="get"): 300.0, unnamed(method="post"): 30.0}),
    ],
)
def test_result_has_the_matching_labels(matching, result):
    assert found("/", matching, REQUESTS, SERVERS) == result


@pytest.mark.parametrize(
    ("matching", "result"),
    [
        (on("method"), {unnamed(method="get"): 600.0, unnamed(method="post"): 120.0}),
        (
            ignoring("zone"),
            {of("requests", method="get"): 600.0, of("requests", method="post"): 120.0},
        ),
        (
            ignoring("zone", "__name__"),
            {unnamed(method="get"): 600.0, unnamed(method="post"): 120.0},
        ),
    ],
)
def test_comparison_keeps_left_value_and_name_unless_on_or_ignoring_is_given(matching, result):
    assert found(">", matching, REQUESTS, SERVERS) == result


def test_bool_comparison_answers_for_all_pairs_without_the_name():
    assert found(">", ignoring("zone"), REQUESTS, [SERVERS[0], (SERVERS[1][0], 500.0)], True) == {
        unnamed(method="get"): 1.0,
        unnamed(method="post"): 0.0,
    }


RATIOS = {
    unnamed(method="get", code="500"): 0.04,
    unnamed(method="get", code="404"): 0.05,
    unnamed(method="post", code="500"): 0.05,
}


@pytest.mark.parametrize("matching", [on, ignoring])
def test_group_left_keeps_labels_of_the_many_side(matching):
    names = ("method",) if matching is on else ("code",)
    left = matching(*names, card="many-to-one")
    assert found("/", left, ERRORS, REQUESTS) == pytest.approx(RATIOS)
    right = matching(*names, card="one-to-many")
    assert found("/", right, REQUESTS, ERRORS) == pytest.approx(
        {labels_: 1 / ratio for labels_, ratio in RATIOS.items()}
    )


@pytest.mark.parametrize(
    ("include", "extra"),
    [
        (("zone",), {"zone": "a"}),
        (("zone", "nothing"), {"zone": "a"}),
        (("code",), {"code": ""}),  # removed: the one side has none
        (("__name__",), {"__name__": "server"}),
    ],
)
def test_included_labels_are_copied_from_the_one_side(include, extra):
    matching = on("method", card="many-to-one", include=include)
    expected = labels.make({"method": "put", "code": "501", **extra}.items())
    one = [(of("server", method="put", zone="a"), 2.0)]
    assert found("*", matching, ERRORS, one) == {expected: 6.0}


def test_bool_drops_an_included_name_too():
    matching = on("method", card="many-to-one", include=("__name__",))
    one = [(of("server", method="put"), 2.0)]
    assert found(">", matching, ERRORS, one, True) == {unnamed(method="put", code="501"): 1.0}
    assert found(">", matching, ERRORS, one) == {of("server", method="put", code="501"): 3.0}


def test_group_right_filter_keeps_left_value_and_labels_of_the_many_side():
    matching = on("method", card="one-to-many")
    assert found(">", matching, REQUESTS, ERRORS) == {
        of("errors", method="get", code="500"): 600.0,
        of("errors", method="get", code="404"): 600.0,
        of("errors", method="post", code="500"): 120.0,
    }


@pytest.mark.parametrize(
    ("matching", "lefts", "rights", "side"),
    [
        (on("method"), REQUESTS, ERRORS, "right"),
        (on("method", card="many-to-one"), REQUESTS, ERRORS, "right"),
        (on("method", card="one-to-many"), ERRORS, REQUESTS, "left"),
        (ignoring("code"), REQUESTS, ERRORS, "right"),
    ],
)
@pytest.mark.parametrize("op", ["+", ">"])
def test_many_to_many_is_an_error_that_names_the_side(op, matching, lefts, rights, side):
    with pytest.raises(EvaluationError, match="many-to-many matching not allowed") as raised:
        found(op, matching, lefts, rights)
    assert f'match group {{method="get"}} on the {side} hand-side' in str(raised.value)
    assert 'errors{code="404", method="get"}' in str(raised.value)


def test_many_to_one_needs_group_left():
    with pytest.raises(EvaluationError, match="must be explicit"):
        found("+", on("method"), ERRORS, REQUESTS)


def test_many_to_one_needs_group_left_even_if_names_distinguish_results():
    lefts = [(of("m", i="0"), 1.0), (of("n", i="0"), 2.0)]
    one = [(of("o", i="0"), 0.0)]
    with pytest.raises(EvaluationError, match="must be explicit"):
        found(">", Matching(), lefts, one)
    assert found(">", ignoring(card="many-to-one"), lefts, one) == dict(lefts)


def test_duplicate_results_of_a_group_are_an_error():
    matching = on("method", card="many-to-one", include=("code",))
    with pytest.raises(EvaluationError, match="grouping labels must ensure unique matches"):
        found("+", matching, ERRORS, REQUESTS)


def test_duplicate_results_across_matches_are_an_error():
    matching = ignoring("code", card="many-to-one", include=("method",))
    lefts = [(of("m", code="1", method="a"), 1.0), (of("n", code="1", method="a"), 2.0)]
    with pytest.raises(EvaluationError, match="unique matches"):
        found("+", matching, lefts, [(of("o", method="a"), 1.0)])
    matching = on("x", card="many-to-one", include=("x", "y"))
    lefts = [(of("m", x="1"), 1.0), (of("n", x="1"), 2.0)]
    rights = [(of("o", x="1"), 1.0)]
    with pytest.raises(EvaluationError, match="unique matches"):
        found("+", matching, lefts, rights)


@pytest.mark.parametrize("return_bool", [False, True])
@pytest.mark.parametrize("right", [20.0, 25.0, 100.0])
def test_duplicates_are_an_error_even_if_a_filter_removes_them(right, return_bool):
    one = [(of("requests", method="get"), right)]
    with pytest.raises(EvaluationError, match="must be explicit"):
        found(">", on("method"), ERRORS[:2], one, return_bool=return_bool)


def test_results_that_differ_only_in_name_are_an_error():
    sides = [(of("m", i="0"), 1.0), (of("n", i="0"), 2.0)]
    with pytest.raises(EvaluationError, match="same labelset"):
        found("+", on("__name__", "i"), sides, sides)


def test_duplicates_without_a_partner_are_no_error():
    assert found("+", on("method"), [], ERRORS) == {}
    assert found("+", on("method", card="one-to-many"), ERRORS, []) == {}


def test_series_and_values_may_change_between_evaluations():
    above = vectors(">", on("method"), return_bool=False)
    assert dict(above(REQUESTS, SERVERS)) == {
        unnamed(method="get"): 600.0,
        unnamed(method="post"): 120.0,
    }
    assert dict(above(REQUESTS, [(labels_, 200.0) for labels_, _ in SERVERS])) == {
        unnamed(method="get"): 600.0
    }
    assert dict(above(REQUESTS[2:], SERVERS)) == {unnamed(method="post"): 120.0}
    assert dict(above(REQUESTS, SERVERS[:1])) == {unnamed(method="get"): 600.0}
    assert dict(above(SERVERS, REQUESTS)) == {}


# Set operators


@pytest.mark.parametrize(
    ("op", "matching", "result"),
    [
        ("and", on("method"), [ERRORS[0], ERRORS[1], ERRORS[3]]),
        ("and", ignoring("code"), [ERRORS[0], ERRORS[1], ERRORS[3]]),
        ("and", Matching(), []),
        ("and", on(), ERRORS),
        ("unless", on("method"), [ERRORS[2]]),
        ("unless", Matching(), ERRORS),
        ("unless", on(), []),
        ("or", on("method"), [*ERRORS, REQUESTS[1]]),
        ("or", Matching(), [*ERRORS, *REQUESTS]),
        ("or", on(), ERRORS),
    ],
)
def test_set_operators_use_matching_labels_and_keep_elements_unchanged(op, matching, result):
    assert vectors(op, matching, return_bool=False)(ERRORS, REQUESTS) == result


@pytest.mark.parametrize(
    ("op", "only_left", "only_right"),
    [("and", [], []), ("or", ERRORS, ERRORS), ("unless", ERRORS, [])],
)
def test_set_operators_accept_an_empty_side(op, only_left, only_right):
    operator = vectors(op, on(), return_bool=False)
    assert operator(ERRORS, []) == only_left
    assert operator([], ERRORS) == only_right


def test_set_operators_cache_by_the_given_vectors():
    unless = vectors("unless", on("method"), return_bool=False)
    assert unless(ERRORS, REQUESTS) == [ERRORS[2]]
    assert unless(ERRORS, []) == ERRORS
    assert unless([(labels_, math.inf) for labels_, _ in ERRORS], REQUESTS) == [
        (ERRORS[2][0], math.inf)
    ]


SETS = st.builds(
    lambda name, pairs: labels.make([*pairs.items(), ("__name__", name)]),
    st.sampled_from("mn"),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")),
)
VECTORS = st.dictionaries(SETS, st.floats(allow_nan=False), max_size=15).map(
    lambda v: list(v.items())
)
NAMES = st.frozensets(st.sampled_from(["a", "b", "__name__"]))
CARDS = st.sampled_from(["one-to-one", "many-to-one", "one-to-many"])
INCLUDED = st.lists(st.sampled_from(["a", "b", "c", "__name__"]), unique=True).map(tuple)
MATCHINGS = st.builds(Matching, st.booleans(), NAMES, CARDS, INCLUDED)


@given(MATCHINGS, VECTORS, VECTORS)
def test_and_with_unless_equals_the_left_side(matching, lefts, rights):
    both, others, either = (vectors(op, matching, False) for op in ("and", "unless", "or"))
    assert sorted(both(lefts, rights) + others(lefts, rights)) == sorted(lefts)
    assert either(lefts, rights) == lefts + others(rights, lefts)
    assert both(lefts, lefts) == lefts
    assert others(lefts, lefts) == []


@given(MATCHINGS, VECTORS, VECTORS, st.sampled_from(["+", "<", "atan2"]), st.booleans())
def test_match_has_distinct_results_or_an_error(matching, lefts, rights, op, return_bool):
    try:
        results = vectors(op, matching, return_bool)(lefts, rights)
    except EvaluationError:
        return
    assert len(dict(results)) == len(results)


@given(st.data(), MATCHINGS, VECTORS, VECTORS, st.sampled_from(["-", "<", "and", "or", "unless"]))
def test_order_of_elements_does_not_matter(data, matching, lefts, rights, op):
    def outcome(lefts, rights):
        try:
            return sorted(vectors(op, matching, False)(lefts, rights), key=repr)
        except EvaluationError as error:
            return str(error).split(":")[-1]

    others = data.draw(st.permutations(lefts)), data.draw(st.permutations(rights))
    assert repr(outcome(lefts, rights)) == repr(outcome(*others))


@given(MATCHINGS, VECTORS, VECTORS)
def test_swapped_match_has_the_same_results(matching, lefts, rights):
    mirrored = {"many-to-one": "one-to-many", "one-to-many": "many-to-one"}.get(matching.card)
    if mirrored is None:
        return
    other = Matching(matching.on, matching.names, mirrored, matching.include)
    try:
        results = vectors("+", matching, False)(lefts, rights)
    except EvaluationError:
        with pytest.raises(EvaluationError):
            vectors("+", other, False)(rights, lefts)
    else:
        assert repr(results) == repr(vectors("+", other, False)(rights, lefts))
