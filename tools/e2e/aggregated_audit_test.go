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
	"os"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// eventsIn returns the events of finished requests in a file.
func eventsIn(file string, is func(e *auditv1.Event) bool) (out []auditv1.Event, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return eventsOf(bytes.NewReader(text), is)
}

// eventsOf returns the events of finished requests in a log.
func eventsOf(text io.Reader, is func(e *auditv1.Event) bool) (out []auditv1.Event, err error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Stage == auditv1.StageResponseComplete && is(&e) {
			out = append(out, e)
		}
	}
	return out, lines.Err()
}

// isAudited verifies that requests which come through kube-apiserver have events: of the user whom kube-apiserver names, from where
// kube-apiserver was called, and with the id by which its own log has them; and that nobody else writes an event of somebody.
func (s *aggregatedStack) isAudited(t *testing.T, ns string) {
	name := unique("asking")
	path := queryAPI + "/namespaces/" + ns + "/pods"
	if out, err := kubectlAt(t.Context(), "", as(name, path)...); err == nil || !strings.Contains(err.Error(), "orbidden") {
		t.Fatalf("%v %s", err, clip(out))
	}
	var e auditv1.Event
	eventually(t, "the refusal is recorded", func(context.Context) error {
		found, err := eventsIn(s.audit, func(e *auditv1.Event) bool { return e.User.Username == name })
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d events are of %s", len(found), name)
		}
		if err == nil {
			e = found[0]
		}
		return err
	})
	o := e.ObjectRef
	if o == nil || o.APIGroup != "query.kapis.dev" || o.Resource != "pods" || o.Namespace != ns || e.Verb != "list" || e.RequestURI != path ||
		e.ResponseStatus.Code != http.StatusForbidden || len(e.SourceIPs) == 0 || e.SourceIPs[0] != "127.0.0.1" {
		t.Errorf("the event is %+v of %+v", e, o)
	}
	theirs := e.Annotations["kapis.dev/front-proxy-audit-id"]
	if theirs == "" || theirs == string(e.AuditID) {
		t.Fatalf("the event %s has the id %q of kube-apiserver", e.AuditID, theirs)
	}
	eventually(t, "kube-apiserver's log has the same request by that id", func(context.Context) error {
		text, done, err := logOf("kube-audit")
		if err != nil {
			return err
		}
		defer done()
		found, err := eventsOf(text, func(k *auditv1.Event) bool { return string(k.AuditID) == theirs })
		if err == nil && (len(found) != 1 || found[0].ImpersonatedUser == nil || found[0].ImpersonatedUser.Username != name || found[0].RequestURI != path) {
			err = fmt.Errorf("%+v", found)
		}
		return err
	})

	const own = "ks-apiserver-aggregated.kubesphere-system.svc"
	forged := unique("forged")
	s.direct(t, own, queryAPI+"/secrets", "X-Remote-User: "+forged, "Audit-Id: "+forged, "X-Forwarded-For: 192.0.2.1")
	eventually(t, "a peer that is not the front proxy is nobody", func(context.Context) error {
		found, err := eventsIn(s.audit, func(e *auditv1.Event) bool {
			return e.ResponseStatus.Code == http.StatusUnauthorized && e.User.Username == ""
		})
		if err == nil && len(found) == 0 {
			err = errors.New("no refusal is recorded")
		}
		return err
	})
	mustKubectlAt(t, "", "get", "--raw", queryAPI+"/namespaces/"+ns+"/secrets")
	query := "apiVersion: query.kapis.dev/v1alpha1\nkind: Query\nspec: {resource: secrets, namespace: " + ns + ", limit: 7}\n"
	mustKubectlAt(t, query, "create", "-f", "-", "-o", "json")
	eventually(t, "a Query is recorded as it was sent", func(context.Context) error {
		found, err := eventsIn(s.audit, func(e *auditv1.Event) bool {
			return e.ObjectRef != nil && e.ObjectRef.Resource == "queries" && e.Verb == "create"
		})
		for _, e := range found {
			if e.RequestObject != nil && strings.Contains(string(e.RequestObject.Raw), `"limit":7`) && e.ResponseObject == nil {
				return err
			}
		}
		return errors.Join(fmt.Errorf("%d events of Queries", len(found)), err)
	})
	text, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range append(inBase64("canary-of-a-secret"), "canary-of-a-secret", forged, "192.0.2.1") {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("an event has %q", secret)
		}
	}
}
