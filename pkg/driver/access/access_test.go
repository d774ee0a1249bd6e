package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

func pod() api.Pod {
	return api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
}

// types are those of the clients.
func types(t *testing.T) *kubeclient.Types {
	t.Helper()
	types, err := kubeclient.New()
	must(t, err)
	return types
}

// authority returns one that asks an API server for reviews.
func authority(t *testing.T, server http.RoundTripper, configMaps, secrets access.Reader) *access.Authority {
	t.Helper()
	all := types(t)
	config := &rest.Config{Host: "https://localhost"}
	reviews, err := all.Client(config, &http.Client{Transport: server}, authorizationv1.SchemeGroupVersion)
	must(t, err)
	a, err := access.New(access.Config{
		Types: all, Reviews: reviews, Server: config, ConfigMaps: configMaps, Secrets: secrets,
	})
	must(t, err)
	return a
}

// TestChoose has every configuration, each with a source of either kind in the pod's own and in a
// foreign namespace.
func TestChoose(t *testing.T) {
	t.Parallel()
	const byDriver, byPod = access.ByDriver, access.ByPod
	driver, itself, behalf := access.Driver(), access.Of(pod()), access.OnBehalf(pod())
	type readers struct{ configMaps, secrets access.Reader }
	type source struct {
		kind      api.Kind
		namespace string
	}
	ownMap, ownSecret := source{api.ConfigMap, "default"}, source{api.Secret, "default"}
	foreignMap, foreignSecret := source{api.ConfigMap, "shared"}, source{api.Secret, "shared"}
	tests := map[readers]map[source]access.Identity{
		{byDriver, byDriver}: {ownMap: driver, ownSecret: driver, foreignMap: behalf, foreignSecret: behalf},
		{byDriver, byPod}:    {ownMap: driver, ownSecret: itself, foreignMap: itself, foreignSecret: itself},
		{byPod, byDriver}:    {ownMap: itself, ownSecret: driver, foreignMap: itself, foreignSecret: behalf},
		{byPod, byPod}:       {ownMap: itself, ownSecret: itself, foreignMap: itself, foreignSecret: itself},
	}
	for r, sources := range tests {
		a := authority(t, &reviewer{t: t}, r.configMaps, r.secrets)
		for s, want := range sources {
			t.Run(fmt.Sprintf("%s of %s with ConfigMaps by %s and Secrets by %s", s.kind, s.namespace, r.configMaps, r.secrets), func(t *testing.T) {
				t.Parallel()
				if got := a.Choose(pod(), api.Ref{Kind: s.kind, Namespace: s.namespace, Name: "web"}); got != want {
					t.Errorf("Choose = %s, want %s", got, want)
				}
			})
		}
	}
}

