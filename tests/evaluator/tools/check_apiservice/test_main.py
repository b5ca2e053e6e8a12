"""The command on an API server: output and exit status."""

import asyncio
import base64

import aiohttp
import pytest

from evaluator.tools.check_apiservice.main import main
from tests.patience import PATIENCE

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
VERSIONS = ("v1beta1", "v1beta2")


@pytest.fixture
def check(api, kubeconfig, capsys):
    """Run the command; return its exit status and output."""

    async def run(*flags):
        status = await asyncio.to_thread(main, [f"--kubeConfig={kubeconfig(api.url)}", *flags])
        return status, capsys.readouterr().out

    return run


async def register(api, service, bundle=b""):
    for version in VERSIONS:
        spec = {
            "group": "custom.metrics.k8s.io",
            "version": version,
            "service": {"namespace": "plimsoll", "name": service},
            "caBundle": base64.b64encode(bundle).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        name = f"{version}.custom.metrics.k8s.io"
        body = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": name},
            "spec": spec,
        }
        await api.call("POST", API_SERVICES, body)


async def test_free_api_may_be_taken(check):
    status, out = await check()
    assert (status, out.count("not registered")) == (0, 2)
    assert "is free: apply the evaluator with deploy/components/serve-custom-metrics" in out


async def test_api_of_another_service_is_refused(api, check):
    await register(api, "prometheus-adapter")
    status, out = await check()
    assert status == 1
    assert (
        "v1beta1.custom.metrics.k8s.io: belongs to the Service plimsoll/prometheus-adapter" in out
    )
    assert "belongs to another program" in out
    status, out = await check("--service=plimsoll/prometheus-adapter")
    assert "served by plimsoll/prometheus-adapter, not available" in out


async def test_unavailable_service_has_a_next_step(api, check):
    await register(api, "plimsoll-evaluator")

    watched = {"watch": "true", "resourceVersion": "0"}
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.get(f"{api.url}{API_SERVICES}", params=watched) as events,
    ):
        async for event in events.content:
            if b"ServiceNotFound" in event and b"v1beta2" in event:
                break
    status, out = await check()
    assert status == 1
    assert 'service/plimsoll-evaluator in "plimsoll" is not present' in out
    assert "kubectl delete apiservice v1beta2.custom.metrics.k8s.io" in out


@pytest.mark.parametrize("given", ["plimsoll", "/x", "a/", "a/b/c"])
def test_service_is_a_namespace_and_a_name(given, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([f"--service={given}"])
    assert stopped.value.code == 2
    assert "write it like plimsoll/plimsoll-evaluator" in capsys.readouterr().err


def test_missing_kubeconfig_is_a_sentence(capsys, tmp_path):
    assert main([f"--kubeConfig={tmp_path / 'none'}"]) == 1
    assert "check-apiservice: no kubeconfig at" in capsys.readouterr().err


async def test_available_api_whose_requests_fail_does_not_work(
    stub_server, answer, kubeconfig, capsys
):
    """API servers before 1.28 keep Available at True with a wrong caBundle."""
    registered = {
        "spec": {"service": {"namespace": "plimsoll", "name": "plimsoll-evaluator"}},
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]},
    }
    refused = "error trying to reach service: x509: certificate signed by unknown authority"
    stub_server.then(
        answer.refuses(404),
        answer.says(200, registered),
        answer.refuses(503, "ServiceUnavailable", refused),
        answer.says(200, registered),
        answer.says(200, {}),
    )
    status = await asyncio.to_thread(main, [f"--kubeConfig={kubeconfig(stub_server.url)}"])
    out = capsys.readouterr().out
    assert status == 1
    assert "v1beta1.custom.metrics.k8s.io: served by plimsoll/plimsoll-evaluator, requests fail" in out  # fmt: skip
    assert refused in out
    assert "caBundle is empty" in out
    assert "v1beta2.custom.metrics.k8s.io: served by plimsoll/plimsoll-evaluator, available" in out
    asked = [one.path for one in stub_server.asked if one.path.startswith("/apis/custom")]
    assert asked == [f"/apis/custom.metrics.k8s.io/{version}" for version in VERSIONS]
