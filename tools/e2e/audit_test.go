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

// recordedForAdmin fails unless kube-apiserver's audit log has an event with the id that is impersonated for the admin.
func recordedForAdmin(id string) error {
	file, err := os.Open(filepath.Join(product.Dir, "log", "kube-audit.log"))
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && string(e.AuditID) == id && e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "admin" {
			return nil
		}
	}
	return errors.Join(errors.New("no event has it"), lines.Err())
}
