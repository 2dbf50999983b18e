package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

const (
	storeAPI  = "/kapis/application.kubesphere.io/v2"
	storeKube = "/apis/application.kubesphere.io/v2"
	storeFile = "/api/v1/namespaces/extension-openpitrix/configmaps"
)

// storeForm returns a form with a package, and its header.
func storeForm(t *testing.T, file []byte, jsonData obj) (body, header string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	if err := m.WriteField("jsonData", encode(t, jsonData)); err != nil {
		t.Fatal(err)
	}
	part, err := m.CreateFormFile("file", "a.tgz")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(file)
	_ = m.Close()
	return b.String(), "Content-Type: " + m.FormDataContentType()
}

func storeChart(t *testing.T, name, version string) []byte {
	return charttest.Pack(t, name, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: " + version + "\ndescription: sells\n", "values.yaml": "a: 1\n",
	})
}

// isGone waits until kube-apiserver has no object at a path.
func isGone(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" is gone", func(ctx context.Context) error {
		_, err := kubeClient(t).RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// newStoreMember returns a user with all rights to applications in a workspace.
func newStoreMember(t *testing.T, ws string) caller {
	t.Helper()
	a, name, role := admin(t), unique("author"), ws+"-author"
	a.create(t, iamAPI+"/workspaceroles", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
		"metadata": obj{"name": role, "labels": obj{"kubesphere.io/workspace": ws}},
		"rules": []any{obj{"apiGroups": []any{"application.kubesphere.io"}, "resources": []any{"apps", "apps/versions", "attachments"},
			"verbs": []any{"get", "list", "create", "update", "patch", "delete"}}},
	})
	u := newUser(t, name)
	eventually(t, name+" is a member", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodPost, iamRoutes+"/workspaces/"+ws+"/workspacemembers", []obj{{"username": name, "roleRef": role}})
		if err == nil && r.code != http.StatusOK && r.code != http.StatusConflict {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	eventually(t, name+" has the right", u.is(http.StatusOK, http.MethodGet, storeAPI+"/workspaces/"+ws+"/apps"))
	return u
}

// X28, X30, X31, X36: an author of a workspace uploads an application, which a reviewer of the platform passes; another workspace sees nothing of it
// before, and changes nothing of it ever; and all of it goes with it.
func TestAnApplicationIsUploadedReviewedAndDeleted(t *testing.T) {
	a, ws, other := admin(t), newWorkspace(t), newWorkspace(t)
	author, stranger := newStoreMember(t, ws), newStoreMember(t, other)
	category, chartName := unique("category"), unique("shop")
	a.must(t, http.StatusOK, http.MethodPost, storeAPI+"/categories", obj{"metadata": obj{"name": category}})
	own := storeAPI + "/workspaces/" + ws + "/apps"
	eventually(t, "the category is there", a.is(http.StatusOK, http.MethodGet, storeAPI+"/categories/"+category))
	eventually(t, "there is a category of those without", a.is(http.StatusOK, http.MethodGet, storeAPI+"/categories/kubesphere-app-uncategorized"))

	body, header := storeForm(t, storeChart(t, chartName, "1.0.0"), obj{"aliasName": "Shop", "categoryName": category, "metadata": obj{
		"labels": obj{"kubesphere.io/workspace": other}, "ownerReferences": []any{obj{"name": "x"}}, "finalizers": []any{"example.com/x"}}})
	step(t, "a validation answers with the version, and makes nothing", func(t *testing.T) {
		validated := author.must(t, http.StatusOK, http.MethodPost, own+"?validate=true", body, header).body
		if !strings.Contains(validated, `"versionName":"1.0.0"`) || len(author.list(t, own).Items) != 0 {
			t.Errorf("a validation answered %s, and made %v", validated, author.list(t, own).names())
		}
	})

	var made struct{ AppID, VersionID string }
	var app, version string
	step(t, "what is uploaded is listed, as a draft", func(t *testing.T) {
		made = decode[struct{ AppID, VersionID string }](t, author.must(t, http.StatusOK, http.MethodPost, own, body, header).body)
		app, version = own+"/"+made.AppID, own+"/"+made.AppID+"/versions/"+made.VersionID
		eventually(t, "it is listed", author.has(own, `"name":"`+made.AppID+`"`))
		eventually(t, "its state is known", author.has(app, `"state":"draft"`))
	})

	step(t, "what the body says beyond the application has no effect", func(t *testing.T) {
		text := stored(t, storeKube+"/applications/"+made.AppID)
		if !strings.Contains(text, `"kubesphere.io/workspace":"`+ws+`"`) || strings.Contains(text, "ownerReferences") || strings.Contains(text, "example.com/x") {
			t.Errorf("it is %s", text)
		}
	})

	theirs := storeAPI + "/workspaces/" + other + "/apps"
	strangerSeesNothing := func(t *testing.T) {
		for _, path := range []string{"", "/versions/" + made.VersionID, "/versions/" + made.VersionID + "/package", "/versions/" + made.VersionID + "/files"} {
			for _, at := range []string{own, theirs, storeAPI + "/apps"} {
				stranger.must(t, http.StatusNotFound, http.MethodGet, at+"/"+made.AppID+path, nil)
			}
		}
		stranger.must(t, http.StatusNotFound, http.MethodPatch, theirs+"/"+made.AppID, obj{"icon": "x"})
		stranger.must(t, http.StatusNotFound, http.MethodDelete, theirs+"/"+made.AppID, nil)
		stranger.must(t, http.StatusNotFound, http.MethodPost, theirs+"/"+made.AppID+"/versions/"+made.VersionID+"/action", obj{"state": "submitted"})
		stranger.must(t, http.StatusForbidden, http.MethodPatch, storeAPI+"/apps/"+made.AppID, obj{"icon": "x"})
		stranger.must(t, http.StatusForbidden, http.MethodPost, storeAPI+"/apps/"+made.AppID+"/action", obj{"state": "active"})
		// The right in the store is none at kube-apiserver.
		author.must(t, http.StatusForbidden, http.MethodGet, storeKube+"/applications/"+made.AppID, nil)
	}
	step(t, "another workspace sees nothing of it", func(t *testing.T) {
		strangerSeesNothing(t)
		for _, list := range []string{own, theirs, storeAPI + "/apps", storeAPI + "/apps?cel=true", storeAPI + "/apps?names=" + made.AppID} {
			if got := stranger.must(t, http.StatusOK, http.MethodGet, list, nil).body; strings.Contains(got, made.AppID) {
				t.Errorf("%s shows it: %s", list, clip(got))
			}
		}
	})

	step(t, "hostile uploads are refused", func(t *testing.T) {
		upload := func(code int, file []byte, jsonData obj) {
			t.Helper()
			body, header := storeForm(t, file, jsonData)
			author.must(t, code, http.MethodPost, own, body, header)
		}
		upload(http.StatusRequestEntityTooLarge, make([]byte, 2<<20), obj{})
		upload(http.StatusUnprocessableEntity, charttest.Pack(t, "bomb", map[string]string{"Chart.yaml": "name: bomb\nversion: 1.0.0\n",
			"zeros": strings.Repeat("\x00", 65<<20)}), obj{})
		upload(http.StatusUnprocessableEntity, charttest.Pack(t, "x", map[string]string{"Chart.yaml": "name: ../../x\nversion: 1.0.0\n"}), obj{})
		upload(http.StatusUnprocessableEntity, storeChart(t, "x", "1.0.0"), obj{"categoryName": "../" + category})
		upload(http.StatusConflict, storeChart(t, chartName, "1.0.0"), obj{})
		author.must(t, http.StatusForbidden, http.MethodPost, theirs, body, header)
		author.must(t, http.StatusForbidden, http.MethodPost, storeAPI+"/apps", body, header)
		author.must(t, http.StatusRequestEntityTooLarge, http.MethodPost, own, strings.NewReader(strings.Repeat("x", 4<<20)))
	})

	step(t, "of uploads of one name at a moment one is made", func(t *testing.T) {
		name := unique("race")
		body, header := storeForm(t, storeChart(t, name, "1.0.0"), obj{})
		answers, group := make([]reply, 8), errgroup.Group{}
		for i := range answers {
			group.Go(func() (err error) {
				answers[i], err = author.do(t.Context(), http.MethodPost, own, body, header)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		id := ""
		for _, r := range answers {
			switch {
			case r.code == http.StatusOK && id == "":
				id = decode[struct{ AppID string }](t, r.body).AppID
			case r.code != http.StatusConflict && r.code != http.StatusServiceUnavailable: // packages are read two at a time
				t.Errorf("%d %s", r.code, clip(r.body))
			}
		}
		author.must(t, http.StatusOK, http.MethodDelete, own+"/"+id, nil)
		isGone(t, storeKube+"/applications/"+id)
		eventually(t, "the name is free again", func(ctx context.Context) error {
			r, err := author.do(ctx, http.MethodPost, own, body, header)
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			if err == nil {
				id = decode[struct{ AppID string }](t, r.body).AppID
			}
			return err
		})
		author.must(t, http.StatusOK, http.MethodDelete, own+"/"+id, nil)
	})

	step(t, "it is reviewed", func(t *testing.T) {
		action := version + "/action"
		author.must(t, http.StatusConflict, http.MethodPost, action, obj{"state": "passed"})
		author.must(t, http.StatusOK, http.MethodPost, action, obj{"state": "submitted", "message": "please"})
		author.must(t, http.StatusForbidden, http.MethodPost, action, obj{"state": "passed"})
		body, header := storeForm(t, storeChart(t, chartName, "1.0.0"), obj{})
		author.must(t, http.StatusConflict, http.MethodPost, version, body, header)
		eventually(t, "it is among the reviews", a.has(storeAPI+"/reviews?conditions=status%3Dsubmitted", made.VersionID))
		a.must(t, http.StatusOK, http.MethodPost, storeAPI+"/apps/"+made.AppID+"/versions/"+made.VersionID+"/action", obj{"state": "passed", "message": "fine"})
		author.must(t, http.StatusOK, http.MethodPost, action, obj{"state": "active"})
		eventually(t, "the application is active", author.has(app, `"state":"active"`))
		eventually(t, "who did what is recorded", author.has(version+"/audits", `"message":"fine","userName":"admin"`))
		eventually(t, "it is in the store for all", stranger.has(storeAPI+"/apps?conditions=status%3Dactive", made.AppID))
		eventually(t, "with its files", stranger.is(http.StatusOK, http.MethodGet, storeAPI+"/apps/"+made.AppID+"/versions/"+made.VersionID+"/files"))
		stranger.must(t, http.StatusNotFound, http.MethodPatch, theirs+"/"+made.AppID, obj{"icon": "x"})
		eventually(t, "it counts", a.has(storeAPI+"/categories/"+category, `"total":1`))
		a.must(t, http.StatusConflict, http.MethodDelete, storeAPI+"/categories/"+category, nil)
		got := decode[struct{ Package []byte }](t, author.must(t, http.StatusOK, http.MethodGet, version+"/package", nil).body)
		if !bytes.Equal(got.Package, storeChart(t, chartName, "1.0.0")) {
			t.Error("the package is another one")
		}
		author.must(t, http.StatusOK, http.MethodGet, version+"/files", nil)
	})

	step(t, "kube-apiserver lets what writes the store write nothing else", func(t *testing.T) {
		config, err := product.RESTConfig()
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"kapis:platform:appstore"}}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		of := func(plural string) dynamic.ResourceInterface {
			return client.Resource(schema.GroupVersionResource{Group: "application.kubesphere.io", Version: "v2", Resource: plural})
		}
		patch := func(plural, name, text string) error {
			_, err := of(plural).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{DryRun: []string{"All"}})
			return err
		}
		const signed = `"annotations":{"application.kubesphere.io/req-user":"mallory"}`
		if err := patch("applications", made.AppID, `{"metadata":{`+signed+`}}`); err != nil {
			t.Errorf("what is allowed: %v", err)
		}
		for what, err := range map[string]error{
			"another workspace": patch("applications", made.AppID, `{"metadata":{`+signed+`,"labels":{"kubesphere.io/workspace":"`+other+`"}}}`),
			"a finalizer":       patch("applications", made.AppID, `{"metadata":{`+signed+`,"finalizers":["example.com/x"]}}`),
			"an owner": patch("applications", made.AppID, `{"metadata":{`+signed+
				`,"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`),
			"another author":           patch("applications", made.AppID, `{"metadata":{"annotations":{"application.kubesphere.io/req-user":"admin"}}}`),
			"content that is reviewed": patch("applicationversions", made.VersionID, `{"metadata":{`+signed+`},"spec":{"digest":"0"}}`),
			"a Secret": func() error {
				secrets := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("kubesphere-system")
				_, err := secrets.List(t.Context(), metav1.ListOptions{})
				return err
			}(),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})

	step(t, "images are of a workspace", func(t *testing.T) {
		const png = "\x89PNG\r\n\x1a\n0000"
		body, header := storeForm(t, []byte(png), obj{})
		at := storeAPI + "/workspaces/" + ws + "/attachments"
		id := decode[struct {
			ID string `json:"attachment_id"`
		}](t, author.must(t, http.StatusOK, http.MethodPost, at, body, header).body).ID
		if got := author.must(t, http.StatusOK, http.MethodGet, at+"/"+id, nil).body; !strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(png))) {
			t.Errorf("the image is %s", clip(got))
		}
		elsewhere := storeAPI + "/workspaces/" + other + "/attachments/"
		stranger.must(t, http.StatusNotFound, http.MethodGet, elsewhere+id, nil)
		stranger.must(t, http.StatusNotFound, http.MethodDelete, elsewhere+id, nil)
		author.must(t, http.StatusNotFound, http.MethodGet, at+"/"+made.VersionID, nil)
		author.must(t, http.StatusOK, http.MethodPatch, app, obj{"attachments": []string{id}})
		eventually(t, "it is named", author.has(app, id))
		author.must(t, http.StatusConflict, http.MethodDelete, at+"/"+id, nil)
		author.must(t, http.StatusOK, http.MethodPatch, app, obj{"attachments": []string{}})
		eventually(t, "it is deleted", author.is(http.StatusOK, http.MethodDelete, at+"/"+id))
	})

	step(t, "a version that is deleted at once leaves no package", func(t *testing.T) {
		body, header := storeForm(t, storeChart(t, chartName, "1.1.0"), obj{})
		next := decode[struct{ VersionID string }](t, author.must(t, http.StatusOK, http.MethodPost, app+"/versions", body, header).body).VersionID
		stored(t, storeFile+"/"+next)
		author.must(t, http.StatusOK, http.MethodDelete, app+"/versions/"+next, nil)
		isGone(t, storeKube+"/applicationversions/"+next)
		isGone(t, storeFile+"/"+next)
	})

	step(t, "it is suspended and deleted, with all that it has", func(t *testing.T) {
		author.must(t, http.StatusConflict, http.MethodDelete, app, nil)
		a.must(t, http.StatusOK, http.MethodPost, storeAPI+"/apps/"+made.AppID+"/action", obj{"state": "suspended"})
		eventually(t, "its version is suspended", author.has(version, `"state":"suspended"`))
		eventually(t, "nobody else sees it", func(ctx context.Context) error {
			r, err := stranger.do(ctx, http.MethodGet, storeAPI+"/apps", nil)
			if err == nil && strings.Contains(r.body, made.AppID) {
				err = fmt.Errorf("%s", clip(r.body))
			}
			return err
		})
		strangerSeesNothing(t)
		stored(t, storeFile+"/"+made.VersionID)
		author.must(t, http.StatusOK, http.MethodDelete, app, nil)
		for _, path := range []string{storeKube + "/applications/" + made.AppID, storeKube + "/applicationversions/" + made.VersionID,
			storeFile + "/" + made.VersionID} {
			isGone(t, path)
		}
		eventually(t, "it counts no more", func(ctx context.Context) error {
			r, err := a.do(ctx, http.MethodGet, storeAPI+"/categories/"+category, nil)
			if err == nil && strings.Contains(r.body, `"total":1`) {
				err = fmt.Errorf("%s", clip(r.body))
			}
			return err
		})
		a.must(t, http.StatusOK, http.MethodDelete, storeAPI+"/categories/"+category, nil)
	})
}
