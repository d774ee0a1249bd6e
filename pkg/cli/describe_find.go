package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/resource"
)

// chosen is a workload or pod that was selected.
type chosen struct {
	workload

	info *resource.Info
}

// workloads finds the workloads and pods that were selected. It may return an error with what it found all the same.
func (s *selection) workloads(in *session, args []string) ([]chosen, error) {
	var found []chosen
	var errs, others []error
	for _, target := range apart(args) {
		infos, err := s.visit(in, target)
		errs = append(errs, err)
		for _, info := range infos {
			w, ok := asWorkload(info.Object)
			if !ok {
				others = append(others, fmt.Errorf("%s: it makes no pods: name a deployment, statefulset, daemonset, job or pod", subject(info)))
				continue
			}
			found = append(found, chosen{workload: w, info: info})
		}
	}
	if s.fromFiles() && len(found) > 0 {
		others = nil // Files hold more than workloads.
	}
	return found, errors.Join(append(errs, others...)...)
}

// apart takes arguments apart that name several objects, so that one that is missing hides no other: TYPE/NAME TYPE/NAME,
// and TYPE NAME NAME.
func apart(args []string) [][]string {
	var targets [][]string
	isPart := func(arg string) bool { return !strings.Contains(arg, "/") }
	switch {
	case len(args) > 1 && !slices.ContainsFunc(args, isPart):
		for _, arg := range args {
			targets = append(targets, []string{arg})
		}
	case len(args) > 2 && !strings.ContainsAny(strings.Join(args, ""), "/,"):
		for _, name := range args[1:] {
			targets = append(targets, []string{args[0], name})
		}
	default:
		targets = append(targets, args)
	}
	return targets
}
