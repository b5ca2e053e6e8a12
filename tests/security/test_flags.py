"""Command lines and environments are readable by others, so they hold no secret."""

import itertools
import re

import agent.config
from evaluator.config import Settings
from plimsoll import flags

SECRET = re.compile(r"password|passwd|token|secret|credential|key", re.IGNORECASE)
FILES = {"key", "agentKey"}
"""Names of files in Telemetry Aware Scheduling's flags."""


def test_secrets_are_given_as_files():
    classes = [Settings, *itertools.chain.from_iterable(agent.config.GROUPS.values())]
    options = {opt.flag: opt for settings in classes for _, opt in flags.options(settings)}
    secret = {flag for flag in options if SECRET.search(flag)}
    assert len(secret) >= 5
    for flag in secret:
        assert flag in FILES or flag.lower().endswith("file"), flag
        assert options[flag].metavar == "FILE", flag
        assert not options[flag].env, flag
