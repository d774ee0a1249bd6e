package deploy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// installPageOfSecrets applies the policy of docs/adoption.md and the conversion of deploy/admission, for a driver and a label
// that no other test has. It returns a namespace with the label.
func installPageOfSecrets(t *testing.T) (p *policies, labelled string) {
	t.Helper()
	c := cluster.ForTest(t)
	p = &policies{installed: &installed{cluster: c, namespace: cluster.NewNamespace(t, c)}}
	domain := p.namespace + ".example"
	p.driver = "csi." + domain
	rename := strings.NewReplacer("liveconfig.internal", domain, "secrets-of-pods", p.namespace, "name: liveconfig-volumes", "name: "+p.namespace,
		"policyName: liveconfig-volumes", "policyName: "+p.namespace).Replace
	_, section, found := strings.Cut(read(t, inRepo(t, "docs", "adoption.md")), "\n## Policies that look at Secrets\n")
	_, section, hasText := strings.Cut(section, "\n```yaml\n")
	policy, _, isClosed := strings.Cut(section, "\n```\n")
	if !found || !hasText || !isClosed {
		t.Fatal("docs/adoption.md has no policy that looks at Secrets")
	}
	p.applyText(t, rename(policy)+"\n---\n"+rename(read(t, inRepo(t, "deploy", "admission", "volumes.yaml"))))
	labelled = cluster.NewNamespace(t, c)
	if _, err := c.Kubectl(t.Context(), "label", "namespace", labelled, domain+"/volumes=configMaps.secrets"); err != nil {
		t.Fatal(err)
	}
	return p, labelled
}

func secretVolume(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

// projectedVolume has a ConfigMap, and a Secret with an item.
func projectedVolume(name, key string) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}},
		{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: new(true),
			Items: []corev1.KeyToPath{{Key: key, Path: "a/" + key, Mode: new(int32(0o400))}, {Key: "b", Path: "b"}},
		}},
	}}}
}

// The two reasons of the policy.
const (
	guarded    = "pods may not mount this Secret"
	unreadable = "a policy cannot read sources of a volume"
)

// sourcesOfPods are texts of sources, and why a pod with one is refused: empty if it is not.
func sourcesOfPods() map[string][2]string {
	return map[string][2]string{
		"a line":                       {"- secret: {name: db-root}\n", guarded},
		"the second line":              {"- secret: {name: web}\n- secret: {name: ca-key, namespace: certs, items: [{key: a, path: b, mode: 0400}], optional: true}", guarded},
		"one file":                     {"- secret: {name: db-root, as: {path: a.env, format: dotenv}}\n", guarded},
		"a copy":                       {"- secret: {name: db-root-0123456789}\n", guarded},
		"JSON":                         {`[{"secret": {"name": "db-root"}}]`, guarded},
		"after a text like a source":   {`[{"secret": {"name": "web", "items": [{"key": "\"secret\": {\"name\": \"x", "path": "secret: {name: "}]}}, {"secret": {"name": "db-root"}}]`, guarded},
		"after a path like a source":   {"- secret: {name: web, items: [{key: a, path: \"secret: {name: \"}]}\n- secret: {name: db-root}\n", guarded},
		"another Secret":               {"- secret: {name: web}\n", ""},
		"a longer name":                {"- secret: {name: db-root-new}\n", ""},
		"a ConfigMap of the name":      {"- configMap: {name: db-root}\n", ""},
		"another Secret as JSON":       {`[{"secret": {"name": "web", "items": [{"key": "ключ", "path": "a b/\"c\\"}], "optional": true}}]`, ""},
		"a name in the text of a path": {`[{"secret": {"name": "web", "items": [{"key": "a", "path": "db-root"}]}}]`, ""},
		"a selector":                   {"- secret: {labelSelector: {}}\n", unreadable},
		"a block":                      {"- secret:\n    name: db-root\n", unreadable},
		"a block of another Secret":    {"- secret:\n    name: web\n", unreadable},
		"an escape in a field":         {`[{"\u0073ecret": {"name": "db-root"}}]`, unreadable},
		"an escape in a name":          {`[{"secret": {"name": "db\u002droot"}}]`, unreadable},
		"an escape in a text":          {`[{"secret": {"name": "web", "items": [{"key": "\u0022", "path": "a"}]}}]`, unreadable},
		"single quotes":                {"- 'secret': {name: db-root}\n", unreadable},
		"a tag":                        {"- secret: {name: !!str db-root}\n", unreadable},
		"an anchor":                    {"- secret: &a {name: db-root}\n", unreadable},
		"a field as a question":        {"- ? secret\n  : {name: db-root}\n", unreadable},
		"the name at the end":          {"- secret: {optional: true, name: db-root}\n", unreadable},
		"two names":                    {"- secret: {name: web, name: db-root}\n", unreadable},
		"another space":                {"- secret:  {name: db-root}\n", unreadable},
		"no spaces":                    {`[{"secret":{"name":"db-root"}}]`, unreadable},
		"a comment":                    {"# a\n- secret: {name: db-root}\n", unreadable},
		"a line break in a text":       {"- secret: {name: web, items: [{key: \"a\n- secret: {name: web}\n\", path: b}]}\n", unreadable},
		"two on a line":                {"- secret: {name: web}- secret: {name: db-root}\n", unreadable},
		"a second document":            {"- secret: {name: web}\n---\n- secret: {name: db-root}\n", unreadable},
		"other line ends":              {"- secret: {name: web}\r\n- secret: {name: db-root}\r\n", unreadable},
		"quotes that do not match":     {"- configMap: {name: \"a}\n- secret: {name: db-root\"}\n", unreadable},
		"nothing":                      {"", unreadable},
	}
}

