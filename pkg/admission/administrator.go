package admission

import (
	"fmt"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// administratorRole is the role without which no one could give a lost right back.
const administratorRole = "platform-admin"

const (
	// administratorsAsked bounds how many other administrators are checked until one is found who is active.
	administratorsAsked = 32
	// goingFor is how long a user whose end was allowed counts as gone: the next check may not see that end yet.
	goingFor = 10 * time.Second
)

// administrator is a user who is bound to the role, with the binding.
type administrator struct{ binding, user string }

// going has the ends of administrators that were allowed a moment ago. Of two writes that each end one of the last two at the same time,
// one is refused.
type going struct {
	mu    sync.Mutex
	until map[goingKey]time.Time
}

// goingKey is a user or a binding.
type goingKey struct{ resource, name string }

// keepsAdministrator refuses a write after which no active user is bound to the role that administers the platform. Groups do not count:
// an identity provider may decide who is in them. The caller has to give the role to another user first.
func (q *escalationCheck) keepsAdministrator() error {
	if q.guard.Active == nil {
		return nil
	}
	all := q.guard.Known.administrators()
	var stays, goes []administrator
	for _, a := range all {
		if q.ends(a) {
			goes = append(goes, a)
		} else {
			stays = append(stays, a)
		}
	}
	if len(goes) == 0 {
		return nil
	}
	q.guard.going.mu.Lock()
	defer q.guard.going.mu.Unlock()
	last, err := q.hasActive(goes, false)
	if err != nil || !last {
		return err
	}
	if remains, err := q.hasActive(stays, true); err != nil {
		return err
	} else if !remains {
		return apierrors.NewConflict(q.GVR.GroupResource(), q.Name,
			fmt.Errorf("no user who can log in would be left with the role %s: give it to another user first", administratorRole))
	}
	q.guard.going.note(goingKey{q.GVR.Resource, q.Name})
	return nil
}

// ends reports whether the write ends what the user has by the binding.
func (q *escalationCheck) ends(a administrator) bool {
	switch q.GVR.Resource {
	case "users":
		return a.user == q.Name
	case "globalrolebindings":
		if a.binding != q.Name || q.Verb == "delete" {
			return a.binding == q.Name
		}
		return q.now.RoleRef.Name != administratorRole || !slices.ContainsFunc(q.now.Subjects,
			func(s rbacv1.Subject) bool { return isUser(&s) && s.Name == a.user })
	case "globalroles":
		return q.Name == administratorRole
	}
	return false
}

// hasActive reports whether one of some administrators can log in. With others, those whose end was just allowed do not count.
func (q *escalationCheck) hasActive(some []administrator, others bool) (bool, error) {
	asked := 0
	for _, a := range some {
		if others && (q.guard.going.has(goingKey{"users", a.user}) || q.guard.going.has(goingKey{"globalrolebindings", a.binding})) {
			continue
		}
		if asked++; asked > administratorsAsked {
			return false, nil
		}
		ok, err := q.guard.Active(q.ctx, a.binding, a.user)
		if err != nil {
			return false, fmt.Errorf("see whether %.100q still administers the platform: %w", a.user, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

func (g *going) note(key goingKey) {
	now := time.Now()
	for k, until := range g.until {
		if now.After(until) {
			delete(g.until, k)
		}
	}
	if g.until == nil {
		g.until = map[goingKey]time.Time{}
	}
	g.until[key] = now.Add(goingFor)
}

func (g *going) has(key goingKey) bool { return time.Now().Before(g.until[key]) }

// Administers reports whether a stored user administers the platform by a stored binding: it is for implementations of Guard.Active that
// read both. An object that is being deleted gives nothing.
func Administers(binding *iamv1beta1.GlobalRoleBinding, u *iamv1beta1.User) bool {
	return binding.DeletionTimestamp.IsZero() && u.DeletionTimestamp.IsZero() && u.Status.State != iamv1beta1.UserDisabled &&
		binding.RoleRef.Name == administratorRole &&
		slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return isUser(&s) && s.Name == u.Name })
}

func isUser(s *rbacv1.Subject) bool { return s.Kind == rbacv1.UserKind }

// administrators returns the users who are bound to the role, in no particular order.
func (k *Cache) administrators() []administrator {
	if k == nil {
		return nil
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []administrator
	for binding, users := range k.admins {
		for _, u := range users {
			out = append(out, administrator{binding, u})
		}
	}
	return out
}
