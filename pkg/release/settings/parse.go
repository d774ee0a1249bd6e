package settings

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of the annotation.
const (
	mostSteps         = 20
	mostRules         = 100
	mostPods          = 1000
	longestAnnotation = 16 << 10
	// mostBrackets bounds how deep lists and objects can be nested.
	mostBrackets = 1000
	mostMistakes = 20
	// longestPause is a week.
	longestPause = 7 * 24 * time.Hour
)

// Parse reads the annotation's value: YAML, of which JSON is a part. It returns the settings or
// every mistake, [mostMistakes] at most.
func Parse(text string) (Settings, []Mistake) {
	p := &parser{}
	s := Default()
	root, err := read(text)
	if err != nil {
		return Settings{}, []Mistake{{Line: 1, Text: err.Error()}}
	}
	p.object(root, "", map[string]func(*yaml.Node, string){
		"steps":     func(n *yaml.Node, at string) { s.Steps = p.steps(n, at) },
		"pause":     func(n *yaml.Node, at string) { s.Pause = p.duration(n, at, longestPause) },
		"watch":     func(n *yaml.Node, at string) { s.Watch = p.duration(n, at, longestPause) },
		"check":     func(n *yaml.Node, at string) { s.Check = oneOf(p, n, at, CheckReady, CheckNone) },
		"onFailure": func(n *yaml.Node, at string) { s.OnFailure = oneOf(p, n, at, Revert, Freeze) },
		"evidence":  func(n *yaml.Node, at string) { s.Evidence = oneOf(p, n, at, EvidenceFiles, EvidenceNone) },
		"validate":  func(n *yaml.Node, at string) { s.Rules = p.rules(n, at) },
		"group":     func(n *yaml.Node, at string) { s.Group = p.group(n, at) },
	})
	if len(p.mistakes) > 0 {
		return Settings{}, p.mistakes
	}
	return s, nil
}

// read returns the first document of the annotation as nodes; an empty text is null. Nothing is
// decoded into structs or maps: the reader's errors about these grow with the square of the text.
func read(text string) (*yaml.Node, error) {
	if len(text) > longestAnnotation {
		return nil, fmt.Errorf("has more than %d bytes, which is the most", longestAnnotation)
	}
	if depth := strings.Count(text, "[") + strings.Count(text, "{"); depth > mostBrackets {
		return nil, fmt.Errorf("has %d opening brackets, the most is %d", depth, mostBrackets)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return document.Content[0], nil
}

// Cut returns the annotation, and of one that is too long only so much that [Parse] refuses it.
func Cut(text string) string {
	if len(text) <= longestAnnotation {
		return text
	}
	return strings.Clone(text[:longestAnnotation+1])
}

// GroupOf returns the group that the annotation names, also if it has mistakes elsewhere; empty for
// none.
func GroupOf(text string) string {
	group, _ := groupOf(text)
	return group
}

// HasReadableGroup reports whether it is known which group the annotation names, or that it names
// none.
func HasReadableGroup(text string) bool {
	_, isReadable := groupOf(text)
	return isReadable
}

// Brief returns a short text that names the same group as the annotation, or whose group cannot be
// read either.
func Brief(text string) string {
	group, isReadable := groupOf(text)
	switch {
	case !isReadable:
		return "[]"
	case group == "":
		return ""
	}
	return "group: " + strconv.Quote(group)
}

func groupOf(text string) (group string, isReadable bool) {
	root, err := read(text)
	if err != nil {
		return "", false
	}
	p := &parser{}
	if !isNull(root) && root.Kind != yaml.MappingNode {
		return "", false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		switch {
		case name.Value != "group" || isNull(value):
		case group != "":
			return "", false // It is given twice.
		default:
			group = p.group(value, "group")
		}
	}
	if len(p.mistakes) > 0 {
		return "", false
	}
	return group, true
}

type parser struct{ mistakes []Mistake }

func (p *parser) mistake(n *yaml.Node, at, format string, args ...any) {
	if len(p.mistakes) == mostMistakes {
		return
	}
	p.mistakes = append(p.mistakes, Mistake{Line: n.Line, Field: at, Text: fmt.Sprintf(format, args...)})
}

// object reads the fields of an object. An alias is not followed: nobody needs one here.
func (p *parser) object(n *yaml.Node, at string, fields map[string]func(*yaml.Node, string)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.mistake(n, at, "must be an object with some of the fields %s", names(fields))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		field := strings.TrimPrefix(at+"."+name.Value, ".")
		read, isKnown := fields[name.Value]
		switch {
		case !isKnown:
			p.mistake(name, field, "unknown field; there are %s", names(fields))
		case seen[name.Value]:
			p.mistake(name, field, "is given twice")
		case isNull(value):
		default:
			read(value, field)
		}
		seen[name.Value] = true
	}
}

func names(fields map[string]func(*yaml.Node, string)) string {
	list := make([]string, 0, len(fields))
	for name := range fields {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func (p *parser) list(n *yaml.Node, at string, most int) []*yaml.Node {
	switch {
	case n.Kind != yaml.SequenceNode:
		p.mistake(n, at, "must be a list")
	case len(n.Content) > most:
		p.mistake(n, at, "has %d elements, the most is %d", len(n.Content), most)
	default:
		return n.Content
	}
	return nil
}

func (p *parser) text(n *yaml.Node, at string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		p.mistake(n, at, "must be a text: put it in quotes")
		return ""
	}
	if n.Value == "" {
		p.mistake(n, at, "must not be empty")
	}
	return n.Value
}

func (p *parser) duration(n *yaml.Node, at string, most time.Duration) time.Duration {
	d, err := parseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode, err != nil:
		p.mistake(n, at, "must be a duration such as 30s, 1h30m or 30d")
	case d < 0 || d > most:
		p.mistake(n, at, "must be from 0s to %dd", most/day)
	}
	return d
}

