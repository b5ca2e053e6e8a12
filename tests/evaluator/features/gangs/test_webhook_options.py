"""The flags of the webhook and their combinations."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def mistakes(*argv):
    parser = Parser("prog", about="")
    return flags.parse_settings(Settings, parser, argv=argv, env={}).mistakes()


def test_webhook_with_gangs_is_valid():
    assert mistakes("--gangs", "--gangWebhookPort=9443", "--gangWebhookCacert=/ca.crt") == []


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--gangWebhookPort=9443"], "requires --gangs"),
        (["--gangs", "--gangWebhookCacert=/ca.crt"], "requires --gangWebhookPort"),
        (["--gangs", "--gangWebhookPort=9001"], "9001 is the port of --port"),
        (["--gangs", "--gangWebhookPort=9091"], "9091 is the port of --agentPort"),
        (["--gangs", "--gangWebhookPort=8080"], "8080 is the port of --opsPort"),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else "",
)
def test_mistake_is_reported_in_a_sentence(argv, named):
    (sentence,) = mistakes(*argv)
    assert named in sentence
