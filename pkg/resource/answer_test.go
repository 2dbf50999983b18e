package resource

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/pkg/web"

	"k8s.io/apiserver/pkg/authentication/user"
)

// padded returns n pods of about size bytes, of text that hardly compresses.
func padded(n, size int) (objects []string) {
	noise := make([]byte, n+size)
	for i, x := range rand.New(rand.NewPCG(1, 1)).Perm(len(noise)) {
		noise[i] = "0123456789abcdef"[x%16]
	}
	for i := range n {
		objects = append(
			objects,
			fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%05d","namespace":"a","uid":"u%d","resourceVersion":"7"},"spec":{"pad":"%s"}}`,
				i, i, noise[i:i+size]),
		)
	}
	return objects
}

func respond(a web.Responder, method string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	a.Respond(rec, r)
	return rec
}

func (w *world) page(t testing.TB, k *store.Kind, raw string) *page.Page {
	t.Helper()
	p, err := w.list(t, k, plan.Scope{}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHeadersOfAnswers(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(20, 1500)}, Options{})
	k := w.resolve(t, "", "pods")
	o, err := w.Get(t.Context(), k, plan.Scope{Namespace: "a"}, "p00003")
	if err != nil {
		t.Fatal(err)
	}
	w.page(t, k, "limit=5")
	kept := w.page(t, k, "limit=5")
	if kept.Body == nil {
		t.Fatal("the second page of the same kind is not kept")
	}
	for name, a := range map[string]web.Responder{
		"Items": w.page(t, k, "limit=6").Items(), "List": w.page(t, k, "limit=7").List(), "Kept": kept.Items(),
		"Projected": w.page(t, k, "fields=.metadata.uid,.metadata.name").List(), "Object": o,
	} {
		t.Run(name, func(t *testing.T) {
			plain := respond(a, http.MethodGet)
			if plain.Code != 200 || !json.Valid(plain.Body.Bytes()) {
				t.Fatalf("%d %s", plain.Code, plain.Body)
			}
			for _, encoding := range []string{"", "gzip"} {
				get, head := respond(a, http.MethodGet, "Accept-Encoding", encoding), respond(a, http.MethodHead, "Accept-Encoding", encoding)
				h := get.Header()
				for header, want := range map[string]string{
					"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache",
					"Vary": "Authorization, Accept-Encoding", "Content-Encoding": encoding, "Content-Length": strconv.Itoa(get.Body.Len()),
					"ETag": plain.Header().Get("ETag"), "X-Kapis-Partial": "",
				} {
					if h.Get(header) != want || head.Header().Get(header) != want {
						t.Errorf("%s %s: %q, and %q of HEAD, want %q", encoding, header, h.Get(header), head.Header().Get(header), want)
					}
				}
				body := get.Body.Bytes()
				if encoding != "" {
					body = gunzip(t, body)
				}
				if string(body) != plain.Body.String() || head.Body.Len() != 0 {
					t.Errorf("%s: %s, of HEAD %s", encoding, body, head.Body)
				}
				not := respond(a, http.MethodGet, "Accept-Encoding", encoding, "If-None-Match", `"x", `+h.Get("ETag"))
				if not.Code != 304 || not.Body.Len() != 0 || not.Header().Get("ETag") != h.Get("ETag") || not.Header().Get("Vary") != h.Get("Vary") ||
					not.Header().Get("Cache-Control") != h.Get("Cache-Control") || not.Header().Get("Content-Length") != "" {
					t.Errorf("%d %v", not.Code, not.Header())
				}
			}
		})
	}
}

func TestSmallAnswersStayPlain(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(1, 100)}, Options{})
	for range 3 {
		if rec := respond(w.page(t, w.resolve(t, "", "pods"), "").Items(), http.MethodGet, "Accept-Encoding", "gzip"); rec.Header().Get("Content-Encoding") != "" {
			t.Error("compressed")
		}
	}
}

