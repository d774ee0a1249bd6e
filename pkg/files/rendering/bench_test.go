package rendering_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/rendering"
)

// contents returns 256 values of 1 KiB each: lines of a configuration file.
func contents() map[string][]byte {
	line := "log.level = \"info\"   # one of debug, info, warn\n"
	values := map[string][]byte{}
	for i := range 256 {
		values[fmt.Sprintf("key-%03d", i)] = []byte(strings.Repeat(line, 1024/len(line)))
	}
	return values
}

// BenchmarkRender compares the rendering with what the libraries of the formats take for the same values.
func BenchmarkRender(b *testing.B) {
	values := contents()
	texts := map[string]string{}
	for name, value := range values {
		texts[name] = string(value)
	}
	for name, render := range map[string]func() ([]byte, error){
		"json/rendering":     func() ([]byte, error) { return rendering.Render(api.FormatJSON, values), nil },
		"json/encoding-json": func() ([]byte, error) { return json.MarshalIndent(texts, "", "  ") },
		"yaml/rendering":     func() ([]byte, error) { return rendering.Render(api.FormatYAML, values), nil },
		"yaml/yaml.v3":       func() ([]byte, error) { return yaml3.Marshal(texts) },
		"size/rendering": func() ([]byte, error) {
			for name, value := range values {
				if _, err := rendering.Size(api.FormatJSON, name, value); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := render(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
