"""Edits the text of kube-scheduler's static pod manifest: adds and removes a flag, a mount and a volume.

Editing the text keeps comments, order and style. Added parts are recognizable: removing them restores the original bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from plimsoll.text import SentenceError

_VOLUME = "plimsoll"
_CONFIG = "--config="


class ManifestError(SentenceError, ValueError):
    """An unsupported manifest; the message says why. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Pod:
    """The relevant parts of the manifest, as YAML nodes with their positions in the text."""

    command: yaml.SequenceNode
    mounts: yaml.SequenceNode
    volumes: yaml.SequenceNode
    spec: yaml.MappingNode


def flags(text: str) -> Mapping[str, str]:
    """Return kube-scheduler's flags without dashes; the last of repeated flags counts, as for kube-scheduler."""
    values: dict[str, str] = {}
    for item in _read(text).command.value[1:]:
        name, separator, value = str(item.value).lstrip("-").partition("=")
        values[name] = value if separator else "true"
    return values


def sees_services(text: str) -> bool:
    """Return whether the pod can resolve names of Services."""
    spec = _read(text).spec
    on_host = _scalar(spec, "hostNetwork") == "true"
    return not on_host or _scalar(spec, "dnsPolicy") == "ClusterFirstWithHostNet"


def host_path(text: str, path: str) -> str | None:
    """Return the host path of a file in the container; None if no volume has it."""
    pod = _read(text)
    volumes = {_scalar(volume, "name"): volume for volume in pod.volumes.value}
    for mount in pod.mounts.value:
        mount_path, name = _scalar(mount, "mountPath"), _scalar(mount, "name")
        source = _child(volumes[name], "hostPath") if name in volumes else None
        if source is not None and (
            path == mount_path or path.startswith(f"{mount_path.rstrip('/')}/")
        ):
            return _scalar(source, "path") + path[len(mount_path.rstrip("/")) :]
    return None


def configured(text: str, folder: str, config: str) -> str:
    """Return the manifest with our folder mounted and our configuration named; unchanged if it already is.

    An existing --config stays before ours: kube-scheduler uses the last.
    """
    plain = restored(text, folder)
    new = _add(plain, folder, config)
    if restored(new, folder) != plain:
        raise ManifestError("its format would not allow an exact undo")
    if flags(new) != {**flags(plain), "config": config} or host_path(new, config) != config:
        raise ManifestError("the edited manifest would not have the expected content")
    return new


def restored(text: str, folder: str) -> str:
    """Return the manifest without the parts that `configured` adds."""
    pod, lines = _read(text), text.splitlines(keepends=True)
    added = [
        *(item for item in pod.command.value if item.value.startswith(f"{_CONFIG}{folder}/")),
        *_named(pod.mounts, "mountPath", folder),
        *_named(pod.volumes, "hostPath", folder),
    ]
    for item in added:
        first, last = item.start_mark.line, last_line(item)
        lines[first : last + 1] = [""] * (last + 1 - first)
    return "".join(lines)


def _add(text: str, folder: str, config: str) -> str:
    pod, lines = _read(text), text.splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        raise ManifestError("its last line has no newline")
    mount = (f"mountPath: {folder}", f"name: {_VOLUME}", "readOnly: true")
    volume = ("hostPath:", f"  path: {folder}", "  type: Directory", f"name: {_VOLUME}")
    flag = _item(pod.command, (f"{_CONFIG}{config}",))
    after = last_line(pod.command)
    lines[after] += flag
    for sequence, item in ((pod.mounts, mount), (pod.volumes, volume)):
        before = sequence.start_mark.line
        lines[before] = _item(sequence, item) + lines[before]
    return "".join(lines)


def _item(sequence: yaml.SequenceNode, content: tuple[str, ...]) -> str:
    indent = " " * sequence.start_mark.column
    first, *rest = content
    return "".join((f"{indent}- {first}\n", *(f"{indent}  {line}\n" for line in rest)))


def _named(sequence: yaml.SequenceNode, key: str, folder: str) -> Iterator[yaml.Node]:
    """Yield our item in a list of mounts or volumes. Raises ManifestError if another one has our name."""
    for item in sequence.value:
        if _scalar(item, "name") != _VOLUME:
            continue
        source = _child(item, key)
        path = _scalar(source, "path") if isinstance(source, yaml.MappingNode) else source
        if (path if isinstance(path, str) else getattr(path, "value", "")) != folder:
            raise ManifestError(f"it has a volume called {_VOLUME} that is not {folder}")
        yield item


def _read(text: str) -> _Pod:
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ManifestError(f"it is not one YAML document: {error}") from error
    if not isinstance(root, yaml.MappingNode) or _scalar(root, "kind") != "Pod":
        raise ManifestError("it is not a Pod")
    spec = _mapping(root, "spec")
    containers = _sequence(spec, "containers")
    if len(containers.value) != 1:
        raise ManifestError(f"it has {len(containers.value)} containers, not one")
    (container,) = containers.value
    command = _sequence(container, "command")
    if not all(isinstance(item, yaml.ScalarNode) for item in command.value):
        raise ManifestError("its command is not a list of strings")
    arguments = [item.value for item in command.value]
    if arguments[0].rpartition("/")[2] != "kube-scheduler" or _child(container, "args") is not None:
        raise ManifestError("its command is not kube-scheduler and its flags")
    if unexpected := next((word for word in arguments[1:] if not word.startswith("--")), None):
        raise ManifestError(f"its command contains {unexpected!r}, which is not --flag=value")
    return _Pod(command, _sequence(container, "volumeMounts"), _sequence(spec, "volumes"), spec)


def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    pairs: list[tuple[yaml.Node, yaml.Node]] = (
        node.value if isinstance(node, yaml.MappingNode) else []
    )
    return next((value for name, value in pairs if name.value == key), None)


def _scalar(node: yaml.Node, key: str) -> str:
    child = _child(node, key)
    return str(child.value) if isinstance(child, yaml.ScalarNode) else ""


def _mapping(node: yaml.Node, key: str) -> yaml.MappingNode:
    child = _child(node, key)
    if not isinstance(child, yaml.MappingNode):
        raise ManifestError(f"it has no {key}")
    return child


def _sequence(node: yaml.Node, key: str) -> yaml.SequenceNode:
    """Return a non-empty list in block style."""
    child = _child(node, key)
    if not isinstance(child, yaml.SequenceNode) or not child.value:
        raise ManifestError(f"it has no list of {key}")
    if child.flow_style:
        raise ManifestError(f"its {key} must be in block style, one item per line")
    return child


def last_line(node: yaml.Node) -> int:
    """Return the last line of a node: the end mark of a block is where the next node starts."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        return max(last_line(part) for pair in pairs for part in pair)
    if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}:
        raise ManifestError("it has block scalars where plain scalars are expected")
    return int(node.end_mark.line)
