package adopt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// Report is what the label would convert.
type Report struct {
	// Policy is whether the API server converts volumes of namespaces with the label: installed,
	// missing or unknown. The last two have a Reason.
	Policy     string       `json:"policy"`
	Reason     string       `json:"reason,omitempty"`
	Namespaces []*Namespace `json:"namespaces"`
}

// Namespace is a namespace and its workloads that have volumes of ConfigMaps or Secrets.
type Namespace struct {
	Name string `json:"name"`
	// Label is the value that the namespace has, and Value the one that the report is about.
	Label     string      `json:"label,omitempty"`
	Value     string      `json:"value"`
	Workloads []*Workload `json:"workloads"`
	Missing   []Missing   `json:"missingRoles"`
}

// Missing is an object that a service account may not read.
type Missing struct {
	ServiceAccount string `json:"serviceAccount"`
	// Object is such as secret/tls. Without a name it means all of the kind.
	Object string   `json:"object"`
	Verbs  []string `json:"verbs"`
}

// Workload is a workload, or a pod that no workload makes.
type Workload struct {
	// Name is such as deployment/web.
	Name    string   `json:"name"`
	Volumes []Volume `json:"volumes"`
	// Pods counts those that have not ended. Old counts those of them that have in-tree volumes
	// where new pods have live ones.
	Pods int `json:"pods"`
	Old  int `json:"podsToRestart"`
	// Next is how pods with live volumes come into being.
	Next  string   `json:"next,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Volume is a volume of Kubernetes' own.
type Volume struct {
	Name string `json:"name"`
	Live bool   `json:"live"`
	// UpdatePolicy is InPlace for a volume that containers mount only by subPath.
	UpdatePolicy string `json:"updatePolicy,omitempty"`
	// Reason is why the volume stays as it is.
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// tokens is how the API server begins the names of the volumes that it adds to pods.
const tokens = "kube-api-access-"

// judge returns what the API server would do with the volumes of a workload's new pods.
func judge(policy admission.Policy, kind string, w selection.Workload) *Workload {
	found := &Workload{Name: kind + "/" + w.Meta.Name, Volumes: []Volume{}}
	for _, v := range policy.Volumes(w) {
		if w.Pod != nil && strings.HasPrefix(v.Name, tokens) {
			continue
		}
		found.Volumes = append(found.Volumes, volumeOf(v))
	}
	if slices.ContainsFunc(found.Volumes, func(v Volume) bool { return v.Live }) {
		found.Next = next(kind, policy.Namespace, w.Meta.Name)
		found.Notes = intree.ChecksumNotes(w.Template.Annotations)
	}
	if c := metav1.GetControllerOfNoCopy(w.Meta); c != nil {
		found.Notes = append(found.Notes, fmt.Sprintf("%s %s makes it", c.Kind, c.Name))
	}
	return found
}

func volumeOf(v admission.Volume) Volume {
	made := Volume{Name: v.Name, Live: v.CSI != nil, Reason: v.Reason}
	if !made.Live || len(v.Needs.Parts) == 0 {
		return made
	}
	containers := strings.Join(v.Needs.Parts, ", ")
	if v.Needs.InPlace() {
		made.UpdatePolicy = string(api.UpdateInPlace)
		made.Notes = []string{"updates reach the subPath in " + containers +
			", where a reader may see a half-written file"}
		return made
	}
	made.Notes = []string{"updates do not reach the subPath in " + containers + ", as before"}
	return made
}

// next returns how pods with live volumes come into being.
func next(kind, namespace, name string) string {
	switch kind {
	case "deployment", "statefulset", "daemonset":
		return fmt.Sprintf("kubectl -n %s rollout restart %s/%s", namespace, kind, name)
	case "cronjob":
		return "its next Job has live volumes"
	case "job":
		return "a Job keeps its pods: run it again"
	case "pod":
		return "delete the pod and create it again"
	default:
		return "delete its pods one after the other"
	}
}

// count counts a pod of the workload.
func (w *Workload) count(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	w.Pods++
	isOld := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.CSI == nil && slices.ContainsFunc(w.Volumes, func(of Volume) bool { return of.Live && of.Name == v.Name })
	})
	if isOld {
		w.Old++
	}
}

func infoOf(w selection.Workload) *resource.Info {
	return &resource.Info{Namespace: w.Meta.Namespace, Name: w.Meta.Name}
}
