package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Bounds of what is said of an application.
const (
	maxJSON        = 1 << 20 // an icon, and what else is said
	maxText        = 4096
	maxAttachments = 16
	maxMaintainers = 32
	maxResources   = 256
	// maxJSONParts is how often a form may have jsonData: pages that send a form again add what they say then to it.
	maxJSONParts = 8
	// maxPackages is how many large packages are in memory at once, and maxOfUser how many for one user (inflight.OwnerOf). Bodies of
	// smallBody bytes don't count.
	maxPackages, maxOfUser = 8, 4
	// packageWait is how long a download waits for others to end: a page asks for several small packages at once. An upload does not wait.
	packageWait = 5 * time.Second
	smallBody   = 2 << 20
)

// appRequest is what clients send of an application or a version. Nil is absent.
type appRequest struct {
	AppName      *string          `json:"appName,omitempty"`
	AliasName    *string          `json:"aliasName,omitempty"`
	VersionName  *string          `json:"versionName,omitempty"`
	AppType      *string          `json:"appType,omitempty"`
	AppHome      *string          `json:"appHome,omitempty"`
	Abstraction  *string          `json:"abstraction,omitempty"`
	Icon         *string          `json:"icon,omitempty"`
	Description  *string          `json:"description,omitempty"`
	CategoryName *string          `json:"categoryName,omitempty"`
	Attachments  *[]string        `json:"attachments,omitempty"`
	Maintainers  *[]v2.Maintainer `json:"maintainers,omitempty"`
	Resources    *[]v2.Resource   `json:"resources,omitempty"`
	// Package is the package of a version, in base64.
	Package []byte `json:"package,omitempty"`
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// invalidf returns a 422 for content that is not what it should be.
func invalidf(format string, args ...any) error {
	return status.Errorf(http.StatusUnprocessableEntity, format, args...)
}

// decode reads the JSON of a body.
func decode(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return status.BadRequestf("the body is no JSON of what is expected here: %.200v", plainly(err))
	}
	return nil
}

// plainly returns an error about JSON without the value that is wrong.
func plainly(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Sprintf("%s is a JSON %s", kind.Field, kind.Value)
	}
	return "it can't be read"
}

// IsUpload reports whether a request may have a package in its body, which has a bound of its own (Handler.read).
func IsUpload(i *request.Info) bool {
	return i.APIGroup == v2.GroupName && !i.IsKubernetes && i.IsResource && i.Resource == "apps" &&
		(i.Subresource == "" || i.Subresource == "versions")
}

// bounded returns h for a few requests at once that have a large package, in their body or in their answer.
func (h *Handler) bounded(handle web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		if n := r.Request.ContentLength; r.Request.Method != http.MethodGet && n >= 0 && n <= smallBody {
			return handle(r)
		}
		owner := inflight.OwnerOf(request.UserFrom(r.Request.Context()).GetName())
		leave, err := h.packages.Enter(owner)
		if err != nil && r.Request.Method == http.MethodGet {
			ctx, cancel := context.WithTimeout(r.Request.Context(), packageWait)
			leave, err = h.packages.Wait(ctx, owner)
			cancel()
		}
		if err != nil {
			return nil, status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "too many packages are sent at this moment"))
		}
		defer leave()
		return handle(r)
	}
}

// read reads the body of a write, which is JSON, or a form with jsonData and the package as file.
func (h *Handler) read(r *restful.Request) (*appRequest, error) {
	most := h.Files.MaxSize()
	form := strings.HasPrefix(r.HeaderParameter("Content-Type"), multipartForm)
	body := int64(maxJSON + base64.StdEncoding.EncodedLen(most))
	if form {
		body = int64(maxJSONParts*maxJSON + most)
	}
	if r.Request.ContentLength > body {
		return nil, tooLarge(most)
	}
	req := &appRequest{}
	var err error
	if form {
		r.Request.Body = http.MaxBytesReader(nil, r.Request.Body, body)
		err = readForm(r.Request, req, most)
	} else {
		var raw []byte
		if raw, err = web.ReadBody(r.Request, body); err == nil {
			err = decode(raw, req)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(req.Package) > most {
		return nil, tooLarge(most)
	}
	return req, req.check()
}

func tooLarge(most int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a package has at most %d KiB", most>>10))
}

// readForm reads a form as it arrives: no part is kept beyond its bound. Of several jsonData the last one is what the form says, and
// nothing is taken from those before it: what a page left out when it sent the form again is not said any more.
func readForm(r *http.Request, req *appRequest, most int) error {
	form, err := r.MultipartReader()
	if err != nil {
		return status.BadRequestf("the body is no form: multipart/form-data has a boundary")
	}
	var raw []byte
	texts := 0
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return unreadable(err, most)
		}
		switch part.FormName() {
		case "file":
			if raw != nil {
				return status.BadRequestf("the form has the field file twice")
			}
			if raw, err = readPart(part, most); err != nil {
				return err
			}
		case "jsonData":
			if texts++; texts > maxJSONParts {
				return status.BadRequestf("the form has the field jsonData more than %d times", maxJSONParts)
			}
			content, err := readPart(part, maxJSON)
			if err != nil {
				return err
			}
			*req = appRequest{}
			if err := decode(content, req); err != nil {
				return err
			}
		}
	}
	if raw != nil {
		req.Package = raw
	}
	return nil
}

func readPart(part *multipart.Part, most int) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(part, int64(most)+1))
	switch {
	case err != nil:
		return nil, unreadable(err, most)
	case len(content) > most:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the field %s has at most %d KiB", part.FormName(), most>>10))
	}
	return content, nil
}

func unreadable(err error, most int) error {
	var long *http.MaxBytesError
	if errors.As(err, &long) || errors.Is(err, multipart.ErrMessageTooLarge) {
		return tooLarge(most)
	}
	return status.BadRequestf("the form can't be read to its end")
}

// check bounds every text of a request.
func (q *appRequest) check() error {
	for name, p := range map[string]*string{"appName": q.AppName, "aliasName": q.AliasName, "versionName": q.VersionName, "appType": q.AppType,
		"appHome": q.AppHome, "abstraction": q.Abstraction, "description": q.Description, "categoryName": q.CategoryName} {
		if len(text(p)) > maxText {
			return invalidf("%s has more than %d bytes", name, maxText)
		}
	}
	if len(text(q.Icon)) > maxIcon {
		return invalidf("icon has more than %d KiB", maxIcon>>10)
	}
	if q.Attachments != nil && len(*q.Attachments) > maxAttachments {
		return invalidf("there are more than %d attachments", maxAttachments)
	}
	if q.Maintainers != nil && len(*q.Maintainers) > maxMaintainers || q.Resources != nil && len(*q.Resources) > maxResources {
		return invalidf("there are more than %d maintainers, or %d resources", maxMaintainers, maxResources)
	}
	if home := text(q.AppHome); home != "" && !isWebAddress(home) {
		return invalidf("appHome is an address that begins with http:// or https://")
	}
	return nil
}

// isWebAddress reports whether a link leads to a page, and runs nothing.
func isWebAddress(link string) bool {
	return strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://")
}
