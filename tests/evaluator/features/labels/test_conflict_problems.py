"""Conflicts with other field managers as problems of the policies that set the labels."""

from evaluator.core.model.node_labels import LabelConflict
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.labels.feature import ConflictsByLabel, problems
from wire.codec import Delta


def test_label_owned_by_another_manager_is_a_problem_of_the_policy_that_sets_it(parsed, rule):
    policy = parsed(deschedule=[rule("m GreaterThan 0")])
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(["m"])
    store.report("n0", Delta({"m": 1.0}), 0.0)
    decision = decide([policy], ["n0"], store, now=0.0).policies[policy.key]
    ours = LabelConflict("n0", "demo", "violating", "mine")
    anothers = LabelConflict("n0", "other-policy", "violating", "mine")
    assert problems(ConflictsByLabel([ours, anothers]).conflicts(decision)) == (
        "label demo on n0 is owned by another field manager (value 'mine'): not set",
    )


def test_field_manager_that_owns_a_label_is_named():
    (said,) = problems([LabelConflict("n0", "demo", "violating", "mine", "kops\u202e")])
    assert said == (
        "label demo on n0 is owned by another field manager, kops\\u202e (value 'mine'): not set"
    )
