//! FlexVolume drivers, unchanged: real programs, real mounts.

mod attaching;
mod bad_input;
mod calls;
mod crash;
mod disagreements;
mod discovery;
mod examples;
mod folders;
mod kit;
mod uncertain;
