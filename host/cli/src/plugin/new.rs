//! `volhost plugin new`.

use std::env;
use std::path::{Path, PathBuf};

use volhost_flex_drivers::probe;
use volhost_plugin_new::{File, Name, NameError, Sdk, Template, flex::Driver, write};

use crate::arguments::{NewArguments, TemplateChoice};
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;
use volhost_model::text::error_chain;

/// Writes the crate, and prints the next steps.
pub(super) fn run(arguments: &NewArguments, output: &mut Output) -> Result<(), CliError> {
    let sdk = sdk(arguments.sdk.as_deref())?;
    let (name, files) = match &arguments.from_flex {
        None => {
            let name = arguments.name.as_deref().unwrap_or_default().parse().map_err(refused)?;
            let template = match arguments.template {
                TemplateChoice::Minimal => Template::Minimal,
                TemplateChoice::Block => Template::Block,
                TemplateChoice::Fuse => Template::Fuse,
                TemplateChoice::Network => Template::Network,
            };
            let files = template.files(&name, &sdk);
            (name, files)
        }
        Some(driver) => from_flex(driver, arguments, &sdk)?,
    };
    let folder = arguments.path.clone().unwrap_or_else(|| PathBuf::from(name.crate_name()));
    write(&folder, &files).map_err(|error| CliError::Failed(error_chain(&error)))?;
    report(&name, &folder, &files, output)
}

fn from_flex(driver: &Path, arguments: &NewArguments, sdk: &Sdk) -> Result<(Name, Vec<File>), CliError> {
    let asked = probe(driver, &arguments.flex_driver_dir).map_err(|error| CliError::Failed(error.to_string()))?;
    let driver = Driver::read(&asked.name, &asked.answer, asked.script.as_deref())
        .map_err(|error| CliError::Failed(format!("{}: {error}", asked.name)))?;
    let name =
        arguments.name.clone().unwrap_or_else(|| driver.plugin_name()).parse::<Name>().map_err(
            |error| match arguments.name {
                Some(_) => refused(error),
                None => CliError::Failed(format!("{error}; name the plugin: volhost plugin new NAME --from-flex ...")),
            },
        )?;
    let files = driver.files(&name, sdk);
    Ok((name, files))
}

fn refused(error: NameError) -> CliError {
    CliError::Usage(error.to_string())
}

/// The SDK of the crate: the given folder, else the checkout that this program was built in, else
/// crates.io.
fn sdk(said: Option<&Path>) -> Result<Sdk, CliError> {
    if let Some(folder) = said {
        let absolute = folder
            .canonicalize()
            .map_err(|source| CliError::File { path: folder.to_owned(), source })
            .and_then(|folder| if is_sdk(&folder) { Ok(folder) } else { Err(no_sdk(&folder)) })?;
        return Ok(Sdk::Folder(absolute));
    }
    let beside = env::current_exe().ok().and_then(|program| {
        // CHECKOUT/target/PROFILE/volhost
        let folder = program.ancestors().nth(3)?.join("plugin-sdk");
        is_sdk(&folder).then_some(folder)
    });
    Ok(beside.map_or_else(|| Sdk::Version(env!("CARGO_PKG_VERSION").to_owned()), Sdk::Folder))
}

fn is_sdk(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| line.trim() == "name = \"volhost-plugin-sdk\"")
}

fn no_sdk(folder: &Path) -> CliError {
    CliError::Failed(format!(
        "{}: it is not the crate volhost-plugin-sdk; --sdk names the folder plugin-sdk of a checkout of volhost",
        folder.display()
    ))
}

fn report(name: &Name, folder: &Path, files: &[File], output: &mut Output) -> Result<(), CliError> {
    let shown = printable(&folder.display().to_string());
    output.line(&format!("Wrote the plugin {name} to {shown}:"))?;
    for file in files {
        output.line(&format!("  {}", file.path.display()))?;
    }
    let run = if files.iter().any(|file| file.path.ends_with("volume.yaml")) {
        "\n  volhost plugin test     # as root: all that, then the contract, on the real kernel\n  volhost plugin run      # as root: a shell in a volume of it\n  volhost plugin dev      # as root: that, with the plugin built anew and replaced whenever you save"
    } else {
        "\n  less README.md          # what is left to write"
    };
    output.line(&format!(
        "\nNext:\n  cd {shown}\n  cargo test              # its logic, against a double of the host\n  volhost plugin build    # the component{run}"
    ))
}
