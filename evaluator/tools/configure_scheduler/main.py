"""Edits the kube-scheduler manifest of a kubeadm control plane, with a backup, a dry run and an undo.

kube-scheduler reads its configuration once, and the kubelet restarts it when the manifest changes. So the
configuration's file name contains a digest of its content: a changed configuration changes the manifest.
"""

import contextlib
import difflib
import hashlib
import ipaddress
import os
import shutil
import sys
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from evaluator.tools.configure_scheduler import configuration, staticpod
from evaluator.tools.configure_scheduler.configuration import ConfigurationError, ExtenderEntry
from evaluator.tools.configure_scheduler.staticpod import ManifestError
from plimsoll import flags, strictyaml
from plimsoll.commandline import Parser
from plimsoll.flags import option

PROGRAM = "plimsoll configure-scheduler"
_ABOUT = """
Adds the evaluator as an extender to the kube-scheduler of a kubeadm control plane: writes its configuration file, and names it
in the manifest of its static pod. Nothing else in the manifest changes, and a backup is kept. Run it as root on each control
plane node.
"""
_EXAMPLES = """
example:
  ip=$(kubectl -n plimsoll get service plimsoll-evaluator \\
      -o jsonpath={.spec.clusterIP})
  plimsoll configure-scheduler --url=https://$ip:9001/scheduler --dry-run
  plimsoll configure-scheduler --url=https://$ip:9001/scheduler
  plimsoll configure-scheduler --check
  plimsoll configure-scheduler --undo
"""
_HEADER = """\
# Written by plimsoll-evaluator configure-scheduler, which writes a new file instead of changing this one.
"""


