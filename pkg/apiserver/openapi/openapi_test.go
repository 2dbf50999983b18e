package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	clocktesting "k8s.io/utils/clock/testing"

	"kapis.dev/ks-apiserver/pkg/request"
)

// kube is a kube-apiserver; it serves version 3 by its own library.
type kube struct {
	*httptest.Server
	v2    *v2Server
	v3    *handler3.OpenAPIService
	down  atomic.Bool
	mu    sync.Mutex
	asked []string
}

type v2Server struct {
	mu   sync.Mutex
	spec *spec.Swagger
}

func (s *v2Server) UpdateSpec(to *spec.Swagger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec = to
}

func (s *v2Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, err := json.MarshalIndent(s.spec, "", " ")
	s.mu.Unlock()
	w.Header().Set("Etag", fmt.Sprintf(`"%X"`, sha256.Sum256(body)))
	w.Header().Set("Content-Type", "application/json")
	if err == nil && strings.Contains(r.Header.Get("Accept"), "protobuf") {
		var doc *openapi_v2.Document
		if doc, err = openapi_v2.ParseDocument(body); err == nil {
			body, err = proto.Marshal(doc)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

type mux struct{ *http.ServeMux }

func (m mux) HandlePrefix(path string, h http.Handler) { m.Handle(path, h) }

func newKube(t *testing.T) *kube {
	t.Helper()
	k := &kube{v2: &v2Server{spec: swagger("io.k8s.Pod")}, v3: handler3.NewOpenAPIService()}
	k.v3.UpdateGroupVersion("apis/apps/v1", spec3Doc("Deployment"))
	m := mux{http.NewServeMux()}
	m.Handle("/openapi/v2", k.v2)
	if err := k.v3.RegisterOpenAPIV3VersionedService("/openapi/v3", m); err != nil {
		t.Fatal(err)
	}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.asked = append(k.asked, r.URL.Path)
		k.mu.Unlock()
		if k.down.Load() {
			panic(http.ErrAbortHandler)
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *kube) count(path string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.asked {
		if p == path {
			n++
		}
	}
	return n
}

func swagger(definitions ...string) *spec.Swagger {
	s := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "v1.37.1"}},
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{"/api/": {}, "/version": {}}}, Definitions: spec.Definitions{},
	}}
	for _, d := range definitions {
		s.Definitions[d] = spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Description: `with "quotes", \ and }`}}
	}
	return s
}

func spec3Doc(title string) *spec3.OpenAPI {
	return &spec3.OpenAPI{Version: "3.0.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: "v1"}},
		Paths: &spec3.Paths{Paths: map[string]*spec3.Path{}}}
}

// thing has everything that the schemas must support.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              inner             `json:"spec"`
	List              []inner           `json:"list,omitempty"`
	Map               map[string]*thing `json:"map,omitempty"`
	Pod               corev1.Pod        `json:"pod"`
	Raw               json.RawMessage   `json:"raw"`
	At                metav1.Time       `json:"at"`
	Bytes             []byte            `json:"bytes"`
	Any               any               `json:"any"`
	Hidden            string            `json:"-"`
	Unnamed           bool
	hidden            func() // not exported: encoding/json does not see it
}

type inner struct {
	Name  string    `json:"name"`
	Count *int32    `json:"count,omitempty"`
	Rates []float64 `json:"rates"`
	Back  *thing    `json:"back,omitempty"`
}

type page[T any] struct {
	Items []T `json:"items"`
}

func services() []*restful.WebService {
	to := func(*restful.Request, *restful.Response) {}
	things := new(restful.WebService)
	things.Path("/kapis/things.example/v1").Consumes("application/json").Produces("application/json")
	name := things.PathParameter("name", "its name")
	things.Route(things.GET("/things").To(to).Doc("lists things").
		Param(things.QueryParameter("limit", "how many").DataType("integer")).
		Param(things.QueryParameter("odd", "").DataType("[]kind.of.type")).
		Returns(200, "OK", page[thing]{}).Returns(404, "", nil))
	things.Route(things.GET("/things/{name}").To(to).Param(name).Writes(&thing{hidden: func() {}}))
	things.Route(things.PUT("/things/{name}").To(to).Param(name).Reads(thing{}).Writes(thing{}))
	things.Route(things.GET("/things/{name}/files/{path:*}").To(to)) // undocumented variables
	things.Route(things.GET("/members/{name:[a-z]+}").To(to).Writes([]string{}))
	things.Route(things.POST("/members").To(to).Reads([]inner{}).Writes(map[string]int{}))
	things.Route(things.GET("/things").To(to).Doc("the second of its kind"))
	token := new(restful.WebService)
	token.Path("/oauth")
	token.Route(token.POST("/token").To(to).Consumes("application/x-www-form-urlencoded").
		Param(token.FormParameter("grant_type", "which grant")).Param(token.FormParameter("username", "who")))
	any := new(restful.WebService)
	any.Path("/kapis/{group}/{version}")
	any.Route(any.GET("/{resources}").To(to))
	root := new(restful.WebService)
	root.Route(root.GET("/version").To(to).Writes(""))
	return []*restful.WebService{things, token, any, root}
}

