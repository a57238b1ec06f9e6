//! The files and options of the cluster's programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{Cluster, NODE, free_ports};

/// What programs of the cluster write outside the node's folder goes to file systems that end with
/// the mount namespace. The folder is a mount, as the kubelet's root has to be.
pub(super) const PREPARE: &str = r#"
mkdir -p /run/containerd /var/lib/cni /var/lib/kubelet
for folder in /run/containerd /var/lib/cni /var/lib/kubelet /var/log; do mount -t tmpfs none "$folder"; done
mkdir -p "$NODE/etcd" "$NODE/containerd" "$NODE/cni/bin" "$NODE/cni/conf" "$NODE/kubelet" "$NODE/log" "$NODE/static"
mount --bind "$NODE" "$NODE"
mount --make-shared "$NODE"
"#;

/// The ports of one cluster.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peers: u16,
    pub(super) apiserver: u16,
    pub(super) controller_manager: u16,
    pub(super) scheduler: u16,
    pub(super) kubelet: u16,
    pub(super) kubelet_health: u16,
}

impl Ports {
    pub(super) fn free() -> Self {
        let [etcd, etcd_peers, apiserver, controller_manager, scheduler, kubelet, kubelet_health] = free_ports();
        Self { etcd, etcd_peers, apiserver, controller_manager, scheduler, kubelet, kubelet_health }
    }
}

/// Which controller attaches volumes to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attaching {
    /// That of kube-controller-manager.
    ByKubernetes,
    /// Another one: that of kube-controller-manager does not run.
    ByAnother,
}

impl Attaching {
    fn of_controller_manager(self) -> &'static str {
        match self {
            Self::ByKubernetes => "",
            Self::ByAnother => "--controllers=*,-persistentvolume-attach-detach-controller",
        }
    }
}

/// How often the kubelet does what it does periodically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intervals {
    /// Often, so that no test waits for it: a stock kubelet reports `volumesInUse` every 10 s, for
    /// which each attachment waits.
    Short,
    /// As Kubernetes has it.
    Stock,
}

impl Intervals {
    fn of_kubelet(self) -> &'static str {
        match self {
            Self::Short => {
                "volumeStatsAggPeriod: 2s
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 10s
syncFrequency: 10s
"
            }
            Self::Stock => "",
        }
    }

    /// By itself it makes 20 requests a second: 1,000 claims would take minutes to be bound.
    fn of_controller_manager(self) -> &'static str {
        match self {
            Self::Short => "--kube-api-qps=1000 --kube-api-burst=2000",
            Self::Stock => "",
        }
    }
}

/// The API server's log has the requests of service accounts that tests give to programs, and of
/// Kubernetes' controllers of volumes.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
    userGroups:
      - system:serviceaccounts:volhost-csi
      - system:serviceaccounts:volhost-node
      - system:serviceaccounts:volhost-attach-detach
      - system:serviceaccounts:volhost-plugins
  - level: Metadata
    users:
      - system:serviceaccount:kube-system:attachdetach-controller
      - system:serviceaccount:kube-system:persistent-volume-binder
      - system:serviceaccount:kube-system:pv-protection-controller
      - system:serviceaccount:kube-system:pvc-protection-controller
  - { level: None }
";

/// The most that etcd's documentation advises; its default is a quarter of it.
const ETCD_BYTES: u64 = 8 << 30;

/// A network plugin (CNI 1.0) for pods without the host's network, which have none: the address is
/// one of documentation.
const NETWORK: &str = r#"#!/bin/sh
case $CNI_COMMAND in
ADD) echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}], "ips": [{"interface": 0, "address": "192.0.2.1/32"}]}' ;;
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
esac
"#;

/// Writes the files.
pub(super) fn write(cluster: &Cluster) {
    let folder = cluster.folder();
    let put = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file is written");
    for user in ["admin", "controller-manager", "scheduler", "kubelet"] {
        put(&format!("{user}.kubeconfig"), kubeconfig(cluster, user));
    }
    put("containerd.toml", containerd(cluster));
    put("kubelet.yaml", kubelet(cluster));
    put("audit.yaml", AUDIT.to_owned());
    put("cni/bin/none", NETWORK.to_owned());
    fs::set_permissions(folder.join("cni/bin/none"), Permissions::from_mode(0o755)).expect("it can be run");
    put(
        "cni/conf/10-none.conflist",
        r#"{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "none"}]}"#.to_owned(),
    );
}

