package source_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
)

// world is a container registry in memory. What front answers, with true, it does not see; pushes go past that.
type world struct {
	*server
	push  *httptest.Server
	front func(http.ResponseWriter, *http.Request) bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	in := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	w.push = httptest.NewServer(in)
	t.Cleanup(w.push.Close)
	w.server = serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		if w.front == nil || !w.front(rw, r) {
			in.ServeHTTP(rw, r)
		}
	})
	return w
}

// has pushes charts of extensions, such as "charts/shop 1.0.0 1.1.0".
func (w *world) has(t *testing.T, all ...string) {
	t.Helper()
	for _, one := range all {
		words := strings.Fields(one)
		name := words[0][strings.LastIndex(words[0], "/")+1:]
		for _, v := range words[1:] {
			charttest.Push(t, w.push.URL, words[0], v, charttest.ArtifactOf(name, v, packed(name, v)))
		}
	}
}

func packed(name, version string) []byte { return []byte("the chart " + name + " " + version) }

// hasImages pushes an image, which is no chart.
func (w *world) hasImages(t *testing.T, repository string, tags ...string) {
	t.Helper()
	image := charttest.Artifact{Config: charttest.Layer{Type: "application/vnd.oci.image.config.v1+json", Raw: []byte("{}")},
		Layers: []charttest.Layer{{Type: charttest.LayerType, Raw: []byte("layer")}}}
	for _, tag := range tags {
		charttest.Push(t, w.push.URL, repository, tag, image)
	}
}

func (w *world) host() string { return w.Listener.Addr().String() }

// access is that of a Repository at a path of the registry.
func (w *world) access(t *testing.T, path string) *source.Access {
	t.Helper()
	r := repository("oci://" + w.host() + path)
	r.Spec.Insecure = true
	return access(t, r)
}

// read returns what a path of the registry has, as text.
func (w *world) read(t *testing.T, path string, depth int, since source.State) (string, source.State, error) {
	t.Helper()
	index, now, err := local.Catalogue(t.Context(), w.access(t, path), depth, since)
	if err != nil {
		return "", now, err
	}
	var out []string
	for e := range index.Entries(func(string) bool { return true }) {
		out = append(out, e.Name+":")
		for _, v := range e.Versions {
			if word := v.Version; v.Digest == "" {
				out = append(out, "("+word+")") // it is only noted
			} else if v.Name == e.Name && v.Digest == chart.Digest(packed(e.Name, word)) {
				out = append(out, word)
			} else {
				out = append(out, word+"?")
			}
			if at, err := w.access(t, path).Resolve(v.URLs[0]); err != nil || at != v.URLs[0] {
				t.Errorf("%s: %s %v", v.URLs[0], at, err)
			}
		}
		for _, err := range e.Errs {
			out = append(out, "["+err.Error()+"]")
		}
	}
	return strings.Join(out, " "), now, nil
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
}

// X16: below the path of a registry there are charts, the highest versions of each, and other things that are none.
func TestARegistryIsACatalogue(t *testing.T) {
	w := newWorld(t)
	w.has(t, "charts/shop 1.0.0 1.10.0 1.9.0 0.1.0 0.2.0", "charts/team/pay 2.0.0", "chartsmore/else 1.0.0", "own 1.0.0")
	w.hasImages(t, "charts/image", "1.0.0", "latest")
	w.hasImages(t, "charts/shop", "latest", "sha256-"+strings.Repeat("a", 64)+".sig", "v9.0.0", "2.0.0")
	const shop = "shop: 1.10.0 1.9.0 (1.0.0) (0.2.0) (0.1.0)"
	for path, want := range map[string]string{
		"/charts": "pay: 2.0.0 " + shop, "/charts/": "pay: 2.0.0 " + shop, "/charts/team": "pay: 2.0.0", "/charts/team/pay": "pay: 2.0.0",
		"": "else: 1.0.0 own: 1.0.0 pay: 2.0.0 " + shop,
	} {
		if got, _, err := w.read(t, path, 2, source.State{}); err != nil || got != want {
			t.Errorf("%q has %s, want %s: %v", path, got, want, err)
		}
	}
	for path, want := range map[string]string{"/charts/image": source.ReasonInvalid, "/none": source.ReasonNotFound} {
		if got, _, err := w.read(t, path, 2, source.State{}); reason(err) != want || got != "" {
			t.Errorf("%q has %s: %v", path, got, err)
		}
	}
	// An image has many versions: it is not asked for all of them.
	var tags []string
	for i := range 30 {
		tags = append(tags, fmt.Sprintf("1.%d.0", i))
	}
	w.hasImages(t, "images/web", tags...)
	w.forget()
	if got, _, err := w.read(t, "/images", 3, source.State{}); err != nil || got != "" || strings.Count(w.requests(), "/manifests/") > 2*5 {
		t.Errorf("%s %v: asked for %s", got, err, w.requests())
	}
}