func TestPartialListsSaySo(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(1, 100)}, Options{})
	p, err := w.list(t, w.resolve(t, "", "pods"), plan.Scope{PartialList: &authz.PartialList{Namespaces: []string{"a"}, Key: "k"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if rec := respond(p.List(), http.MethodGet); rec.Header().Get("X-Kapis-Partial") != "true" {
		t.Errorf("%v", rec.Header())
	}
}

// S1: a caller who sees a few fields of all objects sees no others in a Table, among keys, or by a tag that moves with them.
func TestAReducedListShowsNothingElseInAnyForm(t *testing.T) {
	const path = "/apis/iam.kubesphere.io/v1beta1/users"
	bob := func(version, login string) string {
		return `{"kind":"User","apiVersion":"iam.kubesphere.io/v1beta1","metadata":{"name":"bob","uid":"hidden","resourceVersion":"` + version +
			`","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"origin":"hidden"},"annotations":{"changed":"hidden","kubesphere.io/alias-name":"Bob"}},` +
			`"spec":{"email":"hidden"},"status":{"state":"Active","lastLoginTime":"` + login + `"}}`
	}
	all := storetest.Kinds{
		{Group: "iam.kubesphere.io", Version: "v1beta1"}: storetest.Cluster("users User"),
		{Group: "apiextensions.k8s.io", Version: "v1"}:   storetest.Cluster("customresourcedefinitions CustomResourceDefinition"),
	}
	w := openWorld(t, map[string][]string{path: {bob("5", "2026-11-27T08:00:00Z")}, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
		`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"users.iam.kubesphere.io","uid":"c",` +
			`"resourceVersion":"3"},"spec":{"versions":[{"name":"v1beta1","additionalPrinterColumns":[{"jsonPath":".spec.email","name":"Email",` +
			`"type":"string"},{"jsonPath":".status.lastLoginTime","name":"Login","type":"string"},{"jsonPath":".status.state","name":"State","type":"string"}]}]}}`,
	}}, Options{}, store.Options{Discovery: all, VersionWait: 2 * time.Minute})
	k := w.resolve(t, "iam.kubesphere.io", "users")
	annotated := func(p *page.Page, _ string) *page.Answer {
		return p.AnnotatedAt([]string{"role"}, func(int) []string { return []string{"hidden"} }).List()
	}
	answer := func(raw, accept string, form Form) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		nothing, _ := query.Parse(nil)
		v, err := w.Answer(r, &Listing{Kind: k, Query: nothing, Scope: plan.Scope{PartialList: &authz.PartialList{Key: "k"}}, Form: form,
			BeforePage: func(l *Listing) (err error) {
				values, _ := url.ParseQuery(raw)
				l.Query, err = query.Parse(values)
				l.Query.Reduced, l.Query.Project = true, []query.Path{{"kind"}, {"metadata", "name"}, {"metadata", "annotations", "kubesphere.io/alias-name"},
					{"status", "state"}}
				l.Scope.PartialList = nil
				return err
			}})
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		web.Write(rec, r, v, nil)
		return rec
	}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	forms := []struct {
		raw, accept string
		form        Form
	}{
		{"", "application/json", Items}, {"", "application/json", annotated}, {"", table, Items}, {"includeObject=Object", table, Items},
		{"includeObject=None", table, Items}, {"view=keys&limit=1&sortBy=name", "application/json", Items},
		{"view=keys&limit=1&objects=1&sortBy=name", "application/json", Items},
	}
	var tags []string
	for round := range 3 { // not cached, cached, changed
		if round == 2 {
			w.send(path, "MODIFIED", bob("2000", "2026-11-28T08:00:00Z"))
			w.page(t, k, "resourceVersion=2000")
		}
		for i, f := range forms {
			got := answer(f.raw, f.accept, f.form)
			body := got.Body.String()
			for _, private := range []string{"hidden", "2026-11", `"email"`, `"5"`, "2026-01-01"} {
				if strings.Contains(body, private) {
					t.Errorf("%q as %s shows %s: %s", f.raw, f.accept, private, body)
				}
			}
			if got.Code != http.StatusOK || !strings.Contains(body, "bob") {
				t.Errorf("%q as %s: %d %s", f.raw, f.accept, got.Code, body)
			}
			if tag := got.Header().Get("ETag"); round == 0 {
				tags = append(tags, tag)
			} else if tag != tags[i] {
				t.Errorf("%q as %s: a change of what is not shown moves the tag", f.raw, f.accept)
			}
		}
	}
	if whole := respond(w.page(t, k, "").Items(), http.MethodGet); !strings.Contains(whole.Body.String(), "hidden") {
		t.Errorf("who may list them sees less: %s", whole.Body)
	}
}

