//! What a plugin says of a volume, and what it refuses.

use std::sync::Arc;

use serde_json::{Value, json};
use volhost_model::{SpecName, VolumeSpec};
use volhost_runtime::{CallError, Capability, ErrorCase, Identified};

use crate::bench::Bench;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::Plan;

/// A field that no plugin knows.
const UNKNOWN: &str = "conformanceUnknown";

/// P2: identify changes nothing.
pub(super) fn changes_nothing(bench: &Bench) -> Verdict {
    let called = bench.identify(&Arc::new(bench.spec()?));
    match called.calls.iter().find(|call| call.changes) {
        Some(call) => fail("identify", "no host call that may change something", call.name.clone()),
        None => called.or_fail("identify").map(|_| ()),
    }
}

/// P10: identify reaches nothing but what the host knows.
pub(super) fn reaches_nothing(bench: &Bench) -> Verdict {
    let called = bench.identify(&Arc::new(bench.spec()?));
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
pub(super) fn stable(bench: &Bench) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    let ask = || bench.identify(&ladder.spec).or_fail("identify");
    let first = ask()?;
    same("identify again", &first, &ask()?)?;
    bench.climb(&ladder, &pod)?;
    same("identify while the volume is up", &first, &ask()?)?;
    bench.descend(&ladder, &pod)?;
    same("identify after the volume went down", &first, &ask()?)
}

/// P3: the name is the storage's, whatever the pod calls the volume.
pub(super) fn whatever_the_pod_calls_it(bench: &Bench) -> Verdict {
    let spec = bench.spec()?;
    let first = bench.identify(&Arc::new(spec.clone())).or_fail("identify")?;
    let name = SpecName::new("another-name").or_else(|error| fail("made a name", "a name", error.to_string()))?;
    let renamed = VolumeSpec { name, ..spec };
    let second = bench.identify(&Arc::new(renamed)).or_fail("identify under another name in the pod")?;
    same("identify of the same source under another name in the pod", &first, &second)
}

fn same(did: &str, first: &Identified, second: &Identified) -> Verdict {
    if first == second { Ok(()) } else { fail(did, format!("the same answer: {first:?}"), format!("{second:?}")) }
}

/// P4: other storage has another name.
pub(super) fn unique(bench: &Bench) -> Verdict {
    let other = bench.case.other().or_else(|why| fail("read the case file's `other`", "a volume", why))?;
    let Some(other) = other else { return not_applicable("the case file names no `other` volume") };
    let first = bench.identify(&Arc::new(bench.spec()?)).or_fail("identify")?;
    let second = bench.identify(&Arc::new(other)).or_fail("identify of the case file's `other` volume")?;
    match (&first.name, &second.name) {
        (None, None) => not_applicable("volumes of this plugin are named by their pods"),
        (one, other) if one == other => {
            fail("identify of two volumes of different storage", "two names", format!("both are {one:?}"))
        }
        _ => Ok(()),
    }
}

/// P5: a volume that the node has is named.
pub(super) fn named(bench: &Bench) -> Verdict {
    let identified = bench.identify(&Arc::new(bench.spec()?)).or_fail("identify")?;
    let on_node = bench.plugin.exports(Capability::Attacher) && identified.attachable != Some(false)
        || bench.plugin.exports(Capability::Stager) && identified.stageable != Some(false);
    match identified.name {
        None if on_node => fail("identify of a volume that is attached or mounted for the node", "a name", "none"),
        _ => Ok(()),
    }
}

/// P6: an unknown field is refused by name.
pub(super) fn unknown_field(bench: &Bench) -> Verdict {
    let mut spec = bench.spec()?;
    spec.fields.insert(UNKNOWN.to_owned(), json!("x"));
    refused(bench, spec, &format!("identify of the volume with the field {UNKNOWN}"), UNKNOWN)
}

/// P7: a field of the wrong type is refused by name.
pub(super) fn wrong_type(bench: &Bench) -> Verdict {
    let fields = fields(bench)?;
    if fields.is_empty() {
        return not_applicable("the volume of the case file has no fields");
    }
    for (field, value) in fields {
        let mut spec = bench.spec()?;
        let wrong = match value {
            Value::Array(_) | Value::Object(_) => json!("text"),
            _ => json!([{ "conformance": true }]),
        };
        let did = format!("identify of the volume with {field}: {wrong}");
        spec.fields.insert(field.clone(), wrong);
        refused(bench, spec, &did, &field)?;
    }
    Ok(())
}

/// P8: a missing field has a default, or is refused by name.
pub(super) fn missing_field(bench: &Bench) -> Verdict {
    let fields = fields(bench)?;
    if fields.is_empty() {
        return not_applicable("the volume of the case file has no fields");
    }
    for (field, _) in fields {
        let mut spec = bench.spec()?;
        spec.fields.remove(&field);
        let did = format!("identify of the volume without {field}");
        match bench.identify(&Arc::new(spec)).result {
            Ok(_) => {}
            Err(error) => is_refusal(&did, &field, &error)?,
        }
    }
    Ok(())
}

/// P9: whatever a field holds, there is an answer; and what identify takes, no later call crashes over.
pub(super) fn edge_values(bench: &Bench) -> Verdict {
    let pod = bench.pod("a")?;
    let long = "x".repeat(5000);
    let values =
        ["", " ", "ü☃\u{1F4BE}\u{202E}", "a\nb", "a\0b", "..", "/", "-rf", "%s,${HOME}", "\u{10FFFF}", long.as_str()];
    for (field, _) in fields(bench)?.into_iter().filter(|(_, value)| value.is_string()) {
        for value in values {
            let mut spec = bench.spec()?;
            spec.fields.insert(field.clone(), json!(value));
            let shown: String = value.chars().take(20).collect();
            let did = format!("identify of the volume with {field}: {shown:?}");
            let spec = Arc::new(spec);
            match bench.identify(&spec).result {
                Err(error) if error.is_misbehaviour() => return fail(did, "an answer", error.message()),
                Err(_) => continue,
                Ok(_) => {}
            }
            let ladder = bench.ladder_of(VolumeSpec::clone(&spec))?;
            let Some(first) = ladder.rungs.first() else { continue };
            let called = bench.up(&ladder, *first, &pod, Plan::Watch)?;
            if let Err(error) = &called.result
                && error.is_misbehaviour()
            {
                return fail(format!("{did}, then {}", first.up()), "an answer", error.message());
            }
            let did = format!("{} after {did}, then {}", first.down(), first.up());
            if called.result.is_ok() {
                bench.down(&ladder, *first, &pod, Plan::Watch)?.or_fail(&did)?;
            }
        }
    }
    Ok(())
}

/// The fields of the source into which the suite may put values of its own.
fn fields(bench: &Bench) -> Verdict<Vec<(String, Value)>> {
    let left = &bench.case.expect.leave_fields;
    Ok(bench.spec()?.fields.into_iter().filter(|(field, _)| !left.contains(field)).collect())
}

fn refused(bench: &Bench, spec: VolumeSpec, did: &str, field: &str) -> Verdict {
    match bench.identify(&Arc::new(spec)).result {
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
