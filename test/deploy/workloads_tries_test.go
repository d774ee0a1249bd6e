package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// refused are JSON patches of the workloads of usesAll that no policy may let pass, by how the refusal begins.
func refused(t *testing.T) map[string]map[string]string {
	t.Helper()
	return map[string]map[string]string{
		"change nothing of a workload's spec but its pod template": {
			"how much history there is":      add("/spec/revisionHistoryLimit", "0"),
			"how soon pods count as running": add("/spec/minReadySeconds", "7"),
		},
		"change nothing of a workload's metadata but its own label and annotations": {
			"the finalizers": add("/metadata/finalizers", `["example.org/a"]`),
			"the owners":     add("/metadata/ownerReferences", `[{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]`),
		},
		"change no label of a workload": {
			"a label":   add("/metadata/labels/app", `"b"`),
			"no labels": `{"op": "remove", "path": "/metadata/labels"}`,
		},
		"change no annotation of a workload": {
			"what triggers it":   add(annotation(trigger.TriggeredBy), `"configmap/other"`),
			"a wish":             add(annotation(trigger.AfterUndo), `"roll"`),
			"a rollback":         add(annotation("deprecated.deployment.rollback.to"), `"1"`),
			"another annotation": add(annotation("example.org/a"), `"b"`),
			"a wish that goes":   fmt.Sprintf(`{"op": "remove", "path": %q}`, annotation(trigger.AfterUndo)),
		},
		"change no annotation of a pod template": {
			"an annotation of pods": add("/spec/template/metadata/annotations/note", `"b"`),
			"a profile":             add("/spec/template/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1web", `"unconfined"`),
		},
		"change nothing of a pod template": {
			"the account":         add("/spec/template/spec/serviceAccountName", `"admin"`),
			"the host's network":  add("/spec/template/spec/hostNetwork", `true`),
			"the host's pids":     add("/spec/template/spec/hostPID", `true`),
			"the pod's context":   add("/spec/template/spec/securityContext", `{"runAsUser": 0}`),
			"the node":            add("/spec/template/spec/nodeName", `"a"`),
			"a pull secret":       add("/spec/template/spec/imagePullSecrets", `[{"name": "settings-0123456789"}]`),
			"a priority":          add("/spec/template/spec/priorityClassName", `"system-node-critical"`),
			"a label of pods":     add("/spec/template/metadata/labels/a", `"b"`),
			"a finalizer of pods": add("/spec/template/metadata/finalizers", `["example.org/a"]`),
		},
		"change nothing of a volume but": refusedInVolumes(),
		"change nothing of a container but": {
			"the image":         container("image", `"evil"`),
			"the command":       container("command", `["evil"]`),
			"arguments":         container("args", `["evil"]`),
			"the context":       container("securityContext", `{"privileged": true}`),
			"a mount":           container("volumeMounts/-", `{"name": "j", "mountPath": "/j"}`),
			"a probe":           container("livenessProbe", `{"exec": {"command": ["evil"]}}`),
			"a variable":        container("env/0/value", `"evil"`),
			"another variable":  container("env/-", `{"name": "E", "value": "evil"}`),
			"the key":           container("env/1/valueFrom/secretKeyRef/key", `"c"`),
			"what must exist":   container("envFrom/0/configMapRef/optional", `false`),
			"where it is from":  container("env/1/valueFrom", `{"configMapKeyRef": {"name": "password", "key": "b"}}`),
			"more of a source":  container("envFrom/-", `{"secretRef": {"name": "password"}}`),
			"the prefix":        container("envFrom/0/prefix", `"LD_"`),
			"a container":       add("/spec/template/spec/containers/-", `{"name": "evil", "image": "evil"}`),
			"an init container": add("/spec/template/spec/initContainers/0/image", `"evil"`),
			"how they run": add("/spec/template/spec/containers/-", `{"name": "prepare", "image": "prepare"}`) +
				`, {"op": "remove", "path": "/spec/template/spec/initContainers"}`,
		},
		"change nothing of a volume's sources but": {
			"a path of a source":            sources("path: \"hostname: a\"", "path: b"),
			"a path that ends like a name":  sources("hostname: a", "hostname: a-0123456789"),
			"a path that looks like a name": sources("name:b", "name:b-0123456789"),
			"a path that has a name in it":  sources("a name: c", "a name: c-0123456789"),
			"a path that is not quoted":     sources("name:d", "name:d-0123456789"),
			"a quote":                       sources(`"name":"password"`, `"name":"password`),
			"the name in a comment":         sources("# name: settings", "# name: foreign"),
			"a key of a source":             sources("key: name,", "key: other,"),
			"a namespace of a source":       sources("namespace: other", "namespace: kube-system"),
			"the kind of a source":          sources("- configMap: {name: settings", "- secret: {name: settings"),
			"a source more":                 sources("- configMap: {name: 1e}", "- configMap: {name: 1e}\n- secret: {name: foreign}"),
			"what follows a name":           sources("settings, items", "settings, optional: true, items"),
			"a namespace like a copy":       sources("namespace: other", "namespace: other-0123456789"),
		},
		"only replace the name of a source": refusedNames(),
	}
}

func annotation(key string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
}

