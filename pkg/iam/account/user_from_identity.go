package account

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxName bounds a User's name, since labels refer to it.
	maxName = 63
	// maxSubject is the longest subject, in bytes (OpenID Connect Core 1.0, 2, has 255 characters).
	maxSubject = 1024
	// shortHash and longHash are the lengths of the hashes in derived names: 50 and 130 bits.
	shortHash, longHash = 10, 26
	// maxDisplayName and maxEmail are those of the User kind, the first in characters.
	maxDisplayName, maxEmail = 256, 254
)

// emailForm is the form of e-mails that the User kind takes.
var emailForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)

func validEmail(s string) bool { return len(s) <= maxEmail && emailForm.MatchString(s) }

// plainName returns the name that a User can have unchanged: lower-case letters, digits, '-' and '.' (RFC 1123, 2.1), at most 63.
func plainName(username string) (string, bool) {
	return username, len(username) <= maxName && len(validation.IsDNS1123Subdomain(username)) == 0
}

// candidates returns the names that the User of an identity may get, best first: the username if it is valid, then readable names that end
// in a hash of the identity. Different identities never get one name, and every replica derives the same.
func candidates(provider string, id *idp.Identity) []string {
	// No name of a provider has a zero byte (idp.checkName), and the subject comes last, so that no two identities hash the same text.
	sum := sha256.Sum256([]byte("kapis.dev user name 1\x00" + provider + "\x00" + id.Subject))
	end := strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	out := make([]string, 0, 3)
	if plain, ok := plainName(id.Username); ok {
		out = append(out, plain)
	}
	for _, n := range []int{shortHash, longHash} {
		out = append(out, readable(id.Username, maxName-1-n)+"-"+end[:n])
	}
	return out
}

// readable derives the beginning of a name from a username, of at most n characters.
func readable(username string, n int) string {
	var b strings.Builder
	for _, r := range strings.ToLower(username) {
		if b.Len() == n {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteByte(byte(r))
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
	}
	if s := strings.TrimRight(b.String(), "-"); s != "" {
		return s
	}
	return "user"
}

// object returns the User to create: it has the link, and nothing that gives rights.
func (w newAccount) object(a *Linker, name string) *v1beta1.User {
	display := w.displayName
	if display == "" && w.upstreamName != name {
		display = w.upstreamName // what the name was made of
	}
	u := &v1beta1.User{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "User"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			v1beta1.AnnotationIdentityProviderPrefix + w.Provider: w.Subject,
		}},
		Spec: v1beta1.UserSpec{DisplayName: status.Clip(display, maxDisplayName)},
	}
	if validEmail(w.email) && !a.Users.EmailTaken(w.email) {
		u.Spec.Email = w.email
	}
	if len(w.lang) <= 35 {
		u.Spec.Lang = w.lang
	}
	return u
}

func usersResource() schema.GroupResource {
	return schema.GroupResource{Group: v1beta1.GroupName, Resource: "users"}
}

// checkChoice validates the name and e-mail that a user chose; the e-mail may be "".
func checkChoice(name, email string) error {
	if _, ok := plainName(name); !ok {
		return unprocessable("the name has to be at most %d characters long, of lower-case letters, digits, '-' and '.', and to begin and"+
			" end with a letter or a digit", maxName)
	}
	if email != "" && !validEmail(email) {
		return unprocessable("the e-mail is none")
	}
	return nil
}

func unprocessable(format string, args ...any) error {
	return status.Errorf(http.StatusUnprocessableEntity, format, args...)
}

func taken(what, value string) error {
	err := apierrors.NewAlreadyExists(usersResource(), value)
	err.ErrStatus.Message = fmt.Sprintf("the %s %q is taken; choose another one", what, value)
	return err
}

// newAccount is the User to create.
type newAccount struct {
	iam.Link
	displayName, email, lang string
	// upstreamName is the name of the person at the provider.
	upstreamName string
}

// errNamesTaken says that none of the names was free.
var errNamesTaken = fmt.Errorf("%w: the names that could be made of it are taken", iam.ErrNotLinked)

// create creates a User with the first free name. Replicas that do so at the same time try the same names in the same order: the later
// one finds the User of the first, by its link.
func (a *Linker) create(ctx context.Context, names []string, w newAccount) (*iam.User, error) {
	for _, name := range names {
		if named, err := a.named(ctx, name); err != nil {
			return nil, err
		} else if named {
			continue
		}
		u, err := a.make(ctx, w.object(a, name))
		if err != nil {
			return nil, err
		}
		if u != nil {
			a.Users.Await(ctx, u.Name, feedWait, func(now *iam.User) bool { return now != nil })
			if now := a.Users.ByName(u.Name); now != nil && now.UID == u.UID {
				return now, nil
			}
			return u, nil
		}
	}
	return nil, errNamesTaken
}

// named reports whether a binding of any kind names a user.
func (a *Linker) named(ctx context.Context, name string) (bool, error) {
	if a.Named != nil && a.Named(name) {
		return true, nil
	}
	if a.NamedNatively == nil {
		return false, nil
	}
	named, err := a.NamedNatively(ctx, name)
	if err != nil {
		return false, fmt.Errorf("%w: look for bindings of the name %q: %w", iam.ErrUnavailable, name, err)
	}
	return named, nil
}

// make creates a User. It returns the existing one if that has the link already, and nil if the name belongs to another user.
func (a *Linker) make(ctx context.Context, o *v1beta1.User) (*iam.User, error) {
	raw, err := a.API.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		raw, err = a.API.Get(ctx, o.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil // it was deleted meanwhile: do not take its name now
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: make the user of an identity: %w", iam.ErrUnavailable, err)
	}
	u, err := iam.ParseUser(raw)
	if err != nil {
		return nil, fmt.Errorf("make the user of an identity: %w", err)
	}
	for k, subject := range o.Annotations {
		for _, l := range u.Links {
			if k == v1beta1.AnnotationIdentityProviderPrefix+l.Provider && subject == l.Subject {
				return u, nil
			}
		}
	}
	return nil, nil
}
