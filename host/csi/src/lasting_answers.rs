//! A driver's answers that hold as long as a connection to it: its capabilities.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The calls that ask what a driver can do. A driver answers them alike while it runs: the sidecars
/// of Kubernetes ask once, when they start. Another version of a driver is another process, and
/// has other connections.
const LASTING: [&str; 3] = [
    "/csi.v1.Identity/GetPluginCapabilities",
    "/csi.v1.Controller/ControllerGetCapabilities",
    "/csi.v1.Node/NodeGetCapabilities",
];

/// The lasting answers over one connection after another.
#[derive(Debug, Default)]
pub(super) struct LastingAnswers(Mutex<AnswersOfConnection>);

/// The answers since the last connection ended.
#[derive(Debug, Default)]
struct AnswersOfConnection {
    /// How many connections have ended.
    ended: u64,
    known: BTreeMap<&'static str, Vec<u8>>,
}

/// A question that is being asked: its answer counts if no connection ends meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastingQuestion {
    method: &'static str,
    ended: u64,
}

impl LastingAnswers {
    fn lock(&self) -> MutexGuard<'_, AnswersOfConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The known answer to this request; none if the driver has to be asked.
    pub(super) fn known(&self, method: &str, request: &[u8]) -> Option<Vec<u8>> {
        if !request.is_empty() {
            return None;
        }
        self.lock().known.get(method).cloned()
    }

    /// Notes that the driver is asked; none for a request whose answer does not last.
    pub(super) fn ask(&self, method: &str, request: &[u8]) -> Option<LastingQuestion> {
        let method = LASTING.into_iter().find(|lasting| request.is_empty() && *lasting == method)?;
        Some(LastingQuestion { method, ended: self.lock().ended })
    }

    /// Keeps the answer to a question. It is dropped if a connection has ended since: it may be that
    /// of the driver before.
    pub(super) fn keep(&self, question: LastingQuestion, answer: &[u8]) {
        let mut answers = self.lock();
        if answers.ended == question.ended {
            answers.known.insert(question.method, answer.to_vec());
        }
    }

    /// Drops all answers: the driver at the next connection may be another.
    pub(super) fn connection_ended(&self) {
        let mut answers = self.lock();
        answers.ended = answers.ended.wrapping_add(1);
        answers.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "/csi.v1.Node/NodeGetCapabilities";

    #[test]
    fn an_answer_holds_until_the_connection_ends() {
        let answers = LastingAnswers::default();
        assert_eq!(answers.known(NODE, &[]), None);
        answers.keep(answers.ask(NODE, &[]).unwrap(), b"old");
        assert_eq!(answers.known(NODE, &[]).as_deref(), Some(b"old".as_slice()));
        answers.connection_ended();
        assert_eq!(answers.known(NODE, &[]), None);
    }

    #[test]
    fn an_answer_over_a_connection_that_has_ended_is_not_kept() {
        let answers = LastingAnswers::default();
        let question = answers.ask(NODE, &[]).unwrap();
        answers.connection_ended();
        answers.keep(question, b"of the driver before");
        assert_eq!(answers.known(NODE, &[]), None);
    }

    #[test]
    fn only_questions_for_capabilities_have_lasting_answers() {
        let answers = LastingAnswers::default();
        for method in ["/csi.v1.Node/NodePublishVolume", "/csi.v1.Node/NodeGetInfo", "/csi.v1.Identity/Probe"] {
            assert!(answers.ask(method, &[]).is_none(), "{method}");
        }
        // A field that this CSI version does not know may change the answer.
        assert!(answers.ask(NODE, &[10, 0]).is_none());
    }
}