func oneOf[T ~string](p *parser, n *yaml.Node, at string, choices ...T) T {
	if value := T(n.Value); n.Kind == yaml.ScalarNode && slices.Contains(choices, value) {
		return value
	}
	p.mistake(n, at, "must be one of %s", joined(choices))
	return ""
}

func joined[T ~string](values []T) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return strings.Join(list, ", ")
}

func (p *parser) group(n *yaml.Node, at string) string {
	text := p.text(n, at)
	if problems := validation.IsDNS1123Subdomain(text); text != "" && len(problems) > 0 {
		p.mistake(n, at, "%s", problems[0])
	}
	return text
}

func (p *parser) steps(n *yaml.Node, at string) []Step {
	steps := []Step{}
	for i, element := range p.list(n, at, mostSteps) {
		step, err := parseStep(element)
		if err != nil {
			p.mistake(element, fmt.Sprintf("%s[%d]", at, i), "%v", err)
		}
		steps = append(steps, step)
	}
	return steps
}

var errStep = errors.New("must be a number of pods, such as 1, or a share of them, such as 5%")

func parseStep(n *yaml.Node) (Step, error) {
	if n.Kind != yaml.ScalarNode {
		return Step{}, errStep
	}
	if percent, isShare := strings.CutSuffix(n.Value, "%"); isShare {
		share, err := strconv.ParseFloat(percent, 64)
		switch {
		case err != nil || math.IsNaN(share):
			return Step{}, errStep
		case share <= 0 || share > 100:
			return Step{}, errors.New("a share must be above 0% and at most 100%")
		}
		return Step{Share: share / 100}, nil
	}
	pods, err := strconv.Atoi(n.Value)
	switch {
	case err != nil:
		return Step{}, errStep
	case pods < 1 || pods > mostPods:
		return Step{}, fmt.Errorf("a number of pods must be from 1 to %d; above that, write a share such as 25%%", mostPods)
	}
	return Step{Pods: pods}, nil
}

func (p *parser) rules(n *yaml.Node, at string) []Rule {
	var rules []Rule
	for i, element := range p.list(n, at, mostRules) {
		rules = append(rules, p.rule(element, fmt.Sprintf("%s[%d]", at, i)))
	}
	return rules
}

func (p *parser) rule(n *yaml.Node, at string) Rule {
	var r Rule
	hasDuration := false
	p.object(n, at, map[string]func(*yaml.Node, string){
		"key":     func(n *yaml.Node, at string) { r.Key = p.key(n, at) },
		"format":  func(n *yaml.Node, at string) { r.Format = oneOf(p, n, at, Formats()...) },
		"cel":     func(n *yaml.Node, at string) { r.CEL = p.text(n, at) },
		"message": func(n *yaml.Node, at string) { r.Message = p.text(n, at) },
		"schemaFrom": func(n *yaml.Node, at string) {
			p.object(n, at, map[string]func(*yaml.Node, string){
				"key": func(n *yaml.Node, at string) { r.SchemaKey = p.key(n, at) },
			})
			if r.SchemaKey == "" {
				p.mistake(n, at, "names no key: write {key: app.schema.json}")
			}
		},
		"pair": func(n *yaml.Node, at string) { r.Pair = p.pair(n, at) },
		"notExpiredFor": func(n *yaml.Node, at string) {
			const century = 100 * 365 * 24 * time.Hour
			r.NotExpiredFor, hasDuration = p.duration(n, at, century), true
		},
	})
	if hasDuration && r.Pair == nil && r.Key != "" {
		p.mistake(n, at, "notExpiredFor goes with pair only")
		return r
	}
	if problem := r.complete(); problem != "" {
		p.mistake(n, at, "%s", problem)
	}
	return r
}

// complete adds the format that the key's name ends in, and returns what the rule lacks or has too
// much.
func (r *Rule) complete() (problem string) {
	switch {
	case r.Pair != nil && (r.Key != "" || r.Format != "" || r.CEL != "" || r.SchemaKey != ""):
		return "pair goes with notExpiredFor only"
	case r.Pair != nil:
		return ""
	case r.Key == "":
		return "names neither a key nor a pair"
	case r.Message != "" && r.CEL == "":
		return "message goes with cel only"
	case r.Format == "":
		r.Format = formatOf(r.Key)
	}
	if r.Format == "" {
		return fmt.Sprintf("has no format, and the key does not end in one: write %s", joined(Formats()))
	}
	return ""
}

// formatOf returns the format that the name of a key ends in; empty for none.
func formatOf(key string) Format {
	switch extension := strings.TrimPrefix(strings.ToLower(path.Ext(key)), "."); extension {
	case "yml":
		return YAML
	case string(YAML), string(JSON), string(TOML), string(Properties), string(INI):
		return Format(extension)
	}
	return ""
}

func (p *parser) key(n *yaml.Node, at string) string {
	key := p.text(n, at)
	if problems := validation.IsConfigMapKey(key); key != "" && len(problems) > 0 {
		p.mistake(n, at, "%s", problems[0])
	}
	return key
}

func (p *parser) pair(n *yaml.Node, at string) *Pair {
	pair := &Pair{}
	p.object(n, at, map[string]func(*yaml.Node, string){
		"cert": func(n *yaml.Node, at string) { pair.Cert = p.key(n, at) },
		"key":  func(n *yaml.Node, at string) { pair.Key = p.key(n, at) },
	})
	if pair.Cert == "" || pair.Key == "" {
		p.mistake(n, at, "must name both: write {cert: tls.crt, key: tls.key}")
	}
	return pair
}
