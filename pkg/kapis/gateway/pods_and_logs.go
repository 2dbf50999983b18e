package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/gateway"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// maxLog bounds a log that is read, in bytes, and maxLines in lines; defaultLines are read where the request does not say.
	maxLog       = 4 << 20
	maxLines     = 100_000
	defaultLines = 1000
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// ofRequest returns an error unless the path names the Gateway that its project has.
func (h *V1alpha1) ofRequest(r *restful.Request) error {
	namespace, name := r.PathParameter("namespace"), r.PathParameter("gateway")
	if name == gateway.Name(namespace) {
		g, err := h.ofProject(r.Request.Context(), namespace)
		if err != nil {
			return err
		}
		if g != nil {
			return nil
		}
	}
	return apierrors.NewNotFound(gatewaysResource.GroupResource(), name)
}

// pods answers with a page of the pods of the gateway of a project, by the caller's right to list pods there.
func (h *V1alpha1) pods(r *restful.Request) (any, error) {
	ctx, namespace := r.Request.Context(), r.PathParameter("namespace")
	if err := h.ofRequest(r); err != nil {
		return nil, err
	}
	path := "/api/v1/namespaces/" + namespace + "/pods"
	if _, err := h.permit(r.Request, path, nil); err != nil {
		return nil, err
	}
	parameters := r.Request.URL.Query()
	own := gateway.LabelManaged + "=true," + gateway.LabelProject + "=" + namespace
	var either []string
	for one := range strings.SplitSeq(parameters.Get("labelSelector"), "|") { // each alternative is one of the gateway's pods
		if strings.TrimSpace(one) == "" {
			either = append(either, own)
		} else {
			either = append(either, own+","+one)
		}
	}
	parameters.Set("labelSelector", strings.Join(either, "|"))
	q, err := query.Parse(parameters)
	if err != nil {
		return nil, err
	}
	k, err := h.Resources.Catalog().Resolve(ctx, podsResource)
	if err != nil {
		return nil, err
	}
	return h.Resources.Answer(r.Request, &resource.Listing{Kind: k, Query: q, Streams: h.Streams, Form: resource.Items,
		Scope: plan.Scope{Namespace: namespace}})
}

// permit returns a GET of kube-apiserver, authorized as itself.
func (h *V1alpha1) permit(in *http.Request, path string, q url.Values) (*http.Request, error) {
	r, err := http.NewRequestWithContext(in.Context(), http.MethodGet, "/", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.URL, r.RemoteAddr = &url.URL{Path: path, RawQuery: q.Encode()}, in.RemoteAddr
	return authz.Permit(h.AsCaller.May, r)
}

// podLog answers with the log of a pod of the gateway of a project, read as the caller.
func (h *V1alpha1) podLog(r *restful.Request) (any, error) {
	ctx, namespace, name := r.Request.Context(), r.PathParameter("namespace"), r.PathParameter("pod")
	if err := h.ofRequest(r); err != nil {
		return nil, err
	}
	if wrong := apivalidation.NameIsDNSSubdomain(name, false); len(wrong) > 0 {
		return nil, status.BadRequestf("%.100q is no name of a pod: %s", name, wrong[0])
	}
	q, err := logQuery(r.Request)
	if err != nil {
		return nil, err
	}
	out, err := h.permit(r.Request, "/api/v1/namespaces/"+namespace+"/pods/"+name+"/log", q)
	if err != nil {
		return nil, err
	}
	if err := h.ownsPod(ctx, namespace, name); err != nil {
		return nil, err
	}
	return logOf{h, out}, nil
}

// ownsPod returns a 404 unless the pod is one of the gateway.
func (h *V1alpha1) ownsPod(ctx context.Context, namespace, name string) error {
	pods, err := h.Caches.Snapshot(ctx, podsResource)
	if err != nil {
		return err
	}
	if pod, ok := pods.Get(namespace, name); ok {
		project, _ := pod.Labels.Get(gateway.LabelProject)
		if managed, _ := pod.Labels.Get(gateway.LabelManaged); managed == "true" && project == namespace {
			return nil
		}
	}
	return apierrors.NewNotFound(podsResource.GroupResource(), name)
}

// logQuery returns the parameters of a log that ends: one that is followed would outlive the right to it.
func logQuery(r *http.Request) (url.Values, error) {
	q, err := web.Parameters(r, "container", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps", "follow")
	if err != nil {
		return nil, err
	}
	if follow := q.Get("follow"); follow != "" && follow != "false" {
		return nil, status.BadRequestf("the log of a gateway is not followed here: read pods/log at /api/v1, which is")
	}
	q.Del("follow")
	if text := q.Get("tailLines"); text == "" {
		q.Set("tailLines", strconv.Itoa(defaultLines))
	} else if n, err := strconv.Atoi(text); err != nil || n < 0 || n > maxLines {
		return nil, status.BadRequestf("the parameter tailLines is %.40q, which is not a number from 0 to %d", text, maxLines)
	}
	q.Set("limitBytes", strconv.Itoa(maxLog))
	return q, nil
}

// logOf is a log, which is sent while it is read. It is a web.Responder.
type logOf struct {
	h    *V1alpha1
	from *http.Request
}

// Respond implements web.Responder.
func (l logOf) Respond(w http.ResponseWriter, r *http.Request) {
	resp, err := l.h.AsCaller.Kube.RoundTrip(l.from)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusUnauthorized { // this server's own credential is refused, not the caller's
		web.WriteError(w, r, errors.New("read the log of a gateway: kube-apiserver answers 401"))
		return
	}
	contentType := "text/plain; charset=utf-8"
	if resp.StatusCode != http.StatusOK { // a Status
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(resp.StatusCode)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(l.h.Streams.Patience(w), io.LimitReader(resp.Body, maxLog)) // one of the two is gone
	}
}

// logs answers that logs are not searched here.
func (h *V1alpha1) logs(r *restful.Request) (any, error) {
	return nil, status.About(gatewaysResource.GroupResource(), request.InfoFrom(r.Request.Context()).Name, status.Errorf(http.StatusNotFound,
		"logs of gateways are not stored and searched here: read the log of a pod with pods/{pod}/log"))
}
