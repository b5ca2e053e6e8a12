"""When the collector stops looking at what stays."""

import gc

from evaluator.settled import Settled


def test_what_is_known_is_settled_once_and_not_before_the_program_is_ready():
    ready, done = [False], []
    settled = Settled(lambda: ready[0], lambda: done.append(True))
    settled.look()
    assert not done
    ready[0] = True
    settled.look()
    settled.look()
    assert done == [True]


def test_the_collector_does_not_look_at_it_any_more():
    stays = [[] for _ in range(1000)]
    try:
        before = gc.get_freeze_count()
        Settled(lambda: True).look()
        assert gc.get_freeze_count() >= before + len(stays)
        assert not any(found is stays for found in gc.get_objects())
    finally:
        gc.unfreeze()
