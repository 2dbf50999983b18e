package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	ri "helm.sh/helm/v4/pkg/release"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// Pinned keeps the records of a release to what they were when they were read first, and to what the operation itself wrote. Whoever
// may write Secrets in the namespace may write records, also while an operation runs, and the SDK reads them again for each step: what was
// checked would not be what is applied as the user.
type Pinned struct {
	driver.Driver
	// Release is the name of the release, and Namespace is where it is. The SDK takes both from records, too, to tell whose an object is.
	Release, Namespace string

	mu sync.Mutex
	// pins are what each revision was; nil before they were read.
	pins map[int]pin
}

// pin is what a revision is held to.
type pin struct{ digest, status string }

func pinOf(r *release.Release) pin { return pin{Digest(r), string(r.Info.Status)} }

// Digest identifies what a revision can do to a cluster: what it applies, and the hooks that it runs.
func Digest(r *release.Release) string {
	hooks := make([]release.Hook, 0, len(r.Hooks))
	for _, h := range r.Hooks {
		if h != nil {
			static := *h
			static.LastRun = release.HookExecution{}
			hooks = append(hooks, static)
		}
	}
	text, err := json.Marshal([]any{r.Version, r.Manifest, hooks})
	if err != nil { // texts and numbers have a JSON text
		panic(fmt.Sprintf("encode a record: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (d *Pinned) changed() error {
	return &helm.Error{Reason: helm.ReasonInvalid,
		Message: fmt.Sprintf("the record of the release %s was changed by somebody else", d.Release)}
}

// record returns a record of this release, whatever it says of itself.
func (d *Pinned) record(r ri.Releaser) (*release.Release, error) {
	rel, ok := r.(*release.Release)
	switch {
	case !ok || rel == nil || rel.Info == nil, rel.Name != d.Release || rel.Namespace != d.Namespace:
		return nil, d.changed()
	}
	return rel, nil
}

// all returns the records, as they have been since they were read first.
func (d *Pinned) all() ([]*release.Release, error) {
	found, err := d.Driver.Query(map[string]string{"name": d.Release, "owner": "helm"})
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := make(map[int]pin, len(found))
	out := make([]*release.Release, 0, len(found))
	for _, f := range found {
		rel, err := d.record(f)
		if err != nil {
			return nil, err
		}
		if _, twice := now[rel.Version]; twice {
			return nil, d.changed()
		}
		now[rel.Version] = pinOf(rel)
		out = append(out, rel)
	}
	if d.pins == nil {
		d.pins = now
	}
	if len(now) != len(d.pins) {
		return nil, d.changed()
	}
	for version, is := range now {
		if d.pins[version] != is {
			return nil, d.changed()
		}
	}
	return out, nil
}

// filter returns the records that is reports.
func (d *Pinned) filter(is func(*release.Release) bool) ([]ri.Releaser, error) {
	all, err := d.all()
	if err != nil {
		return nil, err
	}
	var out []ri.Releaser
	for _, rel := range all {
		if is(rel) {
			out = append(out, rel)
		}
	}
	return out, nil
}

// Query implements driver.Queryor. A status is that of the record, and not the one of the label.
func (d *Pinned) Query(labels map[string]string) ([]ri.Releaser, error) {
	status, asked := labels["status"]
	out, err := d.filter(func(rel *release.Release) bool { return !asked || string(rel.Info.Status) == status })
	if err == nil && len(out) == 0 {
		err = driver.ErrReleaseNotFound
	}
	return out, err
}

// List implements driver.Queryor.
func (d *Pinned) List(is func(ri.Releaser) bool) ([]ri.Releaser, error) {
	return d.filter(func(rel *release.Release) bool { return is(rel) })
}

// Get implements driver.Queryor.
func (d *Pinned) Get(key string) (ri.Releaser, error) {
	out, err := d.filter(func(rel *release.Release) bool { return d.key(rel.Version) == key })
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return out[0], nil
}

func (d *Pinned) key(version int) string {
	return fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, d.Release, version)
}

// Create implements driver.Creator.
func (d *Pinned) Create(key string, r ri.Releaser) error {
	return d.write(key, r, d.Driver.Create)
}

// Update implements driver.Updator.
func (d *Pinned) Update(key string, r ri.Releaser) error {
	return d.write(key, r, d.Driver.Update)
}

func (d *Pinned) write(key string, r ri.Releaser, by func(string, ri.Releaser) error) error {
	rel, err := d.record(r)
	if err != nil {
		return err
	}
	if err := by(key, rel); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pins == nil {
		d.pins = map[int]pin{}
	}
	d.pins[rel.Version] = pinOf(rel)
	return nil
}

// Delete implements driver.Deletor.
func (d *Pinned) Delete(key string) (ri.Releaser, error) {
	r, err := d.Driver.Delete(key)
	if err != nil {
		return r, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for version := range d.pins {
		if d.key(version) == key {
			delete(d.pins, version)
		}
	}
	return r, nil
}
