package peer

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

const (
	// LeaseName is the Lease in which replicas keep their addresses. It comes with the installation of a hub (config/fleet/hub).
	LeaseName = "ks-fleet-hub"
	// prefix begins the annotation of a replica: what follows is its ID, and the value its address and how often it was renewed.
	prefix = "replica.fleet.kapis.dev/"
	// renewEvery is how often a replica renews its address, aliveFor how long it counts without that, and forgetAfter when others remove it.
	renewEvery, aliveFor, forgetAfter = 5 * time.Second, 20 * time.Second, 2 * time.Minute
	// replicasAtMost bounds the replicas that one connects to.
	replicasAtMost = 32
)

// Leases reads and writes Leases of this server's namespace. client-go's LeaseInterface is one.
type Leases interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// registry is what a replica knows of the others. It compares no clocks: a replica is there as long as its annotation changes.
type registry struct {
	leases Leases
	id     string
	now    func() time.Time
	renew  int
	seen   map[string]sighting
}

// sighting is a value of an annotation, and when it was seen first.
type sighting struct {
	value string
	at    time.Time
}

// register renews the address of this replica, "" to remove it, and returns those of the others that are there, by ID.
func (r *registry) register(ctx context.Context, address string) (others map[string]string, err error) {
	r.renew++
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		l, err := r.leases.Get(ctx, LeaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		l = l.DeepCopy()
		others = r.look(l.Annotations)
		if l.Annotations == nil {
			l.Annotations = map[string]string{}
		}
		if l.Annotations[prefix+r.id] = address + " " + strconv.Itoa(r.renew); address == "" {
			delete(l.Annotations, prefix+r.id)
		}
		_, err = r.leases.Update(ctx, l, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the address of this replica in the Lease %s: %w", LeaseName, err)
	}
	return others, nil
}

// look returns the replicas that are there, and removes those that have been gone for long.
func (r *registry) look(annotations map[string]string) map[string]string {
	now, others, seen := r.now(), map[string]string{}, map[string]sighting{}
	for key, value := range maps.Clone(annotations) {
		id, ours := strings.CutPrefix(key, prefix)
		if !ours || id == r.id {
			continue
		}
		s := sighting{value, now}
		if last, known := r.seen[id]; known && last.value == value {
			s = last
		}
		address, _, _ := strings.Cut(value, " ")
		_, err := netip.ParseAddrPort(address)
		switch gone := now.Sub(s.at); {
		case gone > forgetAfter:
			delete(annotations, key)
			continue
		case err == nil && gone < aliveFor && len(others) < replicasAtMost:
			others[id] = address
		}
		seen[id] = s
	}
	r.seen = seen
	return others
}
