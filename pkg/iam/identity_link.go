package iam

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// Link is an identity that a User is linked to: the subject by which an identity provider knows the person.
type Link struct {
	Provider, Subject string
}

// readLinks returns the identities that a User's metadata link it to; nil for none. Release 3 had one, in two labels.
func readLinks(annotations, labels map[string]string) []Link {
	var out []Link
	add := func(provider, subject string) {
		if l := (Link{strings.Clone(provider), strings.Clone(subject)}); provider != "" && subject != "" && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	for k, subject := range annotations {
		if provider, ok := strings.CutPrefix(k, v1beta1.AnnotationIdentityProviderPrefix); ok {
			add(provider, subject)
		}
	}
	add(labels[v1beta1.LabelIdentifyProvider], labels[v1beta1.LabelOriginUID])
	return slices.Clip(out)
}

// ByLink returns the user that an identity is linked to, and nil where there is none. shared says that more than one is
// linked to it: then it is nobody's, since it can't be told whose it was meant to be.
func (u *UserIndex) ByLink(l Link) (user *User, shared bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	switch names := u.byLink[l]; len(names) {
	case 0:
		return nil, false
	case 1:
		return u.byName[names[0]], false
	}
	return nil, true
}

// EmailTaken reports whether a user has the e-mail, in whatever case.
func (u *UserIndex) EmailTaken(email string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return len(u.byEmail[emailKey(email)]) > 0
}

// link and unlink maintain the index of links. The lock is held.
func (u *UserIndex) link(next *User) {
	for _, l := range next.Links {
		u.byLink[l] = append(u.byLink[l], next.Name)
		if names := u.byLink[l]; len(names) > 1 {
			klog.InfoS("More than one user is linked to one identity; none of them can log in with it. Take the annotation away from all but one",
				"provider", l.Provider, "users", names)
		}
	}
}

func (u *UserIndex) unlink(old *User) {
	for _, l := range old.Links {
		rest := slices.DeleteFunc(slices.Clone(u.byLink[l]), func(n string) bool { return n == old.Name })
		if len(rest) == 0 {
			delete(u.byLink, l)
			continue
		}
		u.byLink[l] = rest
	}
}

// seen tells those who wait for a user that something was told of him. The lock is held.
func (u *UserIndex) seen(name string) {
	if ch, ok := u.awaited[name]; ok {
		close(ch)
		delete(u.awaited, name)
	}
}

// Await returns once the feed has told of a user what is waited for, and soon, whether it has or not. The user is nil where none is known.
func (u *UserIndex) Await(ctx context.Context, name string, most time.Duration, told func(*User) bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		u.mu.Lock()
		if told(u.byName[name]) {
			u.mu.Unlock()
			return
		}
		ch := u.awaited[name]
		if ch == nil {
			ch = make(chan struct{})
			u.awaited[name] = ch
		}
		u.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			u.mu.Lock()
			if u.awaited[name] == ch {
				delete(u.awaited, name) // whoever else waits for him goes on when his time is up
			}
			u.mu.Unlock()
			return
		}
	}
}
