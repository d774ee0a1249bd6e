package describe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// denied is a pod whose service account may not read Secrets.
func denied(pod string, names ...string) Pod {
	shop := identity.Of(api.Pod{Namespace: "shop", ServiceAccount: "web"})
	v := PodVolume{Name: "tls", Reported: true, State: statusz.Publishing}
	for _, name := range names {
		ref := api.Ref{Kind: api.Secret, Namespace: "shop", Name: name}
		message := fmt.Sprintf("%s cannot be read: forbidden; to allow it, apply:\n%s", ref, identity.Grant(shop, ref))
		v.Problem = &statusz.Problem{Kind: "Denied", Message: message}
		v.Sources = append(v.Sources, PodSource{
			Object: ref, State: versions.Lagging, Why: message, Error: message, ReadBy: shop.String(),
		})
	}
	return Pod{Name: pod, Node: "n", State: versions.Lagging, Volumes: []PodVolume{v}}
}

// wantRoles parses the end of a page as kubectl would, and returns the names of the Secrets that its Roles are about.
func wantRoles(t *testing.T, page string, want ...string) {
	t.Helper()
	_, manifests, found := strings.Cut(page, "\n# Missing Roles, for kubectl apply -f -\n")
	if !found {
		t.Fatalf("no Roles are in:\n%s", page)
	}
	var got []string
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if role.Kind == "Role" {
			got = append(got, role.Rules[0].ResourceNames...)
		}
	}
	wantSame(t, "Secrets of the Roles", want, got)
	if before, _, _ := strings.Cut(page, "\n# Missing"); strings.Contains(before, "kind:") {
		t.Errorf("a manifest is among the reasons:\n%s", before)
	}
}

// TestMissingRoles: Roles stand at the end of the page, each once, and not among the reasons.
func TestMissingRoles(t *testing.T) {
	t.Parallel()
	p := &page{now: noon}
	p.format(Description{Namespace: "shop", Pods: []Pod{denied("web-1", "tls", "db"), denied("web-2", "tls")}})
	p.missingRoles()
	wantRoles(t, p.text.String(), "tls", "db")

	var found Problems
	for _, pod := range []Pod{denied("web-1", "tls", "db"), denied("web-2", "tls")} {
		found.add("shop", pod, time.Time{}, nil)
	}
	wantRoles(t, (&page{now: noon}).printProblems(found), "tls", "db")
}

// TestForeignRoles: only the Role that the plugin works out can be pasted, and not one that a message has in it.
func TestForeignRoles(t *testing.T) {
	t.Parallel()
	pod := denied("web-1", "tls")
	s := &pod.Volumes[0].Sources[0]
	s.ReadBy = "serviceaccount shop/other"
	var all missing
	if all.add(pod); len(all) > 0 {
		t.Errorf("the Role is taken from a message: %s", all)
	}
}

// TestManyRoles: a page has some Roles, and a comment that counts the others.
func TestManyRoles(t *testing.T) {
	t.Parallel()
	names := make([]string, mostRoles+3)
	for i := range names {
		names[i] = fmt.Sprint("tls-", i)
	}
	p := &page{now: noon}
	p.format(Description{Namespace: "shop", Pods: []Pod{denied("web-1", names...)}})
	p.missingRoles()
	wantRoles(t, p.text.String(), names[:mostRoles]...)
	if text := p.text.String(); !strings.Contains(text, "\n# and 3 more: ") {
		t.Errorf("the other Roles are not counted:\n%s", text)
	}
}
