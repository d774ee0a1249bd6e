package observe

import (
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
)

// The limits of what is shown of annotations that anybody can write: bytes of one annotation, and
// entries of all.
const (
	mostLeftText = 2048
	mostLeft     = 20
)

// LeftInTree returns the volumes of pods that the API server has left as they were although their
// namespace has the label, each with the reason, such as "token: has a serviceAccountToken".
func LeftInTree(pods []*Pod) (list []string) {
	for _, pod := range pods {
		text := pod.Annotations[admission.Left]
		for entry := range strings.SplitSeq(text[:min(len(text), mostLeftText)], "; ") {
			if entry != "" && len(list) < mostLeft && !slices.Contains(list, entry) {
				list = append(list, entry)
			}
		}
	}
	return list
}
