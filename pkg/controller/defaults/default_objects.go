// Package defaults makes the roles, bindings, templates and workspaces that every installation has, in a member of a fleet: what is applied
// there to join has none of them, since kubectl can't apply an object together with its kind.
package defaults

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	manifests "kapis.dev/ks-apiserver/config"
)

const (
	// owner is the owner of fields that hack/install.sh uses, too.
	owner = "ks-apiserver-install"
	// tryEvery is how long a failure is left alone: definitions and webhooks may come later.
	tryEvery = 2 * time.Second
)

// sources are the files, and folders of files, with the objects.
var sources = []string{"roles", "install/workspace.yaml"}

// Runnable makes them after each start. Those that say who has a role are made once in the life of an installation (made_once.go).
type Runnable struct {
	// Client writes, and Live reads without the cache.
	Client client.Client
	Live   client.Reader
	// Namespace is the namespace of the note of what was made once.
	Namespace string
}

// NeedLeaderElection returns true, so that one replica does it.
func (r *Runnable) NeedLeaderElection() bool { return true }

// Start makes what is missing, and brings up to date the roles and templates that are there, until all is done or ctx ends.
func (r *Runnable) Start(ctx context.Context) error {
	objects, err := Objects()
	if err != nil {
		return err
	}
	for told := ""; ; {
		err := r.apply(ctx, objects)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			klog.ErrorS(err, "The default roles are not all there yet; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tryEvery):
		}
	}
}

func (r *Runnable) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	note, err := r.note(ctx, objects)
	if err != nil {
		return err
	}
	for _, o := range objects {
		// Create and Apply write the answer into what they are given.
		if o := o.DeepCopy(); isMadeOnce(o) {
			err = r.makeOnce(ctx, note, o)
		} else {
			err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(owner), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("make the %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// Objects returns the objects, each with the label of what is this project's.
func Objects() (out []*unstructured.Unstructured, err error) {
	for _, source := range sources {
		err := fs.WalkDir(manifests.Files, source, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Base(file) == "kustomization.yaml" {
				return err
			}
			raw, err := manifests.Files.ReadFile(file)
			if err != nil {
				return err
			}
			for doc := range strings.SplitSeq("\n"+string(raw), "\n---\n") {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
					return fmt.Errorf("read config/%s: %w", file, err)
				}
				if o.GetKind() == "" || o.GetKind() == "WorkspaceTemplate" { // a member has workspaces only
					continue
				}
				labels := o.GetLabels()
				if labels == nil {
					labels = map[string]string{}
				}
				labels["app.kubernetes.io/part-of"] = "ks-apiserver"
				o.SetLabels(labels)
				out = append(out, o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
