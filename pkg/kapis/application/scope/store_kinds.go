package scope

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

// Object is an object of the store.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is a kind of the store. Its methods do what routes do with its objects.
type Kind[O Object] struct {
	plural, name string
	new          func() O
	// public reports whether an object is seen by everybody who may ask for any.
	public func(workspace, state string) bool
	// states has the states of objects, and first the one of an object that says none; nil where lists have no condition on it.
	states []string
}

// The kinds of the store.
var (
	Apps = Kind[*v2.Application]{"applications", "Application", func() *v2.Application { return &v2.Application{} }, published,
		[]string{v2.StateDraft, v2.StateActive, v2.StateSuspended}}
	Versions = Kind[*v2.ApplicationVersion]{"applicationversions", "ApplicationVersion",
		func() *v2.ApplicationVersion { return &v2.ApplicationVersion{} }, published,
		[]string{v2.StateDraft, v2.StateSubmitted, v2.StatePassed, v2.StateRejected, v2.StateActive, v2.StateSuspended}}
	Categories = Kind[*v2.Category]{"categories", "Category", func() *v2.Category { return &v2.Category{} },
		func(string, string) bool { return true }, nil}
	Repos = Kind[*v2.Repo]{"repos", "Repo", func() *v2.Repo { return &v2.Repo{} },
		func(workspace, _ string) bool { return workspace == SystemWorkspace }, nil}
	Releases = Kind[*v2.ApplicationRelease]{"applicationreleases", "ApplicationRelease",
		func() *v2.ApplicationRelease { return &v2.ApplicationRelease{} }, func(string, string) bool { return false },
		[]string{v2.ReleaseCreating, v2.ReleaseCreated, v2.ReleaseActive, v2.ReleaseUpgrading, v2.ReleaseUpgraded, v2.ReleaseDeleting,
			v2.ReleaseFailed, v2.ReleaseDeployFailed, v2.ReleaseTimeout, v2.ReleaseClusterDeleted}}
)

// published reports whether what is in this state is in the store for everybody, whichever workspace it is of.
func published(_, state string) bool { return state == v2.StateActive }

// Resource returns the kind as errors name it.
func (k Kind[O]) Resource() schema.GroupResource { return gvr(k.plural).GroupResource() }

// NotFound returns the error for an object that is not there, or that the caller may not see.
func (k Kind[O]) NotFound(name string) error { return apierrors.NewNotFound(k.Resource(), name) }

func (k Kind[O]) typeMeta() schema.GroupVersionKind { return v2.SchemeGroupVersion.WithKind(k.name) }

// State returns the state of an object whose status says this.
func (k Kind[O]) State(said string) string {
	if said == "" && len(k.states) > 0 {
		return k.states[0]
	}
	return said
}
