//! The cases, by name. Each checks one sentence of the contract.

mod attach;
mod changes;
mod data;
mod describe;
mod expand;
mod faults;
mod groups;
mod identify;
mod limits;
mod made_snapshots;
mod made_volumes;
mod options;
mod other_nodes;
mod publish;
mod stats;
mod steps;
mod two_volumes;
mod unpublish;

use crate::lifecycle::LifecycleStep;
use crate::test_node::TestNode;
use crate::verdict::Verdict;

/// What a case does.
#[derive(Clone, Copy)]
pub(crate) enum CaseBody {
    /// Something of its own.
    Own(fn(&TestNode) -> Verdict),
    /// One check for each step.
    OnStep(LifecycleStep, fn(&TestNode, LifecycleStep) -> Verdict),
}

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `GROUP/WHAT`; stable.
    pub(crate) name: &'static str,
    /// The number of the sentence that it checks.
    pub(crate) sentence: &'static str,
    pub(crate) work: CaseBody,
}

impl Case {
    pub(crate) fn run(&self, test_node: &TestNode) -> Verdict {
        match self.work {
            CaseBody::Own(run) => run(test_node),
            CaseBody::OnStep(step, run) => run(test_node, step),
        }
    }
}

const fn own(name: &'static str, sentence: &'static str, run: fn(&TestNode) -> Verdict) -> Case {
    Case { name, sentence, work: CaseBody::Own(run) }
}

const fn on(
    name: &'static str,
    sentence: &'static str,
    step: LifecycleStep,
    run: fn(&TestNode, LifecycleStep) -> Verdict,
) -> Case {
    Case { name, sentence, work: CaseBody::OnStep(step, run) }
}

/// The cases of every step, under the names of the step's two functions.
macro_rules! on_step {
    ($step:expr, $up:literal, $down:literal) => {
        [
            on(concat!($up, "/idempotent"), "M2", $step, steps::up_twice),
            on(concat!($up, "/after-its-undo"), "M5", $step, steps::up_after_down),
            on(concat!($up, "/same-calls"), "M16", $step, steps::same_calls),
            on(concat!($up, "/leaves-nothing"), "M15", $step, steps::leaves_nothing),
            on(concat!($up, "/crash-then-repeat"), "M7", $step, steps::up_crash_then_repeat),
            on(concat!($up, "/crash-then-undo"), "M8", $step, steps::up_crash_then_undo),
            on(concat!($up, "/fault-is-reported"), "X1", $step, faults::up_is_reported),
            on(concat!($up, "/fault-in-the-kernels-words"), "X2", $step, faults::up_in_the_kernels_words),
            on(concat!($up, "/fault-is-not-invalid-argument"), "X3", $step, faults::up_is_not_invalid_argument),
            on(
                concat!($up, "/fault-changes-nothing-or-is-uncertain"),
                "X4",
                $step,
                faults::up_changes_nothing_or_is_uncertain,
            ),
            on(concat!($up, "/fault-then-repeat"), "X5", $step, faults::up_then_repeat),
            on(concat!($up, "/fault-then-undo"), "X6", $step, faults::up_then_undo),
            on(concat!($down, "/idempotent"), "M4", $step, steps::down_twice),
            on(concat!($down, "/never-taken"), "M4", $step, steps::down_never_taken),
            on(concat!($down, "/crash-then-repeat"), "M7", $step, steps::down_crash_then_repeat),
            on(concat!($down, "/crash-then-redo"), "M8", $step, steps::down_crash_then_redo),
            on(concat!($down, "/fault-is-reported"), "X1", $step, faults::down_is_reported),
            on(concat!($down, "/fault-in-the-kernels-words"), "X2", $step, faults::down_in_the_kernels_words),
            on(concat!($down, "/fault-then-repeat"), "X5", $step, faults::down_then_repeat),
        ]
    };
}

