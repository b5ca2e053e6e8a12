"""Processor time and memory of a decoder are linear in its input.

Quadratic cost would take minutes for these inputs; linear cost takes tenths of a second.
"""

import contextlib

import pytest

from evaluator.core.kube import transport
from tests.fuzz.properties import at_most, held_at_most
from tests.fuzz.targets import TARGETS

SIZE = 50_000
SIZE_OF_YAML = 600
"""PyYAML's own parser is a thousand times slower than JSON decoders, though linear too."""
SECONDS = 5.0
BYTES_FOR_ONE = 200
"""Memory per byte of the input: `[[[[` and `a,a,a` become objects of a hundred bytes each."""

REPEATED = (
    "1", "[", "{", '{"a":', "[[],", '"', "\\", "\\\\", " ", "\n", "\r\n", "\t", "a: ", "- ", "1s", ".", "-", "+", "x", "x,",
    "&a ", "*a ", "é", "\u2028", "#", "{a: ", "1m", "'", "1_", "1:", "T", "2026-", "a{", "ab=", '\\"', "%", "{}", "null,",
)  # fmt: skip
YAML = {"kubeconfig", "manifest", "queries", "staticpod", "webconfig"}
FRAMES = {
    "event": ('{"type":"@","object":{}}', '{"type":"ERROR","object":{"message":"@"}}'),
    "extender": ('{"Pod":{"metadata":{"name":"@"}},"NodeNames":["@"]}', '{"Pod":{},"Nodes":{"items":[@]}}'),
    "group": ('{"versions":[{"version":"@"}]}',),
    "list": ('{"items":[{"metadata":{"name":"@","resourceVersion":"@"}}]}',),
    "manifest": ('kind: TASPolicy\nspec: {strategies: {deschedule: {rules: [], for: "@"}}}', "a: @", "? @\n: b"),
    "metricvalues": (
        '{"items":[{"describedObject":{"name":"@"},"timestamp":"2026-11-20T12:00:00Z","value":"@"}]}',
        '{"items":[{"describedObject":{"name":"a"},"timestamp":"@","value":"1"}]}',
    ),
    "policy": (
        '{"strategies":{"dontschedule":{"rules":[],"for":"@"}}}',
        '{"strategies":{"dontschedule":{"rules":[{"metricname":"m","operator":"Equals","target":"@"}]}}}',
        '{"strategies":{"labeling":{"rules":[{"metricname":"@","operator":"Equals","labels":["@","a=@"]}]}}}',
        '{"strategies":{"labeling":{"rules":[{"metricname":"m","operator":"Equals","labels":["@=b","x/@=c"]}]}}}',
    ),
    "preemption": (
        '{"Pod":{},"NodeNameToMetaVictims":{"@":{"Pods":[{"UID":"@"}]}}}',
        '{"Pod":{},"NodeNameToMetaVictims":{"a":{"Pods":[@]}}}',
        '{"Pod":{},"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"@"}}]}}}',
    ),
    "queries": ('a: "@"', "'@': b"),
    "refusal": ('{"message":"@"}',),
    "scheduler": ('{"kubeconfig":"a","kube-api-qps":"@"}', '{"kubeconfig":"a","kube-api-burst":"@"}'),
    "textfile": ("@ 1\n", 'a{x="@"} 1\n', "a{@} 1\n", "# HELP a @\n", "# TYPE @\n", "a @\n"),
    "tokenreview": ('{"status":{"error":"@"}}',),
    "vector": (
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"@"},"value":[1,"@"]}]}}',
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"x":"@"},"value":[1,"1"]}]}}',
    ),
    "webconfig": ('rate_limit: {interval: "@"}', 'basic_auth_users: {a: "@"}', "http_server_config: {headers: {a: @}}"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - {"lines"}))
def test_cost_of_a_long_input_is_linear(name):
    size = SIZE_OF_YAML if name in YAML else SIZE
    # Counting PyYAML's allocations would take thirty times as long.
    memory = contextlib.nullcontext if name in YAML else held_at_most
    for piece in REPEATED:
        for frame in ("@", *FRAMES.get(name, ())):
            data = frame.replace("@", piece * (size // len(piece))).encode()
            try:
                with at_most(seconds=SECONDS), memory(len(data) * BYTES_FOR_ONE + (16 << 20)):
                    TARGETS[name](data)
            except BaseException as error:
                error.add_note(f"{piece!r} again and again in {frame}")
                raise


async def test_long_line_is_not_copied_for_each_piece():
    class Content:
        async def iter_any(self):
            for _ in range(16 << 10):
                yield bytes(1 << 10)

    class Response:
        content = Content()

        def close(self):
            pass

    with at_most(seconds=SECONDS):
        (line,) = [line async for line in transport.lines(Response(), "watch of nodes")]
    assert len(line) == 16 << 20
