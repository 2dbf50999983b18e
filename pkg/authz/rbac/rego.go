package rbac

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// policyTimeout bounds the time that the policies of all roles of a user may take for one request. One takes some tens of microseconds.
const policyTimeout = 100 * time.Millisecond

// Policy decides besides the rules of a role: what either of them allows is allowed. It is for roles of older installations, which have
// one in the annotation iam.kubesphere.io/rego-override.
type Policy interface {
	// Allows reports whether u is allowed r. An error means that the policy can't be evaluated; nothing is allowed then.
	Allows(ctx context.Context, u user.Info, r *request.Info) (bool, error)
}

// CompilePolicies enables policies in roles, which compile compiles. It is called before the first role is known; without it policies are
// ignored.
func (x *Index) CompilePolicies(compile func(text string) (Policy, error)) { x.compile = compile }

// policy is a role's policy, compiled. It is immutable.
type policy struct {
	*compiled
	group  string    // the synthetic group of what it allows
	failed sync.Once // to log once that it can't be evaluated
}

// compiled is a policy that all roles with the same text share.
type compiled struct{ Policy }

// policyOf returns the policy of a role, or nil if it has none that can be used.
func (x *Index) policyOf(key roleKey, text string) (*policy, error) {
	if text == "" || x.compile == nil {
		return nil, nil
	}
	c, err := x.compiled.of([]byte(text), func([]byte) (*compiled, error) {
		p, err := x.compile(text)
		return &compiled{p}, err
	})
	if err != nil {
		return nil, err
	}
	return &policy{compiled: c, group: iamv1beta1.ConditionalGroup(key.scope.Label(), key.namespace, key.name)}, nil
}

// countPolicies updates the number of roles with a policy for a role that changes from before to now.
func (x *Index) countPolicies(before, now *content) {
	if before != nil && before.policy != nil {
		x.policies.Add(-1)
	}
	if now != nil && now.policy != nil {
		x.policies.Add(1)
	}
}

// byPolicy asks the policies of the roles that are bound to u at the scopes of r, after the rules of all roles: rules cost less, and the
// synthetic group of a role that allows by its rules is good for more.
func (x *Index) byPolicy(ctx context.Context, u user.Info, r *request.Info) authz.Decision {
	l, p := x.policyLink(ctx, u, r)
	if l == nil {
		return authz.Decision{}
	}
	return authz.Allow(l.whyByPolicy(), p.group)
}

// policyLink returns the first binding to a role whose policy allows r to u, and that policy, which the role may have lost by now; nil if
// there is none.
func (x *Index) policyLink(ctx context.Context, u user.Info, r *request.Info) (*link, *policy) {
	if x.policies.Load() == 0 || isOfMembers(r) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	var asked []*compiled
	for _, place := range x.Meets(r) {
		s := x.at(place)
		if s == nil {
			continue
		}
		for l := range s.of(u) {
			for ; l != nil; l = l.next {
				c := l.content()
				if c == nil || c.policy == nil || slices.Contains(asked, c.policy.compiled) {
					continue
				}
				if c.allowsByPolicy(ctx, u, r) {
					return l, c.policy
				}
				asked = append(asked, c.policy.compiled)
			}
		}
	}
	return nil, nil
}

// isOfMembers reports whether r reads workspaces or their namespaces, where each caller sees what they are members of. In installations
// that have policies, the policy for every user who is logged in allows all of these requests, so that users may make them. Here it would
// show them what others have.
func isOfMembers(r *request.Info) bool {
	return r.APIGroup == tenantv1beta1.GroupName && !r.IsKubernetes && (r.Verb == "get" || r.Verb == "list" || r.Verb == "watch")
}

func (c *content) allowsByPolicy(ctx context.Context, u user.Info, r *request.Info) bool {
	ok, err := c.policy.Allows(ctx, c.groups.As(u, c.scope, r), r)
	if err != nil {
		c.policy.failed.Do(func() {
			klog.ErrorS(err, "A role grants nothing to requests for which its policy in Rego fails", "kind", c.scope.RoleKind(), "role", c.name)
		})
	}
	return ok && err == nil
}

// whyByPolicy returns the reason of a decision, as people read it.
func (l *link) whyByPolicy() string {
	return l.why() + ", by the policy in Rego of " + strconv.Quote(l.roleKey.name)
}
