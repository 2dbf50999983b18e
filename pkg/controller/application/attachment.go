package application

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
)

const (
	// interval is how often images are looked through, and unnamed how long one may be there before an Application names it.
	interval, unnamed = time.Hour, 24 * time.Hour
	// pageSize is how many of them are read at once, without their content.
	pageSize = 500
)

// SetupAttachments adds to mgr what deletes attachments that nobody names.
func SetupAttachments(_ context.Context, mgr manager.Manager) error {
	return mgr.Add(&Attachments{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Now: time.Now})
}

// Attachments deletes attachments that no Application names: of one that is gone, or that was never saved.
type Attachments struct {
	Client client.Client
	Live   client.Reader
	Now    func() time.Time
}

// Start looks through the attachments until ctx ends.
func (a *Attachments) Start(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := a.Collect(ctx); err != nil {
			klog.ErrorS(err, "attachments of the store are looked through again later")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Collect deletes the attachments that nobody names.
func (a *Attachments) Collect(ctx context.Context) error {
	left, err := a.old(ctx)
	// What the cache says nobody names, kube-apiserver is asked about: it may know more.
	for _, from := range []client.Reader{a.Client, a.Live} {
		if err != nil || len(left) == 0 {
			return err
		}
		left, err = withoutNamed(ctx, from, left)
	}
	if err != nil {
		return err
	}
	for i := range left {
		err := a.Client.Delete(ctx, &left[i], client.Preconditions{UID: ptr.To(left[i].UID)})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the attachment %s: %w", left[i].Name, err)
		}
	}
	return nil
}

// withoutNamed returns the attachments that no Application names.
func withoutNamed(ctx context.Context, from client.Reader, all []metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
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
	return slices.DeleteFunc(all, func(m metav1.PartialObjectMetadata) bool { return named[m.Name] }), nil
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
