//! What a plugin says of a volume, and what it refuses.

use std::sync::Arc;

use serde_json::{Value, json};
use volhost_model::{SpecName, VolumeSpec};
use volhost_runtime::{CallError, Capability, ErrorCase, Identified};

use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// A field that no plugin knows.
const UNKNOWN: &str = "conformanceUnknown";

/// P2: identify changes nothing.
pub(super) fn changes_nothing(test_node: &TestNode) -> Verdict {
    let called = test_node.identify(&Arc::new(test_node.spec()?));
    match called.calls.iter().find(|call| call.changes) {
        Some(call) => fail("identify", "no host call that may change something", call.name.clone()),
        None => called.or_fail("identify").map(|_| ()),
    }
}

/// P10: identify reaches nothing but what the host knows.
pub(super) fn reaches_nothing(test_node: &TestNode) -> Verdict {
    let called = test_node.identify(&Arc::new(test_node.spec()?));
    reached_nothing("identify", called.calls.first().map(|call| call.name.clone()))
}

/// Fails when a host call went to the kernel, a driver or a program.
pub(super) fn reached_nothing(did: &str, call: Option<String>) -> Verdict {
    match call {
        Some(call) => fail(did, "no host call that reaches the kernel, a driver or a program", call),
        None => Ok(()),
    }
}

/// P3: the same answer before the volume is up, while it is, and after.
pub(super) fn stable(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    let ask = || test_node.identify(&lifecycle.spec).or_fail("identify");
    let first = ask()?;
    same("identify again", &first, &ask()?)?;
    test_node.bring_up(&lifecycle, &pod)?;
    same("identify while the volume is up", &first, &ask()?)?;
    test_node.bring_down(&lifecycle, &pod)?;
    same("identify after the volume went down", &first, &ask()?)
}

/// P3: the name is the storage's, whatever the pod calls the volume.
pub(super) fn same_for_every_outer_name(test_node: &TestNode) -> Verdict {
    let spec = test_node.spec()?;
    let first = test_node.identify(&Arc::new(spec.clone())).or_fail("identify")?;
    let name = SpecName::new("another-name").or_else(|error| fail("made a name", "a name", error.to_string()))?;
    let renamed = VolumeSpec { name, ..spec };
    let second = test_node.identify(&Arc::new(renamed)).or_fail("identify under another name in the pod")?;
    same("identify of the same source under another name in the pod", &first, &second)
}

fn same(did: &str, first: &Identified, second: &Identified) -> Verdict {
    if first == second { Ok(()) } else { fail(did, format!("the same answer: {first:?}"), format!("{second:?}")) }
}

/// P4: other storage has another name.
pub(super) fn unique(test_node: &TestNode) -> Verdict {
    let other = test_node.other()?;
    let first = test_node.identify(&Arc::new(test_node.spec()?)).or_fail("identify")?;
    let second = test_node.identify(&Arc::new(other)).or_fail("identify of the case file's `other` volume")?;
    match (&first.name, &second.name) {
        (None, None) => not_applicable("volumes of this plugin are named by their pods"),
        (one, other) if one == other => {
            fail("identify of two volumes of different storage", "two names", format!("both are {one:?}"))
        }
        _ => Ok(()),
    }
}

/// P5: a volume that the node has is named.
pub(super) fn named(test_node: &TestNode) -> Verdict {
    let identified = test_node.identify(&Arc::new(test_node.spec()?)).or_fail("identify")?;
    let on_node = test_node.plugin.exports(Capability::Attacher) && identified.attachable != Some(false)
        || test_node.plugin.exports(Capability::Stager) && identified.stageable != Some(false);
    match identified.name {
        None if on_node => fail("identify of a volume that is attached or staged", "a name", "none"),
        _ => Ok(()),
    }
}

/// P6: an unknown field is refused by name.
pub(super) fn unknown_field(test_node: &TestNode) -> Verdict {
    let mut spec = test_node.spec()?;
    spec.fields.insert(UNKNOWN.to_owned(), json!("x"));
    refused(test_node, spec, &format!("identify of the volume with the field {UNKNOWN}"), UNKNOWN)
}

