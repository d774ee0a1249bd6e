package check_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/check"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// TestNames finds the objects that a volume needs and nobody has, named or by their labels.
func TestNames(t *testing.T) {
	t.Parallel()
	const (
		selecting = "sources: '[{configMap: {labelSelector: {matchLabels: {team: web}}}}]'"
		several   = "sources: '[{secret: {labelSelector: {matchLabels: {team: web}}, namespaces: [shop, billing]}}]'"
		every     = `sources: '[{configMap: {labelSelector: {matchExpressions: [{key: team, operator: Exists}]}, namespaces: ["*"]}}]'`
		object    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {team: web}}\n"
		in        = "spec.volumes[0].csi.volumeAttributes.sources: "
	)
	for name, test := range map[string]struct {
		text string
		// cluster are refs that the cluster has. The error of others is in it as well.
		cluster map[string]error
		want    []string
	}{
		"a name":                     {podWithValues("configMap: a") + object, nil, nil},
		"a name that nobody has":     {podWithValues("configMap: b") + object, nil, []string{"spec.volumes[0].csi.volumeAttributes.configMap: configmap default/b is not anywhere"}},
		"a name in the cluster":      {podWithValues("configMap: b") + object, map[string]error{"configmap default/b": nil}, nil},
		"labels":                     {podWithValues(selecting) + object, nil, nil},
		"labels that nobody has":     {podWithValues(selecting) + strings.ReplaceAll(object, "web", "shop"), nil, []string{in + "no configmap matches labelSelector team=web in default anywhere"}},
		"labels in another place":    {podWithValues(selecting) + strings.ReplaceAll(object, "{name", "{namespace: shop, name"), nil, []string{in + "no configmap matches labelSelector team=web in default anywhere"}},
		"labels of a copy":           {podWithValues(selecting) + strings.ReplaceAll(object, "web}", "web, liveconfig.internal/stable-of: b}"), nil, []string{in + "no configmap matches labelSelector team=web in default anywhere"}},
		"labels in the cluster":      {podWithValues(several), map[string]error{"secret billing/[team=web]": nil}, nil},
		"labels in no namespace":     {podWithValues(several), nil, []string{in + "no secret matches labelSelector team=web in billing, shop anywhere"}},
		"labels anywhere":            {podWithValues(every) + strings.ReplaceAll(object, "{name", "{namespace: shop, name"), nil, nil},
		"labels nowhere":             {podWithValues(every), nil, []string{in + "no configmap matches labelSelector team in any namespace anywhere"}},
		"labels need not exist":      {podWithValues(strings.Replace(selecting, "}}}}]", "}}, optional: true}}]", 1)), nil, nil},
		"who may not look":           {podWithValues(several), map[string]error{"secret shop/[team=web]": errors.New("forbidden")}, []string{in + "warning: no secret matches labelSelector team=web in billing, shop among the manifests, and whether one does in the cluster is not known: forbidden"}},
		"values":                     {podWithValues("sources: '[{configMap: {name: a, expand: {}}}]'", "values: '[{configMap: {name: a}}, {pod: {name: POD}}]'") + object, nil, nil},
		"values that nobody has":     {podWithValues("sources: '[{configMap: {name: a, expand: {}}}]'", "values: '[{secret: {name: db}}]'") + object, nil, []string{"spec.volumes[0].csi.volumeAttributes.values: secret default/db is not anywhere"}},
		"values that need not exist": {podWithValues("sources: '[{configMap: {name: a, expand: {}}}]'", "values: '[{secret: {name: db, optional: true}}]'") + object, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := check.Checker{Driver: selection.Driver, Namespace: "default"}
			checker.File(manifest.File{Name: "x.yaml", Text: test.text})
			checker.Names(&check.Search{Where: "anywhere", Exists: func(ref api.Ref) (bool, error) {
				err, found := test.cluster[ref.String()]
				return found && err == nil, err
			}})
			var got []string
			for _, f := range checker.Findings {
				_, text, _ := strings.Cut(f.String(), ": spec.")
				got = append(got, "spec."+text)
			}
			if !cmp.Equal(test.want, got) {
				t.Errorf("findings (-want +got):\n%s", cmp.Diff(test.want, got))
			}
			without := check.Checker{Driver: selection.Driver, Namespace: "default"}
			without.File(manifest.File{Name: "x.yaml", Text: test.text})
			if without.Names(nil); len(without.Findings) > 0 {
				t.Errorf("without a search: %v", without.Findings)
			}
		})
	}
}
