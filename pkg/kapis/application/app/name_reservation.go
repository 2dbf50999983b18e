package app

import (
	"context"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/status"
)

// uploadTime is how long an upload has a name without an application: one that was interrupted keeps nobody from it for longer.
const uploadTime = time.Minute

// makeReserved makes an application and its first version, and nothing while another request makes one of the name in the workspace.
func (h *Handler) makeReserved(r *restful.Request, a *v2.Application, p *appstore.Package, content []byte) (
	*v2.Application, *v2.ApplicationVersion, error,
) {
	reserved, err := h.reserve(r, p.Name)
	if err != nil {
		return nil, nil, err
	}
	// What nobody can use is taken back, also for a caller who has gone. Whatever fails of that ends after uploadTime.
	release := func() { _ = h.Files.Release(context.WithoutCancel(r.Request.Context()), reserved) }
	if a, err = scope.Apps.Create(h.Store, r, a); err != nil {
		release()
		return nil, nil, err
	}
	if err = h.Files.Keep(r.Request.Context(), reserved, metav1.OwnerReference{APIVersion: v2.SchemeGroupVersion.String(), Kind: "Application",
		Name: a.Name, UID: a.UID}); err == nil {
		var v *v2.ApplicationVersion
		if v, err = h.addVersion(r, a, p, content); err == nil {
			return a, v, nil
		}
	}
	_ = scope.Apps.Discard(h.Store, r, a)
	release()
	return nil, nil, err
}

// reserve reserves a name in the workspace of the path: what another request makes at this moment is in no cache yet. An application that
// is gone keeps no name.
func (h *Handler) reserve(r *restful.Request, name string) (*file.Reservation, error) {
	ctx := r.Request.Context()
	for range 2 {
		held, ok, err := h.Files.Reserve(ctx, scope.Target(r), name)
		if err != nil || ok {
			return &held, err
		}
		if held.For == nil && h.Now().Sub(held.Since) < uploadTime {
			break
		}
		if held.For != nil {
			switch a, err := scope.Apps.Live(h.Store, r, held.For.Name); {
			case err == nil && a.UID == held.For.UID:
				return nil, thereAlready(name, a)
			case err != nil && !isNotFound(err):
				return nil, err
			}
		}
		if err := h.Files.Release(ctx, &held); err != nil {
			return nil, err
		}
	}
	return nil, status.Errorf(http.StatusConflict, "the application %s is being uploaded to the workspace at this moment: try again", name)
}
