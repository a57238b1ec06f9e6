#!/bin/sh
# Makes a container image of a folder: an archive that docker, podman and containerd load.
#
#   deploy/oci-archive.sh ROOT ARCHIVE NAME:TAG CONFIG [LEVEL]
#
# ROOT     the folder of its files, which all belong to root then
# CONFIG   what containers run, as in the image's configuration (OCI image specification 1.1):
#          '{"Entrypoint": ["/bin/program"], "Env": ["PATH=/bin"]}'
# LEVEL    of compression, 1 to 9 [default: 6]
#
# SOURCE_DATE_EPOCH is the time of the image and of its files [default: now]: of the same files, the
# image is the same then.
set -eu

[ $# -ge 4 ] || { echo "oci-archive: see the head of deploy/oci-archive.sh" >&2; exit 1; }
root=$1 out=$2 name=$3 run=$4 level=${5:-6}
epoch=${SOURCE_DATE_EPOCH:-$(date +%s)}
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac

work=$(mktemp -d "$(dirname "$out")/image.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/image/blobs/sha256"

archive() { # FOLDER FILE
    tar -C "$1" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu -cf "$2" .
}
# Moves a file to where it is found by its digest, and prints its description.
blob() { # FILE TYPE
    digest=$(sha256sum "$1" | cut -d' ' -f1)
    printf '"mediaType": "application/vnd.oci.image.%s", "digest": "sha256:%s", "size": %s' "$2" "$digest" "$(stat -c %s "$1")"
    mv "$1" "$work/image/blobs/sha256/$digest"
}
path_of() { # DESCRIPTION
    echo "$1" | sed 's,.*"sha256:\([0-9a-f]*\)".*,blobs/sha256/\1,'
}

archive "$root" "$work/layer.tar"
content=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
gzip -n "-$level" "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz" layer.v1.tar+gzip)
cat >"$work/config" <<END
{"architecture": "$architecture", "os": "linux", "created": "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)",
 "config": $run, "rootfs": {"type": "layers", "diff_ids": ["sha256:$content"]}}
END
config=$(blob "$work/config" config.v1+json)
echo "{\"schemaVersion\": 2, \"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", \"config\": {$config}, \"layers\": [{$layer}]}" \
    >"$work/manifest"
manifest=$(blob "$work/manifest" manifest.v1+json)

# containerd knows an image by its whole name only.
case $name in
*/*) full=$name ;;
*) full=docker.io/library/$name ;;
esac
cat >"$work/image/index.json" <<END
{"schemaVersion": 2, "manifests": [{$manifest,
 "annotations": {"io.containerd.image.name": "$full", "org.opencontainers.image.ref.name": "${name##*:}"}}]}
END
echo '{"imageLayoutVersion": "1.0.0"}' >"$work/image/oci-layout"
# The list of an older docker, which does not read the index.
echo "[{\"Config\": \"$(path_of "$config")\", \"RepoTags\": [\"$name\"], \"Layers\": [\"$(path_of "$layer")\"]}]" \
    >"$work/image/manifest.json"
archive "$work/image" "$work/archive.tar"
mv "$work/archive.tar" "$out"
