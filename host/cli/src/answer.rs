//! The answer of a person to a question.

use std::io::BufRead;

use super::error::CliError;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES: u64 = 64;

/// Reads an answer. No answer is no.
pub(super) fn is_yes(input: impl BufRead) -> Result<bool, CliError> {
    let mut answer = String::new();
    let read = input.take(ANSWER_BYTES).read_line(&mut answer);
    read.map_err(|source| CliError::File { path: "standard input".into(), source })?;
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y", "yes\n", " YES \n", "y\nn\n"] {
            assert!(is_yes(yes.as_bytes()).unwrap(), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yess\n", "\ny\n", "yes, but\n"] {
            assert!(!is_yes(no.as_bytes()).unwrap(), "{no:?}");
        }
        assert!(!is_yes("y".repeat(1 << 20).as_bytes()).unwrap());
    }
}
