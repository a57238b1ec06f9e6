//! Loading plugins: what is refused and in which words, the cache, and the grants.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::guest::{self, Guest, LOOP};
use crate::common::host::{Host, config, no_compiler};
use volhost_kernel::Kernel;
use volhost_model::PluginName;
use volhost_runtime::{
    CacheError, Capability, GrantBindings, GrantPolicy, LoadProblem, Runtime, RuntimeError, ShippedPlugins,
};
use volhost_testing_kernel::InMemoryKernel;

fn contains(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "{word:?} is missing in: {message}");
    }
}

#[test]
fn a_plugin_is_known_by_what_it_says_and_what_it_exports() {
    let host = Host::new();
    let plugin = host.load(&Guest::default());
    let info = plugin.info();
    assert_eq!(info.name.as_str(), "test.io/guest");
    assert_eq!(info.sources, ["guest"]);
    assert_eq!(info.abi, "0.1.0");
    assert_eq!(info.exports, ["plugin", "publisher"]);
    assert_eq!(info.imports, ["mounts", "tmpfs", "types", "volumes"]);
    assert!(plugin.exports(Capability::Publisher) && !plugin.exports(Capability::Attacher));
}

#[test]
fn files_that_are_no_plugin_are_refused_by_what_they_are() {
    let host = Host::new();
    contains(&host.refusal(b"hello"), &["not WebAssembly"]);
    contains(&host.refusal(b""), &["empty"]);
    contains(&host.refusal(&Guest::default().core()), &["core module", "volhost-plugin-build"]);
    let missing = host.runtime.load(&host.folder.path().join("no.wasm")).unwrap_err().message();
    contains(&missing, &["no.wasm", "No such file"]);
    let folder = host.runtime.load(host.folder.path()).unwrap_err().message();
    contains(&folder, &["not a regular file"]);
}

#[test]
fn a_half_written_component_is_refused() {
    let host = Host::new();
    let whole = Guest::default().component();
    contains(&host.refusal(&whole[..whole.len() / 2]), &["not a valid component"]);
    contains(&host.refusal(&whole[..whole.len() - 1]), &["not a valid component"]);
    contains(&host.refusal(&whole[..8]), &["not a volume plugin"]);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let host = Host::with(|config| config.limits.file_bytes = 100);
    contains(&host.refusal(&Guest::default().component()), &["larger than 100 bytes"]);
}

#[test]
fn a_component_of_another_world_is_refused_with_what_it_lacks() {
    let message = Host::new().refusal(&guest::unrelated_component());
    contains(&message, &["not a volume plugin", "volhost:plugin/plugin", "volhost:plugin/publisher", "it exports run"]);
}

#[test]
fn a_newer_contract_is_refused_with_the_version_of_this_host() {
    let newer = Guest { version: "0.9.0", ..Guest::default() };
    contains(&Host::new().refusal(&newer.component()), &["volhost:plugin@0.9.0", "speaks 0.1.x", "update volhost"]);
}

#[test]
fn a_later_patch_of_the_contract_is_taken() {
    let host = Host::new();
    assert_eq!(host.load(&Guest { version: "0.1.7", ..Guest::default() }).info().abi, "0.1.7");
}

#[test]
fn an_ungranted_import_names_plugin_interface_and_the_lines_that_grant_it() {
    let host = Host::new();
    let reaching = Guest { imports: [Guest::default().imports, vec![guest::OPEN]].concat(), ..Guest::default() };
    let message = host.refusal(&reaching.component());
    contains(&message, &["host-paths", "test.io/guest", "[grants.\"test.io/guest\"]", "host-paths = ["]);
    let seen = host.runtime.inspect(&host.folder.path().join("bad.wasm")).unwrap();
    assert_eq!((seen.info.name.as_str(), seen.ungranted), ("test.io/guest", vec!["host-paths".to_owned()]));
    let granted = Host::with(|config| {
        config.grants = toml::from_str("[\"test.io/guest\"]\nhost-paths = [\"/srv\"]").unwrap();
    });
    assert!(granted.load(&reaching).info().imports.contains(&"host-paths".to_owned()));
}

