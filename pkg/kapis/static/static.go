// Package static serves /static: the images of the platform's theme, and their upload.
package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/setting"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler answers the routes of /static.
type Handler struct {
	Settings *setting.Store
	AsCaller caller.Client
	// Now returns the time.
	Now func() time.Time
}

// themePath is what a caller must be allowed to update to upload an image: images are for the theme.
const themePath = "/kapis/config.kubesphere.io/v1alpha2/configs/theme"

// uploaded is the answer to an upload.
type uploaded struct {
	// Image is the name of the image, below /static/images.
	Image string `json:"image"`
}

// WebService returns the routes.
func (h *Handler) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/static").Produces(restful.MIME_JSON, "*/*")
	ws.Route(ws.GET("/images/{file}").To(web.Handle(h.get)).Param(ws.PathParameter("file", "name of the image, as its upload returned it")).
		Doc("an image of the theme").Operation("getImage"))
	ws.Route(ws.POST("/images").To(web.Handle(web.RefuseDryRun(h.upload))).Consumes("multipart/form-data").
		Param(ws.MultiPartFormParameter("image", "the image: PNG, JPEG, SVG or ICO, with the extension of its kind").DataType("file")).
		Doc("upload an image for the theme; who may update the theme may").Operation("uploadImage").Writes(uploaded{}))
	return ws
}

func (h *Handler) get(r *restful.Request) (any, error) {
	name := r.PathParameter("file")
	image, err := h.Settings.Image(name)
	if err != nil {
		return nil, err
	}
	if image == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "images"}, name)
	}
	return picture{image}, nil
}

// picture is an image as an answer.
type picture struct{ *setting.Image }

// Respond implements web.Responder. The name of an image depends on its content, so copies never expire. Opened as a page of its own,
// it can do nothing: an SVG may have scripts.
func (p picture) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	tag := `"` + p.Name + `"`
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("ETag", tag)
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	if web.HasTag(r.Header, tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", p.Type)
	h.Set("Content-Length", strconv.Itoa(p.Size))
	w.WriteHeader(http.StatusOK)
	if !web.IsHead(r) {
		_, _ = p.WriteTo(w) // the client is gone: no one can be told
	}
}

// upload stores an image. Nothing of the body is read before the right is known.
func (h *Handler) upload(r *restful.Request) (any, error) {
	ctx, err := h.permit(r.Request)
	if err != nil {
		return nil, err
	}
	file, content, err := readImage(r.Request)
	if err != nil {
		return nil, err
	}
	extension, err := setting.CheckImage(file, content)
	if err != nil {
		return nil, apierrors.NewBadRequest("the field image: " + err.Error())
	}
	name := setting.NameOfImage(content, extension)
	if there, err := h.Settings.Image(name); err != nil || there != nil {
		return uploaded{name}, err
	}
	objects, err := h.Settings.ImageObjects(name, content, h.Now())
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		written, err := setting.PutConfigMap(object, object.ResourceVersion == "", func(method, path string, body []byte) ([]byte, error) {
			answer, err := h.AsCaller.Do(ctx, caller.Order{Method: method, Path: path, Body: body, Implied: true})
			return []byte(answer.Unredacted()), err
		})
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "images"}, name,
				errors.New("another image is being uploaded: try again"))
		}
		if err != nil {
			return nil, fmt.Errorf("keep an image: %w", err)
		}
		h.Settings.TookImage(written)
	}
	return uploaded{name}, nil
}

// permit returns a context for the writes of an upload, where the caller may update the theme.
func (h *Handler) permit(r *http.Request) (context.Context, error) {
	theme, err := http.NewRequestWithContext(r.Context(), http.MethodPut, themePath, nil)
	if err != nil {
		return nil, fmt.Errorf("ask whether the theme may be updated: %w", err)
	}
	if theme, err = authz.Permit(h.AsCaller.May, theme); err != nil {
		return nil, err
	}
	d := authz.DecisionFrom(theme.Context())
	d.Group = setting.GroupTheme
	return authz.WithDecision(theme.Context(), d), nil
}

// readImage reads the field image of a form.
func readImage(r *http.Request) (file string, content []byte, err error) {
	r.Body = http.MaxBytesReader(nil, r.Body, setting.MaxImage)
	form, err := r.MultipartReader()
	if err != nil {
		return "", nil, apierrors.NewBadRequest("the body has to be a form (multipart/form-data) with the field image")
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return "", nil, apierrors.NewBadRequest("the form has no field image")
		}
		if err != nil {
			return "", nil, unreadable(err)
		}
		if part.FormName() != "image" {
			continue
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return "", nil, unreadable(err)
		}
		return part.FileName(), content, nil
	}
}

func unreadable(err error) error {
	var long *http.MaxBytesError
	if errors.As(err, &long) || errors.Is(err, multipart.ErrMessageTooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("an image may have %d bytes at most, with the form around it",
			setting.MaxImage))
	}
	return apierrors.NewBadRequest("the form could not be read to its end")
}
