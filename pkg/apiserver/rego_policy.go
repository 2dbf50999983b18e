package apiserver

import (
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/authz/rego"
)

// compilePolicy compiles the text of a role's policy.
func compilePolicy(text string) (rbac.Policy, error) {
	p, err := rego.Compile(text)
	if err != nil {
		return nil, err // and not a Policy that is a nil pointer
	}
	return p, nil
}
