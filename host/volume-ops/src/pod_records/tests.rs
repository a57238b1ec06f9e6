//! A file cut off, damaged, or of another version; and the folder of files on a kernel in memory.

use std::ffi::OsStr;
use std::path::Path;

use volhost_kernel::{Durability, Kernel};
use volhost_model::VolumeSpec;
use volhost_model::names::UniqueVolumeName;
use volhost_testing_kernel::InMemoryKernel;

use super::super::mount_records::MountRecords;
use super::super::records::RecordedTarget;
use super::*;

fn uid(name: &str) -> PodUid {
    PodUid::new(name).unwrap()
}

fn plugin() -> PluginName {
    PluginName::new("a/b").unwrap()
}

fn record(pod: &str, name: &str) -> MountRecord {
    let pod = Arc::new(Pod::unknown(uid(pod)));
    let spec = VolumeSpec {
        name: SpecName::new(name).unwrap(),
        source: "hostPath".to_owned(),
        fields: Default::default(),
        read_only: false,
        selinux_label: None,
        persistent_volume: None,
    };
    let unique_name = UniqueVolumeName::of_pod(&plugin(), &pod.uid, &spec.name);
    let target = RecordedTarget::Mount;
    MountRecord::new(pod, plugin(), "digest".to_owned(), unique_name, Arc::new(spec), target)
}

fn names(records: &PodRecords) -> Vec<&str> {
    records.keys().map(|(_, name)| name.as_str()).collect()
}

/// A file in which `one` and `two` were published, and `one` was unpublished.
fn file() -> Vec<u8> {
    let (one, two) = (record("uid-1", "one"), record("uid-1", "two"));
    let lines = Lines::default().pod(&one.pod).unwrap().volume(&one.volume).unwrap().volume(&two.volume).unwrap();
    lines.gone(&one.volume.plugin, &one.volume.spec.name).unwrap().as_bytes().to_vec()
}

#[test]
fn a_file_says_what_is_published() {
    let read = PodRecords::parse(&uid("uid-1"), &file()).unwrap();
    assert_eq!(names(&read), ["two"]);
    assert!(!read.has_torn_end());
    let shorter = read.lines().unwrap();
    assert!(shorter.as_bytes().len() < file().len());
    assert_eq!(names(&PodRecords::parse(&uid("uid-1"), shorter.as_bytes()).unwrap()), ["two"]);
}

#[test]
fn a_file_that_is_cut_off_anywhere_says_what_was_said_up_to_the_last_whole_line() {
    let whole = file();
    for length in 0..whole.len() {
        let cut = &whole[..length];
        let read = PodRecords::parse(&uid("uid-1"), cut).unwrap();
        let lines = cut.iter().filter(|byte| **byte == b'\n').count();
        let expected: &[&str] = match lines {
            0 | 1 => &[],
            2 => &["one"],
            _ => &["one", "two"],
        };
        assert_eq!(names(&read), expected, "{length}");
        assert_eq!(read.has_torn_end(), !cut.is_empty() && !cut.ends_with(b"\n"), "{length}");
    }
}

#[test]
fn any_other_line_that_cannot_be_read_makes_the_file_unusable() {
    let text = String::from_utf8(file()).unwrap();
    let bad = [
        text.replacen("{\"volume\"", "{\"volu", 1),
        text.replacen('\n', "\n\0\n", 1),
        text.replacen("gone", "went", 1),
        text.replacen("\"version\":2", "\"version\":3", 1),
        text.replacen("uid-1", "uid-2", 1),
        text.lines().skip(1).map(|line| format!("{line}\n")).collect(),
    ];
    let reasons: Vec<String> =
        bad.iter().map(|text| PodRecords::parse(&uid("uid-1"), text.as_bytes()).unwrap_err().to_string()).collect();
    for (reason, part) in reasons.iter().zip(["line 2", "line 2", "line 4", "version 3", "another pod", "no pod"]) {
        assert!(reason.contains(part), "{reason}");
    }
}

