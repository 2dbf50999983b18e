// Package loginrecord records logins and failed attempts as LoginRecords.
package loginrecord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// recordQueue bounds the records that wait to be written.
	recordQueue = 4096
	// recordTimeout bounds one write, and recordPause is how long none is tried after one that failed.
	recordTimeout = 5 * time.Second
	recordPause   = 10 * time.Second
	// recordFlush is how long Run goes on writing after its context ended.
	recordFlush = 2 * time.Second
	// alike is how long a record equal to another is left out: a script that logs in all the time leaves one record.
	alike = 10 * time.Second
	// failuresMost is how many failures of one user are recorded within failuresWindow.
	failuresMost   = 20
	failuresWindow = 10 * time.Minute
	// recordsRemembered bounds the memory for these limits.
	recordsRemembered = 16 << 10
)

// API creates login records at kube-apiserver.
type API interface {
	Create(ctx context.Context, o *iamv1beta1.LoginRecord) (*iamv1beta1.LoginRecord, error)
}

// Recorder writes LoginRecords of users who exist, in the background: no login waits for its record or fails because of it. Records
// that can't be written are dropped and counted.
type Recorder struct {
	api     API
	now     func() time.Time
	queue   chan *iamv1beta1.LoginRecord
	results *prometheus.CounterVec

	mu     sync.Mutex
	recent *recent.Counters
	failed *recent.Counters
	down   time.Time // used only by Run
}

// New returns a Recorder; metrics may be nil.
func New(api API, now func() time.Time, metrics prometheus.Registerer) (*Recorder, error) {
	r := &Recorder{
		api: api, now: now, queue: make(chan *iamv1beta1.LoginRecord, recordQueue),
		recent: recent.NewCounters(recordsRemembered), failed: recent.NewCounters(recordsRemembered),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_login_records_total", Help: "Records of logins, by what became of them."}, []string{"result"}),
	}
	if metrics != nil {
		if err := metrics.Register(r.results); err != nil {
			return nil, fmt.Errorf("register metrics of login records: %w", err)
		}
	}
	return r, nil
}

// reasonWrong is the reason of failures that are recorded one by one.
const reasonWrong = "wrong password or code"

// reasonOf returns the reason that a record gives for a failure. It contains no text that a user typed, or that a provider answered.
func reasonOf(err error) (reason string, counts bool) {
	switch {
	case err == nil:
		return "authenticated successfully", true
	case errors.Is(err, iam.ErrCredentials):
		return reasonWrong, true
	case errors.Is(err, iam.ErrLimited):
		return "too many failed attempts", true
	case errors.Is(err, iam.ErrSuspended):
		return "account suspended", true
	}
	return "", false
}

// Add records a login, or one that failed with err. It returns at once.
func (r *Recorder) Add(u *iam.User, t iamv1beta1.LoginType, provider string, o iam.Origin, err error) {
	reason, counts := reasonOf(err)
	if !counts {
		return
	}
	if !r.wanted(u, provider, o, reason, err == nil) {
		r.results.WithLabelValues("left out").Inc()
		return
	}
	select {
	case r.queue <- &iamv1beta1.LoginRecord{
		TypeMeta: metav1.TypeMeta{APIVersion: iamv1beta1.SchemeGroupVersion.String(), Kind: "LoginRecord"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: u.Name + "-", Labels: map[string]string{iamv1beta1.LabelUserReference: u.Name},
		},
		Spec: iamv1beta1.LoginRecordSpec{Type: t, Provider: provider, SourceIP: o.Source, UserAgent: o.UserAgent, Success: err == nil,
			Reason: reason},
	}:
	default:
		r.results.WithLabelValues("dropped").Inc()
	}
}

// wanted reports whether a record says something that recent ones don't.
func (r *Recorder) wanted(u *iam.User, provider string, o iam.Origin, reason string, success bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	what := recent.KeyOf(u.UID, provider, o.Source, o.UserAgent, reason)
	switch {
	case !success && r.failed.Count(recent.KeyOf(u.UID), now) >= failuresMost:
		return false
	case reason != reasonWrong && r.recent.Count(what, now) > 0:
		return false
	case !success:
		r.failed.Add(recent.KeyOf(u.UID), 1, now, failuresWindow)
	}
	r.recent.Add(what, 1, now, alike)
	return true
}

// Run writes records until ctx ends, and then for a moment the ones that are queued.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case o := <-r.queue:
			r.write(ctx, o)
		case <-ctx.Done():
			r.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

func (r *Recorder) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordFlush)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case o := <-r.queue:
			r.write(ctx, o)
		default:
			return
		}
	}
}

// write creates one record. While the API accepts none, records are dropped instead of being tried one by one.
func (r *Recorder) write(ctx context.Context, o *iamv1beta1.LoginRecord) {
	if r.now().Before(r.down) {
		r.results.WithLabelValues("dropped").Inc()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	_, err := r.api.Create(ctx, o)
	if err == nil {
		r.results.WithLabelValues("written").Inc()
		return
	}
	r.results.WithLabelValues("dropped").Inc()
	if apierrors.IsInvalid(err) {
		return // the API refuses this record only
	}
	r.down = r.now().Add(recordPause)
	klog.ErrorS(err, "Writing a login record failed; logins go on, and their records are dropped for a while", "user",
		o.Labels[iamv1beta1.LabelUserReference])
}
