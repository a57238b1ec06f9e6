//! The cache of plugins' answers to `identify`, with the open questions.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lru::LruCache;
use thiserror::Error;
use volhost_model::text::lower_hex;
use volhost_model::{BackOff, PluginName, VolumeSpec};
use volhost_runtime::{Call, CallError, Identified, Plugin};

/// How many answers are kept, the most recently used: more than a node has volumes, and some 20 MB
/// at most.
const MAX_ANSWERS: usize = 65_536;

/// Names a question: the plugin, and a digest of the volume.
pub type QuestionKey = (PluginName, [u8; 32]);

/// A volume for which a plugin is to be asked.
#[derive(Debug, Clone)]
pub struct Question {
    key: QuestionKey,
    plugin: Arc<Plugin>,
    spec: Arc<VolumeSpec>,
    basis: AnswerInputs,
}

/// The outcome of a question.
#[derive(Debug)]
pub struct IdentifyAnswer {
    question: Question,
    /// None if the plugin was not asked, because it is quarantined.
    outcome: Option<Result<Identified, CallError>>,
}

/// What an answer means for the pods that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEffect {
    /// It differs from the answer before, or is out of date already: the pods are resolved again.
    New,
    /// It equals the answer before: nothing waits any more.
    Same,
    /// It equals the refusal before, and the plugin is asked again later.
    SameRefusal,
}

/// The inputs of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AnswerInputs {
    /// The plugin's code.
    digest: String,
    /// The revision of the objects.
    revision: u64,
    /// The revision of the drivers.
    drivers: u64,
}

/// Why a plugin gave no answer, for the user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(super) struct IdentifyError(String);

/// The cached answer for one volume.
#[derive(Debug, Default)]
struct CachedAnswer {
    /// The last answer, and its inputs.
    answer: Option<(Result<Identified, IdentifyError>, AnswerInputs)>,
    is_asked: bool,
    /// Refusals in a row.
    refusals: u32,
    /// When the plugin is asked again after a refusal.
    retry_at: Option<Instant>,
}

/// Answers and questions.
#[derive(Debug)]
struct Answers {
    /// At most [`MAX_ANSWERS`] after each look-up.
    cached: LruCache<QuestionKey, CachedAnswer>,
    /// Counts the changes of drivers.
    drivers: u64,
    /// Questions to be asked.
    open: Vec<Question>,
    /// Asked or to be asked, without any answer before.
    unanswered: HashSet<QuestionKey>,
    /// Questions that were looked up since the last [`IdentifiedVolumes::take_awaited`], and whose
    /// answers may change.
    awaited: BTreeSet<QuestionKey>,
    retries: BTreeSet<(Instant, QuestionKey)>,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            // `forget_oldest` bounds it: a forgotten answer has traces elsewhere.
            cached: LruCache::unbounded(),
            drivers: 0,
            open: Vec::new(),
            unanswered: HashSet::new(),
            awaited: BTreeSet::new(),
            retries: BTreeSet::new(),
        }
    }
}

/// Answers by plugin and volume.
#[derive(Debug, Default)]
pub(super) struct IdentifiedVolumes(Mutex<Answers>);

impl IdentifiedVolumes {
    /// Locks the answers. A panic leaves them consistent: each change is complete at any moment.
    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has plugins asked again after a driver has changed: its capabilities are an input of
    /// answers.
    pub(super) fn driver_changed(&self) {
        self.lock().drivers += 1;
    }

    /// Returns the last answer, if there is any. Opens the question if the answer is missing or not
    /// current, and `may_ask`.
    pub(super) fn look_up(
        &self,
        key: QuestionKey,
        plugin: &Arc<Plugin>,
        spec: &Arc<VolumeSpec>,
        revision: u64,
        may_ask: bool,
    ) -> Option<Result<Identified, IdentifyError>> {
        let mut answers = self.lock();
        let basis = AnswerInputs { digest: plugin.info().digest.clone(), revision, drivers: answers.drivers };
        let question = Question { key, plugin: Arc::clone(plugin), spec: Arc::clone(spec), basis };
        answers.look_up(question, may_ask)
    }

    /// Takes the questions to be asked.
    pub(super) fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.lock().open)
    }

    /// Takes the questions whose answers may change what was resolved since the last call.
    pub(super) fn take_awaited(&self) -> BTreeSet<QuestionKey> {
        std::mem::take(&mut self.lock().awaited)
    }

    /// Whether a question is open that was never answered.
    pub(super) fn is_asking(&self) -> bool {
        !self.lock().unanswered.is_empty()
    }

    /// Withdraws a question that the plugin was not asked. No answer is kept, so that the question
    /// comes up again once the plugin may be asked.
    pub(super) fn withdraw(&self, key: &QuestionKey) {
        self.lock().withdraw(key);
    }

    /// Caches an answer. `digest` is that of the plugin that is ready now, `revision` that of the
    /// objects.
    pub(super) fn take(&self, answer: IdentifyAnswer, digest: String, revision: u64, now: Instant) -> AnswerEffect {
        let IdentifyAnswer { question, outcome } = answer;
        let Some(outcome) = outcome else { return AnswerEffect::New };
        let current = AnswerInputs { digest, revision, drivers: question.basis.drivers };
        self.lock().take(question, outcome, current, now)
    }

    /// When the next refusal is retried.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.lock().retries.first().map(|(at, _)| *at)
    }

    /// Takes the refusals to retry now.
    pub(super) fn take_due(&self, now: Instant) -> Vec<QuestionKey> {
        let mut answers = self.lock();
        let mut due = Vec::new();
        while let Some((at, key)) = answers.retries.first().cloned().filter(|(at, _)| *at <= now) {
            answers.retries.remove(&(at, key.clone()));
            due.push(key);
        }
        due
    }
}