func newHandler(t *testing.T, k *kube) (*Handler, *httptest.Server, *clocktesting.FakeClock) {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
	h, err := New(Options{Config: &rest.Config{Host: k.URL}, WebServices: services(), Title: "ks-apiserver", Version: "v4.1.0", Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return h, srv, c
}

func fetch(t *testing.T, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

func TestV2JSONHoldsBothDocuments(t *testing.T) {
	_, srv, _ := newHandler(t, newKube(t))
	res, body := fetch(t, srv.URL+"/openapi/v2")
	var s spec.Swagger
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/", "/kapis/things.example/v1/things", "/kapis/things.example/v1/things/{name}/files/{path}",
		"/kapis/things.example/v1/members/{name}", "/oauth/token", "/kapis/{group}/{version}/{resources}", "/version"} {
		if _, ok := s.Paths.Paths[path]; !ok {
			t.Errorf("path %s is missing", path)
		}
	}
	if n := bytes.Count(body, []byte(`"/version":`)); n != 1 {
		t.Errorf("a path of both is there %d times", n)
	}
	if s.Info.Title != "Kubernetes" || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("title %q, %v", s.Info.Title, res.Header)
	}
	if _, ok := s.Definitions["io.k8s.Pod"]; !ok {
		t.Error("kube-apiserver's definition is missing")
	}
	get := s.Paths.Paths["/kapis/things.example/v1/things/{name}"].Get
	ref := get.Responses.StatusCodeResponses[200].Schema.Ref.String()
	def, ok := s.Definitions[strings.TrimPrefix(ref, "#/definitions/")]
	if !ok {
		t.Fatalf("%q is not defined", ref)
	}
	if got := s.Paths.Paths["/kapis/things.example/v1/things"].Get.Description; got != "lists things" {
		t.Errorf("of two routes, the one described is %q", got)
	}
	for field, want := range map[string]string{
		"kind": "string", "metadata": "object", "list": "array", "map": "object", "pod": "object", "at": "string", "bytes": "string", "Unnamed": "boolean",
	} {
		if p, ok := def.Properties[field]; !ok || len(p.Type) != 1 || p.Type[0] != want {
			t.Errorf("field %s is %+v, want %s", field, p.Type, want)
		}
	}
	specField := def.Properties["spec"]
	if _, ok := def.Properties["hidden"]; ok || specField.Ref.String() == "" {
		t.Errorf("properties %v", def.Properties)
	}
	checkRefs(t, body)
}

// checkRefs checks that every reference within a document resolves.
func checkRefs(t *testing.T, doc []byte) {
	t.Helper()
	var root any
	if err := json.Unmarshal(doc, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				at := root
				for _, s := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := at.(map[string]any)
					at = m[s]
				}
				if at == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(root)
}

func TestV2ProtobufHoldsBothDocuments(t *testing.T) {
	_, srv, _ := newHandler(t, newKube(t))
	for _, accept := range []string{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"} {
		res, body := fetch(t, srv.URL+"/openapi/v2", "Accept", accept)
		if got := res.Header.Get("Content-Type"); got != "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" {
			t.Errorf("Content-Type %q", got)
		}
		var d openapi_v2.Document
		if err := proto.Unmarshal(body, &d); err != nil {
			t.Fatal(err)
		}
		_, text := fetch(t, srv.URL+"/openapi/v2")
		want, err := openapi_v2.ParseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, p := range d.Paths.Path {
			if seen[p.Name] {
				t.Errorf("path %s is there twice", p.Name)
			}
			seen[p.Name] = true
		}
		if d.Info.Title != "Kubernetes" || len(d.Paths.Path) != len(want.Paths.Path) ||
			len(d.Definitions.AdditionalProperties) != len(want.Definitions.AdditionalProperties) {
			t.Errorf("%d paths and %d definitions, the JSON has %d and %d", len(d.Paths.Path), len(d.Definitions.AdditionalProperties),
				len(want.Paths.Path), len(want.Definitions.AdditionalProperties))
		}
	}
}

func TestV2FollowsKubeWithinTheTime(t *testing.T) {
	k := newKube(t)
	_, srv, clock := newHandler(t, k)
	first, _ := fetch(t, srv.URL+"/openapi/v2")
	etag := first.Header.Get("Etag")
	if res, body := fetch(t, srv.URL+"/openapi/v2", "If-None-Match", etag); res.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("the same document is sent again: %d", res.StatusCode)
	}
	k.v2.UpdateSpec(swagger("io.k8s.Pod", "com.example.New"))
	if _, body := fetch(t, srv.URL+"/openapi/v2"); bytes.Contains(body, []byte("com.example.New")) || k.count("/openapi/v2") != 1 {
		t.Errorf("kube-apiserver is asked %d times within the time", k.count("/openapi/v2"))
	}
	clock.Step(time.Second)
	res, body := fetch(t, srv.URL+"/openapi/v2", "If-None-Match", etag)
	if res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("com.example.New")) || res.Header.Get("Etag") == etag {
		t.Errorf("the new document does not come: %d, %s", res.StatusCode, res.Header.Get("Etag"))
	}
	clock.Step(time.Second)
	if again, _ := fetch(t, srv.URL+"/openapi/v2"); again.Header.Get("Etag") != res.Header.Get("Etag") {
		t.Error("a document that did not change has another ETag")
	}
}

