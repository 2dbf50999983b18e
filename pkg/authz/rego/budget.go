package rego

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Bounds of one evaluation. A weight is about the size of a value: one for each of its elements, and one for each byte of its strings and
// numbers. A policy of an existing installation makes values of some tens, and takes some thousands of work.
const (
	// maxSteps bounds the expressions that are evaluated.
	maxSteps = 20_000
	// maxWork bounds the weights of all values that the evaluation makes and reads.
	maxWork = 256 << 10
	// maxWeight bounds the weight of the operands of one expression, and of what a function makes of them.
	maxWeight = 64 << 10
	// maxValueDepth bounds how deep a value nests, and maxExponent the decimal exponent of a number: its digits are written out.
	maxValueDepth = 100
	maxExponent   = 400
)

// evaluations bounds how many policies are evaluated at once, and so the memory of all of them.
var evaluations = make(chan struct{}, max(4, runtime.GOMAXPROCS(0)))

// exceeded is the panic that ends an evaluation over its bounds: the interpreter calls a tracer before each expression, and offers no
// other way to prevent one.
type exceeded struct{ why string }

var (
	errSteps = exceeded{fmt.Sprintf("it takes more than %d steps", maxSteps)}
	errWork  = exceeded{fmt.Sprintf("it makes more than %d steps' and values' worth of work", maxWork)}
	errValue = exceeded{fmt.Sprintf("a value is larger than %d, or nests deeper than %d", maxWeight, maxValueDepth)}
)

// budget ends an evaluation that takes too much. The interpreter reports each step to it, in one goroutine.
type budget struct {
	ctx   context.Context
	steps int
	work  int
	// step is the work of one step: each may make the largest value that the policy spells out.
	step int
	done bool
}

// Cancel implements topdown.Cancel.
func (b *budget) Cancel() { b.done = true }

// Cancelled implements topdown.Cancel.
func (b *budget) Cancelled() bool {
	b.steps--
	if b.steps < 0 {
		panic(errSteps)
	}
	b.charge(b.step)
	if b.ctx.Err() != nil {
		b.done = true
	}
	return b.done
}

func (b *budget) charge(work int) {
	if b.work -= work; b.work < 0 {
		panic(errWork)
	}
}

// Enabled implements topdown.QueryTracer.
func (b *budget) Enabled() bool { return true }

// Config implements topdown.QueryTracer.
func (b *budget) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer: it weighs what an expression reads and makes before it is evaluated, and the value of a
// rule.
func (b *budget) TraceEvent(e topdown.Event) {
	switch node := e.Node.(type) {
	case *ast.Expr:
		if e.Op == topdown.EvalOp {
			b.weighExpr(&e, node)
		}
	case *ast.Rule:
		if e.Op == topdown.ExitOp {
			w := 0
			for _, t := range []*ast.Term{node.Head.Key, node.Head.Value} {
				if t != nil {
					w += b.weigh(e.Plug(t))
				}
			}
			b.charge(w)
		}
	}
}

func (b *budget) weighExpr(e *topdown.Event, x *ast.Expr) {
	total := 0
	for _, w := range x.With {
		total += b.weigh(e.Plug(w.Value))
	}
	switch terms := x.Terms.(type) {
	case *ast.Term:
		total += b.weigh(e.Plug(terms))
	case []*ast.Term:
		operands := make([]*ast.Term, len(terms)-1)
		for i, t := range terms[1:] {
			operands[i] = e.Plug(t)
			total += b.weigh(operands[i])
		}
		if estimate, ok := growth[x.Operator().String()]; ok {
			made, err := estimate(operands)
			if err != nil {
				panic(exceeded{fmt.Sprintf("%s: %v", x.Operator(), err)})
			}
			if made > maxWeight {
				panic(exceeded{fmt.Sprintf("what %s makes may be larger than %d", x.Operator(), maxWeight)})
			}
			total += made
		}
	}
	b.charge(2 * total) // what is made of them, too
}

// weigh returns the weight of a value; it reads nothing twice of a value over the bound.
func (b *budget) weigh(t *ast.Term) int {
	w := weigher{left: maxWeight}
	w.term(t, 0)
	return maxWeight - w.left
}

type weigher struct{ left int }

func (w *weigher) take(n int) {
	if w.left -= n; w.left < 0 {
		panic(errValue)
	}
}

func (w *weigher) term(t *ast.Term, depth int) {
	if depth > maxValueDepth {
		panic(errValue)
	}
	w.take(1)
	switch v := t.Value.(type) {
	case ast.String:
		w.take(len(v))
	case ast.Number:
		digits, err := numberDigits(v)
		if err != nil {
			panic(exceeded{err.Error()})
		}
		w.take(digits)
	case *ast.Array:
		v.Foreach(func(t *ast.Term) { w.term(t, depth+1) })
	case ast.Set:
		v.Foreach(func(t *ast.Term) { w.term(t, depth+1) })
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) { w.term(key, depth+1); w.term(value, depth+1) })
	case ast.Ref:
		for _, t := range v {
			w.term(t, depth+1)
		}
	case ast.Call:
		for _, t := range v {
			w.term(t, depth+1)
		}
	}
}

var errExponent = fmt.Errorf("a number has an exponent beyond %d", maxExponent)

// numberDigits returns how many digits a number may take where it is written out.
func numberDigits(n ast.Number) (int, error) {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(string(n)), "e")
	if !ok {
		return len(n), nil
	}
	e, err := strconv.Atoi(exponent)
	if err != nil || e > maxExponent || e < -maxExponent {
		return 0, errExponent
	}
	return len(mantissa) + max(e, -e), nil
}

// failed returns the error for what ended an evaluation.
func failed(doing string, cause any) error {
	switch c := cause.(type) {
	case exceeded:
		return fmt.Errorf("%s: %s", doing, c.why)
	case error:
		return fmt.Errorf("%s: %w", doing, c)
	}
	return fmt.Errorf("%s: the interpreter failed: %v", doing, cause)
}

// errBusy says that too many policies are evaluated at once.
var errBusy = errors.New("too many policies are being evaluated")
