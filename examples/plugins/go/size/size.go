// Package size reads the one field of the volume `goScratch: { size: 64Mi }`.
package size

import (
	"fmt"
	"math/big"
	"regexp"

	"wit_component/volhost_plugin_types"
	"wit_component/volhost_plugin_volumes"
)

var (
	quantity = regexp.MustCompile(`^([0-9]{1,20})([kMG]|[KMG]i)?$`)
	units    = map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
)

// Of reads the limit in bytes; 0 when the volume has none. It checks every field, so that a
// misspelt one is reported.
func Of(volume *volhost_plugin_volumes.Volume) (int64, *volhost_plugin_types.Error) {
	for _, field := range volume.Parameters() {
		if field != "size" {
			return 0, invalid(volume, field, "no such field; the only one is size")
		}
	}
	text := volume.Parameter("size")
	if text.IsNone() {
		return 0, nil
	}
	found := quantity.FindStringSubmatch(text.Some())
	if found == nil {
		return 0, invalid(volume, "size", fmt.Sprintf("%.24q is no quantity; write it as 64Mi", text.Some()))
	}
	limit, _ := new(big.Int).SetString(found[1], 10)
	limit.Mul(limit, big.NewInt(units[found[2]]))
	if limit.Sign() <= 0 || !limit.IsInt64() {
		return 0, invalid(volume, "size", "must be more than 0 and less than 8 EiB")
	}
	return limit.Int64(), nil
}

func invalid(volume *volhost_plugin_volumes.Volume, field, why string) *volhost_plugin_types.Error {
	refusal := volhost_plugin_types.MakeErrorInvalidArgument(fmt.Sprintf("%s.%s: %s", volume.Source(), field, why))
	return &refusal
}
