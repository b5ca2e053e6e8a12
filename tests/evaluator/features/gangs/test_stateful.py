"""Invariants of gang decisions hold for random sequences of cluster events."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.evaluator.features.gangs.state_machine import GangMachine


def test_invariants_of_gangs_hold_under_random_events(soak):
    run_state_machine_as_test(
        GangMachine,
        settings=settings(
            max_examples=20_000 if soak else 60,
            stateful_step_count=40,
            derandomize=not soak,  # random runs are for a developer who investigates failures
            deadline=None,
            report_multiple_bugs=False,
        ),
    )
