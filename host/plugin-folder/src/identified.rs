//! Plugins' answers to `identify`, cached, and the open questions.
//!
//! ```text
//!  choose(volume) --known and current--> answer
//!       |
//!       |-- known, but a driver, an object or the plugin has changed --> the answer before, and a question
//!       '-- unknown ---------------------------------------------------> "not yet", and a question
//!
//!  question --> thread: identify --> answer --> the pods that wait for it are resolved again
//! ```
//!
//! An answer is current for one digest of the plugin, one revision of the objects and one state of
//! the drivers: that is all that `identify` may look at. A refusal is asked again after a back-off
//! besides, because a busy machine can make an honest plugin miss its deadline.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use sha2::{Digest, Sha256};
use thiserror::Error;
use volhost_model::text::lower_hex;
use volhost_model::{BackOff, PluginName, VolumeSpec};
use volhost_runtime::{CallError, Identified, Plugin};

use super::registry::PluginRegistry;
use volhost_objects::populate::NoChoice;

/// How long `identify` may run. An honest plugin takes microseconds; the rest is for a busy machine.
const TIME: Duration = Duration::from_secs(1);
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
    basis: Basis,
}

/// The outcome of a question.
#[derive(Debug)]
pub struct Answer {
    question: Question,
    /// None if the plugin was not asked, because it is quarantined.
    outcome: Option<Result<Identified, CallError>>,
}

/// What an answer means for the pods that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It differs from the answer before, or is out of date already: the pods are resolved again.
    New,
    /// It equals the answer before: nothing waits any more.
    Same,
    /// It equals the refusal before, and the plugin is asked again later.
    SameRefusal,
}

/// The inputs of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
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
struct Refusal(String);

/// The cached answer for one volume.
#[derive(Debug, Default)]
struct CachedAnswer {
    /// The last answer, and its inputs.
    answer: Option<(Result<Identified, Refusal>, Basis)>,
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
    /// Questions that were looked up since the last [`PluginRegistry::take_awaited`], and whose
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
}

impl Question {
    /// The plugin that is asked.
    pub fn plugin(&self) -> &PluginName {
        &self.key.0
    }
}

impl Answer {
    /// The plugin that was asked.
    pub fn plugin(&self) -> &PluginName {
        &self.question.key.0
    }

    /// The answer if no thread could ask the plugin.
    pub fn none(question: Question) -> Self {
        let reason = "no thread of volhost could ask the plugin".to_owned();
        Self { question, outcome: Some(Err(CallError::Sandbox { reason })) }
    }
}

impl PluginRegistry {
    /// Has plugins asked again after a driver has changed: its capabilities are an input of answers.
    pub fn forget_identified(&self) {
        self.identified.lock().drivers += 1;
    }

    /// Returns the plugin's cached answer for the volume. Runs no plugin code.
    ///
    /// # Errors
    /// For the user: the field that is wrong, how the plugin failed, or that it has not answered yet.
    pub(super) fn identified(&self, plugin: &Arc<Plugin>, spec: &Arc<VolumeSpec>) -> Result<Identified, NoChoice> {
        let name = &plugin.info().name;
        let text = serde_json::to_vec(spec.as_ref()).map_err(|error| error.to_string())?;
        let key: QuestionKey = (name.clone(), Sha256::digest(&text).into());
        let quarantined = self.quarantined(name);
        let revision = self.revision();
        let mut answers = self.identified.lock();
        let basis = Basis { digest: plugin.info().digest.clone(), revision, drivers: answers.drivers };
        let question = Question { key: key.clone(), plugin: Arc::clone(plugin), spec: Arc::clone(spec), basis };
        let answer = answers.look_up(question, quarantined.is_none());
        match (answer, quarantined) {
            (Some(answer), _) => Ok(answer.map_err(|refusal| refusal.to_string())?),
            (None, Some(fault)) => Err(format!(
                "plugin {name} is quarantined and is not asked what the volume is; replace its file, or send SIGHUP to try it again; its last fault: {fault}"
            )
            .into()),
            (None, None) => Err(NoChoice::not_yet(format!("plugin {name} is being asked what the volume is"))),
        }
    }

