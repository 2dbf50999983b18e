package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const iamRoutes = "/kapis/iam.kubesphere.io/v1beta1"

func TestAChangedPasswordEndsTheSessions(t *testing.T) {
	name := unique("change")
	me := newUser(t, name)
	path := iamRoutes + "/users/" + name + "/password"
	change := func(current, next string) string {
		return fmt.Sprintf(`{"currentPassword":%q,"password":%q}`, current, next)
	}
	me.must(t, http.StatusBadRequest, http.MethodPut, path, change("Wrong-123", "Other-1234"))
	me.must(t, http.StatusBadRequest, http.MethodPut, path, change(password, "short"))
	me.must(t, http.StatusBadRequest, http.MethodPut, path, `{"password":"Other-1234"}`)
	me.must(t, http.StatusOK, http.MethodPut, path, change(password, "Other-1234"))
	within(t, revocation, "the token is refused", me.is(http.StatusUnauthorized, http.MethodGet, "/oauth/userinfo"))
	tokens(t, product.URL, name, "Other-1234")

	// A manager needs no current password; and others may not.
	admin(t).must(t, http.StatusOK, http.MethodPut, path, `{"password":"Third-1234","rePassword":"Third-1234"}`)
	eventually(t, "the new password opens", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, "Third-1234")
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
	newUser(t, unique("stranger")).must(t, http.StatusForbidden, http.MethodPut, path, `{"password":"Third-1235"}`)
}

// As the console's page does it, past our own routes.
func TestTheFirstChangeOfAPasswordByThePatchOfTheConsole(t *testing.T) {
	name := unique("first")
	admin(t).must(t, http.StatusOK, http.MethodPost, iamRoutes+"/users", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"iam.kubesphere.io/uninitialized": "true"}},
		"spec":     map[string]any{"email": name + "@example.com", "password": password},
	})
	var me caller
	eventually(t, "the user may log in", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, password)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		if err == nil {
			me = caller{product.URL, decode[tokenReply](t, r.body).Access}
		}
		return err
	})
	other := caller{product.URL, tokens(t, product.URL, name, password).Access}
	me.must(t, http.StatusOK, http.MethodPatch, "/apis/iam.kubesphere.io/v1beta1/users/"+name,
		`[{"op":"remove","path":"/metadata/annotations/iam.kubesphere.io~1uninitialized"},{"op":"replace","path":"/spec/password","value":"Other-1234"}]`,
		"Content-Type: application/json-patch+json")
	eventually(t, "the new password opens", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, "Other-1234")
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
	// D12: the console goes on with the token that set the password; any other of the user is refused, and this one after the next change.
	own := iamRoutes + "/users/" + name
	eventually(t, "another session of the former password is over", other.is(http.StatusUnauthorized, http.MethodGet, own))
	me.must(t, http.StatusOK, http.MethodGet, own, nil)
	for _, body := range []string{`{"metadata":{"annotations":{"iam.kapis.dev/password-session":"x"}}}`, `{"metadata":{"annotations":{"iam.kapis.dev/password-session":null}}}`} {
		was := admin(t).must(t, http.StatusOK, http.MethodGet, "/apis/iam.kubesphere.io/v1beta1/users/"+name, nil).body
		r := admin(t).must(t, http.StatusOK, http.MethodPatch, "/apis/iam.kubesphere.io/v1beta1/users/"+name, body, "Content-Type: application/merge-patch+json")
		if of := func(body string) any {
			return decode[written](t, body).Metadata.Annotations["iam.kapis.dev/password-session"]
		}; of(r.body) != of(was) {
			t.Errorf("%s: %s, want the annotation as it was: %s", body, r.body, was)
		}
	}
	me.must(t, http.StatusOK, http.MethodGet, own, nil)
	admin(t).must(t, http.StatusOK, http.MethodPut, own+"/password", `{"password":"Third-1234","rePassword":"Third-1234"}`)
	eventually(t, "an administrator's change ends it", me.is(http.StatusUnauthorized, http.MethodGet, own))
}

