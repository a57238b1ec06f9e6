//! A FUSE file system of empty folders, whose server stops answering, continues or dies on request.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::Node;

// From linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const ENOSYS: i32 = 38;
/// What a change of attributes changes.
const FATTR_MODE: u32 = 1;
const FATTR_GID: u32 = 4;
/// The kernel refuses to hand requests over into less.
const BUFFER: usize = 256 << 10;

/// The server's end.
#[derive(Debug)]
pub struct FuseServer {
    at: PathBuf,
    state: Arc<Mutex<FuseState>>,
}

#[derive(Debug)]
struct FuseState {
    /// None once the server is dead.
    device: Option<File>,
    hangs: HangingCall,
    /// What was asked and not answered, and the opcodes.
    unanswered: BTreeMap<u64, u32>,
    /// The root's mode and group.
    mode: u32,
    group: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HangingCall {
    Never,
    /// How full it is.
    Statfs,
    /// Everything.
    Always,
}

impl FuseServer {
    /// Mounts a file system that answers, for the node, at a folder that is there.
    ///
    /// # Panics
    /// Without `/dev/fuse`.
    pub fn mount(node: &Node, at: &Path) -> Self {
        let device = File::options().read(true).write(true).open("/dev/fuse").expect("/dev/fuse (modprobe fuse)");
        // The device knows no mount before `mount` has run, and cannot be read before.
        let mounted = node
            .inside("mount")
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other", "fuse-test"])
            .arg(at)
            .stdin(device.try_clone().unwrap())
            .status()
            .unwrap();
        assert!(mounted.success());
        let requests = device.try_clone().unwrap();
        let state = FuseState {
            device: Some(device),
            hangs: HangingCall::Never,
            unanswered: BTreeMap::new(),
            mode: 0o40_777,
            group: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let answering = state.clone();
        std::thread::spawn(move || serve(requests, &answering));
        Self { at: at.to_owned(), state }
    }

    /// Stops answering statfs.
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn hang(&self) {
        self.state.lock().unwrap().hangs = HangingCall::Statfs;
    }

    /// Stops answering every request.
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn hang_wholly(&self) {
        self.state.lock().unwrap().hangs = HangingCall::Always;
    }

    /// Answers what was asked meanwhile, and from now on.
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn go_on(&self) {
        let mut state = self.state.lock().unwrap();
        state.hangs = HangingCall::Never;
        let unanswered = std::mem::take(&mut state.unanswered);
        let Some(device) = &state.device else { return };
        for (unique, opcode) in unanswered {
            reply(device, unique, opcode, &state);
        }
    }

    /// Returns whether a request waits for an answer.
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn is_asked(&self) -> bool {
        !self.state.lock().unwrap().unanswered.is_empty()
    }

    /// The server dies: every question from now on is answered by the kernel, "transport endpoint
    /// is not connected".
    ///
    /// # Panics
    /// When the server's thread has.
    pub fn die(&self, node: &Node) {
        self.state.lock().unwrap().device = None;
        // A question wakes the thread, which then finds that it is dead.
        let asked = node.inside("stat").arg("--file-system").arg(&self.at).output().unwrap();
        assert!(!asked.status.success(), "the server answers still");
    }
}

fn serve(mut device: File, state: &Mutex<FuseState>) {
    let mut buffer = vec![0; BUFFER];
    // The read fails when the file system is gone.
    while let Ok(length) = device.read(&mut buffer) {
        assert!(length >= 40, "a request has a header");
        let opcode = u32::from_le_bytes(buffer[4..8].try_into().unwrap());
        let unique = u64::from_le_bytes(buffer[8..16].try_into().unwrap());
        let mut state = state.lock().unwrap();
        if state.device.is_none() {
            return;
        }
        let hangs = match state.hangs {
            HangingCall::Never => false,
            HangingCall::Statfs => opcode == STATFS,
            HangingCall::Always => opcode != INIT,
        };
        if opcode == SETATTR {
            let word = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().unwrap());
            if word(40) & FATTR_MODE != 0 {
                state.mode = word(108);
            }
            if word(40) & FATTR_GID != 0 {
                state.group = word(120);
            }
        }
        match opcode {
            FORGET | BATCH_FORGET => {}
            INTERRUPT => {
                // The caller was killed, and wants no answer any more.
                let asked = u64::from_le_bytes(buffer[40..48].try_into().unwrap());
                if state.unanswered.remove(&asked).is_some() {
                    answer(&device, asked, 4, &[]);
                }
            }
            _ if hangs => {
                state.unanswered.insert(unique, opcode);
            }
            _ => reply(&device, unique, opcode, &state),
        }
    }
}

fn reply(device: &File, unique: u64, opcode: u32, state: &FuseState) {
    match opcode {
        INIT => answer(device, unique, 0, &init()),
        GETATTR | SETATTR => answer(device, unique, 0, &attributes(state)),
        LOOKUP => answer(device, unique, 0, &entry(state)),
        STATFS => answer(device, unique, 0, &statfs()),
        OPENDIR => answer(device, unique, 0, &[0; 16]),
        READDIR | RELEASEDIR => answer(device, unique, 0, &[]),
        _ => answer(device, unique, ENOSYS, &[]),
    }
}

fn answer(mut device: &File, unique: u64, error: i32, body: &[u8]) {
    let length = u32::try_from(16 + body.len()).unwrap();
    let mut reply = Vec::from(length.to_le_bytes());
    reply.extend((-error).to_le_bytes());
    reply.extend(unique.to_le_bytes());
    reply.extend(body);
    // The caller may have been killed meanwhile.
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

/// Whatever is looked for is another folder like the root; to be asked for again each time.
fn entry(state: &FuseState) -> Vec<u8> {
    let mut reply = 2_u64.to_le_bytes().to_vec();
    reply.resize(40, 0);
    reply.extend(&attributes(state)[16..]);
    reply
}

/// The root: an empty folder; to be asked for again each time.
fn attributes(state: &FuseState) -> Vec<u8> {
    let mut reply = vec![0; 16];
    let mut root = vec![0; 88];
    root[0..8].copy_from_slice(&1_u64.to_le_bytes());
    root[60..64].copy_from_slice(&state.mode.to_le_bytes());
    root[64..68].copy_from_slice(&2_u32.to_le_bytes());
    root[72..76].copy_from_slice(&state.group.to_le_bytes());
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