    /// Takes the questions to be asked. Each is asked once, and its answer goes to
    /// [`Self::take_answer`].
    pub fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.identified.lock().open)
    }

    /// Takes the questions whose answers may change what was resolved since the last call.
    pub fn take_awaited(&self) -> BTreeSet<QuestionKey> {
        std::mem::take(&mut self.identified.lock().awaited)
    }

    /// Whether a question is open that was never answered.
    pub fn is_asking(&self) -> bool {
        !self.identified.lock().unanswered.is_empty()
    }

    /// Asks the question. Blocks for as long as the plugin's code runs. A plugin that was quarantined
    /// while the question waited for a thread is not called.
    pub fn ask(&self, question: Question) -> Answer {
        let is_quarantined = self.quarantined(question.plugin()).is_some();
        let outcome = (!is_quarantined).then(|| question.plugin.identify(&self.call(TIME), &question.spec));
        Answer { question, outcome }
    }

    /// Caches an answer. Returns its question, what it means, and whether the plugin is quarantined
    /// by it.
    pub fn take_answer(&self, answer: Answer) -> (QuestionKey, Meaning, bool) {
        let Answer { question, outcome } = answer;
        let Some(outcome) = outcome else {
            let key = question.key;
            self.identified.lock().withdraw(&key);
            return (key, Meaning::New, false);
        };
        let quarantined = self.note_answer(&question.key.0, &question.volume(), outcome.as_ref().err());
        let current = Basis {
            digest: self.ready(&question.key.0).map(|plugin| plugin.info().digest.clone()).unwrap_or_default(),
            revision: self.revision(),
            drivers: question.basis.drivers,
        };
        let key = question.key.clone();
        let meaning = self.identified.lock().take(question, outcome, current, Instant::now());
        (key, meaning, quarantined)
    }

    /// When the next refusal is retried.
    pub fn next_question(&self) -> Option<Instant> {
        self.identified.lock().retries.first().map(|(at, _)| *at)
    }

    /// Takes the refusals to retry now: the pods that wait for them are to be resolved again.
    pub fn due_questions(&self, now: Instant) -> Vec<QuestionKey> {
        let mut answers = self.identified.lock();
        let mut due = Vec::new();
        while let Some((at, key)) = answers.retries.first().cloned().filter(|(at, _)| *at <= now) {
            answers.retries.remove(&(at, key.clone()));
            due.push(key);
        }
        due
    }
}

impl Question {
    /// Identifies the volume among those of its plugin, for the plugin's quarantine.
    fn volume(&self) -> String {
        let (plugin, digest) = &self.key;
        let digest = lower_hex(digest.iter().take(8));
        format!("{plugin} {} {digest}", self.spec.name)
    }
}

impl Answers {
    /// Returns the last answer, if there is any. Opens the question if the answer is missing or not
    /// current, and `may_ask`.
    fn look_up(&mut self, question: Question, may_ask: bool) -> Option<Result<Identified, Refusal>> {
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
        // A plugin that is not asked gives no answer; when it may be asked again, everything is resolved
        // again.
        if known.is_asked || may_ask && known.retry_at.is_some() {
            self.awaited.insert(key);
        }
        self.forget_oldest();
        answer
    }

    /// Withdraws a question that the plugin was not asked. No answer is kept, so that the question comes
    /// up again once the plugin may be asked.
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
        current: Basis,
        now: Instant,
    ) -> Meaning {
        let Question { key, basis, .. } = question;
        self.unanswered.remove(&key);
        let drivers = self.drivers;
        // A question that was forgotten meanwhile is asked again.
        let Some(known) = self.cached.peek_mut(&key) else { return Meaning::New };
        known.is_asked = false;
        if let Some(at) = known.retry_at.take() {
            self.retries.remove(&(at, key.clone()));
        }
        let answer = outcome.map_err(|error| Refusal(error.message()));
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
        let is_current = basis == Basis { drivers, ..current };
        let is_refusal = answer.is_err();
        known.answer = Some((answer, basis));
        match (is_same && is_current, is_refusal) {
            (false, _) => Meaning::New,
            (true, false) => Meaning::Same,
            (true, true) => Meaning::SameRefusal,
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
