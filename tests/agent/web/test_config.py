from pathlib import PurePath

import pytest

from agent.web.config import HttpConfig, RateLimit, WebConfig, WebConfigError, parse

HERE = PurePath("/etc/plimsoll")
HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "tls_server_config:\n", "---\n"])
def test_empty_file_is_valid(text: str) -> None:
    assert parse(text, HERE) == WebConfig()


def test_all_fields_are_read() -> None:
    config = parse(
        f"""
tls_server_config:
  cert_file: server.crt
  key_file: /keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca/ca.crt
  client_allowed_sans: [prometheus, 10.0.0.1]
  min_version: TLS13
  max_version: TLS13
  cipher_suites:
    - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: no
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
  "007": '{HASH}'
rate_limit:
  interval: 100ms
  burst: 20
""",
        HERE,
    )
    assert config.tls is not None
    assert config.tls.files == (
        "/etc/plimsoll/server.crt",
        "/keys/server.key",
        "/etc/plimsoll/ca/ca.crt",
    )
    assert config.tls.client_allowed_sans == ("prometheus", "10.0.0.1")
    assert config.tls.prefer_server_cipher_suites is False
    assert config.tls.verifies_clients
    assert config.http == HttpConfig(
        http2=False,
        headers={"X-Frame-Options": "deny", "Strict-Transport-Security": "max-age=31536000"},
    )
    assert config.users == {"alice": HASH, "007": HASH}
    assert config.rate_limit == RateLimit(interval="100ms", burst=20)
    assert config.rate_limit.seconds == 0.1


def test_defaults_are_those_of_the_exporters() -> None:
    config = parse("tls_server_config: {cert: x, key: y}", HERE)
    assert config.tls is not None
    assert (config.tls.min_version, config.tls.max_version) == ("TLS12", "TLS13")
    assert config.tls.prefer_server_cipher_suites
    assert not config.tls.verifies_clients
    assert config.tls.files == ()


PAIR = "tls_server_config:\n  cert_file: a\n  key_file: b\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tls_config: {}", "unknown field tls_config"),
        (PAIR + "  cert_fil: a", "tls_server_config: unknown field cert_fil"),
        (PAIR + "  cert_file: b", "not YAML: .*cert_file appears twice"),
        ("a: [", "not YAML: "),
        ("a: 1\n---\nb: 2", "not YAML: "),
        ("[]", "the file: expected fields with values"),
        ("tls_server_config: yes", "tls_server_config: expected fields with values"),
        ("tls_server_config: {cert_file: a}", "one of key and key_file is missing"),
        ("tls_server_config: {key_file: a}", "one of cert and cert_file is missing"),
        ("tls_server_config: {client_auth_type: NoClientCert}", "one of cert and cert_file"),
        (PAIR + "  cert: x", "cert and cert_file exclude each other"),
        (PAIR + "  client_ca_file: x", "a client CA needs client_auth_type"),
        (PAIR + "  client_ca: x\n  client_ca_file: x\n  client_auth_type: y", "client_ca_file exc"),
        (PAIR + "  cipher_suites: x", "cipher_suites: expected a list"),
        (PAIR + "  cipher_suites: [[x]]", "cipher_suites: expected a list"),
        (PAIR + "  min_version: [x]", "min_version: expected a single value"),
        (PAIR + "  prefer_server_cipher_suites: maybe", "'maybe' is no bool"),
        ("http_server_config: {headers: {Server: x}}", "header Server cannot be set"),
        ("http_server_config: {headers: {X-Frame-Options: allow}}", "not deny or sameorigin"),
        (
            'http_server_config: {headers: {X-XSS-Protection: "a\\r\\nb: c"}}',
            "headers cannot contain",
        ),
        ("http_server_config: {headers: [x]}", "headers: expected fields with values"),
        ("basic_auth_users: {alice: secret}", "the password of alice is not a bcrypt hash"),
        ("basic_auth_users: {alice: {}}", "expected names with single values"),
        (f"basic_auth_users: {{alice: {HASH}, alice: {HASH}}}", "alice appears twice"),
        ("rate_limit: {interval: soon}", "rate_limit: not a duration"),
        ("rate_limit: {burst: -1}", "burst: '-1' is no int"),
    ],
)
def test_mistake_is_reported_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(WebConfigError, match=reason):
        parse(text, HERE)


def test_plain_text_password_is_not_repeated_in_the_error() -> None:
    with pytest.raises(WebConfigError) as error:
        parse("basic_auth_users: {alice: hunter2}", HERE)
    assert "hunter2" not in str(error.value)
