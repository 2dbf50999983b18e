package expression

import (
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
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

// costs estimates calls for which the libraries estimate too little: a pattern is matched against a text by walking its states for every
// character, and a time zone is read from a file.
type costs struct {
	library.CostEstimator
	states int // of the largest pattern
}

const (
	statesInUnit = 16
	zoneCost     = 1000
)

// CallCost returns the cost of a call that was made.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	var cost uint64
	switch function {
	case "matches", "find", "findAll":
		if len(args) < 1 {
			return nil
		}
		text, _ := args[0].(types.String)
		cost = 1 + uint64(1+len(text))*uint64(c.states)/statesInUnit //nolint:gosec // both are small and not negative
	case "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds",
		"getMilliseconds":
		if len(args) < 2 {
			return nil
		}
		cost = zoneCost
	default:
		return c.CostEstimator.CallCost(function, overload, args, result)
	}
	return &cost
}

// states returns about how many instructions a pattern is compiled to; repeats are written out there.
func states(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += states(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1, 1)
	}
	return min(n, maxPattern+1)
}
