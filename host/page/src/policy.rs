//! The Content-Security-Policy of the page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::PAGE;

/// The policy: the page's own script and style, its data, and nothing else.
pub fn policy() -> String {
    let script = digest(within("<script>", "</script>"));
    let style = digest(within("<style>", "</style>"));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// The text of the page between two tags; empty if there is none, which then allows nothing.
fn within(begin: &str, end: &str) -> &'static str {
    let rest = PAGE.split_once(begin).map_or("", |(_, rest)| rest);
    rest.split_once(end).map_or("", |(text, _)| text)
}

fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_script_and_one_style_and_asks_for_nothing_of_others() {
        assert_eq!((PAGE.matches("<script").count(), PAGE.matches("<style").count()), (1, 1));
        assert!(within("<script>", "</script>").len() > 1000 && within("<style>", "</style>").len() > 500);
        for word in ["http:", "https:", "//www", "src=", "href=", "@import", "url(", " style=", " onclick", "innerHTML"]
        {
            assert!(!PAGE.contains(word), "{word}");
        }
        let policy = policy();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
