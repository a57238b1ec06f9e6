//! Tiny plugins, written in WebAssembly text and encoded as components against the real contract.
//!
//! A body is the inside of a core function. `describe` returns nothing; `identify`, `publish` and
//! `unpublish` return the address of a result, for which there are: `$ok`, `$err` (case, address,
//! length), and `$answer`, where host functions put theirs. Locals: `$volume`, `$pod`, `$target`,
//! `$form`.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The folder of the contract.
const WIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");

/// A plugin to be.
#[derive(Clone)]
pub struct Guest {
    pub name: String,
    pub sources: Vec<String>,
    pub imports: Vec<&'static str>,
    pub functions: String,
    pub describe: String,
    pub identify: String,
    pub publish: String,
    pub unpublish: String,
    /// The contract's version it claims.
    pub version: &'static str,
    pub memory_pages: u32,
    /// The inside of `cabi_realloc`, which hands out memory.
    pub realloc: &'static str,
}

/// An allocator that never frees.
pub const REALLOC: &str = "(local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (local.get $at)";
pub const OK: &str = "(call $ok)";

/// Host functions by the name that bodies call them by.
pub const STATE: &str =
    r#"(import "volhost:plugin/mounts@V" "[method]mount-target.state" (func $state (param i32 i32)))"#;
pub const ATTACH: &str =
    r#"(import "volhost:plugin/mounts@V" "[method]mount-target.attach" (func $attach (param i32 i32 i32)))"#;
pub const DETACH: &str =
    r#"(import "volhost:plugin/mounts@V" "[method]mount-target.detach" (func $detach (param i32 i32)))"#;
pub const MAKE_FOLDER: &str = r#"(import "volhost:plugin/mounts@V" "[method]mount-target.make-folder" (func $make_folder (param i32 i32 i32 i32 i32)))"#;
pub const BIND: &str =
    r#"(import "volhost:plugin/mounts@V" "[method]mount-source.bind" (func $bind (param i32 i32 i32)))"#;
pub const TMPFS: &str = r#"(import "volhost:plugin/tmpfs@V" "create" (func $tmpfs (param i32 i32 i32)))"#;
pub const LOG: &str = r#"(import "volhost:plugin/log@V" "write" (func $log (param i32 i32 i32)))"#;
pub const EVENT: &str = r#"(import "volhost:plugin/events@V" "warning" (func $event (param i32 i32 i32 i32)))"#;
pub const OPEN: &str = r#"(import "volhost:plugin/host-paths@V" "open" (func $open (param i32 i32 i32)))"#;
pub const MEMORY: &str = r#"(import "volhost:plugin/node@V" "allocatable-memory" (func $memory (result i64)))"#;
pub const IDENTITY_NAME: &str =
    r#"(import "volhost:plugin/volumes@V" "[method]identity.name" (func $identity_name (param i32 i32 i32)))"#;

/// Mounts a tmpfs, and answers as the host did.
pub const MOUNT_TMPFS: &str = "
    (call $state (local.get $target) (global.get $answer))
    (if (i32.eq (i32.load8_u offset=4 (global.get $answer)) (i32.const 2)) (then (return (call $ok))))
    (call $tmpfs (i32.const 0) (i32.const 0) (global.get $answer))
    (if (i32.load8_u (global.get $answer)) (then (return (global.get $answer))))
    (call $attach (local.get $target) (i32.load offset=4 (global.get $answer)) (global.get $answer))
    (global.get $answer)";
pub const UNMOUNT: &str = "(call $detach (local.get $target) (global.get $answer)) (global.get $answer)";
/// Runs for ever.
pub const LOOP: &str = "(loop $for_ever (br $for_ever)) (unreachable)";

impl Default for Guest {
    /// A well-behaved plugin: mounts a tmpfs, unmounts it.
    fn default() -> Self {
        Self {
            name: "test.io/guest".into(),
            sources: vec!["guest".into()],
            imports: vec![STATE, ATTACH, DETACH, TMPFS],
            functions: String::new(),
            describe: String::new(),
            identify: OK.into(),
            publish: MOUNT_TMPFS.into(),
            unpublish: UNMOUNT.into(),
            version: "0.1.0",
            memory_pages: 1,
            realloc: REALLOC,
        }
    }
}

/// `(i32.const ADDRESS) (i32.const LENGTH)` of the strings that bodies use, and the data that holds
/// them.
#[derive(Default)]
pub struct Texts {
    data: String,
    next: usize,
}

impl Texts {
    pub fn add(&mut self, text: &str) -> String {
        const BASE: usize = 4096;
        let at = BASE + self.next;
        self.next += text.len();
        let escaped: String = text.bytes().map(|b| format!("\\{b:02x}")).collect();
        self.data.push_str(&format!("(data (i32.const {at}) \"{escaped}\")\n"));
        format!("(i32.const {at}) (i32.const {})", text.len())
    }
}