/// P7: a field of the wrong type is refused by name.
pub(super) fn wrong_type(test_node: &TestNode) -> Verdict {
    let fields = fields(test_node)?;
    if fields.is_empty() {
        return not_applicable("the volume of the case file has no fields");
    }
    for (field, value) in fields {
        let mut spec = test_node.spec()?;
        let wrong = match value {
            Value::Array(_) | Value::Object(_) => json!("text"),
            _ => json!([{ "conformance": true }]),
        };
        let did = format!("identify of the volume with {field}: {wrong}");
        spec.fields.insert(field.clone(), wrong);
        refused(test_node, spec, &did, &field)?;
    }
    Ok(())
}

/// P8: a missing field has a default, or is refused by name.
pub(super) fn missing_field(test_node: &TestNode) -> Verdict {
    let fields = fields(test_node)?;
    if fields.is_empty() {
        return not_applicable("the volume of the case file has no fields");
    }
    for (field, _) in fields {
        let mut spec = test_node.spec()?;
        spec.fields.remove(&field);
        let did = format!("identify of the volume without {field}");
        match test_node.identify(&Arc::new(spec)).result {
            Ok(_) => {}
            Err(error) => is_refusal(&did, &field, &error)?,
        }
    }
    Ok(())
}

/// P9: whatever a field contains, there is an answer; and no later call crashes over what identify
/// accepts.
pub(super) fn edge_values(test_node: &TestNode) -> Verdict {
    let pod = test_node.pod("a")?;
    let long = "x".repeat(5000);
    let values =
        ["", " ", "ü☃\u{1F4BE}\u{202E}", "a\nb", "a\0b", "..", "/", "-rf", "%s,${HOME}", "\u{10FFFF}", long.as_str()];
    for (field, _) in fields(test_node)?.into_iter().filter(|(_, value)| value.is_string()) {
        for value in values {
            let mut spec = test_node.spec()?;
            spec.fields.insert(field.clone(), json!(value));
            let shown: String = value.chars().take(20).collect();
            let did = format!("identify of the volume with {field}: {shown:?}");
            let spec = Arc::new(spec);
            match test_node.identify(&spec).result {
                Err(error) if error.is_misbehaviour() => return fail(did, "an answer", error.message()),
                Err(_) => continue,
                Ok(_) => {}
            }
            let lifecycle = test_node.lifecycle_of(VolumeSpec::clone(&spec))?;
            let Some(first) = lifecycle.steps.first() else { continue };
            let called = test_node.advance(&lifecycle, *first, &pod, HostCallPlan::Watch)?;
            if let Err(error) = &called.result
                && error.is_misbehaviour()
            {
                return fail(format!("{did}, then {}", first.up()), "an answer", error.message());
            }
            let did = format!("{} after {did}, then {}", first.down(), first.up());
            if called.result.is_ok() {
                test_node.roll_back(&lifecycle, *first, &pod, HostCallPlan::Watch)?.or_fail(&did)?;
            }
        }
    }
    Ok(())
}

/// The fields of the source into which the suite may put values of its own.
fn fields(test_node: &TestNode) -> Verdict<Vec<(String, Value)>> {
    let left = &test_node.case.expect.leave_fields;
    let fields = test_node.spec()?.fields;
    let others = fields.iter().filter(|(field, _)| !left.contains(field));
    Ok(others.map(|(field, value)| (field.clone(), value.clone())).collect())
}

fn refused(test_node: &TestNode, spec: VolumeSpec, did: &str, field: &str) -> Verdict {
    match test_node.identify(&Arc::new(spec)).result {
        Ok(_) => fail(did, format!("invalid-argument that names {field}"), "ok"),
        Err(error) => is_refusal(did, field, &error),
    }
}

fn is_refusal(did: &str, field: &str, error: &CallError) -> Verdict {
    let happened = match error {
        CallError::Plugin(said) if said.case == ErrorCase::InvalidArgument && said.message.contains(field) => {
            return Ok(());
        }
        CallError::Plugin(said) => format!("{:?}: {}", said.case, said.message),
        other => other.message(),
    };
    fail(did, format!("invalid-argument that names {field}"), happened)
}
