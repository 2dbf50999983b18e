package expression

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// Bounds of an evaluation in units of CEL's cost, of which a comparison takes about one; reading readUnit bytes of an object counts as
// one unit too. objectCost bounds the evaluation for one object besides what it reads, objectReads how often its text may be read, and
// queryCost the evaluations for all objects of one scan: some seconds of one processor.
const (
	objectCost  = 20_000
	objectReads = 64
	queryCost   = 50_000_000
	readUnit    = 64
)

// Evaluation is the use of a Program by one query, with that query's budget. Several goroutines may use it.
type Evaluation struct {
	program *Program

	mu    sync.Mutex
	root  mapping
	read  reader
	left  int64 // of queryCost
	fault error
}

// Begin returns an Evaluation of p for a query.
func (p *Program) Begin() *Evaluation {
	e := &Evaluation{program: p, left: queryCost}
	e.root.reader = &e.read
	return e
}

// Holds reports whether the expression is true of an object's JSON. It is false if the expression reads a missing field, or fails for
// another reason that lies in the object, such as a comparison of a text with a number: objects of one kind may differ in their form. If
// it is too costly, Holds is false from then on until Fault is called.
func (e *Evaluation) Holds(json string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fault != nil {
		return false
	}
	e.read = reader{left: objectReads*len(json) + minReads}
	all := e.read.left
	e.root.reset(json)
	value, details, err := e.program.program.Eval(activation{&e.root})
	cost := int64(all-e.read.left) / readUnit
	if actual := details.ActualCost(); actual != nil {
		cost += int64(min(*actual, queryCost)) //nolint:gosec // bounded here
	}
	e.left -= cost + 1
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled):
		e.fault = fmt.Errorf("an expression that costs less: for one object it takes more than %d units, or reads the object more than %d times",
			objectCost, objectReads)
	case e.left < 0:
		e.fault = fmt.Errorf("an expression or other filters that cost less: all objects together took more than %d units", queryCost)
	}
	return e.fault == nil && err == nil && value == types.True
}

// Fault returns why the expression is too costly, or nil if it was not since the last call. It resets the budget, so it is called once
// after a scan.
func (e *Evaluation) Fault() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.fault
	e.fault, e.left = nil, queryCost
	return err
}

// activation gives an expression its variable.
type activation struct{ root *mapping }

// Parent says that there are no other variables.
func (activation) Parent() cel.Activation { return nil }

// ResolveName returns the value of a variable.
func (a activation) ResolveName(name string) (any, bool) {
	if name != variable {
		return nil, false
	}
	return a.root, true
}
