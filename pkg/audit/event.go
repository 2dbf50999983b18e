// Package audit has the events that are recorded of requests, the policy that says which, and the backends that they are written to.
package audit

import (
	"context"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The bounds of an event, in bytes. What a client wrote is cut there, and the event says so.
const (
	maxURI  = 4096
	maxText = 1024
)

// Event is what is recorded of one stage of one request: who, what, when, from where, with which answer; never a header or a query, and
// bodies only as Bodies has them. AppendJSON writes it as an Event of audit.k8s.io/v1.
type Event struct {
	ID    string
	Level auditv1.Level
	Stage auditv1.Stage

	URI, Verb, UserAgent string
	// Username is empty until a user was authenticated. A login has the name of the user who logs in.
	Username, UID string
	Groups        []string
	// Sources are the client's address and, after proxies, that of the connection.
	Sources []string
	// Object is what a request for a resource names; its Resource is empty for any other path.
	Object auditv1.ObjectReference
	// Scope is that of the request: Global, Workspace, Cluster or Namespace.
	Scope string
	// Code is the status of the answer; 0 while there is none.
	Code int
	// Received is when the request came, and At when the stage began.
	Received, At time.Time
	// Workspace and Cluster are those of the request; empty for none.
	Workspace, Cluster string

	// Decision and Reason are those of the authorization; empty without one.
	Decision, Reason string
	// Login has what only requests at the login have.
	Login Login
	// Bodies is nil at level Metadata.
	Bodies *Bodies

	annotations []annotation
	inline      [2]annotation
	truncated   bool
}

type annotation struct{ key, value string }

// Bodies are what a request and its answer have, in JSON without secrets; nil for what is not recorded.
type Bodies struct{ Request, Response []byte }

// Login describes a login, the refresh of a session, or a logout.
type Login struct {
	// Verb is login, refresh or logout; empty for a request that is none of them.
	Verb string
	// Method is how the user authenticates: password, code (a second factor), passkey, provider, or the grant of the token endpoint.
	Method string
	// Provider is the identity provider, and Client the OAuth client; empty for none.
	Provider, Client string
	// Username and UID are those of the user who logs in; Unknown for a name that nobody has.
	Username, UID string
}

// The verbs of Login, and the name of a user whom nobody knows: people type passwords into the field for the name.
const (
	VerbLogin   = "login"
	VerbRefresh = "refresh"
	VerbLogout  = "logout"
	Unknown     = "(unknown)"
)

// Key is the context key of the *Event.
type Key struct{}

// From returns the event of the request of ctx; nil where nothing is audited, which all methods for handlers accept.
func From(ctx context.Context) *Event {
	e, _ := ctx.Value(Key{}).(*Event)
	return e
}

// SetLogin says that the request is a login, a refresh or a logout; an empty method or provider leaves what was set before.
func (e *Event) SetLogin(verb, method, provider string) {
	if e == nil {
		return
	}
	e.Login.Verb = verb
	if method != "" {
		e.Login.Method = method
	}
	if provider != "" {
		e.Login.Provider = provider
	}
}

// SetClient names the OAuth client of a login.
func (e *Event) SetClient(name string) {
	if e != nil {
		e.Login.Client = name
	}
}

// SetUser names the user of a login; an empty name is Unknown. The session of a client that acts for itself has no user.
func (e *Event) SetUser(name, uid string) {
	if e == nil {
		return
	}
	if name == "" {
		name, uid = Unknown, ""
	}
	e.Login.Username, e.Login.UID = name, uid
}

// Annotate adds an annotation, whose value must be no secret. A key that is there already has both values.
func (e *Event) Annotate(key, value string) {
	if e == nil {
		return
	}
	if e.annotations == nil {
		e.annotations = e.inline[:0]
	}
	e.annotations = append(e.annotations, annotation{key, e.cut(value, maxText)})
}

// Bound cuts what a client wrote, so that no event is longer than some 20 KiB.
func (e *Event) Bound() {
	e.URI, e.UserAgent, e.Verb = e.cut(e.URI, maxURI), e.cut(e.UserAgent, maxText), e.cut(e.Verb, maxText)
	o := &e.Object
	for _, s := range []*string{&o.Resource, &o.Subresource, &o.Namespace, &o.Name, &o.APIGroup, &o.APIVersion, &e.Workspace, &e.Cluster,
		&e.Reason, &e.Username, &e.Login.Provider, &e.Login.Client} {
		*s = e.cut(*s, maxText)
	}
}

// Truncate says in the event that something is not in it because it was too long.
func (e *Event) Truncate() { e.truncated = true }

func (e *Event) cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	e.truncated = true
	return strings.ToValidUTF8(s[:n], "")
}

// Sink receives events. Record is called while the request is served, by many requests at once, so it must not block; the event is the
// caller's again when it returns.
type Sink interface {
	Record(*Event)
}

// SinkFunc is a Sink made of a function.
type SinkFunc func(*Event)

// Record calls f.
func (f SinkFunc) Record(e *Event) { f(e) }
