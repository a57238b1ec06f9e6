//! `driver-exec`: drivers within the operator's grant, run by name. Secrets go into their arguments
//! here, and are taken out of what they write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use volhost_model::VolumeSpec;
use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::driver_exec::{Host, HostArguments, HostDriver, HostOptions, HostOutcome};
use crate::bindings::volhost::plugin::types;
use crate::grants::EVERY_FLEX_DRIVER;
use crate::handles::{Arguments, Driver, Options, Outcome, PodHandle, VolumeHandle};
use crate::redaction::{as_go_writes, forms, longest_first, redact};
use crate::text::tame;
use volhost_model::driver_programs::{DriverAnswer, DriverError, DriverOutcome};

/// How much of a driver's name a message shows, in bytes.
const SHOWN_BYTES: usize = 256;
/// The longest words of a driver that a plugin gets, in bytes.
const WORDS_BYTES: usize = 1024;

impl From<DriverError> for HostError {
    fn from(error: DriverError) -> Self {
        Self::Plugin(match error {
            DriverError::NotFound(text) => types::Error::NotFound(text),
            DriverError::NotReady(text) => types::Error::Precondition(text),
            DriverError::Uncertain(text) => types::Error::Uncertain(text),
        })
    }
}

/// A field of an answer by its dotted path, as [`VolumeSpec::parameter`].
fn field(answer: &DriverAnswer, path: &str) -> Option<String> {
    let mut parts = path.split('.');
    let mut value = answer.get(parts.next()?)?;
    for part in parts {
        value = value.as_object()?.get(part)?;
    }
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// As the kubelet writes options: Go's JSON escapes what HTML and JavaScript would take for theirs.
fn as_json(options: &BTreeMap<String, String>) -> String {
    as_go_writes(&serde_json::to_string(options).unwrap_or_default())
}

fn redact_value(value: Value, secrets: &[String]) -> Value {
    match value {
        Value::String(text) => Value::String(redact(&text, secrets)),
        Value::Array(list) => list.into_iter().map(|value| redact_value(value, secrets)).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (redact(&key, secrets), redact_value(value, secrets))).collect()
        }
        other => other,
    }
}

/// Which secret a volume names: namespace and name. Only who makes PersistentVolumes may name
/// another namespace than the pod's.
fn secret_of(spec: &VolumeSpec, pod_namespace: &str) -> Option<(String, String)> {
    let given = |path: &str| spec.parameter(path).filter(|text| !text.is_empty());
    let namespace = spec.persistent_volume.as_ref().and_then(|_| given("secretRef.namespace"));
    Some((namespace.unwrap_or_else(|| pod_namespace.to_owned()), given("secretRef.name")?))
}

impl Host for State {
    fn open(&mut self, name: String) -> Result<Resource<Driver>, HostError> {
        self.count()?;
        if !self.reach.flex_drivers.iter().any(|granted| granted == EVERY_FLEX_DRIVER || *granted == name) {
            let text = format!(
                "driver {} is not granted to this plugin; see `flex-drivers` under [grants] in the configuration",
                tame(&name, SHOWN_BYTES)
            );
            return Err(HostError::Plugin(types::Error::PermissionDenied(text)));
        }
        let init = self.call.environment().programs().init_answer(&name)?;
        Ok(self.push(Driver { name, init })?)
    }
}

impl HostDriver for State {
    fn init_field(&mut self, driver: Resource<Driver>, path: String) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(field(&self.table.get(&driver)?.init, &path))
    }

    fn run(
        &mut self,
        driver: Resource<Driver>,
        arguments: Resource<Arguments>,
        deadline: u64,
    ) -> Result<Resource<Outcome>, HostError> {
        let name = self.table.get(&driver)?.name.clone();
        let what = format!(
            "driver-exec {} {}",
            tame(&name, SHOWN_BYTES),
            tame(&self.table.get(&arguments)?.call, SHOWN_BYTES)
        );
        self.change(what, |state| {
            let Arguments { call, texts, secrets } = state.table.get(&arguments)?;
            let mut all = vec![call.clone()];
            all.extend(texts.iter().cloned());
            let secrets = secrets.clone();
            let outcome = state.call.environment().programs().run(&name, &all, Duration::from_millis(deadline));
            let outcome = outcome.map_err(|error| match error {
                DriverError::Uncertain(text) => DriverError::Uncertain(redact(&text, &secrets)),
                other => other,
            })?;
            let answer = outcome.answer.map(|answer| redact_value(Value::Object(answer), &secrets));
            let answer = answer.and_then(|answer| if let Value::Object(answer) = answer { Some(answer) } else { None });
            let words = tame(&redact(&outcome.words, &secrets), WORDS_BYTES);
            Ok(state.push(Outcome(DriverOutcome { exit_code: outcome.exit_code, answer, words }))?)
        })
    }

    fn drop(&mut self, driver: Resource<Driver>) -> wasmtime::Result<()> {
        dropped(self, driver)
    }
}

impl HostArguments for State {
    fn new(&mut self, call: String) -> wasmtime::Result<Resource<Arguments>> {
        self.count()?;
        Ok(self.push(Arguments { call, ..Arguments::default() })?)
    }

    fn text(&mut self, arguments: Resource<Arguments>, text: String) -> Result<(), HostError> {
        self.count()?;
        if text.contains('\0') {
            let text = "an argument of a program has no NUL".to_owned();
            return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
        }
        self.table.get_mut(&arguments)?.texts.push(text);
        Ok(())
    }

