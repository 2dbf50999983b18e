// Package expression evaluates expressions in the Common Expression Language (CEL, github.com/google/cel-spec) over JSON objects, and
// decodes of an object only what the expression reads.
//
// Every user who may list can write an expression, and it runs for every object that the list scans. So its cost is bounded four times:
// its text (length, nesting, patterns), what it may build (see literals), one object's evaluation, and the whole query.
package expression

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/utils/lru"
)

// maxPrograms is how many compiled expressions are cached; one takes some ten KB.
const maxPrograms = 128

// Compiler compiles Programs, and caches those that were used last. Its zero value is ready for use.
type Compiler struct {
	once     sync.Once
	env      *cel.Env
	err      error
	programs *lru.Cache // of *Program, by text
}

// Program is a compiled expression. It is immutable, and many queries may use it at once.
type Program struct {
	program cel.Program
}

// Compile returns the program of an expression over `object` that is true or false. An error is the fault of the text, and has the line
// and column, from 1.
func (c *Compiler) Compile(text string) (*Program, error) {
	c.once.Do(func() { // it costs some milliseconds: not before it is needed
		c.programs = lru.New(maxPrograms)
		c.env, c.err = newLanguage()
	})
	if c.err != nil {
		return nil, c.err
	}
	if known, ok := c.programs.Get(text); ok {
		return known.(*Program), nil //nolint:forcetypeassert // nothing else is in there
	}
	checked, issues := c.env.Compile(text)
	if err := issueOf(issues); err != nil {
		return nil, err
	}
	if t := checked.OutputType(); t != cel.BoolType && t != cel.DynType {
		return nil, fmt.Errorf("line 1, column 1: the expression is a %s, and must be true or false", t)
	}
	program, err := c.env.Program(checked, programOptions(checked.NativeRep())...)
	if err != nil {
		return nil, fmt.Errorf("prepare the expression: %w", err)
	}
	p := &Program{program: program}
	c.programs.Add(text, p)
	return p, nil
}

// issueOf returns the first error in a text.
func issueOf(issues *cel.Issues) error {
	if issues.Err() == nil {
		return nil
	}
	all := issues.Errors()
	if len(all) == 0 {
		return issues.Err()
	}
	first := all[0]
	if first.Location == nil || first.Location.Line() < 1 {
		return errors.New(first.Message)
	}
	return fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
}
