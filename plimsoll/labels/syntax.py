"""Syntax of label keys and values, and of the DNS names in them."""

import re

_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII
)
_PART_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)


def label_key_fault(key: str) -> str:
    """Return why a text is not a label or annotation key, or an empty string."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return (
            "a qualified name must consist of a name with an optional DNS subdomain prefix and '/'"
        )
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (fault := subdomain_fault(prefix)):
        return f"prefix part {fault}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return "" if _PART.fullmatch(name) else f"name part {_PART_RULE}"


def label_value_fault(value: str) -> str:
    """Return why a text is not a label value, or an empty string."""
    if len(value.encode()) > 63:
        return "must be no more than 63 characters"
    if not value or _PART.fullmatch(value):
        return ""
    return f"a valid label must be an empty string or {_PART_RULE}"


def subdomain_fault(text: str) -> str:
    """Return why a text is not a DNS subdomain, or an empty string."""
    if len(text) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(text) else _SUBDOMAIN_RULE
