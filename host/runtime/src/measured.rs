//! What a plugin knows of a volume that it was asked to measure.

/// A plugin's report on a volume's usage and health. Bytes and counts; none for what it leaves to
/// the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// Bytes in all.
    pub capacity: Option<u64>,
    /// Bytes that the pod may still write.
    pub available: Option<u64>,
    /// Bytes in use.
    pub used: Option<u64>,
    /// Files and folders in all.
    pub inodes: Option<u64>,
    /// Files and folders that may still be made.
    pub inodes_free: Option<u64>,
    /// Files and folders that there are.
    pub inodes_used: Option<u64>,
    /// Why the volume is not well; none when it is. One line, bounded.
    pub abnormal: Option<String>,
}