    fn json(&mut self, arguments: Resource<Arguments>, what: Resource<Options>) -> wasmtime::Result<()> {
        self.count()?;
        let options = self.table.get(&what)?;
        let (json, secrets) = (as_json(&options.values), options.secrets.clone());
        let arguments = self.table.get_mut(&arguments)?;
        arguments.texts.push(json);
        arguments.secrets.extend(secrets);
        Ok(())
    }

    fn drop(&mut self, arguments: Resource<Arguments>) -> wasmtime::Result<()> {
        dropped(self, arguments)
    }
}

impl HostOptions for State {
    fn new(&mut self) -> wasmtime::Result<Resource<Options>> {
        self.count()?;
        Ok(self.push(Options::default())?)
    }

    fn set(&mut self, options: Resource<Options>, key: String, value: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&options)?.values.insert(key, value);
        Ok(())
    }

    fn set_from(
        &mut self,
        options: Resource<Options>,
        volume: Resource<VolumeHandle>,
        path: String,
    ) -> Result<(), HostError> {
        self.count()?;
        let spec = Arc::clone(&self.table.get(&volume)?.0);
        let options = self.table.get_mut(&options)?;
        for (key, value) in spec.map_at(&path).into_iter().flatten() {
            let Value::String(text) = value else {
                let text =
                    format!("{}.{path}.{}: it must be a text; write it in quotes", spec.source, tame(key, SHOWN_BYTES));
                return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
            };
            options.values.insert(key.clone(), text.clone());
        }
        Ok(())
    }

    fn set_secret(
        &mut self,
        options: Resource<Options>,
        volume: Resource<VolumeHandle>,
        pod: Resource<PodHandle>,
        prefix: String,
        secret_type: String,
    ) -> Result<u32, HostError> {
        self.count()?;
        let spec = Arc::clone(&self.table.get(&volume)?.0);
        let pod = Arc::clone(&self.table.get(&pod)?.0);
        let Some((namespace, name)) = secret_of(&spec, &pod.namespace) else {
            return Ok(0);
        };
        let (found_type, secret) = self.call.environment().objects().typed_secret(&namespace, &name)?;
        if spec.persistent_volume.is_some() && found_type != secret_type {
            let text = format!(
                "secret {namespace}/{name} is of type {found_type:?}, and a driver gets a PersistentVolume's secret only if its type is the driver's name, {secret_type:?}"
            );
            return Err(HostError::Plugin(types::Error::PermissionDenied(text)));
        }
        let mut count: u32 = 0;
        for key in secret.keys() {
            let Some(value) = secret.get(key) else { continue };
            let options = self.table.get_mut(&options)?;
            options.values.insert(format!("{prefix}{key}"), STANDARD.encode(value));
            options.secrets.extend(forms(value));
            self.secrets.use_value(value);
            count = count.saturating_add(1);
        }
        longest_first(&mut self.table.get_mut(&options)?.secrets);
        *self.secrets_used.entry(format!("{namespace}/{name}")).or_default() +=
            usize::try_from(count).unwrap_or_default();
        Ok(count)
    }

    fn drop(&mut self, options: Resource<Options>) -> wasmtime::Result<()> {
        dropped(self, options)
    }
}

impl HostOutcome for State {
    fn exit_code(&mut self, outcome: Resource<Outcome>) -> wasmtime::Result<Option<i32>> {
        self.count()?;
        Ok(self.table.get(&outcome)?.0.exit_code)
    }

    fn answered(&mut self, outcome: Resource<Outcome>) -> wasmtime::Result<bool> {
        self.count()?;
        Ok(self.table.get(&outcome)?.0.answer.is_some())
    }

    fn field(&mut self, outcome: Resource<Outcome>, path: String) -> wasmtime::Result<Option<String>> {
        self.count()?;
        let answer = self.table.get(&outcome)?.0.answer.as_ref();
        Ok(answer.and_then(|answer| field(answer, &path)))
    }

    fn words(&mut self, outcome: Resource<Outcome>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&outcome)?.0.words.clone())
    }

    fn drop(&mut self, outcome: Resource<Outcome>) -> wasmtime::Result<()> {
        dropped(self, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_the_kubelet_writes_them() {
        let options = [("b", "two words"), ("a", "\"<&>\"\n\u{2028}ü")];
        let options = options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!(as_json(&options), r#"{"a":"\"\u003c\u0026\u003e\"\n\u2028ü","b":"two words"}"#);
    }

    #[test]
    fn no_form_of_a_secret_comes_back() {
        let mut secrets: Vec<String> = [b"hunter\"2".as_slice(), b"hunter", b"x"].into_iter().flat_map(forms).collect();
        longest_first(&mut secrets);
        let encoded = STANDARD.encode("hunter\"2");
        let text = format!("tried {encoded} and eA==, also hunter\"2 as \"hunter\\\"2\" and hunter; x stays");
        let redacted = redact(&text, &secrets);
        assert!(
            !redacted.contains("hunter") && !redacted.contains(&encoded) && !redacted.contains("eA=="),
            "{redacted}"
        );
        assert!(redacted.ends_with("x stays"), "{redacted}");
        let answer = serde_json::json!({"status": "Failure", "message": {"deep": ["hunter"]}});
        assert!(!redact_value(answer, &secrets).to_string().contains("hunter"));
    }

    #[test]
    fn the_fields_of_an_answer_are_found_by_their_paths() {
        let Value::Object(answer) =
            serde_json::json!({"status": "Success", "capabilities": {"attach": false}, "device": null})
        else {
            panic!("an object")
        };
        assert_eq!(field(&answer, "capabilities.attach").as_deref(), Some("false"));
        assert_eq!(field(&answer, "status").as_deref(), Some("Success"));
        for missing in ["device", "status.inner", "other", ""] {
            assert_eq!(field(&answer, missing), None, "{missing}");
        }
    }
}
