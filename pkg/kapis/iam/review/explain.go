package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	kjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// maxGrants bounds the bindings in an explanation.
const maxGrants = 200

// explanation is the answer to why a user may or may not do something.
type explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// User is the user in question, Asked the request in words.
	User  string `json:"user"`
	Asked string `json:"asked"`
	reviewStatus
	// Scopes are those that decide, in the order in which they are evaluated.
	Scopes []scopeExplanation `json:"scopes"`
}

type scopeExplanation struct {
	Scope string `json:"scope"`
	// Place is the workspace or the namespace; left out where the caller may not know it.
	Place string `json:"place,omitempty"`
	// Grants are the bindings of the user, and of the user's groups, the one that decided first.
	Grants []grantView `json:"grants,omitempty"`
	// Hidden counts those that the caller may not see, Omitted those beyond the limit.
	Hidden  int `json:"hidden,omitempty"`
	Omitted int `json:"omitted,omitempty"`
	// Missing says why nothing at this scope allows it; empty where something does.
	Missing string `json:"missing,omitempty"`
}

// grantView is a binding as it is shown.
type grantView struct {
	Binding   reference          `json:"binding"`
	Role      reference          `json:"role"`
	Subject   rbacv1.Subject     `json:"subject"`
	Rule      *rbacv1.PolicyRule `json:"rule,omitempty"`
	Condition string             `json:"condition,omitempty"`
	Held      bool               `json:"held"`
	Why       string             `json:"why,omitempty"`
}

// reference names an object of iam.kubesphere.io.
type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Name      string `json:"name"`
}

// explain answers an accessexplanation: the decision, as a review has it, and the bindings it results from.
func (v *Handler) explain(r *restful.Request) (any, error) {
	requester, err := v.requester(r, "accessexplanations")
	if err != nil {
		return nil, err
	}
	raw, err := readReview(r.Request)
	if err != nil {
		return nil, err
	}
	var body struct {
		Spec reviewSpec `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &body); err != nil {
		return nil, apierrors.NewBadRequest("the body is not an AccessExplanation: spec is that of a SubjectAccessReview, or has user," +
			" method and path")
	}
	info, err := body.Spec.info()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	ctx := r.Request.Context()
	u, why, err := requester.subject(ctx, &body.Spec)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, status.Forbiddenf("%s", why)
	}
	e := explanation{
		APIVersion: wire.Group + "/" + wire.Version, Kind: "AccessExplanation", User: u.GetName(), Asked: asked(info),
		reviewStatus: v.decide(ctx, u, info),
	}
	info, grants := v.grants(u, info)
	sight := requester.visibility()
	if u != requester.user {
		if err := sight.hideReason(ctx, &e.reviewStatus, grants); err != nil {
			return nil, err
		}
	}
	if e.Scopes, err = sight.scopes(ctx, u.GetName(), info, grants); err != nil {
		return nil, err
	}
	if info.Scope == request.Global && !e.Allowed && !e.Denied && e.Reason != "" {
		e.Reason += "; only roles on the platform have a say on " + info.Resource
	}
	return wire.Private{Value: e}, nil
}

// grants returns the bindings of u that bear on a request, or those on its alias if that is what decides.
func (v *Handler) grants(u user.Info, info *request.Info) (*request.Info, []authz.Grant) {
	grants := v.Grants.Explain(u, info)
	if as := v.Alias(info); as != nil && !decides(grants) {
		return as, v.Grants.Explain(u, as)
	}
	return info, grants
}

func decides(grants []authz.Grant) bool { return len(grants) > 0 && grants[0].Held }

// scopes groups the bindings by scope, without those that the requester may not see.
func (s *visibility) scopes(ctx context.Context, name string, info *request.Info, grants []authz.Grant) ([]scopeExplanation, error) {
	shown := 0
	var out []scopeExplanation
	for _, place := range s.Grants.Meets(info) {
		e := scopeExplanation{Scope: place.Scope.Label()}
		held := false
		for n := range grants {
			g := &grants[n]
			if g.Scope != place {
				continue
			}
			held = held || g.Held
			ok, err := s.canSee(ctx, g)
			switch {
			case err != nil:
				return nil, err
			case !ok:
				e.Hidden++
			case shown == maxGrants:
				e.Omitted++
			default:
				shown++
				e.Grants = append(e.Grants, view(g))
			}
		}
		known, err := s.knows(ctx, place, info, len(e.Grants) > 0)
		if err != nil {
			return nil, err
		}
		if known {
			e.Place = place.Workspace + place.Namespace // one of them
		}
		if !held {
			e.Missing = e.missing(name, place, known)
		}
		out = append(out, e)
	}
	return out, nil
}

// missing returns why nothing at a scope allows the request.
func (s *scopeExplanation) missing(name string, place authz.BindingScope, known bool) string {
	where := place.String()
	switch {
	case place.Scope == request.Workspace && !known:
		where = "in a workspace that the namespace may be in"
	case place.Scope == request.Workspace && place.Workspace == "":
		return "the namespace is in no workspace"
	}
	if len(s.Grants)+s.Hidden+s.Omitted == 0 {
		return fmt.Sprintf("no binding of %q, or of a group of that user, %s", name, where)
	}
	if s.Hidden+s.Omitted > 0 {
		return fmt.Sprintf("none of the bindings %s allows it", where)
	}
	var why []string
	for _, g := range s.Grants {
		if !slices.Contains(why, g.Why) {
			why = append(why, g.Why)
		}
	}
	return strings.Join(why, "; ")
}

// knows reports whether the requester may be told the name of a scope: because they named it, see a binding in it, or may see the
// namespace whose workspace it is.
func (a *requester) knows(ctx context.Context, place authz.BindingScope, info *request.Info, sees bool) (bool, error) {
	if place.Scope != request.Workspace || info.Scope == request.Workspace || sees {
		return true, nil
	}
	d, err := a.may(ctx, &resourceAttributes{Verb: "get", Resource: "namespaces", Name: info.Namespace})
	return d.Allowed(), err
}

// may authorizes the requester. What no request can ask for is not allowed.
func (a *requester) may(ctx context.Context, what *resourceAttributes) (authz.Decision, error) {
	info, _ := what.info()
	if info == nil {
		return authz.Decision{}, nil
	}
	d, err := a.May.Authorize(ctx, a.user, info)
	if err != nil {
		return authz.Decision{}, fmt.Errorf("decide whether %q may see what is asked about: %w", a.user.GetName(), err)
	}
	return d, nil
}

func view(g *authz.Grant) grantView {
	kind := g.Scope.Scope.RoleKind()
	return grantView{
		Binding: reference{Kind: kind + "Binding", Namespace: g.Scope.Namespace, Workspace: g.Scope.Workspace, Name: g.Binding},
		Role:    reference{Kind: kind, Namespace: g.Role.Namespace, Name: g.Role.Name},
		Subject: g.Subject, Rule: g.Rule, Condition: g.Condition, Held: g.Held, Why: g.Why,
	}
}

func bindingResource(s request.Scope) string { return strings.ToLower(s.RoleKind()) + "bindings" }

// asked returns the request, and its scope, in words.
func asked(r *request.Info) string {
	if !r.IsResource {
		return r.Asked()
	}
	return r.Asked() + " " + authz.BindingScope{Scope: r.Scope, Workspace: r.Workspace, Namespace: r.Namespace}.String()
}
