package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
)

// reservationTimeout is how long a reservation waits for its object. An admitted object is written, or given up, within the 10 seconds
// that other webhooks have by default.
const reservationTimeout = 30 * time.Second

// reservations is the controller's knowledge of a quota besides its status: which part of the total is reserved, and since when.
//
// The total in a status is the use of the namespaces, which the controller writes, plus what was reserved since, which the webhook
// adds. So the difference between the total and the namespaces' sum is reserved. A reservation ends when as much arrives, or when
// nothing arrives for too long.
type reservations struct {
	reserved []reservation // oldest first
	// seen is the newest arrival of each kind that was taken into account.
	seen map[schema.GroupResource]uint64
	// selected are the namespaces whose arrivals end reservations: other namespaces were added with all that they use.
	selected map[string]bool
}

type reservation struct {
	at      time.Time
	amounts corev1.ResourceList
}

// settle returns the reservations after reading the status and the arrivals. l is not changed, since the write may fail.
func (l *reservations) settle(s *quotav1alpha2.ResourceQuotaStatus, came corev1.ResourceList, now time.Time) []reservation {
	kept := make([]reservation, 0, len(l.reserved)+1)
	known := corev1.ResourceList{}
	for _, r := range l.reserved {
		known = quota.Add(known, r.amounts)
		kept = append(kept, reservation{r.at, r.amounts.DeepCopy()})
	}
	fresh, returned := corev1.ResourceList{}, corev1.ResourceList{}
	for name, total := range s.Total.Used {
		more := total.DeepCopy()
		for i := range s.Namespaces {
			more.Sub(s.Namespaces[i].Used[name])
		}
		more.Sub(known[name])
		switch more.Sign() {
		case 1:
			fresh[name] = more
		case -1:
			more.Neg()
			returned[name] = more
		}
	}
	for i := len(kept) - 1; i >= 0; i-- { // the webhook returned what it reserved last
		take(kept[i].amounts, returned)
	}
	if len(fresh) > 0 {
		kept = append(kept, reservation{now, fresh})
	}
	came = came.DeepCopy()
	out := kept[:0]
	for _, r := range kept {
		if take(r.amounts, came); len(r.amounts) > 0 && now.Sub(r.at) < reservationTimeout {
			out = append(out, r)
		}
	}
	return out
}

// take subtracts from both from and amounts as much as both have.
func take(from, amounts corev1.ResourceList) {
	for name, have := range from {
		want, ok := amounts[name]
		if !ok {
			continue
		}
		if have.Cmp(want) <= 0 {
			delete(from, name)
			want.Sub(have)
			amounts[name] = want
			continue
		}
		have.Sub(want)
		from[name] = have
		delete(amounts, name)
	}
}

// expires returns when the oldest reservation expires; 0 if there is none.
func (l *reservations) expires(now time.Time) time.Duration {
	if len(l.reserved) == 0 {
		return 0
	}
	return max(reservationTimeout-now.Sub(l.reserved[0].at), time.Millisecond)
}
