//! Which programs the daemon starts.

/// The kinds of programs that the daemon starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// The daemon's own compiler and the tools of file systems.
    Own,
    /// The operator's drivers besides.
    Drivers,
}
