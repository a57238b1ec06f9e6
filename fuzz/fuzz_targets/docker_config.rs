//! docker's `config.json`, from which the login for a registry is taken.
#![no_main]

use std::cell::OnceCell;
use std::fs;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

use credentials::Credentials;

#[allow(dead_code, reason = "what requests use")]
#[path = "../../host/registry/src/credentials.rs"]
mod credentials;

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

fuzz_target!(|text: &[u8]| {
    // A credential helper is a program, which would be started.
    if text.windows(4).any(|four| four == b"cred") || text.windows(2).any(|two| two == b"\\u") {
        return;
    }
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| tempfile::tempdir_in("/dev/shm").expect("a folder in memory")).path();
        fs::write(folder.join("config.json"), text).expect("the configuration is written");
        let found = Credentials::find("r.example", |name| (name == "DOCKER_CONFIG").then(|| folder.as_os_str().into()));
        let message = found.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(!message.contains("secret"), "{message}");
    });
});