// TestWhatIsForeign: neither a namespace whose name begins alike, nor none at all, is the pod's
// own.
func TestWhatIsForeign(t *testing.T) {
	t.Parallel()
	a := authority(t, &reviewer{t: t}, access.ByDriver, access.ByDriver)
	for _, namespace := range []string{"default-2", "defaul", "Default", ""} {
		if got := a.Choose(pod(), api.Ref{Kind: api.Secret, Namespace: namespace, Name: "web"}); got != access.OnBehalf(pod()) {
			t.Errorf("Choose for namespace %q = %s, want %s", namespace, got, access.OnBehalf(pod()))
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for id, want := range map[access.Identity]string{
		access.Driver():        "driver",
		access.Of(pod()):       "serviceaccount default/runner",
		access.OnBehalf(pod()): "driver for serviceaccount default/runner",
	} {
		if got := id.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

// TestWhoseClientItIs: what the driver reads for itself or on behalf of a pod goes out with its
// own credentials, and nothing else does.
func TestWhoseClientItIs(t *testing.T) {
	t.Parallel()
	all, err := access.New(access.Config{
		Driver: driverClient{}, Types: types(t), Server: &rest.Config{Host: "https://localhost"},
		ConfigMaps: access.ByDriver, Secrets: access.ByDriver,
	})
	must(t, err)
	for id, want := range map[access.Identity]bool{
		access.Driver(): true, access.OnBehalf(pod()): true, access.Of(pod()): false,
	} {
		client, err := all.Client(id)
		if _, got := client.(driverClient); got != want || err != nil {
			t.Errorf("Client(%s) = %T, %v, want the driver's: %t", id, client, err, want)
		}
	}
}

// driverClient is a client with a type that a test can recognize.
type driverClient struct{ rest.Interface }

// TestOneGrantTakesNothingFromAnother: applying several grants changes no object of an earlier
// one.
func TestOneGrantTakesNothingFromAnother(t *testing.T) {
	t.Parallel()
	other := api.Pod{Namespace: "default", ServiceAccount: "other"}
	abroad := api.Pod{Namespace: "abroad", ServiceAccount: "runner"}
	objects := map[string]string{} // By kind and metadata.
	for _, p := range []api.Pod{pod(), other, abroad} {
		for _, id := range []access.Identity{access.Of(p), access.OnBehalf(p)} {
			for _, ref := range []api.Ref{tls, {Kind: api.ConfigMap, Namespace: tls.Namespace, Name: tls.Name}, settings} {
				for text := range strings.SplitSeq(access.Grant(id, ref), "---\n") {
					lines := strings.SplitN(text, "\n", 4)
					name := lines[1] + " " + lines[2]
					if earlier, found := objects[name]; found && earlier != text {
						t.Errorf("%s is made as\n%s\nand as\n%s", name, earlier, text)
					}
					objects[name] = text
				}
			}
		}
	}
	if got := len(objects); got != 6+18 {
		t.Errorf("%d objects, want a Role for each source and way of reading, and a RoleBinding for each account too: 24", got)
	}
}

// TestGrantIsWhatKubectlTakes, also for names that YAML would take for numbers and the like. The
// driver needs no more than get to read for a pod, and is not granted objects for itself.
func TestGrantIsWhatKubectlTakes(t *testing.T) {
	t.Parallel()
	if got := access.Grant(access.Driver(), tls); got != "" {
		t.Errorf("Grant for the driver = %s, want nothing", got)
	}
	for _, name := range []string{"web", "123", "true", "null", "1e3", "0x10", "0o17", "1.5", "2001-01-01", "yes", "y", "on", "a.b-c"} {
		p := api.Pod{Namespace: name, ServiceAccount: name}
		for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
			ref := api.Ref{Kind: kind, Namespace: name, Name: name}
			wantGrant(t, access.Of(p), ref, "read", "get", "list", "watch")
			wantGrant(t, access.OnBehalf(p), ref, "get", "get")
		}
	}
}

// wantGrant compares a grant for a service account, namespace and object of one name.
func wantGrant(t *testing.T, id access.Identity, ref api.Ref, action string, verbs ...string) {
	t.Helper()
	roleText, bindingText, ok := strings.Cut(access.Grant(id, ref), "---\n")
	if !ok {
		t.Fatal("Grant is one document, want two")
	}
	const group, version = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
	name, role := ref.Name, action+"-"+ref.Kind.Resource()+"-"+ref.Name
	checkYAML(t, roleText, rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{ref.Kind.Resource() + "s"}, ResourceNames: []string{name}, Verbs: verbs,
		}},
	})
	checkYAML(t, bindingText, rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: role + ":" + name + ":" + name, Namespace: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: group, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: name}},
	})
}