func TestAPIKeys(t *testing.T) { // U36
	a := admin(t)
	keys := iamRoutes + "/users/admin/apikeys"
	made := decode[struct{ Name, Token string }](t, a.must(t, http.StatusOK, http.MethodPost, keys,
		map[string]any{"description": "e2e", "currentPassword": product.AdminPassword, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}).body)
	key := caller{product.URL, made.Token}
	key.must(t, http.StatusOK, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/pods?limit=1", nil)
	key.must(t, http.StatusOK, http.MethodGet, "/api/v1/pods?limit=1", nil)
	if list := a.must(t, http.StatusOK, http.MethodGet, keys, nil).body; !strings.Contains(list, made.Name) || strings.Contains(list, made.Token) {
		t.Errorf("%s", list)
	}
	// What is a person's own business is not done with one, not even past our own routes.
	key.must(t, http.StatusForbidden, http.MethodPost, keys, map[string]any{"expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	key.must(t, http.StatusForbidden, http.MethodPut, iamRoutes+"/users/admin/password", `{"currentPassword":"x","password":"Other-1234"}`)
	other := unique("victim")
	newUser(t, other)
	for _, patch := range []string{
		`{"spec":{"password":"Other-1234"}}`, `{"spec":{"email":"mine@example.com"}}`, `{"metadata":{"annotations":{"iam.kubesphere.io/uninitialized":"true"}}}`,
		`{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.github":"1"}}}`, `{"metadata":{"labels":{"iam.kubesphere.io/origin-uid":"1"}}}`,
	} {
		for _, name := range []string{other, "admin"} {
			if r := key.must(t, http.StatusForbidden, http.MethodPatch, iamAPI+"/users/"+name, patch, asMerge); name == other &&
				!strings.Contains(r.body, "with an API key") {
				t.Errorf("%s: %s", patch, clip(r.body))
			}
		}
	}
	newUser(t, unique("stranger")).must(t, http.StatusForbidden, http.MethodGet, keys, nil)
	t.Run("ForReadingOnly", func(t *testing.T) { keyForReading(t, a, keys) })

	a.must(t, http.StatusOK, http.MethodDelete, keys+"/"+made.Name, nil)
	within(t, revocation, "the key is refused", key.is(http.StatusUnauthorized, http.MethodGet, "/api/v1/pods?limit=1"))
}

// keyForReading holds that a key of an administrator's for reading reads, and does nothing else, on our routes and on kube-apiserver's.
func keyForReading(t *testing.T, a caller, keys string) {
	t.Helper()
	body := map[string]any{
		"description":     "reports",
		"scope":           "read",
		"currentPassword": product.AdminPassword,
		"expiresAt":       time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}
	key := caller{product.URL, decode[struct{ Token string }](t, a.must(t, http.StatusOK, http.MethodPost, keys, body).body).Token}
	if list := a.must(t, http.StatusOK, http.MethodGet, keys, nil).body; !strings.Contains(list, `"scope":"read"`) {
		t.Error(list)
	}
	for _, path := range []string{"/kapis/resources.kubesphere.io/v1alpha3/namespaces?limit=1", "/api/v1/namespaces?limit=1", "/clusters/host/api/v1/nodes",
		"/kapis/iam.kubesphere.io/v1beta1/users", "/version"} {
		key.must(t, http.StatusOK, http.MethodGet, path, nil)
	}
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": unique("unwritten")}}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/api/v1/namespaces", namespace},
		{http.MethodPost, "/clusters/host/kapi/v1/namespaces", namespace},
		{http.MethodDelete, "/api/v1/namespaces/default", nil},
		{http.MethodGet, "/api/v1/namespaces/default/pods/none/exec?command=sh", nil},
		{http.MethodGet, "/api/v1/namespaces/default/services/kubernetes/proxy/", nil},
		{http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/default/token", map[string]any{}},
		{http.MethodPost, keys, body},
	} {
		if r := key.must(t, http.StatusForbidden, c.method, c.path, c.body); !strings.Contains(r.body, "for reading only") {
			t.Errorf("%s %s: %s", c.method, c.path, r.body)
		}
	}
	// What one may do, it answers for the key.
	review := func(c caller, verb string) string {
		t.Helper()
		return c.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/subjectaccessreviews",
			map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{"verb": verb, "resource": "namespaces"}}}).body
	}
	for verb, allowed := range map[string]string{"list": `"allowed":true`, "create": `"allowed":false`} {
		if answer := review(key, verb); !strings.Contains(answer, allowed) {
			t.Errorf("%s: %s", verb, answer)
		}
	}
	if answer := review(a, "create"); !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("without the key: %s", answer)
	}
	body["scope"] = "write"
	if r := a.must(t, http.StatusBadRequest, http.MethodPost, keys, body); !strings.Contains(r.body, "read") {
		t.Error(r.body)
	}
}

