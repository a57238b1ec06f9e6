//! `volhost plugin grant`: edits the grants in the operator's file, and keeps the rest of the file
//! as it is.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use thiserror::Error;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, TomlError, Value, value};
use volhost_model::PluginName;
use volhost_runtime::{GrantPolicy, ShippedPlugins};

use crate::arguments::GrantArguments;
use crate::error::CliError;
use crate::line_edits::changed_lines;
use crate::output::Output;

/// The table of grants in the file.
const GRANTS: &str = "grants";
/// The table of FUSE servers in a grant.
const FUSE_SERVERS: &str = "fuse-servers";
/// The mode of a new file.
const MODE: u32 = 0o644;

/// Why a grant cannot be edited.
#[derive(Debug, Error)]
enum EditError {
    /// The file cannot be parsed.
    #[error("it is no TOML: {0}")]
    Toml(#[from] TomlError),
    /// `grants` is something else than a table.
    #[error("`grants` is no table")]
    Grants,
    /// The plugin's grant is something else than a table.
    #[error("the grant of {0} is no table")]
    Grant(PluginName),
    /// A key of the grant is something else than a list.
    #[error("`{0}` is no list")]
    List(String),
}

/// Runs the command.
pub(super) fn run(arguments: &GrantArguments, output: &mut Output) -> Result<(), CliError> {
    let file = &arguments.config;
    let name = PluginName::new(&arguments.plugin)
        .map_err(|error| CliError::Usage(format!("{:?} is no plugin's name: {error}", arguments.plugin)))?;
    let failed = |source| CliError::File { path: file.clone(), source };
    let old = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    if !old.is_empty() {
        // An error that is in the file already is reported as by the daemon.
        volhost_config::check(file, &old)?;
    }
    let given = arguments.from.as_deref().map(|from| given(from, &name)).transpose()?;
    let (new, fresh) =
        edit(&old, &name, arguments, given.as_ref()).map_err(|error| CliError::Usage(error.to_string()))?;
    volhost_config::check(file, &new)?;
    let lines = changed_lines(&old, &new);
    if lines.is_empty() {
        output.note(&format!("{}: nothing changes", file.display()));
        return Ok(());
    }
    output.line(&format!("{}:", file.display()))?;
    lines.iter().try_for_each(|line| output.line(line))?;
    let default = GrantPolicy::builtin(ShippedPlugins::default()).granted_to(&name);
    if fresh && !default.is_empty() {
        output.note(&format!(
            "this replaces what {name} is granted by default: {}; name all that it is to keep",
            default.join(", ")
        ));
    }
    if arguments.dry_run {
        return Ok(());
    }
    replace(file, &new).map_err(failed)
}

/// The plugin's grant in another file.
fn given(file: &Path, plugin: &PluginName) -> Result<Table, CliError> {
    let text = fs::read_to_string(file).map_err(|source| CliError::File { path: file.to_owned(), source })?;
    volhost_config::check(file, &text)?;
    let wrong = |why: String| CliError::Usage(format!("{}: {why}", file.display()));
    let document: DocumentMut = text.parse().map_err(|error| wrong(format!("it is no TOML: {error}")))?;
    let grant = document.get(GRANTS).and_then(|grants| grants.get(plugin.as_str())).cloned();
    grant.and_then(|grant| grant.into_table().ok()).ok_or_else(|| wrong(format!("it grants {plugin} nothing")))
}

/// Adds what is given: lists and tables are merged, other values replaced.
fn add(grant: &mut dyn TableLike, given: &dyn TableLike) {
    for (key, item) in given.iter() {
        match (grant.get_mut(key), item) {
            (Some(Item::Value(Value::Array(list))), Item::Value(Value::Array(more))) => {
                for word in more {
                    if !list.iter().any(|item| item.as_str() == word.as_str()) {
                        list.push_formatted(word.clone());
                    }
                }
            }
            (Some(table), more) if table.is_table_like() && more.is_table_like() => {
                // A FUSE server is a command line with its limits: it is replaced as a whole.
                if let (Some(table), Some(more)) = (table.as_table_like_mut(), more.as_table_like()) {
                    more.iter().for_each(|(name, one)| drop(table.insert(name, one.clone())));
                }
            }
            _ => drop(grant.insert(key, item.clone())),
        }
    }
}

/// The file's text with the grant edited, and whether the plugin had none in it.
fn edit(
    text: &str,
    plugin: &PluginName,
    arguments: &GrantArguments,
    given: Option<&Table>,
) -> Result<(String, bool), EditError> {
    let mut document: DocumentMut = text.parse()?;
    let mut first = Table::new();
    if document.is_empty() {
        // Comments alone are the end of a file, and would come after what is added.
        let comments = document.trailing().as_str().unwrap_or_default().to_owned();
        first.decor_mut().set_prefix(comments);
        document.set_trailing("");
    }
    let grants = document.entry(GRANTS).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let grants = grants.as_table_like_mut().ok_or(EditError::Grants)?;
    let fresh = !grants.contains_key(plugin.as_str());
    if fresh && arguments.remove {
        return Ok((text.to_owned(), false));
    }
    if fresh {
        grants.insert(plugin.as_str(), Item::Table(first));
    }
    let grant = grants
        .get_mut(plugin.as_str())
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| EditError::Grant(plugin.clone()))?;
    if let Some(given) = given {
        add(grant, given);
    }
    if !arguments.fuse_server.is_empty()
        && let Some(servers) = grant.get_mut(FUSE_SERVERS).and_then(Item::as_table_like_mut)
    {
        arguments.fuse_server.iter().for_each(|name| drop(servers.remove(name)));
        if servers.is_empty() {
            grant.remove(FUSE_SERVERS);
        }
    }
    let lists = [
        ("interfaces", &arguments.interface),
        ("host-paths", &arguments.host_path),
        ("loop-files", &arguments.loop_files),
        ("image-files", &arguments.image_files),
        ("network-servers", &arguments.network_server),
        ("iscsi-portals", &arguments.iscsi_portal),
        ("fc-targets", &arguments.fc_target),
        ("image-registries", &arguments.image_registry),
        ("image-layouts", &arguments.image_layouts),
        ("block-devices", &arguments.block_device),
        ("csi-drivers", &arguments.csi_driver),
        ("flex-drivers", &arguments.flex_driver),
        ("filesystems", &arguments.filesystem),
        ("mount-options", &arguments.mount_option),
        ("sources", &arguments.source),
        ("sha256", &arguments.sha256),
    ];
    for (key, words) in lists {
        edit_list(grant, key, words, arguments.remove)?;
    }
    let number = |number: Option<i64>| number.map(Value::from);
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let single = [
        ("image-size", text(&arguments.image_size)),
        ("loop-devices", number(arguments.loop_devices)),
        ("memory", text(&arguments.memory)),
        ("call-time", text(&arguments.call_time)),
        ("concurrency", number(arguments.concurrency)),
    ];
    for (key, given) in single {
        match given {
            Some(_) if arguments.remove => drop(grant.remove(key)),
            Some(given) => drop(grant.insert(key, value(given))),
            None => {}
        }
    }
    Ok((document.to_string(), fresh))
}

