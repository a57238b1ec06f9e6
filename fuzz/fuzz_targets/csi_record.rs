//! The record of a volume that a plugin serves as a CSI driver, as it is found on disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use records::ServedVolume;

// The name by which the records' files know the crate of the protocol, which would link gRPC.
extern crate self as volhost_proto;

#[allow(dead_code, reason = "only the record's form is read here")]
#[path = "../../host/csi-driver/src/records.rs"]
mod records;
#[allow(dead_code, reason = "only the record's form is read here")]
#[path = "../../host/csi-driver/src/source.rs"]
mod source;
#[allow(dead_code, reason = "only the record's form is read here")]
#[path = "../../host/csi-driver/src/usage.rs"]
mod usage;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = serde_json::from_slice::<ServedVolume>(bytes) else { return };
    for published in record.published.values() {
        // What later calls ask of a record never fails.
        let usage = &published.usage;
        let _ = (usage.is_read_only(), usage.is_for_one(), usage.is_for_many_nodes(), usage.kubernetes_mode());
    }
    let written = serde_json::to_vec(&record).expect("a record is JSON");
    // Not compared: the last digit of a fraction in a volume's source may differ.
    assert!(serde_json::from_slice::<ServedVolume>(&written).is_ok(), "it reads what it writes");
});

/// As in the driver, whose file needs gRPC.
mod refusal {
    use volhost_kernel::KernelError;

    pub(crate) type Result<T> = std::result::Result<T, Refusal>;

    pub(crate) enum Refusal {
        Field,
        Kernel,
        Lost(#[allow(dead_code, reason = "it is not read here")] String),
    }

    impl Refusal {
        pub(crate) fn field(_: &str, _: impl Into<String>) -> Self {
            Self::Field
        }

        pub(crate) fn kernel(_: &'static str, _: String, _: KernelError) -> Self {
            Self::Kernel
        }
    }
}

mod check {
    pub(crate) fn shown(text: &str) -> String {
        text.to_owned()
    }
}

/// The messages of a request as far as the files above name them.
pub mod csi {
    pub struct VolumeCapability {
        pub access_mode: Option<volume_capability::AccessMode>,
        pub access_type: Option<volume_capability::AccessType>,
    }

    pub mod volume_capability {
        #[derive(Clone, Copy)]
        pub struct AccessMode {
            pub mode: i32,
        }

        pub enum AccessType {
            Block(()),
            Mount(MountVolume),
        }

        pub struct MountVolume {
            pub fs_type: String,
            pub mount_flags: Vec<String>,
            pub volume_mount_group: String,
        }

        pub mod access_mode {
            #[derive(Clone, Copy, PartialEq, Eq)]
            pub enum Mode {
                Unknown,
                SingleNodeWriter,
                SingleNodeReaderOnly,
                MultiNodeReaderOnly,
                MultiNodeSingleWriter,
                MultiNodeMultiWriter,
                SingleNodeSingleWriter,
                SingleNodeMultiWriter,
            }

            const MODES: [Mode; 8] = [
                Mode::Unknown,
                Mode::SingleNodeWriter,
                Mode::SingleNodeReaderOnly,
                Mode::MultiNodeReaderOnly,
                Mode::MultiNodeSingleWriter,
                Mode::MultiNodeMultiWriter,
                Mode::SingleNodeSingleWriter,
                Mode::SingleNodeMultiWriter,
            ];

            impl TryFrom<i32> for Mode {
                type Error = ();

                fn try_from(number: i32) -> Result<Self, ()> {
                    usize::try_from(number).ok().and_then(|number| MODES.get(number).copied()).ok_or(())
                }
            }

            impl From<Mode> for i32 {
                fn from(mode: Mode) -> Self {
                    mode as i32
                }
            }
        }
    }
}
