//! `volhost-book VOLHOST FOLDER`: writes the book's pages into FOLDER, for mdBook. VOLHOST is the
//! program whose commands the book lists. Fails if a link leads nowhere.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use volhost_book::book::{Book, BookError, COMMANDS, CONTRACT};
use volhost_book::generated;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [volhost, folder] = words.as_slice() else {
        eprintln!("usage: volhost-book VOLHOST FOLDER");
        return ExitCode::from(2);
    };
    match make(Path::new(volhost), Path::new(folder)) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            eprintln!("{}", problems.join("\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(volhost: &Path, folder: &Path) -> Result<Vec<String>, BookError> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands = generated::commands(volhost, &folder.with_extension("man"))?;
    let book = Book::read(&checkout)?
        .with_generated(CONTRACT, generated::contract(&checkout)?)
        .with_generated(COMMANDS, commands);
    book.write(folder)?;
    Ok(book.problems())
}