func TestClientGoReadsTheDocuments(t *testing.T) {
	_, srv, _ := newHandler(t, newKube(t))
	d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenAPISchema(); err != nil {
		t.Errorf("version 2: %v", err)
	}
	doc, err := openapi3.NewRoot(d.OpenAPIV3()).GVSpec(schema.GroupVersion{Group: "apps", Version: "v1"})
	if err != nil || doc.Info.Title != "Deployment" {
		t.Errorf("version 3: %v", err)
	}
}

func TestKubeDown(t *testing.T) {
	k := newKube(t)
	_, srv, clock := newHandler(t, k)
	k.down.Store(true)
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"} {
		for range 2 {
			res, body := fetch(t, srv.URL+path)
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || bytes.Contains(body, []byte("127.0.0.1")) {
				t.Errorf("%s: %d %s", path, res.StatusCode, body)
			}
		}
	}
	if n := k.count("/openapi/v2"); n != 1 {
		t.Errorf("a server that is down was asked %d times within a second", n)
	}
	k.down.Store(false)
	clock.Step(time.Second)
	if res, _ := fetch(t, srv.URL+"/openapi/v2"); res.StatusCode != http.StatusOK {
		t.Errorf("after it came back: %d", res.StatusCode)
	}
	k.down.Store(true)
	clock.Step(time.Minute)
	if res, _ := fetch(t, srv.URL+"/openapi/v2"); res.StatusCode != http.StatusOK {
		t.Errorf("the document of before is not served: %d", res.StatusCode)
	}
}

func TestManyReadersMakeOneQuestion(t *testing.T) {
	k := newKube(t)
	_, srv, _ := newHandler(t, k)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if res, err := http.Get(srv.URL + "/openapi/v2"); err != nil || res.StatusCode != http.StatusOK {
				t.Error(err)
			} else {
				_ = res.Body.Close()
			}
		})
	}
	wg.Wait()
	if n := k.count("/openapi/v2"); n != 1 {
		t.Errorf("kube-apiserver was asked %d times", n)
	}
}

func TestDocumentsAreReadOnly(t *testing.T) {
	h, _, _ := newHandler(t, newKube(t))
	for _, method := range []string{"POST", "DELETE"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/openapi/v2", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

func TestEveryReplicaGeneratesTheSame(t *testing.T) {
	a, err := generate(services(), "t", "v")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b, err := generate(services(), "t", "v")
		if err != nil {
			t.Fatal(err)
		}
		if a.v2Hash != b.v2Hash || !reflect.DeepEqual(hashes(a), hashes(b)) {
			t.Fatal("two replicas would give different ETags")
		}
	}
}

func hashes(d *documents) map[string]string {
	out := map[string]string{}
	for path, doc := range d.v3 {
		out[path] = doc.hash
	}
	return out
}

func TestOwnPathsAreThoseOfTheParser(t *testing.T) {
	for _, root := range []string{"/kapis/a.b/v1", "/kapis/{group}/{version}", "/", "/oauth", "/.well-known"} {
		path := "/openapi/v3/" + documentOf(root)
		if _, err := request.Parse(httptest.NewRequest(http.MethodGet, path, nil)); err != nil {
			t.Errorf("%s can't be asked for: %v", path, err)
		}
	}
}
