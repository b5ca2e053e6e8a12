"""When certificates in PEM expire, as OpenSSL reads them."""

import base64
import shutil
import ssl
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.http import expiry

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl on PATH")


def made(folder, days):
    """The text of a certificate that is valid for so many days."""
    files = ["-keyout", folder / "key", "-out", folder / "cert"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"]
    subprocess.run([*words, "-days", str(days), *files], check=True, capture_output=True)
    return (folder / "cert").read_text()


def by_openssl(folder):
    shown = subprocess.run(
        ["openssl", "x509", "-enddate", "-noout", "-in", folder / "cert"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return float(ssl.cert_time_to_seconds(shown.strip().removeprefix("notAfter=")))


@needs_openssl
@pytest.mark.parametrize("days", [1, 400, 9000, 20_000], ids=["a day", "a year", "2051", "2081"])
def test_end_is_that_of_openssl(tmp_path, days):
    pem = made(tmp_path, days)
    assert [*expiry.ends(pem)] == [by_openssl(tmp_path)]
    assert [*expiry.ends(f"text\n{pem}\n{pem}")] == [by_openssl(tmp_path)] * 2


@needs_openssl
def test_damaged_certificate_is_skipped(tmp_path):
    pem = made(tmp_path, 5)
    lines = pem.splitlines()
    for cut in range(1, len(lines) - 1, 3):
        damaged = "\n".join([lines[0], *lines[1:cut], lines[-1]])
        assert [*expiry.ends(damaged + "\n" + pem)][-1:] == [by_openssl(tmp_path)]


@given(st.binary(max_size=300))
def test_other_content_yields_nothing_and_raises_nothing(content):
    block = base64.b64encode(content).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{block}\n-----END CERTIFICATE-----\n"
    assert all(isinstance(at, float) for at in expiry.ends(text))
    assert all(isinstance(at, float) for at in expiry.ends(content.decode("latin-1")))
