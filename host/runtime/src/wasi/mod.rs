//! WASI 0.2, served by a host that has nothing.
//!
//! A language's runtime imports WASI whether or not the plugin uses it: files, sockets, the environment, clocks. Such a component loads
//! without a grant, and every function it calls answers as on a machine that is empty: no folder is open, no variable is set, nothing can be
//! connected to, standard input has ended. Nothing here makes a system call on a plugin's behalf but one, for random bytes.
//!
//! | what | is |
//! |---|---|
//! | standard output, standard error | lines in the call's log, within its bounds |
//! | `exit` | the end of the call |
//! | the clocks | a clock of the call's own ([`clock`]): it begins at 0 and tells nothing of the node |
//! | `random` | the kernel's; `insecure` and `insecure-seed` are the same in every call |
//! | a handle | an entry of the call's table, and so within its bounds |
//! | everything else | [`nothing`]: an empty list, none, "access denied" |
//!
//! The functions are not written out by their types. A component brings the types of what it imports with it, and is answered by them; that
//! serves every 0.2.x release, and no code for files or sockets is linked into this process.

mod answers;
mod clock;
mod link;
mod nothing;
mod output;

pub(crate) use link::{is_served, link};

use clock::CallClock;
use output::Lines;

/// What WASI has of one call.
#[derive(Debug, Default)]
pub(crate) struct Wasi {
    clock: CallClock,
    output: Lines,
    errors: Lines,
    /// The state of the random numbers that are the same in every call.
    insecure: u64,
}

impl Wasi {
    /// The lines that are whole with what was written.
    pub(crate) fn lines(&mut self, source: Source, written: &[u8]) -> Vec<String> {
        match source {
            Source::Output => self.output.take(written),
            Source::Errors => self.errors.take(written),
        }
    }

    /// The lines that were begun and not ended.
    pub(crate) fn unfinished(&mut self) -> impl Iterator<Item = (Source, String)> {
        let begun = [(Source::Output, self.output.rest()), (Source::Errors, self.errors.rest())];
        begun.into_iter().filter_map(|(source, line)| Some((source, line?)))
    }
}

/// Which of its two streams a plugin wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Output,
    Errors,
}

/// What a plugin holds a handle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    /// Something that has nothing in it, and is ready at once: standard input, the network.
    Nothing,
    /// Standard output or standard error.
    Stream(Source),
    /// A moment of the call's clock.
    Moment(u64),
}
