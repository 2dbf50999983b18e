package resources_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/registry"
	"kapis.dev/ks-apiserver/pkg/request"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	ggcrremote "github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// canary is the right password of the registry and the Git server. It must show nowhere.
	canary = "canary-password"
	inA    = resources.Root + "/namespaces/a"
)

// serve answers a request as if the path authorized had been authorized.
func serve(t *testing.T, c *restful.Container, method, path, authorized, body string) *httptest.ResponseRecorder {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	as := httptest.NewRequestWithContext(t.Context(), method, authorized, nil)
	info, err := request.Parse(as)
	if err != nil {
		t.Fatalf("%s: %v", authorized, err)
	}
	r, rec := httptest.NewRequestWithContext(t.Context(), method, path, reader), httptest.NewRecorder()
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	c.ServeHTTP(rec, r.WithContext(request.WithInfo(r.Context(), info)))
	return rec
}

// secrets are what the caller may read at kube-apiserver.
type secrets map[string]*corev1.Secret

func (s secrets) Get(_ context.Context, path string) (redaction.Raw, error) {
	if found, ok := s[path]; ok {
		text, err := json.Marshal(found)
		return redaction.Received(string(text)), err
	}
	return redaction.Raw{}, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, path[strings.LastIndex(path, "/")+1:], fmt.Errorf("no role"))
}

// far is a registry, a Harbor, Docker Hub's search and a Git server at one address, and the routes that use it.
type far struct {
	*restful.Container
	host  string
	asked atomic.Int32
}

func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{}
	images := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	says := func(answer string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
	}
	known := func(next http.Handler) http.Handler { return egresstest.BasicAuth("ann", canary, next) }
	mux := http.NewServeMux()
	mux.Handle("/v1/search", says(`{"num_results":7,"results":[{"name":"nginx"}]}`))
	mux.Handle("/api/v2.0/search", known(says(`{"repository":[{"repository_name":"team/app"}]}`)))
	mux.Handle("/app.git/info/refs", known(says("001e# service=git-upload-pack\n")))
	mux.Handle("/", known(images))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	f.host = strings.TrimPrefix(srv.URL, "http://")
	for _, tag := range []string{"v2", "v1", "v10"} {
		f.push(t, "team/app:"+tag)
	}
	f.asked.Store(0)
	m := remote.New(remote.Options{AllowLoopback: true, Hub: srv.URL, AsCaller: secrets{
		"/api/v1/namespaces/a/secrets/good": f.secret(canary), "/api/v1/namespaces/a/secrets/wrong": f.secret("wrong"),
		"/api/v1/namespaces/a/secrets/opaque": {Data: map[string][]byte{"x": []byte(canary)}},
		"/api/v1/namespaces/a/secrets/git":    {Data: map[string][]byte{"username": []byte("ann"), "password": []byte(canary)}},
		"/api/v1/namespaces/a/secrets/ssh":    {Data: map[string][]byte{"ssh-privatekey": []byte(canary)}},
	}})
	t.Cleanup(m.CloseIdleConnections)
	f.Container = kapistest.Container((&resources.V1alpha3{Remotes: m}).WebService(),
		(&resources.V1alpha2{Remotes: m, Inventory: &inventory.Handler{}}).WebService())
	return f
}

