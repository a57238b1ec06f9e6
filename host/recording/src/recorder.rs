//! Keeps the last steps of the state machine, within a bound.

use std::collections::VecDeque;
use std::sync::Arc;

use volhost_core::{Core, CoreCommand, Event, Time};

use crate::base::Base;
use crate::recording::Recording;
use crate::size::step_bytes;

/// The memory of all steps that are kept, in bytes, as far as they do not share it with the state
/// machine: some ten thousand mounts.
pub const MAX_BYTES: usize = 8 << 20;
/// The size of a segment, in bytes. Old steps leave by whole segments.
const SEGMENT_BYTES: usize = MAX_BYTES / 16;

/// One step of the state machine.
#[derive(Debug, Clone)]
pub struct RecordedStep {
    /// Its number, from 0 at the start of the process.
    pub number: u64,
    /// The time that it was called with.
    pub at: Time,
    /// The event that it handled.
    pub event: Event,
    /// What it decided. The loop executes the same commands: a copy would double their texts.
    pub commands: Arc<Vec<CoreCommand>>,
}

/// Consecutive steps that leave the memory together.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    pub(crate) steps: Vec<RecordedStep>,
    bytes: usize,
}

/// The last steps of one state machine.
#[derive(Debug)]
pub struct Recorder {
    base: Arc<Base>,
    /// Complete segments, oldest first.
    closed: VecDeque<Arc<Segment>>,
    closed_bytes: usize,
    open: Segment,
    next: u64,
}

/// Segments that left the memory and that the base has to take. Takes as long as the state machine
/// took for them, so it belongs on another thread.
#[derive(Debug)]
pub struct BaseWork(Arc<Base>);

impl BaseWork {
    /// Does the work.
    pub fn run(self) {
        self.0.advance();
    }
}

impl Drop for BaseWork {
    /// Another thread may do the work from now on, whether or not this one has.
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Recorder {
    /// Creates the recorder of a machine that is as this one is, and takes its next step from now
    /// on.
    pub fn new(machine: Core) -> Self {
        Self {
            base: Arc::new(Base::new(machine)),
            closed: VecDeque::new(),
            closed_bytes: 0,
            open: Segment::default(),
            next: 0,
        }
    }

    /// Keeps a step. Returns work for another thread when steps had to leave and no thread works on
    /// that yet.
    pub fn record(&mut self, at: Time, event: Event, commands: Arc<Vec<CoreCommand>>) -> Option<BaseWork> {
        let step = RecordedStep { number: self.next, at, event, commands };
        self.next = self.next.saturating_add(1);
        self.open.bytes = self.open.bytes.saturating_add(step_bytes(&step));
        self.open.steps.push(step);
        if self.open.bytes < SEGMENT_BYTES {
            return None;
        }
        self.close();
        let mut left = false;
        while self.closed_bytes > MAX_BYTES
            && let Some(oldest) = self.closed.pop_front()
        {
            self.closed_bytes = self.closed_bytes.saturating_sub(oldest.bytes);
            self.base.push(oldest);
            left = true;
        }
        (left && self.base.claim()).then(|| BaseWork(Arc::clone(&self.base)))
    }

    /// Returns the steps that are kept now. Takes no longer however many there are.
    pub fn recording(&mut self) -> Recording {
        self.close();
        Recording::new(Arc::clone(&self.base), self.closed.iter().cloned().collect())
    }

    fn close(&mut self) {
        let segment = std::mem::take(&mut self.open);
        if !segment.steps.is_empty() {
            self.closed_bytes = self.closed_bytes.saturating_add(segment.bytes);
            self.closed.push_back(Arc::new(segment));
        }
    }
}
