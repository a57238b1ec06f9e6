//! A FUSE file system whose server stops telling how full it is, and goes on when it is told to.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use volhost_tests::Node;

// From linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;
/// The kernel refuses to hand requests over into less.
const BUFFER: usize = 256 << 10;

/// The server's end.
pub(crate) struct HungStorage {
    device: File,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    hangs: bool,
    unanswered: Vec<u64>,
}

impl HungStorage {
    /// Mounts a file system that answers, for the node, at a folder that is there.
    pub(crate) fn mount(node: &Node, at: &Path) -> Self {
        let device = File::options().read(true).write(true).open("/dev/fuse").expect("/dev/fuse (modprobe fuse)");
        let state = Arc::<Mutex<State>>::default();
        // The device knows no mount before `mount` has run, and cannot be read before.
        let mounted = node
            .inside("mount")
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other", "hung"])
            .arg(at)
            .stdin(device.try_clone().unwrap())
            .status()
            .unwrap();
        assert!(mounted.success());
        let (requests, answering) = (device.try_clone().unwrap(), state.clone());
        std::thread::spawn(move || serve(requests, &answering));
        Self { device, state }
    }

    /// From now on nobody learns how full it is.
    pub(crate) fn hang(&self) {
        self.state.lock().unwrap().hangs = true;
    }

    /// Answers what was asked meanwhile, and from now on.
    pub(crate) fn go_on(&self) {
        let mut state = self.state.lock().unwrap();
        state.hangs = false;
        for unique in state.unanswered.drain(..) {
            answer(&self.device, unique, 0, &statfs());
        }
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn is_asked(&self) -> bool {
        !self.state.lock().unwrap().unanswered.is_empty()
    }
}

fn serve(mut device: File, state: &Mutex<State>) {
    let mut buffer = vec![0; BUFFER];
    // The read fails when the file system is gone.
    while let Ok(length) = device.read(&mut buffer) {
        assert!(length >= 40, "a request has a header");
        let opcode = u32::from_le_bytes(buffer[4..8].try_into().unwrap());
        let unique = u64::from_le_bytes(buffer[8..16].try_into().unwrap());
        match opcode {
            FORGET | BATCH_FORGET | INTERRUPT => {}
            INIT => answer(&device, unique, 0, &init()),
            GETATTR => answer(&device, unique, 0, &attributes()),
            LOOKUP => answer(&device, unique, ENOENT, &[]),
            STATFS => {
                let mut state = state.lock().unwrap();
                if state.hangs {
                    state.unanswered.push(unique);
                } else {
                    answer(&device, unique, 0, &statfs());
                }
            }
            _ => answer(&device, unique, ENOSYS, &[]),
        }
    }
}

fn answer(mut device: &File, unique: u64, error: i32, body: &[u8]) {
    let length = u32::try_from(16 + body.len()).unwrap();
    let mut reply = Vec::from(length.to_le_bytes());
    reply.extend((-error).to_le_bytes());
    reply.extend(unique.to_le_bytes());
    reply.extend(body);
    // Whoever asked may have been killed meanwhile.
    let _ = device.write_all(&reply);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Protocol 7.31, reads and writes of a page.
fn init() -> Vec<u8> {
    let mut reply = words(&[7, 31, 4096, 0, 0, 4096, 1]);
    reply.resize(64, 0);
    reply
}

/// The root: an empty folder that everybody may enter; to be asked for again each time.
fn attributes() -> Vec<u8> {
    let mut reply = vec![0; 16];
    let mut root = vec![0; 88];
    root[0..8].copy_from_slice(&1_u64.to_le_bytes());
    root[60..64].copy_from_slice(&0o40_777_u32.to_le_bytes());
    root[64..68].copy_from_slice(&2_u32.to_le_bytes());
    reply.extend(root);
    reply
}

/// A thousand blocks of 4 KiB, half of them free.
fn statfs() -> Vec<u8> {
    let mut reply: Vec<u8> = [1000_u64, 500, 500, 100, 50].iter().flat_map(|figure| figure.to_le_bytes()).collect();
    reply.extend(words(&[4096, 255, 4096]));
    reply.resize(80, 0);
    reply
}
