//! How a registry asks for authentication: the header `WWW-Authenticate` (RFC 9110, section
//! 11.6.1), as far as registries use it.

/// What it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A name and a password with each request.
    Basic,
    /// A token, which `realm` gives for `service`.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// What the headers ask for: a token where there is a choice, for it is good for little and not for
/// long.
pub(crate) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = None;
    for header in headers {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("bearer") {
            let mut parameters = parameters(rest);
            let mut take = |name: &str| {
                parameters.iter().position(|(key, _)| key == name).map(|index| parameters.swap_remove(index).1)
            };
            if let Some(realm) = take("realm") {
                return Some(Challenge::Bearer { realm, service: take("service"), scope: take("scope") });
            }
        } else if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
    }
    basic
}

/// `name="value", name=value`, with `\` before an escaped character.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => after
                .split_once(',')
                .map_or((after.trim().to_owned(), ""), |(value, left)| (value.trim().to_owned(), left)),
        };
        found.push((name.trim().to_ascii_lowercase(), value));
        rest = left.trim_start_matches([',', ' ']);
    }
    found
}

fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return (value, text.get(index + 1..).unwrap_or("")),
            '\\' => value.extend(characters.next().map(|(_, literal)| literal)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_preferred_and_quotes_are_undone() {
        let headers = [
            "Basic realm=\"x\"",
            r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#,
        ];
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("r.example".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(parse(headers.into_iter()), Some(expected));
        assert_eq!(parse(["basic"].into_iter()), Some(Challenge::Basic));
        assert_eq!(parse(["Bearer service=x", "Negotiate"].into_iter()), None);
        let odd = parse([r#"bearer realm="a\"b" , service=c"#].into_iter());
        assert_eq!(
            odd,
            Some(Challenge::Bearer { realm: "a\"b".to_owned(), service: Some("c".to_owned()), scope: None })
        );
        assert!(parse([r#"Bearer realm="never ends"#].into_iter()).is_some());
    }
}
