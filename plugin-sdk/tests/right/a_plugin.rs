use volhost_plugin_sdk::prelude::*;

struct MyPlugin;

impl VolumePlugin for MyPlugin {
    fn describe(about: &mut Description) {
        about.name("example.com/mine").serves("mine");
    }
    fn identify(_: &Volume, _: &mut Identity) -> Result<()> {
        Ok(())
    }
    fn publish(_: &Volume, _: &Pod, target: &MountTarget) -> Result<()> {
        target.make_folder(0o755, None)
    }
    fn unpublish(target: &MountTarget) -> Result<()> {
        target.delete_folder()
    }
}

export_plugin!(MyPlugin);

fn main() {}
