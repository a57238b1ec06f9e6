//! The lines that a plugin writes to its standard output and standard error.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// The longest write that a stream offers to accept, in bytes: what `blocking-write-and-flush`
/// allows.
const WRITE_BYTES: usize = 4096;
/// The longest line, in bytes; a longer one is cut into several.
const LINE_BYTES: usize = 4096;

/// Which of its two streams a plugin writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// Standard output or standard error: always ready, and never full. It keeps what the plugin has
/// written and the log does not have yet: at most one write and one unfinished line, since each
/// call of the host takes the lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream(Arc<Mutex<Vec<u8>>>);

impl Stream {
    /// Takes the complete lines, and with `at_end` the unfinished one too.
    pub(super) fn take_lines(&self, at_end: bool) -> Vec<String> {
        let mut written = self.written();
        let taken = match written.iter().rposition(|byte| *byte == b'\n') {
            _ if at_end => written.len(),
            Some(newline) => newline.saturating_add(1),
            None if written.len() >= LINE_BYTES => written.len(),
            None => 0,
        };
        let text: Vec<u8> = written.drain(..taken).collect();
        let lines = text.split(|byte| *byte == b'\n').flat_map(|line| line.chunks(LINE_BYTES));
        lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    fn written(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    /// WASI 0.2 does not use it.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.written().extend_from_slice(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }

    /// Drops the zeroes: the default would allocate as many as the plugin asks for.
    fn write_zeroes(&mut self, _count: usize) -> StreamResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(stream: &Stream, text: &[u8]) -> Vec<String> {
        stream.clone().write(Bytes::copy_from_slice(text)).unwrap();
        stream.take_lines(false)
    }

    #[test]
    fn lines_are_put_together_from_what_was_written() {
        let stream = Stream::default();
        assert!(write(&stream, b"one").is_empty());
        assert_eq!(write(&stream, b" line\n\nanother\nand"), ["one line", "another"]);
        assert_eq!(stream.take_lines(true), ["and"]);
        assert!(stream.take_lines(true).is_empty());
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let stream = Stream::default();
        let lines: Vec<_> = write(&stream, &vec![b'x'; 3 * LINE_BYTES + 1]).iter().map(String::len).collect();
        assert_eq!(lines, [LINE_BYTES, LINE_BYTES, LINE_BYTES, 1]);
    }
}
