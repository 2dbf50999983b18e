package filter

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// auditHeader has the id by which the events of several servers about one request are found.
const auditHeader = "Audit-Id"

// Audit records every request in sink when its answer is complete: refusals and panics too. It precedes Authentication, so that requests
// which fail to authenticate are recorded as well. The event's id goes on to kube-apiserver, and back to the client. With audit.None (or
// nil) for a sink, it costs nothing.
func Audit(sink audit.Sink, now func() time.Time) Filter {
	if sink == nil || sink == (audit.None{}) {
		return func(next http.Handler) http.Handler { return next }
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w, r, rec := recorded(w, r)
			id := uuid.NewString()
			e := newEvent(r, id, now())
			// A client that chose the id could hide its request in the events of another one.
			r.Header.Set(auditHeader, id)
			w.Header().Set(auditHeader, id)
			returned := false
			defer func() {
				e.finish(rec, now(), returned)
				sink.Record(&e.Event)
			}()
			next.ServeHTTP(w, r)
			returned = true
		})
	}
}

type event struct{ audit.Event }

func newEvent(r *http.Request, id string, at time.Time) *event {
	e := &event{}
	e.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: auditv1.SchemeGroupVersion.String()}
	e.Level = auditv1.LevelMetadata
	e.AuditID = types.UID(id)
	e.RequestURI = r.URL.EscapedPath() // without the query, which may have secrets
	e.Verb = strings.ToLower(r.Method)
	e.UserAgent = truncate(r.UserAgent(), 1024)
	e.RequestReceivedTimestamp = metav1.NewMicroTime(at)
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		e.SourceIPs = []string{host}
	}
	if i := request.InfoFrom(r.Context()); i != nil {
		e.describe(i)
	}
	return e
}

func (e *event) describe(i *request.Info) {
	e.Verb, e.Workspace, e.Cluster = i.Verb, i.Workspace, i.Cluster
	if i.IsResource {
		e.ObjectRef = &auditv1.ObjectReference{
			Resource: i.Resource, Subresource: i.Subresource, Namespace: i.Namespace, Name: i.Name,
			APIGroup: i.APIGroup, APIVersion: i.APIVersion,
		}
	}
}

func (e *event) finish(rec *record, at time.Time, returned bool) {
	e.Stage = auditv1.StageResponseComplete
	code := rec.code()
	if !returned {
		e.Stage = auditv1.StagePanic
		if rec.status == 0 {
			code = http.StatusInternalServerError
		}
	}
	e.StageTimestamp = metav1.NewMicroTime(at)
	e.ResponseStatus = &metav1.Status{Code: int32(code)}
	if u := rec.user; u != nil {
		e.User = authnv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	}
	if d := rec.decision; d.Verdict() != authz.Refused || d.Reason != "" {
		verdict, reason := "forbid", d.Reason
		switch {
		case d.Allowed():
			verdict = "allow"
		case d.Verdict() == authz.Partial && code != http.StatusForbidden: // the route answers with the partial list
			verdict, reason = "allow", d.PartialList().Reason()
		}
		e.Annotations = map[string]string{
			"authorization.k8s.io/decision": verdict,
			"authorization.k8s.io/reason":   reason,
		}
	}
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
