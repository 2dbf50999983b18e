package installplan

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/hookjob"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// removalHookTime is how long an image may run before a removal, which goes on after it.
const removalHookTime = 5 * time.Minute

func noteName(plan *v1alpha1.InstallPlan) string { return "extension-removal-hook-" + string(plan.UID) }

// keep notes which image runs before what was just installed is removed.
func (h hooks) keep(ctx context.Context, want *wanted) error {
	m, err := want.archive.Metadata()
	if err != nil {
		return err
	}
	name := noteName(want.plan)
	if image := m.HookImage(actionUninstall); image != "" {
		bound, err := json.Marshal(want.request.Bound())
		if err != nil {
			return fmt.Errorf("encode what was approved for %s: %w", want.plan.Name, err)
		}
		return extensionrelease.HookNotes(h.Client, h.Live).Put(ctx, name, &hookjob.Note{Image: image, Namespace: want.namespace, Bound: bound})
	}
	if before, err := extensionrelease.HookNotes(h.Client, h.Live).Get(ctx, name); before == nil && err == nil {
		return nil
	}
	return extensionrelease.HookNotes(h.Client, h.Live).Delete(ctx, name)
}

// beforeRemoval runs the image that is to run before a plan is removed, once. However it ends, the removal goes on: the error is that of an
// interruption alone, after which it runs again.
func (h hooks) beforeRemoval(ctx context.Context, w *writer) error {
	plan := w.Object
	note, err := extensionrelease.HookNotes(h.Client, h.Live).Get(ctx, noteName(plan))
	if err == nil && (note == nil || note.Done || note.Namespace != plan.Status.TargetNamespace) {
		return nil
	}
	if err == nil {
		err = h.runBeforeRemoval(ctx, w, note)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		h.event(plan, corev1.EventTypeWarning, reasonHookFailed, "it is removed all the same: "+err.Error())
	}
	if note == nil {
		return nil
	}
	note.Done = true
	if err := extensionrelease.HookNotes(h.Client, h.Live).Put(ctx, noteName(plan), note); err != nil { // it would run again if the removal failed
		klog.ErrorS(err, "note that an image has run", "installPlan", plan.Name)
	}
	return nil
}

func (h hooks) runBeforeRemoval(ctx context.Context, w *writer, note *hookjob.Note) error {
	plan, bound := w.Object, permission.Bound{}
	if err := json.Unmarshal(note.Bound, &bound); err != nil {
		return fmt.Errorf("read what was approved for %s: %w", plan.Name, err)
	}
	is := &corev1.Namespace{}
	if err := h.Client.Get(ctx, client.ObjectKey{Name: note.Namespace}, is); err != nil {
		return err
	}
	if !isOfPlatform(is) && !runsIn(plan, is) {
		return fmt.Errorf("the namespace %s is not the one that it was installed in", is.Name)
	}
	hook := h.make(plan, note.Namespace, actionUninstall)
	hook.Image, hook.Within = note.Image, removalHookTime
	if s := &plan.Status.InstallationStatus; s.JobName != hook.Name { // whose log pages show
		s.JobName = hook.Name
		if err := w.Write(ctx); err != nil {
			return err
		}
	}
	if err := h.installers().CreateAccount(ctx, plan.Name, note.Namespace); err != nil {
		return err
	}
	return h.start(ctx, plan.Name, hook, &bound, &record{})
}