// checkYAML compares the object that the text means. A number instead of a text is an error.
func checkYAML[T any](t *testing.T, text string, want T) {
	t.Helper()
	var got T
	if err := yaml.UnmarshalStrict([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Grant (-want +got):\n%s", diff)
	}
}

// TestEffects is the table of the package comment, and what differs for the driver's own identity.
func TestEffects(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	away, tooLarge := errors.New("connection refused"), &budget.ExhaustedError{}
	pod, driver := access.Of(api.Pod{Namespace: "team", ServiceAccount: "web"}), access.Driver()
	uses := []access.Use{{}, {IsLive: true}, {IsLive: true, FollowsLoss: true}}
	const serve, refuse, await, remove = access.Serve, access.Refuse, access.Await, access.Remove
	for name, test := range map[string]struct {
		evidence access.Evidence
		want     [3]access.Effect // New, live, and live with onDelete: Remove.
	}{
		"read":                                {access.Evidence{Identity: pod, WasRead: true}, [3]access.Effect{serve, serve, serve}},
		"read, then denied":                   {access.Evidence{Identity: pod, WasRead: true, Err: denied}, [3]access.Effect{refuse, serve, serve}},
		"read, then not readable":             {access.Evidence{Identity: pod, WasRead: true, Err: away}, [3]access.Effect{refuse, serve, serve}},
		"read, then too large":                {access.Evidence{Identity: pod, WasRead: true, Err: tooLarge}, [3]access.Effect{serve, serve, serve}},
		"denied at first":                     {access.Evidence{Identity: pod, Err: denied}, [3]access.Effect{refuse, await, await}},
		"not readable at first":               {access.Evidence{Identity: pod, Err: away}, [3]access.Effect{refuse, refuse, refuse}},
		"not answered yet":                    {access.Evidence{Identity: pod}, [3]access.Effect{refuse, refuse, refuse}},
		"read, then revoked":                  {access.Evidence{Identity: pod, WasRead: true, Revoked: true, Err: denied}, [3]access.Effect{refuse, serve, remove}},
		"revoked at first":                    {access.Evidence{Identity: pod, Revoked: true, Err: denied}, [3]access.Effect{refuse, refuse, remove}},
		"read by the driver, then denied":     {access.Evidence{Identity: driver, WasRead: true, Err: denied}, [3]access.Effect{refuse, serve, serve}},
		"read by the driver, then not at all": {access.Evidence{Identity: driver, WasRead: true, Err: away}, [3]access.Effect{serve, serve, serve}},
		"the driver denied at first":          {access.Evidence{Identity: driver, Err: denied}, [3]access.Effect{refuse, refuse, refuse}},
	} {
		for i, use := range uses {
			if got := test.evidence.EffectOn(use); got != test.want[i] {
				t.Errorf("%s: %s for %+v, want %s", name, got, use, test.want[i])
			}
		}
	}
}

// TestDenialsCount: only denials of a pod, without another answer among them, for the recheck interval, and confirmed.
func TestDenialsCount(t *testing.T) {
	t.Parallel()
	const recheck = time.Minute
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	away := errors.New("connection refused")
	pod := access.Of(api.Pod{Namespace: "team", ServiceAccount: "web"})
	type answer struct {
		of  access.Identity
		err error
	}
	var never, again answer
	for name, test := range map[string]struct {
		answers []answer // One comes every 30 seconds. The zero value stands for no answer.
		denies  bool
		err     error
		asks    bool
		want    bool
	}{
		"no answer":                   {answers: []answer{never}},
		"denials":                     {answers: []answer{{pod, denied}, {pod, denied}, {pod, denied}}, denies: true, asks: true, want: true},
		"denials for too short":       {answers: []answer{{pod, denied}, {pod, denied}}, denies: true},
		"nothing since a denial":      {answers: []answer{{pod, denied}, again, again}, denies: true, asks: true, want: true},
		"a success among them":        {answers: []answer{{pod, denied}, {pod, nil}, {pod, denied}}, denies: true},
		"another error among them":    {answers: []answer{{pod, denied}, {pod, away}, {pod, denied}}, denies: true},
		"denials of the driver":       {answers: []answer{{access.Driver(), denied}, again, {access.Driver(), denied}}, denies: true},
		"denials that are not so":     {answers: []answer{{pod, denied}, again, {pod, denied}}, asks: true},
		"denials that nobody can ask": {answers: []answer{{pod, denied}, again, {pod, denied}}, denies: true, err: away, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var d access.Denials
				for i, a := range test.answers {
					if i > 0 {
						time.Sleep(recheck / 2) //nolint:forbidigo // It takes no time.
					}
					if a != never {
						d.Note(a.of, a.err)
					}
				}
				asked := 0
				confirm := func() (bool, error) { asked++; return test.denies, test.err }
				got, err := d.Count(recheck, confirm)
				if got != test.want || !errors.Is(err, test.err) || (asked == 1) != test.asks {
					t.Errorf("Count = %t, %v after asking %d times, want %t, %v", got, err, asked, test.want, test.err)
				}
				if got, _ := d.Count(recheck, confirm); got != test.want || !test.denies && asked > 1 {
					t.Errorf("Count = %t at once again, after asking %d times", got, asked)
				}
			})
		})
	}
}
