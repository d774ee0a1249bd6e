package adopt

import (
	"context"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// policyState is whether the API server has a policy that converts volumes for the driver.
type policyState string

const (
	policyFound   policyState = "installed"
	policyMissing policyState = "missing"
	policyUnknown policyState = "unknown"
)

type installed struct {
	state  policyState
	reason string
}

// findPolicy looks for the chart's policy. The name of the policy depends on the release of the
// chart.
func findPolicy(ctx context.Context, client kubernetes.Interface, driver string) installed {
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=liveconfig", Limit: session.PageSize}
	found, err := client.AdmissionregistrationV1().MutatingAdmissionPolicies().List(ctx, options)
	switch {
	case apierrors.IsNotFound(err):
		return installed{policyMissing, "it has no MutatingAdmissionPolicies of admissionregistration.k8s.io/v1: " +
			"Kubernetes has them from 1.36 on; kubectl liveconfig convert works with every version"}
	case err != nil:
		return installed{policyUnknown, err.Error()}
	}
	for i := range found.Items {
		if converts(&found.Items[i], driver) {
			return installed{state: policyFound}
		}
	}
	return installed{policyMissing, "it has no policy for the driver " + driver + ": set admission.volumes=true in the " +
		"chart, or apply deploy/admission"}
}

// converts reports whether a policy is for namespaces with the label, and makes volumes of the
// driver.
func converts(p *admissionv1.MutatingAdmissionPolicy, driver string) bool {
	if p.Spec.MatchConstraints == nil || p.Spec.MatchConstraints.NamespaceSelector == nil {
		return false
	}
	for _, e := range p.Spec.MatchConstraints.NamespaceSelector.MatchExpressions {
		for _, m := range p.Spec.Mutations {
			if e.Key == admission.Label && m.JSONPatch != nil &&
				strings.Contains(m.JSONPatch.Expression, strconv.Quote(driver)) {
				return true
			}
		}
	}
	return false
}
