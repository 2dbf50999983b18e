package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	clocktesting "k8s.io/utils/clock/testing"
)

var shop = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

const shopBase = "/kapis/shop.example.com/v1"

// shopDocument describes a path of its own, others that it has no right to, and a kind that has the name of one of Kubernetes.
const shopDocument = `{"swagger":"2.0","info":{"title":"shop","version":"1"},"produces":["application/json"],
 "securityDefinitions":{"key":{"type":"apiKey","name":"k","in":"header"}},"security":[{"key":[]}],
 "paths":{
  "/kapis/shop.example.com/v1/orders":{"get":{"operationId":"list","security":[{"key":[]}],
    "responses":{"200":{"description":"ok","schema":{"$ref":"#/definitions/io.k8s.Pod"}},"404":{"$ref":"#/responses/none"}}},
   "parameters":[{"$ref":"#/parameters/page"}]},
  "/kapis/shop.example.com/v1beta1/orders":{"get":{"responses":{"200":{"description":"not its own"}}}},
  "/kapis/shop.example.com/v10":{"get":{"responses":{"200":{"description":"not its own"}}}},
  "/kapis/iam.kubesphere.io/v1beta1/users":{"get":{"responses":{"200":{"description":"not its own"}}}},
  "/api/":{"get":{"responses":{"200":{"description":"not its own"}}}}},
 "parameters":{"page":{"name":"page","in":"query","type":"integer"}},
 "responses":{"none":{"description":"there is none"}},
 "definitions":{"io.k8s.Pod":{"type":"object","properties":{"part":{"$ref":"#/definitions/a~1b"},"most":{"type":"integer","maximum":9223372036854775807}}},
  "a/b":{"type":"object","properties":{"whole":{"$ref":"#/definitions/io.k8s.Pod"}}},
  "unused":{"type":"object"}}}`

// backend is one that has a document.
type backend struct {
	mu       sync.Mutex
	document string
	etag     string
	err      error
	asked    int
	tags     []string
}

func (b *backend) set(document, etag string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.document, b.etag, b.err = document, etag, err
}

func (b *backend) get(_ context.Context, etag string) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	b.tags = append(b.tags, etag)
	if etag != "" && etag == b.etag {
		return nil, etag, b.err
	}
	return []byte(b.document), b.etag, b.err
}

// shops starts a server with backends, which list returns.
func shops(t *testing.T, k *kube, list func() []Extension) (*Handler, string, *clocktesting.FakeClock) {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
	h, err := New(Options{Config: &rest.Config{Host: k.URL}, WebServices: services(), Title: "ks-apiserver", Version: "v4.1.0",
		Now: c.Now, Extensions: list})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return h, srv.URL, c
}

func oneShop(b *backend) func() []Extension {
	return func() []Extension { return []Extension{{GroupVersion: shop, Root: "/kapis", Backend: b, Get: b.get}} }
}

// settle waits until the backends that are asked now have answered.
func settle(t *testing.T, h *Handler) {
	t.Helper()
	own, err := h.extensions.own()
	if err != nil {
		t.Fatal(err)
	}
	done, _ := h.extensions.refresh(own)
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-t.Context().Done():
		t.Fatal("the backends do not answer")
	}
}

