// Package rego decides by the policies in Rego that roles of older installations carry.
package rego

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Bounds of a policy, since every user who may write a role can write one: its length in bytes, and how deep its brackets nest (the
// interpreter's time to read it grows with the square of that).
const (
	maxLength = 16 << 10
	maxDepth  = 50
)

// file is the name of a policy in errors about it.
const file = "policy"

// query is the query that a policy answers.
var query = ast.MustParseBody("data.authz.allow = true")

// Policy is a compiled policy. Many goroutines may evaluate it at once.
type Policy struct {
	compiler *ast.Compiler
	query    ast.Body
	// step is the work of a step: the largest value that the text spells out.
	step int
}

// Compile reads a policy: a module in version 0 of the language whose package is authz, and whose rule allow says whether a request is
// allowed. Version 1 is understood after "import rego.v1". A policy has the request as its input and no other data, and only those
// functions that compute.
func Compile(text string) (p *Policy, err error) {
	defer recovered("compile the policy", &err)
	if len(text) > maxLength {
		return nil, fmt.Errorf("compile the policy: it is longer than %d bytes", maxLength)
	}
	if depth(text) > maxDepth {
		return nil, fmt.Errorf("compile the policy: its brackets nest more than %d deep", maxDepth)
	}
	able := capabilities()
	module, err := ast.ParseModuleWithOpts(file, text, ast.ParserOptions{RegoVersion: ast.RegoV0, Capabilities: able})
	if err != nil {
		return nil, fmt.Errorf("compile the policy: %w", err)
	}
	if err := decides(module); err != nil {
		return nil, fmt.Errorf("compile the policy: %w", err)
	}
	if err := checkShape(module); err != nil {
		return nil, fmt.Errorf("compile the policy: %w", err)
	}
	step := largest(module)
	c := ast.NewCompiler().WithCapabilities(able).WithDefaultRegoVersion(ast.RegoV0)
	c.Compile(map[string]*ast.Module{file: module})
	if c.Failed() {
		return nil, fmt.Errorf("compile the policy: %w", c.Errors)
	}
	body, err := c.QueryCompiler().Compile(query.Copy())
	if err != nil {
		return nil, fmt.Errorf("compile the question to the policy: %w", err)
	}
	return &Policy{compiler: c, query: body, step: step}, nil
}

// depth is how deep the brackets of a text nest, apart from those in strings and comments.
func depth(text string) (deepest int) {
	now := 0
	for n := 0; n < len(text); n++ {
		switch c := text[n]; c {
		case '(', '[', '{':
			now++
			deepest = max(deepest, now)
		case ')', ']', '}':
			now = max(0, now-1)
		case '#', '"', '`':
			n = skip(text, n)
		}
	}
	return deepest
}

// skip returns where the comment or the string ends that begins at n.
func skip(text string, n int) int {
	end := text[n]
	if end == '#' {
		end = '\n'
	}
	for n++; n < len(text) && text[n] != end; n++ {
		if end == '"' && text[n] == '\\' {
			n++
		}
		if end == '"' && n < len(text) && text[n] == '\n' {
			return n // it isn't one: they end in their line
		}
	}
	return n
}

// decides returns an error for a module without the rule that is queried: it would never allow anything, and not say so.
func decides(m *ast.Module) error {
	if m == nil || m.Package == nil || m.Package.Path.String() != "data.authz" {
		return errors.New(`its package must be "authz"`)
	}
	for _, rule := range m.Rules {
		if ref := rule.Head.Ref(); len(ref) == 1 && ref[0].Value.Compare(ast.Var("allow")) == 0 {
			return nil
		}
	}
	return errors.New(`it has no rule "allow"`)
}

// Allows reports whether the policy allows r to u. An error means that it could not be evaluated within the bounds of an evaluation or
// before ctx ended; false comes with it.
func (p *Policy) Allows(ctx context.Context, u user.Info, r *request.Info) (allowed bool, err error) {
	select {
	case evaluations <- struct{}{}:
		defer func() { <-evaluations }()
	case <-ctx.Done():
		return false, fmt.Errorf("evaluate the policy: %w: %w", errBusy, ctx.Err())
	}
	defer func() {
		if p := recover(); p != nil {
			allowed, err = false, failed("evaluate the policy", p)
		}
	}()
	b := &budget{ctx: ctx, steps: maxSteps, work: maxWork, step: p.step}
	err = topdown.NewQuery(p.query).WithCompiler(p.compiler).WithStore(noData{}).WithCancel(b).WithQueryTracer(b).WithMetrics(metrics.NoOp()).
		WithInput(input(u, r)).Iter(ctx, func(topdown.QueryResult) error {
		allowed = true
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("evaluate the policy: %w", err)
	}
	return allowed, nil
}

// recovered turns a panic into an error: a text that the interpreter can't handle must not end the process.
func recovered(doing string, err *error) {
	if p := recover(); p != nil {
		*err = failed(doing, p)
	}
}
