"""JSON only for clients that prefer it; the headers of browsers and kubectl."""

import pytest

from plimsoll.html.negotiation import prefers_json


@pytest.mark.parametrize(
    ("accept", "json_wanted"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),  # a browser
        ("*/*", False),
        ("", False),
        ("application/json, */*", True),  # kubectl get --raw
        ("application/json", True),
        ("text/html, application/json", False),
        ("text/html;q=0.5, application/json;q=0.9", True),
        ("application/json;q=0", False),
        ("application/json;q=x", True),
        (";;,,", False),
    ],
)
def test_json_needs_to_be_preferred(accept, json_wanted):
    assert prefers_json(accept) is json_wanted
