package dynamic

import (
	"context"
	stdjson "encoding/json"
	"net/http"
	"net/url"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// Guard refuses writes that give away more than their writer holds (S6). admission.Guard is one. The webhooks of ks-controller-manager
// check the same again, where they are installed; nothing here relies on them (S60).
type Guard interface {
	// Guards reports whether writes of a kind are checked.
	Guards(gr schema.GroupResource) bool
	// Check returns the refusal of a write, or nil.
	Check(ctx context.Context, w *admission.Write) error
}

// guarded reports whether the write is checked. Writes of a sub-resource grant nothing, and send nothing elsewhere.
func (o *writeRequest) guarded() bool {
	return o.info.Subresource == "" && (o.grants() || redaction.IsSent(o.kind.GVR.GroupResource()))
}

func (o *writeRequest) grants() bool {
	return o.Guard != nil && o.Guard.Guards(o.kind.GVR.GroupResource())
}

// checksDeletions reports whether a deletion is checked.
func (o *writeRequest) checksDeletions() bool { return o.info.Subresource == "" && o.grants() }

// checkWrite makes the escalation check of the object as it will be; old is what it is now, nil for none.
func (o *writeRequest) checkWrite(object string, old *state) error {
	ctx := o.in.Context()
	w := &admission.Write{
		By: request.UserFrom(ctx), Verb: "create", GVR: o.kind.GVR, Namespace: o.info.Namespace, Name: o.info.Name, Object: []byte(object),
	}
	if old != nil {
		w.Verb, w.Old = "update", []byte(old.raw.Unredacted())
		if err := o.checkSent(w); err != nil {
			return err
		}
	}
	if !o.grants() {
		return nil
	}
	return o.checked.check(o.Guard, o.in, w)
}

// checkedWrites are the writes of a request of which the escalation check was made, until it is known whether they were made.
type checkedWrites struct {
	writes []*admission.Write
	// dryRun says that the body of a deletion asks for a dry run.
	dryRun bool
}

func (c *checkedWrites) check(by Guard, in *http.Request, w *admission.Write) error {
	w.DryRun = c.dryRun || in.URL.Query().Has("dryRun")
	c.writes = append(c.writes, w)
	return by.Check(in.Context(), w)
}

// made tells the check that kube-apiserver has done what it allowed.
func (c *checkedWrites) made(out any) {
	if a, ok := out.(*answer); !ok || a.StatusCode >= http.StatusMultipleChoices {
		return
	}
	for _, w := range c.writes {
		if !w.DryRun {
			w.Made()
		}
	}
}

// checkSent refuses an update that sends a credential elsewhere. ks-controller-manager's webhook refuses it too, where it is
// installed.
func (o *writeRequest) checkSent(w *admission.Write) error {
	gr := o.kind.GVR.GroupResource()
	if !redaction.IsSent(gr) {
		return nil
	}
	var old, now map[string]any
	if json.Unmarshal(w.Old, &old) != nil || json.Unmarshal(w.Object, &now) != nil {
		return status.BadRequestf("the object can't be read: send a JSON object")
	}
	if err := redaction.CheckSent(gr, old, now); err != nil {
		return apierrors.NewForbidden(gr, o.info.Name, err)
	}
	return nil
}

// checkDeletion makes the escalation check of the deletion.
func (o *writeRequest) checkDeletion(old *state) error {
	return o.checkDeletionOf([]byte(old.raw.Unredacted()))
}

func (o *writeRequest) checkDeletionOf(old []byte) error {
	return o.checked.check(o.Guard, o.in, &admission.Write{
		By: request.UserFrom(o.in.Context()), Verb: "delete", GVR: o.kind.GVR, Namespace: o.info.Namespace, Name: o.info.Name, Old: old,
	})
}

// checkCollection makes the escalation check for each object that the selectors match, read as the caller. An object that is created
// meanwhile is checked by the webhook.
func (o *writeRequest) checkCollection(selectors url.Values) error {
	res, err := o.send(outgoing{method: http.MethodGet, path: o.path, query: selectors})
	if err != nil {
		return err
	}
	raw, err := readAnswer(res)
	if err != nil {
		return err
	}
	var list struct {
		Items []stdjson.RawMessage `json:"items"`
	}
	if err := json.Unmarshal([]byte(raw.Unredacted()), &list); err != nil {
		return status.Errorf(http.StatusBadGateway, "kube-apiserver's answer is no list: what is to be deleted can't be looked at")
	}
	for _, item := range list.Items {
		if err := o.checkDeletionOf(item); err != nil {
			return err
		}
	}
	return nil
}

// checkPatch has kube-apiserver make the patch as a dry run, as the caller, and makes the escalation check of the outcome. The patch
// must carry a precondition, so that the real write has the same outcome.
func (o *writeRequest) checkPatch(out outgoing, old *state) error {
	out.query = caller.DryRun(out.query)
	res, err := o.send(out)
	if err != nil {
		return err
	}
	object, err := readAnswer(res)
	if err != nil {
		return err
	}
	return o.checkWrite(object.Unredacted(), old)
}

// guardedJSONPatch sends a JSON patch whose outcome was checked. Tests in the patch bind it to the state that was checked; where
// another write comes between, all of it is repeated.
func (o *writeRequest) guardedJSONPatch(out outgoing, text string) (any, error) {
	return o.locked(true, "", http.StatusUnprocessableEntity, func(now *state) (outgoing, error) {
		out.body = o.guard(text, now, true)
		return out, o.checkPatch(out, now)
	})
}
