package iam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// maxMembers is how many members one request adds, maxInvitation how long it is, in bytes.
	maxMembers    = 500
	maxInvitation = 256 << 10
)

// Member is who gets which role, as clients send it.
type Member struct {
	Username string `json:"username"`
	RoleRef  string `json:"roleRef"`
}

// addMembers gives roles to several users. All of it is checked before anything is written; then the answer is what was asked for, or an error
// whose details.causes tell what became of which member.
func (h *V1beta1) addMembers(l *level) web.Handler {
	return func(r *restful.Request) (any, error) {
		at, err := h.placeOf(r, l, "create", "")
		if err != nil {
			return nil, err
		}
		query, err := writeParams(r.Request)
		if err != nil {
			return nil, err
		}
		members, err := readMembers(r.Request)
		if err != nil {
			return nil, err
		}
		ctx := r.Request.Context()
		var refused failures
		changes := make([]*change, len(members))
		seen := map[string]bool{}
		for i, m := range members {
			if seen[m.Username] {
				refused.add(i, m.Username, apierrors.NewBadRequest("the user is named twice"))
				continue
			}
			seen[m.Username] = true
			if changes[i], err = h.planMember(r, l, at, m, query); err != nil {
				refused.add(i, m.Username, err)
			}
		}
		if err := refused.err("nothing was written"); err != nil {
			return nil, err
		}
		var failed failures
		var done []string
		for i, c := range changes {
			if err := h.apply(ctx, c); err != nil {
				failed.add(i, c.user, err)
				continue
			}
			done = append(done, c.user)
		}
		if err := failed.err(fmt.Sprintf("%d of %d were written: %.500s", len(done), len(changes), strings.Join(done, ", "))); err != nil {
			return nil, err
		}
		return members, nil
	}
}

// planMember looks at one member: the user, the role, and whether the caller may give it.
func (h *V1beta1) planMember(r *restful.Request, l *level, at authz.Place, m Member, query url.Values) (*change, error) {
	ctx := r.Request.Context()
	if m.Username == "" || m.RoleRef == "" {
		return nil, apierrors.NewBadRequest("username or roleRef is missing")
	}
	if u := h.Users.ByName(m.Username); u == nil || u.Deleting {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: "users"}, m.Username)
	}
	if _, err := h.role(ctx, l, at, m.RoleRef); err != nil {
		return nil, err
	}
	c, err := h.plan(ctx, l, at, m.Username, m.RoleRef, query)
	if err != nil {
		return nil, err
	}
	return c, h.check(ctx, c)
}

func (h *V1beta1) changeMember(l *level) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at, err := h.placeOf(r, l, "update", name)
		if err != nil {
			return nil, err
		}
		query, err := writeParams(r.Request)
		if err != nil {
			return nil, err
		}
		var m Member
		if err := read(r.Request, &m); err != nil {
			return nil, err
		}
		if m.Username == "" {
			m.Username = name
		}
		if m.Username != name {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("username in the body is %.100q, in the path it is %.100q: they must be the same", m.Username, name))
		}
		if h.roleAt(name, at, "") == "" {
			return nil, notMember(name, at.String())
		}
		c, err := h.planMember(r, l, at, m, query)
		if err != nil {
			return nil, err
		}
		return done(), h.apply(r.Request.Context(), c)
	}
}

func (h *V1beta1) removeMember(l *level) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at, err := h.placeOf(r, l, "delete", name)
		if err != nil {
			return nil, err
		}
		query, err := writeParams(r.Request)
		if err != nil {
			return nil, err
		}
		options, err := readDeleteOptions(r.Request)
		if err != nil {
			return nil, err
		}
		if len(options.DryRun) > 0 { // some of the writes may be no deletion
			query["dryRun"] = append(query["dryRun"], options.DryRun...)
		}
		m := &removal{V1beta1: h, level: l, at: at, user: name, query: query}
		return m.run(r.Request.Context())
	}
}

// readMembers reads what the console sends: an array.
func readMembers(r *http.Request) ([]Member, error) {
	raw, err := readUpTo(r, maxInvitation)
	if err != nil {
		return nil, err
	}
	var members []Member
	if err := json.Unmarshal(raw, &members); err != nil || len(members) == 0 {
		return nil, apierrors.NewBadRequest(`the body is not an array of members: send [{"username": "...", "roleRef": "..."}]`)
	}
	if len(members) > maxMembers {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%d members are more than the %d that one request may have", len(members), maxMembers))
	}
	return members, nil
}

// readDeleteOptions reads the body of a deletion, which may have none.
func readDeleteOptions(r *http.Request) (*metav1.DeleteOptions, error) {
	raw, err := readUpTo(r, maxSmall)
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if len(raw) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, apierrors.NewBadRequest("the body is not DeleteOptions")
	}
	return o, nil
}

// failures are what went wrong with some of many.
type failures struct {
	first  error
	causes []metav1.StatusCause
}

func (f *failures) add(i int, name string, err error) {
	s := web.Status(err)
	if f.first == nil {
		f.first = err
	}
	f.causes = append(f.causes, metav1.StatusCause{
		Type: metav1.CauseType(s.Reason), Field: fmt.Sprintf("[%d]", i), Message: fmt.Sprintf("%.100q: %s", name, s.Message),
	})
}

// err is an error with the code of the first failure, which tells all of them, and then; nil where there are none.
func (f *failures) err(then string) error {
	if f.first == nil {
		return nil
	}
	s := web.Status(f.first).DeepCopy()
	s.Message = fmt.Sprintf("%s; %s", f.causes[0].Message, then)
	if len(f.causes) > 1 {
		s.Message = fmt.Sprintf("%s, and %d more; %s", f.causes[0].Message, len(f.causes)-1, then)
	}
	if s.Details == nil {
		s.Details = &metav1.StatusDetails{Group: Group}
	}
	s.Details.Causes = f.causes
	if known := apierrors.APIStatus(nil); !errors.As(f.first, &known) {
		return fmt.Errorf("%s: %w", then, f.first) // it is told to the log, not to the client
	}
	return &apierrors.StatusError{ErrStatus: *s}
}
