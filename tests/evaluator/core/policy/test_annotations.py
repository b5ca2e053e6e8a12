"""Annotations of policies that no feature declares: misspelt ones, and those of newer versions."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.policy import parse as policies
from evaluator.core.policy.annotations import IN_FORCE, record, resembled
from evaluator.core.policy.types import ActionPart
from evaluator.core.policy.vocabulary import NodeActions, Vocabulary

SETTLE, EFFECT = "plimsoll.io/settle", "plimsoll.io/taint-effect"
OBSERVE = {"plimsoll.io/enforcement": "observe"}
RULE = {"metricname": "heat", "operator": "GreaterThan", "target": 1}


def vocabulary(*annotations):
    """The words of a feature that reads these annotations."""

    def parse(_policy, _annotations, kinds, _problems):
        return ActionPart(kinds)

    return Vocabulary(actions=(NodeActions(("taint",), parse, annotations),))


NOW = vocabulary(EFFECT)
NEWER = vocabulary(EFFECT, SETTLE)
DECLARED = policies.declared_annotations(NOW)


def parsed(annotations=None, *, labels=None, status=None, before=None, known=NOW, **more):
    meta = {"name": "demo", "namespace": "ns", "uid": "u", "annotations": annotations, **more}
    obj = {
        "metadata": {**meta, "labels": labels},
        "spec": {"strategies": {"dontschedule": {"rules": [RULE]}}},
        "status": status,
    }
    return policies.parse(obj, vocabulary=known, before=before)


def status_of(policy):
    """The fields of the policy's status that a new process reads."""
    mode = "Observe" if policy.observed else "Enforce"
    return {"enforcement": mode, IN_FORCE: list(record(policy.annotations))}


MISSPELT = [
    ("plimsoll.io/enforcment", "plimsoll.io/enforcement"),
    ("plimsoll.io/Enforcement", "plimsoll.io/enforcement"),
    ("plimsoll.io/taint_effect", EFFECT),
    ("plimsoll.io/taintEffect", EFFECT),
    ("plimsoll.io/action", "plimsoll.io/actions"),
    ("plimsoll.io/rnaking", "plimsoll.io/ranking"),
    ("plimsol.io/enforcement", "plimsoll.io/enforcement"),
]


@pytest.mark.parametrize(("key", "similar"), MISSPELT)
def test_policy_with_a_misspelt_key_is_only_observed_until_it_is_right(key, similar):
    found = parsed({key: "observe"})
    assert found.problems == (
        f"annotation {key} is unknown, similar: {similar}: the policy is only observed until that is corrected",
    )
    assert found.observed_by == f"the unknown annotation {key}"
    again = parsed({key: "observe"}, status=status_of(found), before=found)
    assert again.observed
    assert not parsed({}, status=status_of(found), before=found).observed


def test_annotation_given_as_a_label_is_misspelt():
    found = parsed(labels={"plimsoll.io/enforcement": "observe", "app": "x"})
    assert found.problems == (
        "label plimsoll.io/enforcement has no effect, write it as an annotation: the policy is only observed until that is "
        "corrected",
    )
    assert found.observed


@pytest.mark.parametrize("restarted", [False, True])
def test_enforced_policy_goes_on_as_last_understood(restarted):
    right = parsed({"plimsoll.io/actions": "taint", EFFECT: "NoSchedule"})
    past = {"status": status_of(right), "before": None if restarted else right}
    wrong = parsed({"plimsoll.io/action": "taint", EFFECT: "NoExecute"}, **past)
    assert not wrong.observed
    assert wrong.annotations == right.annotations
    assert wrong.actions.kinds == {"taint"}
    assert "is enforced as before this mistake" in wrong.problems[0]
    past = {"status": status_of(wrong), "before": None if restarted else wrong}
    still = parsed({"plimsoll.io/action": "taint"}, **past)
    assert (still.observed, still.annotations) == (False, right.annotations)
    corrected = parsed({EFFECT: "NoExecute"}, **past)
    assert (corrected.problems, corrected.annotations) == ((), {EFFECT: "NoExecute"})


def test_status_of_an_older_version_keeps_a_policy_enforced():
    found = parsed({"plimsoll.io/action": "taint"}, status={"enforcement": "Enforce"})
    assert not found.observed
    assert found.problems


