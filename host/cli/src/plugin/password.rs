//! Passwords of secret keys: from a terminal, or from a file.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use crate::error::CliError;

/// The longest password, in bytes: minisign's limit.
const BYTES: usize = 1024;

/// Where a password comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum PasswordSource<'a> {
    /// The terminal.
    Terminal,
    /// The first line of a file.
    File(&'a Path),
    /// The first line of standard input.
    StandardInput,
}

impl<'a> PasswordSource<'a> {
    /// The source that `--password-file` names.
    pub(super) fn of(file: Option<&'a Path>) -> Self {
        match file {
            None => Self::Terminal,
            Some(path) if path == Path::new("-") => Self::StandardInput,
            Some(path) => Self::File(path),
        }
    }

    /// Reads the password of the key in `key`.
    ///
    /// # Errors
    /// There is no terminal, the file cannot be read, or no password is in it.
    pub(super) fn read(self, key: &Path) -> Result<String, CliError> {
        let password = match self {
            Self::Terminal => ask(&format!("Password of {}: ", key.display()), key)?,
            Self::File(path) => {
                let failed = |source| CliError::File { path: path.to_owned(), source };
                first_line(File::open(path).map_err(failed)?).map_err(failed)?
            }
            Self::StandardInput => {
                first_line(io::stdin()).map_err(|source| CliError::File { path: "standard input".into(), source })?
            }
        };
        checked(password, key)
    }

    /// Reads the password of a new key; from a terminal twice.
    ///
    /// # Errors
    /// Likewise, or the two differ.
    pub(super) fn read_new(self, key: &Path) -> Result<String, CliError> {
        let password = self.read(key)?;
        if matches!(self, Self::Terminal) && ask("The password again: ", key)? != password {
            return Err(CliError::Failed("the two passwords differ; nothing was written".to_owned()));
        }
        Ok(password)
    }
}

fn ask(prompt: &str, key: &Path) -> Result<String, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage(format!(
            "there is no terminal to ask for the password of {}: name a file that has it with --password-file, or - for standard input",
            key.display()
        )));
    }
    rpassword::prompt_password(prompt).map_err(|source| CliError::File { path: "/dev/tty".into(), source })
}

fn first_line(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than a password and an end of line, so that a longer one is noticed.
    from.take(BYTES as u64 + 2).read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn checked(password: String, key: &Path) -> Result<String, CliError> {
    match password.len() {
        0 => Err(CliError::Failed(format!("the password of {} is empty", key.display()))),
        length if length > BYTES => {
            Err(CliError::Failed(format!("the password of {} has more than {BYTES} bytes", key.display())))
        }
        _ => Ok(password),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_file_is_the_password_and_none_is_refused() {
        let read = |content: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("password");
            std::fs::write(&file, content).unwrap();
            PasswordSource::of(Some(&file)).read(Path::new("acme.key"))
        };
        assert_eq!(read("two words\nand more\n").unwrap(), "two words");
        assert_eq!(read("no end of line").unwrap(), "no end of line");
        for (content, words) in [("", "is empty"), ("\nsecret", "is empty"), ("x".repeat(1025).as_str(), "1024 bytes")]
        {
            let refused = read(content).unwrap_err().to_string();
            assert!(refused.contains("acme.key") && refused.contains(words), "{refused}");
        }
    }
}
