//! What every step guarantees when a host call fails.

use volhost_kernel::Errno;
use volhost_model::FailureClass;
use volhost_runtime::{CallError, ErrorCase};

use super::steps::UndisturbedStep;
use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail};
use crate::watch::HostCall;
use crate::watch::HostCallPlan;

/// What a host call that changes something can fail with, and its name.
const FAULTS: [(Errno, &str); 7] = [
    (Errno::IO, "EIO"),
    (Errno::BUSY, "EBUSY"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::ROFS, "EROFS"),
    (Errno::PERM, "EPERM"),
    (Errno::NOENT, "ENOENT"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
];

/// One fault: at which host call, with what, and in words.
struct Fault {
    plan: HostCallPlan,
    errno: &'static str,
    did: String,
}

/// Every fault of a function with these host calls: all of them where something is changed, the
/// first where something is only asked.
fn faults(function: &str, calls: &[HostCall]) -> Vec<Fault> {
    let of_call = |(at, call): (usize, &HostCall)| {
        let some = if call.changes { FAULTS.len() } else { 1 };
        let did = format!("{function}, its host call {} of {}, {}", at + 1, calls.len(), call.name);
        let fault = move |(errno, name): &(Errno, &'static str)| Fault {
            plan: HostCallPlan::FailAt(at, *errno),
            errno: name,
            did: format!("{did}, failing with {name}"),
        };
        FAULTS.iter().take(some).map(fault).collect::<Vec<_>>()
    };
    calls.iter().enumerate().flat_map(of_call).collect()
}

/// Takes the step with each fault; `check` gets the result of the call.
fn each_up(
    test_node: &TestNode,
    step: LifecycleStep,
    check: impl Fn(&UndisturbedStep, &Fault, &Result<(), CallError>) -> Verdict,
) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    for fault in faults(step.up(), &reference.up) {
        reference.begin(test_node)?;
        let called = reference.go_up(test_node, fault.plan)?;
        check(&reference, &fault, &called.result)?;
    }
    Ok(())
}

/// Undoes the step with each fault; `check` gets the result of the call.
fn each_down(
    test_node: &TestNode,
    step: LifecycleStep,
    check: impl Fn(&UndisturbedStep, &Fault, &Result<(), CallError>) -> Verdict,
) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    for fault in faults(step.down(), &reference.down) {
        reference.begin(test_node)?;
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(step.up())?;
        let called = reference.go_down(test_node, fault.plan)?;
        check(&reference, &fault, &called.result)?;
    }
    Ok(())
}

/// X1: it answers, and "done" is true.
pub(super) fn up_is_reported(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_up(test_node, step, |reference, fault, result| match result {
        Ok(()) => reference.check_up(test_node, &fault.did).map(|_| ()),
        Err(error) => is_answer(fault, error),
    })
}

/// X1, when the step is undone.
pub(super) fn down_is_reported(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_down(test_node, step, |reference, fault, result| match result {
        Ok(()) => reference.check_down(test_node, &fault.did),
        Err(error) => is_answer(fault, error),
    })
}

fn is_answer(fault: &Fault, error: &CallError) -> Verdict {
    if error.is_misbehaviour() { fail(&fault.did, "an error that the plugin answers", error.message()) } else { Ok(()) }
}

/// X2: the text has the kernel's word.
pub(super) fn up_in_the_kernels_words(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_up(test_node, step, |_, fault, result| has_the_kernels_word(fault, result))
}

/// X2, when the step is undone.
pub(super) fn down_in_the_kernels_words(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_down(test_node, step, |_, fault, result| has_the_kernels_word(fault, result))
}

fn has_the_kernels_word(fault: &Fault, result: &Result<(), CallError>) -> Verdict {
    match result {
        Err(CallError::Plugin(said)) if !said.message.contains(fault.errno) => {
            fail(&fault.did, format!("a text with {}", fault.errno), said.message.clone())
        }
        _ => Ok(()),
    }
}

/// X3: what the node could not do is no fault of the volume's fields.
pub(super) fn up_is_not_invalid_argument(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_up(test_node, step, |_, fault, result| match result {
        Err(CallError::Plugin(said)) if said.case == ErrorCase::InvalidArgument => {
            fail(&fault.did, "any error but invalid-argument", format!("invalid-argument: {}", said.message))
        }
        _ => Ok(()),
    })
}

/// X4: an error that does not say uncertain has changed nothing.
pub(super) fn up_changes_nothing_or_is_uncertain(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_up(test_node, step, |reference, fault, result| match result {
        Err(error) if error.class() == FailureClass::Final => {
            match test_node.is_up(&reference.lifecycle, step, &reference.pod)? {
                Some(true) => {
                    let happened =
                        format!("the volume is up, and the error says that nothing changed: {}", error.message());
                    fail(&fault.did, "uncertain, or nothing changed", happened)
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    })
}

/// X5: once the fault has passed, a repeat comes to what it would have come to.
pub(super) fn up_then_repeat(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_up(test_node, step, |reference, fault, _| {
        let did = format!("{}; then repeated", fault.did);
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_up(test_node, &did)?;
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)
    })
}

/// X6: the undo takes back what a failed call left.
pub(super) fn up_then_undo(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_up(test_node, step, |reference, fault, _| {
        let did = format!("{}; then {}", fault.did, step.down());
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)
    })
}

/// X5, when the step is undone.
pub(super) fn down_then_repeat(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    each_down(test_node, step, |reference, fault, _| {
        let did = format!("{}; then repeated", fault.did);
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)
    })
}
