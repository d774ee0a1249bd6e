package api_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

func TestParseListsTwentyMistakesAndCountsTheRest(t *testing.T) {
	t.Parallel()
	var items, want strings.Builder
	for i := range 33 {
		fmt.Fprintf(&items, "- {key: k, path: /%d}\n", i)
		if i < 20 {
			fmt.Fprintf(&want, "items[%d].path: Invalid value: %q: must be relative to the volume, drop the slash in front; ",
				i, fmt.Sprint("/", i))
		}
	}
	_, err := api.Parse(attributes{"configMap": "app", "items": items.String()}, "default")
	var mistakes *api.AttributesError
	if !errors.As(err, &mistakes) {
		t.Fatalf("Parse error = %v, want an *api.AttributesError", err)
	}
	if len(mistakes.Mistakes) != 20 || mistakes.More != 13 {
		t.Errorf("Parse error has %d mistakes and %d more, want 20 and 13", len(mistakes.Mistakes), mistakes.More)
	}
	if got, want := err.Error(), "33 mistakes in volumeAttributes: "+want.String()+"and 13 more"; got != want {
		t.Errorf("Parse error:\n got %s\nwant %s", got, want)
	}
}

// TestParseMessageIsBounded gives every part of a message that comes from the user as much as it can hold.
func TestParseMessageIsBounded(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("\x01", 500)
	var items strings.Builder
	for i := range 30 {
		fmt.Fprintf(&items, "- {key: k, path: %q}\n- {key: k, path: %q}\n",
			fmt.Sprint("a", i, "/", wide[:200]), fmt.Sprint("./a", i, "//", wide[:200]))
	}
	tests := map[string]attributes{
		"conflicting paths": {"configMap": "app", "items": items.String()},
		"unknown fields":    {"configMap": "app", "items": fmt.Sprintf("[{%[1]q: 1, %[2]q: 2, %[3]q: 3}]", wide, "b"+wide, "c"+wide)},
		"unknown attributes": {
			wide: wide, "a" + wide: wide, "b" + wide: wide, "c" + wide: wide, "d" + wide: wide, "e" + wide: wide,
		},
		"values": {
			"configMap": wide, "secret": wide, "namespace": wide, "items": wide, "optional": wide, "defaultMode": wide,
			"uid": wide, "gid": wide, "updatePolicy": wide, "onDelete": wide,
		},
		"names in a file": {
			"sources": fmt.Sprintf("[{secret: {name: a, as: {path: %[1]q, format: %[1]q, %[1]q: 1}, items: "+
				"[{key: %[1]q}, {key: k, path: %[1]q}, {key: %[2]q}, {key: %[2]q}, {key: k, path: k, %[2]q: 1}]}}]", wide, wide[:200]),
		},
		"text that is no YAML": {"sources": "[" + strings.Repeat("*", 5000)},
		"a reader's complaint": {"sources": "[{? {" + strings.Repeat("a", 5000) + ": 5} : '<<'}]"},
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := api.Parse(in, "default")
			if err == nil {
				t.Fatal("Parse found nothing wrong, want mistakes")
			}
			checkMistakes(t, err)
		})
	}
}

// laughs is a text in which each of the levels lists ten aliases of the one before.
func laughs(levels int) string {
	var text strings.Builder
	text.WriteString("- &a0 [{configMap: {name: app}}]\n")
	for i := range levels {
		fmt.Fprintf(&text, "- &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text.String()
}

func TestParseEndsEarlyOnAliasesThatMultiply(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("{secret: {name: x}}, ", 2000)
	tests := map[string]string{
		"ten to the ninth":               laughs(9),
		"ten to the ninth, with a merge": laughs(9) + "- {<<: {a: b}}\n",
		"aliases of a long list":         "- &a [" + many + "]\n- [" + strings.Repeat("*a, ", 5000) + "]\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := api.Parse(attributes{"sources": text}, "default")
			if err == nil || !strings.Contains(err.Error(), "document contains excessive aliasing") {
				t.Errorf("Parse error = %v, want excessive aliasing", err)
			}
		})
	}
}

// TestParseBoundsItsMemory is about texts that pass the limits of the reader, or nearly. What they make Parse allocate,
// garbage included, must be no more than a driver can spare. It is not parallel because other tests would allocate too.
func TestParseBoundsItsMemory(t *testing.T) {
	const limit = 256 << 20
	many := strings.Repeat("{secret: {name: x}}, ", 2000)
	tests := map[string]string{
		"nested lists":   strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"nested objects": strings.Repeat("{configMap: ", 9000) + strings.Repeat("}", 9000),
		"many entries":   "[" + strings.Repeat("a,", 130_000) + "]",
		"empty entries":  "[" + strings.Repeat("{},", 87_000) + "]",
		"many aliases":   "- {configMap: &a {name: app}}\n" + strings.Repeat("- {secret: *a}\n", 17_000),
		"long aliases":   "- &a [" + many + "]\n- [" + strings.Repeat("*a, ", 40) + "]\n",
		"one path, often": "- secret: {name: a, items: &a [" + strings.Repeat("{key: k, path: x},", 5000) + "]}\n" +
			"- secret: {name: b, items: *a}\n",
		"one name, often": "- secret: {name: a, as: {path: a, format: json}, items: [" + strings.Repeat("{key: k},", 7000) + "]}\n",
		"one file, often": "[" + strings.Repeat("{secret: {name: a, as: {path: a, format: json}}},", 1300) + "]",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			got := allocated(func() { _, _ = api.Parse(attributes{"sources": text}, "default") })
			t.Logf("Parse of %d bytes allocated %d MiB", len(text), got>>20)
			if got > limit {
				t.Errorf("Parse of %d bytes allocated %d bytes, want at most %d", len(text), got, limit)
			}
		})
	}
}

// allocated returns how many bytes the heap gave out while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
