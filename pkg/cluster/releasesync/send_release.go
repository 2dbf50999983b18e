package releasesync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

// packageWait bounds the time to read a package, which may be in a repository.
const packageWait = time.Minute

var (
	versionsKind = v2.SchemeGroupVersion.WithResource("applicationversions")
	usersKind    = iamv1beta1.SchemeGroupVersion.WithResource("users")
	clustersKind = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
)

// bring sends a release to a member, and returns why that is not possible. The error is one of the link: it says nothing of the release.
func (r *round) bring(ctx context.Context, m *cluster.Member, rel *v2.ApplicationRelease, id string) (message string, err error) {
	if release.IsUntouched(rel) {
		return refusal(r.adopt(ctx, m, rel, id))
	}
	raw, in, done, err := r.wanted(ctx, rel, id)
	if err != nil {
		return withCode(err), ctx.Err()
	}
	defer done()
	query := url.Values{"hub": {r.UID}, "release": {rel.Name}, "digest": {in.Digest}}
	err = exchange.SendFile(ctx, m, PathPackage, query, raw)
	if err == nil { // reading and sending a package may take minutes
		err = r.know(versionsKind, usersKind)
	}
	if err == nil {
		err = exchange.Ask(ctx, m, PathRelease, in, nil)
	}
	return refusal(err)
}

// refusal returns why a member refuses what it was asked, or an error of the link.
func refusal(err error) (message string, failed error) {
	var no *exchange.Refused
	if errors.As(err, &no) {
		return fmt.Sprintf("%d %s: %s", no.Code, http.StatusText(no.Code), no.Error()), nil
	}
	return "", err
}

// withCode returns an error as a status has it, with its code where it has one.
func withCode(err error) string {
	var said apierrors.APIStatus
	if errors.As(err, &said) {
		return fmt.Sprintf("%d %s", said.Status().Code, err)
	}
	return err.Error()
}

// wanted returns what a release asks for, as it is sent, and its package, until done is called. It is checked as it would be before it is
// installed here.
func (r *round) wanted(ctx context.Context, rel *v2.ApplicationRelease, id string) (raw []byte, in *Release, done func(), err error) {
	if err := release.Check(rel); err != nil {
		return nil, nil, nil, err
	}
	v := &v2.ApplicationVersion{}
	if err := r.cached(ctx, versionsKind, rel.Spec.AppVersionID, v); err != nil {
		return nil, nil, nil, err
	}
	if err := release.CheckVersion(rel, v); err != nil {
		return nil, nil, nil, err
	}
	author := rel.Annotations[v2.AnnotationUser]
	if err := r.checkAuthor(ctx, author); err != nil {
		return nil, nil, nil, err
	}
	if raw, done, err = r.read(ctx, v); err != nil {
		return nil, nil, nil, err
	}
	return raw, &Release{Hub: r.UID, Name: rel.Name, Hash: id, Author: author, Cluster: rel.Labels[v2.LabelCluster],
		Workspace: rel.Labels[v2.LabelWorkspace], Namespace: rel.Labels[v2.LabelNamespace], Spec: rel.Spec,
		Retry: rel.Annotations[v2.AnnotationRetry], Adopt: release.IsAdopted(&rel.Status), Type: release.Type(v), Digest: chart.Digest(raw),
		Parts: exchange.Parts(len(raw))}, done, nil
}

// cached returns an object of the caches.
func (r *round) cached(ctx context.Context, kind schema.GroupVersionResource, name string, into any) error {
	snap, err := r.Caches.Snapshot(ctx, kind)
	if err != nil {
		return err
	}
	record, found := snap.Get("", name)
	if !found {
		return apierrors.NewNotFound(kind.GroupResource(), name)
	}
	if err := json.Unmarshal([]byte(record.JSON.String()), into); err != nil {
		return fmt.Errorf("read %s %s: %w", kind.Resource, name, err)
	}
	return nil
}

// checkAuthor returns why a release is not sent in the name of a user: members don't know who is disabled here.
func (r *round) checkAuthor(ctx context.Context, name string) error {
	refuse := func(why string) error {
		return status.Forbiddenf("%.253q %s: a release is installed with the rights of the user who changed it last. Save it again as a user "+
			"who has them", name, why)
	}
	if name == "" || strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kapis:") {
		return refuse("is no user of this platform")
	}
	u := &iamv1beta1.User{}
	err := r.cached(ctx, usersKind, name, u)
	switch {
	case apierrors.IsNotFound(err):
		return refuse("is no user of this platform")
	case err != nil:
		return err
	case !u.DeletionTimestamp.IsZero():
		return refuse("is being deleted")
	case u.Status.State != iamv1beta1.UserActive && u.Status.State != iamv1beta1.UserAuthLimitExceeded:
		return refuse("is disabled, or not active yet")
	}
	return nil
}
