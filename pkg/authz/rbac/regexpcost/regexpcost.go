// Package regexpcost bounds what the regular expressions of conditions cost.
package regexpcost

import (
	"errors"
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// steps and stepsMore bound the steps of the program that a pattern becomes: so many for each byte of the pattern, and some more. CEL's
// cost counts the length of the pattern and of the text; a counted repetition ("{1,1000}") is short, and repeats its operand.
const (
	steps     = 4
	stepsMore = 32
)

// Check refuses regular expressions that would cost more than they seem to: those that are built while a request is served, which would
// have to be compiled for it, and those that grow when they are compiled.
func Check(a *cel.Ast) error {
	for _, call := range ast.MatchDescendants(ast.NavigateAST(a.NativeRep()), ast.FunctionMatcher(overloads.Matches)) {
		args := call.AsCall().Args()
		if len(args) == 0 {
			continue
		}
		last := args[len(args)-1]
		if last.Kind() != ast.LiteralKind {
			return errors.New("the pattern of matches() must stand in the condition itself, as a text")
		}
		pattern, ok := last.AsLiteral().(types.String)
		if !ok {
			continue // the types were checked
		}
		if err := check(string(pattern)); err != nil {
			return err
		}
	}
	return nil
}

func check(pattern string) error {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fmt.Errorf("the pattern %.100q of matches(): %w", pattern, err)
	}
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return fmt.Errorf("the pattern %.100q of matches(): %w", pattern, err)
	}
	if most := steps*len(pattern) + stepsMore; len(program.Inst) > most {
		return fmt.Errorf("the pattern %.100q of matches() has %d steps, and %d at most for its length: write it without counted repetitions",
			pattern, len(program.Inst), most)
	}
	return nil
}
