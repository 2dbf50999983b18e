// Package auditing serves the newest audit events of this replica to pages of the console, as far as the caller may see them.
package auditing

import (
	"context"
	"net/http"
	"slices"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/audit/ring"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler answers queries on the newest events.
type Handler struct {
	Ring *ring.Ring
	// Authorizer decides whose events the caller sees besides their own: those of where the caller may list events of core/v1.
	Authorizer authz.Authorizer
	// Replica is the name of this server, and Clusters are the names of its cluster.
	Replica  string
	Clusters []string
}

// maxDecisions bounds the decisions of one query; what is beyond them is not seen.
const maxDecisions = 1000

// Mount adds the route. Every user may ask: the handler restricts the answer.
func (h *Handler) Mount(ws *restful.WebService) {
	b := ws.GET("/auditing/events").To(web.Handle(h.events)).Operation("listAuditingEvents").
		Doc("The newest audit events of this replica that the caller may see").Writes(ring.Answer{})
	for _, p := range [...]struct{ name, doc string }{
		{"operation", "query, statistics or histogram (query)"},
		{"workspace_filter", "names of workspaces, joined by commas"},
		{"workspace_search", "parts of names of workspaces"},
		{"objectref_namespace_filter", "names of namespaces"},
		{"objectref_namespace_search", "parts of names of namespaces"},
		{"objectref_name_filter", "names of objects"},
		{"objectref_name_search", "parts of names of objects"},
		{"user_filter", "names of users"},
		{"user_search", "parts of names of users"},
		{"level_filter", "levels"},
		{"verb_filter", "verbs"},
		{"objectref_resource_filter", "resources"},
		{"objectref_subresource_filter", "sub-resources"},
		{"response_code_filter", "codes of HTTP"},
		{"response_status_filter", "Success or Failure"},
		{"group_search", "parts of names of groups"},
		{"source_ip_search", "parts of addresses"},
		{"start_time", "the earliest time, in seconds since 1970"},
		{"end_time", "the latest time, in seconds since 1970"},
		{"interval", "of a histogram (15m)"},
		{"sort", "asc or desc (desc)"},
		{"from", "how many events are skipped (0)"},
		{"size", "how many events are answered (10), 1000 at most"},
	} {
		b.Param(ws.QueryParameter(p.name, p.doc))
	}
	ws.Route(b)
}

func (h *Handler) events(r *restful.Request) (any, error) {
	q, err := ring.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	all, since := h.Ring.Events()
	ctx := r.Request.Context()
	v := &view{ctx: authz.WithoutPartialList(ctx), authorizer: h.Authorizer, caller: request.UserFrom(ctx),
		clusters: h.Clusters, known: map[scope]bool{}}
	out, err := q.Answer(all, v.shows)
	if err != nil {
		return nil, err
	}
	return answer{out, `299 ks-apiserver "these are the events of the replica ` + quotable(h.Replica) + ` since ` + since.UTC().Format(time.RFC3339) +
		`, and not of others"`}, nil
}

// quotable returns a host name without what would end a quoted text.
func quotable(name string) string {
	out := []byte(name)
	for n, c := range out {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			out[n] = '-'
		}
	}
	return string(out)
}

// answer is an answer with a warning (RFC 9111, 5.5), which kubectl shows.
type answer struct {
	*ring.Answer
	warning string
}

// Respond implements web.Responder.
func (a answer) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Warning", a.warning)
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, r, http.StatusOK, a.Answer)
}

// view is what a caller sees.
type view struct {
	ctx        context.Context //nolint:containedctx // of one request
	authorizer authz.Authorizer
	caller     user.Info
	clusters   []string
	known      map[scope]bool
}

// scope is where a right to list events is asked for.
type scope struct {
	request.Scope
	workspace, namespace string
}

// shows reports whether the caller sees an event: their own, and those of where they may list events of core/v1. What is no request for an
// object, such as a login, and what belongs to the platform or to another cluster is seen by those who may list events on the platform.
func (v *view) shows(e *audit.Event) bool {
	if v.caller == nil {
		return false
	}
	if v.isOwn(e) {
		return true
	}
	platform := scope{Scope: request.Global}
	if v.may(platform) {
		return true
	}
	switch {
	case e.Object.Resource == "" || e.Login.Verb != "" || e.Cluster != "" && !slices.Contains(v.clusters, e.Cluster):
		return false
	case e.Object.Namespace != "":
		return v.may(scope{Scope: request.Namespace, namespace: e.Object.Namespace})
	case e.Scope == "Workspace" && e.Workspace != "":
		return v.may(scope{Scope: request.Workspace, workspace: e.Workspace})
	case e.Scope == "Cluster":
		return v.may(scope{Scope: request.Cluster})
	}
	return false
}

// isOwn reports whether an event is the caller's. A name may have belonged to somebody else before, so the UID decides, where there is one.
func (v *view) isOwn(e *audit.Event) bool {
	if of := v.caller.GetName(); of == "" || of == user.Anonymous || of == audit.Unknown {
		return false
	}
	name, uid := e.Caller()
	return name == v.caller.GetName() && uid == v.caller.GetUID()
}

// may reports whether the caller may list events of core/v1 in a scope. An error counts as no.
func (v *view) may(s scope) bool {
	if may, ok := v.known[s]; ok {
		return may
	}
	if len(v.known) >= maxDecisions {
		return false
	}
	i := &request.Info{Verb: "list", Path: "/kapi/v1/events", APIPrefix: "kapi", APIVersion: "v1", Resource: "events", IsResource: true,
		Scope: s.Scope, Workspace: s.workspace, Namespace: s.namespace}
	switch s.Scope {
	case request.Namespace:
		i.Path = "/kapi/v1/namespaces/" + s.namespace + "/events"
	case request.Workspace:
		i.Path = "/kapi/v1/workspaces/" + s.workspace + "/events"
	}
	d, err := v.authorizer.Authorize(v.ctx, v.caller, i)
	may := err == nil && d.Allowed()
	v.known[s] = may
	return may
}
