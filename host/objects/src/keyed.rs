//! Checks of config maps and secrets as the API server makes them: keys that are no file names,
//! duplicate keys, size.

use k8s_openapi::api::core::v1 as k8s;

use super::error::FieldError;

/// The limit of one object's data, in bytes, keys not counted: Kubernetes' limit.
const MAX_BYTES: usize = 1 << 20;
/// The longest key, in bytes: Kubernetes' limit.
const MAX_KEY_BYTES: usize = 253;
/// How much of a bad key a message shows, in characters.
const SHOWN: usize = 64;

/// Checks `data` and `binaryData`.
pub(super) fn check_config_map(map: &k8s::ConfigMap) -> Result<(), FieldError> {
    let texts = map.data.iter().flatten().map(|(key, text)| ("data", key, text.len()));
    let binary = map.binary_data.iter().flatten().map(|(key, bytes)| ("binaryData", key, bytes.0.len()));
    if let Some(key) = map
        .binary_data
        .iter()
        .flatten()
        .map(|(key, _)| key)
        .find(|key| map.data.as_ref().is_some_and(|data| data.contains_key(*key)))
    {
        return Err(FieldError::other(format!("binaryData.{}", shown(key)), "is in data too; remove one of them"));
    }
    check(texts.chain(binary))
}

/// Checks `data` and `stringData`.
pub(super) fn check_secret(secret: &k8s::Secret) -> Result<(), FieldError> {
    let texts = secret.string_data.as_ref();
    // `stringData` takes the place of what `data` has under the same key.
    let bytes = secret
        .data
        .iter()
        .flatten()
        .filter(|(key, _)| !texts.is_some_and(|texts| texts.contains_key(*key)))
        .map(|(key, bytes)| ("data", key, bytes.0.len()));
    check(bytes.chain(texts.into_iter().flatten().map(|(key, text)| ("stringData", key, text.len()))))
}

fn check<'a>(entries: impl Iterator<Item = (&'static str, &'a String, usize)>) -> Result<(), FieldError> {
    let mut total = 0_usize;
    for (field, key, length) in entries {
        if !is_key(key) {
            return Err(FieldError::other(
                format!("{field}.{}", shown(key)),
                format!(
                    "is no key; letters, digits, `-`, `_` and `.` make one, {MAX_KEY_BYTES} of them at most, not beginning with `..`"
                ),
            ));
        }
        total = total.saturating_add(length);
        if total > MAX_BYTES {
            return Err(FieldError::other(
                format!("{field}.{key}"),
                format!("with it the object has more than {MAX_BYTES} bytes; split it into several"),
            ));
        }
    }
    Ok(())
}

fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !key.is_empty() && key.len() <= MAX_KEY_BYTES && key.bytes().all(allowed) && key != "." && !key.starts_with("..")
}

fn shown(key: &str) -> String {
    key.chars().take(SHOWN).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn map(data: &[(&str, &str)], binary: &[(&str, usize)]) -> k8s::ConfigMap {
        k8s::ConfigMap {
            data: Some(data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            binary_data: Some(binary.iter().map(|(k, n)| ((*k).to_owned(), ByteString(vec![0; *n]))).collect()),
            ..k8s::ConfigMap::default()
        }
    }

    #[test]
    fn keys_and_sizes_that_kubernetes_takes_are_taken() {
        check_config_map(&map(&[("a.b-c_D9", ""), (".hidden", "x"), (&"k".repeat(253), "")], &[("b", MAX_BYTES - 1)]))
            .unwrap();
    }

    #[test]
    fn what_kubernetes_refuses_is_refused_with_the_field() {
        for (bad, path) in [
            (map(&[("../a", "")], &[]), "data.../a"),
            (map(&[("..", "")], &[]), "data..."),
            (map(&[("..x", "")], &[]), "data...x"),
            (map(&[(".", "")], &[]), "data.."),
            (map(&[("", "")], &[]), "data."),
            (map(&[("a/b", "")], &[]), "data.a/b"),
            (map(&[("ü", "")], &[]), "data.\\u{fc}"),
            (map(&[(&"k".repeat(254), "")], &[]), "data.kkkk"),
            (map(&[("a", "")], &[("a", 1)]), "binaryData.a"),
            (map(&[], &[("a", MAX_BYTES), ("b", 1)]), "binaryData.b"),
        ] {
            let error = check_config_map(&bad).unwrap_err();
            assert!(error.path.starts_with(path), "{path}: {error}");
        }
    }

    #[test]
    fn a_secrets_text_takes_the_place_of_its_data() {
        let half = ByteString(vec![0; MAX_BYTES / 2 + 1]);
        let secret = k8s::Secret {
            data: Some([("a".to_owned(), half.clone()), ("b".to_owned(), half)].into()),
            string_data: Some([("a".to_owned(), "short".to_owned())].into()),
            ..k8s::Secret::default()
        };
        check_secret(&secret).unwrap();
        assert!(check_secret(&k8s::Secret { string_data: None, ..secret }).is_err());
    }
}
