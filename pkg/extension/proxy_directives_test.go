package extension_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
)

func compile(t *testing.T, d v1alpha1.Directives) *extension.Directives {
	t.Helper()
	out, err := extension.Compile(&d)
	if err != nil {
		t.Fatalf("%+v: %v", d, err)
	}
	return out
}

func TestDirectivesDoWhatTheySay(t *testing.T) { // X4
	for name, c := range map[string]struct {
		d        v1alpha1.Directives
		in, want string // METHOD path?query
	}{
		"Nothing":          {v1alpha1.Directives{}, "GET /proxy/a/b?x=%2F", "GET /proxy/a/b?x=%2F"},
		"Method":           {v1alpha1.Directives{Method: "post"}, "GET /proxy/a", "POST /proxy/a"},
		"StripPrefix":      {v1alpha1.Directives{StripPathPrefix: "/proxy/a"}, "GET /proxy/a/b", "GET /b"},
		"StripAll":         {v1alpha1.Directives{StripPathPrefix: "/proxy/a"}, "GET /proxy/a", "GET /"},
		"StripPart":        {v1alpha1.Directives{StripPathPrefix: "/proxy/a/"}, "GET /proxy/a/b", "GET /b"},
		"StripNothing":     {v1alpha1.Directives{StripPathPrefix: "/other"}, "GET /proxy/a", "GET /proxy/a"},
		"StripSuffix":      {v1alpha1.Directives{StripPathSuffix: ".json"}, "GET /proxy/a.json", "GET /proxy/a"},
		"RewriteAll":       {v1alpha1.Directives{Rewrite: []string{"* /x{path}"}}, "GET /proxy/a?q=1", "GET /x/proxy/a?q=1"},
		"RewriteQuery":     {v1alpha1.Directives{Rewrite: []string{"* ?a=b&{query}"}}, "GET /proxy/a?q=1", "GET /proxy/a?a=b&q=1"},
		"RewriteNoQuery":   {v1alpha1.Directives{Rewrite: []string{"* ?a=b&{http.request.uri.query}"}}, "GET /proxy/a", "GET /proxy/a?a=b"},
		"RewritePrefix":    {v1alpha1.Directives{Rewrite: []string{"/proxy/A/* /new"}}, "GET /proxy/a/b", "GET /new"},
		"RewriteSuffix":    {v1alpha1.Directives{Rewrite: []string{"*.JSON /new"}}, "GET /proxy/b.json", "GET /new"},
		"RewriteContained": {v1alpha1.Directives{Rewrite: []string{"*mid* /new"}}, "GET /proxy/amidb", "GET /new"},
		"RewriteGlob":      {v1alpha1.Directives{Rewrite: []string{"/proxy/*/x /new"}}, "GET /proxy/b/x", "GET /new"},
		"RewriteGlobStops": {v1alpha1.Directives{Rewrite: []string{"/proxy/*/x /new"}}, "GET /proxy/b/c/x", "GET /proxy/b/c/x"},
		"RewriteFragment":  {v1alpha1.Directives{Rewrite: []string{"* /new#part"}}, "GET /proxy/a", "GET /new"},
		"RewriteInOrder":   {v1alpha1.Directives{Rewrite: []string{"/proxy/* /one", "/one /two"}}, "GET /proxy/a", "GET /two"},
		"Replace":          {v1alpha1.Directives{Replace: []string{"a bb"}}, "GET /proxy/a/a?a=1", "GET /proxy/bb/bb?bb=1"},
		"ReplaceByNothing": {v1alpha1.Directives{Replace: []string{"/proxy "}}, "GET /proxy/a", "GET /proxy/a"},
		"PathRegexp":       {v1alpha1.Directives{PathRegexp: []string{`^/proxy/v(\d+)/ /version-$1/`}}, "GET /proxy/v12/x", "GET /version-12/x"},
		"InOrder": {v1alpha1.Directives{StripPathPrefix: "/proxy/a", Rewrite: []string{"/b /c"}, Replace: []string{"c d"}, PathRegexp: []string{"d e"}},
			"GET /proxy/a/b", "GET /e"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "ReplaceByNothing" { // a blank at the end is not there for YAML, nor here
				if _, err := extension.Compile(&c.d); err == nil {
					t.Error("a text without what replaces it compiles")
				}
				return
			}
			method, rest, _ := strings.Cut(c.in, " ")
			path, query, _ := strings.Cut(rest, "?")
			got, err := compile(t, c.d).Apply(extension.Target{Method: method, Path: path, Query: query})
			if err != nil {
				t.Fatal(err)
			}
			text := got.Method + " " + got.Path
			if got.Query != "" {
				text += "?" + got.Query
			}
			if text != c.want {
				t.Errorf("%s, want %s", text, c.want)
			}
		})
	}
}