/// A folder of records on a kernel in memory.
struct Folder {
    kernel: Arc<InMemoryKernel>,
    records: MountRecords,
}

impl Folder {
    fn new() -> Self {
        let kernel = Arc::new(InMemoryKernel::new());
        let records = Self::records(&kernel);
        Self { kernel, records }
    }

    fn records(kernel: &Arc<InMemoryKernel>) -> MountRecords {
        let state = kernel.open_directory(Path::new("/")).unwrap();
        MountRecords::new(kernel.clone(), Arc::new(state))
    }

    /// The records of a new process.
    fn restarted(mut self) -> Self {
        self.records = Self::records(&self.kernel);
        self
    }

    fn bytes(&self, pod: &str) -> Option<Vec<u8>> {
        let folder = self.kernel.open_directory(Path::new("/pods")).unwrap();
        self.kernel.read_file(&folder, OsStr::new(pod), 1 << 30).unwrap()
    }

    fn remove(&self, pod: &str, name: &str) {
        self.records.remove(&uid(pod), &plugin(), &SpecName::new(name).unwrap()).unwrap();
    }

    fn names(&self, pod: &str) -> Vec<String> {
        names(&self.records.read(&uid(pod)).unwrap()).into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn a_pods_object_is_written_once_while_its_file_is_open() {
    let folder = Folder::new();
    let open = folder.records.file(&uid("uid-1"));
    for name in ["one", "two", "three"] {
        folder.records.write(&record("uid-1", name)).unwrap();
    }
    folder.remove("uid-1", "two");
    let text = String::from_utf8(folder.bytes("uid-1").unwrap()).unwrap();
    assert_eq!(text.matches("{\"pod\"").count(), 1, "{text}");
    assert_eq!(folder.names("uid-1"), ["one", "three"]);
    drop(open);
}

#[test]
fn what_follows_a_torn_end_is_no_part_of_it() {
    let folder = Folder::new();
    folder.records.write(&record("uid-1", "one")).unwrap();
    let mut bytes = folder.bytes("uid-1").unwrap();
    bytes.extend_from_slice(b"{\"volume\":{\"plu");
    let pods = folder.kernel.open_directory(Path::new("/pods")).unwrap();
    folder.kernel.write_atomic(&pods, OsStr::new("uid-1"), &bytes, 0o600, Durability::Process).unwrap();
    let folder = folder.restarted();
    assert_eq!(folder.names("uid-1"), ["one"]);
    // Had the start not removed it: the file is unusable, and not misread.
    folder.records.write(&record("uid-1", "two")).unwrap();
    assert!(folder.records.read(&uid("uid-1")).unwrap_err().to_string().contains("line 3"));
}

#[test]
fn a_file_of_many_refreshes_stays_small() {
    let folder = Folder::new();
    folder.records.write(&record("uid-1", "other")).unwrap();
    for _ in 0..2_000 {
        folder.records.write(&record("uid-1", "one")).unwrap();
    }
    assert!(folder.bytes("uid-1").unwrap().len() < 200_000);
    assert_eq!(folder.names("uid-1"), ["one", "other"]);
}

#[test]
fn a_file_goes_with_the_pods_folder_and_not_before() {
    let folder = Folder::new();
    folder.records.write(&record("uid-1", "one")).unwrap();
    folder.records.forget_pod(&uid("uid-1"), || Ok(false)).unwrap();
    assert_eq!(folder.names("uid-1"), ["one"]);
    let open = folder.records.file(&uid("uid-1"));
    folder.records.forget_pod(&uid("uid-1"), || Ok(true)).unwrap();
    assert_eq!(folder.bytes("uid-1"), None);
    // The pod comes again while its file is kept open.
    folder.records.write(&record("uid-1", "two")).unwrap();
    assert_eq!(folder.names("uid-1"), ["two"]);
    drop(open);
}