func TestX11DocumentsHaveThePartsOfExtensions(t *testing.T) {
	b := &backend{document: shopDocument}
	h, url, _ := shops(t, newKube(t), oneShop(b))
	settle(t, h)
	_, body := fetch(t, url+"/openapi/v2")
	var s spec.Swagger
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	orders, ok := s.Paths.Paths[shopBase+"/orders"]
	if !ok || orders.Get.ID != "shop.example.com_v1_list" || len(orders.Get.Security) > 0 || !slices.Equal(orders.Get.Produces, []string{"application/json"}) {
		t.Errorf("%+v", orders)
	}
	for _, foreign := range []string{"/kapis/shop.example.com/v1beta1/orders", "/kapis/shop.example.com/v10", "/kapis/iam.kubesphere.io/v1beta1/users"} {
		if _, ok := s.Paths.Paths[foreign]; ok {
			t.Errorf("an extension describes %s", foreign)
		}
	}
	if s.Paths.Paths["/api/"].Get != nil {
		t.Error("an extension describes a path of kube-apiserver")
	}
	for _, name := range []string{"io.k8s.Pod", "shop.example.com_v1_io.k8s.Pod", "shop.example.com_v1_a/b"} {
		if _, ok := s.Definitions[name]; !ok {
			t.Errorf("there is no definition %s", name)
		}
	}
	if bytes.Contains(body, []byte("unused")) || !bytes.Contains(body, []byte("9223372036854775807")) || bytes.Contains(body, []byte("securityDefinitions")) {
		t.Error("it has what nothing refers to, or a number is another one")
	}
	routes, of := h.Routes(t.Context())
	if again, still := h.Routes(t.Context()); len(again) != 1 || still != of {
		t.Errorf("routes that are the same: %v", again)
	}
	if len(routes) != 1 || len(routes[shop]) != 1 || routes[shop][0].Asks().Resource != "orders" || routes[shop][0].Asks().Verb != "list" {
		t.Errorf("its routes are %+v", routes)
	}
	if s.Responses["shop.example.com_v1_none"].Description == "" || s.Parameters["shop.example.com_v1_page"].Name != "page" {
		t.Errorf("%v %v", s.Responses, s.Parameters)
	}
	parsed, err := openapi_v2.ParseDocument(body)
	if err != nil {
		t.Fatal(err)
	}
	_, binary := fetch(t, url+"/openapi/v2", "Accept", asProtobuf.mediaType("v2"))
	d := &openapi_v2.Document{}
	if err := proto.Unmarshal(binary, d); err != nil || len(d.Paths.Path) != len(parsed.Paths.Path) ||
		len(d.Definitions.AdditionalProperties) != len(parsed.Definitions.AdditionalProperties) || len(d.Responses.AdditionalProperties) != 1 {
		t.Errorf("as protobuf it is another one: %v", err)
	}

	_, index := fetch(t, url+"/openapi/v3")
	var list indexJSON
	if err := json.Unmarshal(index, &list); err != nil {
		t.Fatal(err)
	}
	res, body := fetch(t, url+list.Paths[strings.TrimPrefix(shopBase, "/")].ServerRelativeURL)
	var v3 spec3.OpenAPI
	if err := json.Unmarshal(body, &v3); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", res.StatusCode, err)
	}
	if v3.Paths.Paths[shopBase+"/orders"] == nil || len(v3.Paths.Paths) != 1 || v3.Components.Schemas["shop.example.com_v1_io.k8s.Pod"] == nil {
		t.Errorf("%s", body)
	}
}

func TestX11WhatIsNoDocumentIsLeftOut(t *testing.T) {
	path := func(operation string) string {
		return `{"swagger":"2.0","info":{"title":"a","version":"1"},"paths":{"` + shopBase + `/a":` + operation + `},
			"definitions":{"D":{"type":"object"}}}`
	}
	to := func(ref string) string {
		return path(`{"get":{"responses":{"200":{"description":"a","schema":{"$ref":"` + ref + `"}}}}}`)
	}
	plain, err := describe(shop, "/kapis", []byte(to("#/definitions/D")))
	if err != nil || plain == nil {
		t.Fatal(err)
	}
	if body := plain.v3[strings.TrimPrefix(shopBase, "/")].json.body; !bytes.Contains(body, []byte(`"application/json":{"schema":{"$ref"`)) {
		t.Errorf("without a media type it has no schema: %s", body)
	}
	for name, document := range map[string]string{
		"no JSON": "<html>", "null": "null", "a list": "[]", "another version": `{"openapi":"3.0.0"}`, "cut off": shopDocument[:300],
		"an item that is none": path(`"a"`), "an operation that is none": path(`{"get":1}`), "a type that is none": path(`{"get":{"responses":7}}`),
		"an address": to("https://example.com/a.json#/D"), "a file": to("/etc/passwd"), "nothing": to("#/definitions/E"), "a path": to("#/paths"),
		"an empty name": to("#/definitions/"), "too deep": path(strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)),
	} {
		if d, err := describe(shop, "/kapis", []byte(document)); err == nil {
			t.Errorf("%s: it is taken: %+v", name, d)
		} else if len(err.Error()) > 400 {
			t.Errorf("%s: the error has %d letters", name, len(err.Error()))
		}
	}
	if d, err := describe(shop, "/kapis", []byte(`{"swagger":"2.0","paths":{"/healthz":{}}}`)); d != nil || err != nil {
		t.Errorf("paths of others: %v %v", d, err)
	}
}

