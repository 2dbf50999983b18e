package repo

import (
	"encoding/json"
	"fmt"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	mergePatch = "application/merge-patch+json"
	// maxBody bounds the body of a write, maxURL and maxDescription what it says, in bytes.
	maxBody, maxURL, maxDescription = 256 << 10, 2048, 4096
	// maxName leaves room for the name of an application, as both are the value of a label.
	maxName = 48
	// leastPeriod is the shortest period, in seconds.
	leastPeriod = 180
)

// written is what clients read after a write.
type written struct {
	RepoID string `json:"repo_id,omitempty"`
	OK     bool   `json:"ok,omitempty"`
}

func validates(r *restful.Request) bool { return r.QueryParameter("validate") != "" }

func (h *Handler) create(r *restful.Request) (any, error) {
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	body := &v2.Repo{}
	if json.Unmarshal(raw, body) != nil { // its text may repeat what the body has
		return nil, status.BadRequestf("the body is no Repo as JSON")
	}
	next := &v2.Repo{Spec: body.Spec, ObjectMeta: metav1.ObjectMeta{Name: body.Name, GenerateName: body.GenerateName,
		Labels: map[string]string{}, Annotations: map[string]string{}}}
	if of := body.Labels[scope.LabelWorkspace]; of != "" {
		next.Labels[scope.LabelWorkspace] = of
	}
	for key, value := range body.Annotations {
		if !reserved(key) {
			next.Annotations[key] = value
		}
	}
	switch {
	case body.Name == v2.RepoUpload:
		return nil, status.BadRequestf("metadata.name: %s stands for applications that people upload", v2.RepoUpload)
	case len(body.Name) > maxName || len(body.GenerateName) > maxName-5:
		return nil, status.BadRequestf("metadata.name: it has more than %d letters", maxName)
	}
	source.WithoutUserinfo(&next.Spec)
	if err := check(&next.Spec); err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	if err := h.probes.check(ctx, request.UserFrom(ctx).GetName(), &next.Spec); err != nil {
		return nil, err
	}
	if validates(r) {
		return written{OK: true}, nil
	}
	created, err := scope.Repos.Create(h.store, r, next)
	if err != nil {
		return nil, scope.Repos.Taken(next.Name, err)
	}
	return written{RepoID: created.Name}, nil
}

// reserved reports whether an annotation is not for clients to write: kubectl's repeats a credential, and the store's own name people.
func reserved(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "kubectl.kubernetes.io" || domain == "kapis.dev" || domain == v2.GroupName || key == "kubesphere.io/creator"
}

// check returns an error if a Repo can't have a spec, whose URL and credential are checked elsewhere.
func check(s *v2.RepoSpec) error {
	switch {
	case len(s.URL) > maxURL:
		return status.BadRequestf("spec.url: it has more than %d letters", maxURL)
	case len(s.Description) > maxDescription:
		return status.BadRequestf("spec.description: it has more than %d letters", maxDescription)
	case s.SyncPeriod != nil && *s.SyncPeriod != 0 && *s.SyncPeriod < leastPeriod:
		return status.BadRequestf("spec.syncPeriod is %d: want 0, for never, or at least %d seconds", *s.SyncPeriod, leastPeriod)
	}
	return nil
}

// change is the body of a PATCH: a merge patch of what people may change.
type change struct {
	Metadata struct {
		Name        string             `json:"name"`
		Labels      map[string]*string `json:"labels"`
		Annotations map[string]*string `json:"annotations"`
	} `json:"metadata"`
	Spec specChange `json:"spec"`
}

// specChange has each field as it is written; nil is absent.
type specChange struct {
	URL         json.RawMessage `json:"url,omitempty"`
	Description json.RawMessage `json:"description,omitempty"`
	SyncPeriod  json.RawMessage `json:"syncPeriod,omitempty"`
	Credential  json.RawMessage `json:"credential,omitempty"`
}

func (h *Handler) patch(r *restful.Request) (any, error) {
	raw, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	body, name := &change{}, r.PathParameter("repo")
	if json.Unmarshal(raw, body) != nil {
		return nil, status.BadRequestf("the body is no Repo, or a part of one, as JSON")
	}
	if body.Metadata.Name != "" && body.Metadata.Name != name {
		return nil, status.BadRequestf("metadata.name is %.253q, and the path names %.253q", body.Metadata.Name, name)
	}
	_, err = scope.Repos.Patch(h.store, r, name, func(now *v2.Repo) (map[string]any, error) { return h.change(r, now, body) })
	if err != nil {
		return nil, err
	}
	if validates(r) {
		return written{OK: true}, nil
	}
	return written{RepoID: name}, nil
}

