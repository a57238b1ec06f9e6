// Program translation writes into cases.json what Kubernetes' own library makes of each input.
//
//	cd tests/translation && go run . cases.json
//
// The tests of host/csi-translation read the file.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// testCase is one input, and what the library makes of it: an object, or nothing and Fails.
type testCase struct {
	Name string `json:"name"`
	// To is the direction: volume, inline, class, or back.
	To        string          `json:"to"`
	Namespace string          `json:"namespace,omitempty"`
	Input     json.RawMessage `json:"input"`
	Expected  json.RawMessage `json:"expected,omitempty"`
	Fails     bool            `json:"fails,omitempty"`
}

func translate(one testCase) (any, error) {
	library, logger := translation.New(), klog.Background()
	switch one.To {
	case "volume":
		var volume core.PersistentVolume
		if err := json.Unmarshal(one.Input, &volume); err != nil {
			panic(err)
		}
		return library.TranslateInTreePVToCSI(logger, &volume)
	case "inline":
		var volume core.Volume
		if err := json.Unmarshal(one.Input, &volume); err != nil {
			panic(err)
		}
		return library.TranslateInTreeInlineVolumeToCSI(logger, &volume, one.Namespace)
	case "class":
		var class storage.StorageClass
		if err := json.Unmarshal(one.Input, &class); err != nil {
			panic(err)
		}
		translated, err := library.TranslateInTreeStorageClassToCSI(logger, class.Provisioner, &class)
		if err == nil {
			// Its callers replace the name.
			translated.Provisioner, err = library.GetCSINameFromInTreeName(class.Provisioner)
		}
		return translated, err
	case "back":
		var volume core.PersistentVolume
		if err := json.Unmarshal(one.Input, &volume); err != nil {
			panic(err)
		}
		return library.TranslateCSIPVToInTree(&volume)
	}
	return nil, fmt.Errorf("%s: no direction %q", one.Name, one.To)
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var cases []testCase
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	for index := range cases {
		one := &cases[index]
		one.Expected, one.Fails = nil, false
		object, err := translate(*one)
		if err != nil {
			one.Fails = true
			continue
		}
		if one.Expected, err = json.Marshal(object); err != nil {
			panic(err)
		}
	}
	var lines []byte
	for index, one := range cases {
		line, err := json.Marshal(one)
		if err != nil {
			panic(err)
		}
		separator := ",\n"
		if index == 0 {
			separator = "[\n"
		}
		lines = append(append(lines, separator...), line...)
	}
	if err := os.WriteFile(os.Args[1], append(lines, "\n]\n"...), 0o644); err != nil {
		panic(err)
	}
}
