//! Names that come from manifests, plugins and folders, and become parts of paths.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volhost_model::mount_options;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

/// A path component that stays in its folder.
fn stays(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

fuzz_target!(|text: &str| {
    for name in [PodUid::new(text).map(|name| name.to_string()), SpecName::new(text).map(|name| name.to_string())] {
        assert!(name.is_err() || stays(text), "{text:?}");
    }
    if let Ok(plugin) = PluginName::new(text) {
        assert!(stays(&plugin.escaped()), "{text:?}");
        assert_eq!(PluginName::from_escaped(&plugin.escaped()), Ok(plugin));
    }
    if let Ok(plugin) = PluginName::from_escaped(text) {
        assert_eq!(plugin.escaped(), text);
    }
    if let Ok(name) = UniqueVolumeName::new(text) {
        assert!(text.starts_with(name.plugin()) && !text.contains(char::is_control));
    }
    let items: Vec<String> = text.split('\n').map(str::to_owned).collect();
    if let Ok(options) = mount_options::split(&items) {
        assert!(options.iter().all(|option| !option.is_empty() && !option.contains([',', '\n', '\0'])), "{options:?}");
    }
});