// TestPolicyOfSecretsInVolumes applies the policy of the page and tries pods, with and without the conversion.
func TestPolicyOfSecretsInVolumes(t *testing.T) {
	t.Parallel()
	p, labelled := installPageOfSecrets(t)
	plain := cluster.NewNamespace(t, p.cluster)
	awaitPolicy(t, func() error {
		_, err := p.creates(t.Context(), plain, podOf(secretVolume("db-root")))
		return err
	})
	p.awaitConversion(t, labelled, aConfigMap)
	other := p.ours(map[string]string{"secret": "db-root", "sources": "?"})
	other.CSI.Driver = "csi.example.org"
	for name, test := range map[string]struct {
		volume corev1.VolumeSource
		want   string
	}{
		"a secret volume":              {secretVolume("db-root"), guarded},
		"a secret volume of a copy":    {secretVolume("ca-key-0123456789"), guarded},
		"a projected volume":           {projectedVolume("db-root", "a"), guarded},
		"a projected volume with text": {projectedVolume("ca-key", `q"\ {secret`), guarded},
		"the short form":               {p.ours(map[string]string{"secret": "db-root", "items": "[{key: a, path: b}]"}), guarded},
		"another namespace":            {p.ours(map[string]string{"secret": "db-root", "namespace": "certs"}), guarded},
		"a stable copy":                {p.ours(map[string]string{"secret": "db-root.stable"}), guarded},
		"values":                       {p.ours(map[string]string{"sources": "- configMap: {name: web}\n", "values": "- secret: {name: db-root}\n"}), "a policy cannot read values"},
		"beside sources":               {p.ours(map[string]string{"secret": "db-root", "sources": "- secret: {name: web}\n"}), guarded},
		"another secret volume":        {secretVolume("web"), ""},
		"another projected volume":     {projectedVolume("web", "a"), ""},
		"another one with text":        {projectedVolume("web", `q"\ {secret`), ""},
		"a configMap volume":           {aConfigMap, ""},
		"another Secret":               {p.ours(map[string]string{"secret": "web"}), ""},
		"a ConfigMap of the name":      {p.ours(map[string]string{"configMap": "db-root"}), ""},
		"a volume of another driver":   {other, ""},
		"no sources":                   {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, ""},
	} {
		for _, namespace := range []string{plain, labelled} {
			volumes, err := p.creates(t.Context(), namespace, podOf(aConfigMap, test.volume))
			wantTry(t, "create a pod with "+name, err, test.want)
			if err == nil && namespace == labelled && volumes[1].CSI == nil && volumes[1].EmptyDir == nil {
				t.Errorf("%s was not converted", name)
			}
		}
	}
	for name, test := range sourcesOfPods() {
		_, err := p.creates(t.Context(), plain, podOf(p.ours(map[string]string{"sources": test[0]})))
		wantTry(t, "create a pod with sources: "+name, err, test[1])
	}
	p.wantReadable(t, plain)
	p.wantNoneHidden(t, plain)
}

// wantReadable checks that the policy reads what convert writes.
func (p *policies) wantReadable(t *testing.T, namespace string) {
	t.Helper()
	web := api.Ref{Kind: api.Secret, Name: "web"}
	items := []api.Item{{Key: "a.b", Path: "c/d_e"}, {Key: "f", Path: "f"}}
	for i, sources := range [][]api.Source{
		{{Ref: web}},
		{{Ref: web, Items: items}, {Ref: api.Ref{Kind: api.ConfigMap, Name: "x"}, Optional: true}},
		{{Ref: api.Ref{Kind: api.Secret, Name: "web", Namespace: "certs"}, As: &api.As{Path: "a.env", Format: api.FormatDotenv}}},
	} {
		written, err := attributes.Of(sources)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.creates(t.Context(), namespace, podOf(p.ours(written))); err != nil {
			t.Errorf("%d: the policy refuses %q: %v", i, written, err)
		}
	}
}

// wantNoneHidden changes readable texts and wants that the policy refuses each of which the driver would read a guarded Secret.
func (p *policies) wantNoneHidden(t *testing.T, namespace string) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"\"", "'", "\\", "\n", " ", ", ", ": ", "{", "}", "[", "]", "- ", "#", "&a ", "*a", "secret", "configMap", "name", "db-root", "web", "key", "\u2028", "\t"}
	var texts []string
	for _, test := range sourcesOfPods() {
		if test[1] != unreadable {
			texts = append(texts, test[0])
		}
	}
	slices.Sort(texts)
	taken, hidden := 0, 0
	for range 3000 {
		text := texts[r.IntN(len(texts))]
		for range 1 + r.IntN(3) {
			at := r.IntN(len(text) + 1)
			cut := min(len(text), at+r.IntN(4))
			text = text[:at] + pieces[r.IntN(len(pieces))] + text[cut:]
		}
		spec, err := api.Parse(map[string]string{"sources": text}, "shop")
		if err != nil {
			continue
		}
		isGuarded := slices.ContainsFunc(spec.Sources, func(s api.Source) bool {
			return s.Ref.Kind == api.Secret && (s.Selection != nil || slices.Contains([]string{"db-root", "ca-key", "db-root-0123456789"}, s.Ref.Name))
		})
		_, err = p.creates(t.Context(), namespace, podOf(p.ours(map[string]string{"sources": text})))
		switch {
		case err == nil && isGuarded:
			t.Errorf("the policy takes %q", text)
		case err == nil:
			taken++
		case isGuarded:
			hidden++
		}
	}
	if taken < 20 || hidden < 20 {
		t.Errorf("%d texts were taken, and %d with a guarded Secret were refused, want 20 or more of each", taken, hidden)
	}
}
