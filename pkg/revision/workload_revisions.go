// Package revision returns former revisions of a workload, as far as the cluster has them: the ReplicaSets of a Deployment, the
// ControllerRevisions of a DaemonSet or StatefulSet.
package revision

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// revisionAnnotation is the annotation of a ReplicaSet with its number.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// Snapshots returns the objects of a kind; *store.Store does.
type Snapshots interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Service finds revisions.
type Service struct {
	Store Snapshots
}

func apps(resource string) schema.GroupVersionResource {
	return appsv1.SchemeGroupVersion.WithResource(resource)
}

// Deployment returns the ReplicaSet of a revision, as JSON. The error for a revision that does not exist is a 404.
func (s *Service) Deployment(ctx context.Context, namespace, name, revision string) (json.RawMessage, error) {
	owner, err := s.workload(ctx, "deployments", namespace, name)
	if err != nil {
		return nil, err
	}
	var found json.RawMessage
	err = s.owned(ctx, "replicasets", owner, func(r *index.Record) bool {
		if at, ok := r.Annotations.Get(revisionAnnotation); ok && at == revision {
			found = json.RawMessage(r.JSON.String())
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = missing("deployments", namespace, name, revision)
	}
	return found, err
}

// DaemonSet returns a DaemonSet as it was in a revision: the present one, with what the revision stores. The error for a revision that
// does not exist is a 404, and a 400 for one that is no number.
func (s *Service) DaemonSet(ctx context.Context, namespace, name, revision string) (json.RawMessage, error) {
	return s.controlled(ctx, "daemonsets", namespace, name, revision, appsv1.DaemonSet{})
}

// StatefulSet returns a StatefulSet as DaemonSet does a DaemonSet.
func (s *Service) StatefulSet(ctx context.Context, namespace, name, revision string) (json.RawMessage, error) {
	return s.controlled(ctx, "statefulsets", namespace, name, revision, appsv1.StatefulSet{})
}

func (s *Service) controlled(ctx context.Context, resource, namespace, name, revision string, shape any) (json.RawMessage, error) {
	number, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return nil, status.BadRequestf("the revision %q is not a number", status.Excerpt(revision, maxExcerpt))
	}
	owner, err := s.workload(ctx, resource, namespace, name)
	if err != nil {
		return nil, err
	}
	want, patch := strconv.FormatInt(number, 10), ""
	err = s.owned(ctx, "controllerrevisions", owner, func(r *index.Record) bool {
		if rawjson.Get(r.JSON.String(), "revision") == want {
			patch = rawjson.Get(r.JSON.String(), "data")
		}
		return patch == ""
	})
	if err != nil {
		return nil, err
	}
	if patch == "" {
		return nil, missing(resource, namespace, name, revision)
	}
	// The controllers of both kinds store a strategic merge patch (apps/v1, ControllerRevision).
	out, err := strategicpatch.StrategicMergePatch([]byte(owner.JSON.String()), []byte(patch), shape)
	if err != nil {
		return nil, fmt.Errorf("apply the revision %s of %s %s/%s: %w", want, resource, namespace, name, err)
	}
	return out, nil
}

// workload returns the workload itself.
func (s *Service) workload(ctx context.Context, resource, namespace, name string) (*index.Record, error) {
	snap, err := s.Store.Snapshot(ctx, apps(resource))
	if err != nil {
		return nil, err
	}
	r, ok := snap.Get(namespace, name)
	if !ok {
		return nil, apierrors.NewNotFound(apps(resource).GroupResource(), name)
	}
	return r, nil
}

// owned calls f with the objects that owner owns, until it returns false. An owner is identified by its UID: a workload that was created
// again under its old name has none of the former's revisions.
func (s *Service) owned(ctx context.Context, resource string, owner *index.Record, f func(*index.Record) bool) error {
	snap, err := s.Store.Snapshot(ctx, apps(resource))
	if err != nil {
		return err
	}
	snap.ByCreated(index.OwnedBy(owner.UID)).Walk(0, false, func(ref *index.Ref) bool {
		r := snap.Record(ref)
		return r.Namespace != owner.Namespace || f(r)
	})
	return nil
}

// maxExcerpt is how much of what a client sent an error message has.
const maxExcerpt = 64

func missing(resource, namespace, name, revision string) error {
	gr := apps(resource).GroupResource()
	return status.About(gr, name, status.Errorf(http.StatusNotFound, "%s %s/%s has no revision %s", gr, namespace, name,
		status.Excerpt(revision, maxExcerpt)))
}
