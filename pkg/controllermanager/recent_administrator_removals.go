package controllermanager

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/admission"
)

const (
	// administratorEndsName is the ConfigMap that the replicas share, in Namespace.
	administratorEndsName = "ks-controller-manager-administrators"
	administratorEndsKey  = "ends"
)

// administratorEnds are the admission.Ends of all replicas: they are in a ConfigMap, whose version says whether another replica has added
// one since it was read.
type administratorEnds struct {
	// live reads without the cache, which may lag.
	live   client.Reader
	client client.Client
	now    func() time.Time
}

// Add implements admission.Ends.
func (a *administratorEnds) Add(ctx context.Context, ends []string, allowed func(counts map[string]bool) error) error {
	for {
		stored, until, err := a.read(ctx)
		if err != nil {
			return err
		}
		counts := make(map[string]bool, len(until))
		for end := range until {
			counts[end] = true
		}
		if err := allowed(counts); err != nil || len(ends) == 0 {
			return err
		}
		for _, end := range ends {
			until[end] = a.now().Add(admission.EndsFor)
		}
		if err = a.write(ctx, stored, until); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// read returns the ConfigMap and the ends in it that count. Whatever can't be read there, or is of no clock near this one, counts for
// nothing: only who may write in Namespace wrote it.
func (a *administratorEnds) read(ctx context.Context) (*corev1.ConfigMap, map[string]time.Time, error) {
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: administratorEndsName}}
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(stored), stored); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("see which administrators' ends were allowed a moment ago: %w", err)
	}
	var all map[string]time.Time
	if json.Unmarshal([]byte(stored.Data[administratorEndsKey]), &all) != nil {
		all = nil
	}
	until := map[string]time.Time{}
	for end, t := range all {
		if left := t.Sub(a.now()); left > 0 && left <= 2*admission.EndsFor {
			until[end] = t
		}
	}
	return stored, until, nil
}

// write creates the ConfigMap, or updates the version that was read.
func (a *administratorEnds) write(ctx context.Context, stored *corev1.ConfigMap, until map[string]time.Time) error {
	text, err := json.Marshal(until)
	if err != nil {
		return fmt.Errorf("encode which administrators' ends were allowed: %w", err)
	}
	stored.Data = map[string]string{administratorEndsKey: string(text)}
	if stored.ResourceVersion == "" {
		err = a.client.Create(ctx, stored)
	} else {
		err = a.client.Update(ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("note for the other replicas that an administrator's end was allowed: %w", err)
	}
	return nil
}
