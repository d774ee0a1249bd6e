package site

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The crowd's place, and the object that all of it uses.
const (
	CrowdNamespace = "bench-crowd"
	CrowdObject    = "shared"
)

// Crowd returns n pods, or more if there are more, which stay as long as the site. Each has a volume of the driver's of the
// one object.
func (s *Site) Crowd(ctx context.Context, n int) ([]*corev1.Pod, error) {
	if len(s.crowd) == 0 {
		if err := s.CreateNamespace(ctx, CrowdNamespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if err := s.CreateConfigMaps(ctx, CrowdNamespace, "0000000001", CrowdObject); err != nil {
			return nil, err
		}
	}
	var pods []*corev1.Pod
	for i := len(s.crowd); i < n; i++ {
		pods = append(pods, Pod(CrowdNamespace, fmt.Sprintf("pod-%d", i), CrowdObject))
	}
	pods, err := s.StartPods(ctx, pods)
	s.crowd = append(s.crowd, pods...)
	return s.crowd, err
}
