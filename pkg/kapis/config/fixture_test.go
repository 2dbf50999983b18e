package config

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/setting"
	"kapis.dev/ks-apiserver/pkg/web"
)

const system = "kubesphere-system"

// world is the routes with a fake cluster, which records what was written there, and in which group.
type world struct {
	t        *testing.T
	client   kubernetes.Interface
	settings *setting.Store
	routes   *restful.Container

	mu   sync.Mutex
	sent []string
	// fails is asked before each write, nil where none fails.
	fails func(method, path string) error
}

func secretOf(name, typ, text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system, UID: types.UID("uid-" + name), ResourceVersion: "7"},
		Type:       corev1.SecretType(typ),
		Data:       map[string][]byte{"configuration.yaml": []byte(text)},
	}
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, client: kapistest.ListFirst(fake.NewClientset(objects...))}
	w.settings = kapistest.Settings(t, w.client, system)
	w.routes = restful.NewContainer()
	w.routes.Add(Handler{Settings: &Settings{Settings: w.settings, AsCaller: caller.Client{Kube: w}}}.V1alpha2())
	return w
}

// call sends a request as a user who was authorized.
func (w *world) call(method, path, body string) (int, string) {
	w.t.Helper()
	r := httptest.NewRequest(method, "/kapis/config.kubesphere.io/v1alpha2"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", typeMergePatch)
	}
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "alice"})
	rec := httptest.NewRecorder()
	w.routes.ServeHTTP(rec, r.WithContext(authz.WithDecision(ctx, authz.Allow("", "kapis:global:settings"))))
	return rec.Code, rec.Body.String()
}

// RoundTrip is kube-apiserver.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.sent = append(w.sent, authz.DecisionFrom(r.Context()).Group+" "+r.Method+" "+r.URL.Path)
	w.mu.Unlock()
	rec := httptest.NewRecorder()
	if w.fails != nil {
		err = w.fails(r.Method, r.URL.Path)
	}
	var out any
	if err == nil {
		out, err = w.write(r, body)
	}
	web.Write(rec, r, out, err)
	return rec.Result(), nil
}

func (w *world) write(r *http.Request, body []byte) (any, error) {
	kind, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"+system+"/"), "/")
	ctx, secrets, maps := r.Context(), w.client.CoreV1().Secrets(system), w.client.CoreV1().ConfigMaps(system)
	decode := func(into any) {
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(into); err != nil {
			w.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
	}
	switch kind + " " + r.Method {
	case "secrets POST":
		s := &corev1.Secret{}
		decode(s)
		return secrets.Create(ctx, s, metav1.CreateOptions{})
	case "secrets PATCH":
		if t := r.Header.Get("Content-Type"); t != typeMergePatch {
			w.t.Errorf("a patch of type %s", t)
		}
		return secrets.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	case "secrets DELETE":
		o := metav1.DeleteOptions{}
		decode(&o)
		if o.Preconditions == nil || o.Preconditions.UID == nil {
			w.t.Error("a deletion of whatever is there")
		}
		return metav1.Status{Status: "Success"}, secrets.Delete(ctx, name, o)
	case "configmaps POST", "configmaps PUT":
		m := &corev1.ConfigMap{}
		decode(m)
		if r.Method == http.MethodPost {
			return maps.Create(ctx, m, metav1.CreateOptions{})
		}
		return maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	return nil, apierrors.NewBadRequest("unexpected: " + r.Method + " " + r.URL.Path)
}

func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	s, err := w.client.CoreV1().Secrets(system).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return s
}
