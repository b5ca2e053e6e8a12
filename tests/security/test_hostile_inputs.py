"""Tokens and policies made to keep the evaluator busy, against the real program."""

import asyncio

import grpc
import pytest

from tests.patience import PATIENCE
from wire import telemetry_pb2, telemetry_pb2_grpc

pytestmark = [pytest.mark.e2e, pytest.mark.features("evictions", "gangs", "pages")]

BURST = 10
"""Failed reviews of one address without delay; then one in 5 seconds."""
ATTEMPTS = 40
SPARE = 12
"""Reviews that a minute of a slow test may add."""


@pytest.fixture
def introduce(installation):
    """Open a stream with a token; return its final status."""

    async def attempt(token):
        shown = grpc.ssl_channel_credentials(installation.authority.file.read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        address = f"127.0.0.1:{installation.port('agents')}"
        async with grpc.aio.secure_channel(address, shown, options) as channel:
            metadata = (("authorization", f"Bearer {token}"),)
            call = telemetry_pb2_grpc.TelemetryStub(channel).Stream(metadata=metadata)
            await call.write(telemetry_pb2.Report(node_name="node-a"))
            async with asyncio.timeout(PATIENCE):
                return await call.code()

    return attempt


async def test_flood_of_invalid_tokens_causes_few_reviews_and_ends_no_stream(
    installation, introduce, eventually
):
    await installation.start_evaluator()
    await installation.start_agent()
    await eventually(lambda: "agent connected" in installation.log("evaluator"))
    ends = await asyncio.gather(*(introduce(f"made-up-{n}") for n in range(ATTEMPTS)))
    reviewed = [token for token in installation.api.reviewed if token.startswith("made-up")]
    assert len(reviewed) <= BURST + SPARE
    assert ends.count(grpc.StatusCode.UNAUTHENTICATED) == len(reviewed)
    assert ends.count(grpc.StatusCode.UNAVAILABLE) == ATTEMPTS - len(reviewed)
    await installation.ready()
    # The agent's token is cached: it is accepted from the flooded address, too.
    await installation.stop("agent")
    await installation.start_agent()
    await eventually(lambda: installation.log("evaluator").count("agent connected") == 2)


async def test_policy_of_megabytes_is_not_decoded_and_its_status_reports_it(installation):
    await installation.start_evaluator()
    await installation.start_agent()
    await installation.ready()
    labels = [f"label-{number}=value" for number in range(50_000)]
    rules = [{"metricname": "m", "operator": "Equals", "target": 1, "labels": labels}]
    policy = {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": "huge", "namespace": "default"},
        "spec": {"strategies": {"labeling": {"rules": rules}}},
    }
    path = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
    await installation.api.call("POST", path, policy)
    async with asyncio.timeout(PATIENCE):
        while "more than 262144" not in str(await installation.api.call("GET", f"{path}/huge")):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await installation.ready()
