package dynamic

import (
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

func (o *writeRequest) create() (any, error) {
	body, out, err := o.whole(http.MethodPost)
	if err != nil {
		return nil, err
	}
	if o.guarded() {
		if err := o.checkWrite(body.text, nil); err != nil {
			return nil, err
		}
	}
	out.body = body.text
	return o.reply(out)
}

func (o *writeRequest) update() (any, error) {
	body, out, err := o.whole(http.MethodPut)
	if err != nil {
		return nil, err
	}
	keep := o.hiddenMissing(body)
	guarded := o.guarded()
	if o.workspace == "" && keep == nil && !guarded {
		out.body = body.text
		return o.reply(out)
	}
	return o.locked(keep != nil || guarded, body.resourceVersion.value, http.StatusConflict, func(now *state) (outgoing, error) {
		out.body = with(now.fill(body.text, keep), quote(now.resourceVersion), "metadata", "resourceVersion")
		if guarded {
			return out, o.checkWrite(out.body, now)
		}
		return out, nil
	})
}

// whole begins a write of a whole object: it returns the body, with the label of the workspace in the path, and the request to send it
// with, which has no body yet.
func (o *writeRequest) whole(method string) (*object, outgoing, error) {
	out := outgoing{method: method, path: o.path, contentType: typeJSON}
	if isTunnel(o.info.Subresource) {
		return nil, out, status.NoResource()
	}
	var err error
	if out.query, err = web.WriteParameters(o.in); err != nil {
		return nil, out, err
	}
	body, err := o.object()
	if err == nil && o.workspace != "" {
		err = o.stamp(body)
	}
	return body, out, err
}

// object returns the body of a create or an update, after checking it against the path. What the body leaves out is filled in.
func (o *writeRequest) object() (*object, error) {
	text, _, err := readBody(o.in, typeJSON, typeYAML)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, status.BadRequestf("the body is empty: send the object")
	}
	body, err := inspect(text)
	if err != nil {
		return nil, err
	}
	if err := o.checkKind(body, o.info.Subresource == ""); err != nil {
		return nil, err
	}
	if err := o.checkNames(body); err != nil {
		return nil, err
	}
	if o.kind.Namespaced && !body.namespace.set {
		body.put(o.info.Namespace, "metadata", "namespace")
	}
	if o.info.Name != "" && !body.name.set {
		body.put(o.info.Name, "metadata", "name")
	}
	return body, nil
}

// checkKind compares the kind of a body with the path's. Sub-resources have kinds of their own (Scale, Eviction), which kube-apiserver
// compares, except for status, which is the object.
func (o *writeRequest) checkKind(body *object, required bool) error {
	gv, kind := o.kind.GVR.GroupVersion().String(), o.kind.Kind
	if sub := o.info.Subresource; sub != "" && sub != "status" {
		if strings.HasSuffix(body.kind.value, "List") {
			return status.BadRequestf("wrong resource GroupVersionKind: the body is a %.100s: send one object", body.kind.value)
		}
		return nil
	}
	if !required && !body.apiVersion.set && !body.kind.set {
		return nil
	}
	switch {
	case body.apiVersion.value == gv && body.kind.value == kind:
		return nil
	case !required && (!body.kind.set || body.kind.value == kind) && (!body.apiVersion.set || body.apiVersion.value == gv):
		return nil
	}
	return status.BadRequestf(
		"wrong resource GroupVersionKind: the body must have apiVersion %s and kind %s, it has apiVersion %.100q and kind"+
			" %.100q",
		gv,
		kind,
		body.apiVersion.value,
		body.kind.value,
	)
}

// checkNames compares name and namespace of a body with the path's.
func (o *writeRequest) checkNames(body *object) error {
	if o.info.Name != "" && body.name.set && body.name.value != o.info.Name {
		return status.BadRequestf(
			"metadata.name in the body is %.260q, in the path it is %q: they must be the same",
			body.name.value,
			o.info.Name,
		)
	}
	if !body.namespace.set {
		return nil
	}
	want := ""
	if o.kind.Namespaced {
		want = o.info.Namespace
	}
	if body.namespace.value != want || body.namespace.null {
		if want == "" {
			return status.BadRequestf("metadata.namespace in the body is %.260q, but %s are not in namespaces: leave it out", body.namespace.value,
				o.kind.GVR.GroupResource())
		}
		return status.BadRequestf(
			"metadata.namespace in the body is %.260q, in the path it is %q: they must be the same",
			body.namespace.value,
			want,
		)
	}
	return nil
}

// stamp sets the label of the workspace. A body with another one is refused: an object is not moved between workspaces by its label
// (S7).
func (o *writeRequest) stamp(body *object) error {
	if body.workspace.set && (body.workspace.null || body.workspace.value != o.workspace) {
		return status.BadRequestf("the label %s in the body is %.100q, in the path the workspace is %q: an object can't be moved to another"+
			" workspace by its label",
			workspaceLabel, body.workspace.value, o.workspace)
	}
	if !body.workspace.set {
		body.put(o.workspace, "metadata", "labels", workspaceLabel)
	}
	return nil
}
