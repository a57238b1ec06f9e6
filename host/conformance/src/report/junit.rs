//! A run as JUnit XML, which CI systems show.

use volhost_model::visible::is_unseen;

use super::outcome::{CaseOutcome, Report};

pub(super) fn write(report: &Report) -> String {
    let (_, failed, not_applicable) = report.counts();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" skipped=\"{not_applicable}\">\n",
        escaped(&report.plugin),
        report.cases.len()
    );
    for case in &report.cases {
        let (group, name) = case.name.split_once('/').unwrap_or(("", &case.name));
        let millis = case.milliseconds;
        let head = format!(
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{}.{:03}\"",
            escaped(group),
            escaped(name),
            millis / 1000,
            millis % 1000
        );
        out.push_str(&head);
        match &case.outcome {
            CaseOutcome::Passed => out.push_str("/>\n"),
            CaseOutcome::NotApplicable { why } => {
                out.push_str(&format!("><skipped message=\"{}\"/></testcase>\n", escaped(why)));
            }
            CaseOutcome::Failed { did, expected, happened } => out.push_str(&format!(
                "><failure message=\"{}\">contract {}: {}\ndone: {}\nexpected: {}\nhappened: {}</failure></testcase>\n",
                escaped(happened),
                case.sentence,
                escaped(&case.says),
                escaped(did),
                escaped(expected),
                escaped(happened)
            )),
        }
    }
    out.push_str("</testsuite>\n");
    out
}

/// Escapes the text for XML; characters that XML cannot contain are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c if is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::outcome::CaseReport;
    use super::*;

    #[test]
    fn what_a_plugin_says_cannot_break_the_xml() {
        let case = CaseReport {
            name: "publish/is-mounted".into(),
            sentence: "M1".into(),
            says: "it is mounted".into(),
            outcome: CaseOutcome::Failed {
                did: "publish".into(),
                expected: "ok".into(),
                happened: "</failure>\u{1b}[31m \"&\" ]]>".into(),
            },
            milliseconds: 1042,
        };
        let report = Report { plugin: "a.b/c".into(), version: "1".into(), digest: "00".into(), cases: vec![case] };
        let xml = report.to_junit();
        assert!(xml.contains("tests=\"1\" failures=\"1\" skipped=\"0\""), "{xml}");
        assert!(xml.contains("<testcase classname=\"publish\" name=\"is-mounted\" time=\"1.042\">"), "{xml}");
        assert!(xml.contains("&lt;/failure&gt;\u{FFFD}[31m &quot;&amp;&quot; ]]&gt;"), "{xml}");
    }
}
