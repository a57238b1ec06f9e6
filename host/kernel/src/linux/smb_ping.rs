//! The first message of SMB, which every server answers: whether one that takes connections answers,
//! too. [MS-SMB2] has the messages, 2.2.3 this one.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::io::Errno;

/// The bytes of a message's header, and of NEGOTIATE without its dialects.
const HEADER_BYTES: usize = 64;
const BODY_BYTES: u16 = 36;
/// SMB 2.0.2 and 2.1: without those of version 3 there is no more to say.
const DIALECTS: [u16; 2] = [0x0202, 0x0210];
/// What each message of version 2 and 3 begins with, and each of version 1.
const MAGIC: [u8; 4] = *b"\xfeSMB";
const OLD_MAGIC: [u8; 4] = *b"\xffSMB";

/// Waits for an answer to NEGOTIATE, whatever it says: the kernel finds out for itself which dialect
/// the server speaks.
///
/// # Errors
/// `TIMEDOUT` without an answer in time, `CONNRESET` if the connection ends, `PROTO` if the answer
/// is none of SMB; else the kernel's.
pub(super) fn ping(mut stream: &TcpStream, time: Duration) -> Result<(), Errno> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::UnexpectedEof => Errno::CONNRESET,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    };
    stream.set_write_timeout(Some(time)).map_err(failed)?;
    stream.set_read_timeout(Some(time)).map_err(failed)?;
    stream.write_all(&negotiate()).map_err(failed)?;
    // The length, and the magic number.
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).map_err(failed)?;
    match answer {
        [0, _, _, _, magic @ ..] if magic == MAGIC || magic == OLD_MAGIC => Ok(()),
        _ => Err(Errno::PROTO),
    }
}

/// The message, with its length before it.
fn negotiate() -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(MAGIC);
    message.extend(64_u16.to_le_bytes());
    // No charge, no status, the command 0, which is NEGOTIATE, and one credit.
    message.extend([0; 8]);
    message.extend(1_u16.to_le_bytes());
    message.resize(HEADER_BYTES, 0);
    message.extend(BODY_BYTES.to_le_bytes());
    message.extend(u16::try_from(DIALECTS.len()).unwrap_or_default().to_le_bytes());
    // Signing is possible; no capabilities, no client's id.
    message.extend(1_u16.to_le_bytes());
    message.resize(HEADER_BYTES + usize::from(BODY_BYTES), 0);
    message.extend(DIALECTS.iter().flat_map(|dialect| dialect.to_le_bytes()));
    let length = u32::try_from(message.len()).unwrap_or_default();
    [length.to_be_bytes().to_vec(), message].concat()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Long enough for a busy machine.
    const TIME: Duration = Duration::from_secs(60);

    /// What a ping of a server says that reads the message and answers so.
    fn answered(answer: Option<&'static [u8]>, time: Duration) -> Result<(), Errno> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; negotiate().len()];
            stream.read_exact(&mut asked).unwrap();
            if let Some(answer) = answer {
                stream.write_all(answer).unwrap();
                return asked;
            }
            // Until the other side has gone.
            let _ = stream.read(&mut [0]);
            asked
        });
        let stream = TcpStream::connect(address).unwrap();
        let pinged = ping(&stream, time);
        drop(stream);
        let asked = server.join().unwrap();
        assert_eq!((&asked[..4], &asked[4..8]), (&[0, 0, 0, 104][..], &b"\xfeSMB"[..]));
        assert_eq!((&asked[68..72], &asked[104..]), (&[36, 0, 2, 0][..], &[2, 2, 0x10, 2][..]));
        pinged
    }

    #[test]
    fn any_answer_of_smb_is_one_and_nothing_else_is() {
        assert_eq!(answered(Some(b"\0\0\0\x40\xfeSMB\x40\0"), TIME), Ok(()));
        assert_eq!(answered(Some(b"\0\0\0\x40\xffSMBr"), TIME), Ok(()));
        assert_eq!(answered(Some(b"HTTP/1.1 400 Bad Request\r\n"), TIME), Err(Errno::PROTO));
        assert_eq!(answered(Some(b"\0\0"), TIME), Err(Errno::CONNRESET));
        assert_eq!(answered(None, Duration::from_millis(10)), Err(Errno::TIMEDOUT));
    }
}
