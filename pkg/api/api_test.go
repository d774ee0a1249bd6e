package api_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

func TestRefs(t *testing.T) {
	t.Parallel()
	a, b := source(api.ConfigMap, "default", "a"), source(api.Secret, "default", "a")
	other := source(api.ConfigMap, "other", "a")
	tests := map[string]struct {
		in   []api.Source
		want []string
	}{
		"no sources have no refs": {nil, []string{}},
		"kinds and namespaces distinguish refs, in order of first use": {
			[]api.Source{b, a, other}, []string{"secret default/a", "configmap default/a", "configmap other/a"},
		},
		"an object used twice is one ref": {[]api.Source{a, b, a}, []string{"configmap default/a", "secret default/a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := []string{}
			for _, ref := range spec(tc.in...).Refs() {
				got = append(got, ref.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Refs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHasSelection(t *testing.T) {
	t.Parallel()
	const named = "[{configMap: {name: app}}, {secret: {name: app}}]"
	for sources, want := range map[string]bool{named: false, "[{configMap: {name: app}}, {secret: {labelSelector: {}}}]": true} {
		spec, err := api.Parse(map[string]string{"sources": sources}, "default")
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.HasSelection(); got != want {
			t.Errorf("HasSelection() of %s = %t, want %t", sources, got, want)
		}
	}
}

func TestContentPrintsNoBytes(t *testing.T) {
	t.Parallel()
	content := api.Content{
		Ref: api.Ref{Kind: api.Secret, Namespace: "default", Name: "tls"}, UID: "u-1", ResourceVersion: "7",
		Data: map[string][]byte{"token": []byte("hunter2"), "empty": nil},
	}
	const want = "secret default/tls (uid u-1, resourceVersion 7, 2 keys, 7 bytes)"
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%d", "%x", "%q"} {
		if got := fmt.Sprintf(verb, content); got != want {
			t.Errorf("content printed with %s = %q, want %q", verb, got, want)
		}
		if got := fmt.Sprintf(verb, &content); strings.Contains(got, "hunter2") {
			t.Errorf("pointer printed with %s = %q, which has the bytes", verb, got)
		}
	}
	if got, err := json.Marshal(content); err != nil || string(got) != strconv.Quote(want) {
		t.Errorf("as JSON = %s (%v), want %q", got, err, want)
	}
	if got := content.MarshalLog(); got != want {
		t.Errorf("MarshalLog() = %q, want %q", got, want)
	}
	if got := content.Size(); got != 7 {
		t.Errorf("Size() = %d, want 7", got)
	}
}

func TestPodString(t *testing.T) {
	t.Parallel()
	pod := api.Pod{Namespace: "default", Name: "web-0", UID: "u-1", ServiceAccount: "web"}
	if got, want := pod.String(), "default/web-0"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