#[test]
fn a_grant_for_other_content_grants_nothing() {
    let digest = "0".repeat(64);
    let host = Host::with(|config| {
        config.grants =
            toml::from_str(&format!("[\"test.io/guest\"]\nhost-paths = [\"/\"]\nsha256 = [\"{digest}\"]")).unwrap();
    });
    let reaching = Guest { imports: [Guest::default().imports, vec![guest::OPEN]].concat(), ..Guest::default() };
    // It covers all that this content asks for: only the approval of the content is missing.
    contains(&host.refusal(&reaching.component()), &["belongs to another content", "--sha256"]);
    let problem = host.runtime.load(&host.folder.path().join("bad.wasm")).unwrap_err().problem;
    assert!(matches!(*problem, LoadProblem::OtherContent(_)), "{problem:?}");
}

#[test]
fn of_a_grant_for_other_content_only_what_it_does_not_cover_is_missing() {
    let digest = "0".repeat(64);
    let host = Host::with(|config| {
        let grant = format!("[\"test.io/guest\"]\ninterfaces = [\"secrets\"]\nsha256 = [\"{digest}\"]");
        config.grants = toml::from_str(&grant).unwrap();
    });
    let reaching = Guest { imports: [Guest::default().imports, vec![guest::OPEN]].concat(), ..Guest::default() };
    contains(&host.refusal(&reaching.component()), &["imports host-paths", "sha256 names another"]);
    let problem = host.runtime.load(&host.folder.path().join("bad.wasm")).unwrap_err().problem;
    let LoadProblem::NotGranted(refused) = *problem else { panic!("{problem:?}") };
    assert!(refused.other_content && refused.missing == ["host-paths"], "{refused:?}");
}

#[test]
fn a_name_of_the_plugins_that_come_with_volhost_is_for_their_content_alone() {
    let reaching = Guest {
        name: "kubernetes.io/local-volume".into(),
        imports: [Guest::default().imports, vec![guest::OPEN]].concat(),
        ..Guest::default()
    };
    let digest = sha256(&reaching.component());
    let shipped = |digest: &str| {
        let digest = digest.to_owned();
        Host::with(|config| config.grants = GrantPolicy::builtin(ShippedPlugins::Known([digest].into())))
    };
    assert!(shipped(&digest).load(&reaching).info().imports.contains(&"host-paths".to_owned()));
    let host = shipped(&"0".repeat(64));
    let words = [
        "calls itself kubernetes.io/local-volume",
        "belong to the plugins that come with volhost",
        "--sha256",
        &digest,
    ];
    contains(&host.refusal(&reaching.component()), &words);
    let seen = host.runtime.inspect(&host.folder.path().join("bad.wasm")).unwrap();
    assert_eq!((seen.granted.len(), seen.ungranted), (0, vec!["host-paths".to_owned()]));
    // The name alone, without any right, is theirs too.
    for name in ["kubernetes.io/local-volume", "volhost.io/mine"] {
        contains(
            &host.refusal(&Guest { name: name.into(), ..Guest::default() }.component()),
            &["belong to the plugins"],
        );
    }
    let pinned = format!("[\"kubernetes.io/local-volume\"]\nhost-paths = [\"/srv\"]\nsha256 = [{digest:?}]");
    let host = Host::with(|config| {
        let own = toml::from_str(&pinned).unwrap();
        config.grants = GrantPolicy::builtin(ShippedPlugins::default()).overridden_by(own);
    });
    host.load(&reaching);
}

#[derive(Debug, Default)]
struct BoundTo(Mutex<Option<String>>);

