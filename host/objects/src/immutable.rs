//! Config maps and secrets with `immutable: true`: what the API server would refuse to change of
//! them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::object::{Object, ObjectContent};

/// The content of an object, by key.
type KeyedBytes<'a> = BTreeMap<&'a str, &'a [u8]>;

/// Why `new` cannot take the place of `old`, if it cannot: the field, and what to do.
pub fn refused(old: &Object, new: &Object) -> Option<String> {
    let (before, after, still_immutable) = match (&old.content, &new.content) {
        (ObjectContent::ConfigMap(old), ObjectContent::ConfigMap(new)) if old.immutable == Some(true) => {
            (of_config_map(old), of_config_map(new), new.immutable == Some(true))
        }
        (ObjectContent::Secret(old), ObjectContent::Secret(new)) if old.immutable == Some(true) => {
            (of_secret(old), of_secret(new), new.immutable == Some(true))
        }
        _ => return None,
    };
    let what = match changed(&before, &after) {
        Some(key) => format!("data.{key}: differs from what it was"),
        None if !still_immutable => "immutable: was true".to_owned(),
        None => return None,
    };
    Some(format!(
        "{}: {what}, and {} is immutable; its old content stays. Delete it first, or give the new one another name",
        new.origin, new.key
    ))
}

/// The first key that one of them lacks or has otherwise.
fn changed<'a>(before: &KeyedBytes<'a>, after: &KeyedBytes<'a>) -> Option<&'a str> {
    let mut keys = before.keys().chain(after.keys()).copied();
    keys.find(|key| before.get(key) != after.get(key))
}

fn of_config_map(map: &ConfigMap) -> KeyedBytes<'_> {
    let texts = map.data.iter().flatten().map(|(key, text)| (key.as_str(), text.as_bytes()));
    texts.chain(map.binary_data.iter().flatten().map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()))).collect()
}

/// `stringData` counts where both have a key.
fn of_secret(secret: &Secret) -> KeyedBytes<'_> {
    let data = secret.data.iter().flatten().map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()));
    data.chain(secret.string_data.iter().flatten().map(|(key, text)| (key.as_str(), text.as_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::objects;
    use super::*;

    fn object(text: &str) -> Arc<Object> {
        let head = "apiVersion: v1\nmetadata: { name: app }\n";
        objects(&format!("{head}{text}")).into_iter().next().unwrap()
    }

    #[test]
    fn data_and_mark_of_an_immutable_object_stay() {
        let map = |text: &str| object(&format!("kind: ConfigMap\n{text}"));
        let old = map("immutable: true\ndata: { a: x, b: y }\nbinaryData: { c: AAA= }\n");
        for (new, field) in [
            ("immutable: true\ndata: { a: x, b: z }\nbinaryData: { c: AAA= }\n", Some("data.b")),
            ("immutable: true\ndata: { a: x }\nbinaryData: { c: AAA= }\n", Some("data.b")),
            ("immutable: true\ndata: { a: x, b: y, d: z }\nbinaryData: { c: AAA= }\n", Some("data.d")),
            ("immutable: true\ndata: { a: x, b: y }\nbinaryData: { c: AAE= }\n", Some("data.c")),
            ("data: { a: x, b: y }\nbinaryData: { c: AAA= }\n", Some("immutable: was true")),
            ("immutable: true\ndata: { b: y, a: x }\nbinaryData: { c: AAA= }\n", None),
        ] {
            let said = refused(&old, &map(new));
            assert_eq!(said.is_some(), field.is_some(), "{new}: {said:?}");
            assert!(said.unwrap_or_default().contains(field.unwrap_or_default()), "{new}");
        }
        let open = map("data: { a: x }\n");
        assert_eq!(refused(&open, &map("immutable: true\ndata: { a: y }\n")), None, "it was not immutable before");
    }

    #[test]
    fn a_secret_is_compared_by_what_it_holds_and_what_it_holds_is_not_said() {
        let secret = |text: &str| object(&format!("kind: Secret\n{text}"));
        let old = secret("immutable: true\nstringData: { pin: '1234' }\n");
        assert_eq!(refused(&old, &secret("immutable: true\ndata: { pin: MTIzNA== }\n")), None);
        let said = refused(&old, &secret("immutable: true\nstringData: { pin: '9876' }\n")).unwrap();
        assert!(said.contains("data.pin") && !said.contains("1234") && !said.contains("9876"), "{said}");
    }
}
