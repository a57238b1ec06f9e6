//! A real Prometheus: it reads the figures, evaluates a rule over them, and answers queries.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use volhost_tests::wait::eventually;

use crate::observability::figures::{address, node_with_a_claim};
use volhost_tests::http::{receive, request};

/// A running Prometheus; it ends with its value.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts one that scrapes `target` and sends alerts once a volume has been mounted.
    fn start(folder: &Path, target: SocketAddr, alerts: SocketAddr) -> Self {
        let rule = "groups:\n- name: volhost\n  rules:\n  - alert: VolumeMounted\n    expr: volume_manager_operations_total{operation_name=\"volume_mount\", status=\"success\"} > 0\n";
        std::fs::write(folder.join("rules.yml"), rule).unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
             rule_files: [rules.yml]\n\
             scrape_configs: [{{ job_name: volhost, static_configs: [{{ targets: ['{target}'] }}] }}]\n\
             alerting: {{ alertmanagers: [{{ static_configs: [{{ targets: ['{alerts}'] }}] }}] }}\n"
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .args(["--web.listen-address=127.0.0.1:0", "--log.format=json"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("prometheus cannot be started: {error}; `deploy/setup.sh --tests` installs it")
            });
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let address = lines.by_ref().find_map(|line| {
            let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            said.push(line);
            (value["msg"] == "Listening on").then(|| value["address"].as_str().unwrap().parse().unwrap())
        });
        // Its further output must be read.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.unwrap_or_else(|| panic!("prometheus did not listen:\n{}", said.join("\n")));
        Self { child, address }
    }

    /// The instant value of a query's only series, with its labels; none before a scrape has had
    /// it.
    fn query(&self, query: &str) -> Option<(serde_json::Value, f64)> {
        let answer = request(self.address, "GET", &format!("/api/v1/query?query={}", escaped(query)));
        let answer: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let series = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(series.len() < 2, "{query}: {answer}");
        let one = series.first()?;
        Some((one["metric"].clone(), one["value"][1].as_str().unwrap().parse().unwrap()))
    }

    /// Waits until a query's value is like this, and returns its labels. A scrape of a busy machine
    /// may fail.
    fn wait_for(&self, query: &str, is: impl Fn(f64) -> bool) -> serde_json::Value {
        let mut last = None;
        let is_so = eventually(|| {
            last = self.query(query);
            last.as_ref().is_some_and(|(_, value)| is(*value))
        });
        assert!(is_so, "{query}: {last:?}");
        last.unwrap().0
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn escaped(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_real_prometheus_reads_the_figures_and_alerts_by_them() {
    let node = node_with_a_claim(&["--metrics-listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().unwrap();
    let alerts = TcpListener::bind("127.0.0.1:0").unwrap();
    let prometheus = Prometheus::start(folder.path(), address(&node), alerts.local_addr().unwrap());

    let alert = receive(&alerts);
    assert!(alert.contains("VolumeMounted") && alert.contains("volume_mount"), "{alert}");

    let mounts = "volume_manager_operations_total{volume_plugin=\"kubernetes.io/local-volume\",status=\"success\"}";
    let labels = prometheus.wait_for(mounts, |count| count == 1.0);
    assert_eq!((labels["operation_name"].as_str(), labels["status"].as_str()), (Some("volume_mount"), Some("success")));
    let labels = prometheus.wait_for("kubelet_volume_stats_capacity_bytes", |bytes| bytes > 0.0);
    assert_eq!(labels["persistentvolumeclaim"], "data-claim");
    prometheus.wait_for("up{job=\"volhost\"}", |up| up == 1.0);
}
