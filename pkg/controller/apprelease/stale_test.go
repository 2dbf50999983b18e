package apprelease_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// X33: what the cache has of a release from before its last write is waited for: by that, it would be installed once more, and its state written over.
func TestX33AReleaseIsNotDoneAgainByWhatTheCacheHasOfBefore(t *testing.T) {
	w := newWorld(t)
	if err := w.client.Create(t.Context(), newRelease(nil)); err != nil {
		t.Fatal(err)
	}
	w.reconcile() // the finalizer
	before := w.get()
	w.reconcile()
	done := w.get()
	if len(w.asked) != 1 || done.Status.State != v2.ReleaseCreated {
		t.Fatalf("%d operations, %+v", len(w.asked), done.Status)
	}
	w.stale = before
	writes := w.writes
	if result := w.reconcile(); result.RequeueAfter != retry.Stale || len(w.asked) != 1 || w.writes != writes {
		t.Errorf("%+v, %d operations, %d writes", result, len(w.asked), w.writes-writes)
	}
	w.stale = nil
	if w.reconcile(); len(w.asked) != 1 || w.get().Status.SpecHash != done.Status.SpecHash {
		t.Errorf("%d operations, %+v", len(w.asked), w.get().Status)
	}
}

// X33: a release of a namespace, by a user and of a version which were made, joined, activated or passed just before it is installed: what the cache does not
// have yet is no reason to refuse it, since what is refused is not tried again.
func TestX33WhatWasWrittenJustBeforeARelease(t *testing.T) {
	missing := func(client.Object) error { return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x") }
	for claim, cached := range map[string]func(client.Object) error{
		"the namespace is new": func(o client.Object) error {
			if _, ok := o.(*corev1.Namespace); ok {
				return missing(o)
			}
			return nil
		},
		"the namespace has just joined its workspace": func(o client.Object) error {
			if n, ok := o.(*corev1.Namespace); ok {
				n.Labels = nil
			}
			return nil
		},
		"the user is new": func(o client.Object) error {
			if _, ok := o.(*iamv1beta1.User); ok {
				return missing(o)
			}
			return nil
		},
		"the user has just become active": func(o client.Object) error {
			if u, ok := o.(*iamv1beta1.User); ok {
				u.Status.State = iamv1beta1.UserDisabled
			}
			return nil
		},
		"the version is new": func(o client.Object) error {
			if _, ok := o.(*v2.ApplicationVersion); ok {
				return missing(o)
			}
			return nil
		},
		"the version has just been passed": func(o client.Object) error {
			if v, ok := o.(*v2.ApplicationVersion); ok {
				v.Status.State = v2.StateSubmitted
			}
			return nil
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(t)
			w.r.Client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if err := c.Get(ctx, key, o, opts...); err != nil {
						return err
					}
					return cached(o)
				}})
			if got := w.add(nil); got.Status.State != v2.ReleaseCreated || len(w.asked) != 1 || w.asked[0].Cluster.User != "bob" {
				t.Errorf("%+v, %d operations", got.Status, len(w.asked))
			}
		})
	}
}
