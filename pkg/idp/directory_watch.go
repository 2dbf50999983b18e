package idp

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/informer"
)

// The label and the key of Secrets with providers.
const (
	secretSelector = "config.kubesphere.io/type=identityprovider"
	secretKey      = "configuration.yaml"
)

// Run watches the Secrets, and checks every minute whether the providers answer, until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer d.close()
	defer group.Wait()
	group.Go(func() { d.watchReach(ctx) })
	informer.Run(ctx, d.options.Secrets, metav1.ListOptions{LabelSelector: secretSelector}, informer.Handler[*corev1.Secret]{
		Set:    d.set,
		Delete: func(_, name string) { d.remove(name) },
		Synced: func() { d.synced.Store(true) },
	})
}

func (d *Directory) set(s *corev1.Secret) {
	next := define(s.Data[secretKey], "Secret "+s.Name)
	next.created = s.CreationTimestamp.Time
	d.mu.Lock()
	old := d.found[s.Name]
	if e := next.entry; e.Name == "" && old != nil { // a mistake ends no session of its users, and gives its name to no other
		e.Name, e.Disabled = old.entry.Name, old.entry.Disabled
	}
	d.open(next, old)
	d.found[s.Name] = next
	d.mu.Unlock()
	if next.entry.Fault != nil && (old == nil || old.entry.Fault == nil || old.entry.Fault.Error() != next.entry.Fault.Error()) {
		klog.ErrorS(next.entry.Fault, "An identity provider can't be used; the others are not affected", "secret", s.Name, "provider",
			next.entry.Name)
	}
	d.rebuild()
	discard(old, next)
}

func (d *Directory) remove(secret string) {
	d.mu.Lock()
	old := d.found[secret]
	delete(d.found, secret)
	d.mu.Unlock()
	d.rebuild()
	discard(old, nil)
}

// close closes the providers.
func (d *Directory) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.file {
		discard(def, nil)
	}
	for _, def := range d.found {
		discard(def, nil)
	}
}
