package member

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Limits of one invitation: the number of members, and its size in bytes.
const (
	// maxMembers is how many members one request adds, maxInvitation how long it is, in bytes.
	maxMembers    = 500
	maxInvitation = 256 << 10
)

// Member is a user and the role that the user gets.
type Member struct {
	Username string `json:"username"`
	RoleRef  string `json:"roleRef"`
}

// addMembers gives roles to several users. Everything is checked before anything is written; an error says in details.causes what
// happened to each member.
func (h *Handler) addMembers(l *binding.Scope) web.Handler {
	return func(r *restful.Request) (any, error) {
		at, query, err := h.writeAt(r, l)
		if err != nil {
			return nil, err
		}
		members, err := readMembers(r.Request)
		if err != nil {
			return nil, err
		}
		ctx := r.Request.Context()
		var refused wire.Failures
		changes := make([]*binding.Change, len(members))
		seen := map[string]bool{}
		for i, m := range members {
			if seen[m.Username] {
				refused.Add(i, m.Username, apierrors.NewBadRequest("the user is named twice"))
				continue
			}
			seen[m.Username] = true
			if changes[i], err = h.planMember(r, l, at, m, query); err != nil {
				refused.Add(i, m.Username, err)
			}
		}
		if err := refused.Err("nothing was written"); err != nil {
			return nil, err
		}
		var failed wire.Failures
		var done []string
		for i, c := range changes {
			if err := h.Bindings.Apply(ctx, c); err != nil {
				failed.Add(i, c.User, err)
				continue
			}
			done = append(done, c.User)
		}
		if err := failed.Err(fmt.Sprintf("%d of %d were written: %.500s", len(done), len(changes), strings.Join(done, ", "))); err != nil {
			return nil, err
		}
		return members, nil
	}
}

// writeAt returns the scope that the path of a write names, and the parameters of the write.
func (h *Handler) writeAt(r *restful.Request, l *binding.Scope) (authz.BindingScope, url.Values, error) {
	at, err := h.scopeOf(r, l)
	if err != nil {
		return at, nil, err
	}
	query, err := web.WriteParameters(r.Request)
	return at, query, err
}

// planMember checks one member: the user, the role, and whether the caller may give it.
func (h *Handler) planMember(r *restful.Request, l *binding.Scope, at authz.BindingScope, m Member,
	query url.Values) (*binding.Change, error) {
	ctx := r.Request.Context()
	if m.Username == "" || m.RoleRef == "" {
		return nil, apierrors.NewBadRequest("username or roleRef is missing")
	}
	if u := h.Users.ByName(m.Username); u == nil && !h.isOfFleet(m.Username) || u != nil && u.Deleting {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: "users"}, m.Username)
	}
	if _, err := h.Bindings.Role(ctx, l, at, m.RoleRef); err != nil {
		return nil, err
	}
	c, err := h.Bindings.Plan(ctx, l, at, m.Username, m.RoleRef, query)
	if err != nil {
		return nil, err
	}
	return c, h.Bindings.Check(ctx, c)
}

// isOfFleet reports whether a name may be that of a user whom only the hub knows yet: what names them here is told to it, and it makes the
// user here. The hub is told the names that bindings here have, too: none of nobody's is free there for the next to take.
func (h *Handler) isOfFleet(name string) bool {
	return h.Fleet && len(validation.IsDNS1123Subdomain(name)) == 0
}

func (h *Handler) changeMember(l *binding.Scope) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at, query, err := h.writeAt(r, l)
		if err != nil {
			return nil, err
		}
		var m Member
		if err := wire.Read(r.Request, &m); err != nil {
			return nil, err
		}
		if m.Username == "" {
			m.Username = name
		}
		if m.Username != name {
			return nil, status.BadRequestf("username in the body is %.100q, in the path it is %.100q: they must be the same",
				m.Username, name)
		}
		if h.Bindings.RoleAt(name, at, "") == "" {
			return nil, removal.NotMember(name, at.String())
		}
		c, err := h.planMember(r, l, at, m, query)
		if err != nil {
			return nil, err
		}
		return wire.Success(), h.Bindings.Apply(r.Request.Context(), c)
	}
}

func (h *Handler) removeMember(l *binding.Scope) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at, query, err := h.writeAt(r, l)
		if err != nil {
			return nil, err
		}
		options, err := web.ReadDeleteOptions(r.Request)
		if err != nil {
			return nil, err
		}
		if len(options.DryRun) > 0 { // not all of the writes are deletions
			query["dryRun"] = options.DryRun
		}
		return h.Removals.Remove(r.Request.Context(), l, at, name, query)
	}
}

// readMembers decodes an array of members, as the console sends it.
func readMembers(r *http.Request) ([]Member, error) {
	raw, err := web.ReadBody(r, maxInvitation)
	if err != nil {
		return nil, err
	}
	var members []Member
	if err := json.Unmarshal(raw, &members); err != nil || len(members) == 0 {
		return nil, apierrors.NewBadRequest(`the body is not an array of members: send [{"username": "...", "roleRef": "..."}]`)
	}
	if len(members) > maxMembers {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%d members are more than the %d that one request may have",
			len(members), maxMembers))
	}
	return members, nil
}
