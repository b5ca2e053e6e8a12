"""What every Plimsoll program is made of: its version, its flags, its log lines."""

from importlib import metadata

VERSION = metadata.version("kube-plimsoll")
