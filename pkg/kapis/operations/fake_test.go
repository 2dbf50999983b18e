package operations

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
)

const jobsPath = "/apis/batch/v1/namespaces/a/jobs"

// cluster is a kube-apiserver with the Jobs of the namespace a.
type cluster struct {
	t    *testing.T
	mu   sync.Mutex
	jobs map[string]*unstructured.Unstructured
	last int // version and uid
	log  []string
	// fail is called before each request, "POST parked" or "DELETE job (dry)"; it returns a code, 0 to continue.
	fail func(what string) int
	// lost answers a request that was carried out with an error.
	lost func(what string) bool
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, jobs: map[string]*unstructured.Unstructured{}}
}

func (c *cluster) put(text string) *unstructured.Unstructured {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
	c.last++
	u.SetNamespace("a")
	if u.GetUID() == "" {
		u.SetUID(typesUID(c.last))
	}
	u.SetResourceVersion(fmt.Sprint(c.last))
	c.jobs[u.GetName()] = u
	return u
}

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := request.InfoFrom(r.Context()); !authz.DecisionFrom(r.Context()).Allowed() || i.Path != r.URL.Path || request.UserFrom(r.Context()).GetName() != "bob" {
		c.t.Errorf("%s %s was not authorized as itself: %+v", r.Method, r.URL, i)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	dry := r.URL.RawQuery == "dryRun=All"
	if r.Method == http.MethodDelete { // the body's options count alone where there is a body, as at kube-apiserver
		dry = strings.Contains(string(body), `"dryRun":["All"]`)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, jobsPath), "/")
	in := &unstructured.Unstructured{}
	if r.Method == http.MethodPost {
		if err := in.UnmarshalJSON(body); err != nil {
			return nil, err
		}
		name = in.GetName()
	}
	what := r.Method + " " + map[bool]string{true: "parked", false: name}[strings.Contains(name, "-rerun-")]
	if dry {
		what += " (dry)"
	}
	c.log = append(c.log, what)
	code, answer := http.StatusOK, any(nil)
	if c.fail != nil {
		if code := c.fail(what); code != 0 {
			return respond(code, failureOf(code, "", "refused by the test"))
		}
	}
	switch r.Method {
	case http.MethodGet:
		code, answer = c.get(name)
	case http.MethodPost:
		code, answer = c.post(in, dry)
	case http.MethodDelete:
		code, answer = c.delete(name, body, dry)
	}
	if c.lost != nil && c.lost(what) {
		return respond(http.StatusGatewayTimeout, failureOf(http.StatusGatewayTimeout, "Timeout", "no answer"))
	}
	return respond(code, answer)
}

func (c *cluster) get(name string) (int, any) {
	if u := c.jobs[name]; u != nil {
		return http.StatusOK, u.Object
	}
	return http.StatusNotFound, failureOf(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
}

func (c *cluster) post(in *unstructured.Unstructured, dry bool) (int, any) {
	if in.GetUID() != "" || in.GetResourceVersion() != "" || in.GetNamespace() != "a" {
		c.t.Errorf("created with what a new object can't have: %v", in.Object["metadata"])
	}
	if c.jobs[in.GetName()] != nil {
		return http.StatusConflict, failureOf(http.StatusConflict, metav1.StatusReasonAlreadyExists, "already exists")
	}
	if dry {
		return http.StatusCreated, in.Object
	}
	raw, _ := in.MarshalJSON()
	return http.StatusCreated, c.put(string(raw)).Object
}

func (c *cluster) delete(name string, body []byte, dry bool) (int, any) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(body, &options); err != nil || options.Preconditions == nil || options.Preconditions.UID == nil ||
		options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationBackground {
		c.t.Errorf("deletion without its conditions: %s", body)
		return http.StatusBadRequest, failureOf(http.StatusBadRequest, "", "bad")
	}
	u := c.jobs[name]
	switch pre := options.Preconditions; {
	case u == nil:
		return http.StatusNotFound, failureOf(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	case *pre.UID != u.GetUID() || pre.ResourceVersion != nil && *pre.ResourceVersion != u.GetResourceVersion():
		return http.StatusConflict, failureOf(http.StatusConflict, metav1.StatusReasonConflict, "precondition failed")
	}
	if !dry {
		delete(c.jobs, name)
	}
	return http.StatusOK, failureOf(0, "", "")
}

func failureOf(code int, reason metav1.StatusReason, message string) any {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Code:     int32(code),
		Reason:   reason,
		Message:  message,
		Status:   metav1.StatusFailure,
	}
	if code == 0 {
		s.Status = metav1.StatusSuccess
	}
	return s
}

func respond(code int, v any) (*http.Response, error) {
	rec := httptest.NewRecorder()
	rec.WriteHeader(code)
	err := json.NewEncoder(rec).Encode(v)
	return rec.Result(), err
}

// names are those of the existing Jobs, "parked" for the parked one.
func (c *cluster) names() map[string]bool {
	out := map[string]bool{}
	for name := range c.jobs {
		if strings.Contains(name, "-rerun-") {
			name = "parked"
		}
		out[name] = true
	}
	return out
}

// rerun requests the rerun of the Job called job, as bob.
func (c *cluster) rerun(may authz.Func, query string) *httptest.ResponseRecorder {
	c.t.Helper()
	if may == nil {
		may = allow
	}
	h := &V1alpha2{Kube: c, Authorizer: may, Pause: time.Microsecond, RetryFor: 50 * time.Millisecond}
	container := kapistest.Container([]*restful.WebService{h.WebService()}...)
	r := httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, "/kapis/operations.kubesphere.io/v1alpha2/namespaces/a/jobs/job?"+query, nil)
	info, err := request.Parse(r)
	if err != nil {
		c.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "bob"})
	container.ServeHTTP(rec, r.WithContext(ctx))
	return rec
}
