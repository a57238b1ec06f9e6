//! Finds whether a device was ever written: it is blank where it reads as zeros. That no tool
//! recognises what is on it says nothing: a database, a tar or a pod's own format has no signature.
//!
//! Of an image file the kernel reports where it has data, so that nothing is missed there unless
//! there is a lot of it. A disk reports nothing; a large one is read at both ends and at places in
//! between.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::block_device::{asking, open_device, open_node};
use super::ioctl::{device_bytes, zero_out};
use super::loop_table::backing_file;
use crate::block_devices::BlockDevice;
use crate::error::Result;
use crate::step::Step;

/// Of a device with no more data than this, in bytes, every byte is read: a quarter of a second on
/// a slow disk's cache.
const WHOLE_BYTES: u64 = 64 << 20;
/// What is read of a larger one at its beginning and its end, in bytes: there file systems,
/// partition tables, RAID and tools that encrypt put what they are known by, and a program that
/// writes without any format begins there.
const END_BYTES: u64 = 1 << 20;
/// How many places are read between, and how much at each, in bytes: 5 s on a disk that seeks.
const SAMPLES: u64 = 512;
const SAMPLE_BYTES: u64 = 32 << 10;
/// How much is read at once, in bytes.
const READ_BYTES: usize = 256 << 10;
/// A file whose data lies in more pieces than this was written, in whatever way.
const MOST_EXTENTS: usize = 1 << 16;

/// A part of a device: its first byte, and the one after its last.
type Extent = (u64, u64);

/// The first byte found on a device that is not zero, none if the device is blank. What other
/// programs have written to the device is seen.
///
/// # Errors
/// `Failed` if a part cannot be read: that is never blank; `DeviceError::Gone`.
pub(super) fn first_data(device: &BlockDevice) -> Result<Option<u64>> {
    let failed = |errno| asking(device, Step::ReadDevice, errno);
    let opened = open_device(device, Step::ReadDevice)?;
    let size = device_bytes(&opened).map_err(failed)?;
    let written = match data_extents(device, &opened, size).map_err(failed)? {
        WrittenRanges::Unknown => vec![(0, size)],
        WrittenRanges::Extents(extents) => extents,
        WrittenRanges::TooMany(first) => return Ok(Some(first)),
    };
    let mut buffer = vec![0; READ_BYTES];
    for extent in to_read(&written, size) {
        if let Some(found) = data_in(&opened, extent, &mut buffer).map_err(failed)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Zeroes what has been written to an image's device; of a device that does not report where that
/// is, nothing. For a device that was blank before and that no other process writes to.
///
/// # Errors
/// As [`first_data`].
pub(super) fn zero_data(device: &BlockDevice) -> Result<()> {
    let failed = |errno| asking(device, Step::EraseDevice, errno);
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let opened = open_node(device.as_fd(), flags).map_err(failed)?;
    let size = device_bytes(&opened).map_err(failed)?;
    if let WrittenRanges::Extents(extents) = data_extents(device, &opened, size).map_err(failed)? {
        for (from, to) in extents {
            zero_out(&opened, from, to - from).map_err(failed)?;
        }
    }
    Ok(())
}

/// Where a device has been written.
enum WrittenRanges {
    /// The device does not report it.
    Unknown,
    /// In these parts, in order.
    Extents(Vec<Extent>),
    /// In very many parts, of which this is where the first begins.
    TooMany(u64),
}

/// Where the file below a loop device has data.
fn data_extents(device: &BlockDevice, opened: &File, size: u64) -> std::result::Result<WrittenRanges, Errno> {
    let Some(file) = backing_file(device.number(), opened)? else { return Ok(WrittenRanges::Unknown) };
    // What was written to the device, and is not in the file yet, would look like a hole.
    rustix::fs::fsync(opened)?;
    let mut extents = Vec::new();
    let mut from = 0;
    while from < size {
        let begin = match seek(&file, SeekFrom::Data(from)) {
            Ok(begin) if begin < size => begin,
            // Nothing but a hole is left, or what follows is beyond the device's last sector.
            Ok(_) | Err(Errno::NXIO) => break,
            // A file system that does not report it.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(WrittenRanges::Unknown),
            Err(errno) => return Err(errno),
        };
        let end = seek(&file, SeekFrom::Hole(begin))?.min(size);
        if let (MOST_EXTENTS.., Some((first, _))) = (extents.len(), extents.first()) {
            return Ok(WrittenRanges::TooMany(*first));
        }
        extents.push((begin, end));
        from = end;
    }
    Ok(WrittenRanges::Extents(extents))
}

/// Which parts are read, in order, of a device of this size that has been written in `written`.
fn to_read(written: &[Extent], size: u64) -> Vec<Extent> {
    let total: u64 = written.iter().map(|(from, to)| to - from).sum();
    if total <= WHOLE_BYTES {
        return written.to_vec();
    }
    // The ends first: there most is found.
    let ends = [(0, END_BYTES.min(size)), (size.saturating_sub(END_BYTES), size)];
    let cut = |(from, to): Extent, (least, most): Extent| (from.max(least), to.min(most));
    let mut parts: Vec<Extent> =
        ends.iter().flat_map(|end| written.iter().map(|extent| cut(*extent, *end))).filter(|(a, b)| a < b).collect();
    // And places at equal distances, counted in what was written.
    let step = (total / SAMPLES).max(SAMPLE_BYTES);
    let mut due = 0;
    let mut before = 0;
    for (from, to) in written {
        let length = to - from;
        while due < before + length {
            let begin = from + (due - before);
            parts.push((begin, to.min(&(begin + SAMPLE_BYTES)).to_owned()));
            due += step;
        }
        before += length;
    }
    parts
}

/// The first byte in a part that is not zero.
fn data_in(device: &File, (from, to): Extent, buffer: &mut [u8]) -> std::result::Result<Option<u64>, Errno> {
    let mut at = from;
    while at < to {
        let length = usize::try_from(to - at).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..length).unwrap_or_default();
        device.read_exact_at(part, at).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if let Some(found) = part.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += length as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_data_is_read_whole() {
        let written = [(0, 4096), (1 << 30, (1 << 30) + 8192)];
        assert_eq!(to_read(&written, 1 << 40), written);
    }

    #[test]
    fn of_a_large_disk_both_ends_and_places_in_between_are_read() {
        let size = 10 << 40;
        let parts = to_read(&[(0, size)], size);
        assert_eq!(parts[..2], [(0, END_BYTES), (size - END_BYTES, size)]);
        let total: u64 = parts.iter().map(|(from, to)| to - from).sum();
        assert!(total <= 2 * END_BYTES + (SAMPLES + 1) * SAMPLE_BYTES, "{total}");
        assert!(parts.iter().any(|(from, _)| *from > size / 2 && *from < size - END_BYTES));
        let gaps = parts[2..].windows(2).all(|pair| pair[1].0 - pair[0].0 <= size / SAMPLES + 1);
        assert!(gaps, "no larger part than one in {SAMPLES} is left out");
    }
}
