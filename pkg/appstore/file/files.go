// Package file keeps the files of the application store: packages of versions, and images that pages show. They are in a bucket of an S3
// server where one is configured, and in ConfigMaps otherwise.
package file

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Store keeps files by name. Errors are metav1.Status errors, NotFound for a file that is not there.
type Store interface {
	// Get returns a file. The caller must not change it.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put keeps a file under a name, and takes the place of what was there. Labels say whose it is.
	Put(ctx context.Context, name string, labels map[string]string, content []byte) error
	// Delete removes a file, and succeeds where there is none.
	Delete(ctx context.Context, name string) error
	// Labels returns whose a file is: the labels that it was kept with.
	Labels(ctx context.Context, name string) (map[string]string, error)
	// MaxSize is how large a file may be, in bytes.
	MaxSize() int
}

// Options say where files are.
type Options struct {
	// Bucket is where files are; a zero Host for none.
	Bucket BucketOptions
	// OldOnly keeps new files in ConfigMaps, though there is a bucket: what is in that is read, and deleted with what it is of.
	OldOnly bool
}

// Files keeps files in a bucket and in ConfigMaps: a file is in one of them, and is found in either, so that an installation may go from
// one to the other.
type Files struct {
	Reservations // in ConfigMaps wherever files are, since kube-apiserver creates one of a name
	maps         Store
	bucket       *Bucket
	// to is where new files go, and from where there may be a former one of the same name; nil for nowhere.
	to, from Store
}

var _ Store = (*Files)(nil)

// Open returns the Store that options ask for. It connects to nothing.
func Open(maps corev1client.ConfigMapsGetter, o Options) (*Files, error) {
	in := NewConfigMaps(maps)
	f := &Files{Reservations: in, maps: in, to: in}
	if o.Bucket.Host == "" {
		return f, nil
	}
	var err error
	if f.bucket, err = NewBucket(o.Bucket); err != nil {
		return nil, err
	}
	if f.to, f.from = Store(f.bucket), f.maps; o.OldOnly {
		f.to, f.from = f.from, f.to
	}
	return f, nil
}

// MaxSize implements Store.
func (f *Files) MaxSize() int { return f.to.MaxSize() }

// Get implements Store.
func (f *Files) Get(ctx context.Context, name string) ([]byte, error) {
	return firstOf(f, func(s Store) ([]byte, error) { return s.Get(ctx, name) })
}

// Labels implements Store.
func (f *Files) Labels(ctx context.Context, name string) (map[string]string, error) {
	return firstOf(f, func(s Store) (map[string]string, error) { return s.Labels(ctx, name) })
}

// firstOf reads where new files are, then where former ones are. A file that is found counts, whether or not the other place answers; one
// that is not found is not there only where both say so.
func firstOf[T any](f *Files, read func(Store) (T, error)) (T, error) {
	out, err := read(f.to)
	if err == nil || f.from == nil {
		return out, err
	}
	former, formerErr := read(f.from)
	if formerErr != nil && apierrors.IsNotFound(err) {
		err = formerErr
	}
	if formerErr == nil {
		return former, nil
	}
	return out, err
}

// Put implements Store. What was kept before goes last: a file that can't be written takes the place of nothing.
func (f *Files) Put(ctx context.Context, name string, labels map[string]string, content []byte) error {
	if err := f.to.Put(ctx, name, labels, content); err != nil {
		return err
	}
	if f.from == nil {
		return nil
	}
	if err := f.from.Delete(ctx, name); err != nil {
		return fmt.Errorf("the file %s is kept, and its former content is not deleted: %w", name, err)
	}
	return nil
}

// Delete implements Store.
func (f *Files) Delete(ctx context.Context, name string) error {
	err := f.to.Delete(ctx, name)
	if f.from != nil {
		err = errors.Join(err, f.from.Delete(ctx, name))
	}
	return err
}

// Bucket returns the bucket, nil for none.
func (f *Files) Bucket() *Bucket { return f.bucket }
