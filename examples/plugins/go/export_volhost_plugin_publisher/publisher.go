// Package export_volhost_plugin_publisher mounts a memory file system for one pod.
package export_volhost_plugin_publisher

import (
	"strconv"

	"wit_component/size"
	"wit_component/volhost_plugin_mounts"
	"wit_component/volhost_plugin_tmpfs"
	"wit_component/volhost_plugin_types"
	"wit_component/volhost_plugin_volumes"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

type result = wit.Result[wit.Unit, volhost_plugin_types.Error]

func failed(why volhost_plugin_types.Error) result { return wit.Err[wit.Unit](why) }

func Publish(volume *volhost_plugin_volumes.Volume, pod *volhost_plugin_volumes.Pod, target *volhost_plugin_mounts.MountTarget) result {
	defer volume.Drop()
	defer pod.Drop()
	defer target.Drop()
	// The host may call again at any time: an existing mount is done.
	state := target.State()
	if state.IsErr() {
		return failed(state.Err())
	}
	if state.Ok() == volhost_plugin_mounts.TargetStateMounted {
		return wit.Ok[wit.Unit, volhost_plugin_types.Error](wit.Unit{})
	}
	limit, refusal := size.Of(volume)
	if refusal != nil {
		return failed(*refusal)
	}
	options := []volhost_plugin_types.FsOption{option("mode", "0777")}
	if limit > 0 {
		options = append(options, option("size", strconv.FormatInt(limit, 10)))
	}
	if group := pod.FsGroup(); group.IsSome() {
		options = append(options, option("gid", strconv.FormatUint(uint64(group.Some()), 10)))
	}
	created := volhost_plugin_tmpfs.Create(options)
	if created.IsErr() {
		return failed(created.Err())
	}
	mount := created.Ok()
	// No process sees the mount before it is attached; on a failure until then, it is discarded with
	// its handle.
	defer mount.Drop()
	if volume.ReadOnly() {
		if set := mount.SetOptions([]string{"ro"}, false); set.IsErr() {
			return set
		}
	}
	return target.Attach(mount)
}

func Unpublish(target *volhost_plugin_mounts.MountTarget) result {
	defer target.Drop()
	return target.Detach()
}

func option(key, value string) volhost_plugin_types.FsOption {
	return volhost_plugin_types.FsOption{Key: key, Value: wit.Some(value)}
}
