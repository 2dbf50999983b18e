package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

func TestV3IndexHoldsBothAndEachDocumentIsServed(t *testing.T) {
	_, srv, _ := newHandler(t, newKube(t))
	_, body := fetch(t, srv.URL+"/openapi/v3")
	var list indexJSON
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"apis/apps/v1", "kapis/things.example/v1", "oauth", "kapis", "version"} {
		e, ok := list.Paths[path]
		if path == "version" {
			e, ok = list.Paths["root"]
		}
		if !ok {
			t.Errorf("%s is not listed: %s", path, body)
			continue
		}
		for _, accept := range []string{"", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"} {
			res, doc := fetch(t, srv.URL+e.ServerRelativeURL, "Accept", accept)
			if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") || res.Header.Get("Expires") == "" {
				t.Errorf("%s: %d %v", e.ServerRelativeURL, res.StatusCode, res.Header)
			}
			if accept == "" {
				checkRefs(t, doc)
				continue
			}
			var d openapi_v3.Document
			if err := proto.Unmarshal(doc, &d); err != nil || d.Openapi != "3.0.0" {
				t.Errorf("%s: no protobuf: %v", path, err)
			}
		}
	}
	t.Run("OldHashLeadsToTheNew", func(t *testing.T) {
		for _, path := range []string{"apis/apps/v1", "kapis/things.example/v1"} {
			res, _ := fetch(t, srv.URL+"/openapi/v3/"+path+"?hash=OLD")
			if got := res.Header.Get("Location"); res.StatusCode != http.StatusMovedPermanently || got != list.Paths[path].ServerRelativeURL {
				t.Errorf("%s: %d %s", path, res.StatusCode, got)
			}
		}
	})
	t.Run("WithoutHashNothingIsImmutable", func(t *testing.T) {
		if res, _ := fetch(t, srv.URL+"/openapi/v3/apis/apps/v1"); res.StatusCode != http.StatusOK || res.Header.Get("Cache-Control") != "" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
	})
	t.Run("UnknownIs404", func(t *testing.T) {
		if res, body := fetch(t, srv.URL+"/openapi/v3/apis/nothing/v1"); res.StatusCode != http.StatusNotFound || !bytes.Contains(body, []byte(`"kind":"Status"`)) {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	})
	t.Run("UnknownTypeIs406", func(t *testing.T) {
		for _, path := range []string{"/openapi/v2", "/openapi/v3/oauth"} {
			if res, _ := fetch(t, srv.URL+path, "Accept", "text/html"); res.StatusCode != http.StatusNotAcceptable {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
		}
	})
}

func TestV3FollowsKube(t *testing.T) {
	k := newKube(t)
	h, srv, clock := newHandler(t, k)
	fetch(t, srv.URL+"/openapi/v3/apis/apps/v1")
	fetch(t, srv.URL+"/openapi/v3/apis/apps/v1")
	if n := k.count("/openapi/v3/apis/apps/v1"); n != 1 {
		t.Errorf("a document that is kept was asked for %d times", n)
	}
	// It changed while the cached index is still fresh: the hash in it redirects to the new one.
	k.v3.UpdateGroupVersion("apis/apps/v1", spec3Doc("Changed"))
	h.v3.mu.Lock()
	clear(h.v3.docs)
	h.v3.mu.Unlock()
	if res, body := fetch(t, srv.URL+"/openapi/v3/apis/apps/v1"); res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("Changed")) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	// A custom resource appears within the time.
	k.v3.UpdateGroupVersion("apis/new.example/v1", spec3Doc("New"))
	clock.Step(time.Second)
	if res, _ := fetch(t, srv.URL+"/openapi/v3/apis/new.example/v1"); res.StatusCode != http.StatusOK {
		t.Errorf("a new group is answered with %d", res.StatusCode)
	}
	k.v3.DeleteGroupVersion("apis/new.example/v1")
	clock.Step(time.Second)
	if res, _ := fetch(t, srv.URL+"/openapi/v3/apis/new.example/v1"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a group that is gone is answered with %d", res.StatusCode)
	}
}

func TestKeptDocumentsAreBounded(t *testing.T) {
	v := &v3{docs: map[docKey]*document{}}
	for i := range 100 {
		v.keep(docKey{path: fmt.Sprint(i)}, &document{body: make([]byte, 1<<20)})
	}
	if v.bytes > maxCached || len(v.docs) == 0 || len(v.docs)<<20 != v.bytes {
		t.Errorf("%d documents of %d bytes", len(v.docs), v.bytes)
	}
	v.keep(docKey{}, &document{body: make([]byte, maxCached+1)})
	if v.docs[docKey{}] != nil {
		t.Error("a document larger than the bound is kept")
	}
}
