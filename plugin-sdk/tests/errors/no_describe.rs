use volhost_plugin_sdk::prelude::*;

struct MyPlugin;

impl VolumePlugin for MyPlugin {
    fn identify(_: &Volume, _: &mut Identity) -> Result<()> {
        Ok(())
    }
    fn set_up(_: &Volume, _: &Pod, target: &MountTarget) -> Result<()> {
        target.make_folder(0o755, None)
    }
    fn tear_down(target: &MountTarget) -> Result<()> {
        target.delete_folder()
    }
}

export_plugin!(MyPlugin);

fn main() {}
