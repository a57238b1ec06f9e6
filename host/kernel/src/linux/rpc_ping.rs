//! The empty call of ONC RPC, which every program answers: whether a server that takes connections
//! answers, too. RFC 5531 has the messages.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::io::Errno;

/// The number by which an answer is known: there is one call on a connection.
const CALL: u32 = 0x766f_6c68;
/// The bit of a length that says that no further part follows.
const LAST_PART: u32 = 1 << 31;
/// The bytes of the call, and of the part of an answer that is read: its length, the call's number,
/// and that it is an answer.
const CALL_BYTES: u32 = 40;
const ANSWER_BYTES: usize = 12;
const IS_ANSWER: u32 = 1;
const RPC_VERSION: u32 = 2;

/// A program of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    number: u32,
    version: u32,
}

impl Program {
    /// NFS 4.
    pub(super) const NFS: Self = Self { number: 100_003, version: 4 };
    /// NFS 3.
    pub(super) const NFS_3: Self = Self { number: 100_003, version: 3 };
    /// The mount daemon of NFS 3.
    pub(super) const MOUNT: Self = Self { number: 100_005, version: 3 };
    /// rpcbind.
    pub(super) const RPCBIND: Self = Self { number: 100_000, version: 2 };
}

/// Waits for an answer to the empty call, whatever it says: the kernel asks for itself whether the
/// server speaks the version.
///
/// # Errors
/// `TIMEDOUT` without an answer in time, `CONNRESET` if the connection ends, `PROTO` if the answer
/// is none of RPC; else the kernel's.
pub(super) fn ping(mut stream: &TcpStream, program: Program, time: Duration) -> Result<(), Errno> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::UnexpectedEof => Errno::CONNRESET,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    };
    stream.set_write_timeout(Some(time)).map_err(failed)?;
    stream.set_read_timeout(Some(time)).map_err(failed)?;
    // Length; number, that it is a call, version, program, its version, procedure 0; neither
    // credentials nor verifier: two words each.
    let words = [LAST_PART | CALL_BYTES, CALL, 0, RPC_VERSION, program.number, program.version, 0, 0, 0, 0, 0];
    let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    stream.write_all(&call).map_err(failed)?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).map_err(failed)?;
    let mut words = answer.chunks_exact(4).filter_map(|word| word.try_into().ok().map(u32::from_be_bytes)).skip(1);
    if (words.next(), words.next()) == (Some(CALL), Some(IS_ANSWER)) { Ok(()) } else { Err(Errno::PROTO) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Long enough for a busy machine.
    const TIME: Duration = Duration::from_secs(60);

    /// What a ping of a server says that reads the call and answers so.
    fn answered(answer: Option<&'static [u8]>, time: Duration) -> Result<(), Errno> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = [0; 44];
            stream.read_exact(&mut call).unwrap();
            if let Some(answer) = answer {
                stream.write_all(answer).unwrap();
                return call;
            }
            // Until the other side has gone.
            let _ = stream.read(&mut [0]);
            call
        });
        let stream = TcpStream::connect(address).unwrap();
        let pinged = ping(&stream, Program::NFS_3, time);
        drop(stream);
        let call = server.join().unwrap();
        assert_eq!(call[..4], [0x80, 0, 0, 40]);
        assert_eq!((&call[16..20], &call[20..24]), (&100_003_u32.to_be_bytes()[..], &3_u32.to_be_bytes()[..]));
        pinged
    }

    #[test]
    fn any_answer_of_rpc_is_one_and_nothing_else_is() {
        let accepted = b"\x80\0\0\x18volh\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(answered(Some(accepted), TIME), Ok(()));
        assert_eq!(answered(Some(b"HTTP/1.1 400 Bad Request\r\n"), TIME), Err(Errno::PROTO));
        assert_eq!(answered(Some(b"\x80\0"), TIME), Err(Errno::CONNRESET));
        assert_eq!(answered(None, Duration::from_millis(10)), Err(Errno::TIMEDOUT));
    }
}