fn kubeconfig(cluster: &Cluster, user: &str) -> String {
    let (pki, port) = (cluster.built.join("pki").display().to_string(), cluster.ports.apiserver);
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: {pki}/ca.crt}}}}]
users: [{{name: test, user: {{client-certificate: {pki}/{user}.crt, client-key: {pki}/{user}.key}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
"
    )
}

/// `restrict_oom_score_adj`: a root without `CAP_SYS_RESOURCE` may not lower the score as the
/// kubelet asks, and containers would not start. The node resource interface (NRI), which nothing here
/// uses, has one socket for the whole machine: two nodes that start in the same moment both replace
/// it, and the containerd that finds the other's ends.
fn containerd(cluster: &Cluster) -> String {
    let (folder, built) = (cluster.folder().display(), cluster.built.display());
    format!(
        "version = 3
root = '{folder}/containerd/root'
state = '{folder}/containerd/state'
[grpc]
address = '{folder}/containerd.sock'
[ttrpc]
address = '{folder}/containerd.sock.ttrpc'
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'
use_local_image_pull = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
use_internal_loopback = true
bin_dirs = ['{folder}/cni/bin']
conf_dir = '{folder}/cni/conf'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{built}/bin/runc'
SystemdCgroup = false
",
        IMAGE = super::IMAGE
    )
}

fn kubelet(cluster: &Cluster) -> String {
    let (folder, pki, ports) = (cluster.folder().display(), cluster.built.join("pki"), &cluster.ports);
    let pki = pki.display();
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: {port}
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
healthzPort: {health}
tlsCertFile: {pki}/kubelet-server.crt
tlsPrivateKeyFile: {pki}/kubelet-server.key
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: AlwaysAllow}}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://{folder}/containerd.sock
resolvConf: ''
evictionHard: {{memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
staticPodPath: {folder}/static
podLogsDir: {folder}/log/pods
{intervals}",
        intervals = cluster.intervals.of_kubelet(),
        port = ports.kubelet,
        health = ports.kubelet_health,
    )
}

/// The arguments of a component's program.
pub(super) fn arguments(cluster: &Cluster, component: &str) -> Vec<String> {
    let (folder, ports) = (cluster.folder().display(), &cluster.ports);
    let pki = cluster.built.join("pki").display().to_string();
    let text = match component {
        "etcd" => format!(
            "--name=one --data-dir={folder}/etcd --listen-client-urls=http://127.0.0.1:{client}
            --advertise-client-urls=http://127.0.0.1:{client} --listen-peer-urls=http://127.0.0.1:{peers}
            --initial-advertise-peer-urls=http://127.0.0.1:{peers} --initial-cluster=one=http://127.0.0.1:{peers}
            --unsafe-no-fsync --quota-backend-bytes={ETCD_BYTES} --log-level=warn",
            client = ports.etcd,
            peers = ports.etcd_peers,
        ),
        "kube-apiserver" => format!(
            "--etcd-servers=http://127.0.0.1:{etcd} --bind-address=127.0.0.1 --secure-port={port}
            --advertise-address=127.0.0.1 --tls-cert-file={pki}/apiserver.crt
            --tls-private-key-file={pki}/apiserver.key --client-ca-file={pki}/ca.crt
            --kubelet-client-certificate={pki}/apiserver-kubelet-client.crt
            --kubelet-client-key={pki}/apiserver-kubelet-client.key --kubelet-certificate-authority={pki}/ca.crt
            --kubelet-preferred-address-types=InternalIP --service-account-issuer=https://kubernetes.default.svc
            --service-account-key-file={pki}/sa.pub --service-account-signing-key-file={pki}/sa.key
            --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC
            --enable-admission-plugins=NodeRestriction --endpoint-reconciler-type=none --allow-privileged=true
            --audit-policy-file={folder}/audit.yaml --audit-log-path={folder}/audit.log --profiling=false --v=1",
            etcd = ports.etcd,
            port = ports.apiserver,
        ),
        "kube-controller-manager" => format!(
            "--kubeconfig={folder}/controller-manager.kubeconfig
            --authentication-kubeconfig={folder}/controller-manager.kubeconfig
            --authorization-kubeconfig={folder}/controller-manager.kubeconfig --bind-address=127.0.0.1
            --secure-port={port} --leader-elect=false --use-service-account-credentials=true
            --service-account-private-key-file={pki}/sa.key --root-ca-file={pki}/ca.crt --v=1 {requests}
            {attaching} {detaching} {binding}",
            port = ports.controller_manager,
            requests = cluster.intervals.of_controller_manager(),
            attaching = cluster.attaching.of_controller_manager(),
            // Without a kubelet nothing reports that nodes are healthy: what is slow would be detached
            // by force.
            detaching = if cluster.sysctls.is_none() { "--disable-force-detach-on-timeout" } else { "" },
            // Clusters without a kubelet may have many claims. By itself the binder takes each of them,
            // and each volume, every 15 s, between those that have changed.
            binding = if cluster.sysctls.is_none() { "--pvclaimbinder-sync-period=10m" } else { "" },
        ),
        "kube-scheduler" => format!(
            "--kubeconfig={folder}/scheduler.kubeconfig --authentication-kubeconfig={folder}/scheduler.kubeconfig
            --authorization-kubeconfig={folder}/scheduler.kubeconfig --bind-address=127.0.0.1
            --secure-port={port} --leader-elect=false --v=1",
            port = ports.scheduler,
        ),
        "containerd" => format!("--config={folder}/containerd.toml --log-level=info"),
        _ => format!(
            "--config={folder}/kubelet.yaml --kubeconfig={folder}/kubelet.kubeconfig --root-dir={folder}/kubelet
            --hostname-override={NODE} --v=3"
        ),
    };
    text.split_whitespace().map(str::to_owned).collect()
}
