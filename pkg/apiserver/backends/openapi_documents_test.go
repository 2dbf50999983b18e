package backends_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/apiserver/backends"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store"
)

// X11: backends are asked for their documents by a name that no user has, and without a token of anybody; what has changed is known by its tag.
func TestX11DocumentsAreReadByNobodysName(t *testing.T) {
	var asked []*http.Request
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, "{}")
	}))
	defer there.Close()
	index := extension.NewIndex(extension.Options{Egress: egress.Options{AllowLoopback: true}})
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "shop", "annotations": map[string]any{"kapis.dev/backend-root": "/apis"}},
		"spec": map[string]any{"group": "shop.example.com", "version": "v1", "url": there.URL}, "status": map[string]any{"state": "Available"}})
	if err != nil {
		t.Fatal(err)
	}
	for gvr, sink := range index.Sinks() {
		if gvr.Resource == "apiservices" {
			sink.Set(&store.Object{Name: "shop", Raw: redaction.Bytes(raw)})
		}
	}
	list := backends.Documents(&backend.Handler{Options: backend.Options{Index: index}})
	all := list()
	if len(all) != 1 || all[0].Root != "/apis" || all[0].Backend != list()[0].Backend {
		t.Fatalf("%+v", all)
	}
	body, tag, err := all[0].Get(t.Context(), "")
	if err != nil || string(body) != "{}" || tag != `"1"` {
		t.Fatalf("%q %q %v", body, tag, err)
	}
	if body, tag, err = all[0].Get(t.Context(), tag); err != nil || body != nil || tag != `"1"` {
		t.Errorf("unchanged: %q %q %v", body, tag, err)
	}
	for _, r := range asked {
		if r.RequestURI != "/openapi/v2" || r.Header.Get("X-Remote-User") != "system:ks-apiserver" ||
			r.Header.Get("X-Remote-Group") != "system:authenticated" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %v", r.RequestURI, r.Header)
		}
	}
}
