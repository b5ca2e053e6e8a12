"""A kubeconfig leads to a connection, or to an error message without secrets."""

import pytest

from evaluator.core.kube.connection import ConfigError, KubeConnection


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "just text",
        "{",
        "a: [",
        "\x00\x01",
        "clusters: 5",
        "apiVersion: v1\nkind: Config\n",
        "current-context: gone\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {}}]\nusers: [{name: u, user: {}}]\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x',"
        " certificate-authority: /no/such/file}}]\nusers: [{name: u, user: {}}]\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x',"
        " certificate-authority-data: '!!!'}}]\nusers: [{name: u, user: {}}]\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x',"
        " certificate-authority-data: aGVsbG8=}}]\nusers: [{name: u, user: {}}]\n",
    ],
)
async def test_unusable_kubeconfig_is_explained_in_a_sentence(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigError, match="kubeconfig") as refused:
        await KubeConnection.open(str(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "users: [{user: {token: 'hunter2}}]",
        "users:\n- user: {token: hunter2: x}",
        "users: *hunter2",
        "hunter2",
        "users: [{name: u, user: {client-key-data: hunter2}}]\n",
        "users: [{name: u, user: {client-key-data: aHVudGVyMg==, client-certificate-data: aHVudGVyMg==}}]\n",
        "users: [{name: u, user: hunter2}]\n",
    ],
)
async def test_unusable_kubeconfig_is_not_quoted(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(
        f"{text}\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'https://localhost'}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        await KubeConnection.open(str(path))
    for secret in ("hunter2", "aHVudGVyMg=="):
        assert secret not in str(caught.value)


async def test_missing_kubeconfig_names_the_flag(tmp_path):
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*--kubeConfig"):
        await KubeConnection.open(str(tmp_path / "none"))


async def test_service_account_is_used_in_a_pod(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigError, match=r"kubeconfig|service account"):
        await KubeConnection.open("")
