//! The figures of the benchmark: how they are compared, and that docs/benchmarks.md shows the
//! recorded ones.

use std::fs;
use std::time::Duration;

use volhost_tests::artifacts::workspace;
use volhost_tests::benchmark::{Comparison, Figure, Machine, Measured, PageError, Run, Stacks, replace_table, table};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A run on a machine with this processor.
fn run(cpu: &str, noise: f64, figures: Vec<Figure>) -> Run {
    let machine = Machine { cpu: cpu.to_owned(), processors: 2, kernel: "6.18".to_owned(), rustc: "1.95".to_owned() };
    let (commit, date) = ("0123456789".to_owned(), "2026-01-02".to_owned());
    Run { commit, date, machine, release: true, noise, seconds: 200, figures }
}

fn time(ms_of: u64) -> Figure {
    Figure::new("ready", "pod ready", ms(ms_of))
}

/// Compares one figure with the recorded one of a quiet run on the same machine: worse, better,
/// unchanged.
fn compared(now: Figure, recorded: Figure) -> (usize, usize, usize) {
    let comparison = Comparison::new(&run("a", 0.0, vec![now]), &run("a", 0.0, vec![recorded]));
    (comparison.worse.len(), comparison.better.len(), comparison.unchanged)
}

#[test]
fn the_page_shows_the_recorded_run() {
    let page = fs::read_to_string(workspace().join("docs/benchmarks.md")).unwrap();
    if !Run::recorded_file().exists() {
        assert!(!page.contains("| what | figure |"), "docs/benchmarks.md has figures, but no run is recorded");
        return;
    }
    let recorded = Run::read(&Run::recorded_file()).unwrap();
    assert!(recorded.release, "the recorded run is not of a release build");
    let shown = replace_table(&page, &recorded).unwrap();
    assert!(page == shown, "docs/benchmarks.md was edited: its table is written by make bench RECORD=yes");
}

#[test]
fn a_page_without_the_place_of_the_table_is_refused() {
    assert_eq!(replace_table("# Measurements\n", &run("a", 0.0, vec![])), Err(PageError));
}

#[test]
fn a_recorded_table_is_replaced_and_the_text_around_it_stays() {
    let place = "<!-- recorded run: make bench RECORD=yes writes this -->\nold\n<!-- end of the recorded run -->";
    let page = format!("before\n\n{place}\n\nafter\n");
    let first = replace_table(&page, &run("a", 0.0, vec![time(1)])).unwrap();
    let second = replace_table(&first, &run("a", 0.1, vec![time(2)])).unwrap();
    assert!(second.starts_with("before\n\n<!--") && second.ends_with("-->\n\nafter\n"), "{second}");
    assert!(second.contains("| pod ready | 2.00 ms | | | |\n") && second.contains("noise 10 %"), "{second}");
    assert!(!second.contains("old") && !second.contains("1.00 ms"), "{second}");
}

#[test]
fn a_figure_counts_as_changed_beyond_its_margin_alone() {
    assert_eq!(compared(time(114), time(100)), (0, 0, 1));
    assert_eq!(compared(time(116), time(100)), (1, 0, 0));
    assert_eq!(compared(time(100), time(114)), (0, 0, 1));
    assert_eq!(compared(time(100), time(116)), (0, 1, 0));
    let tail = |ms| time(ms).with_tail_margin();
    assert_eq!(compared(tail(174), tail(100)), (0, 0, 1));
    assert_eq!(compared(tail(176), tail(100)), (1, 0, 0));
}

#[test]
fn more_is_better_where_things_are_counted_by_the_second() {
    let rate = |rate| Figure::new("binds", "bind volumes", Measured::per_second(rate));
    assert_eq!(compared(rate(80.0), rate(100.0)), (1, 0, 0));
    assert_eq!(compared(rate(120.0), rate(100.0)), (0, 1, 0));
}

#[test]
fn figures_too_small_to_tell_apart_are_equal() {
    let idle = |percent| Figure::new("idle", "idle", Measured::percent(percent));
    assert_eq!(compared(idle(0.09), idle(0.0)), (0, 0, 1));
    assert_eq!(compared(idle(0.2), idle(0.0)), (1, 0, 0));
}

#[test]
fn the_noise_of_either_run_widens_the_margin() {
    let worse = |now, recorded| {
        let comparison = Comparison::new(&run("a", now, vec![time(140)]), &run("a", recorded, vec![time(100)]));
        comparison.worse.len()
    };
    assert_eq!((worse(0.0, 0.0), worse(0.3, 0.0), worse(0.0, 0.3), worse(0.2, 0.2)), (1, 0, 0, 1));
}

