package convert

import (
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/kustomization"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// remarkOnKustomization warns of a kustomization among the manifests that changes names: it does
// not change them in attributes.
func (o *command) remarkOnKustomization(files []manifest.File) {
	if o.to != toLiveconfig || o.converted == 0 {
		return
	}
	for _, file := range files {
		for document, err := range file.Documents() {
			object, isObject := document.Data.(map[string]any)
			if err != nil || !isObject {
				continue
			}
			if fields := kustomization.Renames(object); len(fields) > 0 {
				o.Remark("%s: note: %s changes names of objects, but not in volumeAttributes, unless the kustomization has "+
					"deploy/kustomize/names.yaml in its configurations", file.Name, strings.Join(fields, ", "))
			}
		}
	}
}

// remarkOnHash warns of a name that a generator of kustomize seems to have made.
func remarkOnHash(say func(string, ...any), value any) {
	csi, _ := value.(map[string]any)
	attributes, _ := csi["volumeAttributes"].(map[string]any)
	for _, key := range []string{api.KeyConfigMap, api.KeySecret} {
		name, _ := attributes[key].(string)
		if _, isHashed := kustomization.Base(name); isHashed {
			say("note: %s seems to have the hash of a generator of kustomize in its name: convert what kustomize reads, and "+
				"not what it writes", name)
		}
	}
}
