package application

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
)

const (
	// interval is how often images are looked through, and unnamed how long no Application has to name one before it is deleted.
	interval, unnamed = time.Hour, 24 * time.Hour
	// maxRemembered is of how many images in ConfigMaps it is remembered at once that nobody names them; a bucket has a bound of its own.
	maxRemembered = 10_000
	// pageSize is how many of them are read at once, without their content.
	pageSize = 500
)

// Bucket has attachments that are in no ConfigMap. file.Bucket is one.
type Bucket interface {
	Names(ctx context.Context, before time.Time, wanted func(name string) bool) ([]string, error)
	Labels(ctx context.Context, name string) (map[string]string, error)
	Delete(ctx context.Context, name string) error
}

// SetupAttachments adds to mgr what deletes attachments that nobody names.
func SetupAttachments(_ context.Context, mgr manager.Manager, files *file.Files) error {
	a := &Attachments{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Now: time.Now}
	if bucket := files.Bucket(); bucket != nil {
		a.Bucket = bucket
	}
	return mgr.Add(a)
}

// Attachments deletes attachments that no Application has named for a day: of one that is gone, or that was never saved.
type Attachments struct {
	Client client.Client
	Live   client.Reader
	Now    func() time.Time
	// Bucket is nil for none.
	Bucket Bucket

	// inConfigMaps and inBucket say since when nobody names an image, as this process has seen it: how old one is says nothing of that, and
	// after a restore Applications may come later than what they name.
	inConfigMaps, inBucket map[string]time.Time
}

// Start looks through the attachments until ctx ends.
func (a *Attachments) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := a.Collect(ctx); err != nil {
			klog.ErrorS(err, "attachments of the store are looked through again later")
		}
	}, interval)
	return nil
}

// Collect deletes the attachments that nobody names. Those in ConfigMaps don't wait for a bucket that is away.
func (a *Attachments) Collect(ctx context.Context) error {
	return errors.Join(a.collectConfigMaps(ctx), a.collectBucket(ctx))
}

func (a *Attachments) collectConfigMaps(ctx context.Context) error {
	left, err := a.old(ctx)
	if err != nil {
		return err
	}
	// What the cache says nobody names, kube-apiserver is asked about: it may know more.
	for _, from := range []client.Reader{a.Client, a.Live} {
		if len(left) == 0 {
			break
		}
		named, err := namedBy(ctx, from)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(m metav1.PartialObjectMetadata) bool { return named[m.Name] })
	}
	since := map[string]time.Time{}
	left = slices.DeleteFunc(left, func(m metav1.PartialObjectMetadata) bool {
		return len(since) == maxRemembered || !a.isOver(a.inConfigMaps, since, m.Name)
	})
	a.inConfigMaps = since
	for i := range left {
		err := a.Client.Delete(ctx, &left[i], client.Preconditions{UID: ptr.To(left[i].UID)})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the attachment %s: %w", left[i].Name, err)
		}
	}
	return nil
}

// collectBucket looks for names of attachments only: packages go with their versions, and other programs may use the bucket, too.
func (a *Attachments) collectBucket(ctx context.Context) error {
	if a.Bucket == nil {
		return nil
	}
	named, err := namedBy(ctx, a.Client)
	if err != nil {
		return err
	}
	left, err := a.Bucket.Names(ctx, a.Now().Add(-unnamed), func(name string) bool { return appstore.IsAttachmentID(name) && !named[name] })
	if err != nil {
		return err
	}
	if len(left) > 0 {
		if named, err = namedBy(ctx, a.Live); err != nil {
			return err
		}
	}
	since := map[string]time.Time{}
	left = slices.DeleteFunc(left, func(name string) bool { return named[name] || !a.isOver(a.inBucket, since, name) })
	a.inBucket = since
	for _, name := range left {
		labels, err := a.Bucket.Labels(ctx, name)
		switch {
		case apierrors.IsNotFound(err), err == nil && labels[v2.LabelAttachment] == "":
			continue
		case err == nil:
			err = a.Bucket.Delete(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("delete the attachment %s: %w", name, err)
		}
	}
	return nil
}

// isOver reports whether nobody has named an image for as long as unnamed. was and is say since when, as of the last time and of this one,
// into which it is noted.
func (a *Attachments) isOver(was, is map[string]time.Time, name string) bool {
	at, known := was[name]
	if !known {
		at = a.Now()
	}
	is[name] = at
	return a.Now().Sub(at) >= unnamed
}

// namedBy returns the attachments that Applications name.
func namedBy(ctx context.Context, from client.Reader) (map[string]bool, error) {
	apps := &v2.ApplicationList{}
	if err := from.List(ctx, apps); err != nil {
		return nil, fmt.Errorf("list Applications: %w", err)
	}
	named := map[string]bool{}
	for i := range apps.Items {
		named[apps.Items[i].Spec.Icon] = true
		for _, id := range apps.Items[i].Spec.Attachments {
			named[id] = true
		}
	}
	return named, nil
}

// old returns the attachments that are there for long enough to be named.
func (a *Attachments) old(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var out []metav1.PartialObjectMetadata
	page := &metav1.PartialObjectMetadataList{}
	for {
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		if err := a.Live.List(ctx, page, client.InNamespace(file.Namespace), client.HasLabels{v2.LabelAttachment}, client.Limit(pageSize),
			client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("list attachments: %w", err)
		}
		for i := range page.Items {
			if m := &page.Items[i]; a.Now().Sub(m.CreationTimestamp.Time) > unnamed {
				m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
				out = append(out, *m)
			}
		}
		if page.Continue == "" {
			return out, nil
		}
	}
}