/// Adds the missing words to a list, or removes the present ones.
fn edit_list(grant: &mut dyn TableLike, key: &str, words: &[String], remove: bool) -> Result<(), EditError> {
    if words.is_empty() || (remove && !grant.contains_key(key)) {
        return Ok(());
    }
    let list = grant.entry(key).or_insert_with(|| value(Array::new()));
    let list = list.as_array_mut().ok_or_else(|| EditError::List(key.to_owned()))?;
    for word in words {
        let there = list.iter().position(|item| item.as_str() == Some(word));
        match (there, remove) {
            (Some(index), true) => drop(list.remove(index)),
            (None, false) => list.push(word.as_str()),
            _ => {}
        }
    }
    Ok(())
}

/// Replaces a file's content atomically, and keeps its owner and mode.
fn replace(file: &Path, content: &str) -> io::Result<()> {
    // A link stays a link: its target is replaced.
    let file = match fs::canonicalize(file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error),
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(content.as_bytes())?;
    match fs::metadata(&file) {
        Ok(before) => {
            part.as_file().set_permissions(before.permissions())?;
            std::os::unix::fs::fchown(part.as_file(), Some(before.uid()), Some(before.gid()))?;
        }
        Err(_) => part.as_file().set_permissions(Permissions::from_mode(MODE))?,
    }
    part.as_file().sync_all()?;
    part.persist(&file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: GrantArguments,
    }

    fn edited(text: &str, typed: &[&str]) -> String {
        let arguments = Typed::parse_from(["grant"].iter().chain(typed)).arguments;
        edit(text, &PluginName::new(&arguments.plugin).unwrap(), &arguments, None).unwrap().0
    }

    #[test]
    fn a_shipped_grant_is_added_and_fuse_servers_are_removed_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("volhost.toml");
        let server = |name: &str, program: &str| {
            format!("[grants.\"a/b\".fuse-servers.{name}]\nprogram = \"{program}\"\narguments = [\"{{mount}}\"]\n")
        };
        let comes = format!("[grants.\"a/b\"]\nhost-paths = [\"/srv\", \"/data\"]\n{}", server("cow", "/usr/bin/cow"));
        fs::write(&file, &comes).unwrap();
        let name = PluginName::new("a/b").unwrap();
        let from = given(&file, &name).unwrap();
        let typed = Typed::parse_from(["grant", "a/b"]).arguments;
        let old = format!(
            "[grants.\"a/b\"]\n# mine\nhost-paths = [\"/srv\"]\n\n{}\n{}",
            server("cow", "/bin/old"),
            server("sheep", "/bin/sheep")
        );
        let inline =
            "[grants.\"a/b\"]\nfuse-servers = { sheep = { program = \"/bin/sheep\", arguments = [\"{mount}\"] } }\n";
        for old in ["", &old, inline, &comes] {
            let new = edit(old, &name, &typed, Some(&from)).unwrap().0;
            volhost_config::check(Path::new("config.toml"), &new).unwrap();
            assert!(new.contains("\"/srv\"") && new.contains("\"/data\"") && new.contains("/usr/bin/cow"), "{new}");
            assert_eq!(new.matches("/srv").count(), 1, "{new}");
            for kept in ["# mine", "/bin/sheep"] {
                assert_eq!(new.contains(kept), old.contains(kept), "{new}");
            }
            assert!(!new.contains("/bin/old"), "{new}");
            let typed = ["a/b", "--remove", "--fuse-server", "cow", "--fuse-server", "none"];
            let without = edited(&new, &typed);
            assert!(!without.contains("cow"), "{without}");
            assert_eq!(without.contains("fuse-servers"), old.contains("sheep"), "{without}");
        }
        assert!(given(&file, &PluginName::new("c/d").unwrap()).is_err());
    }

    #[test]
    fn the_operators_own_lines_stay() {
        let text = "# mine\nnode-name = \"n\" # so\n\n[grants.\"a/b\"]\n# why\nhost-paths = [\"/srv\"] # here\n";
        let new = edited(text, &["a/b", "--host-path", "/data", "--host-path", "/srv", "--memory", "128Mi"]);
        let expected = text.replace("[\"/srv\"]", "[\"/srv\", \"/data\"]") + "memory = \"128Mi\"\n";
        assert_eq!(new, expected);
        assert_eq!(edited(&new, &["a/b", "--remove", "--host-path", "/data", "--memory", "1Mi"]), text);
    }

    #[test]
    fn a_first_grant_is_a_table_of_its_own() {
        let new = edited("log-level = \"info\"\n", &["a/b", "--interface", "secrets", "--concurrency", "2"]);
        assert_eq!(new, "log-level = \"info\"\n\n[grants.\"a/b\"]\ninterfaces = [\"secrets\"]\nconcurrency = 2\n");
        let new = edited("# only words\n", &["a/b", "--interface", "secrets"]);
        assert_eq!(new, "# only words\n[grants.\"a/b\"]\ninterfaces = [\"secrets\"]\n");
    }

    #[test]
    fn removing_what_is_missing_changes_nothing() {
        let text = "[grants.\"a/b\"]\nhost-paths = [\"/srv\"]\n";
        assert_eq!(edited(text, &["a/b", "--remove", "--interface", "secrets"]), text);
        assert_eq!(edited(text, &["c/d", "--remove", "--interface", "secrets"]), text);
    }
}
