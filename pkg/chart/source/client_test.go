package source_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/egress"
)

// server is a server that remembers what it was asked, and with which credentials.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func serve(t *testing.T, encrypted bool, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		s.mu.Lock()
		s.asked = append(s.asked, strings.TrimSpace(r.URL.Path+" "+user+":"+password))
		s.mu.Unlock()
		answer(w, r)
	})
	s.Server = httptest.NewUnstartedServer(h)
	if encrypted {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, ", ")
}

func answers(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func repository(url string) *v1alpha1.Repository {
	return &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "museum"}, Spec: v1alpha1.RepositorySpec{URL: url,
		BasicAuth: &v1alpha1.BasicAuth{Username: "ann", Password: "canary"}}}
}

func access(t *testing.T, r *v1alpha1.Repository) *source.Access {
	t.Helper()
	a, err := source.AccessOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var local = source.New(egress.Options{AllowLoopback: true})

func reason(err error) string {
	var f *source.Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return fmt.Sprintf("%v", err)
}

func TestAnIndexIsAskedForAgainByItsTag(t *testing.T) { // X16
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("If-None-Match") == `"one"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("index"))
	})
	a := access(t, repository(s.URL+"/charts"))
	raw, tag, err := local.Index(t.Context(), a, source.Validators{})
	if err != nil || string(raw) != "index" || tag.ETag != `"one"` {
		t.Fatalf("%q %+v %v", raw, tag, err)
	}
	if raw, again, err := local.Index(t.Context(), a, tag); err != nil || raw != nil || again != tag {
		t.Errorf("%q %+v %v", raw, again, err)
	}
	if got := s.requests(); got != "/charts/index.yaml ann:canary, /charts/index.yaml ann:canary" {
		t.Errorf("%s", got)
	}
	never := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	if _, _, err := local.Index(t.Context(), access(t, repository(never.URL)), source.Validators{}); reason(err) != source.ReasonUnreachable {
		t.Errorf("not changed since never: %v", err)
	}
}

// X17: credentials go to the origin of the repository alone, wherever charts are and redirects lead.
func TestCredentialsStayWithTheirHost(t *testing.T) {
	other := serve(t, false, answers("chart"))
	var redirect string
	own := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go" {
			http.Redirect(w, r, redirect, http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("chart"))
	})
	a := access(t, repository(own.URL+"/charts/"))
	localhost := strings.Replace(own.URL, "127.0.0.1", "localhost", 1)
	for _, at := range []string{own.URL + "/a.tgz", other.URL + "/b.tgz", localhost + "/c.tgz"} {
		if raw, err := local.Chart(t.Context(), a, at, ""); err != nil || string(raw) != "chart" {
			t.Errorf("%s: %q %v", at, raw, err)
		}
	}
	for _, redirect = range []string{other.URL + "/d.tgz", own.URL + "/e.tgz", localhost + "/f.tgz", "//ann:canary@" + other.Listener.Addr().String() + "/g.tgz"} {
		if _, err := local.Chart(t.Context(), a, own.URL+"/go", ""); err != nil {
			t.Errorf("%s: %v", redirect, err)
		}
	}
	if got := other.requests(); got != "/b.tgz :, /d.tgz :, /g.tgz :" {
		t.Errorf("another host is told %s", got)
	}
	const want = "/a.tgz ann:canary, /c.tgz :, /go ann:canary, /go ann:canary, /e.tgz ann:canary, /go ann:canary, /f.tgz :, /go ann:canary"
	if got := own.requests(); got != want {
		t.Errorf("its host is told %s", got)
	}
}

func TestWhatCantBeReadSaysWhy(t *testing.T) { // X17
	good := []byte("a chart")
	hijack := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}
	code := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	var self *server
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		digest string
		want   string
	}{
		"Good":          {answers(string(good)), chart.Digest(good), "<nil>"},
		"GoodPrefix":    {answers(string(good)), "sha256:" + strings.ToUpper(chart.Digest(good)), "<nil>"},
		"Other":         {answers("another"), chart.Digest(good), source.ReasonDigest},
		"Unauthorized":  {code(401), "", source.ReasonUnauthorized},
		"Forbidden":     {code(403), "", source.ReasonUnauthorized},
		"Gone":          {code(404), "", source.ReasonNotFound},
		"Broken":        {code(500), "", source.ReasonUnreachable},
		"Partial":       {code(206), "", source.ReasonUnreachable},
		"CutOff":        {hijack("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), "", source.ReasonUnreachable},
		"CutOffChunk":   {hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), "", source.ReasonUnreachable},
		"SaysItIsLarge": {hijack("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"), "", source.ReasonTooLarge},
		"IsLarge": {func(w http.ResponseWriter, _ *http.Request) {
			for range 17 {
				_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
			}
		}, "", source.ReasonTooLarge},
		"Round": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, "", source.ReasonRefused},
		"Metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "", source.ReasonRefused},
		"File": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "", source.ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			self = serve(t, false, c.answer)
			raw, err := local.Chart(t.Context(), access(t, repository(self.URL)), self.URL+"/a.tgz?token=canary", c.digest)
			if got := reason(err); got != c.want || err != nil && raw != nil {
				t.Errorf("%s: %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("it tells a credential: %v", err)
			}
		})
	}
	s := serve(t, false, answers("x"))
	if _, _, err := source.New(egress.Options{}).Index(t.Context(), access(t, repository(s.URL)), source.Validators{}); reason(err) != source.ReasonRefused {
		t.Errorf("a loopback address: %v", err)
	}
	if got := s.requests(); got != "" {
		t.Errorf("it was asked %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := local.Index(ended, access(t, repository(s.URL)), source.Validators{}); reason(err) != source.ReasonUnreachable {
		t.Errorf("out of time: %v", err)
	}
}

func TestCertificatesOfRepositoriesAreVerified(t *testing.T) { // X17
	s := serve(t, true, answers("index"))
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	for name, c := range map[string]struct {
		bundle   string
		insecure bool
		want     string
	}{
		"Unknown":  {"", false, source.ReasonUnreachable},
		"PEM":      {authority, false, "<nil>"},
		"Base64":   {base64.StdEncoding.EncodeToString([]byte(authority)), false, "<nil>"},
		"Insecure": {"", true, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			r := repository(s.URL)
			r.Spec.CABundle, r.Spec.Insecure = c.bundle, c.insecure
			if _, _, err := local.Index(t.Context(), access(t, r), source.Validators{}); reason(err) != c.want {
				t.Errorf("%v", err)
			}
		})
	}
	plain := serve(t, false, answers("index"))
	down := serve(t, true, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	r := repository(down.URL)
	r.Spec.Insecure = true
	if _, _, err := local.Index(t.Context(), access(t, r), source.Validators{}); reason(err) != source.ReasonRefused || plain.requests() != "" {
		t.Errorf("from https to http: %v, %s", err, plain.requests())
	}
	if _, err := access(t, r).Resolve(plain.URL + "/a.tgz"); reason(err) != source.ReasonInvalid {
		t.Errorf("a chart by http of an index by https: %v", err)
	}
}

func TestAddressesOfRepositories(t *testing.T) {
	for url, want := range map[string]string{
		"https://charts.example.com": "<nil>", "http://charts.example.com:8080/a/b/": "<nil>", "oci://registry.example.com:5000/charts/": "<nil>",
		"oci://registry.example.com": "<nil>", "oci://registry.example.com/Charts": source.ReasonInvalid, "oci://registry.example.com/a/../b": source.ReasonInvalid,
		"oci://registry.example.com/a%2f..%2f_catalog": source.ReasonInvalid, "oci:///charts": source.ReasonInvalid,
		"oci://u:canary@registry.example.com/a": source.ReasonInvalid,
		"":                                      source.ReasonInvalid, "charts.example.com": source.ReasonInvalid, "file:///etc": source.ReasonInvalid,
		"https://ann:canary@charts.example.com": source.ReasonInvalid,
		"https://":                              source.ReasonInvalid, "https://a.example.com?token=canary": source.ReasonInvalid,
		"https://a b": source.ReasonInvalid,
		"http:a":      source.ReasonInvalid,
	} {
		if _, err := source.AccessOf(repository(url)); reason(err) != want || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", url, err)
		}
	}
	a := access(t, repository("https://charts.example.com/stable"))
	for ref, want := range map[string]string{
		"a.tgz": "https://charts.example.com/stable/a.tgz", "/b/a.tgz": "https://charts.example.com/b/a.tgz",
		"https://o.example.com/a.tgz": "https://o.example.com/a.tgz",
		"oci://o.example.com/a:1.0.0": "oci://o.example.com/a:1.0.0", "oci://o.example.com/a/../b:1.0.0": "oci://o.example.com/b:1.0.0",
		"oci://o.example.com/a%2fb:1.0.0": "", "oci://o.example.com/a:1?x": "",
		"": "", "oci://o.example.com/a": "", "http://o.example.com/a.tgz": "", "https://u:p@o.example.com/a.tgz": "", "data:x": "", "%zz": "",
	} {
		if got, err := a.Resolve(ref); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", ref, got, err)
		}
	}
	bad := repository("https://charts.example.com")
	bad.Spec.CABundle = "nonsense"
	if _, err := source.AccessOf(bad); reason(err) != source.ReasonInvalid {
		t.Errorf("%v", err)
	}
}

// objects are the Repositories and ConfigMaps of a cluster.
type objects struct {
	repository *v1alpha1.Repository
	maps       map[string]string
	err        error
}

func (o objects) ConfigMapKey(_ context.Context, namespace, name, key string) ([]byte, error) {
	if text, ok := o.maps[namespace+"/"+name+"/"+key]; ok {
		return []byte(text), o.err
	}
	return nil, o.err
}

func (o objects) Repository(context.Context, string) (*v1alpha1.Repository, error) {
	return o.repository, o.err
}

func TestAChartIsWhereItsVersionSays(t *testing.T) { // X37
	s := serve(t, false, answers("chart"))
	in := objects{repository(s.URL), map[string]string{"kubesphere-system/shop/chart.tgz": "mapped", "secret/shop/chart.tgz": "hidden"}, nil}
	ref := func(namespace, name, key string) *v1alpha1.ConfigMapKeyRef {
		return &v1alpha1.ConfigMapKeyRef{Namespace: namespace, Name: name, Key: key}
	}
	for name, c := range map[string]struct {
		spec       v1alpha1.ExtensionVersionSpec
		in         objects
		want, fail string
	}{
		"URL":              {v1alpha1.ExtensionVersionSpec{ChartURL: s.URL + "/1.tgz", Repository: "museum"}, in, "chart", ""},
		"NoRepository":     {v1alpha1.ExtensionVersionSpec{ChartURL: s.URL + "/2.tgz"}, in, "chart", ""},
		"ItIsGone":         {v1alpha1.ExtensionVersionSpec{ChartURL: s.URL + "/3.tgz", Repository: "gone"}, objects{}, "chart", ""},
		"ConfigMap":        {v1alpha1.ExtensionVersionSpec{ChartDataRef: ref("kubesphere-system", "shop", "chart.tgz")}, in, "mapped", ""},
		"AnotherNamespace": {v1alpha1.ExtensionVersionSpec{ChartDataRef: ref("secret", "shop", "chart.tgz")}, in, "", source.ReasonInvalid},
		"NoKey":            {v1alpha1.ExtensionVersionSpec{ChartDataRef: ref("kubesphere-system", "shop", "other")}, in, "", source.ReasonNotFound},
		"OtherDigest":      {v1alpha1.ExtensionVersionSpec{ChartDataRef: ref("kubesphere-system", "shop", "chart.tgz"), Digest: "abc"}, in, "", source.ReasonDigest},
		"Nowhere":          {v1alpha1.ExtensionVersionSpec{}, in, "", source.ReasonInvalid},
		"OCI":              {v1alpha1.ExtensionVersionSpec{ChartURL: "oci://registry.example.com/shop"}, in, "", source.ReasonInvalid},
		"BadURL":           {v1alpha1.ExtensionVersionSpec{ChartURL: "file:///etc/passwd", Repository: "museum"}, in, "", source.ReasonInvalid},
		"Cluster":          {v1alpha1.ExtensionVersionSpec{ChartURL: s.URL, Repository: "museum"}, objects{err: errors.New("down")}, "", "down"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := (&source.Loader{Client: local, Objects: c.in}).Load(t.Context(), &v1alpha1.ExtensionVersion{Spec: c.spec})
			if string(raw) != c.want || err != nil && reason(err) != c.fail || (err == nil) != (c.fail == "") {
				t.Errorf("%q %v", raw, err)
			}
		})
	}
	for _, asked := range strings.Split(s.requests(), ", ") {
		if strings.Contains(asked, "canary") != strings.HasPrefix(asked, "/1.tgz") {
			t.Errorf("the credentials of a repository go to %s", asked)
		}
	}
}

// X37: a chart may be in several ConfigMaps, as many as its version says, and not more than a chart has.
func TestAChartMayBeInParts(t *testing.T) {
	in := objects{maps: map[string]string{"kubesphere-system/c-0/chart.tgz": "one ", "kubesphere-system/c-1/chart.tgz": "two",
		"kubesphere-system/c/chart.tgz": "whole"}}
	for parts, want := range map[string]string{"1": "one ", "2": "one two", "3": "", "0": "", "-1": "", "65": "", "x": "", "": "", "1e1": ""} {
		v := &v1alpha1.ExtensionVersion{Spec: v1alpha1.ExtensionVersionSpec{
			ChartDataRef: &v1alpha1.ConfigMapKeyRef{Namespace: "kubesphere-system", Name: "c", Key: "chart.tgz"}}}
		v.Annotations = map[string]string{v1alpha1.AnnotationChartParts: parts}
		if raw, err := (&source.Loader{Objects: in}).Load(t.Context(), v); string(raw) != want || (err == nil) != (want != "") {
			t.Errorf("%q parts: %q, %v", parts, raw, err)
		}
		v.Spec.Digest = chart.Digest([]byte("one two"))
		if _, err := (&source.Loader{Objects: in}).Load(t.Context(), v); (err == nil) != (parts == "2") {
			t.Errorf("%q parts with a digest: %v", parts, err)
		}
	}
}
