//! Certificates in PEM, as a ClusterTrustBundle holds them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Letters in a line of PEM (RFC 7468).
const LINE: usize = 64;

/// Whether the text holds certificates and nothing else but space and comments between them.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check(text: &str) -> Result<(), String> {
    certificates(text).map(drop)
}

/// Every certificate, written anew without headers and comments.
pub(super) fn certificates(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((between, after)) = rest.split_once(BEGIN) {
        refuse_others(between)?;
        let (body, after) = after.split_once(END).ok_or("a certificate has no END line")?;
        found.push(normalised(body)?);
        rest = after;
    }
    refuse_others(rest)?;
    if found.is_empty() {
        return Err(format!("there is no certificate in it; one begins with {BEGIN}"));
    }
    Ok(found)
}

fn refuse_others(between: &str) -> Result<(), String> {
    if between.contains("-----BEGIN") {
        return Err("only certificates may be in it; remove the other blocks".to_owned());
    }
    Ok(())
}

fn normalised(body: &str) -> Result<String, String> {
    if body.contains(':') {
        return Err("a certificate has headers; remove them".to_owned());
    }
    let base64: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(base64).map_err(|error| format!("a certificate is not base64: {error}"))?;
    if der.is_empty() {
        return Err("a certificate is empty".to_owned());
    }
    let encoded = STANDARD.encode(der);
    let mut pem = format!("{BEGIN}\n");
    let mut letters = encoded.as_str();
    while !letters.is_empty() {
        let (line, more) = letters.split_at(letters.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        letters = more;
    }
    pem.push_str(END);
    pem.push('\n');
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_written_anew_without_what_stands_between_them() {
        let one = format!("# a comment\n{BEGIN}\n{}\n{END}\n\n", "QUJD".repeat(20));
        let all = certificates(&format!("{one}{one}")).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], all[1]);
        assert!(all[0].lines().all(|line| line.len() <= LINE) && !all[0].contains('#'), "{}", all[0]);
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        for text in [
            "",
            "hello",
            &format!("{BEGIN}\nQUJD\n"),
            &format!("{BEGIN}\n!!!\n{END}"),
            &format!("{BEGIN}\n{END}"),
            &format!("{BEGIN}\nA: b\nQUJD\n{END}"),
            &format!("{BEGIN}\nQUJD\n{END}\n-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----"),
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
