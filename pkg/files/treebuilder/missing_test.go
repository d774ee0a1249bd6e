package treebuilder_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// missingKeys returns what Build returns about keys that the config map web does not hold.
func missingKeys(t *testing.T, keys ...string) *treebuilder.MissingError {
	t.Helper()
	src := api.Source{Ref: web}
	for _, key := range keys {
		src.Items = append(src.Items, api.Item{Key: key, Path: "path"})
	}
	_, err := treebuilder.Build(spec(src), nil, objects(map[api.Ref][]string{web: {}}))
	missing, ok := errors.AsType[*treebuilder.MissingError](err)
	if !ok {
		t.Fatalf("Build = %v, want a *treebuilder.MissingError", err)
	}
	return missing
}

func TestMissingErrorNamesTwentyAndCountsTheRest(t *testing.T) {
	t.Parallel()
	const text = "configmap references non-existent config key: "
	tests := map[string]struct {
		keys int // Each of them named twice.
		rest string
	}{
		"as many as there may be":   {20, ""},
		"one more":                  {21, "and 1 more"},
		"more than anybody can see": {5000, "and 4980 more"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys, want []string
			for i := range tt.keys {
				key := fmt.Sprintf("key-%d", i)
				keys = append(keys, key, key)
				if i < 20 {
					want = append(want, fmt.Sprintf("%s%s (configmap default/web, items[%d])", text, key, 2*i))
				}
			}
			if tt.rest != "" {
				want = append(want, tt.rest)
			}
			got := missingKeys(t, keys...)
			wantSame(t, "Problems", want, got.Problems())
			wantSame(t, "Error", "["+strings.Join(want, ", ")+"]", got.Error())
		})
	}
}

// TestMissingErrorShowsKeys: a readable key that is no longer than an object could hold reads as the kubelet has it. Any
// other is quoted and cut, so that it cannot be taken for a part of the message, and no terminal obeys it.
func TestMissingErrorShowsKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ key, want string }{
		"an ordinary key":            {"redis.conf", "redis.conf"},
		"every character":            {"-._azAZ09", "-._azAZ09"},
		"dots":                       {"..", ".."},
		"as long as a key can be":    {strings.Repeat("k", 253), strings.Repeat("k", 253)},
		"longer":                     {strings.Repeat("k", 254), `"` + strings.Repeat("k", 57) + `…"`},
		"a line break":               {"a\nb", `"a\nb"`},
		"an escape sequence":         {"\x1b[2J", `"\x1b[2J"`},
		"a direction of writing":     {"a\u202eb", `"a\u202eb"`},
		"what ends a list":           {`a, secret "x" not found]`, `"a, secret \"x\" not found]"`},
		"a space":                    {"a b", `"a b"`},
		"letters of other languages": {"schlüssel", "schlüssel"},
		"not UTF-8":                  {"a\xff", `"a\xff"`},
		"cut between characters":     {strings.Repeat("é", 127), `"` + strings.Repeat("é", 28) + `…"`},
		"nothing that begins a rune": {strings.Repeat("\x80", 300), `"…"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := missingKeys(t, tt.key).Error()
			if want := "configmap references non-existent config key: " + tt.want + " (configmap default/web, items[0])"; got != want {
				t.Errorf("Error = %s, want %s", got, want)
			}
		})
	}
}
