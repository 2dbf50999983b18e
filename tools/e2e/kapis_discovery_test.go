package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// kapisRoots sends requests for /api and /apis to /kapi and /kapis.
type kapisRoots struct{ http.RoundTripper }

func (k kapisRoots) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api"); ok {
		r.URL.Path = "/kapi" + rest
	}
	return k.RoundTripper.RoundTrip(r)
}

// A discovery client walks /kapi and /kapis as a user without any role; what it finds there is served there, and nothing is told to strangers.
func TestDiscoveryClientsWalkKapis(t *testing.T) {
	u := newUser(t, unique("walker"))
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: product.URL, BearerToken: u.token, QPS: -1,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper { return kapisRoots{rt} }})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), client, nil)
	for name, want := range map[string]schema.GroupVersionResource{
		"deploy.apps": {Group: "apps", Version: "v1", Resource: "deployments"}, "ns": {Version: "v1", Resource: "namespaces"},
		"users.iam.kubesphere.io": {Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "users"},
	} {
		if got, err := mapper.ResourceFor(schema.ParseGroupResource(name).WithVersion("")); err != nil || got != want {
			t.Errorf("%s is %v, want %v: %v", name, got, want, err)
		}
	}
	for _, path := range []string{"/kapis", "/kapis/resources.kubesphere.io/v1alpha3", "/kapi/v1"} {
		eventually(t, "it is the same again", func(ctx context.Context) error { // unless what another test made, or deleted, becomes known in between
			first, err := u.do(ctx, http.MethodGet, path, nil)
			if err != nil {
				return err
			}
			again, err := u.do(ctx, http.MethodGet, path, nil, "If-None-Match: "+first.header.Get("ETag"))
			if err == nil && (first.code != http.StatusOK || again.code != http.StatusNotModified || again.body != "") {
				err = fmt.Errorf("%s: %d, and again %d %s", path, first.code, again.code, clip(again.body))
			}
			return err
		})
		u.must(t, http.StatusForbidden, http.MethodDelete, path, nil)
		stranger := caller{base: product.URL}
		if r, err := stranger.do(t.Context(), http.MethodGet, path, nil); err != nil || r.code != http.StatusForbidden && r.code != http.StatusUnauthorized {
			t.Errorf("a stranger gets %s: %d %v", path, r.code, err)
		}
	}
	u.must(t, http.StatusNotFound, http.MethodGet, "/kapis/nothing.example/v1", nil)
}
