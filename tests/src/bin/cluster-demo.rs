//! `make cluster-demo`: a stock Kubernetes on this machine, `deploy/csi` in it, and a pod whose
//! volume outlives the driver's death. Everything it starts ends with it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    reason = "it shows what it does"
)]

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use volhost_tests::artifacts::workspace;
use volhost_tests::cluster::{Cluster, IMAGE, NODE};
use volhost_tests::interruptions::interruptions;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

const NAMESPACE: &str = "volhost-csi";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image] = &arguments[..] else {
        eprintln!("usage: cluster-demo IMAGE.tar; `make cluster-demo` makes the image and runs this");
        return ExitCode::from(2);
    };
    // What is started is ended by unwinding: a signal may not end this process at once.
    let interrupted = interruptions();
    std::panic::set_hook(Box::new(|panic| eprintln!("\ncluster-demo: {panic}")));
    match std::panic::catch_unwind(|| show(Path::new(image), &interrupted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn show(image: &Path, interrupted: &Receiver<()>) {
    say("Starting etcd, the API server, controller manager, scheduler, containerd and a kubelet ...");
    let begun = Instant::now();
    let demo = Demo { cluster: Cluster::start() };
    println!("Kubernetes runs, after {:.0} s.", begun.elapsed().as_secs_f64());

    say("The driver: volhost's plugin `loop`, its node service and its controller. No sidecar.");
    demo.cluster.load_image(image);
    demo.cluster.name_image(IMAGE, "docker.io/library/busybox:1");
    demo.deploy();
    demo.kubectl(&["label", "node", NODE, "volhost.io/loop=true"]);
    demo.kubectl(&["-n", NAMESPACE, "rollout", "status", "daemonset/volhost-csi-node", "--timeout=180s"]);
    demo.kubectl(&["-n", NAMESPACE, "rollout", "status", "deployment/volhost-csi-controller", "--timeout=180s"]);
    demo.kubectl(&["-n", NAMESPACE, "get", "pods"]);

    say("A pod with a claim. The volume is made, attached, formatted and mounted by volhost.");
    let pod = workspace().join("examples/cluster/pod.yaml").display().to_string();
    demo.kubectl_as(&["apply", "-f", &pod], &["apply", "-f", "examples/cluster/pod.yaml"]);
    demo.kubectl(&["wait", "--for=condition=Ready", "--timeout=180s", "pod/writer"]);
    demo.kubectl(&["get", "pod,pvc,pv"]);
    demo.kubectl(&["exec", "writer", "--", "tail", "-n", "2", "/data/notes"]);

    say("The driver dies: kill -9. The volume stays mounted, and the pod goes on.");
    let killed = demo.kill_driver();
    println!("$ kill -9 {killed}");
    demo.kubectl(&["exec", "writer", "--", "sh", "-c", "date >>/data/notes; tail -n 2 /data/notes"]);
    say("The kubelet starts it again.");
    assert!(eventually(|| demo.driver().is_some_and(|process| process != killed)), "it did not come back");
    demo.kubectl(&["-n", NAMESPACE, "rollout", "status", "daemonset/volhost-csi-node", "--timeout=180s"]);
    demo.kubectl(&["-n", NAMESPACE, "get", "pods"]);

    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        say("It is yours. In another terminal, as root:");
        println!(
            "  export KUBECONFIG={} PATH={}:$PATH",
            demo.cluster.kubeconfig().display(),
            demo.cluster.programs().display()
        );
        println!(
            "  kubectl get pods -A; kubectl exec -it writer -- sh; kubectl -n {NAMESPACE} logs daemonset/volhost-csi-node"
        );
        println!("Ctrl-C removes everything.");
        let _ = interrupted.recv();
    }

    let devices = demo.devices();
    assert!(!devices.is_empty(), "the volume has a loop device");
    say("Everything goes: the pod, its claim and the volume.");
    demo.kubectl_as(&["delete", "-f", &pod, "--timeout=180s"], &["delete", "-f", "examples/cluster/pod.yaml"]);
    assert!(
        eventually(|| demo.cluster.kubectl(&["get", "pv,volumeattachments", "-o", "name"]).is_empty()),
        "{}",
        demo.known()
    );
    println!("Left in the cluster: no PersistentVolume, no VolumeAttachment.");
    let is_attached = |device: &String| Path::new("/sys/block").join(device).join("loop").exists();
    assert!(eventually(|| !devices.iter().any(is_attached)), "a loop device is left: {devices:?}");
    assert_eq!(demo.images(), Vec::<PathBuf>::new(), "an image is left");
    let mounts = || demo.cluster.node().all_mounts().into_iter().filter(|mount| is_of_csi(&mount.point)).count();
    assert!(eventually(|| mounts() == 0), "a mount is left");
    println!("Left on the node: no mount, no loop device, no image.");
    let _ = std::io::stdout().flush();
}

/// A running demonstration.
struct Demo {
    cluster: Cluster,
}

impl Demo {
    /// Applies `deploy/csi`.
    fn deploy(&self) {
        println!("$ kubectl apply -k deploy/csi");
        print!("{}", self.cluster.apply_objects(&self.cluster.objects_of("csi")));
    }

    /// Runs kubectl, and shows the command and what it says.
    fn kubectl(&self, arguments: &[&str]) {
        self.kubectl_as(arguments, arguments);
    }

    /// The same, where the command is shown in another way.
    fn kubectl_as(&self, arguments: &[&str], shown: &[&str]) {
        println!("$ kubectl {}", shown.join(" "));
        print!("{}", self.cluster.try_kubectl(arguments).unwrap_or_else(|error| panic!("{error}\n{}", self.known())));
    }

    /// The process that serves the driver on the node.
    fn driver(&self) -> Option<u32> {
        let served = format!("--kubelet-dir={}", self.cluster.kubelet().display());
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_driver = |process: &u32| {
            let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            command.split(|byte| *byte == 0).any(|word| word == served.as_bytes())
        };
        processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).find(is_driver)
    }

    fn kill_driver(&self) -> u32 {
        let process = self.driver().expect("the driver runs on the node");
        let pid = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
        process
    }

    /// The files of the volumes.
    fn images(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.cluster.node().folder().join("loop")).into_iter().flatten().flatten();
        files.map(|file| file.path()).filter(|path| path.is_file()).collect()
    }

    /// The loop devices of the volumes, as `loop0`.
    fn devices(&self) -> Vec<String> {
        let devices = LoopDevices::below(self.cluster.node().folder());
        let over = self.images().into_iter().flat_map(|image| devices.over(&image));
        over.filter_map(|device| Some(device.strip_prefix("/dev/")?.to_owned())).collect()
    }

    fn known(&self) -> String {
        let shown = |arguments: &[&str]| self.cluster.try_kubectl(arguments).unwrap_or_else(|error| error);
        format!(
            "{}\n{}",
            shown(&["get", "pods,pvc,pv,volumeattachments", "-A"]),
            shown(&["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"])
        )
    }
}

/// Whether the kubelet has mounted a volume of a CSI driver here.
fn is_of_csi(point: &Path) -> bool {
    point.components().any(|part| part.as_os_str() == "kubernetes.io~csi" || part.as_os_str() == "kubernetes.io")
}

fn say(text: &str) {
    println!("\n{text}");
    let _ = std::io::stdout().flush();
}
