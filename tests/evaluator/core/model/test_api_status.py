"""Errors of an API server, or of a proxy before it, are decoded."""

import json

import pytest

from evaluator.core.model import api_status
from evaluator.core.model.api_status import APIStatus

STATUS = {"kind": "Status", "message": "no", "details": {"causes": [{"field": "x"}]}}


@pytest.mark.parametrize(
    ("body", "understood"),
    [
        (json.dumps(STATUS).encode(), APIStatus("no", ({"field": "x"},))),
        (b'{"message": "no"}', APIStatus("no")),
        (b'{"message": "no", "details": {"causes": null}}', APIStatus("no")),
        (b"<html>Bad Gateway</html>", APIStatus()),
        (b"", APIStatus()),
        (b"\xff", APIStatus()),
        (b"[1]", APIStatus()),
    ],
)
def test_error_is_decoded(body, understood):
    assert api_status.read(body, "") == understood


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ("\u0667", None),
    ],
)
def test_retry_after_is_decoded(header, seconds):
    assert api_status.read(b"", header).retry_after == seconds