// change returns the merge patch that a body comes to. The index is looked at where it is read in another way than before, or where nothing
// else is asked for.
func (h *Handler) change(r *restful.Request, now *v2.Repo, body *change) (map[string]any, error) {
	if to := body.Metadata.Labels[scope.LabelWorkspace]; to != nil && *to != "" && *to != scope.WorkspaceOf(now.Labels) {
		return nil, status.BadRequestf("metadata.labels: a repository stays in its workspace, which is %s", scope.WorkspaceOf(now.Labels))
	}
	ctx := r.Request.Context()
	whole, err := h.repos.Repo(ctx, now.Name)
	if err != nil {
		return nil, err
	}
	if whole == nil || whole.UID != now.UID {
		return nil, scope.Repos.NotFound(now.Name)
	}
	next, err := body.Spec.onto(&whole.Spec)
	if err != nil {
		return nil, err
	}
	if err := check(next); err != nil {
		return nil, err
	}
	difference, err := differ(&whole.Spec, next)
	if err != nil {
		return nil, err
	}
	_, moved := difference["url"]
	_, proved := difference["credential"]
	if moved || proved || validates(r) {
		if err := sent(&whole.Spec, next); err != nil {
			return nil, err
		}
		if err := h.probes.check(ctx, request.UserFrom(ctx).GetName(), next); err != nil {
			return nil, err
		}
	}
	out := map[string]any{}
	if validates(r) {
		return out, nil
	}
	if len(difference) > 0 {
		out["spec"] = difference
	}
	annotations := map[string]any{}
	for key, value := range body.Metadata.Annotations {
		is, has := now.Annotations[key]
		switch {
		case reserved(key), value == nil && !has, value != nil && has && *value == is:
		case value == nil:
			annotations[key] = nil
		default:
			annotations[key] = *value
		}
	}
	if len(annotations) > 0 {
		out["metadata"] = map[string]any{"annotations": annotations}
	}
	return out, nil
}

// onto returns what a spec becomes. A credential is for the address that it was written for: another one has what is written along.
func (c *specChange) onto(now *v2.RepoSpec) (*v2.RepoSpec, error) {
	base := *now
	source.WithoutUserinfo(&base)
	next, err := c.merged(&base)
	switch {
	case err != nil:
		return nil, err
	case source.SameAddress(base.URL, next.URL):
		next.URL = base.URL
		return next, nil
	}
	base.Credential = v2.RepoCredential{}
	return c.merged(&base)
}

func (c *specChange) merged(base *v2.RepoSpec) (*v2.RepoSpec, error) {
	before, err := json.Marshal(base)
	if err != nil {
		return nil, fmt.Errorf("encode a Repo: %w", err)
	}
	patch, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the change of a Repo: %w", err)
	}
	next := &v2.RepoSpec{}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil || json.Unmarshal(after, next) != nil { // its text may repeat a credential
		return nil, status.BadRequestf("spec: url and description are texts, syncPeriod is a number, and credential an object of texts")
	}
	source.WithoutUserinfo(next)
	return next, nil
}

// differ returns the merge patch that makes a spec of another one.
func differ(before, after *v2.RepoSpec) (map[string]any, error) {
	one, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode a Repo: %w", err)
	}
	other, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encode a Repo: %w", err)
	}
	raw, err := jsonpatch.CreateMergePatch(one, other)
	if err != nil {
		return nil, fmt.Errorf("compare two Repos: %w", err)
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}

// sent returns an error if a credential would be sent elsewhere, or in another way, than it was written for.
func sent(before, after *v2.RepoSpec) error {
	objects := [2]map[string]any{}
	for i, spec := range []*v2.RepoSpec{before, after} {
		raw, err := json.Marshal(v2.Repo{Spec: *spec})
		if err != nil {
			return fmt.Errorf("encode a Repo: %w", err)
		}
		if err := json.Unmarshal(raw, &objects[i]); err != nil {
			return fmt.Errorf("encode a Repo: %w", err)
		}
	}
	if err := redaction.CheckSent(scope.Repos.Resource(), objects[0], objects[1]); err != nil {
		return status.Forbiddenf("%v", err)
	}
	return nil
}
