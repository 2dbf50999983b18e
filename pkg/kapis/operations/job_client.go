package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/status"
)

var jobsResource = schema.GroupResource{Group: "batch", Resource: "jobs"}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

// jobs are those of a namespace, at kube-apiserver and as the caller. Each request is authorized like one that the caller makes
// directly; then kube-apiserver decides too.
type jobs struct {
	kube       http.RoundTripper
	authorizer authz.Authorizer
	in         *http.Request
	namespace  string
}

func (j jobs) request(ctx context.Context, method, name, query string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "/", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request about a Job: %w", err)
	}
	r.URL = &url.URL{Path: "/apis/batch/v1/namespaces/" + j.namespace + "/jobs"}
	if name != "" {
		r.URL.Path += "/" + name
	}
	r.URL.RawQuery = query
	r.RemoteAddr = j.in.RemoteAddr
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	if v := j.in.Header["User-Agent"]; len(v) > 0 {
		r.Header["User-Agent"] = v
	}
	return authz.Permit(j.authorizer, r)
}

// do sends a request. The error is a metav1.Status: this server's, or kube-apiserver's own.
func (j jobs) do(r *http.Request) (*unstructured.Unstructured, error) {
	res, err := j.kube.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s of a Job: %w", r.Method, err)
	}
	if res.StatusCode >= 300 {
		var s metav1.Status
		if err := json.Unmarshal(raw, &s); err != nil || s.Code == 0 || res.StatusCode == http.StatusUnauthorized {
			return nil, status.Errorf(http.StatusBadGateway, "kube-apiserver answered with %d", res.StatusCode)
		}
		return nil, &apierrors.StatusError{ErrStatus: s}
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("read the answer to %s of a Job: %w", r.Method, err)
	}
	return u, nil
}

func (j jobs) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	r, err := j.request(ctx, http.MethodGet, name, "", nil)
	if err != nil {
		return nil, err
	}
	u, err := j.do(r)
	if err == nil && u.GetUID() == "" {
		err = fmt.Errorf("read Job %s: kube-apiserver's answer has no uid", name)
	}
	return u, err
}

// create returns the Job as it was created.
func (j jobs) create(ctx context.Context, job *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(job.Object)
	if err != nil {
		return nil, fmt.Errorf("encode Job %s: %w", job.GetName(), err)
	}
	query := ""
	if dryRun {
		query = "dryRun=" + metav1.DryRunAll
	}
	r, err := j.request(ctx, http.MethodPost, "", query, body)
	if err != nil {
		return nil, err
	}
	return j.do(r)
}

// delete deletes one version of one object: that of job. Its Pods are deleted in the background, since by default Jobs leave them.
func (j jobs) delete(ctx context.Context, job *unstructured.Unstructured, dryRun bool) error {
	uid, version, background := job.GetUID(), job.GetResourceVersion(), metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: preconditions(uid, version)}
	if dryRun { // in the body: where there is one, kube-apiserver ignores the query
		options.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("encode the deletion of Job %s: %w", job.GetName(), err)
	}
	r, err := j.request(ctx, http.MethodDelete, job.GetName(), "", body)
	if err != nil {
		return err
	}
	_, err = j.do(r)
	return err
}

func preconditions(uid types.UID, version string) *metav1.Preconditions {
	p := &metav1.Preconditions{UID: &uid}
	if version != "" {
		p.ResourceVersion = &version
	}
	return p
}
