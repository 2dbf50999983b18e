// Package abac decides by a file of policies, one on each line, in the format that kube-apiserver reads:
// abac.authorization.kubernetes.io/v1beta1.
package abac

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	kjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// The apiVersion and kind of each line.
const (
	apiVersion = "abac.authorization.kubernetes.io/v1beta1"
	kind       = "Policy"
)

// Bounds of a file: its length in bytes, and its policies, since a request that none of them allows is compared with all of them.
const (
	maxFile     = 1 << 20
	maxPolicies = 2000
)

// all is "*": all users who are logged in, or all groups, resources, namespaces or workspaces.
const all = "*"

// Policy allows what matches all of its fields. See docs/authorization.md.
type Policy struct {
	// User and Group are the subject: both must match where both are given. "*" is everyone who is logged in.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Readonly restricts the policy to get, list and watch; for paths that are no resource's, to get.
	Readonly bool `json:"readonly,omitempty"`
	// APIGroup, Resource and Namespace are those of the request, "*" any. An empty one matches the core group, no resource, or objects in no
	// namespace. A sub-resource is named with its resource: "pods/log".
	APIGroup  string `json:"apiGroup,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Workspace restricts the policy to that workspace and its namespaces. Empty, and "*", restrict nothing.
	Workspace string `json:"workspace,omitempty"`
	// NonResourcePath is a path that is no resource's; one that ends in "*" stands for all paths with that prefix.
	NonResourcePath string `json:"nonResourcePath,omitempty"`
}

// Authorizer decides by policies. It denies nothing: the next authorizer may allow what they do not. Its decisions assert no synthetic
// group.
type Authorizer struct {
	// WorkspaceOf returns the workspace that a namespace is in, empty for none.
	WorkspaceOf func(namespace string) string
	// GroupsOf returns the groups of a caller that policies may name; nil for all.
	GroupsOf func(user.Info) []string

	policies []allowance
}

// allowance is a policy with the decision that it gives.
type allowance struct {
	Policy
	reason string
}

// Load reads a file of policies. Empty lines, and those that begin with #, are left out. The error names the file and the line.
func Load(file string) (*Authorizer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the policies of the mode ABAC: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the policies of the mode ABAC: %w", err)
	}
	a, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the policies of the mode ABAC: %s: %w", file, err)
	}
	return a, nil
}

func parse(text []byte) (*Authorizer, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	a := &Authorizer{}
	line := 0
	for l := range bytes.Lines(text) {
		line++
		l = bytes.TrimSpace(l)
		if len(l) == 0 || l[0] == '#' {
			continue
		}
		p, err := parseLine(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if len(a.policies) == maxPolicies {
			return nil, fmt.Errorf("line %d: there are more than %d policies", line, maxPolicies)
		}
		a.policies = append(a.policies, allowance{*p, "allowed by the policy in line " + strconv.Itoa(line) + " of the file of the mode ABAC"})
	}
	return a, nil
}

func parseLine(line []byte) (*Policy, error) {
	var doc struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       Policy `json:"spec"`
	}
	strict, err := kjson.UnmarshalStrict(line, &doc)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it is not a JSON object with apiVersion, kind and spec: %w", err)
	case len(strict) > 0:
		return nil, strict[0]
	case doc.APIVersion != apiVersion || doc.Kind != kind:
		return nil, fmt.Errorf("it is not a %s of %s", kind, apiVersion)
	}
	return &doc.Spec, doc.Spec.validate()
}

// validate refuses a policy that would match nothing, or something else than it seems to: no one would notice.
func (p *Policy) validate() error {
	switch {
	case p.User == "" && p.Group == "":
		return errors.New("spec.user or spec.group is missing: it says whom the policy allows something")
	case p.Resource == "" && p.NonResourcePath == "":
		return errors.New("spec.resource or spec.nonResourcePath is missing: it says what the policy allows")
	case p.Resource == "" && p.APIGroup+p.Namespace+p.Workspace != "":
		return errors.New("spec.resource is missing, although apiGroup, namespace or workspace is there")
	}
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	for _, f := range [...]struct{ name, value string }{
		{"apiGroup", p.APIGroup}, {"resource", resource}, {"resource", subresource}, {"namespace", p.Namespace}, {"workspace", p.Workspace},
	} {
		if f.value != all && strings.Contains(f.value, all) {
			return fmt.Errorf("spec.%s: %q: a * stands for everything, and not for a part of a name", f.name, f.value)
		}
	}
	if i := strings.Index(p.NonResourcePath, all); i >= 0 && i != len(p.NonResourcePath)-1 {
		return fmt.Errorf("spec.nonResourcePath: %q: a * comes at the end", p.NonResourcePath)
	}
	return nil
}

// Authorize allows r where a policy does.
func (a *Authorizer) Authorize(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	if u == nil || r == nil || u.GetName() == "" || r.Verb == "" { // S10
		return authz.Decision{Reason: "the request lacks a user, or what it asks for"}, nil
	}
	workspace := r.Workspace
	if r.Namespace != "" && a.WorkspaceOf != nil {
		workspace = a.WorkspaceOf(r.Namespace)
	}
	groups := u.GetGroups()
	if a.GroupsOf != nil {
		groups = a.GroupsOf(u)
	}
	for n := range a.policies {
		if p := &a.policies[n]; p.isFor(u.GetName(), groups) && p.allows(r, workspace) {
			return authz.Allow(p.reason, ""), nil
		}
	}
	return authz.Decision{}, nil
}

func (p *Policy) isFor(name string, groups []string) bool {
	if (p.User == all || p.Group == all) && !slices.Contains(groups, user.AllAuthenticated) {
		return false
	}
	return (p.User == "" || p.User == all || p.User == name) && (p.Group == "" || p.Group == all || slices.Contains(groups, p.Group))
}

func (p *Policy) allows(r *request.Info, workspace string) bool {
	if !r.IsResource {
		return p.NonResourcePath != "" && (!p.Readonly || r.Verb == "get") && matchesPath(p.NonResourcePath, r.Path)
	}
	return r.Resource != "" &&
		(!p.Readonly || r.Verb == "get" || r.Verb == "list" || r.Verb == "watch") &&
		matches(p.APIGroup, r.APIGroup) && matches(p.Namespace, r.Namespace) &&
		(p.Workspace == "" || matches(p.Workspace, workspace)) &&
		matchesResource(p.Resource, r.Resource, r.Subresource)
}

func matches(pattern, value string) bool { return pattern == all || pattern == value }

func matchesPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, all); ok {
		return strings.HasPrefix(path, prefix)
	}
	return path != "" && pattern == path
}

// matchesResource reports whether a pattern names the resource. A resource alone does not include its sub-resources.
func matchesResource(pattern, resource, subresource string) bool {
	if pattern == all {
		return true
	}
	of, sub, named := strings.Cut(pattern, "/")
	if !named || subresource == "" {
		return !named && subresource == "" && of == resource
	}
	return matches(of, resource) && matches(sub, subresource)
}