// The tag does not change with other objects, and changes with what the page shows.
func TestTagsFollowThePage(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(30)}, Options{})
	k := w.resolve(t, "", "pods")
	tag := func(raw string) string { return respond(w.page(t, k, raw).List(), http.MethodGet).Header().Get("ETag") }
	const page = "limit=5&sortBy=name&ascending=true"
	before := tag(page)
	w.send(podsPath, "MODIFIED", changed(20, 2000, ""))
	if tag(page+"&resourceVersion=2000") != before {
		t.Error("a change on another page has moved the tag")
	}
	w.send(podsPath, "MODIFIED", changed(2, 2001, ""))
	second := tag(page + "&resourceVersion=2001")
	w.send(podsPath, "DELETED", changed(20, 2002, ""))
	third := tag(page + "&resourceVersion=2002")
	if second == before || third == second {
		t.Error("an item, or the total, has changed, and the tag has not")
	}
	seen := map[string]string{}
	p := w.page(t, k, page)
	for name, other := range map[string]string{
		"list": third, "items": respond(p.Items(), http.MethodGet).Header().Get("ETag"), "fields": tag(page + "&fields=.metadata.name"),
		"other fields": tag(page + "&fields=.metadata.uid"),
		"facets":       tag(page + "&facets=.status.phase"), "other facets": tag(page + "&facets=.metadata.namespace"), "next page": tag(page + "&page=2"),
		"other direction": tag("limit=5&sortBy=name"),
	} {
		if seen[other] != "" {
			t.Errorf("%s and %s have one tag", name, seen[other])
		}
		seen[other] = name
	}
}

func TestPagesAreKeptFromTheSecondTimeOnWhileTheyAreTheSame(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(50, 2000)}, Options{})
	k := w.resolve(t, "", "pods")
	const raw = "limit=10&sortBy=name&ascending=true"
	if w.page(t, k, raw).Body != nil {
		t.Error("kept at once")
	}
	kept := w.page(t, k, raw).Body
	if kept == nil || w.page(t, k, raw).Body != kept {
		t.Fatal("not kept")
	}
	p := w.page(t, k, raw)
	if w.pages.Size() < p.Bytes {
		t.Errorf("%d bytes are counted for the records of a page of %d", w.pages.Size(), p.Bytes)
	}
	respond(p.Items(), http.MethodGet)
	respond(p.List(), http.MethodGet, "Accept-Encoding", "gzip")
	if kept.Text == nil || kept.Deflated == nil || w.pages.Size() < 2*p.Bytes {
		t.Errorf("%d bytes are counted for a page of %d", w.pages.Size(), p.Bytes)
	}
	w.send(podsPath, "MODIFIED", strings.Replace(padded(41, 2000)[40], `"resourceVersion":"7"`, `"resourceVersion":"2000"`, 1))
	if w.page(t, k, raw+"&resourceVersion=2000").Body != kept {
		t.Error("a change of another page has ended it")
	}
	w.send(podsPath, "MODIFIED", strings.Replace(padded(4, 2000)[3], `"resourceVersion":"7"`, `"resourceVersion":"2001"`, 1))
	if p = w.page(t, k, raw+"&resourceVersion=2001"); p.Body != nil || w.pages.Size() > 10*512 {
		t.Errorf("a page that has changed is kept: %d bytes", w.pages.Size())
	}
	if !strings.Contains(respond(p.Items(), http.MethodGet).Body.String(), `"resourceVersion":"2001"},"spec"`) {
		t.Error("the page is not of the moment")
	}
}

// U8: a page that is kept counts its facets and keys, also where these have changed and its objects have not.
func TestKeptPagesCountTheirFacetsAndKeys(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(300, 250)}, Options{})
	k := w.resolve(t, "", "pods")
	for _, c := range []struct {
		raw  string
		most int64
		cost func(*page.Page) int
	}{
		{"limit=0&facets=.spec.pad", 60_000, func(p *page.Page) int { return len(p.Facets) }},
		{"limit=300&view=keys&sortBy=.spec.pad", 300_000, func(p *page.Page) int { return 250 * len(p.Keys) }},
	} {
		before := w.pages.Size()
		w.page(t, k, c.raw)
		p := w.page(t, k, c.raw)
		if counted, cost := w.pages.Size()-before, int64(c.cost(p)); p.Body == nil || cost < 60_000 || counted < cost {
			t.Errorf("%s: %d bytes are counted of %d", c.raw, counted, cost)
		}
	}
	before, raw := w.pages.Size(), "limit=0&facets=.spec.pad&resourceVersion="
	for i := range 100 {
		w.send(podsPath, "DELETED", strings.Replace(padded(300, 250)[i], `"resourceVersion":"7"`, fmt.Sprintf(`"resourceVersion":"%d"`, 2000+i), 1))
	}
	w.page(t, k, raw+"2099")
	if less := before - w.pages.Size(); less < 20_000 {
		t.Errorf("a third of the facets is gone, and %d bytes are", less)
	}
}

