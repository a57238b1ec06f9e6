//! Asks plugins what volumes are, by `identify`.
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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use volhost_model::VolumeSpec;
use volhost_runtime::{Identified, Plugin};

use super::answers::{AnswerEffect, IdentifyAnswer, Question, QuestionKey};
use super::registry::PluginRegistry;
use volhost_objects::populate::NoChoice;

/// How long `identify` may run. An honest plugin takes microseconds; the rest is for a busy
/// machine.
const TIME: Duration = Duration::from_secs(1);

impl PluginRegistry {
    /// Has plugins asked again after a driver has changed: its capabilities are an input of
    /// answers.
    pub fn forget_identified(&self) {
        self.identified.driver_changed();
    }

    /// Returns the plugin's cached answer for the volume. Runs no plugin code.
    ///
    /// # Errors
    /// For the user: the field that is wrong, how the plugin failed, or that it has not answered
    /// yet.
    pub(super) fn identified(&self, plugin: &Arc<Plugin>, spec: &Arc<VolumeSpec>) -> Result<Identified, NoChoice> {
        let name = &plugin.info().name;
        let text = serde_json::to_vec(spec.as_ref()).map_err(|error| error.to_string())?;
        let key: QuestionKey = (name.clone(), Sha256::digest(&text).into());
        let quarantined = self.quarantined(name);
        let revision = self.revision();
        let answer = self.identified.look_up(key, plugin, spec, revision, quarantined.is_none());
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
        self.identified.take_questions()
    }

    /// Takes the questions whose answers may change what was resolved since the last call.
    pub fn take_awaited(&self) -> BTreeSet<QuestionKey> {
        self.identified.take_awaited()
    }

    /// Whether a question is open that was never answered.
    pub fn is_asking(&self) -> bool {
        self.identified.is_asking()
    }

    /// Asks the question. Blocks for as long as the plugin's code runs. A plugin that was
    /// quarantined while the question waited for a thread is not called.
    pub fn ask(&self, question: Question) -> IdentifyAnswer {
        let is_quarantined = self.quarantined(question.plugin()).is_some();
        let outcome = (!is_quarantined).then(|| question.ask(&self.call(TIME)));
        IdentifyAnswer::new(question, outcome)
    }

    /// Caches an answer. Returns its question, what it means, and whether the plugin is quarantined
    /// by it.
    pub fn take_answer(&self, answer: IdentifyAnswer) -> (QuestionKey, AnswerEffect, bool) {
        let key = answer.key().clone();
        let Some(outcome) = answer.outcome() else {
            self.identified.withdraw(&key);
            return (key, AnswerEffect::New, false);
        };
        let quarantined = self.note_answer(&key.0, &answer.volume(), outcome.as_ref().err());
        let digest = self.ready(&key.0).map(|plugin| plugin.info().digest.clone()).unwrap_or_default();
        let meaning = self.identified.take(answer, digest, self.revision(), Instant::now());
        (key, meaning, quarantined)
    }

    /// When the next refusal is retried.
    pub fn next_question(&self) -> Option<Instant> {
        self.identified.next_retry()
    }

    /// Takes the refusals to retry now: the pods that wait for them are to be resolved again.
    pub fn due_questions(&self, now: Instant) -> Vec<QuestionKey> {
        self.identified.take_due(now)
    }
}
