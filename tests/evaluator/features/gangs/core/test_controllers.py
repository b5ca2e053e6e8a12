"""Create failures from events, with messages as kube-controller-manager 1.36 writes them."""

import msgspec
import pytest

from evaluator.features.gangs.core.controllers import ControllerEvent, failure_reason, last_failure

QUOTA = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"


def event(why, message, second, **more):
    body = {"reason": why, "message": message, "lastTimestamp": f"2026-11-20T21:00:{second:02}Z"}
    return msgspec.convert({**body, **more}, ControllerEvent)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f'Error creating: pods "j-wqknt" is forbidden: {QUOTA}', QUOTA),
        (
            '(combined from similar events): Error creating: pods "d-9b7c54fc8-rjkb7" is forbidden: '
            f"{QUOTA}",
            QUOTA,
        ),
        (f'create Pod s-2 in StatefulSet s failed error: pods "s-2" is forbidden: {QUOTA}', QUOTA),
        (
            'Error creating: pods "k-" is forbidden: no PriorityClass with name nope was found',
            "no PriorityClass with name nope was found",
        ),
        (f'pods "d-9b7c54fc8-qvbkp" is forbidden: {QUOTA}', QUOTA),
        (
            'Error creating: admission webhook "no.example.com" denied the request: no',
            'admission webhook "no.example.com" denied the request: no',
        ),
        ("something else\nin two lines", "something else in two lines"),
    ],
)
def test_reason_does_not_name_the_pod(message, expected):
    """Each attempt has a new pod name, and each new text would be a new event."""
    assert failure_reason(message) == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ""),
        ([event("SuccessfulCreate", "Created pod: a", 1)], ""),
        ([event("FailedCreate", "no", 1)], "no"),
        ([event("FailedCreate", "no", 1), event("FailedCreate", "never", 2)], "never"),
        ([event("FailedCreate", "no", 3), event("SuccessfulCreate", "Created pod: a", 2)], "no"),
        ([event("FailedCreate", "no", 2), event("SuccessfulCreate", "Created pod: a", 2)], "no"),
        ([event("FailedCreate", "no", 1), event("SuccessfulCreate", "Created pod: a", 2)], ""),
        ([event("FailedCreatePod", "no", 1)], "no"),
        ([event("FailedCreatePod", "no", 1), event("SuccessfulCreatePod", "made", 2)], ""),
        ([event("Suspended", "Job suspended", 9), event("FailedCreate", "no", 1)], "no"),
    ],
)
def test_failure_counts_until_a_pod_is_created(events, expected):
    assert last_failure(events) == expected
    assert last_failure(reversed(events)) == expected


def test_micro_time_and_time_are_comparable():
    series = {"count": 2, "lastObservedTime": "2026-11-20T21:00:05.123456Z"}
    again = event("FailedCreate", "no", 1, lastTimestamp=None, series=series)
    once = event("FailedCreate", "no", 1, lastTimestamp=None, eventTime="2026-11-20T21:00:01.5Z")
    made = event("SuccessfulCreate", "Created pod: a", 4)
    assert last_failure([made, again]) == "no"
    assert last_failure([made, once]) == ""
