package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createConfigMap(t *testing.T, c *cluster.Cluster, namespace, name string) {
	t.Helper()
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{"key": "value"},
	}
	if _, err := c.Client().CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestVersionIsStamped(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	version, err := c.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := version.GitVersion, "v1.36.3"; got != want {
		t.Errorf("server version = %s, want %s", got, want)
	}
	printed, err := c.Kubectl(t.Context(), "version", "--client")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(printed, "Client Version: v1.36.3") {
		t.Errorf("kubectl version --client printed %q, want v1.36.3", printed)
	}
}

func TestServiceAccountIsAuthenticatedAndDeniedASecret(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	namespace := cluster.NewNamespace(t, c)
	user := cluster.ServiceAccountUser(namespace, "web")
	if err := c.EnsureServiceAccount(t.Context(), namespace, "web"); err != nil {
		t.Fatal(err)
	}
	config, err := c.ServiceAccountConfig(t.Context(), namespace, "web")
	if err != nil {
		t.Fatal(err)
	}
	client := clientFor(t, config)

	review := &authenticationv1.SelfSubjectReview{}
	review, err = client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status.UserInfo.Username; got != user {
		t.Errorf("the token's user = %s, want %s", got, user)
	}

	before := time.Now()
	_, err = client.CoreV1().Secrets(namespace).Get(t.Context(), "tls", metav1.GetOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("get of a secret: error = %v, want Forbidden", err)
	}
	requests := requestsOf(t, c, before, user)
	if len(requests) == 0 {
		t.Fatal("the denied request is not in the audit log")
	}
	got := requests[0]
	if got.ID == "" || got.UserAgent == "" || got.Time.Before(before.Truncate(time.Microsecond)) {
		t.Errorf("record without ID, user agent or a time after %s: %+v", before, got)
	}
	got.ID, got.UserAgent, got.Time = "", "", time.Time{}
	want := cluster.Request{
		Stage: cluster.StageReceived, User: user, Verb: "get", URI: "/api/v1/namespaces/" + namespace + "/secrets/tls",
		Resource: "secrets", Namespace: namespace, Name: "tls",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the denied request's record (-want +got):\n%s", diff)
	}
}

// requestsOf returns the records of one user since a moment.
func requestsOf(t *testing.T, c *cluster.Cluster, since time.Time, user string) []cluster.Request {
	t.Helper()
	all, err := c.Requests(since)
	if err != nil {
		t.Fatal(err)
	}
	var requests []cluster.Request
	for _, r := range all {
		if r.User == user {
			requests = append(requests, r)
		}
	}
	return requests
}

func TestOpenWatchAddsNoRecords(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	namespace := cluster.NewNamespace(t, c)
	user := cluster.ServiceAccountUser(namespace, "default")
	for _, args := range [][]string{
		{"create", "role", "watcher", "--verb=watch", "--resource=configmaps"},
		{"create", "rolebinding", "watcher", "--role=watcher", "--serviceaccount=" + namespace + ":default"},
	} {
		if _, err := c.Kubectl(t.Context(), append(args, "--namespace="+namespace)...); err != nil {
			t.Fatal(err)
		}
	}
	access := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "watch", Resource: "configmaps"}
	if err := c.AwaitAccess(t.Context(), user, access); err != nil {
		t.Fatal(err)
	}
	config, err := c.ServiceAccountConfig(t.Context(), namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	watch, err := clientFor(t, config).CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	createConfigMap(t, c, namespace, "first")
	<-watch.ResultChan() // The watch has started, so both of its records are written.
	began := time.Now()
	createConfigMap(t, c, namespace, "second")
	<-watch.ResultChan()
	if got := requestsOf(t, c, began, user); len(got) != 0 {
		t.Errorf("records while a watch delivers = %v, want none", got)
	}
	if got, err := c.Requests(began); err != nil || len(got) == 0 {
		t.Errorf("records of all users = %v, %v, want the admin's", got, err)
	}

	if _, err := c.Kubectl(t.Context(), "delete", "rolebinding", "watcher", "--namespace="+namespace); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitDenial(t.Context(), user, access); err != nil {
		t.Error(err)
	}
}

func TestKubeconfigsArePrivateAndWork(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	namespace := cluster.NewNamespace(t, c)
	dir := t.TempDir()
	admin, account := filepath.Join(dir, "admin"), filepath.Join(dir, "account")
	if err := c.WriteAdminKubeconfig(admin); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteServiceAccountKubeconfig(t.Context(), account, namespace, "default"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{admin: "admin", account: cluster.ServiceAccountUser(namespace, "default")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("mode of the kubeconfig of %s = %o, want 600", want, got)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		review := &authenticationv1.SelfSubjectReview{}
		review, err = clientFor(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := review.Status.UserInfo.Username; got != want {
			t.Errorf("user of %s = %s, want %s", path, got, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("%d files beside the kubeconfigs, want only the two: %v", len(entries), entries)
	}
}

func TestTokenIsBoundToThePodItWasRequestedFor(t *testing.T) {
	t.Parallel()
	const extra, podName = "authentication.kubernetes.io/pod-name", "web"
	c := cluster.ForTest(t)
	namespace := cluster.NewNamespace(t, c)
	pod, err := c.Client().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), namespace, "default", authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: podName, UID: pod.UID},
	})
	if err != nil {
		t.Fatal(err)
	}
	review, err := c.Client().AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status.User.Extra[extra]; !review.Status.Authenticated || !slices.Equal(got, []string{podName}) {
		t.Errorf("the token's %s = %v (%s), want %s", extra, got, review.Status.Error, podName)
	}
}

func TestApplyTakesAFileAFolderAndAKustomization(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	dir, namespace := t.TempDir(), cluster.NewNamespace(t, c)
	// CSIDrivers have no namespace: another run of this test must not find this one's.
	name := namespace + ".example.com"
	csiDriver := "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + name + "}\n" +
		"spec: {attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Ephemeral]}\n"
	writeFile(t, filepath.Join(dir, "driver.yaml"), csiDriver)
	kustomization := filepath.Join(dir, "kustomized")
	if err := os.Mkdir(kustomization, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(kustomization, "driver.yaml"), csiDriver)
	writeFile(t, filepath.Join(kustomization, "kustomization.yaml"), "resources: [driver.yaml]\nnamePrefix: kustomized-\n")

	for _, step := range []struct{ path, want string }{
		{filepath.Join(dir, "driver.yaml"), "csidriver.storage.k8s.io/" + name + " created\n"},
		{dir, "csidriver.storage.k8s.io/" + name + " unchanged\n"},
		{kustomization, "csidriver.storage.k8s.io/kustomized-" + name + " created\n"},
	} {
		got, err := c.Apply(t.Context(), step.path)
		if err != nil {
			t.Fatal(err)
		}
		if got != step.want {
			t.Errorf("Apply(%s) printed %q, want %q", step.path, got, step.want)
		}
	}
	driver, err := c.Client().StorageV1().CSIDrivers().Get(t.Context(), "kustomized-"+name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	if diff := cmp.Diff(want, driver.Spec.VolumeLifecycleModes); diff != "" {
		t.Errorf("the applied driver's modes (-want +got):\n%s", diff)
	}
}

func writeFile(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKubectlReportsWhatItPrintedOnStderr(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	_, err := c.Kubectl(t.Context(), "get", "configmap", "absent")
	if err == nil || !strings.Contains(err.Error(), `configmaps "absent" not found`) {
		t.Errorf("error = %v, want kubectl's own words", err)
	}
}
