//! The allocator of volhost's programs: the C library's, but musl's. That one has a single lock
//! for all threads of a program. A program takes it by `use volhost_allocator as _`.
#![forbid(unsafe_code)]

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
