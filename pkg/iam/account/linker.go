// Package account links identities of providers to Users, and creates Users for identities that have none.
package account

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
)

// feedWait is how long a login waits for the feed to bring the User it created; usually some milliseconds.
const feedWait = 3 * time.Second

// UserAPI creates and reads Users at kube-apiserver.
type UserAPI interface {
	// Create creates a User, or fails with AlreadyExists. It returns the stored JSON.
	Create(ctx context.Context, u *v1beta1.User) ([]byte, error)
	// Get returns the JSON of a User.
	Get(ctx context.Context, name string) ([]byte, error)
}

// Options are what a Linker works with.
type Options struct {
	API   UserAPI
	Users *iam.UserIndex
	// Synced reports whether all Users are loaded. Before that no User is created, since it is not known which identities are linked.
	Synced func() bool
	// Named reports whether a binding names a user, existing or not; nil for never. No User is created by such a name, since it would
	// get the binding's rights.
	Named func(name string) bool
	// NamedNatively is Named for Kubernetes' own bindings. It is asked last, since it may ask kube-apiserver; nil for never.
	NamedNatively func(ctx context.Context, name string) (bool, error)
	// Provider returns an identity provider as it is now, nil for none; nil itself lets users of all register.
	Provider func(name string) *idp.Entry
	// Reservations keeps two registrations of one identity apart; nil for no reservations.
	Reservations Reservations
}

// Reservations lets one registration of an identity create a User. session.RegistrationLock is one.
type Reservations interface {
	Reserve(ctx context.Context, r *iam.Registration, name string) (held string, err error)
	Release(ctx context.Context, r *iam.Registration, name string) error
}

// Linker links identities of providers to Users, by the links in Users and never by a name.
type Linker struct {
	Options
}

// New returns a Linker.
func New(o Options) *Linker { return &Linker{o} }

// Linked returns the User that an identity is linked to; nil for none, or more than one. It makes no call.
func (a *Linker) Linked(provider, subject string) *iam.User {
	u, _ := a.Users.ByLink(iam.Link{Provider: provider, Subject: subject})
	return u
}

// Resolve returns the User linked to an identity, a User created for it, or how to register one, by the provider's mapping. It does not
// check whether the User may log in. Its errors are ErrNotLinked, ErrUnknownProvider and ErrUnavailable.
func (a *Linker) Resolve(ctx context.Context, e *idp.Entry, id *idp.Identity) (*iam.User, *iam.Registration, error) {
	u, r, makes, err := a.plan(e, id)
	if err != nil || !makes {
		return u, r, err
	}
	names := candidates(e.Name, id)
	if e.Mapping == idp.MapMixed {
		names = names[:1] // plan saw that it is the plain name
	}
	u, err = a.create(ctx, names, newAccount{
		Link: iam.Link{Provider: e.Name, Subject: id.Subject}, displayName: id.DisplayName, email: id.Email, lang: id.Lang,
		upstreamName: id.Username})
	if e.Mapping == idp.MapMixed && errors.Is(err, errNamesTaken) {
		return nil, a.registration(e, id), nil // another request was faster
	}
	return u, nil, err
}

// Plan returns what Resolve would return, and changes nothing: the linked User, the registration, or the name of the User to create.
func (a *Linker) Plan(e *idp.Entry, id *idp.Identity) (*iam.User, *iam.Registration, string, error) {
	u, r, makes, err := a.plan(e, id)
	if err != nil || !makes {
		return u, r, "", err
	}
	for _, name := range candidates(e.Name, id) {
		if a.free(name) {
			return nil, nil, name, nil
		}
	}
	return nil, nil, "", fmt.Errorf("%w: all names that could be made of it are taken", iam.ErrNotLinked)
}

// plan returns what becomes of an identity; makes reports that a User has to be created.
func (a *Linker) plan(e *idp.Entry, id *idp.Identity) (u *iam.User, r *iam.Registration, makes bool, err error) {
	switch {
	case e == nil || e.Disabled:
		return nil, nil, false, iam.ErrUnknownProvider
	case id == nil || id.Subject == "" || len(id.Subject) > maxSubject:
		return nil, nil, false, fmt.Errorf("%w: the provider gives no name of the person that could be kept", iam.ErrNotLinked)
	}
	u, shared := a.Users.ByLink(iam.Link{Provider: e.Name, Subject: id.Subject})
	switch {
	case u != nil:
		return u, nil, false, nil
	case shared:
		return nil, nil, false, fmt.Errorf("%w: more than one is, and none of them counts", iam.ErrNotLinked)
	case !a.Synced():
		return nil, nil, false, fmt.Errorf("%w: the users are not loaded", iam.ErrUnavailable)
	}
	if err := a.Users.Complete(); err != nil {
		return nil, nil, false, err
	}
	switch e.Mapping {
	case idp.MapAuto:
		return nil, nil, true, nil
	case idp.MapMixed:
		if plain, ok := plainName(id.Username); ok && a.free(plain) {
			return nil, nil, true, nil
		}
		return nil, a.registration(e, id), false, nil
	case idp.MapManual:
		return nil, a.registration(e, id), false, nil
	}
	return nil, nil, false, iam.ErrNotLinked
}

