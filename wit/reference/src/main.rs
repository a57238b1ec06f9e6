//! `volhost-wit reference`: prints the reference page of the book. `volhost-wit check`: checks that
//! the contract is compatible with the plugins of its last release. `volhost-wit record`: records
//! the contract as released, under its version.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use volhost_wit::compatibility::breaks;
use volhost_wit::contract::Contract;
use volhost_wit::page;
use volhost_wit::surface::Surface;

const USAGE: &str = "usage: volhost-wit reference|check|record";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [command] = words.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str) -> Result<bool, Box<dyn Error>> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let contract = Contract::read(&checkout.join("wit"))?;
    let name = contract.name();
    let version = name.split('@').nth(1).ok_or("the contract has no version")?;
    let released = checkout.join("wit/released").join(format!("{version}.wit"));
    match command {
        "reference" => print!("{}", page::render(&contract)),
        "record" => fs::write(&released, contract.text()?)?,
        "check" => return check(&contract, &released),
        _ => return Err(USAGE.into()),
    }
    Ok(true)
}

fn check(contract: &Contract, released: &Path) -> Result<bool, Box<dyn Error>> {
    let found = breaks(&Surface::of(&Contract::read(released)?), &Surface::of(contract));
    for one in &found {
        eprintln!("{one}");
    }
    Ok(found.is_empty())
}