func TestDirectivesReachNoOtherPathThanTheyName(t *testing.T) { // X4
	for _, d := range []v1alpha1.Directives{
		{Replace: []string{"x ."}}, {Rewrite: []string{"* /a/../b"}}, {PathRegexp: []string{"^/proxy /.."}}, {Rewrite: []string{"* //evil.example/"}},
		{PathRegexp: []string{`^ http://evil.example`}}, {Replace: []string{`proxy \`}},
	} {
		got, err := compile(t, d).Apply(extension.Target{Method: "GET", Path: "/proxy/xx/secret"})
		if err == nil {
			t.Errorf("%+v makes %q", d, got)
		}
	}
}

// X4: directives that repeat what they get make nothing that is larger than a request may be.
func TestX4DirectivesDoNotMultiply(t *testing.T) {
	times := func(n int, s string) []string { return slices.Repeat([]string{s}, n) }
	long := "/" + strings.Repeat("a/", 4000)
	for name, c := range map[string]struct {
		d           v1alpha1.Directives
		path, query string
	}{
		"replace":           {v1alpha1.Directives{Replace: times(64, "/ //")}, "/proxy/x/", ""},
		"replace in query":  {v1alpha1.Directives{Replace: times(64, "a aa")}, "/", "a=a"},
		"replace at once":   {v1alpha1.Directives{Replace: []string{"/ " + strings.Repeat("a", 4000)}}, long, ""},
		"rewrite":           {v1alpha1.Directives{Rewrite: times(64, "* {path}{http.request.uri.path}")}, "/proxy/x/", ""},
		"rewrite the query": {v1alpha1.Directives{Rewrite: times(64, "* ?{query}{http.request.uri.query}")}, "/proxy/x/", "a=b"},
		"path into query":   {v1alpha1.Directives{Rewrite: []string{"* ?" + strings.Repeat("{path}", 600)}}, long, ""},
		"rewrite at once":   {v1alpha1.Directives{Rewrite: []string{"* " + strings.Repeat("{path}", 600)}}, long, ""},
		"expression":        {v1alpha1.Directives{PathRegexp: times(64, "/ //")}, "/proxy/x/", ""},
		"groups at once":    {v1alpha1.Directives{PathRegexp: []string{"(.*) /" + strings.Repeat("$1", 2000)}}, long, ""},
		"matches at once":   {v1alpha1.Directives{PathRegexp: []string{"/ " + strings.Repeat("a", 4000)}}, long, ""},
		"a long path":       {v1alpha1.Directives{StripPathPrefix: "/x"}, "/x/" + strings.Repeat("a", 16<<10), ""},
	} {
		got, err := compile(t, c.d).Apply(extension.Target{Method: "GET", Path: c.path, Query: c.query})
		if err == nil || len(got.Path) > 17<<10 || len(got.Query) > 64<<10 {
			t.Errorf("%s: a path of %d bytes and a query of %d, %v", name, len(got.Path), len(got.Query), err)
		}
	}
	h := http.Header{"X-B": {"theirs"}}
	d := compile(t, v1alpha1.Directives{HeaderUp: []string{"X-A {user.groups}", "X-B {user.groups}{user.groups}", "X-C {user.name}"}})
	d.Up(h, extension.Caller{Name: "ann", Groups: []string{strings.Repeat("g", 30<<10)}})
	if len(h.Get("X-A")) != 30<<10 || h["X-B"] != nil || h.Get("X-C") != "ann" {
		t.Errorf("headers of %d, %d and %d bytes", len(h.Get("X-A")), len(h.Get("X-B")), len(h.Get("X-C")))
	}
	for name, d := range map[string]v1alpha1.Directives{"headerUp[0]": {HeaderUp: []string{"X " + strings.Repeat("a", 4<<10)}},
		"headerDown[0]": {HeaderDown: []string{"X " + strings.Repeat("a", 4<<10)}},
		"rewrite[1]":    {Rewrite: []string{"* /", "* /" + strings.Repeat("a", 4<<10)}},
		"replace[0]":    {Replace: []string{"/ " + strings.Repeat("a", 4<<10)}}, "pathRegexp[0]": {PathRegexp: []string{"/ " + strings.Repeat("a", 4<<10)}}} {
		if _, err := extension.Compile(&d); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDirectivesThatDoNotParseAreRefused(t *testing.T) { // X4
	for name, d := range map[string]v1alpha1.Directives{
		"method": {Method: "TRACE"}, "headerUp[0]": {HeaderUp: []string{"X"}}, "headerUp[1]": {HeaderUp: []string{"-X", "X y: {env.HOME}"}},
		"headerDown[0]": {HeaderDown: []string{"X {user.name}"}}, "rewrite[0]": {Rewrite: []string{"*"}}, "rewrite[1]": {Rewrite: []string{"* /a", "[ /x"}},
		"replace[0]": {Replace: []string{"x"}}, "pathRegexp[0]": {PathRegexp: []string{"( x"}},
	} {
		if _, err := extension.Compile(&d); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, header := range []string{
		"Host x", "+X-Remote-User root", "x-forwarded-for 1", "Impersonate-User root", "Connection close", "Transfer-Encoding chunked", "Via x", "X y\nZ: 1",
		"X-Kubesphere-Token x", "Sec-WebSocket-Protocol x", "é x", "Expect 100-continue",
	} {
		if _, err := extension.Compile(&v1alpha1.Directives{HeaderUp: []string{header}}); err == nil {
			t.Errorf("headerUp sets %q", header)
		}
	}
}

func TestHeadersAreChangedInOrder(t *testing.T) { // X4
	d := compile(t, v1alpha1.Directives{
		HeaderUp: []string{"-X-Gone", "-X-All*", `X-Set "one two"`, "+X-Add three", "+X-WEBAUTH-USER {user.name}", "X-Mail {user.email}", "X-Groups {user.groups}"},
	})
	h := http.Header{"X-Gone": {"1"}, "X-All-A": {"1"}, "X-Allb": {"1"}, "X-Set": {"0", "1"}, "X-Add": {"2"}, "Other": {"o"}}
	d.Up(h, extension.Caller{Name: "ann", Email: "a@b.c", Groups: []string{"x", "y"}})
	want := http.Header{"X-Set": {"one two"}, "X-Add": {"2", "three"}, "X-Webauth-User": {"ann"}, "X-Mail": {"a@b.c"}, "X-Groups": {"x,y"}, "Other": {"o"}}
	for name := range h {
		if strings.Join(h[name], "|") != strings.Join(want[name], "|") {
			t.Errorf("%s is %q, want %q", name, h[name], want[name])
		}
	}
	if len(h) != len(want) {
		t.Errorf("%v", h)
	}
	// A name that would begin another line is not told.
	h = http.Header{}
	d.Up(h, extension.Caller{Name: "ann\r\nX-Remote-User: root"})
	if len(h["X-Webauth-User"]) > 0 || strings.Contains(strings.Join(h["X-Mail"], ""), "\n") {
		t.Errorf("%v", h)
	}
	if d.Unauthorized() || !compile(t, v1alpha1.Directives{HeaderUp: []string{"-Authorization"}}).Unauthorized() ||
		!compile(t, v1alpha1.Directives{HeaderUp: []string{"-Auth*"}}).Unauthorized() ||
		!compile(t, v1alpha1.Directives{HeaderUp: []string{"authorization Basic x"}}).Unauthorized() {
		t.Error("whether the token goes along")
	}
}

// X4: whatever the directives and the path are, the backend is asked for a path of its own, and nothing crashes.
func FuzzDirectives(f *testing.F) {
	f.Add("* /x{path}", "a b", `(.*) /$1`, "/proxy/a", "q=1")
	f.Add("/p/* ?{query}#f", "/ //", "^/ ..", "/proxy/..", "#")
	f.Fuzz(func(t *testing.T, rewrite, replace, expression, path, query string) {
		d, err := extension.Compile(&v1alpha1.Directives{Rewrite: []string{rewrite}, Replace: []string{replace}, PathRegexp: []string{expression}})
		if err != nil {
			return
		}
		got, err := d.Apply(extension.Target{Method: "GET", Path: path, Query: query})
		if err != nil {
			return
		}
		u := url.URL{Scheme: "http", Host: "backend", Path: got.Path, RawQuery: got.Query}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != "backend" || again.Path != got.Path || again.Fragment != "" {
			t.Errorf("%q and %q: %v, %v", got.Path, got.Query, again, err)
		}
	})
}
