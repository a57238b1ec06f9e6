//! Why a volume waits, and what happened to a pod, in sentences. The command line and the status
//! page say the same words.
//!
//! | module | its job |
//! |---|---|
//! | [`sentences`] | the chain of sentences of one volume: claim, plugin, step, cause, next try, who must act |
//! | [`facts`] | the lists of a node that explanations are made of |
//! | [`timeline`] | a pod from its arrival until it is ready |
//! | [`reason`] | why something is not as it should be, in a word |
//! | [`times`] | ages and times to wait, as people read them |
#![forbid(unsafe_code)]

pub mod facts;
pub mod reason;
pub mod sentences;
pub mod timeline;
pub mod times;

pub use facts::NodeFacts;
