"""Tests of several features: fixtures of the evaluator's tests."""

from tests.evaluator.conftest import (  # noqa: F401  fixtures
    answer,
    api,
    background,
    connect,
    kubeconfig,
    log_lines,
    parsed,
    rng,
    rule,
    stub_server,
    tas,
)