@pytest.mark.parametrize("before_edit", [{}, OBSERVE])
def test_written_mode_counts_beside_a_mistake(before_edit):
    right = parsed(before_edit)
    past = {"status": status_of(right), "before": right}
    wrong = parsed({**OBSERVE, "plimsoll.io/action": "taint"}, **past)
    assert wrong.observed
    past = {"status": status_of(wrong), "before": wrong}
    assert parsed({"plimsoll.io/action": "taint"}, **past).observed


def test_recreated_policy_was_never_enforced():
    right = parsed({})
    assert parsed({"plimsoll.io/action": "taint"}, before=right, uid="other").observed


def test_key_of_a_newer_version_changes_nothing_after_an_upgrade_and_a_rollback():
    written = {SETTLE: "5m", EFFECT: "NoSchedule"}
    newer = parsed(written, known=NEWER)
    assert (newer.problems, newer.warnings) == ((), ())
    older = parsed(written, status=status_of(newer))
    assert (older.problems, older.observed) == ((), False)
    assert older.warnings == (
        f"annotation {SETTLE} is unknown to this version and changes nothing",
    )
    assert (older.strategies, older.actions) == (newer.strategies, newer.actions)
    again = parsed(written, known=NEWER, status=status_of(older))
    assert again == newer
    mistaken = parsed({**written, "plimsoll.io/action": "x"}, status=status_of(newer))
    assert mistaken.annotations == {EFFECT: "NoSchedule"}


NAMES = sorted(key.removeprefix("plimsoll.io/") for key in DECLARED)
LETTERS = st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789-_.ABC")


@st.composite
def misspellings(draw):
    """A name with one or two letters added, missing, replaced or swapped, and any letter in another case."""
    name = draw(st.sampled_from(NAMES))
    text = [*name]
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(text) - 1))
        match draw(st.sampled_from(["add", "drop", "replace", "swap", "separate"])):
            case "add":
                text.insert(at, draw(LETTERS))
            case "drop":
                del text[at]
            case "replace":
                text[at] = draw(LETTERS)
            case "swap" if at:
                text[at - 1], text[at] = text[at], text[at - 1]
            case _:
                text.insert(at, draw(st.sampled_from("-_.")))
    upper = draw(st.sets(st.integers(0, 40)))
    return "".join(c.upper() if at in upper else c for at, c in enumerate(text))


@given(misspellings())
def test_every_misspelling_of_up_to_two_letters_is_found(name):
    key = f"plimsoll.io/{name}"
    if key not in DECLARED:
        assert resembled(key, DECLARED)
        assert parsed({key: "observe"}).observed


def test_no_declared_key_resembles_another():
    """An older version would take the newer one for a mistake."""
    for key in DECLARED:
        assert resembled(key, frozenset(DECLARED - {key})) == ""


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=5)), st.booleans())
def test_other_keys_change_nothing(keys, labels):
    keys = {key: value for key, value in keys.items() if "/" not in key}
    found = parsed(None if labels else keys, labels=keys if labels else None)
    assert (found.problems, found.warnings, found.observed) == ((), (), False)


@pytest.mark.parametrize(
    "key",
    ["plimsoll.io/" + "x" * 300_000, "plimsoll.io/\x1b[2J<b>\n", "plimsoll.io/", "plimsoll.io/a/b"],
)
def test_hostile_keys_are_shown_on_one_short_line(key):
    (warning,) = parsed({key: "1"}).warnings
    assert warning.isprintable()
    assert len(warning) < 200


def test_thousands_of_keys_cost_little_and_say_so():
    keys = {f"plimsoll.io/taint-effec{n}": "x" for n in range(20_000)}
    begin = time.perf_counter()
    found = parsed(keys)
    assert time.perf_counter() - begin < 2
    assert found.observed
    assert len(found.problems) <= 7
    assert found.problems[-1].startswith("more than 100 keys of plimsoll.io/ are unknown")
    others = parsed({f"plimsoll.io/of-a-newer-version-{n}": "x" for n in range(50)})
    assert not others.observed
    assert others.warnings[-1].startswith(
        "45 more keys of plimsoll.io/ are unknown to this version"
    )


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_status_can_be_read(value):
    wrong = {"plimsoll.io/action": "taint"}
    parsed(wrong, status={"enforcement": value, IN_FORCE: value})
    parsed(wrong, status={"enforcement": "Enforce", IN_FORCE: [value, "=", "x"]})
