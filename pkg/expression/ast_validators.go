package expression

import (
	"errors"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

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
