//! The Prometheus text format, for clients that do not ask for OpenMetrics.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Its HTTP content type.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Rewrites OpenMetrics text. In this format a counter's description bears the name of its samples.
pub(super) fn plain_text(open_metrics: &str) -> String {
    let counter = |line: &str| Some(line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?.to_owned());
    let counters: BTreeSet<String> = open_metrics.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        text.push_str(&rewritten(line, &counters));
        text.push('\n');
    }
    text
}

fn rewritten<'a>(line: &'a str, counters: &BTreeSet<String>) -> Cow<'a, str> {
    for keyword in ["# HELP ", "# TYPE "] {
        let described = line.strip_prefix(keyword).and_then(|rest| rest.split_once(' '));
        if let Some((name, rest)) = described.filter(|(name, _)| counters.contains(*name)) {
            return Cow::Owned(format!("{keyword}{name}_total {rest}"));
        }
    }
    Cow::Borrowed(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_description_bears_the_name_of_its_samples() {
        let open = "# HELP ended Operations.\n# TYPE ended counter\nended_total{a=\"# TYPE b counter\"} 1\n\
                    # HELP open Files.\n# TYPE open gauge\nopen 2\n# EOF\n";
        let plain = "# HELP ended_total Operations.\n# TYPE ended_total counter\n\
                     ended_total{a=\"# TYPE b counter\"} 1\n# HELP open Files.\n# TYPE open gauge\nopen 2\n";
        assert_eq!(plain_text(open), plain);
    }
}
