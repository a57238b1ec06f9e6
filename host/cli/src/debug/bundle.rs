//! What is collected. A part that cannot be had is a note, and keeps no other.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use volhost_config::RunConfig;

use super::log;
use super::record;
use super::redact::redacted;
use super::tar::Archive;
use crate::client::{ANSWER_TIME, Client, within};
use crate::doctor;
use crate::error::CliError;
use crate::format::{now_us, rfc3339};
use crate::get::object;
use crate::list::{self, Query};
use crate::structured;
use volhost_api::pb;
use volhost_api::pb::Kind;

/// The lists, by the names of their files.
const LISTS: [(&str, Kind); 7] = [
    ("pods.json", Kind::Pods),
    ("volumes.json", Kind::Volumes),
    ("plugins.json", Kind::Plugins),
    ("drivers.json", Kind::Drivers),
    ("operations.json", Kind::Operations),
    ("claims.json", Kind::Claims),
    ("persistentvolumes.json", Kind::PersistentVolumes),
];

/// The largest configuration that is taken, in bytes: what is larger is another file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A bundle: files with text.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    files: Vec<(String, String)>,
    problems: Vec<String>,
}

impl Bundle {
    /// Collects everything that can be had.
    pub(super) async fn collect(config: &RunConfig) -> Self {
        let mut bundle = Self::default();
        let pid = match bundle.of_daemon(&config.socket).await {
            Ok(status) => Some(status),
            Err(error) => {
                bundle.problems.push(format!("what the daemon knows: {error}"));
                None
            }
        };
        let (pid, root) = match pid {
            Some(status) => (Some(status.pid), PathBuf::from(status.root)),
            None => (None, config.root_dir.clone()),
        };
        bundle.json("doctor.json", &doctor::report(config).await);
        bundle.mounts(pid, &root);
        bundle.configuration(pid, config);
        if let Some(pid) = pid {
            match log::tail(pid) {
                Ok(text) => bundle.add("log.txt", text),
                Err(why) => bundle.problems.push(format!("the log of process {pid}: {why}")),
            }
        }
        bundle.plugin_files(&config.plugin_dir);
        bundle
    }

    /// What could not be collected.
    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The archive: every file in a folder of this name. `now` is in seconds since the Unix epoch.
    pub(super) fn archive(&self, folder: &str, now: u64) -> Vec<u8> {
        let mut archive = Archive::default();
        for (name, text) in &self.files {
            archive.add(&format!("{folder}/{name}"), text.as_bytes(), now);
        }
        let problems: String = self.problems.iter().map(|problem| redacted(problem) + "\n").collect();
        archive.add(&format!("{folder}/not-collected.txt"), problems.as_bytes(), now);
        archive.finish()
    }

    /// Adds a file, secrets replaced.
    fn add(&mut self, name: &str, text: String) {
        self.files.push((name.to_owned(), redacted(&text)));
    }

    /// Adds the daemon's recording. Its format has a checksum, so secrets are replaced in its texts.
    async fn recording(&mut self, client: &mut Client, socket: &Path) {
        let recording = record::of_daemon(client, socket).await.and_then(|bytes| record::redacted_recording(&bytes));
        match recording {
            Ok(text) => self.files.push(("recording.jsonl".to_owned(), text)),
            Err(error) => self.problems.push(format!("recording.jsonl: {error}")),
        }
    }

    fn json(&mut self, name: &str, value: &Value) {
        match structured::pretty_json(value) {
            Ok(text) => self.add(name, text + "\n"),
            Err(error) => self.problems.push(format!("{name}: {error}")),
        }
    }

    /// The daemon's lists, events and metrics. Returns its status.
    async fn of_daemon(&mut self, socket: &Path) -> Result<pb::StatusResponse, CliError> {
        let mut client = Client::connect(socket).await?;
        let status = within(ANSWER_TIME, socket, client.inspect.status(pb::StatusRequest {})).await?;
        self.json(
            "versions.json",
            &json!({
                "collected": rfc3339(now_us()),
                "volhost": env!("CARGO_PKG_VERSION"),
                "volhostd": status.version,
                "kernel": volhost_process::linux_kernel().release(),
                "pid": status.pid,
                "root": status.root,
                "startTime": rfc3339(status.started_us),
                "synced": status.synced,
                "draining": status.draining,
                "manifestProblems": status.manifest_problems.iter().map(|problem| {
                    json!({"file": problem.file, "messages": problem.messages})
                }).collect::<Vec<_>>(),
            }),
        );
        for (name, kind) in LISTS {
            match list::all(&mut client, socket, Query::new(kind, None, None)).await {
                Ok(views) => self.views(name, &views),
                Err(error) => self.problems.push(format!("{name}: {error}")),
            }
        }
        match list::all(&mut client, socket, Query::events(String::new())).await {
            Ok(views) => self.views("events.json", &views),
            Err(error) => self.problems.push(format!("events.json: {error}")),
        }
        match within(ANSWER_TIME, socket, client.inspect.metrics(pb::MetricsRequest {})).await {
            Ok(answer) => self.add("metrics.txt", answer.text),
            Err(error) => self.problems.push(format!("metrics.txt: {error}")),
        }
        self.recording(&mut client, socket).await;
        Ok(status)
    }

