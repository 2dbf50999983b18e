package rego

import (
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxTypes bounds the compiler's work on the types of a policy: a value that holds another one twice has a type twice as large, and so
// on, and the compiler walks all of it.
const maxTypes = 4096

// checkShape refuses a module whose compilation or evaluation can't be bounded.
func checkShape(m *ast.Module) error {
	var err error
	ast.WalkExprs(m, func(x *ast.Expr) bool {
		for _, w := range x.With {
			if ref, ok := w.Target.Value.(ast.Ref); !ok || !ref.HasPrefix(ast.InputRootRef) {
				err = errors.New(`"with" replaces parts of the input, and nothing else`)
			}
		}
		return err != nil
	})
	if err != nil {
		return err
	}
	if n := typesOf(m); n > maxTypes {
		return fmt.Errorf("its values are made of each other too often: about %d-fold, and %d-fold at most", n, maxTypes)
	}
	return nil
}

// typesOf returns how many times the type of a value may hold that of another: the product of what each step from one value to another
// may add, as if all were one chain.
func typesOf(m *ast.Module) int {
	product := 1
	rules := map[string]int{}
	for _, r := range m.Rules {
		name := r.Head.Ref().GroundPrefix().String()
		for ; r != nil; r = r.Else {
			rules[name] += holds(r.Head.Value) + holds(r.Head.Key)
		}
	}
	for _, n := range rules {
		product = times(product, max(1, n))
	}
	ast.WalkNodes(m, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Expr:
			if x.IsCall() && !x.IsEquality() && !x.IsAssignment() {
				return false // a function's result has the type that it declares
			}
			for _, t := range operandsOf(x) {
				product = times(product, max(1, holds(t)))
			}
		case *ast.Term:
			switch c := x.Value.(type) {
			case *ast.ArrayComprehension:
				product = times(product, max(1, holds(c.Term)))
			case *ast.SetComprehension:
				product = times(product, max(1, holds(c.Term)))
			case *ast.ObjectComprehension:
				product = times(product, max(1, holds(c.Key)+holds(c.Value)))
			}
		}
		return false
	})
	return product
}

// operandsOf returns the terms of an expression that values pass between.
func operandsOf(x *ast.Expr) []*ast.Term {
	switch terms := x.Terms.(type) {
	case []*ast.Term:
		return terms[1:]
	case *ast.Every:
		return []*ast.Term{terms.Domain}
	case *ast.Term:
		return []*ast.Term{terms}
	case *ast.SomeDecl:
		if call, ok := terms.Symbols[0].Value.(ast.Call); ok { // some x in xs
			return call[1:]
		}
	}
	return nil
}

// holds returns how often a term names other values whose type is known to the compiler: variables and rules, and not the input.
func holds(t *ast.Term) int {
	if t == nil {
		return 0
	}
	n := 0
	ast.NewGenericVisitor(func(x any) bool {
		switch v := x.(type) {
		case ast.Call, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			n++
			return true // visited separately
		case ast.Ref:
			if v.HasPrefix(ast.InputRootRef) {
				return true
			}
			n++
			for _, part := range v {
				if length(part) > 1 {
					n += holds(part)
				}
			}
			return true
		case ast.Var:
			n++
		}
		return false
	}).Walk(t)
	return n
}

// largest returns how many elements the largest value has that a module spells out.
func largest(m *ast.Module) int {
	most := 1
	ast.WalkTerms(m, func(t *ast.Term) bool {
		most = max(most, length(t))
		return false
	})
	return most
}
