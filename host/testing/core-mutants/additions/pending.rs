
impl PendingOperations {
    /// The volume's failed keys.
    pub(crate) fn failed_on<'a>(
        &'a self,
        volume: &VolumeId,
    ) -> impl Iterator<Item = (&'a Scope, &'a FailedKey)> + use<'a> {
        self.volumes.get(volume).into_iter().flat_map(|of| &of.failed)
    }
}