// X16: registries that show their repositories to nobody, or to others, have the chart at the path.
func TestARegistryWithoutACatalogueHasTheChartAtItsPath(t *testing.T) {
	w := newWorld(t)
	w.has(t, "charts/shop 1.0.0", "charts/pay 1.0.0")
	for _, code := range []int{400, 401, 403, 404, 405, 501} {
		w.front = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v2/_catalog" {
				rw.WriteHeader(code)
			}
			return r.URL.Path == "/v2/_catalog"
		}
		if got, _, err := w.read(t, "/charts/shop", 3, source.State{}); err != nil || got != "shop: 1.0.0" {
			t.Errorf("%d: %s %v", code, got, err)
		}
		if _, _, err := w.read(t, "", 3, source.State{}); reason(err) != source.ReasonUnsupported {
			t.Errorf("%d, without a path: %v", code, err)
		}
	}
}

// X16: what has the digest that it had is not read again; a tag that was moved is.
func TestWhatARegistryHasNotChangedIsNotReadAgain(t *testing.T) {
	w := newWorld(t)
	w.has(t, "charts/shop 1.0.0 2.0.0")
	w.hasImages(t, "charts/image", "1.0.0")
	first, state, err := w.read(t, "/charts", 3, source.State{})
	if err != nil {
		t.Fatal(err)
	}
	asked := func() string {
		var out []string
		for _, one := range strings.Split(w.requests(), ", ") {
			if at, _, _ := strings.Cut(one, " "); at != "/v2/" {
				out = append(out, at)
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	const settled = "/v2/_catalog /v2/charts/image/manifests/1.0.0 /v2/charts/image/tags/list " +
		"/v2/charts/shop/manifests/1.0.0 /v2/charts/shop/manifests/2.0.0 /v2/charts/shop/tags/list"
	w.forget()
	again, state, err := w.read(t, "/charts", 3, state)
	if err != nil || again != first || asked() != settled {
		t.Errorf("%s, %v: asked for %s", again, err, asked())
	}
	moved := charttest.Push(t, w.push.URL, "charts/shop", "1.0.0", charttest.ArtifactOf("shop", "1.0.0", []byte("another")))
	w.forget()
	again, state, err = w.read(t, "/charts", 3, state)
	if err != nil || again != "shop: 2.0.0 1.0.0?" || !strings.Contains(asked(), "/v2/charts/shop/manifests/"+moved) || strings.Count(asked(), "/blobs/") != 1 {
		t.Errorf("%s, %v: asked for %s", again, err, asked())
	}
	// A read that fails loses nothing of what is known.
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/_catalog" {
			rw.WriteHeader(http.StatusBadGateway)
		}
		return r.URL.Path == "/v2/_catalog"
	}
	if _, state, err = w.read(t, "/charts", 3, state); reason(err) != source.ReasonUnreachable {
		t.Errorf("%v", err)
	}
	w.front = nil
	w.forget()
	if _, _, err = w.read(t, "/charts", 3, state); err != nil || asked() != settled {
		t.Errorf("%v: asked for %s", err, asked())
	}
	// Without a digest in the header the manifest itself is asked for.
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			rw.WriteHeader(http.StatusMethodNotAllowed)
		}
		return r.Method == http.MethodHead
	}
	if got, _, err := w.read(t, "/charts", 3, source.State{}); err != nil || got != "shop: 2.0.0 1.0.0?" {
		t.Errorf("%s %v", got, err)
	}
}

