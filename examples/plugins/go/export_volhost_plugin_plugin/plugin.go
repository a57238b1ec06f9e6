// Package export_volhost_plugin_plugin is what the plugin is and which volumes it serves.
package export_volhost_plugin_plugin

import (
	"runtime/debug"

	"wit_component/size"
	"wit_component/volhost_plugin_types"
	"wit_component/volhost_plugin_volumes"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// A call has a sandbox of its own, which ends with it: there is nothing to collect for. And a collection that begins while the host hands
// over a value would ask for the time, which no plugin may at that moment.
func init() { debug.SetGCPercent(-1) }

func Describe(into *volhost_plugin_volumes.Description) {
	// A handle that is lent for a call is given back before the call ends: the collector would be too late.
	defer into.Drop()
	into.Name("example.com/go-scratch")
	into.Version("0.1.0")
	into.Serves("goScratch")
}

func Identify(volume *volhost_plugin_volumes.Volume, into *volhost_plugin_volumes.Identity) wit.Result[wit.Unit, volhost_plugin_types.Error] {
	defer volume.Drop()
	defer into.Drop()
	if _, refusal := size.Of(volume); refusal != nil {
		return wit.Err[wit.Unit](*refusal)
	}
	return wit.Ok[wit.Unit, volhost_plugin_types.Error](wit.Unit{})
}
