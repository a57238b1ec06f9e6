use volhost_plugin_sdk::prelude::*;

export_plugin!();

fn main() {}
