package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// input returns what a policy reads as "input": the user and the request, under the names that policies of existing installations use.
func input(u user.Info, r *request.Info) *ast.Term {
	extra := make([][2]*ast.Term, 0, len(u.GetExtra()))
	for key, values := range u.GetExtra() {
		extra = append(extra, [2]*ast.Term{ast.StringTerm(key), texts(values)})
	}
	return ast.ObjectTerm(
		field("User", ast.ObjectTerm(
			text("Name", u.GetName()),
			text("UID", u.GetUID()),
			field("Groups", texts(u.GetGroups())),
			field("Extra", ast.ObjectTerm(extra...)),
		)),
		text("Verb", r.Verb),
		text("Cluster", r.Cluster),
		text("Workspace", r.Workspace),
		text("Namespace", r.Namespace),
		text("APIGroup", r.APIGroup),
		text("APIVersion", r.APIVersion),
		text("Resource", r.Resource),
		text("Subresource", r.Subresource),
		text("Name", r.Name),
		field("KubernetesRequest", ast.BooleanTerm(r.IsKubernetes)),
		field("ResourceRequest", ast.BooleanTerm(r.IsResource)),
		text("Path", r.Path),
		text("ResourceScope", scope(r)),
	)
}

// scope returns the level that decides, as policies name it.
func scope(r *request.Info) string {
	switch r.Scope {
	case request.Global:
		return "Global"
	case request.Cluster:
		return "Cluster"
	case request.Workspace:
		return "Workspace"
	}
	return "Namespace"
}

func field(name string, value *ast.Term) [2]*ast.Term {
	return [2]*ast.Term{ast.InternedTerm(name), value}
}

func text(name, value string) [2]*ast.Term { return field(name, ast.StringTerm(value)) }

func texts(values []string) *ast.Term {
	terms := make([]*ast.Term, len(values))
	for n, value := range values {
		terms[n] = ast.StringTerm(value)
	}
	return ast.ArrayTerm(terms...)
}
