package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestReloaded is about a workload with an annotation of Reloader that uses the ConfigMap foo in a volume, and the Secret key.
func TestReloaded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations, template map[string]string
		foo                   map[string]string // Annotations of the ConfigMap.
		keyType               corev1.SecretType // The type of the Secret; empty: it is not in the cache.
		without               func(*Config)
		attributes            map[string]string // Of a volume of the driver.
		uses                  string            // What stands for foo in the volume; empty: foo.

		want    string
		trouble string
	}{
		"auto":                           {annotations: map[string]string{reloader.Auto: "true"}, want: "configmap/foo,secret/key"},
		"no flag":                        {annotations: map[string]string{reloader.Auto: "true"}, without: func(c *Config) { c.Reloader = false }},
		"no Secrets":                     {annotations: map[string]string{reloader.Auto: "true"}, without: func(c *Config) { c.Secrets = false }, want: "configmap/foo"},
		"a source that is to be ignored": {annotations: map[string]string{reloader.Auto: "true"}, foo: map[string]string{reloader.Ignore: "true"}, want: "secret/key"},
		"a source that is released":      {annotations: map[string]string{reloader.Auto: "true"}, foo: map[string]string{release.Annotation: ""}, want: "secret/key"},
		"search":                         {annotations: map[string]string{reloader.Search: "true"}, foo: map[string]string{reloader.Match: "true"}, want: "configmap/foo"},
		"search without a mark":          {annotations: map[string]string{reloader.Search: "true"}},
		"a token is no trigger by auto":  {annotations: map[string]string{reloader.Auto: "true"}, keyType: corev1.SecretTypeServiceAccountToken, want: "configmap/foo"},
		"a token is one by its name, which the controller then reports": {
			annotations: map[string]string{reloader.ReloadOf(api.Secret): "key"}, keyType: corev1.SecretTypeServiceAccountToken, want: "secret/key",
		},
		"annotations of the template":         {template: map[string]string{reloader.Auto: "true"}, want: "configmap/foo,secret/key"},
		"the project's annotation goes first": {annotations: map[string]string{reloader.Auto: "true", trigger.TriggeredBy: "configmap/other"}, want: "configmap/other"},
		"a copy that the config has": {
			annotations: map[string]string{reloader.Auto: "true"}, template: map[string]string{trigger.ConfigAnnotation: `{"configmap/foo":"foo-0123456789"}`},
			uses: "foo-0123456789", want: "configmap/foo,secret/key",
		},
		"a copy that no config has": {annotations: map[string]string{reloader.Auto: "true"}, uses: "foo-9876543210", want: "configmap/foo,secret/key"},
		"a volume that cannot be read keeps the workload opted in": {
			annotations: map[string]string{reloader.Search: "true"}, attributes: map[string]string{"sources": "["}, trouble: "the pod template: ",
		},
		"a mistake keeps the workload opted in": {annotations: map[string]string{reloader.Auto: "maybe"}, trouble: `"maybe" is not a boolean`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := idleController(t)
			c.cfg.Reloader = true
			if test.without != nil {
				test.without(&c.cfg)
			}
			source, copied := fooOf("shop", "one"), &cachedCopy{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "foo-9876543210", Annotations: map[string]string{copies.SourceAnnotation: "configmap/foo"},
			}}
			source.Annotations = test.foo
			addSource(t, c, api.ConfigMap, source)
			add(t, c.caches.copies[api.ConfigMap], copied)
			if test.keyType != "" {
				addSource(t, c, api.Secret, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Type: test.keyType})
			}
			d := triggeredDeployment("shop", "web")
			d.Annotations, d.Spec.Template.Annotations = test.annotations, test.template
			if test.uses != "" {
				d.Spec.Template.Spec.Volumes[0].ConfigMap.Name = test.uses
			}
			secret := &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: secret}}}}
			if test.attributes != nil {
				csi := &corev1.CSIVolumeSource{Driver: c.cfg.DriverName, VolumeAttributes: test.attributes}
				d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{CSI: csi}})
			}
			item := cached[*cachedWorkload](t, c, d)
			if item.is.Template == nil {
				if test.want != "" {
					t.Fatal("the workload is left alone")
				}
				return
			}
			h, _ := c.read(item)
			if got := trigger.Format(h.Triggers); got != test.want || h.OptedIn != (test.want != "" || test.trouble != "") {
				t.Errorf("triggers = %q, opted in: %t; want %q", got, h.OptedIn, test.want)
			}
			if !strings.Contains(h.Trouble, test.trouble) || test.trouble == "" && h.Trouble != "" {
				t.Errorf("trouble = %q, want %q", h.Trouble, test.trouble)
			}
			foo := api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "foo"}
			if got := slices.Contains(c.reloadedBy(foo), item); got != item.IsReloaded {
				t.Errorf("an edit of the source queues the workload: %t, want %t", got, item.IsReloaded)
			}
			if got := c.reloadedBy(api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "unused"}); len(got) > 0 {
				t.Errorf("an edit of what the template does not use queues %d workloads", len(got))
			}
		})
	}
}

