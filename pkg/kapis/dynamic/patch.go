package dynamic

import (
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// missingVersion is a resourceVersion that no object has (the first stored object gets a higher one). An applied configuration with it
// creates an object, but changes none.
const missingVersion = "1"

func (o *writeRequest) patch() (any, error) {
	if isTunnel(o.info.Subresource) {
		return nil, status.NoResource()
	}
	query, err := web.Parameters(o.in, patchParams...)
	if err != nil {
		return nil, err
	}
	text, mediaType, err := readBody(o.in, typeMergePatch, typeJSON, typeJSONPatch, typeStrategicPatch, typeApplyPatch)
	if err != nil {
		return nil, err
	}
	out := outgoing{method: http.MethodPatch, path: o.path, query: query, contentType: mediaType}
	switch {
	case text == "":
		return nil, status.BadRequestf("the body is empty: send the patch")
	case text[0] == '[': // clients send a JSON patch under other names too
		out.contentType = typeJSONPatch
		return o.jsonPatch(out, text)
	case mediaType == typeJSONPatch:
		return nil, status.BadRequestf("a JSON patch is an array of operations; an object is a merge patch: send it as %s", typeMergePatch)
	case mediaType == typeJSON:
		out.contentType = typeMergePatch
	}
	return o.objectPatch(out, text)
}

// objectPatch sends a patch that looks like the object.
func (o *writeRequest) objectPatch(out outgoing, text string) (any, error) {
	patch, err := inspect(text)
	if err != nil {
		return nil, err
	}
	if err := o.checkKind(patch, false); err != nil {
		return nil, err
	}
	if err := o.checkNames(patch); err != nil {
		return nil, err
	}
	out.body = patch.text
	guarded := o.guarded()
	if o.workspace == "" && !guarded {
		return o.reply(out)
	}
	if o.workspace != "" {
		if err := o.stampPatch(out, patch); err != nil {
			return nil, err
		}
	}
	answer, err := o.locked(guarded, patch.resourceVersion.value, http.StatusConflict, func(now *state) (outgoing, error) {
		out.body = with(patch.text, quote(now.resourceVersion), "metadata", "resourceVersion")
		if guarded {
			return out, o.checkPatch(out, now)
		}
		return out, nil
	})
	if apierrors.IsNotFound(err) && out.contentType == typeApplyPatch && o.info.Subresource == "" && patch.resourceVersion.value == "" {
		return o.applyNew(out, patch.text)
	}
	return answer, err
}

// stampPatch sets the label of the workspace in a patch.
func (o *writeRequest) stampPatch(out outgoing, patch *object) error {
	if patch.directive != "" && out.contentType == typeStrategicPatch {
		return status.BadRequestf("the directive %s is not supported in a workspace: it could remove the workspace's label", patch.directive)
	}
	return o.stamp(patch)
}

// applyNew applies a configuration of an object that does not exist, or is not in the workspace. If it exists after all, the version
// makes the change fail, and the caller gets a 404.
func (o *writeRequest) applyNew(out outgoing, text string) (any, error) {
	out.body = text
	if o.guarded() {
		if err := o.checkPatch(out, nil); err != nil {
			return nil, err
		}
	}
	out.body = with(text, quote(missingVersion), "metadata", "resourceVersion")
	res, err := o.send(out)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusConflict {
		res.Close()
		return nil, apierrors.NewNotFound(o.kind.GVR.GroupResource(), o.info.Name)
	}
	return &answer{res}, nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	op, path, from string
	value          string // JSON
}

func (o *writeRequest) jsonPatch(out outgoing, text string) (any, error) {
	for e := rawjson.Array(text); e.Next(); {
		op, err := readOperation(e.Value)
		if err != nil {
			return nil, err
		}
		if err := o.checkOperation(op); err != nil {
			return nil, err
		}
	}
	out.body = text
	switch {
	case o.guarded():
		return o.guardedJSONPatch(out, text)
	case o.workspace == "":
		return o.reply(out)
	}
	now, err := o.readLive(false)
	if err != nil {
		return nil, err
	}
	out.body = o.guard(text, now, false)
	return o.reply(out)
}

// guard puts tests around the operations of a patch, with exact one for the version. The patch is applied as a whole, to one state of
// the object: so it is this object, and of this workspace both before and after.
func (o *writeRequest) guard(text string, now *state, exact bool) string {
	before, after := []string{test("/metadata/uid", now.uid)}, []string(nil)
	if exact || o.info.Subresource == "scale" { // scale has no labels: then it must be the version that was read
		before = append(before, test("/metadata/resourceVersion", now.resourceVersion))
	}
	if o.info.Subresource != "scale" && o.workspace != "" {
		label := test(pointer("metadata", "labels", workspaceLabel), o.workspace)
		before, after = append(before, label), append(after, label)
	}
	all := before
	for e := rawjson.Array(text); e.Next(); {
		all = append(all, e.Value)
	}
	return "[" + strings.Join(append(all, after...), ",") + "]"
}

func test(path, value string) string {
	return `{"op":"test","path":` + quote(path) + `,"value":` + quote(value) + `}`
}

// pointer is the JSON pointer (RFC 6901) to a member.
func pointer(steps ...string) string {
	var b strings.Builder
	for _, step := range steps {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String()
}

func readOperation(text string) (*operation, error) {
	if text[0] != '{' {
		return nil, status.BadRequestf("an operation of the JSON patch is not an object")
	}
	op, seen := &operation{}, map[string]bool{}
	for m := rawjson.Object(text); m.Next(); {
		into := (*string)(nil)
		switch m.Key {
		case "op":
			into = &op.op
		case "path":
			into = &op.path
		case "from":
			into = &op.from
		case "value":
			op.value = m.Value
		default:
			continue
		}
		if seen[m.Key] {
			return nil, status.BadRequestf("an operation of the JSON patch has %q twice", m.Key)
		}
		seen[m.Key] = true
		if into == nil {
			continue
		}
		if m.Value[0] != '"' {
			return nil, status.BadRequestf("%q in an operation of the JSON patch must be a string", m.Key)
		}
		*into = rawjson.Text(m.Value)
	}
	if !seen["op"] || !seen["path"] {
		return nil, status.BadRequestf("an operation of the JSON patch lacks %q or %q", "op", "path")
	}
	for _, p := range []string{op.path, op.from} {
		if p != "" && p[0] != '/' {
			return nil, status.BadRequestf("the path %.200q in the JSON patch must begin with a slash", p)
		}
	}
	return op, nil
}

// checkOperation refuses to change what the path of the request says about the object, and the label of its workspace where that is in
// the path.
func (o *writeRequest) checkOperation(op *operation) error {
	if err := o.checkSource(op); err != nil {
		return err
	}
	if op.op == "test" {
		return nil
	}
	fixed := map[string]string{
		"/apiVersion": o.kind.GVR.GroupVersion().String(), "/kind": o.kind.Kind, "/metadata/name": o.info.Name,
		"/metadata/namespace": o.info.Namespace,
	}
	if !o.kind.Namespaced {
		fixed["/metadata/namespace"] = ""
	}
	labels := pointer("metadata", "labels")
	if o.workspace != "" {
		fixed[labels+pointer(workspaceLabel)] = o.workspace
		if op.path == labels && (op.op == "add" || op.op == "replace") && rawjson.GetText(op.value, workspaceLabel) == o.workspace {
			return nil
		}
	}
	changed := []string{op.path}
	if op.op == "move" {
		changed = append(changed, op.from)
	}
	for _, path := range changed {
		for at, value := range fixed {
			same := path == at && (op.op == "add" || op.op == "replace") && op.value == quote(value)
			if !same && touches(path, at) {
				return status.BadRequestf(
					"the JSON patch may not change %s, nor replace what holds it (%s %.200q): the path says what it is",
					at,
					op.op,
					path,
				)
			}
		}
	}
	return nil
}

// checkSource refuses to copy, or to guess by a test, a field that no read shows: it would be shown where it is copied to.
func (o *writeRequest) checkSource(op *operation) error {
	source := op.from
	switch op.op {
	case "copy", "move":
	case "test":
		source = op.path
	default:
		return nil
	}
	if redaction.Hides(o.kind.GVR.GroupResource(), source) {
		return status.BadRequestf("the JSON patch may not %s from %.200q: something of it is not shown", op.op, source)
	}
	return nil
}

// touches reports whether one of two JSON pointers is the other, or holds it.
func touches(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
