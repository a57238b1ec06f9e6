"""The volume `pyScratch: { size: 64Mi }`: a memory file system for one pod."""

import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import mounts, tmpfs, types, volumes

FIELDS = ["size"]
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
LARGEST = 2**63 - 1


def invalid(volume: volumes.Volume, field: str, why: str) -> Err:
    return Err(types.Error_InvalidArgument(f"{volume.source()}.{field}: {why}"))


def size(volume: volumes.Volume) -> int | None:
    """The limit in bytes; none when the volume has none. Checks every field, so that a misspelt one is reported."""
    for field in volume.parameters():
        if field not in FIELDS:
            raise invalid(volume, field, "no such field; the only one is size")
    text = volume.parameter("size")
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]+)([kMG]|[KMG]i)?", text, re.ASCII)
    if found is None or len(text) > 24:
        raise invalid(volume, "size", f"{text[:24]!r} is no quantity; write it as 64Mi")
    limit = int(found[1]) * UNITS[found[2] or ""]
    if not 0 < limit <= LARGEST:
        raise invalid(volume, "size", "must be more than 0 and less than 8 EiB")
    return limit


class Plugin(exports.Plugin):
    def describe(self, into: volumes.Description) -> None:
        into.name("example.com/py-scratch")
        into.version("0.1.0")
        into.serves("pyScratch")

    def identify(self, volume: volumes.Volume, into: volumes.Identity) -> None:
        size(volume)


class Publisher(exports.Publisher):
    def publish(self, volume: volumes.Volume, pod: volumes.Pod, target: mounts.MountTarget) -> None:
        # The host may call again at any time: an existing mount is done.
        if target.state() == mounts.TargetState.MOUNTED:
            return
        options = [types.FsOption("mode", "0777")]
        limit = size(volume)
        if limit is not None:
            options.append(types.FsOption("size", str(limit)))
        group = pod.fs_group()
        if group is not None:
            options.append(types.FsOption("gid", str(group)))
        mount = tmpfs.create(options)
        if volume.read_only():
            mount.set_options(["ro"], False)
        # No process sees the mount before this; if anything failed until here, it is gone by itself.
        target.attach(mount)

    def unpublish(self, target: mounts.MountTarget) -> None:
        target.detach()
