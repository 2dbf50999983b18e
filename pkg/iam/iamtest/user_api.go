package iamtest

import (
	"context"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/store"
)

// UserAPI is a fake kube-apiserver for Users, with the indexes of the replicas that watch it.
type UserAPI struct {
	Mu      sync.Mutex
	Objects map[string]*iamapi.User
	Created int
	Fail    error
	Feeds   []*iam.UserIndex
	Quiet   bool // the feeds lag
}

// Create creates a User, and sends it to the feeds.
func (a *UserAPI) Create(_ context.Context, u *iamapi.User) ([]byte, error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.Fail != nil {
		return nil, a.Fail
	}
	if a.Objects[u.Name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Group: iamapi.GroupName, Resource: "users"}, u.Name)
	}
	u = u.DeepCopy()
	u.UID = types.UID("uid-" + u.Name)
	a.Objects[u.Name] = u
	a.Created++
	raw, err := json.Marshal(u)
	if !a.Quiet {
		for _, f := range a.Feeds {
			f.Set(&store.Object{Name: u.Name, Raw: raw})
		}
	}
	return raw, err
}

// Get returns a User.
func (a *UserAPI) Get(_ context.Context, name string) ([]byte, error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.Objects[name] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: iamapi.GroupName, Resource: "users"}, name)
	}
	return json.Marshal(a.Objects[name])
}

// NewUserAPI returns an API without users.
func NewUserAPI() *UserAPI { return &UserAPI{Objects: map[string]*iamapi.User{}} }
