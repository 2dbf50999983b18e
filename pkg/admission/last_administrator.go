package admission

import (
	"context"
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
	// EndsFor is how long an end that was allowed counts: the next check may not see it yet, since kube-apiserver asks other webhooks, too,
	// and waits for them as long as this.
	EndsFor = 10 * time.Second
)

// administrator is a user who is bound to the role, with the binding.
type administrator struct{ binding, user string }

// Ends has the ends of administrators that were allowed a moment ago. Of two writes that each end one of the last two at the same time,
// one is refused: so all replicas of the webhooks share it, whom nobody tells what became of a write.
type Ends interface {
	// Add calls allowed with the ends that count, and has further ones count for EndsFor if it returns nil. If another end was added
	// meanwhile, it is called again. Its error is returned. Without further ones, nothing is written.
	Add(ctx context.Context, ends []string, allowed func(counts map[string]bool) error) error
}

// ownEnds are those of a process that is alone.
type ownEnds struct {
	mu    sync.Mutex
	notes []*endNote
}

type endNote struct {
	ends  []string
	until time.Time
}

// add is Ends.Add for a process that sends the writes itself, and so knows what becomes of them: the further ends count no longer than ctx,
// unless stays was called.
func (o *ownEnds) add(ctx context.Context, ends []string, allowed func(counts map[string]bool) error) (stays func() bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, counts := time.Now(), map[string]bool{}
	o.notes = slices.DeleteFunc(o.notes, func(n *endNote) bool { return !now.Before(n.until) })
	for _, n := range o.notes {
		for _, end := range n.ends {
			counts[end] = true
		}
	}
	if err := allowed(counts); err != nil || len(ends) == 0 {
		return nil, err
	}
	n := &endNote{ends, now.Add(EndsFor)}
	o.notes = append(o.notes, n)
	return context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.notes = slices.DeleteFunc(o.notes, func(one *endNote) bool { return one == n })
	}), nil
}

// Made says that a write was made that Check allowed: if it ends an administrator, that counts for a while. The end that a write would have
// been that was refused, or was not sent, counts no longer than the context of Check.
func (w *Write) Made() {
	if w.WhenMade != nil {
		w.WhenMade()
	}
}

// mayEndAdministrator has Check ask at its end, when nothing else refuses the write, whether an administrator remains after it: an end that
// is noted and then refused would have the next one refused, too. What is checked as a deletion ends no less than a change does.
func (q *escalationCheck) mayEndAdministrator() {
	if q.ending == nil {
		q.ending = q
	}
}

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
	if last, err := q.hasActive(goes, nil); err != nil || !last {
		return err
	}
	var ends []string
	if !q.DryRun {
		ends = q.endsOf(goes)
	}
	allowed := func(counts map[string]bool) error {
		remains, err := q.hasActive(stays, counts)
		if err != nil || remains {
			return err
		}
		return apierrors.NewConflict(q.GVR.GroupResource(), q.Name,
			fmt.Errorf("no user who can log in would be left with the role %s: give it to another user first", administratorRole))
	}
	if q.guard.Ends != nil {
		return q.guard.Ends.Add(q.ctx, ends, allowed)
	}
	var err error
	q.WhenMade, err = q.guard.own.add(q.ctx, ends, allowed)
	return err
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
		return !isAdministrators(&q.now.RoleRef) || !slices.ContainsFunc(q.now.Subjects,
			func(s rbacv1.Subject) bool { return isUser(&s) && s.Name == a.user })
	case "globalroles":
		return q.Name == administratorRole
	}
	return false
}

// endsOf returns the ends that the write is: of a user, of a binding, or of what some users have by a binding that others stay in. The role
// has none, because it is kept as long as anybody who has it is active.
func (q *escalationCheck) endsOf(goes []administrator) (out []string) {
	switch {
	case q.GVR.Resource == "users":
		return []string{endOfUser(q.Name)}
	case q.GVR.Resource == "globalrolebindings" && q.Verb == "delete":
		return []string{endOfBinding(q.Name)}
	case q.GVR.Resource == "globalrolebindings":
		for _, a := range goes {
			out = append(out, a.end())
		}
	}
	return out
}

func endOfUser(name string) string { return "users/" + name }

func endOfBinding(name string) string { return "globalrolebindings/" + name }

// end is that of what the user has by the binding alone.
func (a administrator) end() string { return endOfBinding(a.binding) + "/" + a.user }

// hasActive reports whether one of some administrators can log in. Those whose end counts do not.
func (q *escalationCheck) hasActive(some []administrator, counts map[string]bool) (bool, error) {
	asked := 0
	for _, a := range some {
		if counts[endOfUser(a.user)] || counts[endOfBinding(a.binding)] || counts[a.end()] {
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

// Administers reports whether a stored user administers the platform by a stored binding: it is for implementations of Guard.Active that
// read both. An object that is being deleted gives nothing.
func Administers(binding *iamv1beta1.GlobalRoleBinding, u *iamv1beta1.User) bool {
	return binding.DeletionTimestamp.IsZero() && u.DeletionTimestamp.IsZero() && u.Status.State != iamv1beta1.UserDisabled &&
		isAdministrators(&binding.RoleRef) &&
		slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return isUser(&s) && s.Name == u.Name })
}

// isAdministrators reports whether a binding of the platform gives the administrators' role: one whose roleRef has another kind or API
// group binds nobody (rbac.Index), whatever the name.
func isAdministrators(r *rbacv1.RoleRef) bool {
	return r.Name == administratorRole && r.Kind == iamv1beta1.KindGlobalRole && (r.APIGroup == "" || r.APIGroup == iamv1beta1.GroupName)
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
