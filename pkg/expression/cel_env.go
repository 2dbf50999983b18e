package expression

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apiserver/pkg/cel/library"
)

// Bounds of a text: its characters, how deep it nests, and how many states each of its patterns may have. A pattern of twenty characters
// can have a million states, so its length says little.
const (
	maxText    = 4096
	maxDepth   = 50
	maxPattern = 1000
)

// newLanguage returns the standard library of CEL, and those of the libraries of Kubernetes that can't turn little input into much
// output: no string formatting, replacing or joining, no ranges, no sets.
func newLanguage() (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.ParserExpressionSizeLimit(maxText),
		cel.ParserRecursionLimit(maxDepth),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.Variable(variable, cel.MapType(cel.StringType, cel.DynType)),
		library.URLs(), library.Regex(), library.Lists(), library.IP(), library.CIDR(),
		library.SemverLib(library.SemverVersion(1)),
		quantities(), texts(),
		cel.ASTValidators(
			cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals(), patterns{}, FlatValues(),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare the language of expressions: %w", err)
	}
	return env, nil
}

// variable is the name of the object in an expression.
const variable = "object"

func programOptions(checked *ast.AST) []cel.ProgramOption {
	widest := 1
	eachPattern(checked, func(pattern ast.Expr) {
		if parsed, err := parsePattern(pattern); err == nil {
			widest = max(widest, states(parsed))
		}
	})
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(objectCost),
		cel.CostTracking(&costs{states: widest}),
	}
}
