package iam

import (
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// Link is an identity that a User is linked to: the subject by which an identity provider knows the user.
type Link struct {
	Provider, Subject string
}

// readLinks returns the identities in a User's metadata. Release 3 had one, in two labels.
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

// LinkedTo reports whether the user may log in with an identity. A login without one, such as by a local password, needs no link.
func (u *User) LinkedTo(provider, subject string) bool {
	return provider == "" || subject == "" || slices.Contains(u.Links, Link{provider, subject})
}

// ByLink returns the user linked to an identity, or nil. shared reports that several users are linked to it: then none of them counts.
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
