// says: `MyPlugin` is no volume plugin
// says: there is no `impl VolumePlugin for MyPlugin`
// says: the functions `describe`, `identify`, `set_up` and `tear_down`

use volhost_plugin_sdk::prelude::*;

struct MyPlugin;

export_plugin!(MyPlugin);

fn main() {}
