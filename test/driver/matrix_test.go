package driver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// chapters returns checks that run in parallel. Each has its own cells, and so its own watches: the driver retries a watch
// later the more often it was refused.
func chapters() map[string]func(matrix) {
	return map[string]func(matrix){
		"lost and regained": matrix.checkLoss, "get alone": matrix.checkGetAlone, "tokens": matrix.checkTokens,
	}
}

// TestAccessMatrix goes through identity modes, kinds of sources and namespaces with everything that can happen to the
// access of a pod, which rule 19 leaves to the owner of the other namespace. It waits for many things, but for all cells
// and all chapters at a time. This is fault 28.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	drivers := startModes(t)
	for name, check := range chapters() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(newCells(t, drivers))
		})
	}
}

// asking returns the cells in which a pod's service account needs to be granted something.
func (m matrix) asking() matrix { return m.of(byPod, byReview) }

// publishGranted publishes the volumes of pods that may read their sources.
func (m matrix) publishGranted(names []string, accounts ...string) {
	m.asking().each(func(c *cell) { c.grant(watching(), names, accounts...) })
	m.each(func(c *cell) { publishSoon(c.Fixture, c.pod) })
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted") })
}

// named is the source, as roles name it.
func named() []string { return []string{"source"} }

// checkLoss goes from denied access to access that is granted as the answer says, revoked, and granted again.
func (m matrix) checkLoss() {
	asking := m.asking()
	// Denied, and granted as the answer says: by resourceNames.
	m.of(byDriver).each(func(c *cell) { publishSoon(c.Fixture, c.pod) })
	asking.each(func(c *cell) {
		c.apply(c.wantDenied(c.pod))
		publishSoon(c.Fixture, c.pod)
	})
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted by the names of objects") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "after an edit") })

	// Revoked, and regained. What the driver reads by itself is not affected.
	asking.each((*cell).revoke)
	asking.each(func(c *cell) { c.WantEvent(c.pod, "AccessLost", "the files stay as they are") })
	m.each((*cell).edit)
	asking.each(func(c *cell) { c.wantEnded(c.pod, "is forbidden") })
	m.of(byDriver).each(func(c *cell) { c.wantCurrent(c.pod, "whatever pods may") })
	asking.each(func(c *cell) { c.grant(watching(), named(), "app") })
	m.each(func(c *cell) { c.wantCurrent(c.pod, "regained") })

	// All objects of the kind, in the place of one by its name.
	asking.each(func(c *cell) { c.grant(watching(), nil, "app") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted for all objects") })
}

// checkGetAlone takes list and watch away, and grants them again. Meanwhile the driver polls for a pod and reports that in
// an Event; for a review it needs no more than get.
func (m matrix) checkGetAlone() {
	m.publishGranted(named(), "app")
	m.asking().each(func(c *cell) { c.grant([]string{"get"}, named(), "app") })
	m.of(byPod).each(func(c *cell) { c.WantEvent(c.pod, "Polling", "may get it but not watch it") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "with get alone") })
	m.of(byReview).each(func(c *cell) { c.wantNoEvent(c.pod, "Polling") })

	m.asking().each(func(c *cell) { c.grant(watching(), nil, "app") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted for all objects after get alone") })
}

// checkTokens is what happens to tokens: they expire, their pod is deleted, their service account is deleted. Only a pod that
// reads with one is affected, and another pod's token of the same service account is as good. A token that looks expired and
// is not serves like any other.
func (m matrix) checkTokens() {
	m.publishGranted(nil, "app", "short", "gone", "other", "ahead")
	ahead := map[*cell]*corev1.Pod{}
	m.each(func(c *cell) {
		ahead[c] = c.newPod("ahead", "ahead")
		ahead[c].Annotations = map[string]string{lifetimeKey: "-1h"}
		publishSoon(c.Fixture, ahead[c])
	})
	short, gone, deleted := map[*cell]*corev1.Pod{}, map[*cell]*corev1.Pod{}, map[*cell]*corev1.Pod{}
	m.each(func(c *cell) {
		short[c], gone[c], deleted[c] = c.newPod("short", "short"), c.newPod("gone", "gone"), c.newPod("other", "other")
		short[c].Annotations = map[string]string{lifetimeKey: "12s"}
		publishSoon(c.Fixture, short[c])
		publishSoon(c.Fixture, gone[c])
		publishSoon(c.Fixture, deleted[c])
		c.deletePod(gone[c])
		c.deletePod(c.pod) // Of which the next one is the heir.
		c.pod = c.heir()
		if err := c.Cluster.Client().CoreV1().ServiceAccounts(c.Namespace).Delete(c.T.Context(), "other", metav1.DeleteOptions{}); err != nil {
			c.T.Fatal(err)
		}
	})
	pods := m.of(byPod)
	// Some seconds go by, for which the API server remembers that a token was good.
	pods.each(func(c *cell) {
		environment.Eventually(c.T, 2*soon, func() error { return c.unwell(short[c], "there is no valid token") })
		environment.Eventually(c.T, 2*soon, func() error { return c.unwell(gone[c], "Unauthorized") })
		environment.Eventually(c.T, 2*soon, func() error { return c.unwell(deleted[c], "Unauthorized") })
	})
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "with the token of another pod") })
	m.each(func(c *cell) { c.wantCurrent(ahead[c], "with a token that looks expired") })
	pods.each(func(c *cell) {
		c.wantEnded(short[c], "there is no valid token")
		c.wantEnded(gone[c], "Unauthorized")
		c.wantEnded(deleted[c], "Unauthorized")
	})
	m.of(byDriver, byReview).each(func(c *cell) {
		c.wantCurrent(short[c], "without tokens")
		c.wantCurrent(gone[c], "after the pod")
		c.wantCurrent(deleted[c], "after the service account")
	})
	pods.each(func(c *cell) { // The kubelet repeats itself, with a new token.
		delete(short[c].Annotations, lifetimeKey)
		publishSoon(c.Fixture, short[c])
	})
	m.each(func(c *cell) { c.wantCurrent(short[c], "with a new token") })
}

// heir publishes another pod of the service account app, while the first one's volume is live but its token dead.
func (c *cell) heir() *corev1.Pod {
	c.T.Helper()
	first := c.pod
	next := c.newPod("heir", "app")
	publishSoon(c.Fixture, next)
	c.edit()
	c.wantCurrent(first, "with the token of its heir")
	return next
}

// deletePod deletes a pod at the API server; its volume stays for a while.
func (c *cell) deletePod(pod *corev1.Pod) {
	c.T.Helper()
	now := int64(0)
	err := c.Cluster.Client().CoreV1().Pods(pod.Namespace).Delete(c.T.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	must(c.T, err)
}
