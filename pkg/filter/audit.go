package filter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// auditHeader has the id by which the events of several servers about one request are found.
const auditHeader = "Audit-Id"

// hubAuditID is the annotation with the id by which the hub's log has a request that came over a link, and maxAuditID bounds it.
const (
	hubAuditID = "kapis.dev/hub-audit-id"
	maxAuditID = 64
)

// scopes are the names of request.Scope in events.
var scopes = [...]string{
	request.Global: "Global", request.Cluster: "Cluster", request.Workspace: "Workspace", request.Namespace: "Namespace",
}

// Auditing records requests.
type Auditing struct {
	// Sink receives the events; nil for none.
	Sink audit.Sink
	// Commit hands an event to the sink, and waits until it is written where requests wait for that; nil where none does. It returns an
	// error if the event must have been written before anything is done, and is not (mode blocking-strict).
	Commit func(context.Context, *audit.Event) error
	// Strict says that nothing is done before there is an event of the stage RequestReceived.
	Strict bool
	// Policy says which requests are recorded; nil for all.
	Policy *audit.Policy
	// Source returns the client's address as trusted proxies report it; nil for that of the connection.
	Source func(*http.Request) string
	// WorkspaceOf returns the workspace of a namespace, from memory; nil if that is not known.
	WorkspaceOf func(namespace string) string
	// GroupsOf returns the groups of a caller without those that a workspace decides on; nil for all. The policy decides by both, and the
	// fuller record counts. Events have all groups.
	GroupsOf func(user.Info) []string
	// RealOf returns the request that another one is recorded by the rules of, which names the kind that it is about; nil for its own. Nil
	// knows none.
	RealOf func(*request.Info) *request.Info
	// FrontProxied says that requests come from a front proxy, which has a log and ids of its own: the filter of that name follows.
	FrontProxied bool
	Now          func() time.Time
}

// Wrap records every request when its answer is complete: refusals of any filter and panics too; a stream also when it begins. It precedes
// Info, so that requests which can't be parsed are recorded as well. The event's id goes on to kube-apiserver, and back to the client.
// Without a sink it is no step at all.
func (a Auditing) Wrap(next http.Handler) http.Handler {
	if a.Sink == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, rec := recorded(w, r)
		if rec.info != nil { // a request within a request has events of its own
			w, r, rec = newRecord(w, r)
		}
		e := &auditedRequest{Auditing: a, request: r}
		e.ID, e.Received = uuid.NewString(), a.Now()
		e.id[0] = e.ID
		if a.FrontProxied {
			e.front = r.Header.Get(auditHeader)
		} else { // the answer of the front proxy has its own
			w.Header()[auditHeader] = e.id[:1:1]
		}
		if link.FromHub(r.Context()) {
			e.annotateHub(r.Header.Get(auditHeader))
		}
		// A client that chose the id could hide its request in the events of another one.
		r.Header[auditHeader] = e.id[:1:1]
		rec.audited = e
		defer func() {
			v := recover()
			e.complete(rec, v)
			if v != nil {
				panic(v)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// annotateHub names the event of the hub about the same request.
func (e *auditedRequest) annotateHub(id string) {
	if _, err := uuid.Parse(id); err == nil && len(id) <= maxAuditID {
		e.Annotate(hubAuditID, id)
	}
}

// Begin does for an authorized request what precedes everything else that is done for it: in mode blocking-strict it records the event of
// the stage RequestReceived, and answers 503 without it; at the levels that have bodies it begins to record them. It follows Authorize.
func (a Auditing) Begin(next http.Handler) http.Handler {
	if a.Sink == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec, ok := r.Context().Value(recordKey{}).(*record)
		if !ok || rec.audited == nil || !a.Strict && (a.Policy == nil || !a.Policy.Bodies()) {
			next.ServeHTTP(w, r)
			return
		}
		e := rec.audited
		e.describe(rec)
		if a.Strict {
			if err := e.record(rec, auditv1.StageRequestReceived, 0); err != nil {
				e.refused = true
				web.WriteError(w, r, errUnrecorded)
				return
			}
		}
		r = e.recordBodies(rec, r)
		e.described = false // a login says what it is only when it is served
		next.ServeHTTP(w, r)
	})
}

// errUnrecorded refuses what can't be recorded, before anything is done.
var errUnrecorded = status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable,
	"the audit log can't be written, and nothing is done that is not recorded (auditing mode blocking-strict): try again"))

// auditedRequest is the event of a request, and all that is needed to record it: one object per request.
type auditedRequest struct {
	audit.Event
	Auditing

	request    *http.Request
	attributes authorizer.AttributesRecord
	omitted    []auditinternal.Stage
	described  bool
	refused    bool            // because it could not be recorded
	recorded   *recordedBodies // nil where bodies are not recorded
	created    *createdObject  // nil where the request names the object
	front      string          // the id that a peer has sent, who may be the front proxy
	id         [1]string
	sources    [2]string
}

// began records that the answer to a request begins which lasts as long as the client likes.
func (e *auditedRequest) began(rec *record) {
	if e.Commit != nil && e.request.Method != http.MethodHead {
		// The end of the answer is then what net/http sends when the handler has returned, and so after the event.
		rec.ResponseWriter.Header().Del("Content-Length")
	}
	if answersWithName(rec.info, rec.Header(), rec.status) {
		e.created = &createdObject{}
	}
	if rec.status >= http.StatusMultipleChoices || rec.status != http.StatusSwitchingProtocols && !lasting(rec.info, e.request.URL.RawQuery) {
		return
	}
	_ = e.record(rec, auditv1.StageResponseStarted, rec.code())
}

