package deploy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// injector is a mutating webhook that merges a template into each pod, as injectors of sidecars do, however often it is called.
type injector struct {
	template string
	calls    atomic.Int32
}

func (i *injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i.calls.Add(1)
	merged, err := strategicpatch.StrategicMergePatch(review.Request.Object.Raw, []byte(i.template), corev1.Pod{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var pod struct{ Metadata, Spec json.RawMessage }
	if err := json.Unmarshal(merged, &pod); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	patch := fmt.Sprintf(`[{"op":"replace","path":"/metadata","value":%s},{"op":"replace","path":"/spec","value":%s}]`,
		pod.Metadata, pod.Spec)
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: new(admissionv1.PatchTypeJSONPatch),
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// injects starts a webhook for the pods of a namespace. The API server calls webhooks in the order of their names.
func (p *policies) injects(t *testing.T, namespace, name, template string) *injector {
	t.Helper()
	certificate, err := p.cluster.ServingCertificate()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(p.cluster.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	hook := &injector{template: template}
	server := httptest.NewUnstartedServer(hook)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	configuration := &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + namespace},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name:                    name + ".example.com",
			ClientConfig:            registrationv1.WebhookClientConfig{URL: new(server.URL), CABundle: ca},
			FailurePolicy:           new(registrationv1.Fail),
			ReinvocationPolicy:      new(registrationv1.IfNeededReinvocationPolicy),
			SideEffects:             new(registrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	client := p.cluster.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := client.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), configuration.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return hook
}

// wantInjectedVolumesAlone: volumes that a webhook adds stay as the webhook wrote them. A webhook that is called again merges
// its template once more, and a volume that was converted in between would have two sources: no such pod could be created.
func (p *policies) wantInjectedVolumesAlone(t *testing.T) {
	t.Helper()
	namespace := p.namespaceWith(t, "configMaps.secrets")
	p.awaitConversion(t, namespace, aConfigMap)
	hook := p.injects(t, namespace, "a-sidecar", `{"spec": {
		"containers": [{"name": "mesh", "image": "mesh", "volumeMounts": [{"name": "mesh", "mountPath": "/etc/mesh"}]}],
		"volumes": [{"name": "mesh", "configMap": {"name": "mesh"}}, {"name": "ca", "projected": {"sources": [{"secret": {"name": "ca"}}]}}]}}`)
	p.injects(t, namespace, "b-label", `{"metadata": {"labels": {"injected": "yes"}}}`)
	var pod *corev1.Pod
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		hook.calls.Store(0)
		var err error
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		pod, err = p.cluster.Client().CoreV1().Pods(namespace).Create(ctx, podOf(aConfigMap, aSecret), dry)
		return err == nil && len(pod.Spec.Containers) == 2 && pod.Labels["injected"] == "yes", err
	})
	if err != nil {
		t.Fatalf("a pod that webhooks change: %v", err)
	}
	if calls := hook.calls.Load(); calls < 2 {
		t.Errorf("the webhook was called %d times for a pod, want that it was called again", calls)
	}
	for _, v := range pod.Spec.Volumes {
		isTheirs := v.Name == "mesh" || v.Name == "ca"
		if isOurs := v.CSI != nil; isOurs == isTheirs {
			t.Errorf("volume %s is %v, want those of the template alone to be ours", v.Name, v.VolumeSource)
		}
	}
	p.wantSharedVolumesNeedAnAnnotation(t, namespace)
}

// wantSharedVolumesNeedAnAnnotation: the policy cannot know that a webhook will add a volume that the template has already.
func (p *policies) wantSharedVolumesNeedAnAnnotation(t *testing.T, namespace string) {
	t.Helper()
	of := corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mesh"}}
	pod := podOf(corev1.VolumeSource{ConfigMap: &of})
	pod.Spec.Volumes[0].Name, pod.Spec.Containers[0].VolumeMounts[0].Name = "mesh", "mesh"
	if _, err := p.creates(t.Context(), namespace, pod); !apierrors.IsInvalid(err) {
		t.Errorf("a volume of the template that a webhook merges again: %v, want that the pod is invalid, as docs/adoption.md says", err)
	}
	pod.Annotations = map[string]string{api.Domain + "/volumes": "none"}
	if _, err := p.creates(t.Context(), namespace, pod); err != nil {
		t.Errorf("a pod with the annotation none: %v", err)
	}
}
