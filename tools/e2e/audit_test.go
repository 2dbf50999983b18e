package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditReceiver is a webhook of audit events: it stores what it is sent, once it is up.
type auditReceiver struct {
	mu      sync.Mutex
	up      bool
	refused int
	events  []auditv1.Event
	text    bytes.Buffer
}

func (a *auditReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	var sent auditv1.EventList
	switch {
	case !a.up:
		a.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
	case err != nil || json.Unmarshal(raw, &sent) != nil || sent.Kind != "EventList":
		w.WriteHeader(http.StatusBadRequest) // the event does not arrive, which the test finds
	default:
		a.events = append(a.events, sent.Items...)
		a.text.Write(raw)
	}
}

// event returns the event of a finished request for which is is true. It fails if there is none, or more than one.
func (a *auditReceiver) event(is func(e auditv1.Event) bool) (auditv1.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []auditv1.Event
	for _, e := range a.events {
		if e.Stage == auditv1.StageResponseComplete && is(e) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		return auditv1.Event{}, fmt.Errorf("%d of %d events are it, want 1; %d batches were refused", len(found), len(a.events), a.refused)
	}
	return found[0], nil
}

// Events reach a webhook once, also those of the time when it was down, with the ids that kube-apiserver records for the same requests; no
// client chooses an id, and no event has a query or a password.
func TestAWebhookReceivesWhatWasDone(t *testing.T) {
	const canary = "canary-of-a-query"
	receiver := &auditReceiver{}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	replica, err := product.ReplicaWithEnv(t.Context(), []string{"KUBESPHERE_AUDITING_ENABLE=true", "KUBESPHERE_AUDITING_EVENTBATCHINTERVAL=50ms",
		"KUBESPHERE_AUDITING_WEBHOOKOPTIONS_WEBHOOKURL=" + server.URL, "KUBESPHERE_AUDITING_WEBHOOKOPTIONS_FORMAT=audit.k8s.io/v1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	c := loginAt(t, replica.URL, "admin", product.AdminPassword)
	read := c.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/default?pretty="+canary, nil, "Audit-Id: chosen-by-the-client")
	id := read.header.Get("Audit-Id")
	if id == "" || id == "chosen-by-the-client" {
		t.Fatalf("the answer has the Audit-Id %q, want one that the server chose", id)
	}
	eventually(t, "the webhook refuses events", func(context.Context) error {
		receiver.mu.Lock()
		defer receiver.mu.Unlock()
		if receiver.refused == 0 {
			return fmt.Errorf("none was sent")
		}
		receiver.up = true
		return nil
	})
	var got auditv1.Event
	eventually(t, "the event of the read arrives", func(context.Context) (err error) {
		got, err = receiver.event(func(e auditv1.Event) bool { return string(e.AuditID) == id })
		return err
	})
	if o := got.ObjectRef; got.User.Username != "admin" || got.Verb != "get" || o == nil || o.Resource != "namespaces" || o.Name != "default" ||
		got.ResponseStatus.Code != http.StatusOK || got.RequestURI != "/api/v1/namespaces/default" {
		t.Errorf("the event of the read: %+v", got)
	}
	eventually(t, "the event of the login arrives", func(context.Context) error {
		_, err := receiver.event(func(e auditv1.Event) bool { return e.Verb == "login" && e.User.Username == "admin" })
		return err
	})
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for _, secret := range []string{canary, product.AdminPassword, c.token} {
		if strings.Contains(receiver.text.String(), secret) {
			t.Errorf("%.20q is in an event", secret)
		}
	}
	t.Run("kube-apiserver records the same id, and whom the request was for", func(t *testing.T) {
		eventually(t, "its log has the id", func(context.Context) error { return recordedForAdmin(id) })
	})
}

// logOf returns all that a program of the control plane has logged, until done is called: kube-apiserver begins a new file of its audit log
// whenever one has 32 MiB, which may be just now.
func logOf(program string) (text io.Reader, done func(), err error) {
	name := filepath.Join(product.Dir, "log", program)
	last, err := os.Open(name + ".log")
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	done = func() {
		for _, f := range append(files, last) {
			_ = f.Close()
		}
	}
	is, err := last.Stat()
	if err != nil {
		done()
		return nil, nil, err
	}
	older, err := filepath.Glob(name + "-2*.log") // with the time until which it was written
	if err != nil {
		done()
		return nil, nil, err
	}
	var all []io.Reader
	for _, one := range older {
		f, err := os.Open(one)
		if err != nil {
			continue // it was the oldest, and has gone
		}
		files = append(files, f)
		if was, err := f.Stat(); err == nil && !os.SameFile(was, is) {
			all = append(all, f)
		}
	}
	return io.MultiReader(append(all, last)...), done, nil
}

// recordedForAdmin fails unless kube-apiserver's audit log has an event with the id that is impersonated for the admin.
func recordedForAdmin(id string) error {
	text, done, err := logOf("kube-audit")
	if err != nil {
		return err
	}
	defer done()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && string(e.AuditID) == id && e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "admin" {
			return nil
		}
	}
	return errors.Join(errors.New("no event has it"), lines.Err())
}

// O19, O21, O36: at level RequestResponse a file has the bodies of writes by both doors without their secrets, in mode blocking-strict; a
// user sees what they did themselves among the newest events, and the administrator what everybody did.
func TestRecentEventsAreSeenByWhomTheyConcern(t *testing.T) {
	const canary, route = "Kq7Zr4AuditCanary", "/kapis/tenant.kubesphere.io/v1alpha2/auditing/events"
	file := filepath.Join(t.TempDir(), "audit.log")
	replica, err := product.ReplicaWithEnv(t.Context(), []string{"KUBESPHERE_AUDITING_ENABLE=true", "KUBESPHERE_AUDITING_RECENT=4Mi",
		"KUBESPHERE_AUDITING_AUDITLEVEL=RequestResponse", "KUBESPHERE_AUDITING_LOGOPTIONS_PATH=" + file,
		"KUBESPHERE_AUDITING_LOGOPTIONS_MODE=blocking-strict"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	root := loginAt(t, replica.URL, "admin", product.AdminPassword)
	name := unique("audited")
	secrets := "/api/v1/namespaces/default/secrets"
	root.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/users", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"email": name + "@example.com", "password": "Audit-" + canary + "1"},
	})
	root.must(t, http.StatusCreated, http.MethodPost, secrets, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "stringData": map[string]any{"a": canary}})
	t.Cleanup(func() { _, _ = root.do(context.Background(), http.MethodDelete, secrets+"/"+name, nil) })
	for media, patch := range map[string]any{
		"application/merge-patch+json":           map[string]any{"stringData": map[string]any{"a": canary + "2"}},
		"application/strategic-merge-patch+json": map[string]any{"stringData": map[string]any{"a": canary + "3"}},
		"application/json-patch+json":            []any{map[string]any{"op": "add", "path": "/stringData", "value": map[string]any{"a": canary + "4"}}},
	} {
		root.must(t, http.StatusOK, http.MethodPatch, secrets+"/"+name, patch, "Content-Type: "+media)
		root.must(t, http.StatusOK, http.MethodPatch, "/kapi"+secrets[len("/api"):]+"/"+name, patch, "Content-Type: "+media)
	}
	raw, err := os.ReadFile(file) // an answer ends after its event is written
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, class := range append(inBase64(canary), canary) {
		if strings.Contains(text, class) {
			t.Errorf("the file has the secret as %s", class)
		}
	}
	for _, want := range []string{`"stage":"RequestReceived"`, `"requestObject":{`, `"responseObject":{`, "REDACTED", `"email":"` + name + `@example.com"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the file has no %s", want)
		}
	}
	var me caller
	eventually(t, "the user may log in", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, replica.URL, name, "Audit-"+canary+"1")
		if err != nil || r.code != http.StatusOK {
			return fmt.Errorf("%d: %w", r.code, errors.Join(err, errors.New("no login")))
		}
		me = loginAt(t, replica.URL, name, "Audit-"+canary+"1")
		return nil
	})
	for of, c := range map[string]struct {
		caller
		admins bool
	}{"the user": {me, false}, "the administrator": {root, true}} {
		r := c.must(t, http.StatusOK, http.MethodGet, route+"?size=1000", nil)
		if !strings.Contains(r.header.Get("Warning"), "of the replica") || strings.Contains(r.body, canary) ||
			!strings.Contains(r.body, `"Username":"`+name+`"`) || strings.Contains(r.body, `"Username":"admin"`) != c.admins {
			t.Errorf("%s sees %.2000s", of, r.body)
		}
	}
	me.must(t, http.StatusBadRequest, http.MethodGet, route+"?size=all", nil)
	caller{base: replica.URL}.must(t, http.StatusForbidden, http.MethodGet, route, nil)
	admin(t).must(t, http.StatusNotFound, http.MethodGet, route, nil) // where it is off
	if r := me.must(t, http.StatusOK, http.MethodGet, "/kapis/config.kubesphere.io/v1alpha2/configs/configz", nil); !strings.Contains(r.body, `"auditing":true`) {
		t.Errorf("configz says %s", r.body)
	}
}
