
impl Core {
    /// Returns what is mounted, staged or attached, or may be.
    pub(crate) fn actual(&self) -> &Actual {
        &self.actual
    }

    /// The operation table.
    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }
}
