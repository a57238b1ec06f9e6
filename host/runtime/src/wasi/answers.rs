//! The functions of WASI whose answer is more than nothing. A component says the types of what it imports itself, so an answer that does
//! not fit its type is the component's fault and ends the call.

use ring::rand::{SecureRandom, SystemRandom};
use wasmtime::StoreContextMut;
use wasmtime::component::types::ComponentFunc;
use wasmtime::component::{Resource, ResourceAny, Val};

use super::clock::TICK;
use super::nothing::nothing;
use super::{Handle, Source};
use crate::abort::Abort;
use crate::host::State;

/// How much a plugin is told that a stream takes at once, in bytes.
const ROOM: u64 = 4096;
/// Random bytes that a plugin gets at once, at the most.
const RANDOM_BYTES: u64 = 64 << 10;
const NANOSECONDS: u64 = 1_000_000_000;

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// See [`nothing`].
    Nothing,
    /// A handle of one of the plugin's own streams.
    Stream(Source),
    /// How much a stream takes.
    Room,
    /// What was written goes to the log.
    Write,
    /// Done.
    Done,
    /// The call ends.
    Exit,
    /// The time in nanoseconds.
    Now,
    /// The time as a record of seconds and nanoseconds.
    WallNow,
    /// How exact the clock is.
    Resolution,
    /// Likewise, as a record.
    WallResolution,
    /// A handle of a moment, given as such.
    Moment,
    /// A handle of a moment, given as how far ahead it lies.
    MomentAfter,
    /// Whether a moment has come.
    Ready,
    /// The clock goes on to a moment.
    Block,
    /// The clock goes on to the first of some moments; which of them have come then.
    Poll,
    /// Bytes from the kernel.
    RandomBytes,
    /// A number from the kernel.
    RandomNumber,
    /// Bytes that are the same in every call.
    SameBytes,
    /// A number, likewise.
    SameNumber,
}

impl Answer {
    /// The answer to this function of this interface, which is named without its version.
    pub(super) fn to(interface: &str, function: &str) -> Self {
        match (interface, function) {
            ("wasi:cli/stdout", "get-stdout") => Self::Stream(Source::Output),
            ("wasi:cli/stderr", "get-stderr") => Self::Stream(Source::Errors),
            ("wasi:cli/exit", _) => Self::Exit,
            ("wasi:io/streams", "[method]output-stream.check-write") => Self::Room,
            ("wasi:io/streams", "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush") => {
                Self::Write
            }
            (
                "wasi:io/streams",
                "[method]output-stream.flush"
                | "[method]output-stream.blocking-flush"
                | "[method]output-stream.write-zeroes"
                | "[method]output-stream.blocking-write-zeroes-and-flush",
            ) => Self::Done,
            ("wasi:io/poll", "[method]pollable.ready") => Self::Ready,
            ("wasi:io/poll", "[method]pollable.block") => Self::Block,
            ("wasi:io/poll", "poll") => Self::Poll,
            ("wasi:clocks/monotonic-clock", "now") => Self::Now,
            ("wasi:clocks/monotonic-clock", "resolution") => Self::Resolution,
            ("wasi:clocks/monotonic-clock", "subscribe-instant") => Self::Moment,
            ("wasi:clocks/monotonic-clock", "subscribe-duration") => Self::MomentAfter,
            ("wasi:clocks/wall-clock", "now") => Self::WallNow,
            ("wasi:clocks/wall-clock", "resolution") => Self::WallResolution,
            ("wasi:random/random", "get-random-bytes") => Self::RandomBytes,
            ("wasi:random/random", "get-random-u64") => Self::RandomNumber,
            ("wasi:random/insecure", "get-insecure-random-bytes") => Self::SameBytes,
            ("wasi:random/insecure", "get-insecure-random-u64") => Self::SameNumber,
            _ => Self::Nothing,
        }
    }

    /// Answers a call. Every handle that came with it is taken out of wasmtime's books, as it asks for.
    pub(super) fn give(
        self,
        mut store: StoreContextMut<'_, State>,
        ty: &ComponentFunc,
        parameters: &[Val],
        results: &mut [Val],
    ) -> wasmtime::Result<()> {
        store.data_mut().count()?;
        let mut handles = Vec::new();
        for parameter in parameters {
            take_handles(&mut store, parameter, &mut handles)?;
        }
        let Some(result) = results.first_mut() else {
            return self.act(&mut store, parameters, &handles).map(drop);
        };
        *result = match self.act(&mut store, parameters, &handles)? {
            Some(value) => value,
            None => {
                let Some(ty) = ty.results().next() else { return Ok(()) };
                nothing(&ty, &mut || put(&mut store, Handle::Nothing))?
            }
        };
        Ok(())
    }