// X16: what does not answer, or does not end, is not taken for what there is.
func TestABrokenRegistryHasNoCatalogue(t *testing.T) {
	endless := func(key string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Link", fmt.Sprintf(`<http://169.254.169.254%s?last=%s>; rel="next"`, r.URL.Path, r.URL.Query().Get("last")+"x"))
			_, _ = fmt.Fprintf(rw, `{%q:["1.0.0","charts/shop"]}`, key)
		}
	}
	code := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
	}
	const catalogue, tags, manifest, blob = "/v2/_catalog", "/v2/charts/shop/tags/list", "/v2/charts/shop/manifests/", "/v2/charts/shop/blobs/"
	const pay = "pay: 1.0.0 shop: ["
	for name, c := range map[string]struct {
		path   string
		answer http.HandlerFunc
		reason string // of a failure, or what is read in spite of it
	}{
		"Down":              {"/v2/", code(500), source.ReasonUnreachable},
		"NoRegistry":        {"/v2/", code(404), source.ReasonNotFound},
		"Busy":              {catalogue, code(429), source.ReasonUnreachable},
		"CatalogueDown":     {catalogue, code(503), source.ReasonUnreachable},
		"CatalogueHTML":     {catalogue, answers("<html>"), source.ReasonInvalid},
		"CatalogueEndless":  {catalogue, endless("repositories"), source.ReasonTooLarge},
		"CatalogueHuge":     {catalogue, answers(`{"repositories":["` + strings.Repeat("x", 5<<20) + `"]}`), source.ReasonTooLarge},
		"TagsDown":          {tags, code(502), source.ReasonUnreachable},
		"TagsForbidden":     {tags, code(403), pay + "127.0.0.1"},
		"TagsEndless":       {tags, endless("tags"), pay + "the tags of charts/shop has more than 20 pages]"},
		"TagsMany":          {tags, answers(`{"tags":["0.0.1"` + strings.Repeat(`,"0.0.1"`, 20_000) + `]}`), pay + "charts/shop has more than 20000 versions]"},
		"TagsHTML":          {tags, answers("<html>"), pay + "the tags of charts/shop is no JSON of one]"},
		"TagsGone":          {tags, code(404), "pay: 1.0.0"},
		"TagsNone":          {tags, answers(`{"tags":null}`), "pay: 1.0.0"},
		"TagsOfPaths":       {tags, answers(`{"tags":["../../../etc","1.0.0/x","1.0.0?x","1.0.0 "]}`), "pay: 1.0.0"},
		"ManifestDown":      {manifest, code(500), source.ReasonUnreachable},
		"ManifestGone":      {manifest, code(404), "pay: 1.0.0"},
		"ManifestForbidden": {manifest, code(401), pay + "1.0.0: "},
		"ManifestOfAnother": {manifest, answers("{}"), "pay: 1.0.0"},
		"ManifestHuge":      {manifest, answers(strings.Repeat(" ", 5<<20)), pay + "1.0.0: a manifest has more than 4 MiB]"},
		"DescriptionOther":  {blob, answers("{}"), pay + "1.0.0: the description of a chart is another one than its digest says]"},
		"DescriptionRedirect": {blob, func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://169.254.169.254/", http.StatusFound)
		}, source.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.has(t, "charts/shop 1.0.0", "charts/pay 1.0.0")
			w.front = func(rw http.ResponseWriter, r *http.Request) bool {
				mine := r.URL.Path == c.path || c.path != "/v2/" && strings.HasPrefix(r.URL.Path, c.path)
				if mine {
					c.answer(rw, r)
				}
				return mine
			}
			got, _, err := w.read(t, "/charts", 3, source.State{})
			if err != nil {
				got = reason(err)
			}
			if got != c.reason && (err != nil || !strings.HasPrefix(c.reason, pay) || !strings.HasPrefix(got, c.reason)) {
				t.Errorf("%s, want %s: %v", got, c.reason, err)
			}
			if n := strings.Count(w.requests(), ","); n > 100 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// X16: a version that is not what its tag says is named, and the others are taken.
func TestABadVersionInARegistryIsNamed(t *testing.T) {
	w := newWorld(t)
	w.has(t, "charts/shop 1.0.0 0.9.0", "a/twice 1.0.0", "b/twice 2.0.0")
	good := charttest.ArtifactOf("shop", "1.0.0", packed("shop", "1.0.0"))
	lies := good
	charttest.Push(t, w.push.URL, "charts/shop", "3.0.0", lies) // it is 1.0.0
	two := charttest.ArtifactOf("shop", "4.0.0", []byte("one"))
	two.Layers = append(two.Layers, charttest.Layer{Type: charttest.LegacyLayerType, Raw: []byte("two")})
	charttest.Push(t, w.push.URL, "charts/shop", "4.0.0", two)
	signed := charttest.ArtifactOf("shop", "5.0.0", packed("shop", "5.0.0"))
	signed.Layers[0].Type = charttest.LegacyLayerType
	signed.Layers = append(signed.Layers, charttest.Layer{Type: "application/vnd.cncf.helm.chart.provenance.v1.prov", Raw: []byte("signature")})
	signed.Annotations = map[string]string{"org.opencontainers.image.created": "2026-01-02T03:04:05Z"}
	charttest.Push(t, w.push.URL, "charts/shop", "5.0.0", signed)
	none := charttest.ArtifactOf("shop", "6.0.0", nil)
	none.Layers = nil
	charttest.Push(t, w.push.URL, "charts/shop", "6.0.0", none)
	long := charttest.ArtifactOf(strings.Repeat("x", 1000), "7.0.0", nil)
	charttest.Push(t, w.push.URL, "charts/shop", "7.0.0", long)
	charttest.Push(t, w.push.URL, "charts/shop", "1.5.0+build", charttest.ArtifactOf("shop", "1.5.0+build", packed("shop", "1.5.0+build")))
	got, _, err := w.read(t, "/charts", 2, source.State{})
	const want = "shop: 5.0.0 1.5.0+build [7.0.0: the name or the version of the chart has more than 255 letters] [6.0.0: the manifest has no chart] " +
		`[4.0.0: the manifest has more than one chart] [3.0.0: its chart is that of version "1.0.0"] ` +
		"[after 5 versions that are none of this chart, it was not read on]"
	if err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
	index, _, err := local.Catalogue(t.Context(), w.access(t, "/charts"), 1, source.State{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range index.Entries(func(string) bool { return true }) {
		if !e.Versions[0].Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("%+v", e.Versions[0])
		}
	}
	// Whoever may push to one of two repositories does not decide what the other one's name means.
	const both = "twice: [both a/twice and b/twice would be it: spec.url can name one]"
	if got, _, err := w.read(t, "", 2, source.State{}); err != nil || !strings.HasSuffix(got, both) {
		t.Errorf("%s %v", got, err)
	}
}

// X17: the password goes to the registry and to its own token server, and to nobody whom either of them names.
func TestCredentialsOfARegistryStayAtItsSite(t *testing.T) {
	other := serve(t, false, answers(`{"token":"of-other"}`))
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	w := newWorld(t)
	w.has(t, "charts/shop 1.0.0")
	var realm string
	token := egresstest.BasicAuth("ann", "canary", answers(`{"token":"of-ann"}`))
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			token.ServeHTTP(rw, r)
		case r.Header.Get("Authorization") != "Bearer of-ann":
			rw.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="test"`)
			rw.WriteHeader(http.StatusUnauthorized)
		default:
			return false
		}
		return true
	}
	realm = w.URL + "/token"
	if got, _, err := w.read(t, "/charts", 3, source.State{}); err != nil || got != "shop: 1.0.0" {
		t.Errorf("%s %v", got, err)
	}
	at := "oci://" + w.host() + "/charts/shop:1.0.0"
	if raw, err := local.Chart(t.Context(), w.access(t, "/charts"), at, ""); err != nil || string(raw) != string(packed("shop", "1.0.0")) {
		t.Errorf("%q %v", raw, err)
	}
	for realm, want := range map[string][]string{
		elsewhere + "/token": {source.ReasonRefused}, "http://169.254.169.254/token": {source.ReasonUnreachable, source.ReasonRefused},
		"http://[64:ff9b::a9fe:a9fe]/token": {source.ReasonRefused, source.ReasonUnreachable},
		"file:///etc/passwd":                {source.ReasonUnreachable}, "": {source.ReasonUnreachable},
	} {
		front := w.front
		w.front = func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="test"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}
		for _, f := range []func() error{
			func() error { _, _, err := w.read(t, "/charts", 3, source.State{}); return err },
			func() error { _, err := local.Chart(t.Context(), w.access(t, "/charts"), at, ""); return err },
		} {
			if err := f(); !slices.Contains(want, reason(err)) || strings.Contains(err.Error(), "canary") || strings.Contains(causes(err), "canary") {
				t.Errorf("%q: %v, %s", realm, err, causes(err))
			}
		}
		w.front = front
	}
	// A chart in another registry than the repository's, or of an index by http, is asked for without a password.
	theirs := newWorld(t)
	theirs.has(t, "charts/shop 1.0.0")
	plain := repository(theirs.URL)
	plain.Spec.Insecure = true
	for _, a := range []*source.Access{w.access(t, "/charts"), access(t, plain)} {
		theirs.front = noCredentials(t)
		if _, err := local.Chart(t.Context(), a, "oci://"+theirs.host()+"/charts/shop:1.0.0", ""); err != nil {
			t.Error(err)
		}
	}
	// Where a blob is elsewhere, the token is not told there.
	moved := newWorld(t)
	moved.has(t, "charts/shop 1.0.0")
	content := serve(t, false, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("told %v", r.Header)
		}
		_, _ = rw.Write(packed("shop", "1.0.0"))
	})
	moved.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if _, _, ok := r.BasicAuth(); !ok {
			rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(rw, r, strings.Replace(content.URL, "127.0.0.1", "localhost", 1)+"/blob?signature=canary", http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	at = "oci://" + moved.host() + "/charts/shop:1.0.0"
	if _, err := local.Chart(t.Context(), moved.access(t, "/charts"), at, chart.Digest(packed("shop", "1.0.0"))); err != nil {
		t.Error(err)
	}
	for _, asked := range strings.Split(other.requests(), ", ") {
		if strings.Contains(asked, "canary") {
			t.Errorf("another site is told %s", asked)
		}
	}
}

func noCredentials(t *testing.T) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s has credentials", r.URL)
		}
		return false
	}
}

// causes returns what a failure says in the log.
func causes(err error) string {
	var f *source.Failure
	if errors.As(err, &f) {
		return fmt.Sprint(f.Cause)
	}
	return ""
}

// X17: a chart in a registry is the one that its digest says, or what its tag is where no digest is known.
func TestAChartOfARegistryIsVerified(t *testing.T) {
	w := newWorld(t)
	raw := packed("shop", "1.0.0")
	manifest := charttest.Push(t, w.push.URL, "charts/shop", "1.0.0", charttest.ArtifactOf("shop", "1.0.0", raw))
	w.hasImages(t, "charts/image", "1.0.0")
	base := "oci://" + w.host() + "/charts/"
	read := func(at, digest string) (string, error) {
		raw, err := local.Chart(t.Context(), w.access(t, "/charts"), at, digest)
		return string(raw), err
	}
	for name, c := range map[string]struct{ at, digest, want string }{
		"Tag":          {"shop:1.0.0", "", "<nil>"},
		"Digest":       {"shop:1.0.0", chart.Digest(raw), "<nil>"},
		"DigestPrefix": {"shop:1.0.0", "sha256:" + strings.ToUpper(chart.Digest(raw)), "<nil>"},
		"Pinned":       {"shop@" + manifest, "", "<nil>"},
		"TagAndPinned": {"shop:1.0.0@" + manifest, "", "<nil>"},
		"MovedTag":     {"shop:9.9.9", chart.Digest(raw), "<nil>"}, // whatever the tag has become
		"OtherDigest":  {"shop:1.0.0", strings.Repeat("a", 64), source.ReasonNotFound},
		"NoDigest":     {"shop:1.0.0", "../../../secret", source.ReasonInvalid},
		"NoTag":        {"shop:2.0.0", "", source.ReasonNotFound},
		"NoChart":      {"image:1.0.0", "", source.ReasonInvalid},
		"NoRepository": {"none:1.0.0", "", source.ReasonNotFound},
		"Path":         {"../shop:1.0.0", "", source.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(base+c.at, c.digest)
			if reason(err) != c.want || err == nil && got != string(raw) || err != nil && got != "" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	for name, c := range map[string]struct {
		path, body, want string
	}{
		"OtherManifest": {"/manifests/sha256:", `{"config":{"mediaType":"` + charttest.ConfigType + `"}}`, source.ReasonDigest},
		"OtherBlob":     {"/blobs/sha256:" + chart.Digest(raw), "another", source.ReasonDigest},
		"LargeBlob":     {"/blobs/sha256:" + chart.Digest(raw), strings.Repeat("x", 17<<20), source.ReasonTooLarge},
		"LargeLayer": {"/manifests/", `{"config":{"mediaType":"` + charttest.ConfigType + `"},"layers":[{"mediaType":"` + charttest.LayerType +
			`","size":17825792,"digest":"sha256:` + chart.Digest(raw) + `"}]}`, source.ReasonTooLarge},
		"LayerElsewhere": {"/manifests/", `{"config":{"mediaType":"` + charttest.ConfigType + `"},"layers":[{"mediaType":"` + charttest.LayerType +
			`","digest":"sha256:../../../secret"}]}`, source.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w.front = func(rw http.ResponseWriter, r *http.Request) bool {
				mine := strings.Contains(r.URL.Path, c.path)
				if mine {
					_, _ = io.WriteString(rw, c.body)
				}
				return mine
			}
			at := base + "shop:1.0.0"
			if name == "OtherManifest" {
				at = base + "shop@" + manifest
			}
			if got, err := read(at, ""); reason(err) != c.want || got != "" {
				t.Errorf("%.20q %v", got, err)
			}
		})
	}
}

// X17: a registry is reached by TLS with a certificate that is verified, unless the Repository says otherwise.
func TestCertificatesOfRegistriesAreVerified(t *testing.T) {
	in := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewUnstartedServer(in)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	push := httptest.NewServer(in)
	t.Cleanup(func() { s.Close(); push.Close() })
	charttest.Push(t, push.URL, "charts/shop", "1.0.0", charttest.ArtifactOf("shop", "1.0.0", []byte("chart")))
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	plain := newWorld(t)
	for name, c := range map[string]struct {
		host, bundle string
		insecure     bool
		want         string
	}{
		"Unknown": {s.Listener.Addr().String(), "", false, source.ReasonUnreachable}, "Known": {s.Listener.Addr().String(), authority, false, "<nil>"},
		"Insecure": {s.Listener.Addr().String(), "", true, "<nil>"}, "Plain": {plain.host(), "", false, source.ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			r := &v1alpha1.Repository{Spec: v1alpha1.RepositorySpec{URL: "oci://" + c.host + "/charts", CABundle: c.bundle, Insecure: c.insecure}}
			if _, _, err := local.Catalogue(t.Context(), access(t, r), 1, source.State{}); reason(err) != c.want {
				t.Errorf("%v", err)
			}
		})
	}
	if got := plain.requests(); got != "" {
		t.Errorf("without TLS it was asked %s", got)
	}
	// Addresses of this machine are no user's.
	if _, _, err := source.New(egress.Options{}).Catalogue(t.Context(), plain.access(t, "/charts"), 1, source.State{}); reason(err) != source.ReasonRefused {
		t.Errorf("%v", err)
	}
}

// X29: of a registry that nobody reaches it is not said that its certificate is wrong.
func TestARegistryThatIsAwayIsSaidToBe(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	host := away.Listener.Addr().String()
	away.Close()
	r := &v1alpha1.Repository{Spec: v1alpha1.RepositorySpec{URL: "oci://" + host + "/charts"}}
	_, _, err := local.Catalogue(t.Context(), access(t, r), 1, source.State{})
	if reason(err) != source.ReasonUnreachable || !strings.Contains(err.Error(), "can't be reached") {
		t.Errorf("got %v, want that it can't be reached", err)
	}
}

// FuzzReference holds that no address of a chart leads to another path of a registry than that of its repository.
func FuzzReference(f *testing.F) {
	f.Add("a@sha256:" + strings.Repeat("a", 64))
	for _, s := range []string{"charts/shop:1.0.0", "../a:1", "a/%2e%2e/b:1", "a:1?x", "a:1#x", "a//b:1", "_catalog:1", "a:1/../2"} {
		f.Add(s)
	}
	a, err := source.AccessOf(repository("https://charts.example.com"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := a.Resolve("oci://registry.example.com/" + text)
		if err != nil {
			return
		}
		rest, ok := strings.CutPrefix(at, "oci://registry.example.com/")
		repository, version, _ := strings.Cut(rest, ":")
		if !ok || strings.ContainsAny(rest, "?#% \\") || strings.Contains(repository, "..") || strings.Contains(repository, "//") ||
			strings.Contains(version, "/") {
			t.Errorf("%q is %q", text, at)
		}
	})
}
