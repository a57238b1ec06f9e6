//! What plugins say of volumes, remembered, and the questions that are open.
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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use volhost_model::text::lower_hex;
use volhost_model::{BackOff, PluginName, VolumeSpec};
use volhost_runtime::{CallError, Identified, Plugin};

use super::registry::PluginRegistry;
use volhost_objects::populate::NoChoice;

/// How long a plugin's code may look at a volume. An honest one takes microseconds; the rest is for
/// a busy machine.
const TIME: Duration = Duration::from_secs(1);
/// How many answers are kept, the last used ones: more than a node has volumes, and some 20 MB at
/// the most.
const KEPT: usize = 65_536;

/// Names a question: the plugin, and a digest of the volume.
pub type QuestionKey = (PluginName, [u8; 32]);

/// A volume that a plugin is to be asked about.
#[derive(Debug, Clone)]
pub struct Question {
    key: QuestionKey,
    plugin: Arc<Plugin>,
    spec: Arc<VolumeSpec>,
    basis: Basis,
}

/// What came of a question.
#[derive(Debug)]
pub struct Answer {
    question: Question,
    /// None: the plugin was not asked, because it is quarantined.
    outcome: Option<Result<Identified, CallError>>,
}

/// What an answer means for what waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It differs from the answer before, or is out of date already: what waits is resolved again.
    New,
    /// It is the answer before: nothing waits any more.
    Same,
    /// It is the refusal before, and the plugin is asked again later.
    SameRefusal,
}

/// What an answer was given on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
    /// The plugin's code.
    digest: String,
    /// The objects.
    revision: u64,
    /// The drivers.
    drivers: u64,
}

/// What is known of one volume.
#[derive(Debug, Default)]
struct Known {
    /// The last answer, and what it was given on.
    answer: Option<(Result<Identified, String>, Basis)>,
    is_asked: bool,
    /// Refusals in a row.
    refusals: u32,
    /// When a refusal is asked again.
    retry_at: Option<Instant>,
    /// When it was used last, in uses.
    used: u64,
}

/// Answers and questions.
#[derive(Debug, Default)]
struct State {
    known: HashMap<QuestionKey, Known>,
    /// The volumes by their last use, the oldest first.
    by_use: BTreeMap<u64, QuestionKey>,
    uses: u64,
    /// Counts the changes of drivers.
    drivers: u64,
    /// What is to be asked.
    open: Vec<Question>,
    /// Asked or to be asked, without any answer before.
    unanswered: HashSet<QuestionKey>,
    /// What the resolving that goes on has used and may change.
    awaited: BTreeSet<QuestionKey>,
    retries: BTreeSet<(Instant, QuestionKey)>,
}

/// Answers by plugin and volume.
#[derive(Debug, Default)]
pub(super) struct IdentifiedVolumes(Mutex<State>);

impl IdentifiedVolumes {
    /// Each change is whole at any moment.
    fn lock(&self) -> MutexGuard<'_, State> {
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

    /// No thread could ask the plugin.
    pub fn none(question: Question) -> Self {
        let reason = "no thread of volhost could ask the plugin".to_owned();
        Self { question, outcome: Some(Err(CallError::Sandbox { reason })) }
    }
}

impl PluginRegistry {
    /// Has plugins asked again what volumes are: a driver has changed, and what it can do may have
    /// been part of it.
    pub fn forget_identified(&self) {
        self.identified.lock().drivers += 1;
    }

    /// What the plugin says of the volume, as far as is known. Runs no plugin code.
    ///
    /// # Errors
    /// What the user reads: the field that is wrong, how the plugin failed, or that it has not
    /// answered yet.
    pub(super) fn identified(&self, plugin: &Arc<Plugin>, spec: &Arc<VolumeSpec>) -> Result<Identified, NoChoice> {
        let name = &plugin.info().name;
        let text = serde_json::to_vec(spec.as_ref()).map_err(|error| error.to_string())?;
        let key: QuestionKey = (name.clone(), Sha256::digest(&text).into());
        let quarantined = self.quarantined(name);
        let revision = self.revision();
        let mut state = self.identified.lock();
        let basis = Basis { digest: plugin.info().digest.clone(), revision, drivers: state.drivers };
        let question = Question { key: key.clone(), plugin: Arc::clone(plugin), spec: Arc::clone(spec), basis };
        let answer = state.look_up(question, quarantined.is_none());
        match (answer, quarantined) {
            (Some(answer), _) => Ok(answer?),
            (None, Some(fault)) => Err(format!(
                "plugin {name} is quarantined and is not asked what the volume is; replace its file, or send SIGHUP to try it again; its last fault: {fault}"
            )
            .into()),
            (None, None) => Err(NoChoice::not_yet(format!("plugin {name} is being asked what the volume is"))),
        }
    }

    /// The questions that have come up. Each is asked once, and its answer goes to
    /// [`Self::take_answer`].
    pub fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.identified.lock().open)
    }

    /// The questions whose answers may change what has been resolved since the last call.
    pub fn take_awaited(&self) -> BTreeSet<QuestionKey> {
        std::mem::take(&mut self.identified.lock().awaited)
    }

    /// Whether there are volumes of which no plugin has said anything yet, and is asked.
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

    /// Takes an answer. Returns its question, what it means, and whether the plugin is quarantined
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

    /// When refusals are asked again next.
    pub fn next_question(&self) -> Option<Instant> {
        self.identified.lock().retries.first().map(|(at, _)| *at)
    }

    /// The refusals that are to be asked again now: what waits for them is to be resolved again.
    pub fn due_questions(&self, now: Instant) -> Vec<QuestionKey> {
        let mut state = self.identified.lock();
        let mut due = Vec::new();
        while let Some((at, key)) = state.retries.first().cloned().filter(|(at, _)| *at <= now) {
            state.retries.remove(&(at, key.clone()));
            due.push(key);
        }
        due
    }
}

impl Question {
    /// Tells volumes of one plugin apart, for its quarantine.
    fn volume(&self) -> String {
        let (plugin, digest) = &self.key;
        let digest = lower_hex(digest.iter().take(8));
        format!("{plugin} {} {digest}", self.spec.name)
    }
}

impl State {
    /// The last answer, if there is any. Notes the question as open if the answer is missing or not
    /// current, and `may_ask`.
    fn look_up(&mut self, question: Question, may_ask: bool) -> Option<Result<Identified, String>> {
        let key = question.key.clone();
        self.uses += 1;
        let uses = self.uses;
        let known = self.known.entry(key.clone()).or_default();
        self.by_use.remove(&std::mem::replace(&mut known.used, uses));
        self.by_use.insert(uses, key.clone());
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
        // A plugin that is not asked answers nothing; when it is asked again, everything is
        // resolved again.
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
        if let Some(known) = self.known.get_mut(key) {
            known.is_asked = false;
        }
    }

    /// Keeps an answer.
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
        // One that was forgotten meanwhile is asked anew.
        let Some(known) = self.known.get_mut(&key) else { return Meaning::New };
        known.is_asked = false;
        if let Some(at) = known.retry_at.take() {
            self.retries.remove(&(at, key.clone()));
        }
        let answer = outcome.map_err(|error| error.message());
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

    /// Forgets what has not been used for longest, if there is too much.
    fn forget_oldest(&mut self) {
        while self.known.len() > KEPT
            && let Some((_, key)) = self.by_use.pop_first()
        {
            if let Some(at) = self.known.remove(&key).and_then(|known| known.retry_at) {
                self.retries.remove(&(at, key.clone()));
            }
            self.unanswered.remove(&key);
        }
    }
}
