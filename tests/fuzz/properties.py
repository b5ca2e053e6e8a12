"""Properties of every decoder of foreign input: it raises only its own error with a sentence, at bounded cost."""

import contextlib
import signal
import tracemalloc

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
