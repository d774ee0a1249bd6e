package rollout

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

var keySecret = api.Ref{Kind: api.Secret, Name: "key"}

// copiedSecrets returns the copies of Secrets in the namespace.
func (s *site) copiedSecrets() []corev1.Secret {
	s.t.Helper()
	list, err := s.client.CoreV1().Secrets(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: copies.Label})
	expect.NoError(s.t, err)
	return list.Items
}

// configNow returns the config that the template of a workload has.
func (s *site) configNow(ref string) trigger.Config {
	s.t.Helper()
	_, template := s.see(ref)
	config, err := trigger.ParseConfig(template.Annotations[trigger.ConfigAnnotation])
	expect.NoError(s.t, err)
	return config
}

// TestUnusedTriggersAreNotCopied: a Secret that triggers rollouts and that the pod template does not use starts a rollout when
// it is edited, and nobody can read it anywhere else than before. An undo stays and changes nothing about the Secret. When the
// template begins to use it, the template gets a copy.
//
// Fault 32.
func TestUnusedTriggersAreNotCopied(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	s.putConfigMap("foo", "one")
	s.key("one")
	text := strings.Replace(deployment("web"), "configmap/foo}", `"configmap/foo,secret/key"}`, 1)
	s.apply(text)
	first := s.rolledOut("web", foo("one"))["configmap/foo"]
	before := s.configNow(ref)
	s.noSecretIsCopied("after the opt-in")

	s.key("two")
	s.eventually(func() error {
		if s.configNow(ref)[keySecret] == before[keySecret] {
			return fmt.Errorf("the config still is %s", before)
		}
		return nil
	})
	s.settled("web")
	s.event("Secret/key", rollout.ReasonRolledOut, "does not use")
	s.noSecretIsCopied("after the edit")
	if got := s.configNow(ref)[fooMap]; got != first {
		t.Errorf("the copy of foo is %s, want %s as before", got, first)
	}

	s.undoes(ref)
	if got := s.configNow(ref).String(); got != before.String() {
		t.Errorf("after the undo the config is %s, want %s", got, before)
	}
	s.unmoved(ref, "a restart", s.restart)
	if got := s.contentOf(api.Secret, "key")["config"]; got != "two" {
		t.Errorf("after the undo the Secret has %q, want what was written last", got)
	}

	s.apply(strings.Replace(text, "        volumeMounts:", "        envFrom: [{secretRef: {name: key}}]\n        volumeMounts:", 1))
	s.eventually(func() error {
		name := s.configNow(ref).Copies()[keySecret]
		_, template := s.see(ref)
		if got := template.Spec.Containers[0].EnvFrom[0].SecretRef.Name; name == "" || got != name {
			return fmt.Errorf("the template names %s, and its copy is %q", got, name)
		}
		return nil
	})
	s.settled("web")
	if made := s.copiedSecrets(); len(made) != 1 || string(made[0].Data["config"]) != "two" {
		t.Errorf("the Secret has %d copies, want one of what it holds", len(made))
	}
	s.unmoved(ref, "waiting", func() {})
}

func (s *site) noSecretIsCopied(when string) {
	s.t.Helper()
	if made := s.copiedSecrets(); len(made) > 0 {
		s.t.Errorf("%s there are %d copies of Secrets that no pod template uses, such as %s", when, len(made), made[0].Name)
	}
}
