package terminal

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	filePath    = "/namespaces/{namespace}/pods/{pod}/file"
	archiveType = "application/x-tar"
	annotation  = "terminal.kapis.dev/"
)

// IsUpload reports whether a request writes files into a container: its body has a limit of its own (V1alpha2.UploadLimit).
func IsUpload(i *request.Info) bool {
	return i.APIGroup == group && !i.IsKubernetes && i.IsResource && i.Resource == "pods" && i.Subresource == "file"
}

// transfer is the answer to a request for files of a container. It is a web.Responder.
type transfer struct {
	*V1alpha2
	exec  *http.Request
	leave func()
	path  string
	run   func(t *transfer, w http.ResponseWriter, r *http.Request)
}

// uploaded is the answer to an upload.
type uploaded struct {
	Path  string          `json:"path"`
	Files []terminal.File `json:"files"`
}

// upload answers when the files of the form are in the container.
func (h *V1alpha2) upload(r *restful.Request) (any, error) {
	query := r.Request.URL.Query()
	path, container := query.Get("path"), query.Get("container")
	if path == "" {
		path = "/"
	}
	t := &transfer{V1alpha2: h, path: path, run: (*transfer).receive}
	if err := terminal.CheckPath(path); err != nil {
		return nil, err
	}
	exec, err := h.exec(r.Request, request.InfoFrom(r.Request.Context()), container, terminal.UploadQuery(container, path))
	if err != nil {
		return nil, err
	}
	return t.enter(r.Request, exec, h.Uploads)
}

// download answers with a file or folder.
func (h *V1alpha2) download(r *restful.Request) (any, error) {
	query := r.Request.URL.Query()
	path, container := query.Get("path"), query.Get("container")
	if err := terminal.CheckPath(path); err != nil {
		return nil, err
	}
	packed, base, err := terminal.DownloadQuery(container, path)
	if err != nil {
		return nil, err
	}
	exec, err := h.exec(r.Request, request.InfoFrom(r.Request.Context()), container, packed)
	if err != nil {
		return nil, err
	}
	t := &transfer{V1alpha2: h, path: path, run: func(t *transfer, w http.ResponseWriter, r *http.Request) {
		t.send(w, r, base)
	}}
	return t.enter(r.Request, exec, h.Downloads)
}

// enter refuses a transfer that is allowed and yet can't be.
func (t *transfer) enter(r, exec *http.Request, limits *terminal.Limiter) (any, error) {
	if !t.Files {
		return nil, status.Forbiddenf("this server transfers no files: terminal.files is false")
	}
	if err := checkOrigin(r.Header, t.AllowedOrigins); err != nil {
		return nil, err
	}
	if web.IsHead(r) {
		return nil, status.BadRequestf("what a container has is known when it was packed: send GET")
	}
	leave, err := limits.Enter(request.UserFrom(r.Context()).GetName())
	if err != nil {
		return nil, err
	}
	t.exec, t.leave = exec, leave
	return t, nil
}

// Respond transfers the files, for as long as the login and the right are there.
func (t *transfer) Respond(w http.ResponseWriter, r *http.Request) {
	defer t.leave()
	s, over, err := t.Streams.Over(w, r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	ctx, cancel := over.Context(), context.CancelFunc(func() {})
	if t.Max > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, t.Max, status.Errorf(http.StatusRequestTimeout, "a transfer lasts %v at most", t.Max))
	}
	defer cancel()
	audit.From(r.Context()).Annotate(annotation+"path", t.path)
	t.run(t, w, over.WithContext(ctx))
}

// receive reads the whole form before tar begins: what is refused has changed nothing.
func (t *transfer) receive(w http.ResponseWriter, r *http.Request) {
	u, err := terminal.ReadUpload(r, t.UploadLimit)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer u.Close()
	event := audit.From(r.Context())
	event.Annotate(annotation+"bytes", strconv.FormatInt(u.Bytes(), 10))
	for i, f := range u.Files {
		event.Annotate(fmt.Sprintf("%sfile-%d", annotation, i+1), "sha256:"+f.SHA256+" "+f.Name)
	}
	err = reason(r.Context(), u.Send(within(r.Context(), t.exec), t.Executor))
	t.log(r, "files uploaded", u.Bytes(), err)
	web.Write(w, r, uploaded{t.path, u.Files}, err)
}

// send sends the archive while tar packs it. What fails after its first byte ends the connection, so that no client takes a part for the
// whole.
func (t *transfer) send(w http.ResponseWriter, r *http.Request, base string) {
	d := terminal.Download{
		Begin: func() {
			h := w.Header()
			h.Set("Content-Type", archiveType)
			h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": base + ".tar"}))
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-store")
		},
		To: t.Streams.Progress(w),
	}
	err := reason(r.Context(), d.Run(within(r.Context(), t.exec), t.Executor))
	n, sum := d.Result()
	event := audit.From(r.Context())
	event.Annotate(annotation+"bytes", strconv.FormatInt(n, 10))
	event.Annotate(annotation+"sha256", sum)
	t.log(r, "files downloaded", n, err)
	switch {
	case err != nil && n > 0:
		panic(http.ErrAbortHandler)
	case err != nil:
		web.WriteError(w, r, err)
	}
}

func (t *transfer) log(r *http.Request, what string, n int64, err error) {
	info := request.InfoFrom(t.exec.Context())
	code := http.StatusOK
	if err != nil {
		code = int(web.Status(err).Code)
	}
	klog.InfoS(what, "user", request.UserFrom(r.Context()).GetName(), "namespace", info.Namespace, "pod", info.Name,
		"container", t.exec.URL.Query().Get("container"), "path", t.path, "bytes", n, "code", code)
}

// reason returns why the request has ended, if it has, and err otherwise.
func reason(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