// registration proposes a free name, and the e-mail if it is free.
func (a *Linker) registration(e *idp.Entry, id *idp.Identity) *iam.Registration {
	r := &iam.Registration{Provider: e.Name, Subject: id.Subject, DisplayName: id.DisplayName}
	for _, name := range candidates(e.Name, id) {
		if a.free(name) {
			r.Username = name
			break
		}
	}
	if validEmail(id.Email) && !a.Users.EmailTaken(id.Email) {
		r.Email = id.Email
	}
	return r
}

// free reports whether no User and no binding has a name.
func (a *Linker) free(name string) bool {
	return a.Users.ByName(name) == nil && (a.Named == nil || !a.Named(name))
}

// Register creates the User of a registration, with the name and e-mail that its owner chose. Its errors are API errors (422 if name or
// e-mail is not valid, 409 if it is taken), ErrNotLinked if the identity is linked already, ErrUnknownProvider if the provider's users do
// not register any more, and ErrUnavailable.
func (a *Linker) Register(ctx context.Context, r iam.Registration, name, email string) (*iam.User, error) {
	if r.Provider == "" || r.Subject == "" || len(r.Subject) > maxSubject {
		return nil, fmt.Errorf("%w: the registration names no identity", iam.ErrNotLinked)
	}
	if a.Provider != nil {
		if e := a.Provider(r.Provider); e == nil || e.Disabled || e.Mapping != idp.MapManual && e.Mapping != idp.MapMixed {
			return nil, fmt.Errorf("%w whose users register as %q: log in again", iam.ErrUnknownProvider, r.Provider)
		}
	}
	if err := checkChoice(name, email); err != nil {
		return nil, err
	}
	link := iam.Link{Provider: r.Provider, Subject: r.Subject}
	u, shared := a.Users.ByLink(link)
	switch {
	case u != nil && u.Name == name:
		return u, nil // it was registered already: the page was sent twice
	case u != nil || shared:
		return nil, fmt.Errorf("%w by this registration: one is linked already; log in again", iam.ErrNotLinked)
	case !a.Synced():
		return nil, fmt.Errorf("%w: the users are not loaded", iam.ErrUnavailable)
	case !a.free(name):
		return nil, taken("name", name)
	case email != "" && a.Users.EmailTaken(email):
		return nil, taken("e-mail", email)
	}
	if err := a.reserve(ctx, &r, name); err != nil {
		return nil, err
	}
	u, err := a.create(ctx, []string{name}, newAccount{Link: link, displayName: r.DisplayName, email: email, upstreamName: r.Username})
	if errors.Is(err, errNamesTaken) {
		a.release(ctx, &r, name) // not after other failures: the User may exist all the same
		return nil, taken("name", name)
	}
	return u, err
}

func (a *Linker) reserve(ctx context.Context, r *iam.Registration, name string) error {
	if a.Reservations == nil {
		return nil
	}
	held, err := a.Reservations.Reserve(ctx, r, name)
	if err == nil && held != "" {
		return apierrors.NewConflict(usersResource(), name, fmt.Errorf("the same identity is being registered as %q: log in again", held))
	}
	return err
}

func (a *Linker) release(ctx context.Context, r *iam.Registration, name string) {
	if a.Reservations == nil {
		return
	}
	if err := a.Reservations.Release(context.WithoutCancel(ctx), r, name); err != nil {
		klog.ErrorS(err, "Releasing the reservation of a registration failed; another name can be chosen when it expires", "provider", r.Provider)
	}
}

// Vouched returns the User of an identity with the groups of both, for providers that authenticate each request. Its errors are those
// of Resolve, and ErrSuspended.
func (a *Linker) Vouched(ctx context.Context, e *idp.Entry, id *idp.Identity) (user.Info, error) {
	u, _, err := a.Resolve(ctx, e, id)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, fmt.Errorf("%w: register first, with a browser", iam.ErrNotLinked)
	case u.RefusalReason() != "":
		return nil, iam.ErrSuspended
	}
	more := idp.Groups(id.Groups, "")
	if len(more) == 0 && len(id.Extra) == 0 {
		return u.Info(), nil
	}
	groups := make([]string, 0, len(more)+len(u.Info().GetGroups()))
	groups = append(append(groups, u.Info().GetGroups()...), more...)
	extra := map[string][]string{}
	maps.Copy(extra, id.Extra)
	maps.Copy(extra, u.Info().GetExtra()) // what this server says of the user counts
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: groups, Extra: extra}, nil
}
