package extensionrelease

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/controller/note"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// Records keeps the notes of what the records of releases were.
type Records struct {
	Client client.Client
	Live   client.Reader
	Mapper meta.RESTMapper
}

func (r Records) book() note.Book[Note] {
	return note.Book[Note]{Client: r.Client, Live: r.Live, Key: "release.json"}
}

// Noted returns what was noted of a release in a namespace by a name, and of none that it is not known.
func (r Records) Noted(ctx context.Context, name, namespace string) (*Note, error) {
	n, err := r.book().Get(ctx, name)
	if err != nil || n != nil && n.Namespace == namespace {
		return n, err
	}
	return &Note{Namespace: namespace}, nil
}

// Begin notes what an operation may make.
func (r Records) Begin(ctx context.Context, name string, n *Note, objects []permission.Object) error {
	n.Begin(objects)
	return r.book().Put(ctx, name, n)
}

// End notes the records that an operation has left.
func (r Records) End(ctx context.Context, name string, n *Note, left *helm.Result, believed, whole bool) error {
	objects, _, _, err := Objects(r.Mapper, n.Namespace, left.Objects)
	if err != nil {
		return err
	}
	n.End(left.Release, believed, whole, objects)
	return r.book().Put(ctx, name, n)
}

// Adopt notes the records that status returns, of a release that was installed before records were noted.
func (r Records) Adopt(ctx context.Context, name, namespace string, status func() (*helm.Result, error)) error {
	n, err := r.book().Get(ctx, name)
	if n != nil || err != nil {
		return err
	}
	found, err := status()
	if of := (*helm.Error)(nil); errors.As(err, &of) && of.Reason == helm.ReasonNotFound {
		return nil // there is nothing to be held to
	}
	if err != nil {
		return err
	}
	return r.End(ctx, name, &Note{Namespace: namespace}, found, true, true)
}

// Delete forgets a release.
func (r Records) Delete(ctx context.Context, name string) error { return r.book().Delete(ctx, name) }
