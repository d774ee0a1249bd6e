package validation

import (
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// Limits of an expression. Kubernetes lets one rule of an object cost ten times mostCost.
const (
	mostCost = 1_000_000
	mostCEL  = 10 << 10
)

// expression checks an expression of CEL on every document, which is its «self».
func (k *checker) expression(documents []document) {
	program, err := program(k.rule.CEL)
	if err != nil {
		k.problem(k.rule.Key, 0, "the expression of the rule is wrong: %v", err) // It is in the annotation, and no secret.
		return
	}
	for _, d := range documents {
		result, _, err := program.Eval(map[string]any{"self": forCEL(d.value)})
		switch {
		case err != nil && k.content.IsSecret:
			k.problem(k.rule.Key, 0, "the expression %q cannot be evaluated", k.rule.CEL)
		case err != nil:
			k.problem(k.rule.Key, 0, "the expression %q cannot be evaluated: %v", k.rule.CEL, err)
		case result.Value() == true:
		case k.rule.Message != "":
			k.problem(k.rule.Key, 0, "%s", k.rule.Message)
		default:
			k.problem(k.rule.Key, 0, "%q is not true", k.rule.CEL)
		}
	}
}

// program compiles an expression.
func program(text string) (cel.Program, error) {
	env, err := cel.NewEnv(
		cel.Variable("self", cel.DynType), cel.ParserExpressionSizeLimit(mostCEL), cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Lists(), ext.Math(),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it must be true or false, and is of type %s", t)
	}
	return env.Program(ast, cel.CostLimit(mostCost), cel.EvalOptions(cel.OptOptimize))
}

// forCEL returns a value with numbers as CEL has them. Objects and lists are changed, as a copy of
// them takes as much memory again.
func forCEL(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = forCEL(member)
		}
	case []any:
		for i, element := range v {
			v[i] = forCEL(element)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64() // It is a number, perhaps one that is too large: then it is infinite.
		return f
	}
	return value
}
