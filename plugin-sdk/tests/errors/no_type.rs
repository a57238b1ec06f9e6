// says: export_plugin! wants the plugin's type

use volhost_plugin_sdk::prelude::*;

export_plugin!();

fn main() {}
