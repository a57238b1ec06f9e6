//! The tables `[grants]` and `[settings]` of the configuration file: what plugins may do, and the
//! values that they get.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_model::PluginName;

#[allow(dead_code, reason = "only the grants are read here")]
#[path = "../../host/runtime/src/abi.rs"]
mod abi;
#[allow(dead_code, reason = "only the grants are read here")]
#[path = "../../host/runtime/src/digest.rs"]
mod digest;
#[allow(dead_code, reason = "only the grants are read here")]
#[path = "../../host/runtime/src/fuse_servers.rs"]
mod fuse_servers;
#[allow(dead_code, unused_imports, reason = "only the grants are read here")]
#[path = "../../host/runtime/src/grants/mod.rs"]
mod grants;
mod limits {
    /// As in the runtime, whose file needs wasmtime.
    pub(crate) const MOST_MEMORY_BYTES: usize = 256 << 20;
}

#[allow(dead_code, unused_imports, reason = "only the values are read here")]
#[path = "../../host/runtime/src/settings/mod.rs"]
mod settings;

fuzz_target!(|text: &str| {
    if let Ok(settings) = toml::from_str::<settings::PluginSettings>(text) {
        for plugin in settings.plugins() {
            let values = settings.of(plugin);
            assert_eq!(settings::check(&[], &values).len(), values.len(), "no value passes undeclared");
        }
    }
    let Ok(policy) = toml::from_str::<grants::GrantPolicy>(text) else { return };
    let name = PluginName::new("example.com/archive").expect("a plugin's name");
    for interface in policy.granted_to(&name) {
        assert!(abi::GRANTABLE_INTERFACES.contains(&interface), "{interface}");
    }
});
