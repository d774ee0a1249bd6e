package rules

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decodesYAML lists the functions that decode YAML into other values than nodes, with the reason for each. The page
// docs/design/yaml.md lists every text that is read as YAML.
var decodesYAML = map[string]string{
	"pkg/api.decode":                        "values of the attributes of volumes; 64 KiB, 20,000 parts and no references at most",
	"pkg/api.atEnd":                         "the rest of such a text",
	"pkg/release/validation.parseYAML":      "the content of an edit, in the process that checks it and may die",
	"pkg/manifest.Parse":                    "files that an administrator mounts, and files of the user of the plugin",
	"pkg/manifest.asKYAML":                  "a manifest that the plugin itself has just written, into nodes",
	"pkg/cli/roles.need.objects":            "a Role and a RoleBinding that the plugin itself has just written",
	"pkg/release/validation/isolated.serve": "the check of an edit: this function runs in the process that may die",
}

// ofTheProject are functions of the project that decode a text of tenants into other values than nodes.
var ofTheProject = []string{module + "pkg/release/validation.Check"}

// nodesOnly are the functions of YAML libraries that everybody may call: those that write, and those that describe nodes. Besides
// them, everybody may read into a node.
var nodesOnly = []string{
	"Marshal", "NewEncoder", "Encode", "SetIndent", "Close", "NewDecoder", "ShortTag", "LongTag", "IsZero", "SetString", "Error", "JSONToYAML",
}

// library is the path of a package that reads YAML, of whatever project.
var library = regexp.MustCompile(`(^|[/.-])yaml(\.v[0-9]+)?(/|$)`)

