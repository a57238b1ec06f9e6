//! What the documentation names is there.

use std::fs;

use volhost_tests::artifacts::{self, workspace};

const RULES: &str = "host/core/tests/simulation/rules.rs";

/// Returns the texts between backquotes on a line of a list.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(workspace().join(path)).ok()
}

/// Why a named test does not exist, if it does not.
fn missing(name: &str) -> Option<String> {
    if let Some(rule) = name.strip_prefix("Rule::") {
        let there = read(RULES).is_some_and(|rules| rules.contains(&format!("    {rule},\n")));
        return (!there).then(|| format!("{RULES} has no rule {rule}"));
    }
    let (file, test) = name.rsplit_once("::").map_or((name, None), |(file, test)| (file, Some(test)));
    match (read(file), test) {
        (None, _) => Some(format!("there is no file {file}")),
        (Some(text), Some(test)) if !text.contains(&format!("fn {test}(")) => {
            Some(format!("{file} has no test {test}"))
        }
        (Some(text), None) if !text.contains("#[test]") && !text.contains("world: &dyn World") => {
            Some(format!("{file} has no tests"))
        }
        _ => None,
    }
}

#[test]
fn every_test_on_the_page_of_guarantees_exists_and_every_rule_has_some() {
    let page = read("docs/guarantees.md").expect("the page is there");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let rules: Vec<&str> = sections.iter().filter_map(|section| section.split(':').next()).collect();
    let expected: Vec<String> = (1..=11).map(|rule| format!("R{rule}")).collect();
    assert_eq!(rules, expected);
    let mut wrong = Vec::new();
    for section in sections {
        let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("- ")).flat_map(names).collect();
        assert!(!listed.is_empty(), "no test verifies {section}");
        wrong.extend(listed.into_iter().filter_map(missing));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a plugin's page has to say.
const SECTIONS: [&str; 5] = ["## Fields", "## Grant", "## On disk", "## When it fails", "## Example"];

/// What a plugin's folder lacks.
fn lacks(plugin: &str) -> Vec<String> {
    let mut lacks = Vec::new();
    let page = read(&format!("plugins/{plugin}/README.md")).unwrap_or_default();
    if !page.starts_with("# `") {
        lacks.push(format!("plugins/{plugin}/README.md does not begin with the kind's name"));
    }
    let granted = page.contains("It needs no grant");
    let missing = SECTIONS.iter().filter(|section| !page.contains(&format!("\n{section}")));
    lacks.extend(
        missing
            .filter(|section| !(granted && **section == "## Grant"))
            .map(|section| format!("plugins/{plugin}/README.md lacks {section}")),
    );
    for named in names(&page).filter(|name| name.starts_with("examples/")) {
        if !workspace().join(named).exists() {
            lacks.push(format!("plugins/{plugin}/README.md names {named}, which does not exist"));
        }
    }
    let code = read(&format!("plugins/{plugin}/src/lib.rs")).unwrap_or_default();
    if !code.starts_with("#![doc = include_str!(\"../README.md\")]") {
        lacks.push(format!("plugins/{plugin}/src/lib.rs does not show the page"));
    }
    if fs::read_dir(workspace().join("examples").join(plugin)).map_or(0, Iterator::count) == 0 {
        lacks.push(format!("examples/{plugin} is empty"));
    }
    let list = read("docs/volume-kinds.md").unwrap_or_default();
    if !list.contains(&format!("(../plugins/{plugin}/README.md)")) {
        lacks.push(format!("docs/volume-kinds.md does not lead to plugins/{plugin}"));
    }
    lacks
}

#[test]
fn every_plugin_has_its_page_and_an_example() {
    let folders = fs::read_dir(workspace().join("plugins")).unwrap().map(|entry| entry.unwrap());
    let plugins = folders.filter(|entry| entry.path().join("Cargo.toml").is_file());
    let wrong: Vec<String> = plugins.flat_map(|entry| lacks(entry.file_name().to_str().unwrap())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_plugin_without_a_page_is_noticed() {
    assert_eq!(lacks("no-such").len(), SECTIONS.len() + 4);
}

#[test]
fn a_name_that_does_not_exist_is_noticed() {
    for name in ["Rule::NoSuch", "tests/tests/no_such.rs", "tests/tests/node/walk.rs::no_such", "docs/guarantees.md"] {
        assert!(missing(name).is_some(), "{name}");
    }
}

/// The code blocks of a page in this language, in their order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut inside = None;
    for line in page.lines() {
        match (inside, line.trim_start().strip_prefix("```")) {
            (None, Some(word)) => {
                inside = Some(word == language);
                if word == language {
                    found.push(String::new());
                }
            }
            (Some(_), Some(_)) => inside = None,
            (Some(true), None) => {
                let block = found.last_mut().unwrap();
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    found
}

/// The commands of a console block as a shell reads them. What builds is built already, and what
/// runs until Ctrl-C runs for a second.
fn script(block: &str) -> String {
    let commands = block.lines().filter_map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix("$ ")));
    let run = |command: &str| match command {
        built if built.starts_with("make ") => String::new(),
        watch if watch.contains(" events -w") => {
            let watch = watch.split(" #").next().unwrap_or(watch);
            format!("timeout 1 {watch} || [ $? = 124 ]\n")
        }
        command => format!("{command}\n"),
    };
    commands.map(run).collect()
}

/// Runs a script as root would in the root of a checkout, with private mounts, /etc, /run and
/// /var/lib.
fn paste(script: &str) {
    let namespace = volhost_tests::namespace::MountNamespace::new();
    let checkout = tempfile::tempdir().unwrap();
    // Where cargo builds is not always in the checkout.
    fs::create_dir_all(checkout.path().join("target/debug")).unwrap();
    let plugins = artifacts::plugin("empty-dir").parent().unwrap().to_owned();
    for (there, name) in [
        (artifacts::volhost(), "target/debug/volhost"),
        (plugins, "target/plugins"),
        (workspace().join("examples"), "examples"),
    ] {
        std::os::unix::fs::symlink(there, checkout.path().join(name)).unwrap();
    }
    let first = blocks(&read("README.md").unwrap(), "yaml").remove(0);
    fs::write(checkout.path().join("first.yaml"), first).unwrap();
    let script = format!(
        "set -e\nfor folder in /etc /run /var/lib; do mount -t tmpfs private $folder; done\ncd {}\ntrap 'kill $daemon; wait' EXIT\n{}",
        checkout.path().display(),
        script.replace(" &\n", " & daemon=$!\n")
    );
    let ran = namespace.command("sh").args(["-xc", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}\n{said}");
}

#[test]
fn the_first_pod_of_the_readme_works_as_pasted() {
    let page = read("README.md").unwrap();
    let block = blocks(&page, "console").into_iter().find(|block| block.contains("first.yaml")).unwrap();
    paste(&script(&block));
}

#[test]
fn getting_started_works_as_pasted() {
    let page = read("docs/getting-started.md").unwrap();
    let blocks = blocks(&page, "console");
    paste(&format!("{}cp first.yaml /etc/volhost/manifests/\n{}", script(&blocks[0]), script(&blocks[1])));
}

#[test]
fn the_demo_shows_the_examples_volumes_and_leaves_nothing() {
    let namespace = volhost_tests::namespace::MountNamespace::new();
    let plugins = artifacts::plugin("empty-dir").parent().unwrap().to_owned();
    let mut command = namespace.command(workspace().join("examples/demo.sh"));
    command.env("VOLHOST_BIN", artifacts::volhost()).env("VOLHOST_PLUGIN_DIR", plugins);
    let ran = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("Done: nothing is left behind."), "{said}");
    for pod in ["database", "reader", "scratch"] {
        assert!(said.contains(&format!("pod default/{pod} is mounted")), "{said}");
    }
}

#[test]
fn each_way_to_install_volhost_installs_the_list_of_shipped_plugins() {
    for (page, path) in [
        ("deploy/install.sh", "$prefix/lib/volhost/shipped-plugins.sha256"),
        ("docs/csi-serve.md", "/usr/local/lib/volhost/shipped-plugins.sha256"),
        ("docs/grants.md", "`../lib/volhost/shipped-plugins.sha256`"),
    ] {
        assert!(read(page).unwrap().contains(path), "{page} does not name {path}");
    }
}
