package authz

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Bounds on one partial list: how many namespaces, workspaces and objects the webhook is asked about, and how many at a time.
const (
	vetoItems  = 500
	vetoAtOnce = 16
)

// WebhookVeto also applies the webhook's denials to aliased requests and to each item of a partial list. The webhook is asked about
// the request as the path says it; it may still deny the kind that the path stands for, or one namespace of a list.
type WebhookVeto struct {
	// Before are the authorizers whose denial holds against every later one.
	Before Authorizer
	Next   Authorizer
	// As returns the request that one stands for; nil for none. See Aliases.
	As func(*request.Info) *request.Info
}

// Authorize asks Next, and then Before about aliases and items. A partial list of more than 500 items is refused.
func (n WebhookVeto) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	d, err := n.Next.Authorize(ctx, u, r)
	switch {
	case err != nil:
		return d, err
	case d.Allowed():
		if as := n.As(r); as != nil {
			if b, err := n.Before.Authorize(ctx, u, as); err != nil || b.Denied() {
				return Deny(b.Reason), err
			}
		}
		return d, nil
	case d.PartialList() == nil:
		return d, nil
	}
	if !WantsPartialList(ctx) || r.IsKubernetes { // kube-apiserver answers no partial lists
		return AllowPartial(nil, d.Reason), nil
	}
	at := itemsOf(d.PartialList(), r)
	if len(at) > vetoItems {
		return Decision{Reason: fmt.Sprintf("allowed in %d namespaces and workspaces, which are more than are asked about for one list: list"+
			" one of them", len(at))}, nil
	}
	forbidden, err := n.forbidden(ctx, u, at)
	if err != nil {
		return Decision{}, fmt.Errorf("ask the webhook about the items of a partial list: %w", err)
	}
	return AllowPartial(without(d.partial, forbidden), d.Reason), nil
}

// itemsOf returns what the part stands for: requests as r, in its namespaces, workspaces and of its names, in this order.
func itemsOf(p *PartialList, r *request.Info) []request.Info {
	all := make([]request.Info, 0, len(p.Namespaces)+len(p.Workspaces)+len(p.Names))
	root := "/" + r.APIPrefix + "/" + r.APIGroup + "/" + r.APIVersion
	if r.APIGroup == "" {
		root = "/" + r.APIPrefix + "/" + r.APIVersion
	}
	for _, name := range p.Namespaces {
		i := *r
		i.Namespace, i.Scope, i.Path = name, request.Namespace, root+"/namespaces/"+name+"/"+r.Resource
		if r.Resource == "namespaces" {
			i.Name, i.Path = name, root+"/namespaces/"+name
		}
		all = append(all, i)
	}
	for _, name := range p.Workspaces {
		i := *r
		i.Workspace, i.Scope, i.Path = name, request.Workspace, root+"/workspaces/"+name+"/"+r.Resource
		if r.Resource == "workspaces" || r.Resource == "workspacetemplates" {
			i.Name, i.Path = name, root+"/"+r.Resource+"/"+name
		}
		all = append(all, i)
	}
	for _, name := range p.Names {
		i := *r
		i.Name, i.Path = name, root+"/"+r.Resource+"/"+name
		all = append(all, i)
	}
	return all
}

// forbidden tells of each request whether Before forbids it. What can't be told is an error.
func (n WebhookVeto) forbidden(ctx context.Context, u user.Info, at []request.Info) ([]bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]bool, len(at))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(vetoAtOnce, len(at)) {
		asking.Go(func() {
			for k := range next {
				denied, err := n.forbids(ctx, u, &at[k])
				if err != nil {
					cancel(err)
				}
				out[k] = denied
			}
		})
	}
	for k := range at {
		if ctx.Err() != nil {
			break
		}
		next <- k
	}
	close(next)
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return out, nil
}

// forbids tells whether Before forbids r, or what r stands for.
func (n WebhookVeto) forbids(ctx context.Context, u user.Info, r *request.Info) (bool, error) {
	d, err := n.Before.Authorize(ctx, u, r)
	if err != nil || d.Denied() {
		return true, err
	}
	as := n.As(r)
	if as == nil {
		return false, nil
	}
	d, err = n.Before.Authorize(ctx, u, as)
	return err != nil || d.Denied(), err
}

// without returns the part without what is forbidden, in the order of placesOf; one of nothing where all is.
func without(p *PartialList, forbidden []bool) *PartialList {
	keep := func(names []string) []string {
		var kept []string
		for k, name := range names {
			if !forbidden[k] {
				kept = append(kept, name)
			}
		}
		forbidden = forbidden[len(names):]
		return kept
	}
	namespaces, workspaces, names := keep(p.Namespaces), keep(p.Workspaces), keep(p.Names)
	if len(namespaces) == len(p.Namespaces) && len(workspaces) == len(p.Workspaces) && len(names) == len(p.Names) {
		return p
	}
	return partOf(namespaces, workspaces, names)
}