func (f *far) push(t *testing.T, image string) {
	t.Helper()
	img, err := random.Image(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(f.host+"/"+image, name.Insecure)
	if err == nil {
		err = ggcrremote.Write(ref, img, ggcrremote.WithAuth(&authn.Basic{Username: "ann", Password: canary}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// secret is an account at the registry, which has no TLS.
func (f *far) secret(password string) *corev1.Secret {
	config := fmt.Sprintf(`{"auths":{%q:{"username":"ann","password":%q}}}`, f.host, password)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{registry.InsecureAnnotation: "true"}},
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
	}
}

func TestImagesAreAskedForWithASecret(t *testing.T) {
	f := newFar(t)
	image, tags := "/imageconfig?image="+f.host+"/team/app:v1", "/repositorytags?repository="+f.host+"/team/app"
	blob := resources.RootV1alpha2 + "/registry/blob?image=" + f.host + "/team/app:v1"
	for _, r := range []struct {
		name, path string
		code       int
		has        string
	}{
		{"Config", inA + image + "&secret=good", 200, `"rootfs":{`},
		{"WrongPassword", inA + image + "&secret=wrong", 400, "refuses the credentials"},
		{"UnknownImage", inA + "/imageconfig?image=" + f.host + "/none:v1&secret=good", 404, "no such image"},
		{"NoImage", inA + "/imageconfig?secret=good", 400, "image is missing"},
		{"BadImage", inA + "/imageconfig?image=A&secret=good", 400, "not the name of an image"},
		{"SecretOfAnotherKind", inA + image + "&secret=opaque", 400, "not one of container registries"},
		{"SecretWithABadName", inA + image + "&secret=../pods/p", 400, "not the name of a Secret"},
		{"WithoutTheSecret", inA + image, 400, "does not speak TLS"},
		{"Tags", inA + tags + "&secret=good", 200, `"tags":["v2","v10","v1"],"total":3}`},
		{"TagsAscending", inA + tags + "&secret=good&ascending=true", 200, `"tags":["v1","v10","v2"],"total":3}`},
		{"TagsPage", inA + tags + "&secret=good&limit=1&page=2", 200, `"repository":"team/app","tags":["v10"],"total":3}`},
		{"TagsBehindTheEnd", inA + tags + "&secret=good&limit=2&page=9", 200, `"tags":[],"total":3}`},
		{"TagsBadLimit", inA + tags + "&secret=good&limit=x", 400, `"field":"limit"`},
		{"TagsOfNothing", inA + "/repositorytags?secret=good", 400, "repository is missing"},
		{"SearchHarbor", inA + "/images?q=app&secret=good", 200, `{"total":1,"entries":["team/app"]}`},
		{"SearchDockerHub", inA + "/images?q=nginx", 200, `{"total":7,"entries":["nginx"]}`},
		{"SearchForAnything", inA + "/images", 200, `{"total":7,"entries":["nginx"]}`},
		{"Blob", blob + "&namespace=a&secret=good", 200, `"status":"succeeded","imageManifest":{`},
		{"BlobInsecure", blob + "&insecure=true", 400, "refuses the credentials"},
		{"BlobBadInsecure", blob + "&insecure=maybe", 400, "insecure"},
		{"BlobSecretWithoutNamespace", blob + "&secret=good", 400, "not the name of a Secret"},
		{"Watch", inA + image + "&watch=true", 405, "watch"},
	} {
		t.Run(r.name, func(t *testing.T) {
			rec := serve(t, f.Container, http.MethodGet, r.path, r.path, "")
			if rec.Code != r.code || !strings.Contains(rec.Body.String(), r.has) {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if strings.Contains(rec.Body.String(), canary) { // S57
				t.Errorf("a secret shows: %s", rec.Body)
			}
		})
	}
}

func TestASecretThatTheCallerMayNotReadIsNotUsed(t *testing.T) { // S25
	f := newFar(t)
	gitBody := func(secret string) string {
		return fmt.Sprintf(`{"remoteUrl":"http://%s/app.git","secretRef":{"name":%q,"namespace":"b"}}`, f.host, secret)
	}
	for _, r := range []struct{ method, path, body string }{
		{"GET", resources.Root + "/namespaces/b/imageconfig?image=" + f.host + "/team/app:v1&secret=good", ""},
		{"GET", resources.Root + "/namespaces/b/repositorytags?repository=" + f.host + "/team/app&secret=good", ""},
		{"GET", resources.Root + "/namespaces/b/images?q=app&secret=good", ""},
		{"GET", resources.RootV1alpha2 + "/registry/blob?image=" + f.host + "/team/app:v1&namespace=b&secret=good", ""},
		{"POST", resources.RootV1alpha2 + "/git/verify", gitBody("git")},
	} {
		rec := serve(t, f.Container, r.method, r.path, r.path, r.body)
		if rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), `"reason":"Forbidden"`) {
			t.Errorf("%s: %d %s", r.path, rec.Code, rec.Body)
		}
	}
	if n := f.asked.Load(); n > 0 {
		t.Errorf("%d requests were sent before", n)
	}
}

func TestLoginsAreVerified(t *testing.T) {
	f := newFar(t)
	path := inA + "/registrysecrets/s/verify"
	body := func(edit func(*corev1.Secret), password string) string {
		s := f.secret(password)
		s.Name, s.Namespace = "s", "a"
		if edit != nil {
			edit(s)
		}
		raw, _ := json.Marshal(s)
		return string(raw)
	}
	account := func(host, password string) string {
		return fmt.Sprintf(`{"username":"ann","password":%q,"serverhost":%q}`, password, host)
	}
	git := func(url, secret string) string {
		return fmt.Sprintf(`{"remoteUrl":%q,"secretRef":{"name":%q,"namespace":"a"}}`, url, secret)
	}
	repo := "http://" + f.host + "/app.git"
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for _, r := range []struct {
		name, path, body string
		code             int
		has              string
	}{
		{"Secret", path, body(nil, canary), 200, `"name":"s"`},
		{"SecretWithoutPlace", path, body(func(s *corev1.Secret) { s.Name, s.Namespace = "", "" }, canary), 200, ""},
		{"SecretWithAWrongPassword", path, body(nil, canary+"x"), 400, "refuses the credentials"},
		{"SecretOfAnotherName", path, body(func(s *corev1.Secret) { s.Name = "other" }, canary), 400, "the one in the path a/s"},
		{"SecretOfAnotherNamespace", path, body(func(s *corev1.Secret) { s.Namespace = "b" }, canary), 400, "the one in the path a/s"},
		{"AnotherKind", path, `{"kind":"ConfigMap","apiVersion":"v1"}`, 400, "not a Secret"},
		{"AnotherVersion", path, `{"kind":"Secret","apiVersion":"v2"}`, 400, "not a Secret"},
		{"SecretWithoutRegistries", path, `{"data":{"password":"` + encoded + `"}}`, 400, "no .dockerconfigjson"},
		{"SecretThatIsNoJSON", path, `{"data":` + canary, 400, "not the JSON"},
		{"SecretWithoutTLS", path, body(func(s *corev1.Secret) { s.Annotations = nil }, canary), 400, "does not speak TLS"},
		{"AccountWithoutTLS", resources.RootV1alpha2 + "/registry/verify", account(f.host, canary), 400, "does not speak TLS"},
		{"AccountWithoutTLSOnPurpose", resources.RootV1alpha2 + "/registry/verify", account("http://"+f.host, canary), 200, ""},
		{"AccountWithAWrongPassword", resources.RootV1alpha2 + "/registry/verify", account(" HTTP://"+f.host+"/", canary+"x"), 400, "refuses the credentials"},
		{"AccountOverTLSThatIsNotThere", resources.RootV1alpha2 + "/registry/verify", account("https://"+f.host, canary), 400, "with http:// before its address"},
		{"AccountNowhere", resources.RootV1alpha2 + "/registry/verify", account("", canary), 400, "not the address of a registry"},
		{"AccountThatIsNoJSON", resources.RootV1alpha2 + "/registry/verify", canary, 400, "not the JSON"},
		{"Git", resources.RootV1alpha2 + "/git/verify", git(repo, "git"), 200, `{"message":"success"}`},
		{"GitWithoutASecret", resources.RootV1alpha2 + "/git/verify", `{"remoteUrl":"` + repo + `"}`, 400, "refuses the credentials"},
		{"GitWithAnSSHKey", resources.RootV1alpha2 + "/git/verify", git(repo, "ssh"), 400, "SSH"},
		{"GitWithAnotherSecret", resources.RootV1alpha2 + "/git/verify", git(repo, "opaque"), 400, "neither username nor password"},
		{"GitOverSSH", resources.RootV1alpha2 + "/git/verify", git("git@"+f.host+":app", "git"), 400, "SSH"},
		{"GitWithoutANamespace", resources.RootV1alpha2 + "/git/verify", `{"remoteUrl":"x","secretRef":{"name":"git"}}`, 400, "not the name of a Secret"},
		{"GitThatIsNoJSON", resources.RootV1alpha2 + "/git/verify", `"` + canary + `"`, 400, "not the JSON"},
	} {
		t.Run(r.name, func(t *testing.T) {
			rec := serve(t, f.Container, http.MethodPost, r.path, r.path, r.body)
			if rec.Code != r.code || !strings.Contains(rec.Body.String(), r.has) {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if strings.Contains(rec.Body.String(), canary) { // S57; a Secret is answered as it was sent, in base64
				t.Errorf("a secret shows: %s", rec.Body)
			}
		})
	}
}