func container(field, value string) string {
	return add("/spec/template/spec/containers/0/"+field, value)
}

// replace is an operation that replaces a value, also one of a list.
func replace(path, value string) string {
	return fmt.Sprintf(`{"op": "replace", "path": %q, "value": %s}`, path, value)
}

func volume(field, value string) string { return add("/spec/template/spec/volumes/"+field, value) }

// sources changes the long form of usesAll.
func sources(from, to string) string {
	_, text, _ := strings.Cut(usesAll, "sources: |\n              ")
	text, _, _ = strings.Cut(text, "\n      - {name: g")
	text = strings.ReplaceAll(text, "\n              ", "\n") + "\n"
	text = strings.ReplaceAll(text, "LONG", long())
	changed := strings.ReplaceAll(text, from, to)
	if changed == text {
		panic("the sources have no " + from)
	}
	return volume("5/csi/volumeAttributes/sources", fmt.Sprintf("%q", changed))
}

func refusedInVolumes() map[string]string {
	return map[string]string{
		"a volume of the node":       volume("-", `{"name": "l", "hostPath": {"path": "/"}}`),
		"a volume to one of a node":  replace("/spec/template/spec/volumes/9", `{"name": "j", "hostPath": {"path": "/"}}`),
		"a volume of another source": volume("-", `{"name": "l", "secret": {"secretName": "password-0123456789"}}`),
		"the kind of a source":       replace("/spec/template/spec/volumes/0", `{"name": "a", "secret": {"secretName": "settings"}}`),
		"no volume":                  `{"op": "remove", "path": "/spec/template/spec/volumes/9"}`,
		"the items":                  volume("0/configMap/items", `[]`),
		"the mode":                   volume("1/secret/defaultMode", `511`),
		"a source more":              volume("2/projected/sources/-", `{"serviceAccountToken": {"path": "token"}}`),
		"the kind of a projection":   replace("/spec/template/spec/volumes/2/projected/sources/0", `{"secret": {"name": "settings"}}`),
		"the driver":                 volume("3/csi/driver", `"csi.example.org"`),
		"a credential":               volume("3/csi/nodePublishSecretRef", `{"name": "settings-0123456789"}`),
		"the user of the files":      volume("3/csi/volumeAttributes/uid", `"0"`),
		"the namespace":              volume("3/csi/volumeAttributes/namespace", `"other"`),
		"a Secret beside it":         volume("3/csi/volumeAttributes/secret", `"settings"`),
		"the keys":                   volume("4/csi/volumeAttributes/items", `"[]"`),
		"another driver's source":    volume("7/csi/volumeAttributes/configMap", `"settings-0123456789"`),
		"another driver's sources":   volume("7/csi/volumeAttributes/sources", `"name: settings-0123456789"`),
	}
}

func refusedNames() map[string]string {
	return map[string]string{
		"the name of a ConfigMap":             volume("0/configMap/name", `"foreign"`),
		"a name to that of another's copy":    volume("0/configMap/name", `"foreign-0123456789"`),
		"a name that ends in other digits":    volume("0/configMap/name", `"settings-012345678x"`),
		"a name that goes on":                 volume("0/configMap/name", `"settings-more-0123456789"`),
		"a name that begins like it":          volume("0/configMap/name", `"set-0123456789"`),
		"a name to several":                   volume("0/configMap/name", `"settings-0123456789 foreign"`),
		"no name":                             volume("3/csi/volumeAttributes/configMap", `""`),
		"the name of a Secret":                volume("1/secret/secretName", `"foreign"`),
		"a name in a projection":              volume("2/projected/sources/0/configMap/name", `"foreign"`),
		"a name of a Secret in a projection":  volume("2/projected/sources/1/secret/name", `"foreign"`),
		"an attribute":                        volume("3/csi/volumeAttributes/configMap", `"foreign"`),
		"an attribute of a Secret":            volume("4/csi/volumeAttributes/secret", `"foreign"`),
		"a name in an attribute":              sources("{name: settings", "{name: foreign"),
		"a name to another's copy in it":      sources("{name: settings", "{name: foreign-0123456789"),
		"a name of a Secret in an attribute":  sources(`"name":"password"`, `"name":"foreign"`),
		"a variable's ConfigMap":              container("env/2/valueFrom/configMapKeyRef/name", `"foreign"`),
		"a variable's Secret":                 container("env/1/valueFrom/secretKeyRef/name", `"foreign"`),
		"the variables' ConfigMap":            container("envFrom/0/configMapRef/name", `"foreign"`),
		"the variables' Secret":               container("envFrom/1/secretRef/name", `"foreign"`),
		"an init container's variable":        add("/spec/template/spec/initContainers/0/env/0/valueFrom/configMapKeyRef/name", `"foreign"`),
		"the variables of an init container":  add("/spec/template/spec/initContainers/0/envFrom/0/secretRef/name", `"foreign"`),
		"a long name to another's copy":       volume("8/configMap/name", fmt.Sprintf("%q", strings.Repeat("c", 242)+"-0123456789")),
		"a long name to a source like it":     volume("8/configMap/name", fmt.Sprintf("%q", long()[:240])),
		"a long name to the copy of a prefix": volume("8/configMap/name", `"aaa-0123456789"`),
	}
}
