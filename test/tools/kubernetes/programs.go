//go:build tools

package kubernetes

import (
	_ "k8s.io/kubernetes/test/images/agnhost"
)
