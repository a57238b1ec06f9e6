//! What a plugin writes to its standard output and standard error, cut into lines for the log.

/// The longest line that is kept until its end comes, in bytes; a longer one is cut into several.
const LINE_BYTES: usize = 4096;

/// The line that is being written.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// Takes what was written; the lines that it ended.
    pub(super) fn take(&mut self, written: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for byte in written {
            if *byte != b'\n' {
                self.0.push(*byte);
            }
            if *byte == b'\n' || self.0.len() >= LINE_BYTES {
                ended.extend(self.rest());
            }
        }
        ended
    }

    /// The line that was begun and not ended; none when nothing is in it.
    pub(super) fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.0);
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_what_was_written() {
        let mut lines = Lines::default();
        assert!(lines.take(b"one").is_empty());
        assert_eq!(lines.take(b" line\n\nanother\nand"), ["one line", "another"]);
        assert_eq!(lines.rest().as_deref(), Some("and"));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::default();
        let ended = lines.take(&vec![b'x'; 3 * LINE_BYTES + 1]);
        assert_eq!(ended.len(), 3);
        assert_eq!(lines.rest().as_deref(), Some("x"));
    }
}
