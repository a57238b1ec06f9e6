
impl Core {
    /// Returns what is mounted, staged or attached, or may be.
    pub(crate) fn actual(&self) -> &ActualState {
        &self.actual
    }

    /// The operation table.
    pub(crate) fn pending(&self) -> &PendingOperations {
        &self.pending
    }
}