impl GrantBindings for BoundTo {
    fn bound(&self, _: &PluginName) -> Option<String> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn a_grant_without_a_digest_is_for_the_content_that_used_it_first() {
    let reaching = Guest { imports: [Guest::default().imports, vec![guest::OPEN]].concat(), ..Guest::default() };
    let digest = sha256(&reaching.component());
    let mut host = Host::with(|config| {
        config.grants = toml::from_str("[\"test.io/guest\"]\nhost-paths = [\"/srv\"]").unwrap();
    });
    let bound = Arc::new(BoundTo::default());
    host.runtime = host.runtime.with_bindings(bound.clone());
    host.load(&reaching);
    *bound.0.lock().unwrap() = Some("0".repeat(64));
    contains(&host.refusal(&reaching.component()), &["belongs to another content", "--sha256", &digest]);
    // One that asks for nothing gets nothing, and yet it would be taken for the other one.
    contains(&host.refusal(&Guest::default().component()), &["belongs to another content"]);
    *bound.0.lock().unwrap() = Some(digest);
    host.load(&reaching);
}

#[test]
fn describe_has_no_grant_even_for_a_granted_name() {
    // A folder is opened while describing: refused, whatever the name says, and the plugin crashes
    // on it.
    let host = Host::new();
    let sneaking = Guest {
        name: "kubernetes.io/host-path".into(),
        imports: [Guest::default().imports, vec![guest::OPEN]].concat(),
        describe: "(call $open {/} (global.get $answer))
            (if (i32.eqz (i32.load8_u (global.get $answer))) (then) (else (unreachable)))"
            .into(),
        ..Guest::default()
    };
    contains(&host.refusal(&sneaking.component()), &["failed to describe itself", "unreachable"]);
}

#[test]
fn a_plugin_that_describes_itself_badly_is_refused() {
    let host = Host::with(|config| config.limits.describe_time = Duration::from_secs(1));
    for (guest, words) in [
        (Guest { describe: "(unreachable)".into(), ..Guest::default() }, "crashed in describe"),
        (Guest { describe: LOOP.into(), ..Guest::default() }, "stopped"),
        (Guest { name: "NoSlash".into(), ..Guest::default() }, "vendor/name"),
        (Guest { name: "../etc/x".into(), ..Guest::default() }, "vendor/name"),
        (Guest { sources: vec![], ..Guest::default() }, "serves no volume source"),
        (Guest { sources: vec!["empty dir".into()], ..Guest::default() }, "which is not a source"),
        (Guest { name: "x".repeat(300), ..Guest::default() }, "255 at most"),
    ] {
        contains(&host.refusal(&guest.component()), &[words]);
    }
}

#[test]
fn what_is_not_served_of_wasi_is_named() {
    let component = wat::parse_str(
        r#"(component
            (import "wasi:nn/graph@0.2.6" (instance $graph (export "load" (func (result (list string))))))
            (instance $empty)
            (export "volhost:plugin/plugin@0.1.0" (instance $empty))
            (export "volhost:plugin/publisher@0.1.0" (instance $empty)))"#,
    )
    .unwrap();
    contains(&Host::new().refusal(&component), &["wasi:nn/graph@0.2.6", "of WASI this host serves 0.2: cli"]);
}

#[test]
fn an_export_of_the_wrong_shape_is_refused_at_load() {
    let component = wat::parse_str(
        r#"(component
            (instance $empty)
            (export "volhost:plugin/plugin@0.1.0" (instance $empty))
            (export "volhost:plugin/publisher@0.1.0" (instance $empty)))"#,
    )
    .unwrap();
    contains(
        &Host::new().refusal(&component),
        &["does not fit the contract volhost:plugin@0.1.0", "exports no function"],
    );
}

#[test]
fn a_function_with_other_parameters_is_named() {
    let component = wat::parse_str(
        r#"(component
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (instance $plugin (export "describe" (func $f)))
            (instance $empty)
            (export "volhost:plugin/plugin@0.1.0" (instance $plugin))
            (export "volhost:plugin/publisher@0.1.0" (instance $empty)))"#,
    )
    .unwrap();
    contains(&Host::new().refusal(&component), &["plugin.describe takes ()", "the contract says (into)"]);
}

