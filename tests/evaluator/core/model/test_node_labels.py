"""Owned labels, wanted labels and the resulting writes, by the API server's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model import node_labels
from evaluator.core.model.node_labels import LabelApply, LabelComparison, LabelConflict, NodeLabels


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "demo-policy",
        "A.b_c-9",
        "x" * 63,
        "example.com/a",
        f"{'a' * 253}/{'b' * 63}",
        "telemetry.aware.scheduling.demo-policy/card_0",
        "1.2.3/4",
    ],
)
def test_valid_keys_are_accepted(key):
    assert node_labels.key_flaw(key) is None


@pytest.mark.parametrize(
    "key",
    [
        *["", "-a", "a-", ".a", "a_", "a b", "a=b", "ä", "a\n", "x" * 64, "٣"],
        *[
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "-a/b",
            "a..b/c",
            "a_b/c",
            f"{'a' * 254}/b",
            "a /b",
        ],
    ],
)
def test_invalid_keys_have_a_flaw(key):
    assert node_labels.key_flaw(key)


@pytest.mark.parametrize("value", ["", "a", "violating", "1", "A.b_c-9", "x" * 63])
def test_valid_values_are_accepted(value):
    assert node_labels.value_flaw(value) is None


@pytest.mark.parametrize("value", ["-", "a-", "_a", "a b", "a=b", "ä", "a\n", "x" * 64, "a/b", "é"])
def test_invalid_values_have_a_flaw(value):
    assert node_labels.value_flaw(value)


def test_flaw_quotes_a_bounded_part_of_a_text():
    assert len(node_labels.key_flaw("y" * 100_000)) < 250
    assert len(node_labels.value_flaw("y" * 100_000)) < 250
    assert len(node_labels.key_flaw("Y" * 100_000 + "/a")) < 250


def test_labeling_keys_are_spelled_as_by_tas():
    assert node_labels.label_key("demo", "card0") == "telemetry.aware.scheduling.demo/card0"


OURS = frozenset({"p"})


@pytest.mark.parametrize(
    ("seen", "wanted", "compared"),
    [
        pytest.param(
            NodeLabels("u", {}, frozenset()), {}, LabelComparison(None, ()), id="nothing wanted"
        ),
        pytest.param(
            NodeLabels("u", {"mine": "x"}, frozenset()),
            {},
            LabelComparison(None, ()),
            id="labels of others are kept",
        ),
        pytest.param(
            NodeLabels("u", {"mine": "x"}, frozenset()),
            {"p": "v"},
            LabelComparison(LabelApply("n", "u", {"p": "v"}), ()),
            id="new label",
        ),
        pytest.param(
            NodeLabels("u", {"p": "v"}, OURS),
            {"p": "v"},
            LabelComparison(None, ()),
            id="already there",
        ),
        pytest.param(
            NodeLabels("u", {"p": "v"}, OURS),
            {"p": "w"},
            LabelComparison(LabelApply("n", "u", {"p": "w"}), ()),
            id="changed own value",
        ),
        pytest.param(
            NodeLabels("u", {"p": "v"}, OURS),
            {},
            LabelComparison(LabelApply("n", "u", {}), ()),
            id="no longer wanted",
        ),
        pytest.param(
            NodeLabels("u", {}, OURS),
            {"p": "v"},
            LabelComparison(LabelApply("n", "u", {"p": "v"}), ()),
            id="deleted by a user",
        ),
        pytest.param(
            NodeLabels("u", {}, OURS),
            {},
            LabelComparison(LabelApply("n", "u", {}), ()),
            id="owned but absent",
        ),
        pytest.param(
            NodeLabels("u", {"p": "v"}, frozenset()),
            {"p": "v"},
            LabelComparison(LabelApply("n", "u", {"p": "v"}), ()),
            id="equal value of another manager: shared",
        ),
        pytest.param(
            NodeLabels("u", {"p": "theirs"}, frozenset()),
            {"p": "v"},
            LabelComparison(None, (LabelConflict("n", "p", "v", "theirs"),)),
            id="is owned by another field manager",
        ),
        pytest.param(
            NodeLabels("u", {"p": "theirs", "q": "old"}, frozenset({"q"})),
            {"p": "v", "q": "new", "r": "1"},
            LabelComparison(
                LabelApply("n", "u", {"q": "new", "r": "1"}),
                (LabelConflict("n", "p", "v", "theirs"),),
            ),
            id="the rest is written",
        ),
        pytest.param(
            NodeLabels("u", {"p": ""}, frozenset()),
            {"p": "v"},
            LabelComparison(None, (LabelConflict("n", "p", "v", ""),)),
            id="empty value is valid",
        ),
    ],
)
def test_write_sets_and_removes_labels(seen, wanted, compared):
    assert node_labels.compare("n", seen, wanted) == compared


keys = st.sampled_from(["p", "q", "r"])
values = st.sampled_from(["v", "w"])


@given(
    st.dictionaries(keys, values),
    st.frozensets(keys),
    st.dictionaries(keys, values),
)
def test_nothing_is_left_after_a_write(there, owned, wanted):
    seen = NodeLabels("u", there, owned)
    compared = node_labels.compare("n", seen, wanted)
    if (apply := compared.apply) is not None:
        kept = {key: value for key, value in there.items() if key not in owned}
        seen = NodeLabels("u", kept | dict(apply.labels), frozenset(apply.labels))
    assert node_labels.compare("n", seen, wanted) == LabelComparison(None, compared.conflicts)
    assert all(seen.labels.get(k) == v for k, v in there.items() if k not in owned)
