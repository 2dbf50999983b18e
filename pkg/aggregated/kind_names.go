package aggregated

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
)

// nameOf returns the name of a kind in this API: its plural if that means this kind where no group is named, and <plural>-<group>
// otherwise.
func nameOf(c *store.Catalog, k *store.Kind) string {
	gr := k.GVR.GroupResource()
	if first, ok := c.GroupOf(gr.Resource); ok && first == gr && gr.Resource != queryv1alpha1.Queries {
		return gr.Resource
	}
	return gr.Resource + "-" + gr.Group
}

// kind returns the kind with a name. For an unknown one discovery is asked again, at most once a second.
func (h *Handler) kind(ctx context.Context, name string) (*store.Kind, error) {
	c := h.Resources.Catalog()
	k := named(c, name)
	if k == nil {
		if _, err := c.ByName(ctx, name); apierrors.IsServiceUnavailable(err) {
			return nil, err
		}
		k = named(c, name)
	}
	if k == nil {
		return nil, status.About(schema.GroupResource{Group: queryv1alpha1.GroupName, Resource: name}, "",
			status.Errorf(http.StatusNotFound, "resource %q is not supported: kube-apiserver serves no such kind", name))
	}
	return k, h.Resources.Served(ctx, k)
}

func named(c *store.Catalog, name string) *store.Kind {
	if gr, ok := c.GroupOf(name); ok {
		if k := preferred(c, gr); k != nil && nameOf(c, k) == name {
			return k
		}
	}
	for i := range len(name) {
		if name[i] != '-' {
			continue
		}
		if k := preferred(c, schema.GroupResource{Group: name[i+1:], Resource: name[:i]}); k != nil && nameOf(c, k) == name {
			return k
		}
	}
	return nil
}

// RealOf returns the request for the kind itself that a request for a kind by its name in this API stands for; nil for any other request. A
// Query names its kind in its body only.
func RealOf(resources *resource.Service) func(*request.Info) *request.Info {
	return func(i *request.Info) *request.Info {
		if !i.IsResource || i.APIGroup != queryv1alpha1.GroupName {
			return nil
		}
		k := named(resources.Catalog(), i.Resource)
		if k == nil {
			return nil
		}
		return i.As(k.GVR.GroupResource())
	}
}

func preferred(c *store.Catalog, gr schema.GroupResource) *store.Kind {
	gvr, ok := c.Preferred(gr)
	if !ok {
		return nil
	}
	k, err := c.Resolve(context.Background(), gvr) // which is known, so that nothing is asked for
	if err != nil {
		return nil
	}
	return k
}

// discoveredKinds returns what discovery calls the kinds. kubectl finds the path of a kind by that, and by nothing else: of two with one
// name it would read the other's objects. So it is the kind's own name for the first, of those whose path is their plural, and has the
// group after it for others.
func discoveredKinds(c *store.Catalog, kinds []*store.Kind) map[*store.Kind]string {
	taken, out := map[string]bool{}, make(map[*store.Kind]string, len(kinds))
	for _, plural := range []bool{true, false} {
		for _, k := range kinds {
			if (nameOf(c, k) == k.GVR.Resource) != plural {
				continue
			}
			name := k.Kind
			if taken[name] {
				name += "." + k.GVR.Group
			}
			taken[name], out[k] = true, name
		}
	}
	return out
}

// singular returns the singular that clients show.
func singular(k *store.Kind) string { return strings.ToLower(k.Kind) }
