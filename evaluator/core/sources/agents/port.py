"""The agents' port as configured: certificates and authentication."""

from collections.abc import Callable

from evaluator.core.sources.agents.authn import (
    Authorizer,
    Check,
    allow_all,
    by_certificate,
    by_token,
)
from evaluator.core.sources.agents.options import AgentOptions
from evaluator.core.sources.agents.tls import Certificates, Files
from evaluator.core.sources.agents.token_review import Authority, TokenAuthenticator


def certificates(
    options: AgentOptions,
    default: Files,
    *,
    on_change: Callable[[bool], None] = lambda _usable: None,
) -> Certificates:
    """The certificates. `default`: files for those without a flag. `on_change` receives the result of each reload.

    Raises TlsError.
    """
    # gRPC can only require client certificates, not request them; clients with tokens have none.
    wants_certificate = options.agent_identity == "certificate"
    return Certificates(
        Files(
            options.agent_cert or default.cert,
            options.agent_key or default.key,
            (options.agent_cacert or default.ca) if wants_certificate else "",
        ),
        on_change=on_change,
    )


def authorizer(
    options: AgentOptions,
    authority: Authority | None,
    *,
    plain: bool,
    exists: Callable[[str], bool] = lambda _node: True,
) -> Authorizer:
    """Authorizes agents for nodes that exist. `authority` reviews tokens; None only if there are none."""
    return Authorizer(_check(options, authority, plain=plain), exists=exists)


def _check(options: AgentOptions, authority: Authority | None, *, plain: bool) -> Check:
    if plain:
        return allow_all
    if options.agent_identity == "certificate" or authority is None:
        return by_certificate
    return by_token(
        TokenAuthenticator(
            authority, audience=options.agent_audience, account=options.agent_account
        )
    )