// TestYAMLBecomesNodes: the programs read YAML into nodes only. An error about a struct or a map grows with the square of
// the text, and aliases multiply what they stand for, so a short text of a tenant could end the process of all tenants.
func TestYAMLBecomesNodes(t *testing.T) {
	c := newChecker(t, "./pkg/...", "./cmd/...")
	unused := map[string]bool{}
	for name := range decodesYAML {
		unused[name] = true
	}
	packages := 0
	for path, files := range c.files {
		packages++
		var parsed []*ast.File
		for _, name := range files {
			parsed = append(parsed, c.parse(t, name, nil))
		}
		for _, found := range c.decodings(t, path, parsed) {
			name := strings.TrimPrefix(path, module) + "." + found.function
			delete(unused, name)
			if decodesYAML[name] == "" {
				t.Errorf("%s: %s calls %s: read the text into a yaml.Node, or add the function to decodesYAML and to docs/design/yaml.md", found.at, name, found.calls)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s decodes no YAML, remove it from decodesYAML", name)
	}
	if packages < 50 {
		t.Errorf("%d packages were read, want 50 or more", packages)
	}
}

// TestDecodingOfYAMLIsFound shows the rule what it has to find, and what it has to leave alone.
func TestDecodingOfYAMLIsFound(t *testing.T) {
	c := newChecker(t, "./pkg/...", "./cmd/...")
	for name, test := range map[string]struct {
		body string
		want []string
	}{
		"into a node":            {"var n yaml.Node; _ = yaml.Unmarshal(nil, &n); _ = yaml.NewDecoder(nil).Decode(&n)", nil},
		"writing":                {"_, _ = yaml.Marshal(1); _, _ = sigs.Marshal(1)", nil},
		"JSON":                   {"var v any; _ = json.NewDecoder(nil).Decode(&v)", nil},
		"into any":               {"var v any; _ = yaml.Unmarshal(nil, &v)", []string{"Unmarshal"}},
		"into a map":             {"v := map[string]string{}; _ = yaml.Unmarshal(nil, v)", []string{"Unmarshal"}},
		"into a struct":          {"var v struct{}; _ = yaml.NewDecoder(nil).Decode(&v)", []string{"Decode"}},
		"from a node":            {"var v any; n := &yaml.Node{}; _ = n.Decode(&v)", []string{"Decode"}},
		"a node inside":          {"var v struct{ yaml.Node }; _ = v.Decode(1)", []string{"Decode"}},
		"a node as any":          {"var v any = &yaml.Node{}; _ = yaml.Unmarshal(nil, v)", []string{"Unmarshal"}},
		"by the older library":   {"var v any; _ = old.Unmarshal(nil, &v); _ = old.NewDecoder(nil).Decode(&v)", []string{"Unmarshal", "Decode"}},
		"by that of Kubernetes":  {"var v any; _ = sigs.UnmarshalStrict(nil, &v)", []string{"UnmarshalStrict"}},
		"through JSON":           {"_, _ = sigs.YAMLToJSON(nil)", []string{"YAMLToJSON"}},
		"by the API's machinery": {"_ = k8s.NewYAMLOrJSONDecoder(nil, 1)", []string{"NewYAMLOrJSONDecoder"}},
		"a function as a value":  {"read := yaml.Unmarshal; _ = read(nil, nil)", []string{"Unmarshal"}},
		"a method as a value":    {"read := (&yaml.Node{}).Decode; _ = read(nil)", []string{"Decode"}},
		"a method of a type":     {"read := (*yaml.Node).Decode; _ = read(nil, nil)", []string{"Decode"}},
		"an edit, checked here":  {"_ = validation.Check(nil, validation.Content{})", []string{"Check"}},
		// The rule does not look behind interfaces.
		"a decoder behind an interface": {"var d interface{ Decode(any) error } = yaml.NewDecoder(nil); _ = d.Decode(1)", nil},
	} {
		imports := map[string]string{
			"yaml": "go.yaml.in/yaml/v3", "old": "go.yaml.in/yaml/v2", "sigs": "sigs.k8s.io/yaml", "k8s": "k8s.io/apimachinery/pkg/util/yaml", "json": "encoding/json",
			"validation": module + "pkg/release/validation",
		}
		text := "package p\n"
		for alias, path := range imports {
			if strings.Contains(test.body, alias+".") {
				text += "import " + alias + " \"" + path + "\"\n"
			}
		}
		file := c.parse(t, "p.go", []byte(text+"func f() {\n"+test.body+"\n}\n"))
		var got []string
		for _, found := range c.decodings(t, "p", []*ast.File{file}) {
			got = append(got, found.calls[strings.LastIndex(found.calls, ".")+1:])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", name, got, test.want)
		}
	}
}

const module = "github.com/liveconfig-csi/liveconfig/"

// checker knows the types of the packages of the repository.
type checker struct {
	set     *token.FileSet
	files   map[string][]string // Of a package of this repository, without tests.
	exports map[string]string   // Files with the types of a package.
}

// newChecker builds the packages that are not built yet. Tests that use it are not parallel: each would build them.
func newChecker(t *testing.T, patterns ...string) *checker {
	t.Helper()
	c := &checker{set: token.NewFileSet(), files: map[string][]string{}, exports: map[string]string{}}
	format := "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}"
	// Built as programs ship, for they are built anyway.
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-trimpath", "-f", format}, patterns...)...)
	list.Dir, list.Stderr, list.Env = repo, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		c.exports[fields[0]] = fields[1]
		if strings.HasPrefix(fields[0], module) {
			for name := range strings.FieldsSeq(fields[3]) {
				c.files[fields[0]] = append(c.files[fields[0]], filepath.Join(fields[2], name))
			}
		}
	}
	return c
}

func (c *checker) parse(t *testing.T, name string, text []byte) *ast.File {
	t.Helper()
	var source any
	if text != nil {
		source = text
	}
	file, err := parser.ParseFile(c.set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// decoding is a place where YAML becomes something else than nodes.
type decoding struct {
	at              token.Position
	function, calls string
}

// decodings returns the places in the files of a package.
func (c *checker) decodings(t *testing.T, path string, files []*ast.File) []decoding {
	t.Helper()
	open := func(path string) (io.ReadCloser, error) {
		if c.exports[path] == "" {
			return nil, errors.New("no package has the path " + path)
		}
		return os.Open(c.exports[path])
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(c.set, "gc", open)}
	if _, err := config.Check(path, c.set, files, info); err != nil {
		t.Fatal(err)
	}
	var all []decoding
	for _, file := range files {
		for _, declaration := range file.Decls {
			allowed := map[*ast.Ident]bool{}
			ast.Inspect(declaration, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					allow(info, n, allowed)
				case *ast.Ident:
					if f, ok := info.Uses[n].(*types.Func); ok && decodes(f) && !allowed[n] {
						all = append(all, decoding{c.set.Position(n.Pos()), nameOf(declaration), f.FullName()})
					}
				}
				return true
			})
		}
	}
	return all
}

// allow notes the function of a call that reads into a node.
func allow(info *types.Info, call *ast.CallExpr, allowed map[*ast.Ident]bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	if f, ok := info.Uses[method.Sel].(*types.Func); ok && f.Name() != "Unmarshal" && !strings.HasSuffix(f.FullName(), ".Decoder).Decode") {
		return
	}
	into := info.Types[call.Args[len(call.Args)-1]].Type
	allowed[method.Sel] = into != nil && into.String() == "*go.yaml.in/yaml/v3.Node"
}

// decodes reports whether a function of a library can read YAML into something else than nodes.
func decodes(f *types.Func) bool {
	ofLibrary := f.Pkg() != nil && library.MatchString(f.Pkg().Path()) && !slices.Contains(nodesOnly, f.Name())
	return ofLibrary || slices.Contains(ofTheProject, f.FullName())
}

// nameOf returns the name of a function, with the type of its receiver before it.
func nameOf(declaration ast.Decl) string {
	function, ok := declaration.(*ast.FuncDecl)
	if !ok {
		return "a variable"
	}
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + function.Name.Name
	}
	return function.Name.Name
}
