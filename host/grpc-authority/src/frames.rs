//! The frames of HTTP/2 (RFC 9113, section 4), as a client sends them.

use crate::block::replace_authority;

/// What a connection begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The octets of a frame's head: length, type, flags and stream.
const HEAD_BYTES: usize = 9;
/// The largest payload that a server accepts unless it says otherwise, which tonic does not.
const MAX_FRAME_BYTES: usize = 16_384;
/// The largest header block that is examined, in bytes: many times what tonic accepts.
pub const MAX_BLOCK_BYTES: usize = 256 << 10;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The octets of a frame's priority.
const PRIORITY_BYTES: usize = 5;

/// Replaces the authority in the bytes of one connection, in any division.
#[derive(Debug, Default)]
pub struct AuthorityRewriter {
    state: State,
}

#[derive(Debug)]
enum State {
    /// This many octets of the preface have been seen.
    Preface(usize),
    /// The head of a frame, as far as it has arrived.
    Head(Vec<u8>),
    /// A frame passes unchanged: so many octets are left.
    Pass(usize),
    /// A header block is collected.
    Block(Block),
    /// Not HTTP/2, or not as it has to be: everything passes unchanged.
    Opaque,
}

impl Default for State {
    fn default() -> Self {
        Self::Preface(0)
    }
}

/// A header block on its way.
#[derive(Debug)]
struct Block {
    /// Every octet of its frames so far.
    raw: Vec<u8>,
    /// Where the frame that arrives now begins in `raw`.
    frame: usize,
    /// The flags of the first frame.
    flags: u8,
    stream: [u8; 4],
    priority: Vec<u8>,
    /// The fragments of the frames that have arrived whole.
    fragments: Vec<u8>,
}

