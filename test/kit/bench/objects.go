package bench

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// VolumeName is the name of the volume that a pod of [Bench.Pod] has.
const VolumeName = "config"

// ConfigMaps returns a client for those of the bench's namespace.
func (b *Bench) ConfigMaps() corev1client.ConfigMapInterface {
	return b.Cluster.Client().CoreV1().ConfigMaps(b.Namespace)
}

// Marked returns the data as objects hold it.
func Marked(data map[string]string) map[string]string {
	all := make(map[string]string, len(data))
	for key, value := range data {
		all[key] = lab.Marked(value)
	}
	return all
}

// CreateConfigMap makes a ConfigMap of the data.
func (b *Bench) CreateConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	b.T.Helper()
	cm, err := b.objects.createConfigMap(b.T.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: Marked(data)})
	if err != nil {
		b.T.Fatal(err)
	}
	return cm
}

// UpdateConfigMap replaces the data and returns when the API server has answered, or the manifest is written.
func (b *Bench) UpdateConfigMap(name string, data map[string]string) {
	b.T.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: Marked(data)}
	if err := b.objects.updateConfigMap(b.T.Context(), cm); err != nil {
		b.T.Fatal(err)
	}
}

// DeleteConfigMap removes a ConfigMap.
func (b *Bench) DeleteConfigMap(name string) {
	b.T.Helper()
	if err := b.objects.deleteConfigMap(b.T.Context(), name); err != nil {
		b.T.Fatal(err)
	}
}

// SetSecret makes a Secret of the data, or replaces its data.
func (b *Bench) SetSecret(name string, data map[string]string) {
	b.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: Marked(data)}
	if err := b.objects.setSecret(b.T.Context(), secret); err != nil {
		b.T.Fatal(err)
	}
}

// Pod returns a pod of the bench's namespace with one volume of the driver.
func (b *Bench) Pod(name string, attributes map[string]string) *corev1.Pod {
	b.T.Helper()
	return b.PodOf(name, "default", attributes)
}

// PodOf returns a pod of a service account. The API server knows it by its name and UID, for tokens that are bound to it;
// what else the driver knows of a pod it has from the kubelet.
func (b *Bench) PodOf(name, account string, attributes map[string]string) *corev1.Pod {
	b.T.Helper()
	uid, err := b.objects.addPod(b.T.Context(), name, account)
	if err != nil {
		b.T.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name, UID: uid},
		Spec:       corev1.PodSpec{ServiceAccountName: account},
	}
	AddVolume(pod, VolumeName, attributes)
	return pod
}

// AddVolume gives the pod one more volume of the driver.
func AddVolume(pod *corev1.Pod, name string, attributes map[string]string) {
	readOnly := true
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: name,
		VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: node.DriverName, ReadOnly: &readOnly, VolumeAttributes: attributes,
		}},
	})
}

// DeletePod takes a pod out of the API server, at once. The kubelet is not told.
func (b *Bench) DeletePod(name string) {
	b.T.Helper()
	pods := b.Cluster.Client().CoreV1().Pods(b.Namespace)
	if err := pods.Delete(b.T.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		b.T.Fatal(err)
	}
}

// AllowSecrets lets a service account of the bench's namespace read all Secrets there.
func (b *Bench) AllowSecrets(account string) {
	b.T.Helper()
	b.AllowFor("secrets", account, "get", "list", "watch")
}

// AllowFor lets a service account of the bench's namespace do something with all objects of a resource there.
func (b *Bench) AllowFor(resource, account string, verbs ...string) {
	b.T.Helper()
	roles := b.Cluster.Client().RbacV1()
	_, err := roles.Roles(b.Namespace).Create(b.T.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.T.Fatal(err)
	}
	_, err = roles.RoleBindings(b.Namespace).Create(b.T.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.Namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.T.Fatal(err)
	}
	err = b.Cluster.AwaitAccess(b.T.Context(), cluster.ServiceAccountUser(b.Namespace, account), authorizationv1.ResourceAttributes{
		Namespace: b.Namespace, Verb: verbs[len(verbs)-1], Version: "v1", Resource: resource,
	})
	if err != nil {
		b.T.Fatal(err)
	}
}