    fn views(&mut self, name: &str, views: &[list::View]) {
        match views.iter().map(object::object).collect::<Result<Vec<_>, _>>() {
            Ok(items) => self.json(name, &object::list(items)),
            Err(error) => self.problems.push(format!("{name}: {error}")),
        }
    }

    /// The mounts at and below the root folder, as the daemon's mount namespace has them.
    fn mounts(&mut self, pid: Option<u32>, root: &Path) {
        let table = pid.map_or_else(
            || PathBuf::from("/proc/self/mountinfo"),
            |pid| PathBuf::from(format!("/proc/{pid}/mountinfo")),
        );
        match fs::read_to_string(&table) {
            Ok(text) => {
                let root = root.display().to_string();
                let is_below = |line: &&str| {
                    let point = line.split(' ').nth(4).and_then(|point| point.strip_prefix(root.as_str()));
                    point.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let lines: String = text.lines().filter(is_below).map(|line| format!("{line}\n")).collect();
                self.add("mounts.txt", lines);
            }
            Err(error) => self.problems.push(format!("mounts.txt: {}: {error}", table.display())),
        }
    }

    /// The daemon's command line, and its configuration file: the one that is named here, or there.
    fn configuration(&mut self, pid: Option<u32>, config: &RunConfig) {
        let line = pid.and_then(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok()).unwrap_or_default();
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        if pid.is_some() {
            // As a list of words on one line, so that an option's value is beside it.
            self.add("command-line.json", json!(words).to_string() + "\n");
        }
        let Some(file) = config.file.clone().or_else(|| named_config(&words)) else {
            return;
        };
        let read = fs::metadata(&file).and_then(|found| match found.len() {
            0..=MAX_CONFIG_BYTES => fs::read_to_string(&file),
            _ => Err(std::io::Error::other("it is too large for a configuration")),
        });
        match read {
            Ok(text) => self.add("config.toml", text),
            Err(error) => self.problems.push(format!("config.toml: {}: {error}", file.display())),
        }
    }

    /// The plugin folder: names, sizes and digests of what could be loaded.
    fn plugin_files(&mut self, folder: &Path) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.problems.push(format!("plugin-files.txt: {}: {error}", folder.display()));
                return;
            }
        };
        let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "wasm"));
        files.sort();
        let mut lines = String::new();
        for file in files {
            match crate::plugin::read_plugin(&file) {
                Ok(bytes) => {
                    lines.push_str(&format!("{}  {}  {}\n", crate::plugin::digest(&bytes), bytes.len(), file.display()))
                }
                Err(error) => self.problems.push(format!("plugin-files.txt: {error}")),
            }
        }
        self.add("plugin-files.txt", lines);
    }
}

/// The file after `--config`.
fn named_config(words: &[String]) -> Option<PathBuf> {
    let at = words.iter().position(|word| word == "--config" || word.starts_with("--config="))?;
    let word = words.get(at)?;
    let named = word.strip_prefix("--config=").map(str::to_owned).or_else(|| words.get(at + 1).cloned())?;
    // A relative path is relative to a folder that is not known.
    Some(PathBuf::from(named)).filter(|file| file.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_configuration_is_found_on_its_command_line() {
        let find = |words: &[&str]| named_config(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(find(&["volhostd", "run", "--config", "/etc/a.toml"]), Some(PathBuf::from("/etc/a.toml")));
        assert_eq!(find(&["volhostd", "run", "--config=/etc/a.toml", "x"]), Some(PathBuf::from("/etc/a.toml")));
        assert_eq!(find(&["volhostd", "run", "--config", "a.toml"]), None);
        assert_eq!(find(&["volhostd", "run", "--config"]), None);
    }
}
