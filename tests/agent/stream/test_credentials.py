"""Stream credentials are read from files for each attempt, and an invalid file is named."""

import pytest

from agent.stream.credentials import Credentials, CredentialsError


@pytest.fixture
def files(authority, tmp_path):
    cert, key = authority.issue("node-a")
    token = tmp_path / "token"
    token.write_text("abc.def-_ghi\n")
    return {"ca": authority.file, "cert": cert, "key": key, "token": token}


def credentials(files):
    return Credentials(**{name: str(path) for name, path in files.items()})


def test_token_is_read_for_each_attempt(files):
    made = credentials(files)
    assert made.load()[1] == (("authorization", "Bearer abc.def-_ghi"),)
    files["token"].write_text("next")
    assert made.load()[1] == (("authorization", "Bearer next"),)


def test_ca_alone_is_sufficient(files):
    assert Credentials(str(files["ca"])).load()[1] == ()


@pytest.mark.parametrize("name", ["ca", "cert", "key", "token"])
@pytest.mark.parametrize("content", [None, "", "no\nsuch thing\0 \x80"])
def test_unusable_file_is_named(files, tmp_path, name, content):
    files[name] = tmp_path / "bad"
    if content is not None:
        files[name].write_text(content)
    with pytest.raises(CredentialsError, match=str(tmp_path / "bad")) as refused:
        credentials(files).load()
    assert "such thing" not in str(refused.value), "the log must not contain a secret"
    assert "\n" not in str(refused.value)


def test_key_of_another_certificate_is_reported_before_any_handshake(files, authority):
    files["key"] = authority.issue("node-b")[1]
    with pytest.raises(CredentialsError, match="cannot be used"):
        credentials(files).load()
