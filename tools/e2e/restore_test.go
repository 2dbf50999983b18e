package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/tools/stack"
)

// revisions is how many writes follow a snapshot at least: more than a control plane makes while it starts, so that without
// --bump-revision the version of each watch lies in the future of the restored etcd.
const revisions = 500

// A backup of etcd is restored under running replicas: all of them have the restored state soon, and nothing else (U53).
func TestARestoredBackupIsWhatAllReplicasHave(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	w := newRestoredWorld(t)
	for name, args := range map[string][]string{
		"RevisionsGoBack":    nil, // who forgets --bump-revision is safe too
		"RevisionsAreBumped": {"--bump-revision=1000000000"},
	} {
		t.Run(name, func(t *testing.T) { w.restoredWith(t, args) })
	}
}

// restoredWorld is the product on a control plane that goes back in time, with a second ks-apiserver.
type restoredWorld struct {
	*stack.Stack
	root     dynamic.Interface
	bases    []string
	password string
	serial   int
}

func newRestoredWorld(t *testing.T) *restoredWorld {
	t.Helper()
	o := options
	o.Dir, o.Log, o.Args = filepath.Join(t.TempDir(), "dev"), nil, nil
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	// The second is an administrator of the cluster. A kube-apiserver that starts refuses others for a moment, which makes their watches
	// begin again in any case; it does not refuse these, nor anybody where a load balancer waits until it is ready.
	other, err := s.Replica(t.Context(), "--kubeconfig="+filepath.Join(s.Dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	root, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &restoredWorld{Stack: s, root: root, bases: []string{s.URL, other.URL}, password: s.AdminPassword}
}

// dev runs a command of the control plane.
func (w *restoredWorld) dev(t *testing.T, args ...string) {
	t.Helper()
	args = append(args, "--dir", w.Dir)
	if out, err := exec.CommandContext(t.Context(), w.Program("dev"), args...).CombinedOutput(); err != nil {
		t.Fatalf("dev %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// everywhere waits until each replica answers a request of token with the code.
func (w *restoredWorld) everywhere(t *testing.T, what string, code int, token, path string) {
	t.Helper()
	for i, base := range w.bases {
		within(t, restoreSeen, what+", replica "+strconv.Itoa(i), caller{base, token}.is(code, http.MethodGet, path))
	}
}

// restoreSeen is when the restored state counts at the latest. Most of it is the start of a control plane.
const restoreSeen = 5 * time.Minute

const (
	nodesOfAll   = "/api/v1/nodes?limit=1"
	restoredPath = "/kapis/resources.kubesphere.io/v1alpha3/namespaces/"
)

func (w *restoredWorld) user(t *testing.T, a caller, name string) tokenReply {
	t.Helper()
	a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/users", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User",
		"metadata": obj{"name": name}, "spec": obj{"email": name + "@example.com", "password": password}})
	var out tokenReply
	eventually(t, name+" logs in", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, w.URL, name, password)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		if err == nil {
			out = decode[tokenReply](t, r.body)
		}
		return err
	})
	return out
}

func (w *restoredWorld) bind(t *testing.T, a caller, user string) {
	t.Helper()
	a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/globalrolebindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind": "GlobalRoleBinding", "metadata": obj{"name": user},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "platform-admin"},
		"subjects": []any{obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}})
}

func (w *restoredWorld) key(t *testing.T, a caller, of, pass string) string {
	t.Helper()
	return decode[struct{ Token string }](t, a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/users/"+of+"/apikeys", obj{
		"description": "restore", "currentPassword": pass, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}).body).Token
}

func (w *restoredWorld) namespace(t *testing.T, a caller, name string, labels obj) {
	t.Helper()
	a.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace",
		"metadata": obj{"name": name, "labels": labels}})
}

