"""Properties of every decoder of foreign input: it raises only its own error with a sentence, at bounded cost."""

import contextlib
import json
import signal
import tracemalloc

import msgspec

from evaluator.core.model.names import UNREADABLE

LONGEST = 1000
"""Characters in a sentence: readable, and short enough for a header, a status and a log line."""


def fits(sentence):
    """The text fits into a log, a status or a response: one non-empty, printable, bounded line."""
    assert sentence.strip(), "an error without a message"
    assert sentence.isprintable(), f"not printable: {sentence[:200]!r}"
    assert len(sentence) <= LONGEST, f"{len(sentence)} characters: {sentence[:200]!r}"


@contextlib.contextmanager
def documented(*kinds):
    """These errors and their subclasses may be raised with a valid text. Any other is a defect."""
    try:
        yield
    except kinds as error:
        fits(str(error))


class TooMuchWorkError(AssertionError):
    """A decoder took longer than its input's size explains."""


@contextlib.contextmanager
def at_most(*, seconds):
    """Bound the processor time, which does not depend on other load."""

    def stop(_signal, _frame):
        raise TooMuchWorkError(f"more than {seconds} s of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def held_at_most(peak):
    """Bound the bytes allocated at once."""
    tracemalloc.start()
    try:
        yield
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held <= peak, f"{held} bytes held"


def as_text(data):
    return data.decode("utf-8", "replace")


def is_json(data):
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
        msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return True


def as_json(data, only=dict):
    """The standard library's result for valid JSON; None otherwise."""
    try:
        found = json.loads(bytes(data).decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, only) else None


def _refuse(name):
    raise ValueError(f"{name} is no JSON")