impl Question {
    /// The plugin that is asked.
    pub fn plugin(&self) -> &PluginName {
        &self.key.0
    }

    /// Asks the plugin. Blocks for as long as its code runs.
    pub(super) fn ask(&self, call: &Call) -> Result<Identified, CallError> {
        self.plugin.identify(call, &self.spec)
    }

    /// Identifies the volume among those of its plugin, for the plugin's quarantine.
    fn volume(&self) -> String {
        let (plugin, digest) = &self.key;
        let digest = lower_hex(digest.iter().take(8));
        format!("{plugin} {} {digest}", self.spec.name)
    }
}

impl IdentifyAnswer {
    /// The plugin that was asked.
    pub fn plugin(&self) -> &PluginName {
        &self.question.key.0
    }

    /// The outcome of a question; none if the plugin was not asked.
    pub(super) fn new(question: Question, outcome: Option<Result<Identified, CallError>>) -> Self {
        Self { question, outcome }
    }

    /// The question's key.
    pub(super) fn key(&self) -> &QuestionKey {
        &self.question.key
    }

    /// Identifies the volume among those of its plugin, for the plugin's quarantine.
    pub(super) fn volume(&self) -> String {
        self.question.volume()
    }

    /// The plugin's answer; none if it was not asked.
    pub(super) fn outcome(&self) -> Option<&Result<Identified, CallError>> {
        self.outcome.as_ref()
    }

    /// The answer if no thread could ask the plugin.
    pub fn none(question: Question) -> Self {
        let reason = "no thread of volhost could ask the plugin".to_owned();
        Self { question, outcome: Some(Err(CallError::Sandbox { reason })) }
    }
}

impl Answers {
    /// See [`IdentifiedVolumes::look_up`].
    fn look_up(&mut self, question: Question, may_ask: bool) -> Option<Result<Identified, IdentifyError>> {
        let key = question.key.clone();
        let known = self.cached.get_or_insert_mut(key.clone(), CachedAnswer::default);
        let is_current = known.answer.as_ref().is_some_and(|(_, basis)| *basis == question.basis)
            && known.retry_at.is_none_or(|at| at > Instant::now());
        let answer = known.answer.as_ref().map(|(answer, _)| answer.clone());
        if !is_current && !known.is_asked && may_ask {
            known.is_asked = true;
            if answer.is_none() {
                self.unanswered.insert(key.clone());
            }
            self.open.push(question);
        }
        // A plugin that is not asked gives no answer; when it may be asked again, everything is
        // resolved again.
        if known.is_asked || may_ask && known.retry_at.is_some() {
            self.awaited.insert(key);
        }
        self.forget_oldest();
        answer
    }

    /// See [`IdentifiedVolumes::withdraw`].
    fn withdraw(&mut self, key: &QuestionKey) {
        self.unanswered.remove(key);
        if let Some(known) = self.cached.peek_mut(key) {
            known.is_asked = false;
        }
    }

    /// Caches an answer.
    fn take(
        &mut self,
        question: Question,
        outcome: Result<Identified, CallError>,
        current: AnswerInputs,
        now: Instant,
    ) -> AnswerEffect {
        let Question { key, basis, .. } = question;
        self.unanswered.remove(&key);
        let drivers = self.drivers;
        // A question that was forgotten meanwhile is asked again.
        let Some(known) = self.cached.peek_mut(&key) else { return AnswerEffect::New };
        known.is_asked = false;
        if let Some(at) = known.retry_at.take() {
            self.retries.remove(&(at, key.clone()));
        }
        let answer = outcome.map_err(|error| IdentifyError(error.message()));
        match &answer {
            Ok(_) => known.refusals = 0,
            Err(_) => {
                known.refusals = known.refusals.saturating_add(1);
                let at = now + BackOff::KUBELET.wait(known.refusals);
                known.retry_at = Some(at);
                self.retries.insert((at, key.clone()));
            }
        }
        let is_same = known.answer.as_ref().is_some_and(|(before, _)| *before == answer);
        let is_current = basis == AnswerInputs { drivers, ..current };
        let is_refusal = answer.is_err();
        known.answer = Some((answer, basis));
        match (is_same && is_current, is_refusal) {
            (false, _) => AnswerEffect::New,
            (true, false) => AnswerEffect::Same,
            (true, true) => AnswerEffect::SameRefusal,
        }
    }

    /// Forgets the least recently used answers beyond the bound.
    fn forget_oldest(&mut self) {
        while self.cached.len() > MAX_ANSWERS
            && let Some((key, known)) = self.cached.pop_lru()
        {
            if let Some(at) = known.retry_at {
                self.retries.remove(&(at, key.clone()));
            }
            self.unanswered.remove(&key);
        }
    }
}
