//! The record of approved plugins, as it is found on disk.
#![no_main]

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use volhost_kernel::{Durability, Kernel, Propagation};
use volhost_model::PluginName;
use volhost_testing_kernel::InMemoryKernel;

// The name by which the record's file knows the crate that has this trait.
extern crate self as volhost_runtime;
pub use grant_bindings::GrantBindings;

#[allow(dead_code, reason = "only the record is read here")]
#[path = "../../host/plugin-folder/src/approvals.rs"]
mod approvals;
#[allow(dead_code, reason = "only the trait is used here")]
#[path = "../../host/runtime/src/grant_bindings.rs"]
mod grant_bindings;

use approvals::Approvals;

const SOURCE: &str = "archive";

fuzz_target!(|bytes: &[u8]| {
    let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
    let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).expect("a root folder");
    let folder = kernel.make_dirs(&root, Path::new("approvals"), 0o700).expect("a folder");
    let file = OsStr::new("plugins.json");
    kernel.write_atomic(&folder, file, bytes, 0o600, Durability::Process).expect("a file");

    let plugin = PluginName::new("example.com/archive").expect("a plugin's name");
    let found = Approvals::open(Arc::clone(&kernel), &root);
    let bound = found.bound(&plugin);
    let settled = found.settle(&plugin, "digest", true, [SOURCE.to_owned()].iter());
    // A grant that is bound to one content is refused to every other, whatever else the record has.
    assert_eq!(settled.is_ok(), bound.is_none_or(|bound| bound == "digest"));
    if settled.is_ok() {
        let again = Approvals::open(kernel, &root);
        assert_eq!(again.bound(&plugin).as_deref(), Some("digest"));
        assert_eq!(again.owner(SOURCE), Some(plugin), "it reads what it writes");
    }
});
