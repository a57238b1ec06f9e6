//! How long operations took, from the histogram in the metrics.

use std::collections::BTreeMap;

/// The lines of the histogram.
const BUCKET: &str = "volume_manager_operation_duration_seconds_bucket{";
const SUM: &str = "volume_manager_operation_duration_seconds_sum{";

/// Operations of one kind and plugin since the daemon started. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Latency {
    /// The plugin.
    pub(super) plugin: String,
    /// The kind: `volume_mount`.
    pub(super) operation: String,
    /// How many have ended.
    pub(super) ended: u64,
    /// Of these, how many failed.
    pub(super) failed: u64,
    /// How long they took on average.
    pub(super) mean: f64,
    /// Half of them took less.
    pub(super) p50: f64,
    /// 99 of 100 took less.
    pub(super) p99: f64,
}

#[derive(Debug, Default)]
struct Histogram {
    /// By the bits of the upper bound: the bound, and how many took at most as long.
    counts: BTreeMap<u64, (f64, f64)>,
    sum: f64,
    failed: f64,
}

/// Reads the text of the metrics; other metrics are skipped.
pub(super) fn read(metrics: &str) -> Vec<Latency> {
    let mut all: BTreeMap<(String, String), Histogram> = BTreeMap::new();
    for line in metrics.lines() {
        let (rest, is_bucket) = match (line.strip_prefix(BUCKET), line.strip_prefix(SUM)) {
            (Some(rest), _) => (rest, true),
            (_, Some(rest)) => (rest, false),
            _ => continue,
        };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        let (Some(plugin), Some(operation)) = (label(labels, "volume_plugin"), label(labels, "operation_name")) else {
            continue;
        };
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        let of = all.entry((plugin.to_owned(), operation.to_owned())).or_default();
        if !is_bucket {
            of.sum += value;
            continue;
        }
        let bound = match label(labels, "le") {
            Some("+Inf") => f64::INFINITY,
            Some(text) => text.parse().unwrap_or(f64::INFINITY),
            None => continue,
        };
        if bound.is_infinite() && label(labels, "status") != Some("success") {
            of.failed += value;
        }
        // Positive numbers are in the order of their bits.
        of.counts.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += value;
    }
    all.into_iter().filter_map(|((plugin, operation), histogram)| histogram.latency(plugin, operation)).collect()
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split("\",").find_map(|label| {
        let (key, value) = label.split_once("=\"")?;
        (key == name).then(|| value.trim_end_matches('"'))
    })
}

impl Histogram {
    fn latency(&self, plugin: String, operation: String) -> Option<Latency> {
        let total = self.counts.values().last()?.1;
        if total <= 0.0 {
            return None;
        }
        Some(Latency {
            plugin,
            operation,
            ended: whole(total),
            failed: whole(self.failed),
            mean: self.sum / total,
            p50: self.quantile(0.5, total),
            p99: self.quantile(0.99, total),
        })
    }

    /// As Prometheus computes it: observations are spread evenly over their bucket.
    fn quantile(&self, quantile: f64, total: f64) -> f64 {
        let rank = quantile * total;
        let (mut below, mut lower) = (0.0, 0.0);
        for (bound, count) in self.counts.values() {
            if *count >= rank {
                if bound.is_infinite() {
                    return lower;
                }
                return lower + (bound - lower) * (rank - below) / (count - below);
            }
            (below, lower) = (*count, *bound);
        }
        lower
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole, and `as` saturates")]
const fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_failures_are_read_from_the_buckets_of_every_status() {
        let of = |status: &str, le: &str, count: u64| {
            format!(
                "{BUCKET}le=\"{le}\",volume_plugin=\"a.b/c\",operation_name=\"volume_mount\",status=\"{status}\"}} {count}\n"
            )
        };
        let text = [
            "# TYPE volume_manager_operation_duration_seconds histogram\n".to_owned(),
            format!("{SUM}volume_plugin=\"a.b/c\",operation_name=\"volume_mount\",status=\"success\"}} 0.2\n"),
            of("success", "0.001", 50),
            of("success", "0.002", 90),
            of("success", "+Inf", 90),
            of("final", "0.001", 0),
            of("final", "0.002", 10),
            of("final", "+Inf", 10),
            "something_else{volume_plugin=\"x\"} 7\n".to_owned(),
        ]
        .concat();
        let read = read(&text);
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].plugin.as_str(), read[0].operation.as_str()), ("a.b/c", "volume_mount"));
        assert_eq!((read[0].ended, read[0].failed), (100, 10));
        assert!((read[0].mean - 0.002).abs() < 1e-9);
        assert!((read[0].p50 - 0.001).abs() < 1e-9, "{:?}", read[0]);
        assert!((read[0].p99 - 0.001_98).abs() < 1e-9, "{:?}", read[0]);
    }
}
