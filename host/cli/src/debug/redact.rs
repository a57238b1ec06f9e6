//! Secrets in text, replaced.
//!
//! volhost writes no secret into logs, events and views (rule R10). This is for what others put
//! where volhost cannot know it: a password in a URL, an argument or a configuration.

use std::borrow::Cow;

/// The replacement.
const REDACTED: &str = "REDACTED";
/// A value after a name that ends with one of these is a secret.
const NAMES: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "apikey", "api-key", "api_key", "authorization"];
/// What ends a value without quotation marks.
const ENDS: [char; 9] = [' ', '\t', ',', ';', '&', '"', '\'', ')', '}'];
/// Quotation marks, and what escapes them.
const MARKS: [char; 3] = ['"', '\'', '\\'];
/// Words before the secret in an `Authorization` header.
const SCHEMES: [&str; 2] = ["Bearer ", "Basic "];

/// The text without secrets: values of names like `password`, user and password of URLs, and
/// private keys. The text around them stays.
pub(super) fn redacted(text: &str) -> String {
    let mut lines = Vec::new();
    let mut in_key = false;
    for line in text.lines() {
        let begins = line.contains("-----BEGIN ") && line.contains("PRIVATE KEY");
        let ends = line.contains("-----END ");
        if begins || in_key {
            // Not twice for one key.
            if !in_key {
                lines.push(REDACTED.to_owned());
            }
            in_key = !ends;
            continue;
        }
        lines.push(assignments(&urls(line)).into_owned());
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// `://USER:PASSWORD@`, and `://TOKEN@`.
fn urls(line: &str) -> Cow<'_, str> {
    if !line.contains("://") {
        return Cow::Borrowed(line);
    }
    let mut parts = line.split("://");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority = part.find(['/', ' ', '"', '\'', '?']).unwrap_or(part.len());
        let (authority, rest) = part.split_at(authority);
        text.push_str("://");
        match authority.rsplit_once('@') {
            Some((_, host)) => text.push_str(&format!("{REDACTED}@{host}")),
            None => text.push_str(authority),
        }
        text.push_str(rest);
    }
    Cow::Owned(text)
}

/// `NAME=VALUE` and `NAME: VALUE`, with or without quotation marks.
fn assignments(line: &str) -> Cow<'_, str> {
    let lower = line.to_ascii_lowercase();
    if !NAMES.iter().any(|name| lower.contains(name)) {
        return Cow::Borrowed(line);
    }
    let mut text = String::new();
    let mut from = 0;
    while let Some((start, end)) = next_value(line, &lower, from) {
        text.push_str(line.get(from..start).unwrap_or_default());
        text.push_str(REDACTED);
        from = end;
    }
    text.push_str(line.get(from..).unwrap_or_default());
    Cow::Owned(text)
}

/// The place of the next secret value at or after `from`. ASCII lower case keeps places.
fn next_value(line: &str, lower: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let rest = lower.get(at..)?;
        let (place, name) = NAMES.iter().filter_map(|name| Some((rest.find(name)?, *name))).min()?;
        let word = line.get(..at + place)?.rsplit([' ', '"', '\'', ',', '[']).next()?;
        at += place + name.len();
        let after = line.get(at..)?;
        // A closing quotation mark of the name: `"password": "x"`, within JSON `\"`.
        let after_name = after.trim_start_matches(MARKS).trim_start();
        // An option and its value as two words: `"--password", "x"`.
        let is_pair = word.starts_with('-') && after_name.starts_with(',');
        let Some(value) = after_name.strip_prefix(['=', ':']).or_else(|| after_name.get(1..).filter(|_| is_pair))
        else {
            continue;
        };
        let value = value.trim_start();
        let unmarked = value.trim_start_matches(MARKS);
        let is_quoted = unmarked.len() < value.len();
        let value = SCHEMES.iter().find_map(|scheme| unmarked.strip_prefix(scheme)).unwrap_or(unmarked);
        let end = if is_quoted { value.find(['"', '\'']) } else { value.find(ENDS) };
        // The mark that ends it may be escaped.
        let end = value.get(..end.unwrap_or(value.len()))?.trim_end_matches('\\').len();
        let start = line.len() - value.len();
        if end > 0 {
            return Some((start, start + end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_names_are_replaced_and_the_rest_stays() {
        for (text, shown) in [
            ("password=abc x", "password=REDACTED x"),
            ("PASSWORD = \"a b\", user=me", "PASSWORD = \"REDACTED\", user=me"),
            ("{\"token\":\"abc\",\"n\":1}", "{\"token\":\"REDACTED\",\"n\":1}"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer REDACTED"),
            ("-o api_key=1&client_secret=2&x=3", "-o api_key=REDACTED&client_secret=REDACTED&x=3"),
            ("db-passwd: abc", "db-passwd: REDACTED"),
            ("secret \"login\" is missing", "secret \"login\" is missing"),
            ("token-issuer = \"https://i\"", "token-issuer = \"https://i\""),
            ("nothing here", "nothing here"),
            ("é password=ü", "é password=REDACTED"),
            (r#"{"m":"password=\"abc\" x"}"#, r#"{"m":"password=\"REDACTED\" x"}"#),
            (r#"{"m":"{\"token\": \"abc\"}"}"#, r#"{"m":"{\"token\": \"REDACTED\"}"}"#),
            (r#"["--password", "abc", "--user", "me"]"#, r#"["--password", "REDACTED", "--user", "me"]"#),
            (r#"{"sources":["secret","configMap"]}"#, r#"{"sources":["secret","configMap"]}"#),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    #[test]
    fn urls_keep_their_hosts_alone() {
        assert_eq!(redacted("at https://me:pw@host/p@th x"), "at https://REDACTED@host/p@th x");
        assert_eq!(redacted("https://host:80/a ftp://tok@h"), "https://host:80/a ftp://REDACTED@h");
    }

    #[test]
    fn private_keys_are_replaced_as_a_whole() {
        let text = "a\n-----BEGIN EC PRIVATE KEY-----\nABC\nDEF\n-----END EC PRIVATE KEY-----\nb\n";
        assert_eq!(redacted(text), "a\nREDACTED\nb\n");
        assert_eq!(redacted("-----BEGIN CERTIFICATE-----\nA\n"), "-----BEGIN CERTIFICATE-----\nA\n");
    }
}
