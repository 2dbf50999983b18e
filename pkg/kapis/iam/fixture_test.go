package iam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/password"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	kapisiam "kapis.dev/ks-apiserver/pkg/kapis/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/loginrecord"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/member"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/review"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/roletemplate"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	kapisuser "kapis.dev/ks-apiserver/pkg/kapis/iam/user"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	root   = "/kapis/iam.kubesphere.io/v1beta1"
	secret = "P@88w0rd"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// world is the routes with a small platform.
type world struct {
	t     *testing.T
	users *iam.UserIndex
	h     *platformServices
	// sent are the bodies that were sent to kube-apiserver, by method and path, and by user.
	mu   sync.Mutex
	sent []string
	// written are the passwords that were written, and by whom.
	written map[string]string
	ended   []string
	// proved is when all users were last authenticated in their sessions.
	proved time.Time
	// made are the users that were registered.
	made []*v1beta1.User
	// live answers reads at kube-apiserver, by path; fails are codes to answer writes with first, by path.
	live  map[string]string
	fails map[string][]int
	// statusApart makes status a sub-resource of users.
	statusApart bool
	// forbidden is what the guard refuses to write: "create globalrolebindings bob-boss". guarded is what it was asked.
	forbidden map[string]bool
	guarded   []string
	// told is what the guard was told was made.
	told []string
	// waited is what the routes waited for in the caches.
	waited []string
}

// allRights are the methods of the index of bindings that the handlers use.
type allRights interface {
	removal.Rights
	roletemplate.Rights
	target.Rights
}

// platformServices are the dependencies of the routes.
type platformServices struct {
	Users      *iam.UserIndex
	Logins     *login.Authenticator
	Accounts   *account.Linker
	Sessions   credential.Sessions
	APIKeys    *apikey.Store
	Factors    *factor.Store
	Resources  *resource.Service
	Kube       http.RoundTripper
	Authorizer authz.Authorizer
	Rights     allRights
	Guard      interface {
		target.Guard
		binding.Guard
	}
	Caches binding.Caches
	Now    func() time.Time
	Fleet  *removal.Fleet
	Member bool
}

// handler assembles the routes.
func (p *platformServices) handler() *kapisiam.Handler {
	target := &target.Users{Index: p.Users, Rights: p.Rights, Guard: p.Guard}
	as := caller.Client{May: p.Authorizer, Kube: p.Kube}
	bindings := &binding.Service{Rights: p.Rights, Guard: p.Guard, Caches: p.Caches, AsCaller: as}
	return &kapisiam.Handler{
		Users: &kapisuser.Handler{Target: target, Bindings: bindings, AsCaller: as, Accounts: p.Accounts,
			Passwords: p.Logins.Passwords, Now: p.Now},
		Credentials: &credential.Handler{Target: target, Authenticator: p.Logins, Sessions: p.Sessions, APIKeys: p.APIKeys, Factors: p.Factors,
			Now: p.Now},
		LoginRecords: &loginrecord.Handler{Target: target, Resources: p.Resources},
		Members: &member.Handler{Users: p.Users, Resources: p.Resources, Bindings: bindings,
			Removals: &removal.Remover{Users: p.Users, Bindings: bindings, Rights: p.Rights, Authorizer: p.Authorizer, Fleet: p.Fleet,
				Member: p.Member}},
		RoleTemplates: &roletemplate.Handler{Target: target, Rights: p.Rights, Caches: p.Caches},
		Reviews:       &review.Handler{},
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, users: iam.NewUserIndex(), written: map[string]string{},
		live: map[string]string{}, fails: map[string][]int{}, forbidden: map[string]bool{},
	}
	w.user("alice", secret)
	w.user("bob", secret)
	w.user("ldap", "")
	passwords, err := password.New(w.users, nil)
	if err != nil {
		t.Fatal(err)
	}
	lockout, err := lockout.New(lockout.Options{
		API: &apiOf[*v1alpha1.Lockout]{}, Users: w.users, Tries: 3, Window: time.Hour, Now: noon,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.h = &platformServices{
		Now:      noon,
		Users:    w.users,
		Logins:   &login.Authenticator{Passwords: passwords, Lockout: lockout, Now: noon, Write: w.write},
		Accounts: account.New(account.Options{API: w, Users: w.users, Synced: func() bool { return true }}), Sessions: w,
		APIKeys: &apikey.Store{API: &apiOf[*v1alpha1.APIKey]{}, Users: w.users, MaxAge: 24 * time.Hour, Now: noon},
		Factors: &factor.Store{API: &apiOf[*v1alpha1.Factor]{}, Users: w.users, Now: noon},
		Kube:    w, Authorizer: authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.Allow("", "kapis:global:test"), nil
		}),
		Guard: w, Rights: rights{t: t},
	}
	return w
}

// Check refuses what is forbidden.
func (w *world) Check(_ context.Context, x *admission.Write) error {
	what := x.Verb + " " + x.GVR.Resource + " " + x.Name
	w.guarded = append(w.guarded, what)
	x.WhenMade = func() bool { w.told = append(w.told, what); return true }
	if x.By == nil || x.GVR.Group != wire.Group || (x.Object == nil) != (x.Verb == "delete") || (x.Old == nil) != (x.Verb == "create") &&
		x.GVR.Resource != "users" {
		w.t.Errorf("the guard is asked about %+v", x)
	}
	if w.forbidden[what] {
		return status.Forbiddenf("the caller does not hold it")
	}
	return nil
}

// Unnamed refuses users whom bindings of Kubernetes' own name.
func (w *world) Unnamed(_ context.Context, by user.Info, name string, _ []string) error {
	if by.GetName() != "admin" && w.forbidden["become "+name] {
		return status.Forbiddenf("bindings name him: the caller does not hold it")
	}
	return nil
}