/// The cases that do not belong to a step.
const OF_THEIR_OWN: &[Case] = &[
    own("describe/stable", "P1", describe::stable),
    own("describe/changes-nothing", "P2", describe::changes_nothing),
    own("identify/changes-nothing", "P2", identify::changes_nothing),
    own("describe/reaches-nothing", "P10", describe::reaches_nothing),
    own("identify/reaches-nothing", "P10", identify::reaches_nothing),
    own("identify/stable", "P3", identify::stable),
    own("identify/same-for-every-outer-name", "P3", identify::same_for_every_outer_name),
    own("identify/unique", "P4", identify::unique),
    own("identify/named", "P5", identify::named),
    own("identify/unknown-field", "P6", identify::unknown_field),
    own("identify/wrong-type", "P7", identify::wrong_type),
    own("identify/missing-field", "P8", identify::missing_field),
    own("identify/edge-values", "P9", identify::edge_values),
    own("publish/is-mounted", "M1", publish::is_published),
    own("publish/over-an-empty-folder", "M11", publish::over_an_empty_folder),
    own("publish/remounts", "M11", publish::remounts),
    own("publish/two-pods-at-once", "M6", publish::two_pods_at_once),
    own("publish/long-name", "M18", publish::long_name),
    own("publish/mounts-do-not-propagate", "M17", publish::mounts_do_not_propagate),
    own("publish/read-only", "M12", options::read_only),
    own("publish/mount-options", "M13", options::mount_options),
    own("publish/unknown-mount-option", "M13", options::unknown_mount_option),
    own("publish/fs-group", "M14", options::fs_group),
    own("unpublish/gone", "M3", unpublish::gone),
    own("unpublish/leaves-the-other-pod", "M6", unpublish::leaves_the_other_pod),
    own("unpublish/without-the-source", "M9", unpublish::without_the_source),
    own("unpublish/busy", "M10", unpublish::busy),
    own("publish/keeps-data-when-repeated", "M10", data::kept_when_repeated),
    own("unpublish/data", "M10", data::after_unpublish),
    own("attach/is-found", "N1", attach::is_found),
    own("are-attached/in-order", "N2", attach::in_order),
    own("wait-for-attach/finds-the-device", "N3", attach::finds_the_device),
    own("wait-for-attach/no-device", "N4", attach::no_device),
    own("publish/same-for-every-pod", "N5", attach::same_for_every_pod),
    own("stage-device/returns-a-device", "N6", attach::returns_a_device),
    own("publish/leaves-other-volumes", "N7", two_volumes::stay_apart),
    own("map-device/leaves-other-volumes", "N7", two_volumes::devices_stay_apart),
    own("expand/grows", "E1", expand::grows),
    own("expand/grows-as-a-device", "E1", expand::grows_as_a_device),
    own("expand/large-enough", "E2", expand::large_enough),
    own("expand/crash-then-repeat", "E3", expand::crash_then_repeat),
    own("expand/fault-then-repeat", "E4", expand::fault_then_repeat),
    own("measure/truthful", "S1", stats::truthful),
    own("measure/changes-nothing", "S2", stats::changes_nothing),
    own("measure/answers-without-a-mount", "S3", stats::answers_without_a_mount),
    own("create/is-found", "V1", made_volumes::is_found),
    own("create/idempotent", "V2", made_volumes::idempotent),
    own("create/conflict", "V3", made_volumes::conflict),
    own("create/unknown-parameter", "V4", made_volumes::unknown_parameter),
    own("create/out-of-range", "V5", made_volumes::out_of_range),
    own("create/crash-then-repeat", "V6", made_volumes::create_crash_then_repeat),
    own("create/fault-then-repeat", "V7", made_volumes::create_fault_then_repeat),
    own("create/of-a-snapshot", "V12", made_snapshots::volume_of_a_snapshot),
    own("delete/gone", "V8", made_volumes::deleted),
    own("delete/idempotent", "V9", made_volumes::delete_idempotent),
    own("delete/crash-then-repeat", "V6", made_volumes::delete_crash_then_repeat),
    own("delete/fault-then-repeat", "V7", made_volumes::delete_fault_then_repeat),
    own("list-volumes/pages", "V10", made_volumes::pages),
    own("list-volumes/unknown-token", "V10", made_volumes::unknown_token),
    own("expand-volume/grows", "V11", made_volumes::grows),
    own("expand-volume/large-enough", "V11", made_volumes::large_enough),
    own("expand-volume/crash-then-repeat", "V6", made_volumes::expand_crash_then_repeat),
    own("create-snapshot/is-found", "V1", made_snapshots::is_found),
    own("create-snapshot/idempotent", "V2", made_snapshots::idempotent),
    own("create-snapshot/conflict", "V3", made_snapshots::conflict),
    own("create-snapshot/crash-then-repeat", "V6", made_snapshots::crash_then_repeat),
    own("delete-snapshot/gone", "V8", made_snapshots::deleted),
    own("delete-snapshot/idempotent", "V9", made_snapshots::delete_idempotent),
    own("modify/values-are-kept", "C1", changes::values_are_kept),
    own("modify/idempotent", "C2", changes::idempotent),
    own("modify/leaves-the-others", "C3", changes::leaves_the_others),
    own("modify/unknown-parameter", "C4", changes::unknown_parameter),
    own("modify/wrong-value", "C4", changes::wrong_value),
    own("modify/no-volume", "C5", changes::no_volume),
    own("modify/crash-then-repeat", "C6", changes::crash_then_repeat),
    own("modify/fault-then-repeat", "C7", changes::fault_then_repeat),
    own("create/mutable-parameters", "C8", changes::made_so),
    own("create/unknown-mutable-parameter", "C8", changes::made_with_an_unknown_one),
    own("create-group/is-found", "G1", groups::is_found),
    own("create-group/idempotent", "G2", groups::idempotent),
    own("create-group/conflict", "G3", groups::conflict),
    own("create-group/no-volume", "G4", groups::no_volume),
    own("create-group/snapshots-are-listed", "G5", groups::snapshots_are_listed),
    own("delete-snapshot/of-a-group", "G5", groups::not_one_alone),
    own("create/of-a-group", "G6", groups::volume_of_a_group),
    own("delete-group/gone", "G7", groups::deleted),
    own("delete-group/idempotent", "G8", groups::delete_idempotent),
    own("create-group/crash-then-repeat", "G9", groups::create_crash_then_repeat),
    own("create-group/crash-then-delete", "G9", groups::create_crash_then_delete),
    own("delete-group/crash-then-repeat", "G9", groups::delete_crash_then_repeat),
    own("create-group/fault-then-repeat", "G10", groups::create_fault_then_repeat),
    own("delete-group/fault-then-repeat", "G10", groups::delete_fault_then_repeat),
    own("attached-to/names-the-node", "O1", other_nodes::names_the_node),
    own("attached-to/none-but-this-one", "O2", other_nodes::none_but_this_one),
    own("attached-to/changes-nothing", "O3", other_nodes::asking_changes_nothing),
    own("attach/for-the-named-node", "O4", other_nodes::for_the_named_node),
    own("attach/conflict", "O5", other_nodes::conflict),
    own("detach-from/gone", "O6", other_nodes::detached_from),
    own("detach-from/idempotent", "O7", other_nodes::detached_from_twice),
    own("detach-from/leaves-other-volumes", "O8", other_nodes::others_stay),
    own("detach-from/crash-then-repeat", "O9", other_nodes::crash_then_repeat),
    own("detach-from/fault-then-repeat", "O10", other_nodes::fault_then_repeat),
    own("limits/host-calls", "L1", limits::host_calls),
    own("limits/lines", "L1", limits::lines),
    own("limits/memory-and-time", "L1", limits::memory_and_time),
];

/// Every case, in the order in which they run.
pub(crate) fn all() -> impl Iterator<Item = Case> {
    let steps = [
        on_step!(LifecycleStep::Attach, "attach", "detach"),
        on_step!(LifecycleStep::Stage, "stage", "unstage"),
        on_step!(LifecycleStep::Publish, "publish", "unpublish"),
        on_step!(LifecycleStep::StageDevice, "stage-device", "unstage-device"),
        on_step!(LifecycleStep::MapDevice, "map-device", "unmap-device"),
    ];
    OF_THEIR_OWN.iter().copied().chain(steps.into_iter().flatten())
}