// addSource puts a source, as the API server has it, into the caches.
func addSource(t *testing.T, c *Controller, kind api.Kind, source any) {
	t.Helper()
	item, err := sourceOf(source)
	if err != nil {
		t.Fatal(err)
	}
	add(t, c.caches.sources[kind], item)
}

// TestDeletedSource: while a source is deleted and created again, workloads with search stay what they are, like those with auto.
// Without its mark, the source would be no trigger, and the pods of the next template could not start.
func TestDeletedSource(t *testing.T) {
	t.Parallel()
	foo, bar := api.Ref{Kind: api.ConfigMap, Name: "foo"}, api.Ref{Kind: api.ConfigMap, Name: "bar"}
	tests := map[string]trigger.Config{
		"the only one":   {foo: "foo-0123456789"},
		"one of two":     {foo: "foo-0123456789", bar: "bar-0123456789"},
		"one beside new": {foo: "foo-0123456789", bar: ""},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := idleController(t)
			c.cfg.Reloader = true
			addSource(t, c, api.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "bar", Annotations: map[string]string{reloader.Match: "true"},
			}})
			d := triggeredDeployment("shop", "web")
			d.Annotations = map[string]string{reloader.Search: "true"}
			d.Labels = map[string]string{trigger.RolloutLabel: trigger.MarkOf(config).String()}
			d.Spec.Template.Annotations = map[string]string{trigger.ConfigAnnotation: config.String()}
			d.Spec.Template.Spec.Volumes[0].ConfigMap.Name = config[foo]
			if copied, found := config[bar]; found {
				env := &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: cmp.Or(copied, "bar")}}
				d.Spec.Template.Spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: env}}}}
			}
			h, _ := c.read(cached[*cachedWorkload](t, c, d))
			state := c.planState(h)
			if got := plan.Decide(state); got.Action != plan.Rest || got.Held != plan.HeldByProblem {
				t.Errorf("the controller does %q, held: %q; want it held back by a problem", got.Action, got.Held)
			}
			if !strings.Contains(state.Problem, "configmap/foo does not exist") {
				t.Errorf("the problem is %q", state.Problem)
			}
		})
	}
}

// TestPatternsAreCharged: regular expressions are matched once for each of their changes, and the namespace that wrote them pays.
func TestPatternsAreCharged(t *testing.T) {
	t.Parallel()
	c := idleController(t)
	c.cfg.Reloader = true
	c.attributeBytes = fairqueue.NewAllowance(1, textBurst) // A second gives nothing back that counts.
	d := triggeredDeployment("shop", "web")
	for i := range 50 {
		env := &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("%s-%d", strings.Repeat("a", 50), i)}}
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: env}}})
	}
	list := func(end string) map[string]string {
		return map[string]string{reloader.ReloadOf(api.ConfigMap): strings.Repeat(strings.Repeat("b", 120)+".*,", 31) + ".*" + end}
	}
	d.Annotations = list("1")
	left := func() int { return int(c.attributeBytes.Left("shop")) }
	const much = 60 << 10
	if item := cached[*cachedWorkload](t, c, d); left() < textBurst || len(item.Triggers) > 0 {
		t.Errorf("the cache matches the expressions: %v", item.Triggers)
	}
	read := func() time.Duration {
		_, wait := c.read(cached[*cachedWorkload](t, c, d))
		return wait
	}
	if wait := read(); wait > 0 || left() > textBurst-much {
		t.Errorf("read waits for %s and leaves %d bytes of %d, want them charged", wait, left(), textBurst)
	}
	before := left()
	d.Labels = map[string]string{"a": "b"}
	if wait := read(); wait > 0 || left() < before {
		t.Errorf("read again, it waits for %s and leaves %d bytes of %d", wait, left(), before)
	}
	for i := range 10 {
		d.Annotations = list(fmt.Sprint(i))
		if read() > 0 {
			break
		}
	}
	if wait := read(); wait == 0 {
		t.Error("the namespace may match without end")
	}
	other := triggeredDeployment("other", "web")
	other.Annotations = map[string]string{reloader.ReloadOf(api.ConfigMap): "f.*"}
	if h, wait := c.read(cached[*cachedWorkload](t, c, other)); wait > 0 || trigger.Format(h.Triggers) != "configmap/foo" {
		t.Errorf("another namespace waits for %s", wait)
	}
	c.forget(workload.Ref{Kind: workload.Deployment, Namespace: "shop", Name: "web"})
	if len(c.uses.matches) > 1 {
		t.Error("what was matched of a workload is remembered after the workload")
	}
}