// A server that is built with k8s.io/apiserver has its groups below /apis: here they are below /kapis, in its document too.
func TestX11TheRootOfABackendIsItsOwn(t *testing.T) {
	d, err := describe(shop, "/apis", []byte(strings.ReplaceAll(shopDocument, `"/kapis/`, `"/apis/`)))
	if err != nil || d == nil {
		t.Fatal(err)
	}
	if paths := d.v2.Paths.GetPath(); len(paths) != 1 || paths[0].Name != shopBase+"/orders" {
		t.Errorf("%v", paths)
	}
	if d, err := describe(shop, "/apis", []byte(shopDocument)); d != nil || err != nil {
		t.Errorf("paths that are not below its root: %v %v", d, err)
	}
}

func FuzzADocumentOfABackend(f *testing.F) {
	f.Add(shopDocument)
	f.Add(`{"swagger":"2.0","paths":{"` + shopBase + `":{"get":{"responses":{}},"parameters":[{"$ref":"#/parameters/a"}]}},
		"parameters":{"a":{"$ref":"#/parameters/a"}}}`)
	f.Fuzz(func(t *testing.T, document string) {
		d, err := describe(shop, "/kapis", []byte(document))
		if err != nil || d == nil {
			return
		}
		for _, p := range d.v2.Paths.GetPath() {
			if p.Name != shopBase && !strings.HasPrefix(p.Name, shopBase+"/") {
				t.Errorf("it describes %q", p.Name)
			}
		}
		for _, m := range d.v2Members {
			if !json.Valid([]byte("{" + string(m.text) + "}")) {
				t.Errorf("%s is not valid", m.of)
			}
		}
	})
}

func TestX11ABackendThatIsAwayKeepsItsPartForAWhile(t *testing.T) {
	k, b := newKube(t), &backend{document: shopDocument, etag: `"1"`}
	h, url, clock := shops(t, k, oneShop(b))
	has := func(at string) bool {
		settle(t, h)
		clock.Step(time.Second) // the joined document is as old as that
		_, body := fetch(t, url+at)
		return bytes.Contains(body, []byte("shop.example.com"))
	}
	if !has("/openapi/v2") || !has("/openapi/v3") {
		t.Fatal("it is not there")
	}
	clock.Step(extensionFreshFor)
	joined := current(t.Context(), t, h)
	settle(t, h)
	if b.tags[len(b.tags)-1] != `"1"` || current(t.Context(), t, h) != joined {
		t.Errorf("it is asked for %q, and what has not changed is joined again", b.tags)
	}
	b.set("", "", errors.New("gone"))
	clock.Step(extensionFreshFor)
	if !has("/openapi/v2") {
		t.Error("it is gone with the first answer that is none")
	}
	clock.Step(extensionStaleFor)
	if has("/openapi/v2") || has("/openapi/v3") {
		t.Error("it is there after 10 minutes")
	}
	b.set(shopDocument, `"1"`, nil)
	clock.Step(extensionFreshFor)
	if !has("/openapi/v2") {
		t.Error("it does not come back")
	}
	b.set("{}", `"2"`, nil)
	clock.Step(extensionFreshFor)
	if has("/openapi/v2") {
		t.Error("it has a document no more, and is there")
	}
}

