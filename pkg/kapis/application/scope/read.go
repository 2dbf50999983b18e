package scope

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Get returns an object of the caches that the request sees.
func (k Kind[O]) Get(s *Store, r *restful.Request, name string) (O, error) {
	var none O
	seen, err := s.sight(r)
	if err != nil {
		return none, err
	}
	ctx := r.Request.Context()
	kind, err := s.Resources.Catalog().Resolve(ctx, gvr(k.plural))
	if err != nil {
		return none, err
	}
	found, err := s.Resources.Get(ctx, kind, plan.Scope{}, name)
	if err != nil {
		return none, err
	}
	text := found.JSON.String()
	o, err := k.decode(text)
	if err != nil {
		return none, err
	}
	labels := o.GetLabels()
	if !seen.has(by(labels), k.isPublic(labels[LabelWorkspace], text)) {
		return none, k.NotFound(name)
	}
	return o, nil
}

func (k Kind[O]) isPublic(workspace, text string) bool {
	return k.public(ofWorkspace(workspace), k.State(rawjson.GetText(text, "status", "state")))
}

func (k Kind[O]) decode(text string) (O, error) {
	o := k.new()
	if err := json.Unmarshal([]byte(text), o); err != nil {
		return o, fmt.Errorf("read a cached %s: %w", k.name, err)
	}
	o.GetObjectKind().SetGroupVersionKind(k.typeMeta())
	return o, nil
}

// List answers a list of the objects that a request sees and that have these labels: filtered, sorted, one page.
func (k Kind[O]) List(s *Store, r *restful.Request, labels map[string]string) (any, error) {
	values, states, err := parameters(r.Request.URL.Query(), k.states)
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(values)
	if err != nil {
		return nil, err
	}
	seen, err := s.sight(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	kind, err := s.Resources.Catalog().Resolve(ctx, gvr(k.plural))
	if err != nil {
		return nil, err
	}
	p, err := s.Resources.List(ctx, kind, plan.Scope{Only: k.subset(seen, labels, states)}, q)
	if err != nil {
		return nil, err
	}
	p.Partial = !seen.all
	return p.Items(), nil
}

// subset returns the objects that are seen, that have these labels, and one of these states, nil for any. Its name has all that it depends
// on, each text quoted.
func (k Kind[O]) subset(seen *sight, labels map[string]string, states []string) *plan.Subset {
	keys := slices.Sorted(maps.Keys(labels))
	var name strings.Builder
	// No state is not any.
	fmt.Fprintf(&name, "appstore %q %q %t %t %t", seen.workspace, seen.namespace, seen.all, seen.elsewhere, states == nil)
	if seen.now != nil {
		fmt.Fprintf(&name, " %d", seen.now.Placements())
	}
	for _, list := range [][]string{seen.workspaces, seen.namespaces, seen.elsewhereIn, states} {
		fmt.Fprintf(&name, " %q", list)
	}
	// Every object has it; where a label is asked for, an index finds it.
	first := query.Requirement{Key: LabelWorkspace, Op: query.NotIn}
	for i, key := range keys {
		fmt.Fprintf(&name, " %q=%q", key, labels[key])
		if i == 0 {
			first = query.Requirement{Key: key, Op: query.In, Values: []string{labels[key]}}
		}
	}
	return &plan.Subset{Name: name.String(), Label: first, Holds: func(r *index.Record) bool {
		for _, key := range keys {
			if v, _ := r.Labels.Get(key); v != labels[key] {
				return false
			}
		}
		text := r.JSON.String()
		if states != nil && !slices.Contains(states, k.State(rawjson.GetText(text, "status", "state"))) {
			return false
		}
		label := func(key string) string {
			value, _ := r.Labels.Get(key)
			return value
		}
		return seen.has(label, k.isPublic(label(LabelWorkspace), text))
	}}
}

// All returns all objects of the caches that have a label, whoever may see them: for the server's own checks.
func (k Kind[O]) All(ctx context.Context, s *Store, label, value string) ([]O, error) {
	kind, err := s.Resources.Catalog().Resolve(ctx, gvr(k.plural))
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(nil)
	if err != nil {
		return nil, err
	}
	all := k.subset(&sight{all: true, elsewhere: true}, map[string]string{label: value}, nil)
	p, err := s.Resources.List(ctx, kind, plan.Scope{Only: all}, q)
	if err != nil {
		return nil, err
	}
	out := make([]O, 0, p.Len())
	for i := range p.Len() {
		o, err := k.decode(p.Object(i).String())
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// Listing documents the parameters of a list that Kind.List answers, and says that its route restricts it to what the caller sees.
func Listing(ws *restful.WebService, b *restful.RouteBuilder) *restful.RouteBuilder {
	b.Metadata(web.MetadataPartialList, true)
	b.Param(ws.QueryParameter(paramConditions, "status=a|b, name=a|b, name~part, keyword=words, joined by commas; others are ignored"))
	for _, p := range resource.Parameters() {
		switch p.Name {
		case "watch", "view", "managedFields", "includeObject", "allowWatchBookmarks", "sendInitialEvents", "resourceVersionMatch",
			"timeoutSeconds": // these lists are pages only
		default:
			b.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
		}
	}
	return b
}
