//! The help and the documentation name every command and option.

use super::*;

#[test]
fn the_command_is_consistent() {
    command().debug_assert();
}

#[test]
fn the_first_page_names_every_command_and_nothing_else() {
    let page = command().render_help().to_string();
    for command in command().get_subcommands() {
        let listed = page.contains(&format!("\n  {} ", command.get_name()));
        assert_eq!(listed, !command.is_hide_set(), "{}", command.get_name());
    }
    for code in ["Exit codes:", "3  the daemon cannot be reached"] {
        assert!(page.contains(code), "{page}");
    }
}

#[test]
fn each_option_of_run_names_its_variable() {
    let page = command().find_subcommand_mut("run").unwrap().render_long_help().to_string();
    assert!(page.contains("[env: VOLHOST_PLUGIN_CPU_TIME]"), "{page}");
    assert!(page.contains("[env: VOLHOST_CONFIG]"), "{page}");
}

/// The names of commands that `page` lacks.
fn unnamed(command: &clap::Command, page: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        if !page.contains(inner.get_name()) {
            missing.push(inner.get_name().to_owned());
        }
        missing.extend(unnamed(inner, page));
    }
    missing
}

#[test]
fn the_documentation_names_every_command_and_every_option_of_run() {
    let cli = include_str!("../../../../docs/cli.md");
    assert_eq!(unnamed(&command(), cli), Vec::<String>::new());
    let configuration = include_str!("../../../../docs/configuration.md");
    for option in command().find_subcommand("run").unwrap().get_arguments().filter_map(clap::Arg::get_long) {
        assert!(configuration.contains(&format!("`--{option}")), "{option}");
    }
}
