package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/stack"
)

// bomb is gzip of many blanks: a thousandth of what it unpacks to.
func bomb(t *testing.T, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = io.CopyN(w, blanks{}, size)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' ' // which JSON and YAML skip
	}
	return len(p), nil
}

// aliases is YAML whose every line says the one before ten times.
func aliases() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\ndata:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

// aliasesOfText is YAML of a long text, and of many aliases that stand for it: gigabytes, of values that are read a few thousand times.
func aliasesOfText() string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb, annotations: {a: &a " + strings.Repeat("x", 1<<20) + "}}\nmore: [" +
		strings.TrimSuffix(strings.Repeat("*a,", 2000), ",") + "]\n"
}

// Bodies that are large, deep, or grow when they are read are refused, on every way to write and for the login; none makes the server large.
func TestABodyThatGrowsIsRefused(t *testing.T) {
	proves(t, "S56")
	p := newPassage(t)
	a := p.as(admin(t))
	const size = 256 << 20
	packed := string(bomb(t, size))
	copies := `[{"op":"add","path":"/metadata/annotations","value":{"a":"` + strings.Repeat("x", 100_000) + `"}}` +
		strings.Repeat(`,{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/b"}`, 2000) + `]`
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 20_000), ",") + "]"
	deep := func(open, end string) string { return strings.Repeat(open, 200_000) + strings.Repeat(end, 200_000) }
	large := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large"},"data":{"a":"` + strings.Repeat("x", 3<<20) + `"}}`
	numbers := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","generation":1` + strings.Repeat("0", 1<<20) + `}}`
	bodies := []struct{ name, media, body, encoding string }{
		{"a bomb in gzip", "application/json", packed, "gzip"}, {"a bomb in gzip, as YAML", "application/yaml", packed, "gzip"}, {"a bomb in x-gzip",
			"application/json", packed, "x-gzip"}, {"a bomb in deflate", "application/json", packed, "deflate"}, {"two codings", "application/json", packed,
			"gzip, gzip"},
		{"aliases", "application/yaml", aliases(), ""}, {"depth", "application/json", `{"a":` + deep("[", "]") + `}`, ""}, {"depth of objects",
			"application/json", deep(`{"a":`, "}"), ""}, {"depth of YAML", "application/yaml", "a: " + deep("[", "]"), ""}, {"depth that never ends",
			"application/json", strings.Repeat("[", 1<<20), ""},
		{"more than 3 MiB", "application/json", large, ""}, {"a long number", "application/json", numbers, ""}, {"YAML that is said to be JSON",
			"application/json", aliases(), ""},
	}
	patches := []struct{ media, body string }{
		{"application/json-patch+json", copies}, {"application/json-patch+json", many}, {"application/json-patch+json", deep("[", "]")},
		{"application/merge-patch+json", deep(`{"a":`, "}")}, {"application/strategic-merge-patch+json", deep(`{"a":`, "}")},
		{"application/apply-patch+yaml", aliases()}, {"application/apply-patch+yaml", "a: " + deep("[", "]")}, {"application/merge-patch+json", packed},
		{"application/json-patch+json", large},
	}
	maps := "/namespaces/" + p.ns + "/configmaps"
	a.create(t, "/api/v1"+maps, obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "target"}})
	check := func(what string, c caller, method, path string, body any, headers ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := c.do(ctx, method, path, body, headers...)
		if ctx.Err() != nil || err == nil && (r.code < 400 || r.code >= 500) {
			t.Errorf("%s: %s %s = %d %s %v", what, method, path, r.code, clip(r.body), err)
		}
	}
	before := memory(t, p.replica.PID)
	for _, b := range bodies {
		for _, path := range []string{"/api/v1" + maps, "/kapi/v1" + maps, "/kapi/v1" + maps + "?dryRun=All", iamRoutes + "/users", iamRoutes +
			"/clustermembers", iamRoutes + "/namespaces/" + p.ns + "/namespacemembers", older + "/git/verify",
			"/kapis/iam.kubesphere.io/v1beta1/subjectaccessreviews", storeAPI + "/apps", storeAPI + "/repos?validate=true", storeAPI + "/attachments",
			"/oauth/authenticate", "/oauth/token"} {
			headers := []string{"Content-Type: " + b.media}
			if b.encoding != "" {
				headers = append(headers, "Content-Encoding: "+b.encoding)
			}
			check(b.name, a, http.MethodPost, path, b.body, headers...)
		}
		check(b.name, a, http.MethodPut, "/kapi/v1"+maps+"/target", b.body, "Content-Type: "+b.media)
		check(b.name+" without a length", a, http.MethodPost, "/kapi/v1"+maps, unsized(b.body), "Content-Type: "+b.media)
	}
	for _, b := range patches {
		for _, path := range []string{"/api/v1" + maps + "/target", "/kapi/v1" + maps + "/target", iamRoutes + "/users/" + p.name,
			"/apis/iam.kubesphere.io/v1beta1/users/" + p.name} {
			check("a patch of "+b.media, a, http.MethodPatch, path+"?fieldManager=x", b.body, "Content-Type: "+b.media)
		}
	}
	// What comes by /api is for kube-apiserver to read.
	for _, path := range []string{"/kapi/v1" + maps, "/kapi/v1" + maps + "?dryRun=All", "/apis/query.kapis.dev/v1alpha1/queries"} {
		check("aliases of a long text", a, http.MethodPost, path, aliasesOfText(), "Content-Type: application/yaml")
	}
	check("aliases of a long text, applied", a, http.MethodPatch, "/kapi/v1"+maps+"/target?fieldManager=x", aliasesOfText(),
		"Content-Type: application/apply-patch+yaml")
	check("a form", caller{base: a.base}, http.MethodPost, "/oauth/token", "grant_type=password&username="+strings.Repeat("x", 4<<20),
		"Content-Type: application/x-www-form-urlencoded")
	check("a form of many fields", caller{base: a.base}, http.MethodPost, "/oauth/token", strings.Repeat("a=&", 500_000),
		"Content-Type: application/x-www-form-urlencoded")
	check("a packed form", caller{base: a.base}, http.MethodPost, "/oauth/token", packed, "Content-Type: application/x-www-form-urlencoded",
		"Content-Encoding: gzip")
	if after := memory(t, p.replica.PID); after-before > size { // one that had been unpacked
		t.Errorf("it has grown from %d to %d MiB", before>>20, after>>20)
	}
}

// unsized hides the length of a body.
func unsized(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }

func memory(t *testing.T, pid int) int64 {
	t.Helper()
	n, err := stack.RSS(pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// An answer from elsewhere that grows when it is unpacked is given up where its bound is.
func TestAnAnswerThatGrowsIsGivenUp(t *testing.T) {
	proves(t, "S56")
	const size = 512 << 20
	packed := bomb(t, size)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed)
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	pid, ok := product.Process("ks-apiserver")
	if !ok {
		t.Fatal("no ks-apiserver runs")
	}
	a, ns, before := admin(t), newNamespace(t), memory(t, pid)
	for _, q := range asksElsewhere(ns, u.Host) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, err := a.do(ctx, q.method, q.path, q.body)
		if err != nil || r.code >= 500 && r.code != http.StatusBadGateway && r.code != http.StatusGatewayTimeout {
			t.Errorf("%s: %d %s %v", q.path, r.code, clip(r.body), err)
		}
		cancel()
	}
	if after := memory(t, pid); after-before > size/2 {
		t.Errorf("it has grown from %d to %d MiB", before>>20, after>>20)
	}
}
