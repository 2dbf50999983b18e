// Package iamtest provides what the tests of the packages under iam share: users, and fakes of the Kubernetes API.
package iamtest

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Start returns the time at which tests begin.
func Start() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Feed sends changes to a sink; while it is held, the changes wait.
type Feed struct {
	Sink store.Sink
	Held bool
	Late []func()
}

// Keys returns keys that all tests share.
var Keys = sync.OnceValues(func() (*token.KeySet, error) { return token.Generate(Start()) })

// Password is the password of users in tests.
const Password = "P@88w0rd"

// Hash returns a hash of the lowest cost, since the tests compare it often.
func Hash(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// Change edits a User before it is encoded.
type Change func(*iamapi.User)

// User returns a User as the store has it.
func User(name string, changes ...Change) *store.Object {
	u := &iamapi.User{}
	u.Name, u.UID = name, types.UID("uid-"+name)
	u.Spec.Email = name + "@example.com"
	u.Status.State = iamapi.UserActive
	for _, c := range changes {
		c(u)
	}
	raw, err := json.Marshal(u)
	if err != nil {
		panic(err)
	}
	return &store.Object{Name: name, Raw: raw}
}

// WithPassword sets the hash of the password.
func WithPassword(hash string) Change { return func(u *iamapi.User) { u.Spec.Password = hash } }

// WithState sets the state.
func WithState(s iamapi.UserState) Change {
	return func(u *iamapi.User) { u.Status.State = s }
}

// WithGroups sets the groups.
func WithGroups(g ...string) Change { return func(u *iamapi.User) { u.Spec.Groups = g } }

// WithLink adds a link to an identity of a provider.
func WithLink(provider, subject string) Change {
	return func(u *iamapi.User) {
		metav1.SetMetaDataAnnotation(&u.ObjectMeta, iamapi.AnnotationIdentityProviderPrefix+provider, subject)
	}
}

// WithUID sets the UID.
func WithUID(s types.UID) Change { return func(u *iamapi.User) { u.UID = s } }

// Want fails the test unless an error is the wanted one.
func Want(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}
