"""Credentials are removed from foreign text."""

import pytest

from plimsoll.text import redacted


@pytest.mark.parametrize(
    ("text", "secrets", "left"),
    [
        ("unknown token eyJhbGciOi", ["eyJhbGciOi"], "unknown token [hidden]"),
        ("Bearer eyJh? eyJh!", ["Bearer eyJh"], "Bearer [hidden]? [hidden]!"),
        ("jo may not: amR6cHc= (hunter2)", ["hunter2", "Basic amR6cHc="], "jo may not: [hidden] ([hidden])"),
        ("nothing was sent", ["", "Bearer "], "nothing was sent"),
        ("an abc is no secret", ["abc"], "an abc is no secret"),
    ],
)  # fmt: skip
def test_secrets_are_removed(text, secrets, left):
    assert redacted(text, *secrets) == left