// complete records that a request is over, by a panic with v unless that is nil. A handler that drops the connection, as when the client of
// a stream has gone, is no fault.
func (e *auditedRequest) complete(rec *record, v any) {
	stage, code := auditv1.StageResponseComplete, rec.code()
	err, _ := v.(error)
	switch {
	case v == nil:
	case errors.Is(err, http.ErrAbortHandler):
		code = rec.status // 0: the client saw no answer
	default:
		stage = auditv1.StagePanic
		if rec.status == 0 {
			code = http.StatusInternalServerError
		}
	}
	_ = e.record(rec, stage, code)
}

// record hands the event of a stage to the sink. It returns an error if nothing must be done without it.
func (e *auditedRequest) record(rec *record, stage auditv1.Stage, code int) error {
	if !e.described {
		e.describe(rec)
	}
	if e.Level == auditv1.LevelNone {
		return nil
	}
	for _, s := range e.omitted {
		if string(s) == string(stage) {
			return nil
		}
	}
	e.Stage, e.Code, e.At = stage, code, e.Now()
	e.decided(rec.decision, code)
	e.nameCreated()
	if e.recorded != nil {
		e.describeBodies(rec, code)
	}
	e.Bound()
	if e.Commit == nil || e.refused { // its client has waited already
		e.Sink.Record(&e.Event)
		return nil
	}
	return e.Commit(e.request.Context(), &e.Event)
}

// describe fills in what is known since the answer began, and asks the policy.
func (e *auditedRequest) describe(rec *record) {
	e.described = true
	switch {
	case e.Login.Verb != "":
		e.Verb = e.Login.Verb
	case rec.info != nil:
		e.Verb = rec.info.Verb
	default:
		e.Verb = strings.ToLower(e.request.Method)
	}
	e.choose(rec)
	if e.Level == auditv1.LevelNone {
		return
	}
	e.URI = e.request.URL.EscapedPath() // without the query, which may have secrets
	e.UserAgent = e.request.UserAgent()
	e.Sources = e.from()
	if u := rec.user; u != nil {
		e.Username, e.UID, e.Groups = u.GetName(), u.GetUID(), u.GetGroups()
	}
	i := rec.info
	if i == nil {
		return
	}
	e.Workspace, e.Cluster, e.Scope = i.Workspace, i.Cluster, scopes[i.Scope]
	if e.Workspace == "" && i.Namespace != "" && e.WorkspaceOf != nil {
		e.Workspace = e.WorkspaceOf(i.Namespace)
	}
	if i.IsResource {
		e.Object = auditv1.ObjectReference{
			Resource: i.Resource, Subresource: i.Subresource, Namespace: i.Namespace, Name: i.Name,
			APIGroup: i.APIGroup, APIVersion: i.APIVersion,
		}
	}
}

// choose asks the policy at which level the request is recorded: by its group and resource, or those of the kind that it is an alias of.
func (e *auditedRequest) choose(rec *record) {
	if e.Policy == nil {
		e.Level = auditv1.LevelMetadata
		return
	}
	a := &e.attributes
	a.User, a.Verb, a.Path = rec.user, e.Verb, e.request.URL.Path
	if i := rec.info; i != nil {
		if real := e.realOf(i); real != nil {
			i = real
		}
		a.Path = i.Path
		a.ResourceRequest, a.APIGroup, a.APIVersion, a.Resource = i.IsResource, i.APIGroup, i.APIVersion, i.Resource
		a.Subresource, a.Namespace, a.Name = i.Subresource, i.Namespace, i.Name
	}
	e.Level, e.omitted = e.Policy.Evaluate(a)
	if e.GroupsOf == nil || rec.user == nil {
		return
	}
	// A workspace may name a Group as the policy names one, to be left out or to be no longer seen: the fuller record counts.
	if groups := e.GroupsOf(rec.user); len(groups) < len(rec.user.GetGroups()) {
		a.User = &user.DefaultInfo{Name: rec.user.GetName(), UID: rec.user.GetUID(), Groups: groups, Extra: rec.user.GetExtra()}
		if level, omitted := e.Policy.Evaluate(a); levels[e.Level] < levels[level] {
			e.Level, e.omitted = level, omitted
		}
	}
}

// levels are the levels of the policy, by how much of a request they record.
var levels = map[auditv1.Level]int{auditv1.LevelMetadata: 1, auditv1.LevelRequest: 2, auditv1.LevelRequestResponse: 3}

// realOf returns RealOf's answer.
func (e *auditedRequest) realOf(i *request.Info) *request.Info {
	if e.RealOf == nil {
		return nil
	}
	return e.RealOf(i)
}

// from returns the client's address, and that of the connection if it is another one.
func (e *auditedRequest) from() []string {
	all := e.sources[:0]
	if e.Source != nil {
		if s := e.Source(e.request); s != "" {
			all = append(all, s)
		}
	}
	if peer, _, err := net.SplitHostPort(e.request.RemoteAddr); err == nil && (len(all) == 0 || all[0] != peer) {
		all = append(all, peer)
	}
	return all
}

// decided says how the request was authorized.
func (e *auditedRequest) decided(d authz.Decision, code int) {
	if d.Verdict() == authz.Refused && d.Reason == "" {
		return
	}
	e.Decision, e.Reason = "forbid", d.Reason
	switch {
	case d.Allowed():
		e.Decision = "allow"
	case d.Verdict() == authz.Partial && code != http.StatusForbidden: // the route answers with the partial list
		e.Decision, e.Reason = "allow", d.PartialList().Reason()
	}
}
