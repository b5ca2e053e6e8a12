"""The agents' port as configured: certificates and authentication."""

from collections.abc import Callable

from evaluator.cache.cluster import ClusterCache
from evaluator.config import Settings
from evaluator.sources.agents.authn import Authorizer, Check, allow_all, by_certificate, by_token
from evaluator.sources.agents.tls import Certificates, Files
from evaluator.sources.agents.token_review import Authority, TokenAuthenticator


def certificates(
    settings: Settings, *, on_change: Callable[[bool], None] = lambda _usable: None
) -> Certificates | None:
    """The certificates, None for a port without TLS. `on_change` receives the result of each reload. Raises TlsError."""
    if settings.agents_plain:
        return None
    cert, key = settings.agent_cert or settings.cert, settings.agent_key or settings.key
    # gRPC can only require client certificates, not request them; clients with tokens have none.
    wants_certificate = settings.agent_identity == "certificate"
    return Certificates(
        Files(cert, key, (settings.agent_cacert or settings.cacert) if wants_certificate else ""),
        on_change=on_change,
    )


def verifier(settings: Settings, cluster: ClusterCache, authority: Authority) -> Authorizer:
    """Authorizes agents for nodes of the cluster; before nodes are listed, for any node."""
    nodes = cluster.nodes
    return Authorizer(
        _check(settings, authority), exists=lambda node: not nodes.synced or node in nodes.objects
    )


def _check(settings: Settings, authority: Authority) -> Check:
    if settings.agents_plain:
        return allow_all
    if settings.agent_identity == "certificate":
        return by_certificate
    return by_token(
        TokenAuthenticator(
            authority, audience=settings.agent_audience, account=settings.agent_account
        )
    )
