package app

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// maxDeleted bounds the attachments of one request.
const maxDeleted = 16

var attachments = schema.GroupResource{Group: v2.GroupName, Resource: "attachments"}

// imageTypes are what attachments may be, by their content. An SVG may have scripts, and is none.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/x-icon"}

// images serves attachments.
type images struct {
	store *scope.Store
	files file.Store
}

func (h *images) routes(ws *restful.WebService, at scope.Variant) {
	id := ws.PathParameter("attachment", "id of the attachment")
	for _, b := range []*restful.RouteBuilder{
		ws.POST(at.Path + "/attachments").Consumes(multipartForm).To(handle(h.attach)).Operation("create" + at.ID + "AppAttachment").
			Doc("Keep an image, the first file of a form"),
		ws.GET(at.Path + "/attachments/{attachment}").To(web.Handle(h.attachment)).Operation("get" + at.ID + "AppAttachment").
			Doc("An image, in base64").Param(id),
		ws.DELETE(at.Path + "/attachments/{attachment}").To(handle(h.detach)).Operation("delete" + at.ID + "AppAttachments").
			Doc("Delete images, by ids with commas between them").Param(id),
	} {
		ws.Route(at.Document(ws, b))
	}
}

// attach keeps the first file of a form.
func (h *images) attach(r *restful.Request) (any, error) {
	form, err := r.Request.MultipartReader()
	if err != nil {
		return nil, status.BadRequestf("the body is no form: multipart/form-data has a boundary")
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, status.BadRequestf("the form has no file")
		}
		if err != nil {
			return nil, unreadable(err, file.MaxImage)
		}
		if part.FileName() == "" {
			continue
		}
		content, err := readPart(part, file.MaxImage)
		if err != nil {
			return nil, err
		}
		if !isImage(content) {
			return nil, status.Errorf(http.StatusUnsupportedMediaType, "the file is no image: %s are taken", strings.Join(imageTypes, ", "))
		}
		id := appstore.NewAttachmentID()
		labels := map[string]string{scope.LabelWorkspace: scope.Target(r), v2.LabelAttachment: "image"}
		if err := h.files.Put(r.Request.Context(), id, labels, content); err != nil {
			return nil, err
		}
		return map[string]string{"attachment_id": id}, nil
	}
}

func isImage(content []byte) bool {
	return slices.Contains(imageTypes, http.DetectContentType(content))
}

// workspaceOfAttachment returns the workspace of an attachment. A file without labels is of an older installation: it is the platform's.
func (h *images) workspaceOfAttachment(r *restful.Request, id string) (string, error) {
	if len(validation.IsDNS1123Subdomain(id)) > 0 {
		return "", apierrors.NewNotFound(attachments, id)
	}
	labels, err := h.files.Labels(r.Request.Context(), id)
	switch {
	case isNotFound(err):
		return "", apierrors.NewNotFound(attachments, id)
	case err != nil:
		return "", err
	case labels[v2.LabelAttachment] == "" && (labels[v2.LabelApp] != "" || labels[scope.LabelWorkspace] != ""): // a package
		return "", apierrors.NewNotFound(attachments, id)
	}
	return scope.WorkspaceOf(labels), nil
}

// isAttachmentOf refuses an id that is none of an attachment of a workspace.
func (h *images) check(r *restful.Request, id, workspace string) error {
	of, err := h.workspaceOfAttachment(r, id)
	if isNotFound(err) || err == nil && of != workspace {
		return invalidf("attachments: the workspace has no attachment %.100q", id)
	}
	return err
}

func (h *images) attachment(r *restful.Request) (any, error) {
	id := r.PathParameter("attachment")
	workspace, err := h.workspaceOfAttachment(r, id)
	if err != nil {
		return nil, err
	}
	if sees, err := h.store.Sees(r, workspace); err != nil {
		return nil, err
	} else if !sees {
		return nil, apierrors.NewNotFound(attachments, id)
	}
	content, err := h.files.Get(r.Request.Context(), id)
	if isNotFound(err) || err == nil && !isImage(content) {
		return nil, apierrors.NewNotFound(attachments, id)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"attachment_id": id, "attachment_content": map[string][]byte{"raw": content}}, nil
}

// detach deletes attachments: all of them, or none where one can't be.
func (h *images) detach(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	ids := strings.Split(r.PathParameter("attachment"), ",")
	if len(ids) > maxDeleted {
		return nil, status.BadRequestf("at most %d attachments are deleted at once", maxDeleted)
	}
	for _, id := range ids {
		workspace, err := h.workspaceOfAttachment(r, id)
		if err != nil {
			return nil, err
		}
		if !scope.Changes(r, workspace) {
			return nil, apierrors.NewNotFound(attachments, id)
		}
		content, err := h.files.Get(ctx, id)
		if isNotFound(err) || err == nil && !isImage(content) { // a package of an older installation
			return nil, apierrors.NewNotFound(attachments, id)
		}
		if err != nil {
			return nil, err
		}
	}
	named, err := h.named(r)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if by := named[id]; by != "" {
			return nil, status.About(attachments, id, status.Errorf(http.StatusConflict,
				"the application %s names %s: take it out there first", by, id))
		}
	}
	for _, id := range ids {
		if err := h.files.Delete(ctx, id); err != nil {
			return nil, err
		}
	}
	return empty{}, nil
}

// empty is an answer without a body.
type empty struct{}

// Respond implements web.Responder.
func (empty) Respond(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// named returns the attachments that applications name, and one that does.
func (h *images) named(r *restful.Request) (map[string]string, error) {
	all, err := scope.Apps.All(r.Request.Context(), h.store, v2.LabelRepo, v2.RepoUpload)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, a := range all {
		for _, id := range append(slices.Clone(a.Spec.Attachments), a.Spec.Icon) {
			out[id] = a.Name
		}
	}
	return out, nil
}