// from logs in from another address of this machine.
func from(t *testing.T, source, user, pass string) int {
	t.Helper()
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	c := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	t.Cleanup(c.CloseIdleConnections)
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {pass}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, product.URL+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Client-Ip", "198.51.100.1") // nobody said that it may
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestGuessingIsLimitedAndLocksNobodyOut(t *testing.T) { // S47, U37
	name := unique("guessed")
	newUser(t, name)
	codes, began := map[int]int{}, time.Now()
	for range 20 {
		codes[from(t, "127.0.0.66", name, "Wrong-123")]++
	}
	most := 5 + int(time.Since(began)/(3*time.Second)) // after the tries, one for each delay
	if n := codes[http.StatusBadRequest]; n < 5 || n > most || n+codes[http.StatusTooManyRequests] != 20 {
		t.Errorf("answers %v, %d wrong ones are the most", codes, most)
	}
	if code := from(t, "127.0.0.67", name, password); code != http.StatusOK {
		t.Errorf("the right password, from elsewhere: %d", code)
	}
	eventually(t, "the right password opens, from where it was guessed", func(context.Context) error { // S71: nobody said who of many there it was
		if code := from(t, "127.0.0.66", name, password); code != http.StatusOK {
			return fmt.Errorf("%d", code)
		}
		return nil
	})
}

func TestLoginsAreTakenDownAndTold(t *testing.T) {
	name := unique("seen")
	newUser(t, name)
	if code := from(t, "127.0.0.68", name, "Wrong-123"); code != http.StatusBadRequest {
		t.Fatalf("%d", code)
	}
	a := admin(t)
	eventually(t, "the records are there", a.has(iamRoutes+"/users/"+name+"/loginrecords?sortBy=createTime&limit=10&page=1&labelSelector=other",
		`"success":true`, `"success":false`, `"sourceIP":"127.0.0.68"`))
	eventually(t, "the last login is told", a.has(iamRoutes+"/users/"+name, `"lastLoginTime"`))
}

func TestLoginsWorkWithoutTheKindOfRecords(t *testing.T) { // U40
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const crd = crds + "/loginrecords.iam.kubesphere.io"
	a, name := admin(t), unique("norecords")
	newUser(t, name)
	var kept map[string]any
	if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, crd, nil).body), &kept); err != nil {
		t.Fatal(err)
	}
	meta := kept["metadata"].(map[string]any)
	kept["metadata"] = map[string]any{"name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"]}
	delete(kept, "status")
	a.must(t, http.StatusOK, http.MethodDelete, crd, nil)
	defer func() {
		eventually(t, "the kind is there again", func(ctx context.Context) error { // 409: the one before is still going, or it is this one
			if r, err := a.do(ctx, http.MethodPost, crds, kept); err != nil || r.code != http.StatusCreated && r.code != http.StatusConflict {
				return fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
			}
			if err := a.has(crd, `"type":"Established","status":"True"`)(ctx); err != nil {
				return err
			}
			return lacks(a, crd, "deletionTimestamp")(ctx)
		})
	}()
	eventually(t, "the kind is gone", a.is(http.StatusNotFound, http.MethodGet, crd))
	for range 3 {
		tokens(t, product.URL, name, password)
	}
}