#[test]
fn ratios_are_compared_between_machines_and_other_figures_are_not() {
    let beside = |own, bare| time(own).beside("bare", ms(bare));
    let alone = Figure::new("alone", "nothing beside it", ms(1));
    // Twice as slow a machine, and the same work on it.
    let recorded = run("slow", 0.0, vec![beside(200, 20), alone.clone()]);
    let comparison = Comparison::new(&run("fast", 0.0, vec![beside(100, 10), alone.clone()]), &recorded);
    assert_eq!((comparison.worse.len(), comparison.better.len(), comparison.unchanged), (0, 0, 1));
    assert_eq!(comparison.incomparable, ["alone"]);
    let comparison = Comparison::new(&run("fast", 0.0, vec![beside(190, 10), alone]), &recorded);
    assert_eq!(comparison.worse.len(), 1, "{comparison}");
    assert!(comparison.to_string().contains("WORSE   ready: 190 ms (19 x bare) after 200 ms (10 x bare)"));
}

#[test]
fn figures_of_one_run_alone_are_named() {
    let other = Figure::new("other", "another", ms(1));
    let comparison = Comparison::new(&run("a", 0.0, vec![time(1)]), &run("a", 0.0, vec![other]));
    assert_eq!((comparison.unrecorded, comparison.unmeasured), (vec!["ready".to_owned()], vec!["other".to_owned()]));
}

#[test]
fn an_aim_is_missed_on_the_wrong_side_alone() {
    assert!(!time(300).aim(ms(300)).misses_aim());
    assert!(time(301).aim(ms(300)).misses_aim());
    let rate = Figure::new("binds", "bind volumes", Measured::per_second(40.0));
    assert!(rate.clone().beside("bare", Measured::per_second(100.0)).aim_ratio(0.5).misses_aim());
    assert!(!rate.clone().beside("bare", Measured::per_second(80.0)).aim_ratio(0.5).misses_aim());
    assert!(rate.aim_ratio(0.5).misses_aim(), "there is nothing to compare with");
}

#[test]
fn a_run_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let figures = vec![time(1).beside("bare", ms(2)).aim_ratio(2.0), Figure::new("n", "calls", Measured::count(7.0))];
    let written = run("a", 0.25, figures);
    written.write(&file).unwrap();
    assert_eq!(Run::read(&file).unwrap(), written);
    fs::write(&file, "{}").unwrap();
    assert!(Run::read(&file).unwrap_err().to_string().contains("is not the figures of a run"));
}

#[test]
fn a_table_has_figure_bare_figure_ratio_and_aim() {
    let figures = vec![time(4).beside("bare", ms(2)).aim(ms(3)), Figure::new("n", "calls", Measured::count(1234.0))];
    let lines = table(&run("a", 0.0, figures));
    assert!(
        lines.contains("| pod ready | 4.00 ms | bare: 2.00 ms | 2.00 x | at most 3.00 ms, **missed** |"),
        "{lines}"
    );
    assert!(lines.contains("| calls | 1,234 | | | |"), "{lines}");
}

const SCRIPT: &str = "\
volhost-op
\tffffffff816bb015 do_move_mount ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t    55d0c0ffee10 _RNvNtCs1234_14volhost_kernel5linux6attach (/srv/volhostd)
\t    55d0c0ffee20 _ZN15volhost_runtime6plugin7publish17h0123456789abcdefE (/srv/volhostd)

volhostd
\t    7f1200001000 malloc (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    55d0c0ffee30 _ZN12volhost_core4core4step17h0123456789abcdefE (/srv/volhostd)

volhostd
\t    7f1300001000 wasm[0]::function[7] (/cache/plugin.elf)
\t    7f1300002000 wasm[0]::function[5] (/cache/plugin.elf)

volhostd
\t    55d0c0ffee30 _ZN12volhost_core4core4step17h0123456789abcdefE (/srv/volhostd)
";

#[test]
fn a_profile_is_summed_up_by_thread_place_part_and_function() {
    let stacks = Stacks::parse(SCRIPT, "volhostd");
    assert_eq!(stacks.len(), 4);
    let summary = stacks.summary();
    for line in [
        "  75.0 %  volhostd",
        "  25.0 %  volhost-op",
        "  25.0 %  kernel",
        "  25.0 %  libc",
        "  25.0 %  volhost and its libraries",
        "  25.0 %  plugins, and code without a name",
        "  50.0 %  state machine",
        // The kernel's primitives are called from the sandbox: they are a part of their own.
        "  25.0 %  mounts, folders and checks",
        "   0.0 %  records",
        "  25.0 %  plugin code",
        "  50.0 %  volhost_core::core::step",
        "  25.0 %  volhost_kernel::linux::attach",
    ] {
        assert!(summary.lines().any(|found| found == line), "{line:?} is missing:\n{summary}");
    }
    let alone = summary.split("Functions alone:").nth(1).unwrap();
    assert!(alone.contains("25.0 %  do_move_mount") && !alone.contains("attach"), "{alone}");
}

#[test]
fn a_folded_stack_has_the_thread_and_the_outermost_function_first() {
    let folded = Stacks::parse(SCRIPT, "volhostd").folded();
    assert!(folded.contains("volhostd;volhost_core::core::step;malloc 1\n"), "{folded}");
    assert!(folded.contains("volhostd;volhost_core::core::step 1\n"), "{folded}");
    assert!(folded.contains("volhostd;plugin code 1\n"), "{folded}");
}
