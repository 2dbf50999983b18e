package rbac

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz/rbac/callergroup"
	"kapis.dev/ks-apiserver/pkg/authz/rbac/regexpcost"
	"kapis.dev/ks-apiserver/pkg/expression"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Bounds of a condition, since every user who may write a role can write one: its length in characters, how deep it nests, and the cost
// of one evaluation in CEL's units (some thousand comparisons). No text that a condition reads is longer than longestText: paths end
// there, and tokens, which name users.
const (
	conditionLength = 4096
	conditionDepth  = 50
	conditionCost   = 10_000
	longestText     = 8 << 10
)

// conditions compiles the conditions of roles: expressions in the Common Expression Language over
//
//	user     name, uid, groups (list of string), extra (map of string to list of string)
//	request  verb, cluster, workspace, namespace, apiGroup, apiVersion, resource, subresource,
//	         name, path (string), isResource (bool)
type conditions struct {
	env *cel.Env
}

// newConditions declares each field as its own variable, "user.name": typed without a schema, and read without reflection.
func newConditions() (*conditions, error) {
	opts := []cel.EnvOption{
		cel.ParserExpressionSizeLimit(conditionLength),
		cel.ParserRecursionLimit(conditionDepth),
		cel.Variable("user.groups", cel.ListType(cel.StringType)),
		cel.Variable("user.extra", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("request.isResource", cel.BoolType),
		// CEL's cost of a comparison is the length of a list, and not what its elements hold.
		cel.ASTValidators(expression.FlatValues()),
	}
	for _, name := range []string{
		"user.name", "user.uid",
		"request.verb", "request.cluster", "request.workspace", "request.namespace", "request.apiGroup", "request.apiVersion",
		"request.resource", "request.subresource", "request.name", "request.path",
	} {
		opts = append(opts, cel.Variable(name, cel.StringType))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("prepare the language of conditions: %w", err)
	}
	return &conditions{env: env}, nil
}

func (c *conditions) compile(expression string) (cel.Program, error) {
	ast, issues := c.env.Compile(expression)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("compile the condition: %w", err)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("compile the condition: it is a %s, and must be true or false", ast.OutputType())
	}
	if err := regexpcost.Check(ast); err != nil {
		return nil, fmt.Errorf("compile the condition: %w", err)
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if !c.isCheap(ast) {
		options = append(options, cel.CostLimit(conditionCost))
	}
	program, err := c.env.Program(ast, options...)
	if err != nil {
		return nil, fmt.Errorf("prepare the condition: %w", err)
	}
	return program, nil
}

// isCheap reports whether no evaluation can exceed the bound of its cost, which then need not be counted: counting costs more than most
// conditions do.
func (c *conditions) isCheap(ast *cel.Ast) bool {
	cost, err := c.env.EstimateCost(ast, bounds{})
	return err == nil && cost.Max <= conditionCost
}

// bounds estimates how large the values of variables can be: a text has its bound, while lists and maps have none.
type bounds struct{}

// EstimateSize implements checker.CostEstimator.
func (bounds) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if len(n.Path()) != 1 || n.Type() != cel.StringType {
		return nil
	}
	return &checker.SizeEstimate{Max: longestText}
}

// EstimateCallCost implements checker.CostEstimator: CEL's own estimates stand.
func (bounds) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// holds evaluates a condition. An error means that it can't be evaluated, and grants nothing.
func holds(p cel.Program, u user.Info, r *request.Info) (bool, error) {
	v, _, err := p.Eval(activation{u, r})
	if err != nil {
		return false, fmt.Errorf("evaluate the condition: %w", err)
	}
	return v == types.True, nil
}

// activation gives a condition the values of its variables.
type activation struct {
	user    user.Info
	request *request.Info
}

// Parent says that there are no other variables.
func (activation) Parent() cel.Activation { return nil }

// ResolveName returns the value of a variable as a CEL type, which saves a conversion.
func (a activation) ResolveName(name string) (any, bool) {
	switch name {
	case "user.name":
		return types.String(a.user.GetName()), true
	case "user.uid":
		return types.String(a.user.GetUID()), true
	case "user.groups":
		return a.user.GetGroups(), true
	case "user.extra":
		return a.user.GetExtra(), true
	case "request.verb":
		return types.String(a.request.Verb), true
	case "request.cluster":
		return types.String(a.request.Cluster), true
	case "request.workspace":
		return types.String(a.request.Workspace), true
	case "request.namespace":
		return types.String(a.request.Namespace), true
	case "request.apiGroup":
		return types.String(a.request.APIGroup), true
	case "request.apiVersion":
		return types.String(a.request.APIVersion), true
	case "request.resource":
		return types.String(a.request.Resource), true
	case "request.subresource":
		return types.String(a.request.Subresource), true
	case "request.name":
		return types.String(a.request.Name), true
	case "request.path":
		return types.String(a.request.Path), true
	case "request.isResource":
		return types.Bool(a.request.IsResource), true
	}
	return nil, false
}

// GroupsIn has conditions and policies of roles read the groups that in returns, while bindings go by all groups. It is called before the
// first role is known.
func (x *Index) GroupsIn(in callergroup.In) { x.groups = callergroup.New(in, x.WorkspaceOf) }

// GroupsChanged drops what was found by groups, since GroupsIn may have others now.
func (x *Index) GroupsChanged() { x.changes.Add(1) }