#[test]
fn a_cached_plugin_is_not_compiled_again() {
    let host = Host::new();
    let first = host.load(&Guest::default());
    let mut config = config(host.folder.path());
    config.compiler = no_compiler();
    let second = Runtime::new(config, Arc::new(InMemoryKernel::new()) as Arc<dyn Kernel>).unwrap();
    let file = host.folder.path().join("guest.wasm");
    assert_eq!(second.load(&file).unwrap().info(), first.info());
    // The file may be gone: what was mounted by it must be torn down.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(second.load_cached(&first.info().digest).unwrap().info(), first.info());
    let error = second.load_cached(&"0".repeat(64)).unwrap_err();
    assert!(matches!(*error.problem, LoadProblem::NotCached), "{error}");
    assert!(second.load_cached("../../etc/passwd").is_err());
}

#[test]
fn a_damaged_cache_is_made_again() {
    let host = Host::new();
    let guest = Guest::default();
    host.load(&guest);
    let files = || -> Vec<_> {
        std::fs::read_dir(host.folder.path().join("cache")).unwrap().map(|e| e.unwrap().path()).collect()
    };
    for extension in ["cwasm", "json"] {
        for damage in [&b"rubbish"[..], b""] {
            let damaged = files().into_iter().find(|path| path.extension().unwrap() == extension).unwrap();
            // Replaced, as a crash leaves it: the loaded plugin still maps the old one.
            std::fs::remove_file(&damaged).unwrap();
            std::fs::write(&damaged, damage).unwrap();
            let plugin = host.load(&guest);
            host.publish(&plugin, "v").unwrap();
            host.unpublish(&plugin, "v").unwrap();
        }
    }
    assert_eq!(files().len(), 2, "{:?}", files());
}

#[test]
fn code_of_another_engine_under_the_right_name_is_made_again() {
    let host = Host::new();
    let guest = Guest::default();
    host.load(&guest);
    let cache = host.folder.path().join("cache");
    let code = std::fs::read_dir(&cache)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().unwrap() == "cwasm")
        .unwrap();
    // An honest note on content that is not this engine's.
    let foreign = b"\x7fELF of another world";
    std::fs::remove_file(&code).unwrap();
    std::fs::write(&code, foreign).unwrap();
    let note = format!(r#"{{"code":"{}","file":"/x","sdk":null}}"#, sha256(foreign));
    std::fs::write(code.with_extension("json"), note).unwrap();
    host.load(&guest);
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn unused_code_can_be_removed_from_the_cache() {
    let host = Host::new();
    let kept = host.load(&Guest::default());
    let gone = host.load(&Guest { name: "test.io/gone".into(), ..Guest::default() });
    host.runtime.keep_only_cached(&[kept.info().digest.clone()]);
    assert!(host.runtime.load_cached(&kept.info().digest).is_ok());
    assert!(host.runtime.load_cached(&gone.info().digest).is_err());
    // What is loaded keeps working.
    host.publish(&gone, "v").unwrap();
}

#[test]
fn a_cache_that_others_can_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = || Arc::new(InMemoryKernel::new()) as Arc<dyn Kernel>;
    let cache = folder.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o770)).unwrap();
    let error = Runtime::new(config(folder.path()), kernel()).unwrap_err();
    assert!(matches!(error, RuntimeError::Cache(CacheError::WritableByOthers { .. })), "{error}");
    contains(&error.to_string(), &["770", "chmod 700"]);
    std::fs::remove_dir(&cache).unwrap();
    std::os::unix::fs::symlink("/tmp", &cache).unwrap();
    let error = Runtime::new(config(folder.path()), kernel()).unwrap_err();
    assert!(matches!(error, RuntimeError::Cache(CacheError::NotAFolder { .. })), "{error}");
    std::fs::remove_file(&cache).unwrap();
    Runtime::new(config(folder.path()), kernel()).unwrap();
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
}