// X11: an extension that is removed is in no document that is read later, whenever its backend was asked last; another one stays.
func TestX11AnExtensionThatIsRemovedIsInNoDocument(t *testing.T) {
	all := oneShop(&backend{document: shopDocument})()
	other := schema.GroupVersion{Group: "other.example.com", Version: "v1"}
	rest := &backend{document: strings.ReplaceAll(shopDocument, shop.Group, other.Group)}
	all = append(all, Extension{GroupVersion: other, Root: "/kapis", Backend: rest, Get: rest.get})
	var removed atomic.Bool
	h, url, clock := shops(t, newKube(t), func() []Extension {
		if removed.Load() {
			return all[1:]
		}
		return all
	})
	settle(t, h)
	for _, gone := range []bool{false, true} {
		removed.Store(gone)
		clock.Step(time.Second) // the joined document is as old as that
		_, body := fetch(t, url+"/openapi/v2")
		routes, _ := h.extensions.routes(t.Context())
		if bytes.Contains(body, []byte(shop.Group)) == gone || (routes[shop] == nil) != gone ||
			!bytes.Contains(body, []byte(other.Group)) || routes[other] == nil {
			t.Errorf("removed %v: %d routes, and %d of the other one", gone, len(routes[shop]), len(routes[other]))
		}
	}
}

// current returns the documents as they are now.
func current(ctx context.Context, t *testing.T, h *Handler) *documents {
	t.Helper()
	d, err := h.extensions.current(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDocumentsAreGeneratedWhenSomebodyAsks(t *testing.T) {
	h, url, _ := shops(t, newKube(t), nil)
	if h.extensions.joined != nil {
		t.Error("they are there before the first request")
	}
	if res, _ := fetch(t, url+"/openapi/v3"); res.StatusCode != http.StatusOK || h.extensions.joined == nil {
		t.Errorf("%s, and the documents are %v", res.Status, h.extensions.joined)
	}
}

func TestDocumentsThatCantBeGeneratedAreUnavailable(t *testing.T) {
	h, url, _ := shops(t, newKube(t), nil)
	h.extensions.own = func() (*documents, error) { return nil, errors.New("a type that can't be described") }
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/kapis"} {
		if res, body := fetch(t, url+path); res.StatusCode != http.StatusServiceUnavailable || bytes.Contains(body, []byte("described")) {
			t.Errorf("%s: %s %s", path, res.Status, body)
		}
	}
}

func TestX11NobodyWaitsForABackend(t *testing.T) {
	held := make(chan struct{})
	fine := &backend{document: shopDocument}
	slow := func(ctx context.Context, _ string) ([]byte, string, error) {
		select {
		case <-held:
		case <-ctx.Done():
		}
		return nil, "", errors.New("too late")
	}
	var all []Extension
	h, url, clock := shops(t, newKube(t), func() []Extension { return all })
	if res, _ := fetch(t, url+"/openapi/v2"); res.StatusCode != http.StatusOK {
		t.Fatal(res.StatusCode)
	}
	all = []Extension{{GroupVersion: shop, Root: "/kapis", Backend: fine, Get: fine.get},
		{GroupVersion: schema.GroupVersion{Group: "slow.example.com", Version: "v1"}, Root: "/kapis", Backend: &slow, Get: slow}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who waits no longer gets what there is
	if current(ctx, t, h) == nil {
		t.Error("there is nothing")
	}
	close(held)
	settle(t, h)
	clock.Step(time.Second)
	if _, body := fetch(t, url+"/openapi/v2"); !bytes.Contains(body, []byte(shopBase)) {
		t.Error("the part of one is missing as the other one has none")
	}
	all = all[1:]
	clock.Step(extensionFreshFor)
	current(t.Context(), t, h)
	settle(t, h)
	clock.Step(time.Second)
	if _, body := fetch(t, url+"/openapi/v2"); bytes.Contains(body, []byte(shopBase)) {
		t.Error("an extension that is gone is described")
	}
}
