package authz

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// The webhook is asked about a request as its path says it. It may still deny the kind that the path stands for, or one namespace of a
// list: where it precedes other modes, it is also asked about these, because those modes may not allow what it denies.

// Bounds on one partial list: how many namespaces, workspaces and objects the webhook is asked about, and how many at a time.
const (
	vetoItems  = 500
	vetoAtOnce = 16
)

// vetoAlias returns d, which allows r, unless a vetoing authorizer denies the alias of r.
func (o *Order) vetoAlias(ctx context.Context, u user.Info, r *request.Info, d Decision) (Decision, error) {
	if alias := o.Aliases.Of(r); alias != nil {
		if v, err := o.vetoing().Authorize(ctx, u, alias); err != nil || v.denied {
			return Deny(v.Reason), err
		}
	}
	return d, nil
}

// vetoPartialList returns d, which does not allow r, without the items of its partial list that vetoing authorizers deny. A partial list
// of more than 500 items is refused.
func (o *Order) vetoPartialList(ctx context.Context, u user.Info, r *request.Info, d Decision) (Decision, error) {
	if o.Vetoing == 0 || d.partial == nil {
		return d, nil
	}
	if !WantsPartialList(ctx) || r.IsKubernetes { // kube-apiserver answers no partial lists
		return AllowPartial(nil, d.Reason), nil
	}
	items := itemsOf(d.partial, r)
	if len(items) > vetoItems {
		return Decision{Reason: fmt.Sprintf("allowed in %d namespaces and workspaces, which are more than are asked about for one list: list"+
			" one of them", len(items))}, nil
	}
	denied, err := o.deniedOf(ctx, u, items)
	if err != nil {
		return Decision{}, fmt.Errorf("ask the webhook about the items of a partial list: %w", err)
	}
	return AllowPartial(without(d.partial, denied), d.Reason), nil
}

// vetoing returns the webhook and the authorizers that precede it: the webhook is not asked about what those allow.
func (o *Order) vetoing() Union { return o.Authorizers[:o.Vetoing] }

// itemsOf returns the requests that the partial list stands for: as r, in its namespaces and workspaces and for its names, in this order.
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

// deniedOf returns for each item whether a vetoing authorizer denies it.
func (o *Order) deniedOf(ctx context.Context, u user.Info, items []request.Info) ([]bool, error) {
	denied := make([]bool, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(vetoAtOnce)
	for k := range items {
		group.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				denied[k], err = o.denies(ctx, u, &items[k])
			}
			return err
		})
	}
	return denied, group.Wait()
}

// denies reports whether a vetoing authorizer denies an item, or its alias.
func (o *Order) denies(ctx context.Context, u user.Info, item *request.Info) (bool, error) {
	for _, reading := range [...]*request.Info{withPresentNames(item), o.Aliases.Of(item)} {
		if reading == nil {
			continue
		}
		if d, err := o.vetoing().Authorize(ctx, u, reading); err != nil || d.denied {
			return true, err
		}
	}
	return false, nil
}

// without returns the partial list without the denied items, in the order of itemsOf; an empty one if all are denied.
func without(p *PartialList, denied []bool) *PartialList {
	keep := func(names []string) []string {
		var kept []string
		for k, name := range names {
			if !denied[k] {
				kept = append(kept, name)
			}
		}
		denied = denied[len(names):]
		return kept
	}
	namespaces, workspaces, names := keep(p.Namespaces), keep(p.Workspaces), keep(p.Names)
	if len(namespaces) == len(p.Namespaces) && len(workspaces) == len(p.Workspaces) && len(names) == len(p.Names) {
		return p
	}
	return partOf(namespaces, workspaces, names)
}
