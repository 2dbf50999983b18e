package expression

import (
	"errors"
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
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

// patterns is the rule that a regular expression is a literal of bounded size, so that it is compiled once and not for every object.
type patterns struct{}

func (patterns) Name() string { return "kapis.patterns" }

func (patterns) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	eachPattern(a, func(pattern ast.Expr) {
		switch parsed, err := parsePattern(pattern); {
		case err != nil:
			issues.ReportErrorAtID(pattern.ID(), "%v", err)
		case states(parsed) > maxPattern:
			issues.ReportErrorAtID(pattern.ID(), "the pattern has more than %d states: repeat less", maxPattern)
		}
	})
}

// eachPattern calls f with the patterns of an expression.
func eachPattern(a *ast.AST, f func(ast.Expr)) {
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		args := call.Args()
		if call.IsMemberFunction() {
			args = append([]ast.Expr{call.Target()}, args...)
		}
		switch call.FunctionName() {
		case "matches", "find", "findAll":
			if len(args) > 1 { // the type checker refuses less
				f(args[1])
			}
		}
	}))
}

var errPattern = errors.New("a pattern must be a literal text")

func parsePattern(e ast.Expr) (*syntax.Regexp, error) {
	if e.Kind() != ast.LiteralKind {
		return nil, errPattern
	}
	text, ok := e.AsLiteral().(types.String)
	if !ok {
		return nil, errPattern
	}
	return syntax.Parse(string(text), syntax.Perl)
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

// FlatValues returns the rule that an expression builds only flat values, for other languages of CEL whose texts are not trusted.
func FlatValues() cel.ASTValidator { return literals{} }

// literals is the rule that an expression builds only flat values: a list or a map consists of simple values, or of lists and maps that
// are written out. Without it, `[1, 2].map(x, [1, 2]).map(y, y.map(z, y))` and so on makes a list that is small in memory, by sharing,
// and takes practically forever to compare, which nothing can interrupt.
type literals struct{}

func (literals) Name() string { return "kapis.literals" }

func (literals) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	kept := map[int64]bool{} // elements that a filter keeps: they are of an existing list
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			if id, ok := keeps(e.AsComprehension()); ok {
				kept[id] = true
			}
		case ast.ListKind:
			for _, element := range e.AsList().Elements() {
				if !kept[element.ID()] {
					flat(a, element, issues)
				}
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				flat(a, entry.AsMapEntry().Key(), issues)
				flat(a, entry.AsMapEntry().Value(), issues)
			}
		case ast.StructKind:
			issues.ReportErrorAtID(e.ID(), "messages can't be made")
		}
	}))
}

// keeps returns the element that a comprehension adds to its result unchanged: `filter` does.
func keeps(c ast.ComprehensionExpr) (id int64, ok bool) {
	step := c.LoopStep()
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Conditional {
		step = step.AsCall().Args()[1]
	}
	if step.Kind() != ast.CallKind || step.AsCall().FunctionName() != operators.Add {
		return 0, false
	}
	args := step.AsCall().Args()
	if len(args) != 2 || !names(args[0], c.AccuVar()) || args[1].Kind() != ast.ListKind || args[1].AsList().Size() != 1 {
		return 0, false
	}
	element := args[1].AsList().Elements()[0]
	return element.ID(), names(element, c.IterVar())
}

func names(e ast.Expr, variable string) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == variable
}

// flat reports an issue for an element that may be a list or a map and is not written out.
func flat(a *ast.AST, e ast.Expr, issues *cel.Issues) {
	if e.Kind() == ast.ListKind || e.Kind() == ast.MapKind {
		return // checked on its own
	}
	switch t := a.GetType(e.ID()); t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind, types.StringKind,
		types.TimestampKind, types.UintKind:
	default:
		issues.ReportErrorAtID(e.ID(), "what is put into a list or a map, or made by map(), must be a simple value, not %s: "+
			"write int(...), double(...), string(...)", t)
	}
}
