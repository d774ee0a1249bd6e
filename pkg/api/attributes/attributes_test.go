package attributes_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
)

func TestOf(t *testing.T) {
	t.Parallel()
	web := api.Source{Ref: api.Ref{Kind: api.ConfigMap, Name: "web"}}
	tls := api.Source{
		Ref: api.Ref{Kind: api.Secret, Name: "tls", Namespace: "certs"}, Optional: true,
		Items: []api.Item{{Key: "tls.key", Path: "key", Mode: new(fs.FileMode(0o400))}, {Key: "yes", Path: "0x1"}},
	}
	env := api.Source{Ref: api.Ref{Kind: api.ConfigMap, Name: "1e3"}, As: &api.As{Path: "a.env", Format: api.FormatDotenv}}
	tests := map[string]struct {
		sources []api.Source
		want    map[string]string
	}{
		"one source is in the short form": {[]api.Source{web}, map[string]string{"configMap": "web"}},
		"with everything": {[]api.Source{tls}, map[string]string{
			"secret": "tls", "namespace": "certs", "optional": "true",
			"items": "- {key: tls.key, path: key, mode: 0400}\n- {key: \"yes\", path: \"0x1\"}\n",
		}},
		"several are in the long form": {[]api.Source{web, tls}, map[string]string{
			"sources": "- configMap: {name: web}\n- secret: {name: tls, namespace: certs, items: " +
				"[{key: tls.key, path: key, mode: 0400}, {key: \"yes\", path: \"0x1\"}], optional: true}\n",
		}},
		"one file of all keys has no short form": {[]api.Source{env}, map[string]string{
			"sources": "- configMap: {name: \"1e3\", as: {path: a.env, format: dotenv}}\n",
		}},
		"no source is an empty list": {nil, map[string]string{"sources": "[]"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := attributes.Of(test.sources)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Of (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsWrittenMeansTheSources writes random sources, with names that YAML would take for something else, and has the driver's
// parser read them.
func TestWhatIsWrittenMeansTheSources(t *testing.T) {
	t.Parallel()
	seeds := uint64(200)
	if os.Getenv("LIVECONFIG_SOAK") != "" {
		seeds = 2000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		want := randomSources(r)
		all, err := attributes.Of(want)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		spec, err := api.Parse(all, "default")
		if err != nil {
			t.Fatalf("seed %d: %v\n%q", seed, err, all)
		}
		for i := range want {
			if want[i].Ref.Namespace == "" {
				want[i].Ref.Namespace = "default"
			}
		}
		if diff := cmp.Diff(want, spec.Sources); diff != "" {
			t.Fatalf("seed %d: sources (-want +got):\n%s\n%q", seed, diff, all)
		}
	}
}

func randomSources(r *rand.Rand) []api.Source {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	mode := func() *fs.FileMode {
		if r.IntN(2) == 0 {
			return nil
		}
		return new(fs.FileMode(r.IntN(0o1000)))
	}
	user := func() *int { return []*int{nil, new(0), new(999)}[r.IntN(3)] }
	sources := make([]api.Source, 1+r.IntN(3))
	for i := range sources {
		src := &sources[i]
		src.Ref = api.Ref{
			Kind: []api.Kind{api.ConfigMap, api.Secret}[r.IntN(2)], Name: pick("web", "1e3", "0x10", "true", "null", "12.5", "yes", "on"),
			Namespace: pick("", "certs", "123", "no"),
		}
		src.Optional = r.IntN(2) == 0
		for k := range r.IntN(4) {
			path := fmt.Sprintf("%d-%d/%s", i, k, pick("a: b", "# no", "é", "a\nb", "'\"", "{x}", "0400", "yes", " blank ", "*a", "~", "\t"))
			src.Items = append(src.Items, api.Item{Key: pick("yes", "1.5", "a.conf", "~", "-rf", "0o7", "1_0", "=", "<<"), Path: path, Mode: mode(), User: user()})
		}
		if r.IntN(5) == 0 && len(src.Items) == 0 {
			src.As = &api.As{Path: fmt.Sprintf("as-%d", i), Format: api.FormatYAML, Mode: mode()}
		}
	}
	return sources
}