func TestLongListsAreNotKeptAndCompressedOnTheirWay(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(1200, 4000)}, Options{})
	k := w.resolve(t, "", "pods")
	for range 2 {
		p := w.page(t, k, "")
		if p.Bytes <= 4<<20 || p.Body != nil {
			t.Fatalf("%d bytes, kept: %v", p.Bytes, p.Body)
		}
		rec := respond(p.List(), http.MethodGet, "Accept-Encoding", "gzip")
		if rec.Header().Get("Content-Encoding") != "gzip" || rec.Header().Get("Content-Length") != "" {
			t.Fatalf("%v", rec.Header())
		}
		if body := gunzip(t, rec.Body.Bytes()); string(body) != respond(p.List(), http.MethodGet).Body.String() {
			t.Error("not the same")
		}
	}
	for range 2 * runtime.GOMAXPROCS(0) { // all compressors in use: the answer is not compressed
		if w.pages.Responses().Compressors.Get() == nil {
			t.Fatal("a compressor was not given back")
		}
	}
	for _, raw := range []string{"", "limit=3", "limit=3", "limit=3", "fields=.spec"} {
		if rec := respond(w.page(t, k, raw).List(), http.MethodGet, "Accept-Encoding", "gzip"); rec.Code != 200 || rec.Header().Get("Content-Encoding") != "" ||
			!json.Valid(rec.Body.Bytes()) {
			t.Errorf("%s: %d %v", raw, rec.Code, rec.Header())
		}
	}
}

// U8.
func TestBytesInFlightAreBounded(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(1000, 10_000)}, Options{MaxInFlight: 12 << 20, MaxBytes: 8 << 20})
	k := w.resolve(t, "", "pods")
	answer := func(raw string, header ...string) (int, http.Header) {
		rec := respond(w.page(t, k, raw).List(), http.MethodGet, header...)
		return rec.Code, rec.Header()
	}
	const large, medium, small = "limit=700", "limit=100", "limit=5"
	if code, h := answer(""); code != http.StatusRequestEntityTooLarge || h.Get("ETag") != "" {
		t.Errorf("10 MB at once: %d %v", code, h)
	}
	if code, _ := answer("fields=.metadata"); code != 200 {
		t.Errorf("little of everything: %d", code)
	}
	if code, _ := answer("fields=.spec,.metadata"); code != http.StatusRequestEntityTooLarge {
		t.Errorf("all of everything: %d", code)
	}
	idle := room(w.pages.Responses())
	others := w.pages.Responses().Reserve(as(t, "ann"))
	if err := others.Add(5 << 20); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]int{large: 429, medium: 200, small: 200} {
		for range 3 { // plain, cached, compressed
			if code, h := answer(raw); code != want || want == 429 && h.Get("Retry-After") != "1" {
				t.Errorf("beside 5 MiB, %s: %d %v", raw, code, h)
			}
		}
	}
	more := w.pages.Responses().Reserve(as(t, "bob"))
	for n := 0; n < 4 && more.Add(1<<20) == nil; n++ { //nolint:revive // until it is full
	}
	last := w.pages.Responses().Reserve(as(t, "bob"))
	for last.Add(512<<10) == nil { //nolint:revive // until it is full
	}
	for raw, want := range map[string]int{medium: 429, small: 200} {
		if code, _ := answer(raw); code != want {
			t.Errorf("full, %s: %d", raw, code)
		}
	}
	others.Release()
	more.Release()
	last.Release()
	if code, _ := answer(large); code != 200 || room(w.pages.Responses()) != idle {
		t.Errorf("%d, there is room for %d answers instead of %d", code, room(w.pages.Responses()), idle)
	}
}

func TestAnAnswerThatMayBePasses(t *testing.T) {
	if o := (Options{MaxBytes: 1 << 40}).withDefaults(); o.MaxBytes > o.MaxInFlight*3/4 || o.MaxItems != DefaultMaxItems {
		t.Errorf("%+v: an answer that may be would never pass", o)
	}
}

// as returns the context of a user's request.
func as(t testing.TB, name string) context.Context {
	return request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
}

// room returns how many answers of 64 KiB, the smallest that count, may still begin to be written.
func room(s *httpcache.Responses) (n int) {
	for ; ; n++ {
		f := s.Reserve(context.Background())
		if f.Add(64<<10) != nil {
			return n
		}
		defer f.Release()
	}
}

// gunzip reads exactly one member of gzip.
func gunzip(t testing.TB, b []byte) []byte {
	t.Helper()
	in := bytes.NewReader(b)
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	out, err := io.ReadAll(r)
	if err != nil || in.Len() != 0 {
		t.Fatalf("%v, %d bytes behind the end", err, in.Len())
	}
	return out
}