    /// Does what is asked for; none when the answer is nothing.
    fn act(
        self,
        store: &mut StoreContextMut<'_, State>,
        parameters: &[Val],
        handles: &[Handle],
    ) -> wasmtime::Result<Option<Val>> {
        let number = || match parameters.first() {
            Some(Val::U64(number)) => Ok(*number),
            _ => Err(misfit()),
        };
        let wasi = &mut store.data_mut().wasi;
        Ok(Some(match self {
            Self::Nothing => return Ok(None),
            Self::Stream(source) => put(store, Handle::Stream(source))?,
            Self::Room => done(Some(Val::U64(ROOM))),
            Self::Write => {
                let (Some(Handle::Stream(source)), Some(bytes)) = (handles.first(), parameters.get(1)) else {
                    return Err(misfit().into());
                };
                store.data_mut().write_output(*source, &bytes_of(bytes)?);
                done(None)
            }
            Self::Done => done(None),
            Self::Exit => return Err(store.data_mut().exit().into()),
            Self::Now => Val::U64(wasi.clock.read()),
            Self::WallNow => wall_time(wasi.clock.read()),
            Self::Resolution => Val::U64(TICK),
            Self::WallResolution => wall_time(TICK),
            Self::Moment => put(store, Handle::Moment(number()?))?,
            Self::MomentAfter => {
                let moment = wasi.clock.after(number()?);
                put(store, Handle::Moment(moment))?
            }
            Self::Ready => Val::Bool(handles.iter().all(|handle| wasi.clock.has_come(moment(*handle)))),
            Self::Block => {
                handles.iter().for_each(|handle| wasi.clock.skip_to(moment(*handle)));
                return Ok(None);
            }
            Self::Poll => {
                let first = handles
                    .iter()
                    .copied()
                    .map(moment)
                    .min()
                    .ok_or_else(|| Abort::contract("it waits for the first of no events, which never comes"))?;
                wasi.clock.skip_to(first);
                let come = (0_u32..).zip(handles).filter(|(_, handle)| wasi.clock.has_come(moment(**handle)));
                Val::List(come.map(|(index, _)| Val::U32(index)).collect())
            }
            Self::RandomBytes => byte_list(&kernel_bytes(bounded(number()?)?)?),
            Self::RandomNumber => {
                Val::U64(kernel_bytes(8)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            }
            Self::SameBytes => {
                let bytes: Vec<u8> =
                    (0..bounded(number()?)?).map(|_| wasi.same().to_le_bytes()).map(|[byte, ..]| byte).collect();
                byte_list(&bytes)
            }
            Self::SameNumber => Val::U64(wasi.same()),
        }))
    }
}

impl super::Wasi {
    /// The next of the numbers that are the same in every call: splitmix64 from 0.
    fn same(&mut self) -> u64 {
        self.insecure = self.insecure.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.insecure ^ (self.insecure >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// When what the handle stands for is ready.
fn moment(handle: Handle) -> u64 {
    match handle {
        Handle::Moment(moment) => moment,
        Handle::Nothing | Handle::Stream(_) => 0,
    }
}

fn put(store: &mut StoreContextMut<'_, State>, handle: Handle) -> wasmtime::Result<Val> {
    let handle = store.data_mut().push(handle)?;
    Ok(Val::Resource(ResourceAny::try_from_resource(handle, store)?))
}

/// Adds what the value holds handles of. An own handle is given up with that.
fn take_handles(store: &mut StoreContextMut<'_, State>, value: &Val, found: &mut Vec<Handle>) -> wasmtime::Result<()> {
    match value {
        Val::Resource(resource) => {
            let handle: Resource<Handle> = resource.try_into_resource(&mut *store)?;
            let table = &mut store.data_mut().table;
            found.push(if handle.owned() { table.delete(handle)? } else { *table.get(&handle)? });
        }
        Val::List(values) | Val::Tuple(values) => {
            values.iter().try_for_each(|value| take_handles(store, value, found))?;
        }
        Val::Record(fields) => fields.iter().try_for_each(|(_, value)| take_handles(store, value, found))?,
        Val::Option(Some(value)) | Val::Variant(_, Some(value)) | Val::Result(Ok(Some(value)) | Err(Some(value))) => {
            take_handles(store, value, found)?
        }
        _ => {}
    }
    Ok(())
}

fn done(value: Option<Val>) -> Val {
    Val::Result(Ok(value.map(Box::new)))
}

fn wall_time(nanoseconds: u64) -> Val {
    // The rest is below 10^9, which fits.
    let rest = u32::try_from(nanoseconds % NANOSECONDS).unwrap_or_default();
    let seconds = ("seconds".to_owned(), Val::U64(nanoseconds / NANOSECONDS));
    Val::Record(vec![seconds, ("nanoseconds".to_owned(), Val::U32(rest))])
}

fn bounded(bytes: u64) -> Result<usize, Abort> {
    usize::try_from(bytes)
        .ok()
        .filter(|_| bytes <= RANDOM_BYTES)
        .ok_or_else(|| Abort::limit(format!("more than {} KiB of random bytes at once", RANDOM_BYTES >> 10)))
}

fn kernel_bytes(count: usize) -> wasmtime::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    SystemRandom::new().fill(&mut bytes).map_err(|_| wasmtime::Error::msg("the kernel gives no random bytes"))?;
    Ok(bytes)
}

fn byte_list(bytes: &[u8]) -> Val {
    Val::List(bytes.iter().map(|byte| Val::U8(*byte)).collect())
}

fn bytes_of(value: &Val) -> Result<Vec<u8>, Abort> {
    let Val::List(values) = value else { return Err(misfit()) };
    let byte = |value: &Val| if let Val::U8(byte) = value { Ok(*byte) } else { Err(misfit()) };
    values.iter().map(byte).collect()
}

fn misfit() -> Abort {
    Abort::contract("it imports a function of WASI with other types than WASI 0.2 has")
}
