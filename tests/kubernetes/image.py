"""Makes an OCI image layout of one layer: busybox and a link for each of its commands.

    image.py BUSYBOX OUTPUT.tar
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile

NAME = "localhost/busybox:1"


def layer(busybox):
    """The layer as a tar archive."""
    commands = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder in ("bin", "tmp", "etc", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        with open(busybox, "rb") as file:
            entry = tarfile.TarInfo("bin/busybox")
            entry.mode, content = 0o755, file.read()
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for command in commands.stdout.split():
            if command != "busybox":
                entry = tarfile.TarInfo(f"bin/{command}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
    return archive.getvalue()


def main():
    busybox, output = sys.argv[1:]
    blobs = {}

    def blob(content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return digest

    def described(kind, content):
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": blob(content),
            "size": len(content),
        }

    root = layer(busybox)
    # A sandbox runs the image's own command: one that waits.
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["sleep", "inf"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [blob(root)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("config.v1+json", json.dumps(config).encode()),
        "layers": [described("layer.v1.tar", root)],
    }
    entry = described("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {
        "io.containerd.image.name": NAME,
        "org.opencontainers.image.ref.name": NAME.rsplit(":", 1)[1],
    }
    index = {"schemaVersion": 2, "manifests": [entry]}
    with tarfile.open(output, "w") as tar:

        def add(name, content):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

        add("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        add("index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            add("blobs/" + digest.replace(":", "/"), content)


main()