func (w *restoredWorld) restoredWith(t *testing.T, args []string) {
	w.serial++
	name := func(of string) string { return of + "-" + strconv.Itoa(w.serial) }
	file := filepath.Join(t.TempDir(), "snapshot.db")
	adminTokens := tokens(t, w.URL, "admin", w.password)
	a := caller{w.URL, adminTokens.Access}
	kept, loser, winner := w.user(t, a, name("kept")), w.user(t, a, name("loser")), w.user(t, a, name("winner"))
	gone := tokens(t, w.URL, name("kept"), password) // of a session that ends after the snapshot
	w.bind(t, a, name("loser"))
	keyBefore := w.key(t, a, "admin", w.password)
	w.namespace(t, a, name("before"), obj{})
	if err := putBoundRole(t.Context(), w.root, name("mirrored")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mirror works", mirrored(w.root, name("mirrored")))
	w.everywhere(t, "the loser has a role", http.StatusOK, loser.Access, nodesOfAll)
	w.everywhere(t, "the winner has none", http.StatusForbidden, winner.Access, nodesOfAll)
	w.everywhere(t, "the namespace is listed", http.StatusOK, a.token, restoredPath+name("before"))
	w.everywhere(t, "the session that will end", http.StatusOK, gone.Access, iamRoutes+"/users/"+name("kept"))

	w.dev(t, "snapshot", "--to", file)

	lateTokens := w.user(t, a, name("late"))
	newer := tokens(t, w.URL, name("kept"), password)
	keyAfter := w.key(t, a, "admin", w.password)
	w.bind(t, a, name("winner"))
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalrolebindings/"+name("loser"), nil)
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalrolebindings/"+name("mirrored"), nil)
	w.namespace(t, a, name("after"), obj{})
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+name("before"), `{"metadata":{"labels":{"of":"the-lost-state"}}}`, asMerge)
	r, err := tokenCall(t.Context(), w.URL, map[string][]string{"grant_type": {"refresh_token"}, "refresh_token": {kept.Refresh}})
	if err != nil || r.code != http.StatusOK {
		t.Fatalf("refresh: %d %v", r.code, err)
	}
	caller{w.URL, gone.Access}.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
	for i := range revisions {
		a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+name("after"), fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i), asMerge)
	}
	w.everywhere(t, "the winner has the role", http.StatusOK, winner.Access, nodesOfAll)
	w.everywhere(t, "the loser has lost it", http.StatusForbidden, loser.Access, nodesOfAll)
	w.everywhere(t, "the key", http.StatusOK, keyAfter, nodesOfAll)
	w.everywhere(t, "the session", http.StatusOK, newer.Access, iamRoutes+"/users/"+name("kept"))
	w.everywhere(t, "the ended session", http.StatusUnauthorized, gone.Access, iamRoutes+"/users/"+name("kept"))
	w.everywhere(t, "the namespace", http.StatusOK, a.token, restoredPath+name("after"))
	tagged := make([]string, len(w.bases))
	versions := make([]string, len(w.bases))
	for i, base := range w.bases {
		c := caller{base, a.token}
		within(t, patience, "the label", func(ctx context.Context) error {
			r, err := c.do(ctx, http.MethodGet, restoredPath+name("before"), nil)
			if err == nil && !strings.Contains(r.body, "the-lost-state") {
				err = errors.New(clip(r.body))
			}
			tagged[i] = r.header.Get("Etag")
			return err
		})
		versions[i] = c.list(t, strings.TrimSuffix(restoredPath, "/")+"?limit=1").Metadata.ResourceVersion
	}

	began := time.Now()
	w.dev(t, append([]string{"restore", "--from", file}, args...)...)
	t.Logf("kube-apiserver has the restored state after %v", time.Since(began).Round(100*time.Millisecond))

	w.everywhere(t, "the session from before goes on", http.StatusOK, kept.Access, iamRoutes+"/users/"+name("kept"))
	w.everywhere(t, "the key from before counts", http.StatusOK, keyBefore, nodesOfAll)
	w.everywhere(t, "what was made later is gone", http.StatusNotFound, a.token, restoredPath+name("after"))
	w.everywhere(t, "what was deleted later is back", http.StatusOK, a.token, restoredPath+name("before"))
	w.everywhere(t, "the binding that was deleted later counts", http.StatusOK, loser.Access, nodesOfAll)
	w.everywhere(t, "the binding that was made later does not", http.StatusForbidden, winner.Access, nodesOfAll)
	w.everywhere(t, "the session that was opened later is over", http.StatusUnauthorized, newer.Access, iamRoutes+"/users/"+name("kept"))
	w.everywhere(t, "the user who was made later is gone", http.StatusUnauthorized, lateTokens.Access, iamRoutes+"/users/"+name("late"))
	w.everywhere(t, "the key that was made later is refused", http.StatusUnauthorized, keyAfter, nodesOfAll)
	w.everywhere(t, "the session that has ended stays so", http.StatusUnauthorized, gone.Access, iamRoutes+"/users/"+name("kept"))
	t.Logf("all replicas have the restored state after %v", time.Since(began).Round(100*time.Millisecond))

	for i, base := range w.bases {
		c := caller{base, a.token}
		r := c.must(t, http.StatusOK, http.MethodGet, restoredPath+name("before"), nil, "If-None-Match: "+tagged[i])
		if strings.Contains(r.body, "the-lost-state") {
			t.Errorf("replica %d shows the lost state: %s", i, clip(r.body))
		}
		w.watchEnds(t, c, versions[i], args == nil)
	}
	eventually(t, "the mirror has the role of the restored binding", mirrored(w.root, name("mirrored")))
	if err := putBoundRole(t.Context(), w.root, name("later")); err != nil {
		t.Fatal(err)
	}
	within(t, restoreSeen, "the mirror works", mirrored(w.root, name("later")))
	within(t, restoreSeen, "a refresh token from before the snapshot", func(ctx context.Context) error {
		r, err := tokenCall(ctx, w.URL, map[string][]string{"grant_type": {"refresh_token"}, "refresh_token": {kept.Refresh}})
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	w.namespace(t, a, name("new"), obj{})
	w.everywhere(t, "what is made from now on is listed", http.StatusOK, a.token, restoredPath+name("new"))
	if _, err := os.Stat(filepath.Join(w.Dir, "etcd-replaced")); err != nil {
		t.Errorf("the replaced data: %v", err)
	}
}

// watchEnds fails unless a watch that goes on from a version of the lost state is told to start over, or, where versions were bumped,
// is told what is gone.
func (w *restoredWorld) watchEnds(t *testing.T, c caller, version string, expired bool) {
	t.Helper()
	path := strings.TrimSuffix(restoredPath, "/") + "?watch=true&timeoutSeconds=1&resourceVersion=" + version
	eventually(t, "a watch from the lost version "+version+" says that, or what is gone", func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil || r.code != http.StatusOK || r.body == "" { // a busy machine may end it before it has told of anything
			return fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
		}
		if !strings.Contains(r.body, `"code":410`) && (expired || !strings.Contains(r.body, `"DELETED"`)) {
			t.Errorf("it says %s", clip(r.body))
		}
		return nil
	})
}
