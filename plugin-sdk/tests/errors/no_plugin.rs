use volhost_plugin_sdk::prelude::*;

struct MyPlugin;

export_plugin!(MyPlugin);

fn main() {}