class ConfigureRefusedError(Exception):
    """Nothing was changed; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All flags of plimsoll configure-scheduler."""

    url: str = option(
        "url",
        "",
        "URL of the evaluator for kube-scheduler: with the cluster IP of its Service, since kube-scheduler runs on the "
        "host's network and cannot resolve names of Services. http:// for an evaluator with --unsafe",
        metavar="URL",
    )
    manifest: str = option(
        "manifest",
        "/etc/kubernetes/manifests/kube-scheduler.yaml",
        "manifest of kube-scheduler's static pod",
        metavar="FILE",
    )
    folder: str = option(
        "folder",
        "/etc/kubernetes/plimsoll",
        "folder of the configuration and backups, with these files: ca.crt (the CA of the evaluator's certificate), tls.crt "
        "and tls.key (kube-scheduler's client certificate)",
        metavar="FOLDER",
    )
    server_name: str = option(
        "server-name",
        "plimsoll-evaluator.plimsoll.svc",
        "the name that the evaluator's certificate must have",
        metavar="NAME",
    )
    timeout: float | None = option(
        "timeout",
        None,
        "kube-scheduler's timeout for a request; by default that of the entry which is replaced, else 2s",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    weight: int | None = option(
        "weight",
        None,
        "weight of the evaluator's scores beside those of kube-scheduler's plugins; by default that of the entry which is "
        "replaced, else 1",
        metavar="N",
        parse=flags.count,
    )
    ignorable: bool | None = option(
        "ignorable",
        None,
        "schedule pods without their policies while no evaluator responds; by default as in the entry which is replaced, "
        "else they wait",
        parse=flags.boolean,
    )
    preempt: bool = option(
        "preempt",
        True,
        "let kube-scheduler call the evaluator before preemption. --no-preempt before a rollback to a version that does not "
        "know the verb: preemption fails while the evaluator answers 404",
    )
    check: bool = option(
        "check",
        False,
        "only say what the configuration in force lacks; the exit status is 1 if it lacks something",
    )
    dry_run: bool = option("dry-run", False, "only show what would change")
    undo: bool = option("undo", False, "remove all changes")


@dataclass(frozen=True, slots=True)
class Change:
    """One file to write; `after` is None if it is to be removed. `source` is the file that it replaces, if that is another."""

    path: Path
    before: str | None
    after: str | None
    source: Path | None = None

    def diff(self) -> Iterator[str]:
        """Yield the change as `diff -u` shows it."""
        before, after = (
            (text or "").splitlines(keepends=True) for text in (self.before, self.after)
        )
        old = "/dev/null" if self.before is None else str(self.source or self.path)
        new = "/dev/null" if self.after is None else str(self.path)
        yield from difflib.unified_diff(before, after, old, new)


@dataclass(frozen=True, slots=True)
class Plan:
    """The files to write, in order, and sentences on fields of the replaced entry that are kept or change."""

    changes: list[Change]
    notes: list[str] = field(default_factory=list)


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status: 0 done or nothing to do, 1 refused or incomplete, 2 for invalid arguments."""
    command = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES, usage=f"{PROGRAM} [flags]")
    settings = flags.parse_settings(Settings, command, argv=argv, env={})
    if not settings.url and not settings.undo and not settings.check:
        command.error("--url is missing")
    try:
        if settings.check:
            return _check(settings)
        planned = plan(settings)
        changes = planned.changes
        sys.stdout.writelines(f"extender: {note}\n" for note in planned.notes)
        if settings.dry_run:
            sys.stdout.writelines(line for change in changes for line in change.diff())
        elif changes:
            apply_changes(settings, changes)
    except (ManifestError, ConfigurationError, ConfigureRefusedError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}; nothing was changed\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    for change in changes if not settings.dry_run else []:
        sys.stdout.write(f"{'removed' if change.after is None else 'wrote'} {change.path}\n")
    if not changes:
        sys.stdout.write("nothing to do\n")
    return 0


def _check(settings: Settings) -> int:
    """Print what the configuration in force lacks; return the exit status."""
    parsed = _parsed(*_in_force(_read(Path(settings.manifest)), settings.folder))
    lacking = list(configuration.without_preempt(parsed))
    sys.stdout.writelines(f"extender: {sentence}\n" for sentence in lacking)
    return 1 if lacking else 0


def plan(settings: Settings) -> Plan:
    """Return the changes in a safe order: files that a manifest names exist whenever the manifest does."""
    path, folder = Path(settings.manifest), Path(settings.folder)
    if not folder.is_absolute() or folder.is_relative_to(path.parent):
        raise ConfigureRefusedError(
            f"--folder {folder} must be an absolute path, and not among the manifests: "
            "the kubelet would start the files there as pods"
        )
    before = _read(path)
    if settings.undo:
        after = staticpod.restored(before, settings.folder)
        files = [Change(old, _read(old), None) for old in sorted(folder.glob(_name("*")))]
        return Plan([*([Change(path, before, after)] if after != before else []), *files])
    base, text = _in_force(before, settings.folder)
    parsed = _parsed(base, text)
    extender = _extender(settings, before)
    written = configuration.with_extender(parsed, extender)
    new = configuration.edited(text, written)
    new = new if new.startswith(_HEADER) else _HEADER + new
    config = folder / _name(hashlib.sha256(new.encode()).hexdigest()[:10])
    after = staticpod.configured(before, settings.folder, str(config))
    changes = [
        *(
            []
            if config.exists() and config.read_text() == new
            else [Change(config, text if base else None, new, base)]
        ),
        *([] if after == before else [Change(path, before, after)]),
    ]
    lacking = configuration.without_preempt(written) if settings.preempt else ()
    notes = list(configuration.changes(parsed, extender)) if changes else []
    return Plan(changes, [*notes, *lacking])


def _name(digest: str) -> str:
    return f"kube-scheduler-{digest}.yaml"


def _in_force(manifest: str, folder: str) -> tuple[Path | None, str]:
    """Return the configuration that kube-scheduler reads now, with its path; without a file, one equivalent to its flags.

    A file of ours that was deleted counts as none: kube-scheduler does not start without it.
    """
    plain = staticpod.restored(manifest, folder)
    for text in (manifest, plain):
        if (config := staticpod.flags(text).get("config")) is None:
            break
        path = staticpod.host_path(text, config)
        if path is None:
            raise ConfigureRefusedError(
                f"kube-scheduler has --config={config}, which is not in a folder of the host"
            )
        if text is plain or Path(path).exists():
            return Path(path), _read(Path(path))
    made = configuration.from_flags(staticpod.flags(plain))
    return None, str(yaml.safe_dump(made, sort_keys=False))


def _parsed(path: Path | None, text: str) -> object:
    try:
        return strictyaml.load_json(text)
    except strictyaml.MalformedError as error:
        raise ConfigureRefusedError(f"{path} is not YAML: {error}") from error


def _extender(settings: Settings, manifest: str) -> ExtenderEntry:
    url = urllib.parse.urlsplit(settings.url)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigureRefusedError(
            f"--url {settings.url} is not like https://10.96.0.10:9001/scheduler"
        )
    if _is_service(url.hostname) and not staticpod.sees_services(manifest):
        raise ConfigureRefusedError(
            f"kube-scheduler cannot resolve {url.hostname}: it runs on the host's network; "
            "give the Service's cluster IP instead"
        )
    if url.scheme == "http":
        return ExtenderEntry(
            settings.url,
            settings.timeout,
            settings.ignorable,
            weight=settings.weight,
            preempt=settings.preempt,
        )
    folder = Path(settings.folder)
    files = [folder / name for name in ("ca.crt", "tls.crt", "tls.key")]
    if missing := [str(file) for file in files if not file.is_file()]:
        # Without these files kube-scheduler would not start, and no pod would be scheduled.
        raise ConfigureRefusedError(f"there is no {' and no '.join(missing)}")
    ca, cert, key = map(str, files)
    return ExtenderEntry(
        settings.url,
        settings.timeout,
        settings.ignorable,
        settings.server_name,
        ca,
        cert,
        key,
        settings.weight,
        settings.preempt,
    )


def _is_service(host: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return False
    return "." not in host or host.endswith((".svc", ".cluster.local"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise ConfigureRefusedError(
            f"there is no {path}: is this a kubeadm control plane node?"
        ) from None
    except UnicodeDecodeError:
        raise ConfigureRefusedError(f"{path} is not text") from None


def apply_changes(settings: Settings, changes: Sequence[Change]) -> None:
    """Apply the changes atomically per file, with a backup of each manifest that is replaced."""
    manifest = Path(settings.manifest)
    for change in changes:
        if change.after is None:
            change.path.unlink()
            continue
        if change.path == manifest:
            _back_up(manifest, Path(settings.folder) / "backups")
        _replace(change.path, change.after)


def _back_up(manifest: Path, folder: Path) -> None:
    """Copy the manifest to our folder: the kubelet would also start a copy beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    shutil.copy2(manifest, folder / f"{manifest.name}.{moment}")


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically. The kubelet ignores names that begin with a dot."""
    temporary = path.with_name(f".{path.name}.plimsoll")
    try:
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
            owner = path.stat()
            os.chown(temporary, owner.st_uid, owner.st_gid)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
