
impl Core {
    /// The key of the volume of this name.
    pub(crate) fn volume_id(&self, name: &UniqueVolumeName) -> Option<&VolumeId> {
        self.volume_names.get(name)
    }

    /// Returns what is mounted, staged or attached, or may be.
    pub(crate) fn actual(&self) -> &ActualState {
        &self.actual
    }

    /// The operation table.
    pub(crate) fn pending(&self) -> &PendingOperations {
        &self.pending
    }
}
