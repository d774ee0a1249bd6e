package driver

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// change is [set] for goroutines.
func change(ctx context.Context, b *fixture.Fixture, name, value string) error {
	return b.PutConfigMap(ctx, name, map[string]string{"n": value})
}

// syncsOf returns how many syncs have ended since the driver was started, whatever their result.
func syncsOf(b *fixture.Fixture) (syncs float64) {
	b.T.Helper()
	for _, result := range []string{"written", "unchanged", "failed"} {
		syncs += b.Number(`liveconfig_syncs_total{result="` + result + `"}`)
	}
	return syncs
}

// rssOf returns how many bytes of memory the driver's process has, those of its volumes not among them.
func rssOf(b *fixture.Fixture) int {
	b.T.Helper()
	const kiB = 1 << 10
	return kiB * (numberIn(b, "status", "VmRSS:") - numberIn(b, "status", "RssShmem:"))
}

// readBy returns how many bytes the driver has read, from wherever.
func readBy(b *fixture.Fixture) int {
	b.T.Helper()
	return numberIn(b, "io", "rchar:")
}

// numberIn returns the number behind a name in a file of the driver's process.
func numberIn(b *fixture.Fixture, file, name string) int {
	b.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", b.Node.PID(), file))
	must(b.T, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, err := strconv.Atoi(fields[1])
			must(b.T, err)
			return n
		}
	}
	b.T.Fatalf("%s of the driver has no %s", file, name)
	return 0
}

// createSecrets makes so many Secrets of a size: large-0, large-1 and so on.
func createSecrets(b *fixture.Fixture, count, size int) {
	b.T.Helper()
	data := fixture.Marked(map[string]string{"x": strings.Repeat("x", size)})
	secrets := b.Cluster.Client().CoreV1().Secrets(b.Namespace)
	group, ctx := errgroup.WithContext(b.T.Context())
	group.SetLimit(4)
	for i := range count {
		group.Go(func() error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}, StringData: data}
			_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
			return err
		})
	}
	must(b.T, group.Wait())
}

// deleteSecrets empties the bench's namespace of Secrets, so that the API server need not hold them for other tests.
func deleteSecrets(b *fixture.Fixture) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.T.Context()), time.Minute)
	defer cancel()
	err := b.Cluster.Client().CoreV1().Secrets(b.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		b.T.Error(err)
	}
}
