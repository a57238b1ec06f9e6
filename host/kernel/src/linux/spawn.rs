//! Makes a child process that becomes a program, as `posix_spawn` does. Not by that call: musl's can't
//! close the descriptors that it is not told of, and returns while the kernel closes the others.
#![expect(unsafe_code, reason = "between its making and its program, a child shares this process's memory")]

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{from_ref, null};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::syscall::last_errno;
use crate::new_child::NewChild;

/// The child's stack, in units that have its alignment: 64 KiB. A call that the dynamic loader has
/// yet to find saves some 10 KiB of registers.
const STACK_UNITS: usize = 4096;
/// The kernel's set of signals, of which there are 64.
type SignalSet = u64;
const LAST_SIGNAL: c_int = 64;
/// What the child returns if it could not become the program; nobody asks.
const FAILED: c_int = 127;

/// What a child needs to become a program.
struct Plan<'a> {
    child: &'a NewChild<'a>,
    /// Copies of its descriptors, from 0 on: above all that it will have, so that none takes
    /// another's place before that was copied.
    copies: Vec<OwnedFd>,
    /// How many it will have.
    kept: c_int,
    /// Both end with null.
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    /// Why it did not become the program, 0 if it did.
    failure: AtomicI32,
}

/// Makes a child process, and returns once it has let go of this process's descriptors and the
/// kernel has loaded its program.
pub(crate) fn spawn(child: &NewChild<'_>) -> Result<Pid, Errno> {
    let mut plan = Plan::new(child)?;
    let mut stack = vec![0u128; STACK_UNITS];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let pid = {
        let _blocked = SignalsBlocked::new()?;
        // SAFETY: CLONE_VFORK stops this thread until the child has ended or has become another
        // program, so plan and stack outlive its use of them; it grows the stack downwards from
        // this end. Signals are blocked, so none of our handlers runs on that stack.
        unsafe {
            libc::clone(become_program, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut plan).cast::<c_void>())
        }
    };
    let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(last_errno)?;
    match plan.failure.into_inner() {
        0 => Ok(pid),
        errno => {
            // Else it stayed a zombie. Nobody else knows of it.
            let _ended = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
            Err(Errno::from_raw_os_error(errno))
        }
    }
}

impl<'a> Plan<'a> {
    fn new(child: &'a NewChild<'a>) -> Result<Self, Errno> {
        let descriptors = || child.stdio.iter().chain(child.inherited);
        let kept = c_int::try_from(descriptors().count()).map_err(|_| Errno::MFILE)?;
        let copy = |fd: &BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), kept);
        let copies = descriptors().map(copy).collect::<Result<_, _>>()?;
        let list = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([null()]).collect();
        let (arguments, environment) = (list(child.arguments), list(child.environment));
        Ok(Self { child, copies, kept, arguments, environment, failure: AtomicI32::new(0) })
    }

    /// Returns only if the child could not become the program. It shares the memory of this
    /// process, whose other threads run, so it makes system calls and nothing else: it takes no
    /// lock and allocates nothing.
    fn carry_out(&self) -> Result<(), Errno> {
        // Room for the kernel's `struct sigaction` on every architecture; zeros are its default.
        const DEFAULT: &[u64; 4] = &[0; 4];
        const NO_SIGNAL: SignalSet = 0;
        for signal in 1..=LAST_SIGNAL {
            // SAFETY: the action outlives the call, and is the child's own. Two signals have only
            // their default, which the kernel says.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    from_ref(DEFAULT),
                    null::<c_void>(),
                    size_of::<SignalSet>(),
                );
            }
        }
        if self.child.own_group {
            // SAFETY: numbers; 0 is the child itself.
            done(unsafe { libc::setpgid(0, 0) })?;
        }
        for (fd, number) in self.copies.iter().zip(0..) {
            // SAFETY: numbers. The table of descriptors is the child's own.
            done(unsafe { libc::dup2(fd.as_raw_fd(), number) })?;
        }
        // SAFETY: numbers, as above. After it the child has none of the copies.
        done(unsafe { libc::syscall(libc::SYS_close_range, self.kept, libc::c_uint::MAX, 0) })?;
        // SAFETY: the path is a NUL-terminated literal.
        done(unsafe { libc::chdir(c"/".as_ptr()) })?;
        set_blocked(NO_SIGNAL)?;
        // SAFETY: NUL-terminated strings and lists of them that end with null, which outlive the
        // call.
        done(unsafe { libc::execve(self.child.program.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) })
    }
}

/// The child's whole life as a copy of this process.
extern "C" fn become_program(plan: *mut c_void) -> c_int {
    // SAFETY: the plan that `spawn` gave to `clone`, and which outlives this function.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    if let Err(errno) = plan.carry_out() {
        plan.failure.store(errno.raw_os_error(), Ordering::Relaxed);
    }
    FAILED
}

/// As long as it lives, no signal reaches this thread.
struct SignalsBlocked {
    before: SignalSet,
}

impl SignalsBlocked {
    fn new() -> Result<Self, Errno> {
        // The C library's own signals too, which its functions would leave out.
        set_blocked(SignalSet::MAX).map(|before| Self { before })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // It fails only for arguments that no set of signals has.
        let _restored = set_blocked(self.before);
    }
}

/// Blocks these signals and no others in this thread; returns those blocked before.
fn set_blocked(signals: SignalSet) -> Result<SignalSet, Errno> {
    let mut before: SignalSet = 0;
    let (how, new, old) = (c_long::from(libc::SIG_SETMASK), from_ref(&signals), &raw mut before);
    // SAFETY: both sets outlive the call and have the size that it is told.
    done(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size_of::<SignalSet>()) })?;
    Ok(before)
}

/// The answer of a call that is negative where it failed.
fn done(answer: impl Into<c_long>) -> Result<(), Errno> {
    if answer.into() < 0 { Err(last_errno()) } else { Ok(()) }
}