impl AuthorityRewriter {
    /// Takes the next bytes of the client, and appends to `output` what the server is to read.
    ///
    /// Bytes of an incomplete header block are kept for the next call.
    pub fn push(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while !input.is_empty() {
            let state = std::mem::replace(&mut self.state, State::Opaque);
            self.state = match state {
                State::Preface(seen) => preface(seen, &mut input, output),
                State::Head(head) => frame_head(head, &mut input, output),
                State::Pass(left) => {
                    let taken = take(&mut input, left);
                    output.extend(taken);
                    next_frame_after(left.saturating_sub(taken.len()))
                }
                State::Block(block) => block.push(&mut input, output),
                State::Opaque => {
                    output.extend(std::mem::take(&mut input));
                    State::Opaque
                }
            };
        }
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

fn next_frame_after(left: usize) -> State {
    if left == 0 { State::Head(Vec::with_capacity(HEAD_BYTES)) } else { State::Pass(left) }
}

fn preface(seen: usize, input: &mut &[u8], output: &mut Vec<u8>) -> State {
    let expected = PREFACE.get(seen..).unwrap_or_default();
    let taken = take(input, expected.len());
    output.extend(taken);
    if !expected.starts_with(taken) {
        return State::Opaque;
    }
    let seen = seen.saturating_add(taken.len());
    if seen == PREFACE.len() { next_frame_after(0) } else { State::Preface(seen) }
}

fn frame_head(mut head: Vec<u8>, input: &mut &[u8], output: &mut Vec<u8>) -> State {
    head.extend(take(input, HEAD_BYTES.saturating_sub(head.len())));
    let Some(frame) = FrameHead::read(&head) else { return State::Head(head) };
    if frame.kind != HEADERS {
        output.extend(&head);
        return next_frame_after(frame.length);
    }
    let block = Block {
        raw: head,
        frame: 0,
        flags: frame.flags,
        stream: frame.stream,
        priority: Vec::new(),
        fragments: Vec::new(),
    };
    block.continue_with(output)
}

/// The head of a frame.
struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

impl FrameHead {
    /// Returns none while octets are missing.
    fn read(head: &[u8]) -> Option<Self> {
        let [high, middle, low, kind, flags, stream @ ..] = head.first_chunk::<HEAD_BYTES>()?;
        let length = usize::try_from(u32::from_be_bytes([0, *high, *middle, *low])).ok()?;
        Some(Self { length, kind: *kind, flags: *flags, stream: *stream })
    }
}

impl Block {
    /// Takes input up to the end of the frame that arrives.
    fn push(mut self, input: &mut &[u8], output: &mut Vec<u8>) -> State {
        let arrived = self.raw.len().saturating_sub(self.frame);
        let wanted = match self.raw.get(self.frame..).and_then(FrameHead::read) {
            None => HEAD_BYTES,
            Some(head) => HEAD_BYTES.saturating_add(head.length),
        };
        self.raw.extend(take(input, wanted.saturating_sub(arrived)));
        self.continue_with(output)
    }

    /// Decides what the octets so far lead to.
    fn continue_with(mut self, output: &mut Vec<u8>) -> State {
        let frame = self.raw.get(self.frame..).unwrap_or_default();
        let Some(head) = FrameHead::read(frame) else { return State::Block(self) };
        let is_first = self.frame == 0;
        let belongs = is_first || (head.kind == CONTINUATION && head.stream == self.stream);
        if !belongs || head.length > MAX_FRAME_BYTES || self.raw.len() > MAX_BLOCK_BYTES {
            return self.give_up(output);
        }
        let payload = frame.get(HEAD_BYTES..).unwrap_or_default();
        if payload.len() < head.length {
            return State::Block(self);
        }
        let Some((priority, fragment)) =
            (if is_first { first_fragment(head.flags, payload) } else { Some((&[][..], payload)) })
        else {
            return self.give_up(output);
        };
        let (priority, fragment) = (priority.to_vec(), fragment.to_vec());
        if is_first {
            self.priority = priority;
        }
        self.fragments.extend(fragment);
        if head.flags & END_HEADERS == 0 {
            self.frame = self.raw.len();
            return State::Block(self);
        }
        match replace_authority(&self.fragments) {
            None => self.give_up(output),
            Some(block) => {
                self.write(&block, output);
                next_frame_after(0)
            }
        }
    }

    /// Passes the frames on as they came.
    fn give_up(self, output: &mut Vec<u8>) -> State {
        output.extend(self.raw);
        State::Opaque
    }

    /// Writes the block as frames without padding.
    fn write(&self, block: &[u8], output: &mut Vec<u8>) {
        let (first, rest) = block.split_at(block.len().min(MAX_FRAME_BYTES - PRIORITY_BYTES));
        let mut chunks = rest.chunks(MAX_FRAME_BYTES).peekable();
        let end = |is_last: bool| if is_last { END_HEADERS } else { 0 };
        let flags = self.flags & !(PADDED | END_HEADERS) | end(chunks.peek().is_none());
        self.write_frame(HEADERS, flags, &[&self.priority, first], output);
        while let Some(chunk) = chunks.next() {
            self.write_frame(CONTINUATION, end(chunks.peek().is_none()), &[chunk], output);
        }
    }

    fn write_frame(&self, kind: u8, flags: u8, payload: &[&[u8]], output: &mut Vec<u8>) {
        let length = payload.iter().map(|part| part.len()).sum::<usize>();
        // It is at most MAX_FRAME_BYTES, which three octets express.
        let [_, length @ ..] = u32::try_from(length).unwrap_or_default().to_be_bytes();
        output.extend(length);
        output.extend([kind, flags]);
        output.extend(self.stream);
        payload.iter().for_each(|part| output.extend(*part));
    }
}

/// The priority and the fragment of a HEADERS frame's payload; none if its padding does not fit.
fn first_fragment(flags: u8, payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (padding, payload) = match flags & PADDED {
        0 => (0, payload),
        _ => payload.split_first().map(|(padding, rest)| (usize::from(*padding), rest))?,
    };
    let (priority, rest) = match flags & PRIORITY {
        0 => (&[][..], payload),
        _ => payload.split_at_checked(PRIORITY_BYTES)?,
    };
    Some((priority, rest.get(..rest.len().checked_sub(padding)?)?))
}

// By its path, so that the fuzz target can include this file.
#[cfg(test)]
#[path = "frames/tests.rs"]
mod tests;
