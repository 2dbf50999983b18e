package filter

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Unrecorded refuses requests by which commands run in containers, or connections to them are opened, that this server can't record, where
// all of these must be recorded.
type Unrecorded struct {
	// Refuse switches it on.
	Refuse bool
	// Users and Groups are not refused.
	Users, Groups []string
	// GroupsOf returns the groups of a caller among which Groups are looked for; nil for all.
	GroupsOf func(user.Info) []string
}

// Wrap follows authentication and precedes whatever answers: so both ways to kube-apiserver's sub-resources have it, /api and /kapi.
func (f Unrecorded) Wrap(next http.Handler) http.Handler {
	if !f.Refuse {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, u := request.InfoFrom(r.Context()), request.UserFrom(r.Context())
		switch {
		case info == nil || u == nil:
			web.WriteError(w, r, errNoInfo)
		case isUnrecorded(r.Method, info) && !f.passes(u):
			if info.Upgrade {
				w.Header().Set("Connection", "close")
			}
			web.WriteError(w, r, status.Forbiddenf("what runs in containers is recorded here, and %s can't be: use a terminal of"+
				" terminal.kubesphere.io, as the console does, or ask an administrator for terminal.recording.passthrough", info.Asked()))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// passes reports whether a user may do unrecorded what others may not.
func (f Unrecorded) passes(u user.Info) bool {
	groups := u.GetGroups()
	if f.GroupsOf != nil {
		groups = f.GroupsOf(u)
	}
	in := func(group string) bool { return slices.Contains(f.Groups, group) }
	return slices.Contains(f.Users, u.GetName()) || slices.ContainsFunc(groups, in)
}

// isUnrecorded reports whether a request runs a command in a container, or opens a connection to one.
func isUnrecorded(method string, i *request.Info) bool {
	if !i.IsResource || i.APIGroup != "" {
		return false
	}
	switch i.Resource {
	case "pods":
		switch i.Subresource {
		case "exec", "attach", "portforward":
			return true
		case "ephemeralcontainers":
			return i.Verb != "get"
		}
	case "nodes":
		return isProxied(i) && !readsKubelet(method, i)
	}
	return false
}

func isProxied(i *request.Info) bool { return i.Subresource == "proxy" || i.Verb == "proxy" }

// kubeletReads are what kubelet shows at these paths, below which it runs nothing. At others, such as exec, run and attach, it runs
// commands in the containers of its node.
var kubeletReads = []string{"metrics", "stats", "pods", "healthz", "configz"}

// readsKubelet reports whether a request to a node's proxy only reads.
func readsKubelet(method string, i *request.Info) bool {
	if method != http.MethodGet && method != http.MethodHead || i.Upgrade || i.Subresource != "proxy" {
		return false
	}
	_, rest, found := strings.Cut(i.Path, "/nodes/"+i.Name+"/proxy/")
	first, _, _ := strings.Cut(rest, "/")
	return found && slices.Contains(kubeletReads, first)
}
