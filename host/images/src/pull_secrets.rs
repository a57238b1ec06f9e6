//! Which login of a pod's pull secrets is for which registry.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use volhost_model::images::PullSecret;
use volhost_model::oci::Reference;

use crate::source::registry::Login;

/// The most logins that are tried for one image.
const MOST: usize = 8;
/// Docker's own registry in logins.
const DOCKER: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

#[derive(Deserialize, Default)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl Entry {
    fn login(self) -> Option<Login> {
        if !self.username.is_empty() {
            return Some(Login { user: self.username, password: self.password });
        }
        let plain = String::from_utf8(BASE64.decode(self.auth.trim()).ok()?).ok()?;
        let (user, password) = plain.split_once(':')?;
        Some(Login { user: user.to_owned(), password: password.trim_end_matches('\0').to_owned() })
    }
}

/// The logins for an image, those with the longest matching name first. What cannot be read is left
/// out: another secret may have the login, and the image may need none.
pub(crate) fn logins(secrets: &[PullSecret], image: &Reference) -> Vec<Login> {
    let mut found: Vec<(usize, Login)> = Vec::new();
    for secret in secrets {
        let entries = match secret {
            PullSecret::Config(bytes) => serde_json::from_slice::<Config>(bytes).unwrap_or_default().auths,
            PullSecret::Legacy(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
        };
        for (name, entry) in entries {
            if let Some(length) = matches(&name, image)
                && let Some(login) = entry.login()
            {
                found.push((length, login));
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.truncate(MOST);
    found.into_iter().map(|(_, login)| login).collect()
}

/// How much of the image's name an entry's key covers: a host, in which `*` stands for a part of one
/// label, and the beginning of a path. None if it is for another.
fn matches(key: &str, image: &Reference) -> Option<usize> {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let is_docker = image.host() == "docker.io" && DOCKER.contains(&host);
    if !is_docker && !host_matches(host, image.host()) {
        return None;
    }
    // How registries of old were named.
    let path = path.trim_matches('/');
    let path = if matches!(path, "v1" | "v2") { "" } else { path };
    let rest = image.name().strip_prefix(path)?;
    (path.is_empty() || rest.is_empty() || rest.starts_with('/')).then_some(key.len())
}

fn host_matches(pattern: &str, host: &str) -> bool {
    let (pattern, pattern_port) = pattern.split_once(':').unwrap_or((pattern, ""));
    let (host, port) = host.split_once(':').unwrap_or((host, ""));
    let (patterns, labels): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    let label = |(pattern, label): (&&str, &&str)| match pattern.split_once('*') {
        None => pattern == label,
        Some((before, after)) => {
            label.len() >= before.len() + after.len() && label.starts_with(before) && label.ends_with(after)
        }
    };
    pattern_port == port && patterns.len() == labels.len() && patterns.iter().zip(&labels).all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(config: &str, image: &str) -> Vec<String> {
        let secrets = [PullSecret::Config(config.as_bytes().into())];
        logins(&secrets, &Reference::of_image(image).unwrap()).into_iter().map(|login| login.user).collect()
    }

    #[test]
    fn a_login_is_for_its_registry_and_path_alone() {
        let config = r#"{"auths":{
            "r.example":{"username":"host","password":"p"},
            "https://r.example/team/app":{"username":"path","password":"p"},
            "r.example/team/apple":{"username":"longer","password":"p"},
            "*.wild.example":{"auth":"d2lsZDpw"},
            "r.example:5000":{"username":"port","password":"p"},
            "https://index.docker.io/v1/":{"username":"docker","password":"p"}}}"#;
        assert_eq!(users(config, "r.example/team/app:1"), ["path", "host"]);
        assert_eq!(users(config, "r.example/other"), ["host"]);
        assert_eq!(users(config, "r.example:5000/a"), ["port"]);
        assert_eq!(users(config, "a.wild.example/b"), ["wild"]);
        assert_eq!(users(config, "nginx"), ["docker"]);
        for other in ["evil-r.example/a", "r.example.evil/a", "a.b.wild.example/c", "wild.example/c"] {
            assert_eq!(users(config, other), Vec::<String>::new(), "{other}");
        }
    }

    #[test]
    fn what_is_no_login_is_left_out() {
        for config in ["", "{", r#"{"auths":{"r.example":{"auth":"%%"}}}"#, r#"{"auths":{"r.example":{}}}"#] {
            assert_eq!(users(config, "r.example/a"), Vec::<String>::new(), "{config}");
        }
        let legacy = [PullSecret::Legacy(br#"{"r.example":{"username":"old","password":"p"}}"#.as_slice().into())];
        assert_eq!(logins(&legacy, &"r.example/a:1".parse().unwrap()).len(), 1);
        assert_eq!(format!("{legacy:?}"), "[PullSecret]");
    }
}
