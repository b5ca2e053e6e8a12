"""The manifest of kube-scheduler's static pod as text: a flag, a mount and a volume put in and taken out, all else as it was.

The text is edited, not the objects in it, so that comments, order and style stay. What was put in can be told from the
rest: taking it out gives the text from before, to the byte.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from plimsoll.text import SentenceError

_VOLUME = "plimsoll"
_CONFIG = "--config="


class ManifestError(SentenceError, ValueError):
    """A manifest that is not understood; the text says why, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Pod:
    """The parts of the manifest that matter, as YAML nodes, which know where in the text they are."""

    command: yaml.SequenceNode
    mounts: yaml.SequenceNode
    volumes: yaml.SequenceNode
    spec: yaml.MappingNode


def flags(text: str) -> Mapping[str, str]:
    """kube-scheduler's flags, without dashes; of one that is given twice the last counts, as it does for kube-scheduler."""
    found: dict[str, str] = {}
    for item in _read(text).command.value[1:]:
        name, separator, value = str(item.value).lstrip("-").partition("=")
        found[name] = value if separator else "true"
    return found


def sees_services(text: str) -> bool:
    """Whether names of Services can be resolved in this pod."""
    spec = _read(text).spec
    on_host = _scalar(spec, "hostNetwork") == "true"
    return not on_host or _scalar(spec, "dnsPolicy") == "ClusterFirstWithHostNet"


def host_path(text: str, path: str) -> str | None:
    """Where a file in the container lies on the host; None if no volume holds it."""
    pod = _read(text)
    volumes = {_scalar(one, "name"): one for one in pod.volumes.value}
    for mount in pod.mounts.value:
        at, name = _scalar(mount, "mountPath"), _scalar(mount, "name")
        source = _child(volumes[name], "hostPath") if name in volumes else None
        if source is not None and (path == at or path.startswith(f"{at.rstrip('/')}/")):
            return _scalar(source, "path") + path[len(at.rstrip("/")) :]
    return None


def configured(text: str, folder: str, config: str) -> str:
    """The manifest with our folder mounted and our configuration named; the same again if it was so already.

    A --config that is there stays, before ours: kube-scheduler takes the last.
    """
    plain = restored(text, folder)
    new = _put_in(plain, folder, config)
    if restored(new, folder) != plain:
        raise ManifestError("it is written in a way that could not be undone to the byte")
    if flags(new) != {**flags(plain), "config": config} or host_path(new, config) != config:
        raise ManifestError("it is written in a way that hides what is put in")
    return new


def restored(text: str, folder: str) -> str:
    """The manifest without what `configured` has put in."""
    pod, lines = _read(text), text.splitlines(keepends=True)
    ours = [
        *(item for item in pod.command.value if item.value.startswith(f"{_CONFIG}{folder}/")),
        *_named(pod.mounts, "mountPath", folder),
        *_named(pod.volumes, "hostPath", folder),
    ]
    for item in ours:
        first, last = item.start_mark.line, _last_line(item)
        lines[first : last + 1] = [""] * (last + 1 - first)
    return "".join(lines)


def _put_in(text: str, folder: str, config: str) -> str:
    pod, lines = _read(text), text.splitlines(keepends=True)
    if not lines[-1].endswith("\n"):
        raise ManifestError("its last line has no end")
    mount = (f"mountPath: {folder}", f"name: {_VOLUME}", "readOnly: true")
    volume = ("hostPath:", f"  path: {folder}", "  type: Directory", f"name: {_VOLUME}")
    flag = _item(pod.command, (f"{_CONFIG}{config}",))
    after = _last_line(pod.command)
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
    """Our item in a list of mounts or volumes. Somebody else's of the same name is refused."""
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
        raise ManifestError("its command is not a list of words")
    words = [item.value for item in command.value]
    if words[0].rpartition("/")[2] != "kube-scheduler" or _child(container, "args") is not None:
        raise ManifestError("its command is not kube-scheduler and its flags")
    if odd := next((word for word in words[1:] if not word.startswith("--")), None):
        raise ManifestError(f"its command has {odd!r} in it, which is no --flag=value")
    return _Pod(command, _sequence(container, "volumeMounts"), _sequence(spec, "volumes"), spec)


def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    pairs: list[tuple[yaml.Node, yaml.Node]] = (
        node.value if isinstance(node, yaml.MappingNode) else []
    )
    return next((value for name, value in pairs if name.value == key), None)


def _scalar(node: yaml.Node, key: str) -> str:
    found = _child(node, key)
    return str(found.value) if isinstance(found, yaml.ScalarNode) else ""


def _mapping(node: yaml.Node, key: str) -> yaml.MappingNode:
    found = _child(node, key)
    if not isinstance(found, yaml.MappingNode):
        raise ManifestError(f"it has no {key}")
    return found


def _sequence(node: yaml.Node, key: str) -> yaml.SequenceNode:
    """A list that is written one item a line, with something in it."""
    found = _child(node, key)
    if not isinstance(found, yaml.SequenceNode) or not found.value:
        raise ManifestError(f"it has no list of {key}")
    if found.flow_style:
        raise ManifestError(f"its {key} are written in brackets, not one a line")
    return found


def _last_line(node: yaml.Node) -> int:
    """The line on which its text ends: a block's own end mark is where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        return max(_last_line(part) for pair in pairs for part in pair)
    if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}:
        raise ManifestError("it has text blocks where a word is expected")
    return int(node.end_mark.line)
