//! What a plugin costs: loading it from the cache, a fresh sandbox with a call, one host call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use volhost_model::view::EventKind;
use volhost_model::{SpecName, VolumeSpec};
use volhost_runtime::{Call, CallSink, Compiler, Limits, LogLevel, Plugin, Runtime, RuntimeConfig};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;
use volhost_tests::benchmark::Figure;

use crate::report::{Report, Times};

const ROUNDS: usize = 2000;
const HOST_CALLS: usize = 1000;

#[derive(Debug)]
struct Silent;

impl CallSink for Silent {
    fn log(&self, _: LogLevel, _: &str) {}
    fn event(&self, _: EventKind, _: &str, _: &str) {}
}

fn runtime(cache: PathBuf) -> Runtime {
    let compiler = Compiler { program: artifacts::volhost(), args: vec!["internal".into(), "compile-plugin".into()] };
    let config =
        RuntimeConfig { cache_dir: cache, limits: Limits::default(), compiler, grants: artifacts::builtin_grants() };
    Runtime::new(config, Arc::new(InMemoryKernel::new())).expect("a runtime")
}

fn spec(calls: usize) -> Arc<VolumeSpec> {
    let mut fields = serde_json::Map::new();
    if calls > 0 {
        fields.insert("calls".to_owned(), calls.into());
    }
    let name = SpecName::new("bench").expect("a name");
    Arc::new(VolumeSpec {
        name,
        source: "wellBehaved".to_owned(),
        fields: fields.into(),
        read_only: false,
        selinux_label: None,
        persistent_volume: None,
    })
}

fn times(rounds: usize, plugin: &Plugin, spec: &Arc<VolumeSpec>) -> Times {
    let call = Call::bare(Duration::from_secs(10)).with_sink(Arc::new(Silent));
    let one = |_| {
        let begun = Instant::now();
        plugin.identify(&call, spec).expect("the plugin answers");
        begun.elapsed()
    };
    Times::new((0..rounds).map(one).collect())
}

pub(crate) fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let runtime = runtime(folder.path().join("cache"));
    let file = artifacts::fixture("fixture-well-behaved");
    let begun = Instant::now();
    runtime.load(&file).expect("the plugin loads");
    let compiled = begun.elapsed();
    let load = |_| {
        let begun = Instant::now();
        let plugin = runtime.load(&file).expect("the plugin loads");
        (begun.elapsed(), plugin)
    };
    let mut loads: Vec<_> = (0..50).map(load).collect();
    let (_, plugin) = loads.pop().expect("it was loaded");
    let load = Times::new(loads.into_iter().map(|(time, _)| time).collect());
    let figure =
        Figure::new("plugin-load", "a plugin loaded from the cache, checks and `describe` included", load.median());
    report.add(figure);
    report.add(Figure::new("plugin-compile", "a small plugin compiled by the child", compiled));

    let plain = times(ROUNDS, &plugin, &spec(0));
    report.add_times("plugin-call", "fresh sandbox and a call", &plain);
    let calling = times(ROUNDS / 10, &plugin, &spec(HOST_CALLS));
    let one = (calling.median().saturating_sub(plain.median())).as_secs_f64() / HOST_CALLS as f64;
    let one = Duration::from_secs_f64(one);
    report.add(Figure::new("plugin-host-call", "one host call that returns a string", one));
}