impl Guest {
    /// With this publish and these imports besides the usual ones.
    pub fn setting_up(publish: &str, imports: &[&'static str]) -> Self {
        let mut guest = Self { publish: publish.into(), ..Self::default() };
        guest.imports.extend(imports);
        guest
    }

    /// The core module.
    pub fn core(&self) -> Vec<u8> {
        let mut texts = Texts::default();
        let name = texts.add(&self.name);
        let serves: String = self
            .sources
            .iter()
            .map(|source| format!("(call $serves (local.get $form) {})\n", texts.add(source)))
            .collect();
        let bodies = [&self.describe, &self.identify, &self.publish, &self.unpublish, &self.functions];
        let [describe, identify, publish, unpublish, functions] = bodies.map(|body| texts.fill(body));
        let text = format!(
            r#"(module
            (import "volhost:plugin/volumes@V" "[method]description.name" (func $name (param i32 i32 i32)))
            (import "volhost:plugin/volumes@V" "[method]description.serves" (func $serves (param i32 i32 i32)))
            (import "volhost:plugin/volumes@V" "[resource-drop]description" (func $drop_form (param i32)))
            (import "volhost:plugin/volumes@V" "[resource-drop]identity" (func $drop_identity (param i32)))
            (import "volhost:plugin/volumes@V" "[resource-drop]volume" (func $drop_volume (param i32)))
            (import "volhost:plugin/volumes@V" "[resource-drop]pod" (func $drop_pod (param i32)))
            (import "volhost:plugin/mounts@V" "[resource-drop]mount-target" (func $drop_target (param i32)))
            {imports}
            (memory (export "memory") {pages})
            (global $answer i32 (i32.const 256))
            (global $heap (mut i32) (i32.const 32768))
            {data}
            (func $ok (result i32) (i32.const 16))
            (func $err (param $case i32) (param $text i32) (param $length i32) (result i32)
                (i32.store8 (i32.const 512) (i32.const 1))
                (i32.store8 (i32.const 516) (local.get $case))
                (i32.store (i32.const 520) (local.get $text))
                (i32.store (i32.const 524) (local.get $length))
                (i32.const 512))
            (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
                {realloc})
            {functions}
            (func (export "volhost:plugin/plugin@V#describe") (param $form i32)
                (call $name (local.get $form) {name})
                {serves}
                {describe}
                (call $drop_form (local.get $form)))
            (func $identify (param $volume i32) (param $form i32) (result i32) {identify})
            (func (export "volhost:plugin/plugin@V#identify") (param $volume i32) (param $form i32) (result i32)
                (local $result i32)
                (local.set $result (call $identify (local.get $volume) (local.get $form)))
                (call $drop_volume (local.get $volume)) (call $drop_identity (local.get $form))
                (local.get $result))
            (func $publish (param $volume i32) (param $pod i32) (param $target i32) (result i32) {publish})
            (func (export "volhost:plugin/publisher@V#publish") (param $volume i32) (param $pod i32) (param $target i32) (result i32)
                (local $result i32)
                (local.set $result (call $publish (local.get $volume) (local.get $pod) (local.get $target)))
                (call $drop_volume (local.get $volume)) (call $drop_pod (local.get $pod)) (call $drop_target (local.get $target))
                (local.get $result))
            (func $unpublish (param $target i32) (result i32) {unpublish})
            (func (export "volhost:plugin/publisher@V#unpublish") (param $target i32) (result i32)
                (local $result i32)
                (local.set $result (call $unpublish (local.get $target)))
                (call $drop_target (local.get $target))
                (local.get $result)))"#,
            imports = self.imports.join("\n"),
            pages = self.memory_pages,
            realloc = self.realloc,
            data = texts.data,
        );
        let text = text.replace("@V", &format!("@{}", self.version));
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The component.
    pub fn component(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let package = if self.version == "0.1.0" {
            resolve.push_dir(WIT).unwrap().0
        } else {
            let folder = rewritten_contract(self.version);
            resolve.push_dir(folder.path()).unwrap().0
        };
        let world = resolve.select_world(&[package], Some("volume-plugin")).unwrap();
        encode(self.core(), &resolve, world)
    }

    /// Writes the component to a file.
    pub fn write(&self, file: &Path) {
        std::fs::write(file, self.component()).unwrap();
    }
}

impl Texts {
    /// Replaces every `{text}` of a body by address and length of the text.
    fn fill(&mut self, body: &str) -> String {
        let mut filled = String::new();
        let mut rest = body;
        while let Some((before, after)) = rest.split_once('{') {
            let (text, after) = after.split_once('}').unwrap();
            filled.push_str(before);
            filled.push_str(&self.add(text));
            rest = after;
        }
        filled + rest
    }
}

/// Makes a component of a core module.
pub fn encode(mut core: Vec<u8>, resolve: &Resolve, world: wit_parser::WorldId) -> Vec<u8> {
    embed_component_metadata(&mut core, resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}

/// The contract under another version.
fn rewritten_contract(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(WIT).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_type().unwrap().is_file() {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let text = text.replace("volhost:plugin@0.1.0", &format!("volhost:plugin@{version}"));
        std::fs::write(folder.path().join(entry.file_name()), text).unwrap();
    }
    folder
}

/// A component of an unrelated world.
pub fn unrelated_component() -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("x.wit", "package a:b; world w { export run: func(); }").unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let core = wat::parse_str(r#"(module (func (export "run")))"#).unwrap();
    encode(core, &resolve, world)
}
