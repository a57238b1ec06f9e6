//! The mutants: each breaks one rule of the state machine at one place of its source.

/// One mutant.
pub(crate) struct Mutant {
    /// Its name: a variant of `Mutation`.
    pub(crate) name: &'static str,
    /// The rule that it breaks, and how.
    pub(crate) what: &'static str,
    /// The file of `host/core/src`.
    pub(crate) file: &'static str,
    /// An expression, or whole statements, that the file has exactly once, however it is wrapped.
    /// Where there is a `[[part]]`, the rest only identifies the place.
    pub(crate) place: &'static str,
    /// What the mutant does instead.
    pub(crate) broken: &'static str,
}

/// What is added to a file of the copy: access to what the simulation looks at after each step.
pub(crate) const ADDITIONS: &[(&str, &str)] =
    &[("core.rs", include_str!("additions/core.rs")), ("pending.rs", include_str!("additions/pending.rs"))];

/// Every mutant.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "ForgetUncertain",
        what: "R1: an uncertain mount is treated as absent.",
        file: "core/outcome.rs",
        place: "mount.state = if [[at_device]] { before }",
        broken: "at_device || outcome == OutcomeClass::Uncertain",
    },
    Mutant {
        name: "ForgetUncertainDevice",
        what: "R1: an uncertain device is treated as absent.",
        file: "core/outcome.rs",
        place: "volume.device.after_report(device)",
        broken: "match device { DeviceReport::Uncertain => MountState::ABSENT, _ => volume.device.after_report(device) }",
    },
    Mutant {
        name: "ForgetFailedTearDown",
        what: "R1: a failed removal is treated as a successful one.",
        file: "core/outcome.rs",
        place: "mount.state.after_removal([[outcome]])",
        broken: "OutcomeClass::Done",
    },
    Mutant {
        name: "TakeOverBroken",
        what: "R1: what recovery found incomplete is adopted as if it were complete.",
        file: "core/apply.rs",
        place: "mount.state.is_recovered() && [[mount.intact]]",
        broken: "true",
    },
    Mutant {
        name: "UnmountBeforeSynced",
        what: "R2: what recovery found is unmounted before every source has been read.",
        file: "core.rs",
        place: "self.sources_synced || self.draining",
        broken: "true",
    },
    Mutant {
        name: "UnmountUnresolved",
        what: "R2: what may be an unresolved volume is unmounted.",
        file: "core/reconcile.rs",
        place: "!entry.unresolved.is_empty()",
        broken: "false",
    },
    Mutant {
        name: "ReleaseAwaited",
        what: "R2: what is staged or attached for an unresolved volume is unstaged or detached.",
        file: "core/reconcile.rs",
        place: "self.desired.is_awaited(name, volume.spec.as_ref())",
        broken: "false",
    },
    Mutant {
        name: "IgnoreKeys",
        what: "R3: keys are not looked at.",
        file: "core/start.rs",
        place: "self.pending.is_taken(name, scope)",
        broken: "false",
    },
    Mutant {
        name: "IgnoreBackoff",
        what: "R3: failed keys are tried again at once.",
        file: "core/start.rs",
        place: "self.pending.is_waiting(name, pod, kind.name(), self.now)",
        broken: "false",
    },
    Mutant {
        name: "NeverDoubles",
        what: "R3: every failure counts as the first.",
        file: "pending.rs",
        place: "failures.saturating_add(1)",
        broken: "1",
    },
    Mutant {
        name: "Unfair",
        what: "R3: pods of one volume are served by name, not by who waited longest.",
        file: "core/reconcile.rs",
        place: "users.sort_by_key(|uid| (label_is_open(uid), turn_of(uid)));",
        broken: "{}",
    },
    Mutant {
        name: "SleepThroughRetry",
        what: "R3: the end of a back-off starts nothing.",
        file: "core.rs",
        place: "turn.dirty.insert(volume);",
        broken: "drop(volume);",
    },
    Mutant {
        name: "LeaveDevice",
        what: "R4: devices that no pod uses stay.",
        file: "core/reconcile.rs",
        place: "if [[in_use || wanted]] {",
        broken: "in_use || wanted || volume.stageable",
    },
    Mutant {
        name: "LeaveVolume",
        what: "R4: volumes that no pod uses are never forgotten.",
        file: "core/reconcile.rs",
        place: "!self.pending.is_taken(name, &Scope::Volume)",
        broken: "false",
    },
    Mutant {
        name: "IgnoreGone",
        what: "R4: what a pod leaves behind is not looked at when it goes.",
        file: "core/apply.rs",
        place: "turn.dirty.extend(wanted); turn.dirty.extend(self.actual.volumes_of(uid).cloned());",
        broken: "drop(wanted);",
    },
    Mutant {
        name: "DeviceBeforePod",
        what: "A device is unmounted under its pods.",
        file: "core/reconcile.rs",
        place: "let in_use = [[!volume.mounts.is_empty()]];",
        broken: "false",
    },
    Mutant {
        name: "DetachBeforeDevice",
        what: "A volume is detached under its device mount.",
        file: "core/reconcile.rs",
        place: "let (state, kind) = if [[volume.device.may_exist()]] {",
        broken: "false",
    },
    Mutant {
        name: "KeepElsewhere",
        what: "That another node has a volume is never learnt from an attempt to attach it.",
        file: "core/outcome.rs",
        place: "volume.other_node.clone_from(&report.other_node);",
        broken: "{}",
    },
    Mutant {
        name: "MountBeforeAttach",
        what: "A volume is mounted before it is attached.",
        file: "core/reconcile.rs",
        place: "let attached = [[!wanted.volume.attachable || volume.is_some_and(|volume| volume.attach.is_present())]];",
        broken: "true",
    },
    Mutant {
        name: "MountStrangers",
        what: "A volume is mounted from the source it had before.",
        file: "core/start.rs",
        place: "(_, _, Some(wanted)) => [[(Some(Arc::clone(&wanted.volume.spec)), wanted.volume.spec.name.clone())]],",
        broken: "match mount { Some(mount) => (mount.spec.clone(), mount.spec_name.clone()), None => (Some(Arc::clone(&wanted.volume.spec)), wanted.volume.spec.name.clone()) }",
    },
    Mutant {
        name: "ShareSinglePod",
        what: "A second pod gets a volume for one pod alone.",
        file: "core/reconcile.rs",
        place: "spec.is_single_pod()",
        broken: "false",
    },
    Mutant {
        name: "ShareLabels",
        what: "A pod gets a volume that the node has mounted with another label.",
        file: "core/labels.rs",
        place: "!(volume.stageable && volume.device.may_exist())",
        broken: "true",
    },
    Mutant {
        name: "IgnoreVanished",
        what: "R1: a mount that another process took away is believed to exist.",
        file: "core/apply.rs",
        place: "self.vanished(&pod, &volume, turn)",
        broken: "drop((pod, volume))",
    },
    Mutant {
        name: "IgnoreDeviceVanished",
        what: "R1: a staging mount that another process took away is believed to exist.",
        file: "core/apply.rs",
        place: "self.device_vanished(&volume, turn)",
        broken: "drop(volume)",
    },
    Mutant {
        name: "BelieveAttached",
        what: "R1: an attachment that its plugin does not find is believed to be there.",
        file: "core/apply.rs",
        place: "volume.attach = if attaching.by_host(&volume.plugin) { MountState::RECOVERED } else { volume.attach.after_removal(OutcomeClass::Uncertain) };",
        broken: "{}",
    },
    Mutant {
        name: "ForgetNotAttached",
        what: "R1: an attachment that its plugin does not find is forgotten.",
        file: "core/apply.rs",
        place: "volume.attach = if attaching.by_host(&volume.plugin) { MountState::RECOVERED } else { volume.attach.after_removal(OutcomeClass::Uncertain) };",
        broken: "volume.attach = MountState::ABSENT;",
    },
    Mutant {
        name: "ForgetParts",
        what: "A volume counts as ready without its parts.",
        file: "core.rs",
        place: "!mount.lacks_parts(wanted)",
        broken: "true",
    },
    Mutant {
        name: "IgnoreLimit",
        what: "More volumes are attached than may be.",
        file: "core/attach_limit.rs",
        place: "if [[self.actual.get(name).is_some_and(|volume| self.counts_as_attached(name, volume))]] {",
        broken: "true",
    },
    Mutant {
        name: "ForgetPlace",
        what: "A volume that waits for a place is not looked at when one is free.",
        file: "core/attach_limit.rs",
        place: "turn.dirty.append(&mut self.waiting_for_place);",
        broken: "{}",
    },
    Mutant {
        name: "TopBeforeBase",
        what: "A volume is mounted before those that it is made of.",
        file: "core/needs.rs",
        place: "!below.is_some_and(|below| self.is_mounted_as_wanted(pod, needed, below))",
        broken: "false",
    },
    Mutant {
        name: "BaseBeforeTop",
        what: "What a volume is made of is unmounted below it.",
        file: "core/needs.rs",
        place: "others.filter_map(|other| self.actual.mount(other, pod)).any(|mount| needs(mount, volume.name()))",
        broken: "false",
    },
    Mutant {
        name: "AnswerTooEarly",
        what: "A caller that waits for an unmount is answered while the unmount is uncertain.",
        file: "core/answers.rs",
        place: "WaitCondition::Unmounted if [[!self.actual.has_mounts_of(uid)]]",
        broken: "self.mounted_volumes_of(uid.name()).is_empty()",
    },
    Mutant {
        name: "LoseWaiter",
        what: "A caller that waits until the deadline is never answered.",
        file: "core/answers.rs",
        place: "let result = Err(self.wait_failure(&uid, condition, true)); [[turn.commands.push(CoreCommand::Answer { waiter, result });]]",
        broken: "drop((waiter, result));",
    },
    Mutant {
        name: "KeepQuiet",
        what: "A failed unmount is not reported.",
        file: "core/outcome.rs",
        place: "self.publish_failure(&running, &failure, turn);",
        broken: "if operation.kind != OperationKind::Unmount { self.publish_failure(&running, &failure, turn); }",
    },
    Mutant {
        name: "PublishTwice",
        what: "A failure is reported twice.",
        file: "core/outcome.rs",
        place: "self.publish_failure(&running, &failure, turn);",
        broken: "for _ in 0..2 { self.publish_failure(&running, &failure, turn); }",
    },
    Mutant {
        name: "ForgetTimer",
        what: "No timer is armed for a retry.",
        file: "core.rs",
        place: "let retry = [[self.pending.next_retry()]];",
        broken: "None",
    },
    Mutant {
        name: "Restless",
        what: "The timer is armed again at every step.",
        file: "core.rs",
        place: "self.armed.is_none_or(|armed| next < armed)",
        broken: "true",
    },
];