// Create creates a User, as kube-apiserver does.
func (w *world) Create(_ context.Context, u *v1beta1.User) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, u)
	u.UID = "uid-" + types.UID(u.Name)
	return json.Marshal(u)
}

// Get reads a User that was created.
func (w *world) Get(_ context.Context, name string) ([]byte, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (w *world) user(name, password string) {
	raw := map[string]any{"metadata": map[string]any{"name": name, "uid": "uid-" + name}, "status": map[string]any{"state": "Active"}, "spec": map[string]any{}}
	if password != "" {
		h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			w.t.Fatal(err)
		}
		raw["spec"] = map[string]any{"password": string(h)}
	}
	b, err := json.Marshal(raw)
	if err != nil {
		w.t.Fatal(err)
	}
	w.users.Set(&store.Object{Name: name, Raw: b})
}

// apiOf accepts writes, and records only how many there were.
type apiOf[T metav1.Object] struct{ version int }

func (a *apiOf[T]) write(o T) (T, error) {
	a.version++
	o.SetUID("made")
	o.SetResourceVersion(strconv.Itoa(a.version))
	return o, nil
}

func (a *apiOf[T]) Create(_ context.Context, o T) (T, error) { return a.write(o) }
func (a *apiOf[T]) Update(_ context.Context, o T) (T, error) { return a.write(o) }

func (a *apiOf[T]) Get(_ context.Context, name string) (none T, _ error) {
	return none, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (a *apiOf[T]) Delete(context.Context, string, metav1.Preconditions) error { return nil }

func (w *world) End(_ context.Context, name, _ string) error {
	w.ended = append(w.ended, name)
	return nil
}
func (w *world) EndAll(_ context.Context, uid, _, _ string) error {
	w.ended = append(w.ended, uid)
	return nil
}
func (w *world) Of(uid string) []*session.Session {
	return []*session.Session{{Name: "s-of-" + uid, UserUID: uid, Client: "kubesphere", Created: noon(), Authenticated: w.proved, Expires: noon(),
		Origin: iam.Origin{Source: "192.0.2.1"}}}
}

func (w *world) write(_ context.Context, by user.Info, u *iam.User, hash string) error {
	w.written[by.GetName()+"→"+u.Name] = hash
	return nil
}

// RoundTrip is a kube-apiserver that creates everything that it is sent, except a user called taken.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if i := request.InfoFrom(ctx); !authz.DecisionFrom(ctx).Allowed() || i.Path != r.URL.Path || !i.IsKubernetes {
		w.t.Errorf("%s %s was not authorized as itself: %+v", r.Method, r.URL, i)
	}
	if r.Method == http.MethodPost && r.URL.Path == iamPath+"users" && r.RemoteAddr == "" {
		w.t.Error("kube-apiserver is not told where a new user comes from")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.sent = append(w.sent, fmt.Sprintf("%s %s %s %s", request.UserFrom(ctx).GetName(), r.Method, r.URL, body))
	w.mu.Unlock()
	rec := httptest.NewRecorder()
	path := r.URL.Path
	if codes := w.fails[r.Method+" "+path]; len(codes) > 0 {
		w.fails[r.Method+" "+path] = codes[1:]
		rec.WriteHeader(codes[0])
		reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 403: metav1.StatusReasonForbidden}[codes[0]]
		_ = json.NewEncoder(rec).Encode(metav1.Status{Status: "Failure", Code: int32(codes[0]), Reason: reason, Message: "kube-apiserver says no"})
		return rec.Result(), nil
	}
	if r.Method == http.MethodGet {
		text, ok := w.live[path]
		if !ok {
			w.t.Errorf("nobody expects a look at %s", path)
		}
		_, _ = rec.WriteString(text)
		return rec.Result(), nil
	}
	if strings.Contains(string(body), `"taken"`) {
		s := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "users"}, "taken").ErrStatus
		rec.WriteHeader(int(s.Code))
		_ = json.NewEncoder(rec).Encode(s)
		return rec.Result(), nil
	}
	rec.WriteHeader(http.StatusCreated)
	if w.statusApart && r.Method == http.MethodPut {
		body = []byte(strings.Replace(string(body), `"state":"Disabled"`, `"state":"Active"`, 1))
	}
	_, _ = rec.Write(body)
	return rec.Result(), nil
}

// as returns a logged-in user.
func as(name string) user.Info {
	return &user.DefaultInfo{Name: name, UID: "uid-" + name, Groups: []string{user.AllAuthenticated}}
}

func withKey(name string) user.Info {
	return &user.DefaultInfo{Name: name, UID: "uid-" + name, Extra: map[string][]string{iam.ExtraCredential: {iam.CredentialAPIKey}}}
}

// do sends a request as the server would handle it: parsed and authorized.
func (w *world) do(u user.Info, method, path, body string) (int, string) {
	w.t.Helper()
	if !strings.HasPrefix(path, "/kapis/") {
		path = root + path
	}
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), info), u)
	rec := httptest.NewRecorder()
	kapistest.Container(w.h.handler().WebService(), w.h.handler().OlderWebService()).ServeHTTP(rec, r.WithContext(authz.WithDecision(ctx,
		authz.Allow("", ""))))
	return rec.Code, rec.Body.String()
}

func (w *world) want(code int, u user.Info, method, path, body string) string {
	w.t.Helper()
	got, answer := w.do(u, method, path, body)
	if got != code {
		w.t.Errorf("%s: %s %s %s: %d %s, want %d", u.GetName(), method, path, body, got, answer, code)
	}
	for _, canary := range []string{secret, "$2a$", "Secret-123"} { // S57
		if strings.Contains(answer, canary) {
			w.t.Errorf("%s %s tells %q", method, path, canary)
		}
	}
	return answer
}
